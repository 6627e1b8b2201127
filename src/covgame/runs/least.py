"""The fewest episodes that anybody needs on average: what a run is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from covgame.errors import SolverFailed
from covgame.flow.cheap_bounds import ROUNDS, cheap_bounds
from covgame.flow.min_flow import MinFlow, min_flow, quick_min_flow
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import FloatHSA, IntArray, Shape

Kind = Literal["exact", "lower bound"]

LARGE = 5_000
"""Up to so many cells phi* is solved for unasked, by all methods if need be."""

EPISODES_A_ROUND = 16
"""Elsewhere a round is played for so many episodes of the run, which took at least as long.

Work is counted, not time, so that the same run gives the same bound.
"""

ROUNDS_OF_AN_ESTIMATE = 48
"""What was learnt is less certain than what more rounds would still change."""

WORK_OF_AN_ESTIMATE = 20_000_000
"""Cells times rounds, some seconds; above that there is no estimate."""

VISITS_OF_AN_ESTIMATE = 5
"""With fewer visits of a row the estimate is off by up to a factor of 2 (docs/cost.md)."""


@dataclass(frozen=True)
class Least:
    """How many episodes any method that always covers needs on average."""

    episodes: float  # certified: nobody needs fewer
    kind: Kind
    attained: float  # some policy needs no more
    found: MinFlow = field(repr=False)  # with prices that prove the one, and a policy the other

    @classmethod
    def of(cls, found: MinFlow) -> Least:
        """Exact if the two bounds agree to a thousandth."""
        kind: Kind = "exact" if found.is_exact else "lower bound"
        return cls(found.lower, kind, found.upper, found)


def exactly(transitions: Transitions, target: Target) -> Least:
    """phi* itself, however long it takes; a lower bound if it cannot be computed."""
    return Least.of(min_flow(transitions, target))


def cheaply(
    transitions: Transitions, target: Target, visits: FloatHSA | IntArray, episodes: int
) -> Least:
    """A certified lower bound, for no more work than a run of so many episodes took."""
    rounds = min(ROUNDS, episodes // EPISODES_A_ROUND)
    return Least.of(cheap_bounds(transitions, target, rounds, visits))


def unasked(
    transitions: Transitions, target: Target, visits: FloatHSA | IntArray, episodes: int
) -> Least:
    """phi* where it takes a second or two, and the best bound at hand elsewhere."""
    solve = quick_min_flow if is_large(transitions.shape) else min_flow
    try:
        found = solve(transitions, target)
    except SolverFailed:
        found = None
    if found is not None and found.is_exact:
        return Least.of(found)
    known = cheaply(transitions, target, visits, episodes)
    return known if found is None else Least.of(known.found.combined(found))


def estimated(learnt: Transitions, target: Target, visits: FloatHSA | IntArray) -> float | None:
    """About phi*, if the world is what was learnt of it; None where little was, or work is much."""
    if target.counts.min(initial=np.inf) < VISITS_OF_AN_ESTIMATE:
        return None
    if learnt.shape.cells * ROUNDS_OF_AN_ESTIMATE > WORK_OF_AN_ESTIMATE:
        return None
    return cheap_bounds(learnt, target, ROUNDS_OF_AN_ESTIMATE, visits).lower


def is_large(shape: Shape) -> bool:
    """Whether phi* may take a while."""
    return shape.cells > LARGE
