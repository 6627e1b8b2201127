"""Learn2Explore, the exploration of MOCA (Wagenmaker, Simchowitz, Jamieson, COLT 2022).

Stage by stage: a regret minimiser is paid 1 for every cell of the stage that is not explored yet,
and a cell that has been visited often enough leaves the set. (The paper takes the cells in groups
of similar reachability, 2^-i, gives each group a budget K_i and restarts its regret minimiser,
StrongEuler, whenever a cell leaves; here nothing is forgotten and no budget runs out, which only
helps it.) What it pays is the sum over stages of phi* where covering all at once pays phi*. It
could not be checked against code: none was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from covgame.errors import BadInput
from covgame.game.adversary import MissingOnly
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, PaperOptimism, RangeAwareOptimism
from covgame.targets.target import Target
from covgame.types import Shape


def games(
    target: Target,
    *,
    pooled: bool,
    delta: float | None = None,
    b: float = 0.03,
    borrowing: bool = True,
) -> Iterator[Game]:
    """A game for every stage, one after the other; all of them count on.

    With the paper's confidence ``delta``, or practical: our optimism with its constant ``b``, and
    stages that learn from each other.
    """
    if target.any_stage.any():
        raise BadInput("Learn2Explore goes stage by stage; its targets are cells")
    practical = delta is None
    counts = Counts(target.shape, pooled=pooled and practical, borrowing=borrowing and practical)
    planner = OptimisticPlanner(
        RangeAwareOptimism(b) if delta is None else PaperOptimism(target.shape, delta)
    )
    for stage in np.unique(target.rows[:, 0]).tolist():
        rows = target.keep(target.rows[:, 0] == stage)
        game = Game(rows, planner, MissingOnly(), counts)
        game.grow(rows)  # what earlier stages have collected of this one
        yield game


def budget(shape: Shape, group: int, delta: float, epsilon: float) -> float:
    """K_i = 2^i S^3 A^2 H^4 iota^3: the order of the paper's budget for cells reached by 2^-i.

    With iota = log(SAH/(delta eps)); the constant of the regret bound of StrongEuler is not given.
    """
    H, S, A = shape.hsa
    iota = math.log(shape.cells / (delta * epsilon))
    return 2.0**group * S**3 * A**2 * H**4 * iota**3
