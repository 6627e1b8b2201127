"""Minari's datasets, in both of its layouts: HDF5, and a folder of Arrow or Parquet per episode.

The files are read directly, one episode after another, so that nothing is held and the package
itself is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from covgame.data.dataset import Origin
from covgame.data.gathering import StoredEpisode, as_objects, gathered
from covgame.data.hdf5 import DAMAGED, member, open_hdf5
from covgame.data.steps import AnyArray, Chunk
from covgame.errors import BadInput
from covgame.jsonfile import is_folder, read_json
from covgame.types import END

MAIN = "main_data.hdf5"
METADATA = "metadata.json"
CALLED = {
    "state": "observations", "next_state": "observations", "action": "actions",
    "reward": "rewards", "terminated": "terminations", "truncated": "truncations",
}  # fmt: skip
ENDS = ("terminated", "truncated")


def is_minari(folder: Path) -> bool:
    """Whether a folder is one of Minari's datasets."""
    return _data_folder(folder) is not None


def _data_folder(folder: Path) -> Path | None:
    for place in (folder / "data", folder):
        if (place / MAIN).is_file():
            return place
        if (place / METADATA).is_file():
            about = read_json(place / METADATA)
            if isinstance(about, dict) and "data_format" in about:
                return place
    return None


def local_root() -> Path:
    """Where Minari keeps what was downloaded."""
    said = os.environ.get("MINARI_DATASETS_PATH")
    return Path(said) if said else Path.home() / ".minari" / "datasets"


def find_minari(name: str) -> Origin | None:
    """A dataset under Minari's local root, if it is there."""
    place = local_root() / name
    return minari_folder(place) if name and is_folder(str(place)) and is_minari(place) else None


def minari_by_id(name: str) -> Origin:
    """A dataset that has to be there."""
    found = find_minari(name)
    if found is not None:
        return found
    raise BadInput(
        f"there is no Minari dataset {name} in {local_root()}; if it is a public one, "
        f"minari download {name} fetches it"
    )


def minari_folder(folder: Path) -> Origin:
    """A dataset by its folder."""
    place = _data_folder(folder)
    if place is None:
        raise BadInput(f"{folder} is no Minari dataset")
    about: dict[str, Any] = {}
    if (place / METADATA).is_file():
        about = read_json(place / METADATA)
        if not isinstance(about, dict):
            raise BadInput(f"{place / METADATA} is damaged: it must be a JSON object")
    observed, acted = (
        _space(place, about.get(f"{what}_space")) for what in ("observation", "action")
    )
    states, nothing = _size(place, observed), _no_state(about)
    reader = _Hdf5(place / MAIN, nothing) if (place / MAIN).is_file() else _Folders(place)
    return Origin(
        reader,
        states=states if states is None or nothing is None else nothing,
        actions=_size(place, acted),
        first_state=_start(observed),
        first_action=_start(acted),
        space=_box(place, observed),
    )


def _space(place: Path, text: Any) -> dict[str, Any]:
    import json

    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        raise BadInput(f"{place / METADATA}: a space is no JSON") from None
    return found if isinstance(found, dict) else {}


def _no_state(about: dict[str, Any]) -> int | None:
    """The number that ``covgame export`` writes where an episode has ended in no state."""
    ours = about.get("covgame")
    number = ours.get("no_state") if isinstance(ours, dict) else None
    return number if isinstance(number, int) and number > 0 else None


def _size(place: Path, space: dict[str, Any]) -> int | None:
    """How many there are of what is counted."""
    if space.get("type") != "Discrete":
        return None
    size = space.get("n")
    if not isinstance(size, int) or size < 1:
        raise BadInput(f"{place / METADATA}: a Discrete space has a number n, not {size!r}")
    return size


def _start(space: dict[str, Any]) -> int:
    start = space.get("start", 0)
    return int(start) if isinstance(start, int) else 0


