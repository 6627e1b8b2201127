"""Measures of coverage around phi*: the chain of bounds, concentrability, coverability.

eq. cov-bounds: (1) max_h sum c_h <= phi*(c) <= (2) sum_h phi*(c at stage h)
<= (3) sum c / max_pi p^pi. They are stated for targets over single cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.flow.min_flow import min_flow
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import ANY, FloatArray, FloatHSA, Policy


@dataclass(frozen=True)
class Bounds:
    """The chain of bounds around phi*: ``stage_max <= phi* <= stage_sum <= cell_sum``."""

    stage_max: float
    stage_sum: float | None  # None where it was too much work
    cell_sum: float | None


CHEAP_PROGRAMS = 100_000
"""Variables of all the programs of ``stage_sum`` together that take a few seconds."""

CHEAP_RECURSION = 500_000_000
"""Products in the recursions of ``cell_sum`` that take a few seconds."""


def bounds(
    transitions: Transitions, target: Target, *, at_any_price: bool = False
) -> Bounds | None:
    """The chain of bounds, or None for targets over groups, where it has no meaning.

    The two upper bounds solve a program per stage and a recursion per state. On large worlds,
    where that takes much longer than phi* itself, they are left out unless ``at_any_price``.
    """
    if not target.per_cell.all():
        return None
    programs = at_any_price or _variables_of_stage_programs(transitions) <= CHEAP_PROGRAMS
    recursion = at_any_price or _products_of_reachability(transitions) <= CHEAP_RECURSION
    return Bounds(
        stage_max(target),
        stage_sum(transitions, target) if programs else None,
        cell_sum(transitions, target) if recursion else None,
    )


def _variables_of_stage_programs(transitions: Transitions) -> int:
    per_stage = dp.reachable(transitions).sum(axis=1) * transitions.shape.actions
    return int(per_stage.cumsum().sum())


def _products_of_reachability(transitions: Transitions) -> int:
    H, S, _ = transitions.shape.hsa
    sweeps = 1 if transitions.stationary else H / 2
    return int(sum(len(kernel.next_state) for kernel in transitions.stages) * S * sweeps)


def stage_max(target: Target) -> float:
    """(1) max_h sum_{s,a} c_h(s,a): an episode visits one cell a stage."""
    return float(target.cell_counts().sum(axis=(1, 2)).max(initial=0.0))


def stage_sum(transitions: Transitions, target: Target) -> float:
    """(2) sum_h phi*(c restricted to stage h): each stage covered by episodes of its own.

    At one stage only the states matter (Lemma bound-flow-refined): with the actions free,
    sum_a c_h(s,a) visits of the state suffice.
    """
    per_state = target.cell_counts().sum(axis=2)
    total = 0.0
    for h in np.flatnonzero(per_state.any(axis=1)).tolist():
        states = np.flatnonzero(per_state[h])
        rows = np.column_stack([np.full(len(states), h), states, np.full(len(states), ANY)])
        shortened = transitions.with_horizon(h + 1)
        stage = Target.of_rows(shortened.shape, rows, per_state[h, states])
        total += min_flow(shortened, stage).upper
    return total


def cell_sum(transitions: Transitions, target: Target) -> float:
    """(3) sum c_h(s,a) / max_pi p_h^pi(s,a): each cell covered by episodes of its own."""
    per_state = target.cell_counts().sum(axis=2)
    reach = dp.reachability(transitions, per_state > 0)
    return float(_ratio(per_state, reach).sum())


def concentrability(transitions: Transitions, policy: Policy) -> float:
    """C_conc of the policy's data: max over cells of max_pi p^pi / p^policy (infinite if missed).

    Its infimum over policies is phi* of the proportional target.
    """
    return thinnest(transitions, dp.occupancy(transitions, policy))[0]


def thinnest(transitions: Transitions, had: FloatHSA) -> tuple[float, tuple[int, int, int]]:
    """(C_conc, cell): where ``had``, visits per episode, falls shortest of what can be had."""
    best = np.where(transitions.allowed_actions, _best_occupancy(transitions), 0.0)
    ratio = _ratio(best, had)
    stage, state, action = np.unravel_index(int(ratio.argmax()), ratio.shape)
    return float(ratio.max()), (int(stage), int(state), int(action))


def coverability(transitions: Transitions) -> float:
    """C_cov = max_h sum_{s,a} max_pi p_h^pi(s,a) (Xie et al., Lemma 3)."""
    return float(_best_occupancy(transitions).sum(axis=(1, 2)).max())


def _best_occupancy(transitions: Transitions) -> FloatHSA:
    reach = dp.reachability(transitions)[:, :, None]
    return np.broadcast_to(reach, transitions.shape.hsa)


def _ratio(wanted: FloatArray, had: FloatArray) -> FloatArray:
    """wanted / had, with 0/0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(wanted > 0, wanted / had, 0.0)
