"""Episodes as a Minari dataset: its HDF5 layout and its metadata, without Minari itself.

Minari's own writer takes 2 ms an episode, in HDF5; its Arrow layout has two files for each. What
``minari.load_dataset`` reads is a group per episode, and ``hdf5_groups.py`` writes these quickly.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import covgame
from covgame.data.hdf5_groups import LONGEST_NAME, GroupsFile, Tree, Values
from covgame.data.recording import Batch, Parts, Recording
from covgame.errors import BadInput
from covgame.store.folder import MANIFEST
from covgame.store.trust import code_named
from covgame.types import END, IntArray

VERSION = "0.5.4"
"""Of the format: the first that reads pictures as they are, without JPEG."""

ID = re.compile(r"(?:[-_\w][-_\w/]*[-_\w]/|[-_\w]/)?[-_\w]+-v\d+")
MOST_LABELS = 10_000
"""Minari reads its metadata again and again, so that a book of labels has no place in it."""

NAMESPACE = "namespace_metadata.json"


def find_place(out: str | Path) -> tuple[Path, str]:
    """(folder, dataset id) of what ``--out`` names: an id of Minari's, or a path."""
    text = os.fspath(out)
    if isinstance(out, Path) or text.startswith((".", "~", os.sep)) or Path(text).is_absolute():
        path = Path(text).expanduser()
        if not re.fullmatch(r"[-_\w]+-v\d+", path.name):
            raise BadInput(
                f"{text}: a Minari dataset has a version in its name, so say {text.rstrip('/')}-v0"
            )
        return path, path.name
    if not ID.fullmatch(text) or "//" in text:
        raise BadInput(
            f"{text!r} is not a Minari id like group/name-v0; a path begins with ./, / or ~"
        )
    return _root() / text, text


def _root() -> Path:
    """Where Minari keeps its datasets."""
    named = os.environ.get("MINARI_DATASETS_PATH")
    return Path(named) if named is not None else Path.home() / ".minari" / "datasets"


def loading(place: Path, dataset_id: str) -> str:
    """How the dataset is loaded."""
    if place == _root() / dataset_id:
        return f'minari.load_dataset("{dataset_id}")'
    return f'minari.MinariDataset("{place / "data"}")'


def enter_namespaces(place: Path, dataset_id: str) -> None:
    """Minari lists a group of datasets only if it has a file of its own."""
    folder = place
    for _ in dataset_id.split("/")[1:]:
        folder = folder.parent
        if not (folder / NAMESPACE).exists():
            (folder / NAMESPACE).write_text("{}", encoding="utf-8")


# ----------------------------------------------------------------------------------- episodes


class _Writer:
    """Batches of episodes on their way into the file."""

    def __init__(self, recording: Recording, file: GroupsFile) -> None:
        self.recording, self.file = recording, file
        self.no_infos = file.shared_group()
        self.flags: dict[bool, IntArray] = {}
        for last in (False, True):
            self.flags[last] = np.zeros(recording.shape.horizon + 1, dtype=np.int64)
        self.has_end = False  # whether an episode ended where the model shows no state
        self.longest_text, self.characters = 1, set[str]()

    def add(self, batch: Batch) -> None:
        lengths, recording = batch.lengths, self.recording
        seen, last = recording.observed(batch), recording.observed_last(batch)
        self._look_at(batch, seen, last)
        tree: dict[str, Tree] = {
            "observations": self._joined(batch, seen, last, "observation"),
            "actions": recording.acted(batch),
            "rewards": batch.column("reward"),
        }
        rows = {"observations": lengths + 1, "actions": lengths, "rewards": lengths}
        yes, no = (self._flags(lengths, last=last) for last in (True, False))
        links = {
            "terminations": np.where(batch.terminated, yes, no),
            "truncations": np.where(batch.terminated, no, yes),
            "infos": np.full(len(lengths), self.no_infos),
        }
        numbers = recording.episodes + np.arange(len(lengths))
        attributes = {"id": numbers, "total_steps": lengths}
        if batch.seeds is not None:
            attributes["seed"] = batch.seeds
        self.file.add(tree, rows, links, attributes)

    def _flags(self, lengths: IntArray, *, last: bool) -> IntArray:
        """Addresses of "false ... false" or "false ... true", which episodes share by length."""
        known = self.flags[last]
        for length in np.unique(lengths[known[lengths] == 0]).tolist():
            values = np.zeros(length, dtype=np.bool_)
            values[-1] = last
            known[length] = self.file.shared_array(values)
        found: IntArray = known[lengths]
        return found

    def _look_at(self, batch: Batch, *seen: Parts) -> None:
        """What the metadata have to say of all episodes."""
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
            pairs = list(zip(inside, after, strict=True))
            return {
                f"_index_{i}": self._joined(batch, *pair, f"{where} {i}")
                for i, pair in enumerate(pairs)
            }
        if isinstance(inside, dict) and isinstance(after, dict):
            _check_names(inside, where, self.recording)
            return {
                name: self._joined(batch, part, after[name], f"{where} {name}")
                for name, part in inside.items()
            }
        assert isinstance(inside, np.ndarray) and isinstance(after, np.ndarray)  # noqa: S101, PT018
        return batch.with_last(inside, after)


