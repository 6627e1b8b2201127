"""Whole games in blocks of compiled episodes."""

from __future__ import annotations

from collections.abc import Iterator

from covgame.engine.engines import SimulatedEngine
from covgame.episodes import Block
from covgame.game.game import Game
from covgame.sources.simulated import SimulatedSource


def blocks(
    game: Game, source: SimulatedSource, *, size: int, record: bool = True
) -> Iterator[Block]:
    """Play in blocks of at most ``size`` episodes until the target is covered."""
    engine = SimulatedEngine(game, source, most=size, record=record, waits=True)
    while not game.covered:
        block = engine.play(size)
        if len(block):
            yield block
