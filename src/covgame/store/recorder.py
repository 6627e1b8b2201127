"""Writes a run down while it is played."""

from __future__ import annotations

import time

from covgame.episodes import Block
from covgame.game.game import Game
from covgame.store.episodes import EpisodeWriter
from covgame.store.folder import RunFolder
from covgame.store.state import game_arrays

SECONDS_PER_CHECKPOINT = 5.0


class Recorder:
    """Episodes go to shards, and now and then, when a shard is full, what was learnt follows.

    If a run is killed, it is resumed from what was saved of the game; episodes that were
    written after that are played again and come out the same.
    """

    def __init__(self, folder: RunFolder, game: Game) -> None:
        self.folder = folder
        self.game = game
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
        if full and time.monotonic() - self.saved > SECONDS_PER_CHECKPOINT:
            self.writer.wait()
            self._save_game()

    def close(self) -> None:
        """Write everything that is still in memory."""
        self.writer.close()
        self._save_game()

    def _save_game(self) -> None:
        self.folder.save_counts(game_arrays(self.game))
        self.saved = time.monotonic()
