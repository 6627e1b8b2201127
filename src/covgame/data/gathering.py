"""Datasets that are kept episode by episode: gathered into batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from covgame.data import steps
from covgame.data.steps import AnyArray, Chunk
from covgame.errors import BadInput


@dataclass(frozen=True)
class StoredEpisode:
    """The columns of one episode and where they were read."""

    file: str
    number: int
    columns: Mapping[str, AnyArray]


def gathered(episodes: Iterable[StoredEpisode], called: Mapping[str, str]) -> Iterator[Chunk]:
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
