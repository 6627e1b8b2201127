"""Plays the parts of an algorithm, as ``exploring`` does, without a run around it."""

from __future__ import annotations

from typing import TypeVar

from covgame.engine.engines import COARSE, GROWTH, CountsEngine
from covgame.mdp.model import TabularMDP
from covgame.pac.tasks import Algorithm, CoverTask
from covgame.sources.counted import MOST_EPISODES

Learner = TypeVar("Learner", bound=Algorithm)


def learn(algorithm: Learner, world: TabularMDP, seed: int = 0) -> Learner:
    """Play by counts until the algorithm has seen enough."""
    number = 0
    while (part := algorithm.next_task()) is not None:
        assert isinstance(part, CoverTask)
        growth = GROWTH if part.episodes is None else COARSE
        player = CountsEngine(part.game, world, 1000 * seed + number, growth)
        while not part.over:
            player.play(MOST_EPISODES if part.left is None else part.left)
        algorithm.tell(part, [])
        number += 1
    return algorithm
