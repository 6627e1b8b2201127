"""Steps as the plain arrays that d3rlpy's ``MDPDataset`` takes, in one ``.npz`` file.

Every array is written to a file of its own while the steps are read, because nobody knows how long
it will be; at the end these go into one archive. d3rlpy itself is not needed for that.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np

from covgame.data.recording import Batch, Parts, Recording, Values

HEADER = 128
"""Bytes before the data of an array: the same for every length that it may have."""

NO_TEXT = "d3rlpy takes no texts as observations, so the numbers of the states stand for them"


class _GrowingArray:
    """An array in a file, which gets its length in the end."""

    def __init__(self, path: Path, like: Values) -> None:
        self.dtype, self.inner, self.rows = like.dtype, like.shape[1:], 0
        self.file: BinaryIO = path.open("w+b")
        self.file.write(bytes(HEADER))

    def append(self, values: Values) -> None:
        self.file.write(np.ascontiguousarray(values).data)
        self.rows += len(values)

    def close(self) -> None:
        shape = (self.rows, *self.inner)
        kind = np.lib.format.dtype_to_descr(self.dtype)
        about = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
        start = np.lib.format.magic(1, 0)
        room = HEADER - len(start) - 2
        self.file.seek(0)
        self.file.write(start + room.to_bytes(2, "little") + about.ljust(room - 1) + b"\n")
        self.file.close()


def write_d3rlpy(recording: Recording, draft: Path, place: Path) -> str:
    """Write all steps into one archive; returns how it is loaded from its place."""
    folder = draft.with_name(f"{draft.name}.parts")
    folder.mkdir()
    arrays: dict[str, _GrowingArray] = {}
    try:
        for batch in recording.batches():
            for name, values in _columns(recording, batch).items():
                if name not in arrays:
                    arrays[name] = _GrowingArray(folder / str(len(arrays)), values)
                arrays[name].append(values)
        for array in arrays.values():
            array.close()
        with zipfile.ZipFile(draft, "w") as archive:
            for number, name in enumerate(arrays):  # a name may be none that a file can have
                archive.write(folder / str(number), f"{name}.npy")
                (folder / str(number)).unlink()
    finally:
        for array in arrays.values():
            array.file.close()
        shutil.rmtree(folder, ignore_errors=True)
    if recording.cut:
        used = recording.steps - recording.cut
        recording.remarks.append(
            f"d3rlpy drops the last step of every episode that ran out of time: it will train on "
            f"{used:,} of {recording.steps:,} steps"
        )
    return _loading(recording, list(arrays), place)


def _columns(recording: Recording, batch: Batch) -> dict[str, Values]:
    """What a batch adds to every array."""
    actions = recording.acted(batch)
    if not _is_continuous(recording):
        actions = batch.column("action").astype(np.int64)
    return _observations(recording, batch) | {
        "actions": actions.reshape(len(batch), -1),
        "rewards": batch.column("reward").astype(np.float32),
        "terminals": batch.column("terminated").astype(np.float32),
        "timeouts": batch.column("truncated").astype(np.float32),
    }


def _observations(recording: Recording, batch: Batch) -> dict[str, Values]:
    found = dict(_named("observations", recording.observed(batch)))
    if any(values is None for values in found.values()):
        if NO_TEXT not in recording.remarks:
            recording.remarks.append(NO_TEXT)
        found = {"observations": batch.column("state")}
    return {name: _rows(values) for name, values in found.items() if values is not None}


def _named(name: str, values: Parts) -> list[tuple[str, Values | None]]:
    """Arrays by name, those of a Dict or Tuple apart; None for a text."""
    if isinstance(values, list):
        return [(name, None)]
    if isinstance(values, tuple):
        values = {str(i): part for i, part in enumerate(values)}
    if isinstance(values, dict):
        return [one for key, part in values.items() for one in _named(f"{name}_{key}", part)]
    return [(name, values)]


def _rows(values: Values) -> Values:
    """A row per step, also of single numbers."""
    return values.reshape(-1, 1) if values.ndim == 1 else values


def _is_continuous(recording: Recording) -> bool:
    values = recording.action_values
    return values is not None and bool(np.issubdtype(values.dtype, np.floating))


def _loading(recording: Recording, names: list[str], place: Path) -> str:
    """The call that loads the archive, with what d3rlpy would otherwise guess from the data."""
    size, kind = recording.shape.actions, "DISCRETE"
    if _is_continuous(recording) and recording.action_values is not None:
        size, kind = int(np.prod(recording.action_values.shape[1:])), "CONTINUOUS"
    known = f"action_space=ActionSpace.{kind}, action_size={size}"
    parts = [name for name in names if name.startswith("observations")]
    if parts == ["observations"]:
        return f'MDPDataset(**np.load("{place}"), {known})'
    listed = ", ".join(f'a["{name}"]' for name in parts)
    rest = ", ".join(f'a["{name}"]' for name in names if name not in parts)
    return f'a = np.load("{place}"); MDPDataset([{listed}], {rest}, {known})'
