"""Worlds drawn at random: garnets."""

from __future__ import annotations

import numpy as np

from covgame.mdp.families.building import check, from_table, generator, shape_of
from covgame.mdp.families.registry import family
from covgame.mdp.model import TabularMDP
from covgame.memory import require_room
from covgame.types import IntArray


@family("garnet", "garnet:states=20,actions=4,horizon=10,branching=3")
def garnet(
    states: int = 20,
    actions: int = 4,
    horizon: int = 10,
    branching: int = 3,
    stationary: bool = False,
    seed: int = 0,
) -> TabularMDP:
    """Random worlds: each pair has a few successors, drawn anew at every stage.

    Successors are distinct and uniform, their probabilities uniform on the simplex, the mean
    rewards uniform on [0, 1]. ``stationary=true`` draws one kernel for all stages.
    """
    shape = shape_of(horizon, states, actions)
    check(1 <= branching <= states, "garnet: branching must lie between 1 and states")
    stored = 1 if stationary else max(1, horizon - 1)
    require_room(shape, stored * shape.pairs * branching, "a garnet")
    rng = generator(seed)
    successors = _distinct(rng, stored * shape.pairs, states, branching)
    probabilities = rng.dirichlet(np.ones(branching), stored * shape.pairs)
    rewards = rng.random((stored if stationary else horizon, states, actions))
    return from_table(shape, successors, probabilities, rewards, stationary=stationary)


def _distinct(rng: np.random.Generator, rows: int, states: int, count: int) -> IntArray:
    """``count`` distinct states for each row, uniformly (Floyd's algorithm on all rows)."""
    chosen = np.empty((rows, count), dtype=np.int64)
    for column, last in enumerate(range(states - count, states)):
        drawn = rng.integers(0, last + 1, size=rows)
        taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, drawn)
    return chosen
