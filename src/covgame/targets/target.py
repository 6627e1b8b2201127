"""Target: how many visits are required of which cells, taken singly or in groups.

The paper's target c_h(s,a) is the case of one cell per row. A row may also leave the stage
or the action open; then the visits of all matching cells are counted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covgame.arrays import sum_by_index
from covgame.errors import BadInput, Row
from covgame.types import ANY, BoolArray, BoolHSA, FloatArray, FloatHSA, IntArray, Shape


@dataclass(frozen=True, eq=False)
class Members:
    """Which cells belong to which row, as parallel arrays sorted by row."""

    row: IntArray  # (memberships,)
    cell: IntArray  # (memberships,), flat index of (h, s, a)


@dataclass(frozen=True, eq=False)
class Target:
    """Requirements: row i asks for ``counts[i]`` visits of the cells that ``rows[i]`` matches."""

    shape: Shape
    rows: IntArray  # (G, 3): stage or ANY, state, action or ANY
    counts: FloatArray  # (G,), positive

    @classmethod
    def of_rows(cls, shape: Shape, rows: IntArray, counts: FloatArray) -> Target:
        """From distinct rows in any order; rows that ask for nothing are left out."""
        if len(np.unique(rows, axis=0)) < len(rows):
            raise ValueError("a target holds a row twice")
        asked = counts > 0
        return cls(shape, rows[asked], _addable(counts[asked]))

    @classmethod
    def of_cells(cls, counts: FloatHSA) -> Target:
        """The paper's target: c_h(s,a) visits of each cell by itself."""
        rows = np.argwhere(counts > 0)
        asked = counts[counts > 0].astype(np.float64)
        return cls(Shape(*counts.shape), rows, _addable(asked))

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def per_cell(self) -> BoolArray:
        """Which rows name one cell in full (the others are group rows)."""
        per_cell: BoolArray = (self.rows != ANY).all(axis=1)
        return per_cell

    @cached_property
    def any_stage(self) -> BoolArray:
        """Which rows an episode can visit more than once."""
        any_stage: BoolArray = self.rows[:, 0] == ANY
        return any_stage

    @cached_property
    def most_per_episode(self) -> float:
        """The most visits of a row in an episode: 1, or H if some row is open to all stages."""
        return float(self.shape.horizon) if self.any_stage.any() else 1.0

    @cached_property
    def members(self) -> Members:
        """Every (row, cell) that match."""
        H, _, A = self.shape.hsa
        row, cell = [], []
        for any_stage in (False, True):
            for any_action in (False, True):
                which = np.flatnonzero(
                    ((self.rows[:, 0] == ANY) == any_stage)
                    & ((self.rows[:, 2] == ANY) == any_action)
                )
                stage = np.arange(H) if any_stage else self.rows[which, 0][:, None]
                action = np.arange(A) if any_action else self.rows[which, 2][:, None]
                row_part, cell_part = self._expand(which, stage, action)
                row.append(row_part)
                cell.append(cell_part)
        rows, cells = np.concatenate(row), np.concatenate(cell)
        order = np.lexsort((cells, rows))
        return Members(rows[order], cells[order])

    def _expand(
        self, which: IntArray, stage: IntArray, action: IntArray
    ) -> tuple[IntArray, IntArray]:
        """All combinations of the given rows with their stages and actions."""
        state = self.rows[which, 1][:, None, None]
        cells = stage.reshape(-1, stage.shape[-1], 1) * self.shape.pairs
        cells = cells + state * self.shape.actions + action.reshape(-1, 1, action.shape[-1])
        repeated = np.broadcast_to(which[:, None, None], cells.shape)
        return repeated.ravel(), cells.ravel()

    @cached_property
    def support(self) -> BoolHSA:
        """The cells that some row asks for (X in the paper)."""
        support = np.zeros(self.shape.cells, dtype=np.bool_)
        support[self.members.cell] = True
        return support.reshape(self.shape.hsa)

    @cached_property
    def largest_count(self) -> float:
        """c_max."""
        return float(self.counts.max(initial=0.0))

    @cached_property
    def whole_counts(self) -> FloatArray:
        """The visits that it takes, (G,): a count of 1.2 is met by the second one."""
        whole: FloatArray = np.ceil(self.counts)
        return whole

    @cached_property
    def largest_whole_count(self) -> float:
        """The largest of them, 0 if there are none."""
        return float(self.whole_counts.max(initial=0.0))

    @cached_property
    def by_cell(self) -> tuple[IntArray, IntArray]:
        """The rows of every cell: (start, row), cell i owning row[start[i]:start[i+1]]."""
        order = np.argsort(self.members.cell, kind="stable")
        sizes = np.bincount(self.members.cell, minlength=self.shape.cells)
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return start, self.members.row[order]

    def rows_of_cell(self, cell: int) -> list[int]:
        """The rows that a visit of the cell (flat index) counts for, in order."""
        rows = self._looked_up.get(cell)
        if rows is None:
            start, row = self.by_cell
            rows = self._looked_up[cell] = row[start[cell] : start[cell + 1]].tolist()
        return rows

    @cached_property
    def _looked_up(self) -> dict[int, list[int]]:
        """Rows of cells that somebody asked for: environments ask at every step."""
        return {}

    def cell_counts(self) -> FloatHSA:
        """c_h(s,a) of the rows that name one cell."""
        counts = np.zeros(self.shape.hsa)
        counts[tuple(self.rows[self.per_cell].T)] = self.counts[self.per_cell]
        return counts

    def collected(self, visits: FloatHSA | IntArray) -> FloatArray:
        """The visits (or their expectation) that each row has collected."""
        per_member = visits.ravel()[self.members.cell].astype(np.float64)
        return sum_by_index(self.members.row, per_member, len(self))

    def cell_rewards(self, row_weights: FloatArray) -> FloatHSA:
        """What a cell earns when rows are weighted: the sum over the rows that it matches."""
        per_member = row_weights[self.members.row]
        rewards = sum_by_index(self.members.cell, per_member, self.shape.cells)
        return rewards.reshape(self.shape.hsa)

    def with_more(self, states: int, rows: IntArray, counts: FloatArray) -> Target:
        """The same rows and more, in a world that has grown to so many states."""
        shape = Shape(self.shape.horizon, states, self.shape.actions)
        together = np.concatenate([self.rows, rows])
        return Target.of_rows(shape, together, np.concatenate([self.counts, counts]))

    def keep(self, wanted: BoolArray) -> Target:
        """Only some of the rows."""
        return Target(self.shape, self.rows[wanted], self.counts[wanted])

    def as_rows(self, which: IntArray | Sequence[int]) -> list[Row]:
        """Rows as people write them, with None for any."""
        return [
            (None if h == ANY else h, s, None if a == ANY else a)
            for h, s, a in self.rows[which].tolist()
        ]


def _addable(counts: FloatArray) -> FloatArray:
    """The counts, if their sum is still a number."""
    with np.errstate(over="ignore"):
        if not np.isfinite(counts.sum()):
            raise BadInput("the target's counts are too large to be added up")
    return counts
