"""What becomes of a target when some actions are not to be taken again."""

from __future__ import annotations

import numpy as np

from covgame.game.game import Game
from covgame.mdp import dp
from covgame.targets.target import Target
from covgame.types import BoolArray, BoolHS


def without(target: Target, avoided: BoolArray) -> Target:
    """The rows of a target that can do without what is avoided, (S, A)."""
    return target.keep(can_do_without(target, avoided))


def can_do_without(target: Target, avoided: BoolArray) -> BoolArray:
    """Which rows of a target can do without what is avoided, (S, A)."""
    shape = target.shape
    open_to = np.ones((shape.states, shape.actions), dtype=np.bool_)
    open_to[: len(avoided)] = ~avoided[: shape.states]
    everywhere = np.broadcast_to(open_to, shape.hsa)
    return _has_any(target, everywhere)


def cut_off(game: Game, allowed: BoolArray) -> BoolArray:
    """Open rows of a game that, as far as was seen, only avoided actions lead to.

    What an action leads to that was never tried, nobody knows: until all are, nothing is cut off.
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
    still_open = game.collected < target.counts
    return still_open & ~_has_any(target, there)


def _has_any(target: Target, cells: BoolArray) -> BoolArray:
    """Which rows have a cell among these."""
    members = target.members
    found: BoolArray = (
        np.bincount(members.row, cells.reshape(-1)[members.cell], minlength=len(target)) > 0
    )
    return found
