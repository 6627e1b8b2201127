"""Read Minari datasets in both layouts: HDF5, and a folder of Arrow or Parquet files per episode.

Spaces are read with Minari, episodes with h5py and pyarrow. Minari's own reader is not safe for
untrusted data: it follows links to other files, and where a space is missing it imports and makes
the environment that the metadata name.

In HDF5, external links, user-defined links, external storage and virtual datasets make the library
read other files, whichever the author of a file has named. Objects are read by ``member`` alone,
which refuses them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from covgame.data import steps
from covgame.data.dataset import Origin
from covgame.data.steps import AnyArray, Chunk
from covgame.errors import BadInput, MissingExtra
from covgame.jsonfile import is_folder, read_json
from covgame.memory import check_expansion
from covgame.types import END

MAIN = "main_data.hdf5"
METADATA = "metadata.json"
DATASET_ID = re.compile(r"(?:[-_\w][-_\w/]*[-_\w]/|[-_\w]/)?[-_\w]+-v\d+")
CALLED = {
    "state": "observations", "next_state": "observations", "action": "actions",
    "reward": "rewards", "terminated": "terminations", "truncated": "truncations",
}  # fmt: skip
ENDS = ("terminated", "truncated")

DAMAGED = (
    OSError, ValueError, EOFError, LookupError, TypeError, AttributeError, OverflowError,
    RuntimeError,
)  # fmt: skip
"""What the library raises where a file is damaged, or has other things in it than it should."""


HARD, SOFT = 0, 1
"""Types of links, as HDF5 numbers them; the others lead out of the file."""

MOST_LINKS = 16
"""Soft links that lead to soft links, as many as HDF5 itself follows."""


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


def datasets_root() -> Path:
    """Where Minari keeps datasets, by its own rule; every id is read and written below it.

    Raises:
        BadInput: ``MINARI_DATASETS_PATH`` is empty, which Minari cannot use either.
    """
    path = os.environ.get("MINARI_DATASETS_PATH")
    if path is None:
        return Path.home() / ".minari" / "datasets"
    if not path:
        raise BadInput("MINARI_DATASETS_PATH is empty; set it to a folder, or unset it")
    return Path(path)


def find_minari(name: str) -> Origin | None:
    """A dataset under Minari's root, None if there is none of that name."""
    if not DATASET_ID.fullmatch(name):
        return None
    place = datasets_root() / name
    return minari_folder(place) if is_folder(str(place)) and is_minari(place) else None


