"""What the paper's algorithms will cost at least, before the first episode is played.

Lengths that are fixed are exact; the others are lower bounds, from phi* where the model is known
and from counting where it is not. They are bounds on what is needed on average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.flow.min_flow import min_flow
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import BoolHS, BoolHSA, FloatHS, FloatHSA

LARGE = 2_000
"""Above so many cells phi* would keep people waiting; counting has to do."""

MOST_PHASES = 200


@dataclass(frozen=True)
class Need:
    """A part of an algorithm and the episodes that it takes at least."""

    part: str
    episodes: float


@dataclass(frozen=True)
class Forecast:
    """The parts of an algorithm, in order."""

    needs: tuple[Need, ...]

    @property
    def episodes(self) -> float:
        return sum(need.episodes for need in self.needs)


def forecast_reward_free(
    thresholds: PaperThresholds,
    epsilon: float,
    delta: float,
    transitions: Transitions | None,
) -> Forecast:
    """PCE: visitations of all (h,s), burn-in, and phases of doubling proportional targets."""
    H, S, A = thresholds.shape.hsa
    precision = epsilon / (4 * S * H**2)
    each = thresholds.visitation_episodes(precision, delta / 3 / (S * H))
    # At the first stage states that are hardly ever first may be dropped, eps_0 of each.
    once, proportional = float(A), A * max(0.0, 1 - S * precision)
    if transitions is not None:
        # On the good event X_hat contains all (h,s) with W >= eps_0, and upper bounds are above W.
        reach = dp.reachability(transitions)
        kept = np.where(reach >= precision, reach, 0.0)
        once = _cost(transitions, _per_cell(kept > 0, transitions))
        proportional = _cost(transitions, _per_cell(kept, transitions))

    def enough(k: int, t: float) -> bool:
        beta = thresholds.reward_free(t, delta / 3)
        return sqrt(H * beta * 2.0 ** (4 - k)) <= epsilon

    k, t = _last_phase(enough, lambda k: once + (2.0 ** (k + 1) - 2) * proportional)
    return Forecast(
        (
            Need(f"visitations of {H * S:,} (stage, state)", float(H * S * each)),
            Need("burn-in", once),
            Need(f"{k} phases", t - once),
        )
    )


def forecast_best_policy(
    thresholds: PaperThresholds,
    epsilon: float,
    delta: float,
    exists: BoolHSA,
    transitions: Transitions | None,
) -> Forecast:
    """PRINCIPLE: burn-in, and phases that ask at least the slack of every cell.

    ``thresholds`` are those of the algorithm: with a stage more where the start is random.
    """
    H = thresholds.shape.horizon
    once = float(exists.sum(axis=(1, 2)).max())
    if transitions is not None:
        once = _cost(transitions, exists.astype(np.float64))

    def width(k: int, t: float) -> float:
        return sqrt(H * thresholds.best_policy(t, delta / 2) * 2.0**-k)

    def played(k: int) -> float:
        return max(once, 2.0**k * min(1.0, 2 * sqrt(2.0) * width(k, once)) * once)

    k, t = _last_phase(lambda k, t: 2 * width(k, t) <= epsilon, played)
    return Forecast((Need("burn-in", once), Need(f"{k} phases", t - once)))


def _last_phase(
    enough: Callable[[int, float], bool], played: Callable[[int], float]
) -> tuple[int, float]:
    """The first phase after which the rule may stop, and the episodes until then, at least."""
    for k in range(1, MOST_PHASES):
        if enough(k, played(k)):
            return k, played(k)
    return MOST_PHASES, played(MOST_PHASES)


def _per_cell(per_state: FloatHS | BoolHS, transitions: Transitions) -> FloatHSA:
    wanted = np.repeat(per_state[:, :, None].astype(np.float64), transitions.shape.actions, axis=2)
    return wanted * transitions.allowed_actions


def _cost(transitions: Transitions, wanted: FloatHSA) -> float:
    """phi*, or where that takes long the most that a stage asks for (bound (1))."""
    if transitions.shape.cells > LARGE:
        return float(wanted.sum(axis=(1, 2)).max())
    return min_flow(transitions, Target.of_cells(wanted)).min_episodes
