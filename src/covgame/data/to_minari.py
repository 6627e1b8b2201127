"""Write the episodes of a run as a Minari dataset.

The HDF5 file has a group per episode. It is written with h5py's low-level interface, which takes
0.9 ms an episode; the high-level interface takes 1.3 ms and Minari's own writer 2 ms.
"""

from __future__ import annotations

import json
import os
import re
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

import covgame
from covgame.data.minari import DATASET_ID, MAIN, METADATA, datasets_root
from covgame.data.recording import Batch, Parts, Recording, Values
from covgame.errors import BadInput, MissingExtra
from covgame.storage.trust import code_named
from covgame.types import END

VERSION = "0.5.4"
"""Of the format: the first Minari that reads images without JPEG."""

MOST_LABELS = 10_000
"""Minari parses its metadata often, so longer lists of labels are left out."""

NAMESPACE = "namespace_metadata.json"

METADATA_BLOCK = 2**20
"""Bytes that HDF5 allocates at once for groups; with its default of 2 KB, writing takes 1.5 times
as long."""


def find_place(out: str | Path) -> tuple[Path, str, str]:
    """(folder, dataset id, call that loads it) of what ``--out`` names: a Minari id, or a path."""
    text = os.fspath(out)
    if isinstance(out, Path) or text.startswith((".", "~", os.sep)) or Path(text).is_absolute():
        path = Path(text).expanduser()
        if not re.fullmatch(r"[-_\w]+-v\d+", path.name):
            raise BadInput(
                f"{text}: a Minari dataset has a version in its name, so say {text.rstrip('/')}-v0"
            )
        return path, path.name, f'minari.MinariDataset("{path / "data"}")'
    if not DATASET_ID.fullmatch(text) or "//" in text:
        raise BadInput(
            f"{text!r} is not a Minari id like group/name-v0; a path begins with ./, / or ~"
        )
    return datasets_root() / text, text, f'minari.load_dataset("{text}")'


def enter_namespaces(place: Path, dataset_id: str) -> None:
    """Minari lists a group of datasets only if it has a file of its own."""
    folder = place
    for _ in dataset_id.split("/")[1:]:
        folder = folder.parent
        if not (folder / NAMESPACE).exists():
            (folder / NAMESPACE).write_text("{}", encoding="utf-8")


# ----------------------------------------------------------------------------------- episodes


class _Draft:
    """The file that HDF5 writes to.

    HDF5 does not survive a failed write: on a full disk it crashes the process. After an error this
    file accepts writes without effect, and ``check`` raises the error.
    """

    def __init__(self, file: FileIO) -> None:
        self.file = file
        self.error: OSError | None = None
        self.readinto, self.seek, self.tell = file.readinto, file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        return self.file.read(size) or b""

    def write(self, content: Any) -> int:
        rest = memoryview(content)
        try:
            while rest and self.error is None:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            self.error = error
        return len(content)

    def truncate(self, size: int) -> int:
        try:
            return self.file.truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size

    def flush(self) -> None:
        """Nothing is buffered."""

    def check(self) -> None:
        """Raise what went wrong."""
        if self.error is not None:
            raise self.error


Tree = Values | dict[str, Any]
"""The rows of many episodes: an array, or the parts of a Dict or Tuple by name."""