def minari_by_id(name: str) -> Origin:
    """A dataset that has to be there."""
    found = find_minari(name)
    if found is not None:
        return found
    raise BadInput(
        f"there is no Minari dataset {name} in {datasets_root()}; if it is a public one, "
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
    observed, acted = (_space(place, about, what) for what in ("observation", "action"))
    (states, first_state), (actions, first_action) = _size(observed), _size(acted)
    no_state = _no_state(about)
    reader = _Hdf5(place / MAIN, no_state) if (place / MAIN).is_file() else _Folders(place)
    return Origin(
        reader,
        states=states if states is None or no_state is None else no_state,
        actions=actions,
        first_state=first_state,
        first_action=first_action,
        space=observed if type(observed).__name__ == "Box" else None,
    )


def _space(place: Path, about: dict[str, Any], what: str) -> Any:
    """A Gymnasium space of the metadata, None if it is not there."""
    described = about.get(f"{what}_space")
    if described is None:
        return None
    try:
        deserialize = import_module("minari.serialization").deserialize_space
    except ImportError:
        raise MissingExtra("minari", "reading Minari datasets") from None
    try:
        return deserialize(described)
    except (*DAMAGED, AssertionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadInput(f"{place / METADATA}: {what}_space is no space ({reason})") from error


def _size(space: Any) -> tuple[int | None, int]:
    """(number of values, the first one) of a Discrete space."""
    return (int(space.n), int(space.start)) if type(space).__name__ == "Discrete" else (None, 0)


def _no_state(about: dict[str, Any]) -> int | None:
    """The number that ``covgame export`` writes where an episode has ended in no state."""
    ours = about.get("covgame")
    number = ours.get("no_state") if isinstance(ours, dict) else None
    return number if isinstance(number, int) and number > 0 else None


@dataclass(frozen=True)
class _Hdf5:
    """One file with a group per episode."""

    path: Path
    no_state: int | None = None  # what stands for the end of an episode that showed no state
    raw = True

    def chunks(self) -> Iterator[Chunk]:
        with open_hdf5(self.path) as file:
            try:
                yield from in_batches(self._episodes(file), CALLED)
            except DAMAGED as error:
                raise BadInput(f"{self.path} cannot be read: {error}") from error

    def _episodes(self, file: Any) -> Iterator[StoredEpisode]:
        names = [name for name in file if name.removeprefix("episode_").isdecimal()]
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
        return in_batches(self._episodes(), CALLED)

    def _episodes(self) -> Iterator[StoredEpisode]:
        from covgame.data.tables import whole_table

        folders = [one for one in self.path.iterdir() if one.is_dir() and one.name.isdecimal()]
        for folder in sorted(folders, key=lambda one: int(one.name)):
            columns = whole_table(folder, sorted(set(CALLED.values())))
            seen, number = _with_tuples(columns["observations"]), int(folder.name)
            rest = {
                ours: columns[theirs][:-1]
                for ours, theirs in CALLED.items()
                if theirs != "observations"
            }
            yield _episode(self.path, number, seen, rest)


# --------------------------------------------------------------------------------- batches


@dataclass(frozen=True)
class StoredEpisode:
    """The columns of one episode and where they were read."""

    file: str
    number: int
    columns: Mapping[str, AnyArray]


def in_batches(episodes: Iterable[StoredEpisode], called: Mapping[str, str]) -> Iterator[Chunk]:
    """As chunks; rows are counted through all episodes of a file."""
    waiting: list[StoredEpisode] = []
    size, row, room = 0, 0, steps.BYTES
    for one in episodes:
        length = _length(one, called)
        nbytes = sum(column.nbytes for column in one.columns.values())
        room -= nbytes
        full = size + length > steps.BATCH or room < 0
        if waiting and (one.file != waiting[0].file or full):
            yield _chunk(waiting, row, called)
            row = row + size if one.file == waiting[0].file else 0
            waiting, size, room = [], 0, steps.BYTES - nbytes
        waiting.append(one)
        size += length
    if waiting:
        yield _chunk(waiting, row, called)


def _length(one: StoredEpisode, called: Mapping[str, str]) -> int:
    lengths = {name: len(column) for name, column in one.columns.items()}
    least, most = min(lengths.values()), max(lengths.values())
    if least != most:
        short = min(lengths, key=lambda name: lengths[name])
        raise BadInput(
            f"{one.file}, episode {one.number}, column {called.get(short, short)}: it has {least} "
            f"entries where others have {most}"
        )
    return most


def _chunk(waiting: list[StoredEpisode], row: int, called: Mapping[str, str]) -> Chunk:
    first = waiting[0]
    columns: dict[str, AnyArray] = {}
    for name in first.columns:
        try:
            columns[name] = np.concatenate([one.columns[name] for one in waiting])
        except (ValueError, TypeError):
            raise BadInput(
                f"{first.file}, episodes {first.number} to {waiting[-1].number}, column "
                f"{called.get(name, name)}: its entries are not all of one kind"
            ) from None
    lengths = [len(one.columns["action"]) for one in waiting]
    columns["episode"] = np.repeat([one.number for one in waiting], lengths)
    return Chunk(first.file, row, columns, called)


def as_objects(values: Iterable[Any]) -> AnyArray:
    """Observations that are no arrays, one in each place."""
    listed = list(values)
    found = np.empty(len(listed), dtype=object)
    found[:] = listed
    return found


# ------------------------------------------------------------------------------------ HDF5


def open_hdf5(path: Path) -> Any:
    """An HDF5 file to read from."""
    try:
        h5py = import_module("h5py")
    except ImportError:
        raise MissingExtra("minari", f"reading {path.name} (HDF5)") from None
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def member(group: Any, name: str, *, most_links: int = MOST_LINKS) -> Any:
    """What a group of a file holds under a name; None if there is nothing.

    Soft links are followed inside the file.

    Raises:
        BadInput: It is kept in another file.
    """
    links, key = group.id.links, name.encode()
    if not links.exists(key):
        return None
    kind = links.get_info(key).type
    if kind == SOFT:
        if not most_links:
            raise BadInput(f"{group.file.filename}: soft links lead from {name!r} to nowhere")
        path = links.get_val(key).decode()
        found = group.file["/"] if path.startswith("/") else group
        for part in filter(lambda part: part not in ("", "."), path.split("/")):
            found = member(found, part, most_links=most_links - 1) if _is_group(found) else None
        return found
    if kind != HARD:
        _refuse(group, name, "a link to another file")
    found = group[name]
    if not _is_group(found) and found.external:
        _refuse(group, name, "stored in another file")
    if not _is_group(found) and found.is_virtual:
        _refuse(group, name, "a virtual dataset, a view of other files")
    if not _is_group(found):
        check_expansion(Path(group.file.filename), found.nbytes)
    return found


def _is_group(found: Any) -> bool:
    return hasattr(found, "keys")


def _refuse(group: Any, name: str, what: str) -> NoReturn:
    raise BadInput(
        f"{group.file.filename}: {name!r} is {what}, and covgame reads no file that another one "
        "names; save a copy that holds the data itself"
    )
