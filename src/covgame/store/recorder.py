"""Writes a run down while it is played."""

from __future__ import annotations

import time
from typing import Protocol

from covgame.episodes import Block
from covgame.game.game import Game
from covgame.store.episodes import EpisodeWriter
from covgame.store.folder import RunFolder
from covgame.store.state import game_arrays

SECONDS_PER_CHECKPOINT = 5.0


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

    def __init__(self, folder: RunFolder, game: Game, source: Source) -> None:
        self.folder, self.game, self.source = folder, game, source
        horizon, played = game.target.shape.horizon, game.counts.n_episodes
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
            self._save_game()
        elif due and full:
            self.writer.wait()
            self._save_game()

    def close(self) -> None:
        """Write everything that is still in memory."""
        self.writer.close()
        self._save_game()

    def _save_game(self) -> None:
        keys = self.source.state_keys
        if keys is not None:
            self.folder.save_states(keys)
        self.folder.save_counts(game_arrays(self.game))
        self.saved = time.monotonic()


class CountsRecorder:
    """Of a run that is played by counts there are no episodes, only what was counted."""

    room = None

    def __init__(self, folder: RunFolder, game: Game) -> None:
        self.folder, self.game = folder, game
        self.saved = time.monotonic()

    def add(self, block: Block) -> None:
        """Save the counts now and then."""
        del block
        if time.monotonic() - self.saved > SECONDS_PER_CHECKPOINT:
            self.close()

    def close(self) -> None:
        """Write what was counted."""
        self.folder.save_counts(game_arrays(self.game))
        self.saved = time.monotonic()
