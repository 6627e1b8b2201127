"""Complexity functionals: what four algorithms pay per log(1/delta) on an instance.

The leading terms for small (epsilon, delta) of PCE (Section E.7), PRINCIPLE, MOCA and PEDEL
(Section F.3), and the gaps that they are made of. Cells that no policy reaches are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.flow.measures import stage_sum
from covgame.flow.min_flow import min_flow
from covgame.flow.near_optimal import OptimalValues, largest_occupancies, optimal_values
from covgame.flow.pedel import pedel_objective
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import BoolHSA, FloatHSA

TIE = 1e-12
"""Value gaps up to this are rounding: the action is optimal."""


@dataclass(frozen=True)
class Functionals:
    """The four leading terms, and the gaps of the instance."""

    epsilon: float
    pce: float
    principle: float
    moca: float
    pedel: float | None  # None where policies are too many to list, or numbers too far apart
    policy_gap: float | None  # Delta_min: 0 unless the best is unique, None if it is the only one
    value_gap: float | None  # the smallest positive one, None if there is none

    def to_dict(self) -> dict[str, float | None]:
        return dict(vars(self))


def functionals(transitions: Transitions, reward: FloatHSA, epsilon: float) -> Functionals:
    """All of them for one reward and one precision."""
    optimal = optimal_values(transitions, reward)
    gaps = optimal.gaps[reachable_cells(transitions)]
    positive = gaps[(gaps > TIE) & np.isfinite(gaps)]
    return Functionals(
        epsilon,
        pce(transitions, epsilon),
        principle(optimal, epsilon),
        moca(optimal, epsilon),
        pedel(optimal, epsilon),
        smallest_policy_gap(optimal),
        float(positive.min()) if positive.size else None,
    )


def pce(transitions: Transitions, epsilon: float) -> float:
    """H^3 phi*([max_pi p^pi]) / eps^2."""
    reach = dp.reachability(transitions)[:, :, None] * reachable_cells(transitions)
    return _cubed(transitions) * _cost(transitions, reach) / epsilon**2


def principle(optimal: OptimalValues, epsilon: float) -> float:
    """H^3 phi*([sup_pi p^pi / max(eps, Delta(pi))^2]).

    f(g) = max{rho : V^rho >= V* - g} is concave with f(0) >= 0, so f(g)/g^2 falls in g, and the
    supremum over policies is f(eps)/eps^2.
    """
    transitions = optimal.transitions
    largest = largest_occupancies(optimal, epsilon)
    return _cubed(transitions) * _cost(transitions, largest) / epsilon**2


def moca(optimal: OptimalValues, epsilon: float) -> float:
    """H^2 sum_h min_rho max 1/rho_h min(1/gap^2, W^2/eps^2) + H^4 |{gap <= 3 eps/W}| / eps^2."""
    transitions = optimal.transitions
    exists = reachable_cells(transitions)
    gaps = moca_gaps(optimal)
    reach = np.broadcast_to(dp.reachability(transitions)[:, :, None], exists.shape)
    with np.errstate(divide="ignore"):
        wanted = np.where(exists, np.minimum(1 / gaps**2, (reach / epsilon) ** 2), 0.0)
        hard = exists & (gaps <= 3 * epsilon / reach)
    H = transitions.shape.horizon
    spread = stage_sum(transitions, Target.of_cells(wanted))
    return H**2 * spread + H**4 * float(hard.sum()) / epsilon**2


def moca_gaps(optimal: OptimalValues) -> FloatHSA:
    """The value gap of a cell; for the only optimal action that of the second best."""
    gaps = np.where(optimal.gaps <= TIE, 0.0, optimal.gaps)
    unique = (gaps == 0).sum(axis=2) == 1
    second = np.where(gaps > 0, gaps, np.inf).min(axis=2)
    replaced = np.where(unique[:, :, None] & (gaps == 0), second[:, :, None], gaps)
    return np.asarray(replaced, dtype=np.float64)


def pedel(optimal: OptimalValues, epsilon: float) -> float | None:
    """H^4 sum_h min_rho max_pi sum (p^pi)^2/rho / max(eps, Delta(pi), Delta_min)^2.

    By listing the deterministic policies; None where there are too many.
    """
    H = optimal.transitions.shape.horizon
    least = max(epsilon, smallest_policy_gap(optimal) or 0.0)
    total = 0.0
    for h in range(H):
        stage = pedel_objective(optimal, h, least)
        if stage is None:
            return None
        total += stage
    return H**4 * total


def smallest_policy_gap(optimal: OptimalValues) -> float | None:
    """Delta_min over deterministic policies: the gap of the second best, 0 if the best has a twin.

    Policies that act alike wherever some policy gets count as one (to the letter of the paper the
    gap would always be 0: nobody is at the first stage outside s_1). The first stage at which a
    policy differs from the best one is reached as likely as by the best one, so the smallest gap is
    that of one different action.
    """
    transitions = optimal.transitions
    policy = dp.backward_induction(transitions, optimal.reward).policy
    arriving = dp.occupancy(transitions, policy).sum(axis=2)
    best = policy.probabilities() > 0
    others = reachable_cells(transitions) & ~best
    losses = (arriving[:, :, None] * np.where(np.isfinite(optimal.gaps), optimal.gaps, 0.0))[others]
    if not losses.size:
        return None
    smallest = float(losses.min())
    return 0.0 if smallest <= TIE else smallest


def reachable_cells(transitions: Transitions) -> BoolHSA:
    """The cells that some policy visits."""
    return dp.reachable(transitions)[:, :, None] & transitions.allowed_actions


def _cubed(transitions: Transitions) -> float:
    return float(transitions.shape.horizon**3)


def _cost(transitions: Transitions, wanted: FloatHSA) -> float:
    return min_flow(transitions, Target.of_cells(wanted)).min_episodes
