"""Sparse transition kernels over cells: one type for the true world and for an estimate.

Rows are pairs (s, a), once for all stages if the kernel is stationary and once per stage
otherwise. A row lists its possible successors; ``END`` among them ends the episode. An empty
row is a pair of which nothing is known (an estimate), or one that needs no successor (the
last stage).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from covgame.arrays import sum_by_index, sum_by_segment
from covgame.types import BoolArray, FloatArray, FloatS, IntArray, Shape


@dataclass(frozen=True, eq=False)
class StageKernel:
    """The rows of one stage in compressed form: row i holds entries start[i]:start[i+1]."""

    start: IntArray  # (S*A + 1,)
    next_state: IntArray  # (entries,)
    probability: FloatArray  # (entries,)
    states: int

    def expect(self, values: FloatArray) -> FloatArray:
        """p V for every row; ``values`` is (S,) or (S, k), and the end is worth 0."""
        with_end = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
        weighted = with_end[self.next_state]
        weighted *= self.probability.reshape(-1, *(1 for _ in values.shape[1:]))
        return sum_by_segment(weighted, self.start)

    def push(self, mass: FloatArray) -> FloatS:
        """Where mass on the rows arrives: the sum over rows of mass times p, per state."""
        arriving = np.repeat(mass, np.diff(self.start)) * self.probability
        return sum_by_index(self.next_state + 1, arriving, self.states + 1)[1:]


@dataclass(frozen=True, eq=False)
class Transitions:
    """A kernel p_h(s'|s,a) with its initial distribution."""

    shape: Shape
    initial: FloatS  # (S,)
    start: IntArray  # (stored stages * S*A + 1,)
    next_state: IntArray  # (entries,)
    probability: FloatArray  # (entries,)
    stationary: bool  # one set of rows serves every stage
    allowed: BoolArray | None = None  # (S, A), if some states forbid actions: those rows are empty

    @classmethod
    def from_entries(
        cls,
        shape: Shape,
        initial: FloatS,
        row: IntArray,
        next_state: IntArray,
        probability: FloatArray,
        *,
        stationary: bool,
    ) -> Transitions:
        """From entries (row, successor, probability) in any order.

        ``row`` is s*A + a for a stationary kernel and h*S*A + s*A + a otherwise. Entries of
        the same row and successor are added up; impossible successors are left out.
        """
        rows = shape.pairs if stationary else shape.cells
        order = np.lexsort((next_state, row))
        row, next_state, probability = row[order], next_state[order], probability[order]
        if row.size:
            differs = (np.diff(row) != 0) | (np.diff(next_state) != 0)
            first = np.flatnonzero(np.concatenate([[True], differs]))
            probability = np.add.reduceat(probability, first)
            row, next_state = row[first], next_state[first]
        possible = probability > 0
        row, next_state, probability = row[possible], next_state[possible], probability[possible]
        start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])
        return cls(shape, initial, start.astype(np.int64), next_state, probability, stationary)

    @cached_property
    def allowed_actions(self) -> BoolArray:
        """Which actions each state has, (S, A)."""
        if self.allowed is not None:
            return self.allowed
        return np.ones((self.shape.states, self.shape.actions), dtype=np.bool_)

    @cached_property
    def stages(self) -> tuple[StageKernel, ...]:
        """One kernel per stage; the same object each time if the kernel is stationary."""
        pairs, horizon = self.shape.pairs, self.shape.horizon
        if self.stationary:
            return (self._view(0, pairs),) * horizon
        return tuple(self._view(h * pairs, (h + 1) * pairs) for h in range(horizon))

    def _view(self, first_row: int, last_row: int) -> StageKernel:
        start = self.start[first_row : last_row + 1]
        entries = slice(start[0], start[-1])
        return StageKernel(
            start - start[0],
            self.next_state[entries],
            self.probability[entries],
            self.shape.states,
        )

    def with_horizon(self, horizon: int) -> Transitions:
        """The same dynamics for another number of stages (at most the stored ones)."""
        shape = Shape(horizon, self.shape.states, self.shape.actions)
        if self.stationary:
            return replace(self, shape=shape)
        start = self.start[: shape.cells + 1]
        return replace(
            self,
            shape=shape,
            start=start,
            next_state=self.next_state[: start[-1]],
            probability=self.probability[: start[-1]],
        )
