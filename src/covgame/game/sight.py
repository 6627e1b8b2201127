"""How many stages ahead plans look, where stages need not be told apart.

In a world that is the same at every stage, and for a target that may be visited at any stage, a
plan depends on how many stages are left and on nothing else. To look K stages ahead costs the same
whatever the horizon H; near the end, where fewer are left, it is the plan for those.

K begins with ``FIRST_SIGHT`` and is doubled after an episode that has walked K steps in a row
without meeting anything that was missing: as far as its plans saw there was nothing to be had. So
for want of sight at most log2(H/16) episodes go by in part, one for every doubling, as long as
memory sets no limit (``MOST_PLANNED``). When to double follows from the episodes alone, so whoever
counts them again comes to the same K.
"""

from __future__ import annotations

from collections.abc import Iterable

from covgame.targets.target import Target
from covgame.types import FloatArray, Shape

FIRST_SIGHT = 16

LONG = 32
"""Episodes up to this length are planned as a whole, which takes little then."""

MOST_PLANNED = 100_000_000
"""Stages times states of a plan, 2.5 GB: in worlds of millions of states plans look less far."""


def is_long(shape: Shape) -> bool:
    """Whether episodes are so long that it pays to look only as far ahead as it takes."""
    return shape.horizon > LONG


def first_sight(shape: Shape, *, stage_free: bool) -> int:
    """How far the first plan looks."""
    return min(FIRST_SIGHT, shape.horizon) if stage_free else shape.horizon


def wider(sight: int, shape: Shape, in_vain: int) -> int:
    """How far to look after an episode with so many steps in a row that met nothing missing."""
    return within_reason(2 * sight, shape) if in_vain >= sight else sight


def within_reason(sight: int, shape: Shape) -> int:
    """As far as that, if an episode is so long and memory allows it."""
    return min(sight, shape.horizon, max(FIRST_SIGHT, MOST_PLANNED // shape.states))


def longest_in_vain(target: Target, collected: FloatArray, cells: Iterable[int]) -> int:
    """The most steps in a row of an episode that met no row that was still open at that step.

    ``collected`` is what there was before the episode.
    """
    gains: dict[int, int] = {}
    longest = in_vain = 0
    for cell in cells:
        in_vain += 1
        for row in target.rows_of_cell(cell):
            if collected[row] + gains.get(row, 0) < target.counts[row]:
                in_vain = 0
            gains[row] = gains.get(row, 0) + 1
        longest = max(longest, in_vain)
    return longest
