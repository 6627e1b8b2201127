"""A world of two stages, three states and two actions, and data of it written down by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.game.counts import CountedVisits, Counts
from covgame.mdp.transitions import Transitions
from covgame.pac.tasks import CoverTask
from covgame.types import FloatArray, Shape

SHAPE = Shape(2, 3, 2)
CELLS = 12
HERE = PaperThresholds(SHAPE)
STEP = np.array(
    [[0.5, 0.5, 0], [0, 0.25, 0.75], [0, 0, 1], [0, 1, 0], [0, 1, 0], [1, 0, 0]], dtype=np.float64
)
"""p(s'|s,a), a row for every pair."""


def kernel(first: list[float] | None = None) -> Transitions:
    """Two stages, three states, two actions; the first state is 0, or drawn."""
    row, successor = np.nonzero(STEP)
    rows = np.concatenate([row, row + 6])
    return Transitions.from_entries(
        SHAPE,
        np.array(first or [1.0, 0.0, 0.0]),
        rows,
        np.concatenate([successor, successor]),
        np.concatenate([STEP[row, successor]] * 2),
        stationary=False,
    )


def played(counts: Counts, visits: FloatArray, episodes: int, reward: float = 0.0) -> None:
    """Count so many visits of every cell, its successors in proportion to ``STEP``."""
    moves = [
        (cell, int(s), int(visits.ravel()[cell] * STEP[cell, s]))
        for cell in range(6)
        for s in np.flatnonzero(STEP[cell])
        if int(visits.ravel()[cell] * STEP[cell, s]) > 0
    ]
    starts = visits[0].sum(axis=1).astype(np.int64)
    whole = visits.astype(np.int64)
    counts.add_visits(CountedVisits(episodes, starts, whole, reward * visits, moves))


def told(part: CoverTask, visits: FloatArray, episodes: int, reward: float = 0.0) -> CoverTask:
    """The part, as if it had been played."""
    played(part.game.counts, visits, episodes, reward)
    return part


def delta_of(part: CoverTask) -> float:
    """What the planner of a part may fail with."""
    optimism: Any = part.game.planner.optimism  # type: ignore[attr-defined]
    return float(optimism.delta)


def existing() -> Any:
    exists = np.ones(SHAPE.hsa, dtype=np.bool_)
    exists[0, 1:] = False
    return exists


def visits_of(each: float) -> FloatArray:
    """``each`` visits of both actions of the first state, and what comes after."""
    visits = np.zeros(SHAPE.hsa)
    visits[0, 0] = each
    visits[1] = [[each / 4, each / 4], [each * 3 / 8] * 2, [each * 3 / 8] * 2]
    return visits