class _EpisodeWriter:
    """Writes batches of episodes, a group for each."""

    def __init__(self, recording: Recording, file: Any, draft: _Draft) -> None:
        from h5py import h5a, h5d, h5g, h5o, h5s, h5t

        self.h5a, self.h5d, self.h5g, self.h5o, self.h5s, self.h5t = h5a, h5d, h5g, h5o, h5s, h5t
        self.recording, self.file, self.draft = recording, file, draft
        self.types: dict[Any, Any] = {}
        self.scalar = h5s.create(h5s.SCALAR)
        self.no_infos = h5g.create(file, None)  # every episode links to this empty group
        self.flags: dict[tuple[int, bool], Any] = {}
        self.has_end = False  # whether an episode ended where the model shows no state
        self.longest_text, self.characters = 1, set[str]()

    def add(self, batch: Batch) -> None:
        """Write the episodes of a batch."""
        recording = self.recording
        seen, last = recording.observed(batch), recording.observed_last(batch)
        self._note(batch, seen, last)
        observations = self._joined(batch, seen, last, "observation")
        actions, rewards = recording.acted(batch), batch.column("reward")
        terminated, seeds = batch.terminated.tolist(), batch.seeds
        rows = zip(batch.ends.tolist(), batch.lengths.tolist(), strict=True)
        for place, (end, length) in enumerate(rows):
            steps = slice(end + 1 - length, end + 1)
            group = self.h5g.create(self.file, b"episode_%d" % (recording.episodes + place))
            self._write_attribute(group, b"id", recording.episodes + place)
            self._write_attribute(group, b"total_steps", length)
            if seeds is not None:
                self._write_attribute(group, b"seed", seeds[place])
            # Observations have one row more an episode than steps.
            shown = slice(steps.start + place, steps.stop + place + 1)
            self._write(group, b"observations", observations, shown)
            self._write(group, b"actions", actions, steps)
            self._write(group, b"rewards", rewards, steps)
            self._link_flags(group, b"terminations", length, last=terminated[place])
            self._link_flags(group, b"truncations", length, last=not terminated[place])
            self.h5o.link(self.no_infos, group, b"infos")
            self.draft.check()

    def _write_attribute(self, group: Any, name: bytes, value: int) -> None:
        attribute = self.h5a.create(group, name, self.h5t.NATIVE_INT64, self.scalar)
        attribute.write(np.array(value, dtype=np.int64))

    def _write(self, group: Any, name: bytes, tree: Tree, rows: slice) -> None:
        if isinstance(tree, dict):
            parts = self.h5g.create(group, name)
            for part, values in tree.items():
                self._write(parts, part.encode(), values, rows)
        else:
            self._write_array(group, name, tree[rows])

    def _write_array(self, group: Any, name: bytes | None, values: Values) -> Any:
        kind = self.types.get(values.dtype)
        if kind is None:
            kind = self.types[values.dtype] = self.h5t.py_create(values.dtype, logical=True)
        dataset = self.h5d.create(group, name, kind, self.h5s.create_simple(values.shape))
        dataset.write(self.h5s.ALL, self.h5s.ALL, np.ascontiguousarray(values))
        return dataset

    def _link_flags(self, group: Any, name: bytes, length: int, *, last: bool) -> None:
        """Link "false ... false" or "false ... true", which episodes of one length share."""
        flags = self.flags.get((length, last))
        if flags is None:
            values = np.zeros(length, dtype=np.bool_)
            values[-1] = last
            flags = self.flags[length, last] = self._write_array(self.file, None, values)
        self.h5o.link(flags, group, name)

    def _note(self, batch: Batch, *seen: Parts) -> None:
        """Collect what the metadata say of all episodes."""
        self.has_end |= bool((batch.column("next_state")[batch.ends] == END).any())
        for texts in seen:
            if isinstance(texts, list):
                self.longest_text = max(self.longest_text, *(len(text) for text in texts))
                self.characters.update(*texts)

    def _joined(self, batch: Batch, inside: Parts, after: Parts, where: str) -> Tree:
        """Observations of steps and of ends, in the order in which they were seen."""
        if isinstance(inside, list):
            inside, after = _as_bytes(inside), _as_bytes(after)
            width = max(inside.dtype.itemsize, after.dtype.itemsize)
            inside, after = inside.astype(f"S{width}"), after.astype(f"S{width}")
        if isinstance(inside, tuple) and isinstance(after, tuple):
            inside, after = (
                {f"_index_{i}": part for i, part in enumerate(parts)} for parts in (inside, after)
            )
        if isinstance(inside, dict) and isinstance(after, dict):
            for name in inside:
                if not name or "/" in name or name == ".":
                    raise BadInput(
                        f"the part {name!r} of the {where}s in {self.recording.folder.path} has a "
                        "name that HDF5, and so Minari, cannot take"
                    )
            return {
                name: self._joined(batch, part, after[name], f"{where} {name}")
                for name, part in inside.items()
            }
        assert isinstance(inside, np.ndarray) and isinstance(after, np.ndarray)  # noqa: S101, PT018
        return batch.with_last(inside, after)


