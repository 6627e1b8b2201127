"""Writes a run down while it is played."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy.typing as npt

from covgame.episodes import Block
from covgame.store.episodes import EpisodeWriter
from covgame.store.folder import RunFolder

SECONDS_PER_CHECKPOINT = 5.0

ToSave = Callable[[], Mapping[str, npt.NDArray[Any]]]
"""Asked for the arrays of a checkpoint."""


class Source(Protocol):
    """What a recorder needs to know of where the episodes come from."""

    @property
    def repeats(self) -> bool:
        """Whether what was lost is played again exactly and fast."""
        ...

    @property
    def state_keys(self) -> list[str] | None:
        """The observations by number, if states are discovered."""
        ...


class Recorder:
    """Episodes go to shards, and now and then, when a shard is full, what was learnt follows.

    If a run is killed, it is resumed from what was saved of the game; episodes that were
    written after that are played again and come out the same. Where playing again is not certain
    to repeat, the open shard is written as well, every few seconds.
    """

    def __init__(
        self, folder: RunFolder, horizon: int, played: int, source: Source, to_save: ToSave
    ) -> None:
        self.folder, self.source, self.to_save = folder, source, to_save
        self.writer = EpisodeWriter(folder.episodes, horizon, played)
        self.saved = time.monotonic()

    @property
    def room(self) -> int:
        """How many episodes the next block may have."""
        return self.writer.room

    def add(self, block: Block) -> None:
        """Take a block down."""
        full = self.writer.add(block)
        due = time.monotonic() - self.saved > SECONDS_PER_CHECKPOINT
        if due and not full and not self.source.repeats:
            self.writer.flush()
            self.checkpoint()
        elif due and full:
            self.writer.wait()
            self.checkpoint()

    def close(self) -> None:
        """Write everything that is still in memory."""
        self.writer.close()
        self.checkpoint()

    def checkpoint(self) -> None:
        """Save what was learnt so far."""
        keys = self.source.state_keys
        if keys is not None:
            self.folder.save_states(keys)
        self.folder.save_counts(self.to_save())
        self.saved = time.monotonic()


class CountsRecorder:
    """Of a run that is played by counts there are no episodes, only what was counted."""

    room = None

    def __init__(self, folder: RunFolder, to_save: ToSave) -> None:
        self.folder, self.to_save = folder, to_save
        self.saved = time.monotonic()

    def add(self, block: Block) -> None:
        """Save the counts now and then."""
        del block
        if time.monotonic() - self.saved > SECONDS_PER_CHECKPOINT:
            self.checkpoint()

    def close(self) -> None:
        """Write everything that is still in memory."""
        self.checkpoint()

    def checkpoint(self) -> None:
        """Save what was counted so far."""
        self.folder.save_counts(self.to_save())
        self.saved = time.monotonic()
