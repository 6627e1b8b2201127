"""A stock with seasons: a world whose stages differ."""

from __future__ import annotations

import math

import numpy as np

from covgame.mdp.families.building import Builder, check, mix, shape_of
from covgame.mdp.families.registry import family
from covgame.mdp.model import TabularMDP
from covgame.memory import require_room


@family("inventory", "inventory:capacity=10,horizon=12")
def inventory(capacity: int = 10, orders: int = 4, horizon: int = 12) -> TabularMDP:
    """A stock that is replenished and sold; demand changes with the season (the stage).

    The state is the stock, the action how much is ordered. Demand is binomial out of
    ``capacity`` with a mean that swings over the stages; a sale earns its share of capacity.
    """
    shape = shape_of(horizon, capacity + 1, orders)
    check(capacity >= 1, "inventory: capacity must be at least 1")
    require_room(shape, shape.cells * (capacity + 1), "an inventory")
    world = Builder(shape)
    for h in range(horizon):
        season = 0.3 + 0.2 * math.sin(2 * math.pi * h / horizon)
        demand = _binomial(capacity, season)
        for stock in range(capacity + 1):
            for ordered in range(orders):
                full = min(stock + ordered, capacity)
                left = mix(*({max(full - d, 0): p} for d, p in enumerate(demand)))
                world.move(stock, ordered, left, stage=h)
                sold = sum(p * (full - rest) for rest, p in left.items())
                world.earn(stock, ordered, sold / capacity, stage=h)
    return world.build()


def _binomial(trials: int, chance: float) -> list[float]:
    """The binomial probabilities, also where the coefficients overflow."""
    d = np.arange(trials + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    log_ways = log_factorial[trials] - log_factorial[d] - log_factorial[trials - d]
    odds = np.exp(log_ways + d * math.log(chance) + (trials - d) * math.log1p(-chance))
    return [float(p) for p in odds / odds.sum()]