def _as_bytes(texts: Any) -> Values:
    return np.array([text.encode() for text in texts], dtype=np.bytes_)


def write_minari(recording: Recording, draft: Path, dataset_id: str) -> None:
    """Write the dataset into a folder."""
    try:
        h5py = import_module("h5py")
        serialize = import_module("minari.serialization").serialize_space
    except ImportError:
        raise MissingExtra("minari", "exporting to Minari") from None
    data = draft / "data"
    data.mkdir(parents=True)
    with (data / MAIN).open("w+b", buffering=0) as opened:
        file = _Draft(opened)
        try:
            with h5py.File(file, "w", meta_block_size=METADATA_BLOCK) as hdf5:
                writer = _EpisodeWriter(recording, hdf5.id, file)
                for batch in recording.batches():
                    writer.add(batch)
        finally:
            file.check()  # the cause of whatever HDF5 raised
    about = _metadata(recording, writer, dataset_id)
    about["observation_space"] = serialize(_observation_space(recording, writer))
    about["action_space"] = serialize(_action_space(recording))
    about["dataset_size"] = round((data / MAIN).stat().st_size / 1e6, 1)
    (data / METADATA).write_text(json.dumps(about, indent=1), encoding="utf-8")


# ----------------------------------------------------------------------------------- metadata


def _metadata(recording: Recording, writer: _EpisodeWriter, dataset_id: str) -> dict[str, Any]:
    manifest, shape = recording.folder.config, recording.shape
    command, environment = manifest.get("command"), manifest.get("environment")
    states = actions = None
    if shape.states <= MOST_LABELS:
        states, actions = recording.state_labels(), recording.action_labels()
    ends_outside = writer.has_end and not recording.has_observations
    about: dict[str, Any] = {
        "total_episodes": recording.episodes,
        "total_steps": recording.steps,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "dataset_id": dataset_id,
        "minari_version": VERSION,
        "algorithm_name": f"covgame {command}",
        "description": f"Episodes of covgame {command} on {environment}, "
        f"{shape.horizon} stages each at most, seed {manifest.get('seed')}.",
        "covgame": {
            "version": covgame.__version__,
            "environment": environment,
            "horizon": shape.horizon,
            "observations": "kept" if recording.has_observations else "numbers of states",
            "no_state": shape.states if ends_outside else None,
            "states": states,
            "actions": actions,
        },
    }
    spec = _env_spec(recording)
    return about if spec is None else {**about, "env_spec": spec}


def _observation_space(recording: Recording, writer: _EpisodeWriter) -> Any:
    from gymnasium import spaces

    if not recording.has_observations:
        return spaces.Discrete(recording.shape.states + writer.has_end)
    if recording.observation_space is None:  # kept as text
        recording.remarks.append(
            "the environment declares no observation space that covgame can store, so observations "
            "are JSON text"
        )
        return spaces.Text(writer.longest_text, charset="".join(sorted(writer.characters)))
    return recording.observation_space


def _action_space(recording: Recording) -> Any:
    from gymnasium import spaces

    if recording.action_space is None:
        return spaces.Discrete(recording.shape.actions)
    return recording.action_space


def _env_spec(recording: Recording) -> str | None:
    """How Gymnasium makes the environment again, for ``recover_environment``."""
    manifest = recording.folder.config
    name = str(manifest.get("environment"))
    if not name.startswith("gym:") or not manifest.get("by_name", True):
        return None
    if code_named(manifest):
        recording.remarks.append(f"Minari cannot recover {name}, which names code to be imported")
        return None
    from covgame.sources.gymnasium_envs import gym_factory

    try:
        env = gym_factory(name.removeprefix("gym:"))()
        spec = env.spec
        env.close()
        spec.max_episode_steps = recording.shape.horizon  # an episode of the run had no more
        text: str = spec.to_json()
    except (BadInput, TypeError, ValueError) as error:
        recording.remarks.append(f"{name} cannot be recovered by Minari: {error}")
        return None
    return text
