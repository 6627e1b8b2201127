"""The fewest episodes that any method needs on average: what a run is compared with."""

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
"""Up to so many cells phi* is computed by default, by all methods if need be."""

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
class LowerBound:
    """How many episodes any method that always covers needs on average."""

    episodes: float  # certified: no method needs fewer
    kind: Kind
    attained: float  # some policy needs no more
    found: MinFlow = field(repr=False)  # with prices that prove the one, and a policy the other

    @classmethod
    def of(cls, found: MinFlow) -> LowerBound:
        """Exact if the two bounds agree to a thousandth."""
        kind: Kind = "exact" if found.is_exact else "lower bound"
        return cls(found.lower, kind, found.upper, found)


def exact_bound(transitions: Transitions, target: Target) -> LowerBound:
    """phi* itself, however long it takes; a lower bound if it cannot be computed."""
    return LowerBound.of(min_flow(transitions, target))


def quick_bound(
    transitions: Transitions, target: Target, visits: FloatHSA | IntArray, episodes: int
) -> LowerBound:
    """A certified lower bound, for no more work than a run of so many episodes took."""
    rounds = min(ROUNDS, episodes // EPISODES_A_ROUND)
    return LowerBound.of(cheap_bounds(transitions, target, rounds, visits))


def default_bound(
    transitions: Transitions, target: Target, visits: FloatHSA | IntArray, episodes: int
) -> LowerBound:
    """phi* where it takes a second or two, elsewhere the best bound that is quickly computed."""
    solve = quick_min_flow if is_large(transitions.shape) else min_flow
    try:
        found = solve(transitions, target)
    except SolverFailed:
        found = None
    if found is not None and found.is_exact:
        return LowerBound.of(found)
    known = quick_bound(transitions, target, visits, episodes)
    return known if found is None else LowerBound.of(known.found.combined(found))


def estimated_bound(
    learnt: Transitions, target: Target, visits: FloatHSA | IntArray
) -> float | None:
    """An estimate of phi* on the learnt model; None if too little was learnt or it takes long."""
    if target.counts.min(initial=np.inf) < VISITS_OF_AN_ESTIMATE:
        return None
    if learnt.shape.cells * ROUNDS_OF_AN_ESTIMATE > WORK_OF_AN_ESTIMATE:
        return None
    return cheap_bounds(learnt, target, ROUNDS_OF_AN_ESTIMATE, visits).lower


def is_large(shape: Shape) -> bool:
    """Whether phi* may take a while."""
    return shape.cells > LARGE