def _box(place: Path, space: dict[str, Any]) -> Any:
    """What state maps look at."""
    if space.get("type") != "Box":
        return None
    try:
        shape = tuple(int(size) for size in space["shape"])
        low, high = (
            np.broadcast_to(np.array(space[bound], dtype=np.float64), shape)
            for bound in ("low", "high")
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BadInput(f"{place / METADATA}: a Box has low, high and shape") from None
    return SimpleNamespace(shape=shape, low=low, high=high)


@dataclass(frozen=True)
class _Hdf5:
    """One file with a group per episode."""

    path: Path
    no_state: int | None = None  # what stands for the end of an episode that showed no state
    raw = True

    def chunks(self) -> Iterator[Chunk]:
        with open_hdf5(self.path) as file:
            try:
                yield from gathered(self._episodes(file), CALLED)
            except DAMAGED as error:
                raise BadInput(f"{self.path} cannot be read: {error}") from error

    def _episodes(self, file: Any) -> Iterator[StoredEpisode]:
        names = [name for name in file if name.removeprefix("episode_").isdigit()]
        for name in sorted(names, key=lambda one: int(one.removeprefix("episode_"))):
            group, number = member(file, name), int(name.removeprefix("episode_"))
            stored = {theirs: member(group, theirs) for theirs in sorted(set(CALLED.values()))}
            for theirs, one in stored.items():
                if one is None:
                    raise BadInput(f"{self.path}, {name}: it has no {theirs}")
            seen = _observations(stored["observations"])
            if self.no_state is not None and len(seen) and np.ndim(seen[-1]) == 0:
                seen[-1] = END if seen[-1] == self.no_state else seen[-1]
            ends = {ours: stored[CALLED[ours]][()] for ours in ENDS}
            acted, paid = _plain(stored["actions"]), stored["rewards"][()]
            yield _episode(self.path, number, seen, {"action": acted, "reward": paid, **ends})


def _observations(stored: Any) -> AnyArray:
    """Arrays as they are; what has several parts as one object for each step."""
    if not hasattr(stored, "keys"):
        return _plain(stored)
    keys = list(stored.keys())
    parts = [_observations(member(stored, key)).tolist() for key in keys]
    rows = zip(*parts, strict=True)
    if all(key.startswith("_index_") for key in keys):
        order = sorted(range(len(keys)), key=lambda i: int(keys[i].removeprefix("_index_")))
        return as_objects(tuple(row[i] for i in order) for row in rows)
    return as_objects(dict(zip(keys, row, strict=True)) for row in rows)


def _plain(stored: Any) -> AnyArray:
    if hasattr(stored, "keys"):
        return _observations(stored)
    values: AnyArray = stored[()]
    if values.dtype.kind == "O" and len(values) and isinstance(values[0], bytes):
        return as_objects(one.decode("utf-8", "replace") for one in values)
    return values


def _episode(
    path: Path, number: int, seen: AnyArray, columns: dict[str, AnyArray]
) -> StoredEpisode:
    steps = len(columns["action"])
    if len(seen) != steps + 1:
        raise BadInput(
            f"{path}, episode {number}, column observations: there are {len(seen)} for {steps} "
            "actions, and there should be one more"
        )
    both = {"state": seen[:-1], "next_state": seen[1:]}
    return StoredEpisode(str(path), number, both | columns)


def _with_tuples(seen: AnyArray) -> AnyArray:
    """Arrow keeps tuples as records of "0", "1", ...; an environment shows them as tuples."""
    if seen.dtype.kind != "O":
        return seen
    return as_objects(_as_tuple(one) for one in seen.tolist())


def _as_tuple(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    parts = {key: _as_tuple(part) for key, part in value.items()}
    if parts and set(parts) == {str(number) for number in range(len(parts))}:
        return tuple(parts[str(number)] for number in range(len(parts)))
    return parts


@dataclass(frozen=True)
class _Folders:
    """A folder per episode, with a table that has one row more than there are steps."""

    path: Path
    raw = True

    def chunks(self) -> Iterator[Chunk]:
        return gathered(self._episodes(), CALLED)

    def _episodes(self) -> Iterator[StoredEpisode]:
        from covgame.data.tables import whole_table

        folders = [one for one in self.path.iterdir() if one.is_dir() and one.name.isdigit()]
        for folder in sorted(folders, key=lambda one: int(one.name)):
            columns = whole_table(folder, sorted(set(CALLED.values())))
            seen, number = _with_tuples(columns["observations"]), int(folder.name)
            rest = {
                ours: columns[theirs][:-1]
                for ours, theirs in CALLED.items()
                if theirs != "observations"
            }
            yield _episode(self.path, number, seen, rest)
