"""Data of small worlds, and how many failures a claim about probabilities leaves room for."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from covgame.game.counts import Counts
from covgame.mdp.model import TabularMDP
from covgame.sources.counted import SortedSuccessors, draw_visits
from covgame.types import Shape
from tests.worlds import random_policy, random_world


def allowed_failures(delta: float, runs: int) -> int:
    """So many failures of probability delta are seen but once in ten thousand times."""
    return int(binom.ppf(1 - 1e-4, runs, delta))


def data(world: TabularMDP, episodes: int, seed: int, *, pooled: bool = False) -> Counts:
    """Episodes of random policies."""
    rng = np.random.default_rng(seed)
    counts = Counts(world.shape, pooled=pooled)
    for _ in range(8):
        policy = random_policy(rng, world.shape)
        counts.add_visits(draw_visits(SortedSuccessors(world), policy, episodes // 8 + 1, rng))
    return counts


def small(
    seed: int, *, states: int = 3, stationary: bool = False, spread_start: bool = False
) -> TabularMDP:
    rng = np.random.default_rng(seed)
    shape = Shape(3, states, 2)
    return random_world(rng, shape, stationary=stationary, ending=0.1, spread_start=spread_start)
