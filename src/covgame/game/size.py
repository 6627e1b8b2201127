"""What a game takes, said before it begins: memory, and the time of planning an episode.

The sums follow the arrays of ``Counts``, ``Target`` and ``kernels.layout``; a test adds those up.
"""

from __future__ import annotations

from dataclasses import dataclass

from covgame.errors import TooLarge
from covgame.game.counts import MOST_BY_STAGE
from covgame.game.game import Game
from covgame.game.lookahead import INITIAL_DEPTH, MAX_PLANNED, max_depth
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
class Kept:
    """How a game keeps what it has seen, and how far it plans."""

    pooled: bool
    borrowing: bool
    staged: bool  # whether its target, also one that has yet to grow, tells stages apart
    stage_free: bool = False  # whether plans depend only on the stages that are left

    @classmethod
    def by(cls, game: Game) -> Kept:
        """A game that has begun."""
        counts, staged = game.counts, not game.target.stage_free
        return cls(counts.pooled, counts.pool is not None, staged, counts.stage_free)

    def stages_planned(self, shape: Shape) -> int:
        return max_depth(shape) if self.stage_free else shape.horizon

    def stages_counted(self, shape: Shape) -> int:
        added_up = self.stage_free and shape.cells > MOST_BY_STAGE
        return 1 if added_up else shape.horizon


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


def size_of(target: Target, states: int, how: Kept) -> Size:
    """What a game for this target takes, in a world of so many states."""
    H, _, A = target.shape.hsa
    shape, places = Shape(H, states, A), H if how.staged else 1
    rows = len(target) * states / target.shape.states
    taken = _bytes(shape, rows, places, how)
    # What one more state takes where there are many: only then does it matter.
    many = max(states, MOST_BY_STAGE // (H * A) + 1)
    if how.stage_free:
        many = max(many, MAX_PLANNED // INITIAL_DEPTH)
    rows_each = max(rows, places * shape.pairs) / states
    some, more = (
        _bytes(Shape(H, number, A), number * rows_each, places, how) for number in (many, many + 1)
    )
    seconds = 2 * SECONDS_PER_CELL * shape.pairs * how.stages_planned(shape)
    return Size(shape.cells, LEAST_BYTES + int(taken), seconds, int(more - some) + PER_NAME)


def check_room(game: Game, states: int | None = None) -> None:
    """Raise ``TooLarge`` if a game, or the same with so many states, is more than there is."""
    states = game.target.shape.states if states is None else states
    size_of(game.target, states, Kept.by(game)).require_memory()


def _bytes(shape: Shape, rows: float, places: int, how: Kept) -> float:
    """``places``: how many stages the target tells apart."""
    tables = (shape.pairs if how.pooled else shape.cells) + (
        shape.pairs if how.borrowing and not how.pooled else 0
    )
    return (
        how.stages_counted(shape) * shape.pairs * PER_CELL
        + how.stages_planned(shape) * shape.states * PER_STAGE_AND_STATE
        + tables * PER_ROW_OF_A_TABLE
        + rows * PER_ROW
        + places * shape.pairs * PER_PLACE
    )
