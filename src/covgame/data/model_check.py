"""Whether data can be from a world whose table is known: nothing may have happened that cannot."""

from __future__ import annotations

import numpy as np

from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.mdp.transitions import Transitions
from covgame.names import Names
from covgame.types import END, BoolArray, IntArray


def check_fits(said: str, counts: Counts, world: Transitions, names: Names) -> None:
    """Refuse data (stages apart) that show what the table rules out, with the first such thing."""
    elsewhere = np.flatnonzero((counts.starts > 0) & (world.initial == 0))
    if len(elsewhere):
        raise BadInput(
            f"{said} begins an episode in {names.state(int(elsewhere[0]))}, where this environment "
            "never does; is it another environment, or another numbering of its states?"
        )
    row, successor, _ = counts.transitions()
    pairs = counts.shape.pairs
    known = world.stationary | (row // pairs + 1 < counts.shape.horizon)
    row, successor = row[known], successor[known]
    wrong = np.flatnonzero(~_possible(row, successor, world))
    if len(wrong):
        cell, following = int(row[wrong[0]]), int(successor[wrong[0]])
        pair = cell % pairs
        state, action = divmod(pair, counts.shape.actions)
        move = names.transition((state, action, None if following == END else following))
        if following == END:
            raise BadInput(
                f"{said} shows {move}, which this environment rules out; where time was up, an "
                "episode is truncated, not terminated"
            )
        raise BadInput(
            f"{said} shows {move}, which this environment rules out; is it another environment, or "
            "another numbering of its states?"
        )


def _possible(row: IntArray, successor: IntArray, world: Transitions) -> BoolArray:
    """Which of these transitions the table has.

    Where a step may end the episode, any state may be shown: not all data say that it was over.
    """
    width = world.shape.states + 1
    if world.stationary:
        row = row % world.shape.pairs
    rows = np.repeat(np.arange(len(world.start) - 1), np.diff(world.start))
    entries = rows * width + world.next_state + 1
    ends = row * width
    possible: BoolArray = np.isin(row * width + successor + 1, entries) | np.isin(ends, entries)
    return possible
