"""What a game takes, said before it begins: memory, and the time of planning an episode.

The sums follow the arrays of ``Counts``, ``Target`` and ``kernels.layout``; a test adds those up.
"""

from __future__ import annotations

from dataclasses import dataclass

from covgame.errors import TooLarge
from covgame.memory import physical_memory
from covgame.targets.target import Target
from covgame.types import Shape

PER_CELL = 16
"""Bytes: visits and rewards."""

PER_STAGE_AND_STATE = 25
"""An action, a value, flags, and places in two lists."""

PER_ROW_OF_A_TABLE = 64 + 2 * 16
"""What a pair, or a cell, was seen to lead to: two successors; more take more."""

PER_ROW = 128
"""Of a target: what it asks for, has collected and weighs, and where its members are listed."""

PER_PLACE = 32
"""A pair, or a cell where the target tells stages apart: what it earns, and the largest."""

PER_NAME = 600
"""A state that is discovered: its observation, key and label."""

LEAST_BYTES = 64 * 2**20
"""Python, its libraries and compiled code are not counted; below this nothing else matters."""

SECONDS_PER_CELL = 1e-8
"""Planning a cell, with two successors, where everything is planned anew."""

LARGE_BYTES, LARGE_SECONDS = 2**30, 0.1
"""From here on people are told beforehand."""

LARGE_BYTES_PER_STATE = 20_000
"""And from here on of what the states will take that show only on the way."""


@dataclass(frozen=True)
class Size:
    """What a game with so many cells takes."""

    cells: int
    bytes: int
    seconds: float  # planning everything twice, which is an episode at worst
    bytes_per_state: int  # of every state more

    @property
    def room(self) -> int:
        """How many states this machine has room for."""
        return physical_memory() // self.bytes_per_state

    def words(self, *, discovers: bool = False) -> str | None:
        """A sentence for people, if there is something to prepare for."""
        if discovers and self.bytes_per_state >= LARGE_BYTES_PER_STATE:
            return (
                f"every state that is found takes about {self.bytes_per_state / 1000:,.0f} KB with "
                f"all its stages; this machine has room for about {self.room:,} of them"
            )
        if not discovers and (self.bytes >= LARGE_BYTES or self.seconds >= LARGE_SECONDS):
            return (
                f"{self.cells:,} cells: about {self.bytes / 2**30:,.1f} GiB of memory, and up to "
                f"{self.seconds:,.2f} s of planning an episode, most of it at the beginning"
            )
        return None

    def require_memory(self) -> None:
        """Raise ``TooLarge`` if that is more than the machine has."""
        available = physical_memory()
        if self.bytes > available:
            raise TooLarge(
                f"a game of {self.cells:,} cells takes about {self.bytes / 2**30:,.1f} GiB and "
                f"this machine has {available / 2**30:,.0f} GiB; use a shorter --horizon, a "
                "coarser map of states, or a target over pairs on a stationary world"
            )


def size_of(target: Target, states: int, *, pooled: bool, borrowing: bool) -> Size:
    """What a game for this target takes, in a world of so many states."""
    shape = Shape(target.shape.horizon, states, target.shape.actions)
    share = states / target.shape.states
    more = Shape(shape.horizon, states + 1, shape.actions)
    rows = len(target) * share
    rows_more = rows + (max(rows, shape.pairs) / states)
    taken, with_one_more = (
        _bytes(world, number, stage_free=target.stage_free, pooled=pooled, borrowing=borrowing)
        for world, number in ((shape, rows), (more, rows_more))
    )
    seconds = 2 * SECONDS_PER_CELL * shape.cells
    return Size(
        shape.cells, LEAST_BYTES + int(taken), seconds, int(with_one_more - taken) + PER_NAME
    )


def _bytes(shape: Shape, rows: float, *, stage_free: bool, pooled: bool, borrowing: bool) -> float:
    tables = (shape.pairs if pooled else shape.cells) + (
        shape.pairs if borrowing and not pooled else 0
    )
    places = shape.pairs if stage_free else shape.cells
    return (
        shape.cells * PER_CELL
        + shape.horizon * shape.states * PER_STAGE_AND_STATE
        + tables * PER_ROW_OF_A_TABLE
        + rows * PER_ROW
        + places * PER_PLACE
    )
