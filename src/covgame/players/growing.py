"""A game on a simulated model whose target changes on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from covgame.episodes import Block, as_block
from covgame.game.growth import Growth
from covgame.players.compiled import CompiledPlayer
from covgame.players.plain import PlainPlayer


class GrowingPlayer:
    """Plays until the target is due to change, changes it, and goes on."""

    def __init__(self, player: CompiledPlayer | PlainPlayer, growth: Growth) -> None:
        self.player, self.growth, self.game = player, growth, player.game
        growth.begin(self.game)

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if that covers the target."""
        first = self.game.counts.n_episodes
        blocks: list[Block] = []
        self._update()
        while (left := first + episodes - self.game.counts.n_episodes) > 0:
            if self.game.covered and self.game.counts.n_episodes:
                break
            due = self.growth.next_growth - self.game.counts.n_episodes
            blocks.append(self.player.play(max(1, min(left, due))))
            self._update()
        return _joined(first, blocks)

    def _update(self) -> None:
        if self.growth.update(self.game, self.game.allowed) and isinstance(
            self.player, CompiledPlayer
        ):
            self.player.bind()


def _joined(first: int, blocks: list[Block]) -> Block:
    """Blocks that follow each other, as one."""
    if not blocks:
        return as_block(first, [])
    columns = ("lengths", "state", "action", "reward", "next_state")
    parts: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in blocks]) for name in columns
    }
    return replace(blocks[0], first_episode=first, terminated=None, **parts)
