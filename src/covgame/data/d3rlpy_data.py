"""d3rlpy's arrays: observations, actions, rewards, terminals, and timeouts where there are some.

As ``.npz``, or as d3rlpy itself dumps them (``.h5``, the old and the new layout).
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from covgame.data import steps
from covgame.data.dataset import Origin
from covgame.data.gathering import StoredEpisode, gathered
from covgame.data.hdf5 import DAMAGED, member, open_hdf5
from covgame.data.steps import AnyArray, Chunk
from covgame.errors import BadInput
from covgame.memory import check_expansion

CALLED = {
    "state": "observations", "action": "actions", "reward": "rewards", "terminated": "terminals",
    "truncated": "timeouts", "done": "episode_terminals", "next_state": "next_observations",
}  # fmt: skip
ENDING = ".npy"
NEEDED = ("state", "action", "terminated")
UNREADABLE = (*DAMAGED, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error)
"""What reading an archive raises where it is damaged."""

IN_EPISODES = {"state": "observations", "action": "actions", "reward": "rewards"}


def d3rlpy_arrays(path: Path) -> Origin:
    """The arrays of a file."""
    reader = _Npz(path) if path.suffix.lower() == ".npz" else _Hdf5(path)
    return Origin(reader)


def _there(path: Path, names: Any) -> dict[str, str]:
    """Our name -> the file's, of the arrays that are there."""
    called = {ours: theirs for ours, theirs in CALLED.items() if theirs in names}
    for ours in NEEDED:
        if ours not in called and not (ours == "terminated" and "done" in called):
            raise BadInput(
                f"{path} has no array {CALLED[ours]!r}; d3rlpy's have {', '.join(CALLED.values())}"
            )
    return called


def _slices(
    path: Path, arrays: Mapping[str, Any], called: Mapping[str, str], read: Callable[..., AnyArray]
) -> Iterator[Chunk]:
    lengths = {ours: int(array.shape[0]) for ours, array in arrays.items()}
    total = lengths["action"]
    for ours, length in lengths.items():
        if length != total:
            raise BadInput(
                f"{path}, column {called[ours]}: it has {length:,} entries, {called['action']} "
                f"{total:,}"
            )
    width = sum(one.dtype.itemsize * math.prod(one.shape[1:]) for one in arrays.values())
    at_once = steps.rows_at_once(width)
    for row in range(0, total, at_once):
        size = min(at_once, total - row)
        yield Chunk(str(path), row, {name: read(name, row, size) for name in called}, called)


@dataclass(frozen=True)
class _Npz:
    """Arrays in a zip file, each read as it is needed."""

    path: Path
    raw = True

    def chunks(self) -> Iterator[Chunk]:
        try:
            with zipfile.ZipFile(self.path) as archive, ExitStack() as stack:
                files = [name for name in archive.namelist() if name.endswith(ENDING)]
                names = {name.removesuffix(ENDING) for name in files}
                called = _there(self.path, names)
                members = [archive.getinfo(f"{theirs}{ENDING}") for theirs in called.values()]
                check_expansion(self.path, sum(one.file_size for one in members))
                streams = {
                    ours: _Stream(stack.enter_context(archive.open(f"{theirs}{ENDING}")))
                    for ours, theirs in called.items()
                }
                yield from _slices(
                    self.path, streams, called, lambda name, _, size: streams[name].read(size)
                )
        except UNREADABLE as error:
            raise BadInput(f"{self.path} cannot be read: {error}") from error


class _Stream:
    """An array in a file, from its first row on."""

    def __init__(self, file: Any) -> None:
        self.file = file
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ValueError("an array is in a version of the format for odd types")
        self.shape, fortran, self.dtype = read(file)
        if self.dtype.hasobject:
            raise ValueError("it holds Python objects, which are never loaded")
        if fortran and len(self.shape) > 1:
            raise ValueError("an array is in Fortran order; save np.ascontiguousarray of it")

    def read(self, rows: int) -> AnyArray:
        row = self.shape[1:]
        wanted = rows * math.prod(row) * self.dtype.itemsize
        content = self.file.read(wanted)
        if len(content) < wanted:
            raise EOFError("an array is cut off")
        return np.frombuffer(content, dtype=self.dtype).reshape(rows, *row)


@dataclass(frozen=True)
class _Hdf5:
    """What ``dataset.dump`` of d3rlpy wrote."""

    path: Path
    raw = True

    def chunks(self) -> Iterator[Chunk]:
        with open_hdf5(self.path) as file:
            try:
                episodes = member(file, "num_episodes")
                if episodes is not None:
                    yield from gathered(self._episodes(file, int(episodes[()])), CALLED)
                    return
                called = _there(self.path, set(file))
                arrays = {ours: member(file, theirs) for ours, theirs in called.items()}
                yield from _slices(
                    self.path,
                    arrays,
                    called,
                    lambda name, row, size: arrays[name][row : row + size],
                )
            except DAMAGED as error:
                raise BadInput(f"{self.path} cannot be read: {error}") from error

    def _episodes(self, file: Any, episodes: int) -> Iterator[StoredEpisode]:
        for number in range(episodes):
            columns: dict[str, AnyArray] = {}
            for ours, theirs in (*IN_EPISODES.items(), ("terminated", "terminated")):
                stored = member(file, f"{theirs}_{number}")
                if stored is None:
                    raise BadInput(f"{self.path}, episode {number}: it has no {theirs}")
                columns[ours] = stored[()]
            ends = np.zeros(len(columns["action"]), dtype=np.bool_)
            ends[-1:] = bool(columns["terminated"])
            yield StoredEpisode(str(self.path), number, columns | {"terminated": ends})
