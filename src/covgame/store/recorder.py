"""Writes a run down while it is played."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy.typing as npt

from covgame.episodes import Block, Episode
from covgame.errors import BadInput
from covgame.failures import Failure
from covgame.store.episodes import PLAY_AGAIN, RESTORE, EpisodeWriter, recorded_episodes
from covgame.store.failures import add_failure, sync_failures
from covgame.store.files import discard_drafts
from covgame.store.folder import RunFolder
from covgame.store.journal import Journal, holds_episodes
from covgame.store.lock import WriteLock
from covgame.store.observations import Keeping, Space

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

    @property
    def state_labels(self) -> list[str] | None:
        """What they are called."""
        ...

    @property
    def keeps_observations(self) -> bool:
        """Whether episodes come with their observations."""
        ...

    @property
    def observation_space(self) -> Space | None:
        """Of these, as JSON; None if they are text."""
        ...


class Recorder:
    """Episodes go to shards, and now and then, when a shard is full, what was learnt follows.

    If a run is killed, it is resumed from what was saved of the game; episodes that were
    written after that are played again and come out the same. Where playing again is not certain
    to repeat, the open shard is written as well, every few seconds, and episodes that were written
    are never given up.
    """

    def __init__(
        self, folder: RunFolder, horizon: int, played: int, source: Source, to_save: ToSave
    ) -> None:
        self.folder, self.source, self.to_save = folder, source, to_save
        self.lock = WriteLock(folder.place)
        try:
            self._open(horizon, played)
        except BaseException:
            self.lock.release()
            raise

    def _open(self, horizon: int, played: int) -> None:
        folder, source = self.folder, self.source
        changed = folder.checksums is not None and not folder.checksums.is_current()
        if not source.repeats and (
            changed or recorded_episodes(folder.episodes) != played or holds_episodes(folder.place)
        ):
            raise BadInput(
                f"{folder.path} was written to since it was opened; wait until the other process "
                "is done, and resume again"
            )
        discard_drafts(folder.place)
        discard_drafts(folder.episodes)
        folder.bring_up_to_date()
        advice = PLAY_AGAIN if source.repeats else RESTORE
        keeping = Keeping(source.observation_space) if source.keeps_observations else None
        self.writer = EpisodeWriter(
            folder.episodes, horizon, played, advice=advice, keeping=keeping, write=folder.write
        )
        self.journal = None if source.repeats else Journal(folder.place, keeping)
        self.saved = time.monotonic()
        self.named: int | None = None  # states in states.json
        self.failed = False  # whether anything has, since episodes were saved

    def note(self, number: int, episode: Episode) -> None:
        """Write an episode down at once; a block of them follows later."""
        self.lock.process.check()
        if self.journal is not None:
            keys, labels = self.source.state_keys or [], self.source.state_labels or []
            self.journal.add(number, episode, keys, labels)

    def set_aside(self, failure: Failure) -> None:
        """Write down an episode that failed, with all the states that it speaks of."""
        self._name_states()
        if self.journal is not None:
            self.journal.named = self.named or 0
        add_failure(self.folder.place, failure)
        self.failed = True

    @property
    def room(self) -> int:
        """How many episodes the next block may have."""
        return self.writer.room

    def add(self, block: Block) -> None:
        """Take a block down."""
        self.lock.process.check()
        full = len(block) == self.room
        if full:
            self._save_what_shards_speak_of()
        self.writer.add(block)
        due = time.monotonic() - self.saved > SECONDS_PER_CHECKPOINT
        if due and (full or not self.source.repeats):
            self.checkpoint()

    def close(self, *, whole: bool) -> None:
        """Write what is still in memory; if it is not ``whole``, the episodes alone."""
        try:
            if whole:
                self.checkpoint()
            else:
                self._save_episodes()
        finally:
            self.writer.close()
            if self.journal is not None:
                self.journal.close()

    def release(self) -> None:
        """Let others write, when the answer is saved as well."""
        self.lock.release()

    def checkpoint(self) -> None:
        """Save what was learnt so far, and before it all that it was learnt from."""
        self._save_episodes()
        self.folder.save_counts(self.to_save())
        self.saved = time.monotonic()

    def _save_episodes(self) -> None:
        self._save_what_shards_speak_of()
        self.writer.flush()
        if self.journal is not None:
            self.journal.begin_anew(self.writer.n_episodes, self.named or 0)

    def _save_what_shards_speak_of(self) -> None:
        self._name_states()
        if self.failed:
            sync_failures(self.folder.place)
            self.failed = False

    def _name_states(self) -> None:
        """No shard may speak of a state that nobody could look up."""
        keys = self.source.state_keys
        if keys is not None and len(keys) != self.named:
            self.folder.save_states(keys, self.source.state_labels)
            self.named = len(keys)


class CountsRecorder:
    """Of a run that is played by counts there are no episodes, only what was counted."""

    room = None

    def __init__(self, folder: RunFolder, to_save: ToSave) -> None:
        self.folder, self.to_save = folder, to_save
        self.lock = WriteLock(folder.place)
        discard_drafts(folder.place)
        self.saved = time.monotonic()

    def note(self, number: int, episode: Episode) -> None:
        """Nobody sees an episode here."""

    def set_aside(self, failure: Failure) -> None:
        """Nor one that fails."""

    def add(self, block: Block) -> None:
        """Save the counts now and then."""
        del block
        self.lock.process.check()
        if time.monotonic() - self.saved > SECONDS_PER_CHECKPOINT:
            self.checkpoint()

    def close(self, *, whole: bool) -> None:
        """Write what is still in memory, if it is ``whole``."""
        if whole:
            self.checkpoint()

    def release(self) -> None:
        """Let others write, when the answer is saved as well."""
        self.lock.release()

    def checkpoint(self) -> None:
        """Save what was counted so far."""
        self.folder.save_counts(self.to_save())
        self.saved = time.monotonic()
