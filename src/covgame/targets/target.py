"""Target: how many visits are required of which cells, taken singly or in groups.

The paper's target c_h(s,a) is the case of one cell per row. A row may also leave the stage
or the action open; then the visits of all matching cells are counted together. Or it stands for
a named group of pairs (state, action), at whatever stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
class Groups:
    """Named sets of pairs (state, action); a pair may be in several of them."""

    names: tuple[str, ...]
    group: IntArray  # (memberships,), which name
    pair: IntArray  # (memberships,), s A + a

    def only(self, numbers: IntArray) -> Groups:
        """Some of them, numbered anew; memberships in order."""
        again = np.full(len(self.names), -1, dtype=np.int64)
        again[numbers] = np.arange(len(numbers))
        group = again[self.group]
        group, pair = group[group >= 0], self.pair[group >= 0]
        order = np.lexsort((pair, group))
        names = tuple(self.names[number] for number in numbers.tolist())
        return Groups(names, group[order], pair[order])

    def row_of(self, number: int) -> tuple[int, int, int]:
        """How a target's rows refer to a group: by a state below ANY."""
        return ANY, FIRST_GROUP - number, ANY


GATHERED = 16
"""If fewer than one in so many pairs are asked for, only their visits are looked at."""

MOST_LOOKED_UP = 200_000
"""Of so many cells it is remembered which rows they belong to."""

FIRST_GROUP = ANY - 1
"""In the place of a row's state: group 0; the next ones count downwards."""


