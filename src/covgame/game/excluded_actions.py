"""Targets when some actions are not taken again, for example because they fail."""

from __future__ import annotations

import numpy as np

from covgame.game.game import Game
from covgame.mdp import dp
from covgame.targets.target import Target
from covgame.types import BoolArray, BoolHS


def coverable_rows(target: Target, avoided: BoolArray) -> BoolArray:
    """(G,), which rows of a target have a cell whose action is not avoided.

    Args:
        target: The target.
        avoided: (S, A), the avoided actions; it may lack the last states.
    """
    shape = target.shape
    open_to = np.ones((shape.states, shape.actions), dtype=np.bool_)
    open_to[: len(avoided)] = ~avoided[: shape.states]
    return _rows_with_any(target, np.broadcast_to(open_to, shape.hsa))


def cut_off_rows(game: Game, allowed: BoolArray) -> BoolArray:
    """(G,), uncovered rows that only avoided actions lead to, judged by the observed transitions.

    An untried action may lead anywhere, so no row is cut off while one is left.
    """
    target, visits = game.target, game.counts.visits
    horizon, states, _ = target.shape.hsa
    permitted = np.ones(visits.shape[1:], dtype=np.bool_)
    permitted[: len(allowed)] = allowed[:states]
    reached: BoolHS = dp.reachable(game.counts.kernel(), permitted)
    there = reached[:, :, None] & permitted
    tried = visits.sum(axis=0)[None] > 0 if game.counts.pooled else visits > 0
    if (there & ~tried)[: horizon - 1].any():
        return np.zeros(len(target), dtype=np.bool_)
    return (game.collected < target.counts) & ~_rows_with_any(target, there)


def _rows_with_any(target: Target, cells: BoolArray) -> BoolArray:
    """Which rows of a target have a cell among these."""
    members = target.members
    found: BoolArray = (
        np.bincount(members.row, cells.reshape(-1)[members.cell], minlength=len(target)) > 0
    )
    return found
