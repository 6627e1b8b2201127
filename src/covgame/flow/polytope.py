"""The flows of a world as sparse linear constraints: pure arrays, no solver.

A flow eta assigns expected visits to cells. At every (h, s) what leaves equals what arrives
(eq. min_flow_problem, Appendix A): sum_a eta_h(s,a) = sum p_{h-1}(s|s',a') eta_{h-1}(s',a'),
and at the first stage mu(s) times the number of episodes. Only cells that some policy reaches
can carry flow, so only they get a column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.mdp import dp
from covgame.mdp.transitions import StageKernel, Transitions
from covgame.types import END, BoolHS, FloatArray, IntArray, Shape


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """A sparse matrix by columns: column j holds entries start[j]:start[j+1]."""

    rows: int
    start: IntArray
    index: IntArray
    value: FloatArray

    @classmethod
    def from_entries(
        cls, rows: int, columns: int, row: IntArray, column: IntArray, value: FloatArray
    ) -> SparseColumns:
        order = np.lexsort((row, column))
        sizes = np.bincount(column, minlength=columns)
        start = np.concatenate([[0], np.cumsum(sizes)])
        return cls(rows, start.astype(np.int64), row[order], value[order])

    @property
    def column(self) -> IntArray:
        """The column of each entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def scaled(self, by_row: FloatArray, by_column: FloatArray) -> SparseColumns:
        """Each entry times the factors of its row and its column."""
        factors = by_row[self.index] * by_column[self.column]
        return SparseColumns(self.rows, self.start, self.index, self.value * factors)


@dataclass(frozen=True, eq=False)
class FlowPolytope:
    """Conservation of flow, ``matrix @ (episodes, flow) = 0``, over the reachable cells.

    Column 0 is the number of episodes, column 1 + i the flow through ``cells[i]``; row j is
    conservation at ``states[j]`` (flat index of (h, s)).
    """

    shape: Shape
    cells: IntArray
    states: IntArray
    matrix: SparseColumns

    @property
    def state_of_cell(self) -> IntArray:
        """The row of the (h, s) that each column's cell leaves from."""
        position = np.empty(self.shape.horizon * self.shape.states, dtype=np.int64)
        position[self.states] = np.arange(len(self.states))
        return position[self.cells // self.shape.actions]

    @property
    def first_rows(self) -> IntArray:
        """The first row of each stage, and the number of rows."""
        first_states = np.arange(self.shape.horizon + 1) * self.shape.states
        return np.searchsorted(self.states, first_states)

    def column_of_cell(self) -> IntArray:
        """The column of every cell of the world, or -1 where no policy gets."""
        columns = np.full(self.shape.cells, -1, dtype=np.int64)
        columns[self.cells] = 1 + np.arange(len(self.cells))
        return columns


def flow_polytope(transitions: Transitions) -> FlowPolytope:
    """Build the constraints; time and memory are linear in cells and transitions."""
    shape = transitions.shape
    reachable = dp.reachable(transitions)
    states = np.flatnonzero(reachable)
    cells = np.flatnonzero(np.repeat(reachable.ravel(), shape.actions))
    row_of_state = np.full(reachable.size, -1, dtype=np.int64)
    row_of_state[states] = np.arange(len(states))

    first = np.flatnonzero(transitions.initial > 0)
    column = [np.zeros(len(first), dtype=np.int64), 1 + np.arange(len(cells))]
    row = [row_of_state[first], row_of_state[cells // shape.actions]]
    value = [-transitions.initial[first], np.ones(len(cells))]

    first_column = 1
    for h, kernel in enumerate(transitions.stages[:-1]):
        pair, successor, probability = _moves(kernel, reachable[h], shape.actions)
        column.append(first_column + pair)
        row.append(row_of_state[(h + 1) * shape.states + successor])
        value.append(-probability)
        first_column += int(reachable[h].sum()) * shape.actions
    matrix = SparseColumns.from_entries(
        len(states),
        1 + len(cells),
        np.concatenate(row),
        np.concatenate(column),
        np.concatenate(value),
    )
    return FlowPolytope(shape, cells, states, matrix)


def _moves(
    kernel: StageKernel, reachable: BoolHS, actions: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Transitions out of the reachable states, pairs numbered among the reachable ones."""
    pairs = np.repeat(reachable, actions)
    number = np.cumsum(pairs) - 1
    pair = np.repeat(np.arange(len(pairs)), np.diff(kernel.start))
    used = pairs[pair] & (kernel.next_state != END)
    return number[pair[used]], kernel.next_state[used], kernel.probability[used]