def _as_bytes(texts: Any) -> Values:
    return np.array([text.encode() for text in texts], dtype=np.bytes_)


def _check_names(parts: Iterable[str], where: str, recording: Recording) -> None:
    for name in parts:
        if not name or "/" in name or name == "." or len(name.encode()) > LONGEST_NAME:
            raise BadInput(
                f"the part {name!r} of the {where}s in {recording.folder.path} has a name that "
                "HDF5, and so Minari, cannot take"
            )


def write_minari(recording: Recording, draft: Path, dataset_id: str) -> None:
    """Write the dataset into a folder."""
    data = draft / "data"
    data.mkdir(parents=True)
    path = data / "main_data.hdf5"
    with path.open("wb") as opened:
        writer = _Writer(recording, GroupsFile(opened))
        for batch in recording.batches():
            writer.add(batch)
        writer.file.close()
    about = _metadata(recording, writer, dataset_id)
    about["dataset_size"] = round(path.stat().st_size / 1e6, 1)
    (data / "metadata.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


# ----------------------------------------------------------------------------------- metadata


def _metadata(recording: Recording, writer: _Writer, dataset_id: str) -> dict[str, Any]:
    manifest, shape = recording.folder.manifest, recording.shape
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
        "observation_space": json.dumps(_observation_space(recording, writer)),
        "action_space": json.dumps(_action_space(recording)),
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


def _observation_space(recording: Recording, writer: _Writer) -> dict[str, Any]:
    if not recording.has_observations:
        more = 1 if writer.has_end else 0
        return _discrete(recording.shape.states + more)
    space = recording.observation_space
    if space is None or type(space).__name__ not in DESCRIBED:  # kept as text
        return {
            "type": "Text",
            "max_length": writer.longest_text,
            "min_length": 0,
            "charset": "".join(sorted(writer.characters)),
        }
    return describe(space)


def _action_space(recording: Recording) -> dict[str, Any]:
    space = recording.action_space
    return _discrete(recording.shape.actions) if space is None else describe(space)


def _discrete(n: int, start: int = 0) -> dict[str, Any]:
    return {"type": "Discrete", "dtype": "int64", "start": start, "n": n}


def describe(space: Any) -> dict[str, Any]:
    """A Gymnasium space as Minari describes it."""
    kind = type(space).__name__
    if kind not in DESCRIBED:
        raise BadInput(f"Minari knows no space like {kind}")
    return {"type": kind, **DESCRIBED[kind](space)}


DESCRIBED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "Box": lambda space: {
        "dtype": str(space.dtype),
        "shape": list(space.shape),
        "low": space.low.tolist(),
        "high": space.high.tolist(),
    },
    "Discrete": lambda space: _discrete(int(space.n), int(space.start)),
    "MultiDiscrete": lambda space: {
        "dtype": str(space.dtype),
        "nvec": space.nvec.tolist(),
        "start": space.start.tolist(),
    },
    "MultiBinary": lambda space: {"n": np.array(space.n).tolist()},
    "Dict": lambda space: {
        "subspaces": {name: describe(part) for name, part in space.spaces.items()}
    },
    "Tuple": lambda space: {"subspaces": [describe(part) for part in space.spaces]},
    "Text": lambda space: {
        "max_length": space.max_length,
        "min_length": space.min_length,
        "charset": space.characters,
    },
}
"""What Minari says of a space, by its kind."""


def _env_spec(recording: Recording) -> str | None:
    """How Gymnasium makes the environment again, for ``recover_environment``."""
    manifest = recording.folder.manifest
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
        recording.remarks.append(f"{name} of {MANIFEST} cannot be recovered by Minari: {error}")
        return None
    return text
