"""Which rows of a target some policy reaches, and how often at best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.errors import BadInput, Row, UnreachableTarget
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, BoolHSA, FloatArray


@dataclass(frozen=True, eq=False)
class Reachable:
    """A target without the rows that are too hard to reach, and those rows."""

    target: Target
    dropped: list[tuple[Row, float]]  # with the best probability of reaching them


def drop_rarely_reached(target: Target, transitions: Transitions, min_reach: float) -> Reachable:
    """Leave out the rows that no policy reaches with probability ``min_reach``."""
    if not (isinstance(min_reach, int | float) and 0 <= min_reach <= 1):
        raise BadInput(f"--min-reach is a probability between 0 and 1, not {min_reach!r}")
    if min_reach == 0:
        return Reachable(target, [])
    reach = row_reachability(target, transitions)
    rare = reach < min_reach
    rows = target.as_rows(np.flatnonzero(rare))
    return Reachable(target.keep(~rare), list(zip(rows, reach[rare].tolist(), strict=True)))


def row_reachability(target: Target, transitions: Transitions) -> FloatArray:
    """max_pi P(an episode visits the row), per row."""
    stage, state = target.rows[:, 0], target.rows[:, 1]
    any_stage = stage == ANY
    of_cells = target.of_group if target.last_stage else target.of_group | any_stage
    any_stage &= ~of_cells
    one_stage = ~any_stage & ~of_cells
    reach = np.empty(len(target))
    if any_stage.any():
        reach[any_stage] = dp.hitting(transitions)[state[any_stage]]
    if one_stage.any():
        wanted = np.zeros(transitions.shape.hs, dtype=np.bool_)
        wanted[stage[one_stage], state[one_stage]] = True
        reach[one_stage] = dp.reachability(transitions, wanted)[stage[one_stage], state[one_stage]]
    for row in np.flatnonzero(of_cells).tolist():
        cells = np.zeros(transitions.shape.cells, dtype=np.bool_)
        cells[target.members.cell[target.members.row == row]] = True
        reach[row] = _chance(transitions, cells.reshape(transitions.shape.hsa))
    return reach


def _chance(transitions: Transitions, wanted: BoolHSA) -> float:
    """max_pi P(an episode visits one of these cells)."""
    shape = transitions.shape
    there = wanted & transitions.allowed_actions
    best = np.zeros(shape.states)
    for h in reversed(range(shape.horizon)):
        later = np.zeros((shape.states, shape.actions))
        if h + 1 < shape.horizon:
            later = transitions.stages[h].expect(best).reshape(shape.states, shape.actions)
        best = np.where(there[h], 1.0, later).max(axis=1)
    return float(transitions.initial @ best)


def check_reachable(target: Target, transitions: Transitions) -> None:
    """Raise ``UnreachableTarget`` if some row has no cell that any policy reaches."""
    hopeless = ~reachable_rows(target, transitions)
    if hopeless.any():
        raise UnreachableTarget(target.as_rows(np.flatnonzero(hopeless)))


def reachable_rows(target: Target, transitions: Transitions) -> BoolArray:
    """Which rows have a cell that some policy reaches."""
    possible = dp.reachable(transitions)[:, :, None] & transitions.allowed_actions
    return target.collected(possible.astype(np.int64)) > 0