@dataclass(frozen=True, eq=False)
class Target:
    """Requirements: row i asks for ``counts[i]`` visits of the cells that ``rows[i]`` matches."""

    shape: Shape
    rows: IntArray  # (G, 3): stage or ANY, state (or a group), action or ANY
    counts: FloatArray  # (G,), positive
    groups: Groups | None = None  # what rows below ANY stand for
    last_stage: bool = True  # whether visits at the last stage count for rows of any stage

    @classmethod
    def of_rows(cls, shape: Shape, rows: IntArray, counts: FloatArray) -> Target:
        """From distinct rows in any order; rows that ask for nothing are left out."""
        if len(np.unique(row_numbers(shape, rows))) < len(rows):
            raise ValueError("the same row appears twice in the target")
        asked = counts > 0
        return cls(shape, rows[asked], _addable(counts[asked]))

    @classmethod
    def of_groups(cls, shape: Shape, groups: Groups, counts: FloatArray) -> Target:
        """So many visits of each group; those that are empty or ask for nothing are left out."""
        filled = np.bincount(groups.group, minlength=len(groups.names)) > 0
        asked = np.flatnonzero((counts > 0) & filled)
        groups = groups.only(asked)
        rows = np.array([groups.row_of(number) for number in range(len(asked))], dtype=np.int64)
        return cls(shape, rows.reshape(-1, 3), _addable(counts[asked]), groups)

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
    def of_group(self) -> BoolArray:
        """Which rows stand for a named group."""
        of_group: BoolArray = self.rows[:, 1] < ANY
        return of_group

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
        H = self.shape.horizon
        return self._members(np.arange(H if self.last_stage else H - 1))

    @cached_property
    def stage_free(self) -> bool:
        """Whether a visit counts for the same rows at every stage."""
        return self.last_stage and bool(self.any_stage.all())

    @property
    def stages_apart(self) -> int:
        """How many stages have to be told apart: all, or only one."""
        return 1 if self.stage_free else self.shape.horizon

    @cached_property
    def places(self) -> Members:
        """The members, by pairs instead of cells where stages need not be told apart."""
        return self._members(np.zeros(1, dtype=np.int64)) if self.stage_free else self.members

    def _members(self, every: IntArray) -> Members:
        """Every (row, cell) that match at these stages, or at the row's own."""
        A = self.shape.actions
        single = ~self.of_group
        row, cell = self._group_members(every)
        for any_stage in (False, True):
            for any_action in (False, True):
                which = np.flatnonzero(
                    ((self.rows[:, 0] == ANY) == any_stage)
                    & ((self.rows[:, 2] == ANY) == any_action)
                    & single
                )
                stage = every if any_stage else self.rows[which, 0][:, None]
                action = np.arange(A) if any_action else self.rows[which, 2][:, None]
                row_part, cell_part = self._expand(which, stage, action)
                row.append(row_part)
                cell.append(cell_part)
        rows, cells = np.concatenate(row), np.concatenate(cell)
        order = np.lexsort((cells, rows))
        return Members(rows[order], cells[order])

    def _group_members(self, stages: IntArray) -> tuple[list[IntArray], list[IntArray]]:
        """(rows, cells) of the rows that stand for groups."""
        if self.groups is None:
            return [], []
        numbers = FIRST_GROUP - self.rows[self.of_group, 1]
        row_of = np.full(len(self.groups.names), -1, dtype=np.int64)
        row_of[numbers] = np.flatnonzero(self.of_group)
        row = row_of[self.groups.group]
        pair, row = self.groups.pair[row >= 0], row[row >= 0]
        cell = stages[:, None] * self.shape.pairs + pair
        return [np.broadcast_to(row, cell.shape).ravel()], [cell.ravel()]

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
        _, S, A = self.shape.hsa
        support = np.zeros(self.stages_apart * S * A, dtype=np.bool_)
        support[self.places.cell] = True
        return np.broadcast_to(support.reshape(-1, S, A), self.shape.hsa)

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
        return _by_cell(self.members, self.shape.cells)

    @cached_property
    def by_place(self) -> tuple[IntArray, IntArray]:
        """The same of ``places``."""
        return _by_cell(self.places, self.stages_apart * self.shape.pairs)

    def rows_of_cell(self, cell: int) -> list[int]:
        """The rows that a visit of the cell (flat index) counts for, in order."""
        place = cell % self.shape.pairs if self.stage_free else cell
        rows = self._looked_up.get(place)
        if rows is None:
            start, row = self.by_place
            rows = row[start[place] : start[place + 1]].tolist()
            if len(self._looked_up) < MOST_LOOKED_UP:
                self._looked_up[place] = rows
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
        if self.stage_free and visits.dtype.kind == "i":  # then no order of adding up matters
            members, by_pair = self.places, visits.reshape(-1, self.shape.pairs)
            few = len(members.cell) < by_pair.shape[1] // GATHERED
            visits = by_pair[:, members.cell].sum(axis=0) if few else by_pair.sum(axis=0)
            if few:
                return sum_by_index(members.row, visits.astype(np.float64), len(self))
        else:
            members = self.members
        per_member = visits.ravel()[members.cell].astype(np.float64)
        return sum_by_index(members.row, per_member, len(self))

    def cell_rewards(self, row_weights: FloatArray) -> FloatHSA:
        """What a cell earns when rows are weighted: the sum over the rows that it matches."""
        return np.broadcast_to(self.place_rewards(row_weights), self.shape.hsa).copy()

    def place_rewards(self, row_weights: FloatArray) -> FloatHSA:
        """The same, (1, S, A) where stages need not be told apart."""
        _, S, A = self.shape.hsa
        per_member = row_weights[self.places.row]
        rewards = sum_by_index(self.places.cell, per_member, self.stages_apart * S * A)
        return rewards.reshape(-1, S, A)

    def with_more(self, states: int, rows: IntArray, counts: FloatArray) -> Target:
        """The same rows and others after them, in a world that has grown to so many states."""
        shape = Shape(self.shape.horizon, states, self.shape.actions)
        more = Target.of_rows(shape, rows, counts)
        return replace(
            self,
            shape=shape,
            rows=np.concatenate([self.rows, more.rows]),
            counts=_addable(np.concatenate([self.counts, more.counts])),
        )

    def continues(self, other: Target) -> bool:
        """Whether it begins with all the rows of another target, which mean the same."""
        rows = len(other)
        return (
            self.groups is other.groups
            and self.last_stage == other.last_stage
            and np.array_equal(self.rows[:rows], other.rows)
        )

    def keep(self, wanted: BoolArray) -> Target:
        """Only some of the rows."""
        kept = replace(self, rows=self.rows[wanted], counts=self.counts[wanted])
        if kept.groups is None:
            return kept
        numbers = FIRST_GROUP - kept.rows[kept.of_group, 1]
        rows = kept.rows.copy()
        rows[kept.of_group, 1] = FIRST_GROUP - np.arange(len(numbers))
        return replace(kept, rows=rows, groups=kept.groups.only(numbers))

    def remainder(self, wanted: BoolArray, counts: FloatArray) -> Target:
        """Only some of the rows, with other counts."""
        return replace(self, rows=self.rows[wanted], counts=counts[wanted])

    def as_rows(self, which: IntArray | Sequence[int]) -> list[Row]:
        """Rows as people write them, with None for any, groups by their names."""
        return [
            (None if h == ANY else h, self._name(s), None if a == ANY else a)
            for h, s, a in self.rows[which].tolist()
        ]

    def _name(self, state: int) -> int | str:
        if self.groups is None or state > FIRST_GROUP:
            return state
        return self.groups.names[FIRST_GROUP - state]


def row_numbers(shape: Shape, rows: IntArray) -> IntArray:
    """A number for each row, the same for the same rows; rows of groups get theirs below 0."""
    stage, state, action = rows.T
    numbers: IntArray = (state * (shape.horizon + 1) + stage + 1) * (shape.actions + 1) + action + 1
    return numbers


def _by_cell(members: Members, cells: int) -> tuple[IntArray, IntArray]:
    """(start, row), cell i owning row[start[i]:start[i+1]]."""
    order = np.argsort(members.cell, kind="stable")
    sizes = np.bincount(members.cell, minlength=cells)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return start, members.row[order]


def _addable(counts: FloatArray) -> FloatArray:
    """The counts, if their sum is still a number."""
    with np.errstate(over="ignore"):
        if not np.isfinite(counts.sum()):
            raise BadInput("the target's counts are too large to be added up")
    return counts
