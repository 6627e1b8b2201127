"""Active distributions (Algorithm 3): occupancies that earn enough and are well covered.

Omega^k = {rho in Omega(p_hat) : rho r_hat >= value, rho <= cap}, with cap = n/2^k. The paper needs
the largest rho_h(s,a) in it for every cell: SAH linear programs over one polytope.

With the caps left out, one constraint remains and ``near_optimal`` answers all cells in a fraction
of a second. That only enlarges the set, so whoever asks for targets may do with it. The programs
themselves are solved for those who want them exact; a solution for one cell is a feasible point for
all others, and many answers are known that way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from covgame.flow.highs import LinearProgram, Method, Solver
from covgame.flow.min_flow import flow_policy
from covgame.flow.near_optimal import OptimalValues, largest_occupancies, optimal_values
from covgame.flow.polytope import FlowPolytope, SparseColumns, flow_polytope
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import FloatArray, FloatHSA, Policy

CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class WellCovered:
    """{rho in Omega(p) : rho <= cap}: the occupancies that the data can speak of."""

    transitions: Transitions
    reward: FloatHSA
    cap: FloatHSA

    @cached_property
    def optimal(self) -> OptimalValues:
        """What is optimal when the caps are left out."""
        return optimal_values(self.transitions, self.reward)

    @cached_property
    def best(self) -> tuple[Policy, FloatHSA]:
        """A policy of highest value, and its occupancy.

        An optimal policy that is well covered needs no linear program.
        """
        policy = dp.backward_induction(self.transitions, self.reward).policy
        occupancy = dp.occupancy(self.transitions, policy)
        if (occupancy <= self.cap * (1 + CLOSE)).all():
            return policy, occupancy
        answer = Solver(self.program(), Method.VERTEX).solve()
        policy = flow_policy(self._as_cells(answer.x))
        return policy, dp.occupancy(self.transitions, policy)

    @cached_property
    def best_value(self) -> float:
        """sup rho r over the set."""
        return float((self.best[1] * self.reward).sum())

    @cached_property
    def polytope(self) -> FlowPolytope:
        return flow_polytope(self.transitions)

    def program(self, value: float | None = None) -> LinearProgram:
        """Maximise rho r, or with a value: keep rho r above it and leave the objective open."""
        flow = self.polytope
        earned = np.concatenate([[0.0], self.reward.ravel()[flow.cells]])
        once = np.concatenate([[1.0], np.zeros(len(flow.cells))])
        program = LinearProgram(
            cost=-earned,
            lower=once,
            upper=np.concatenate([[1.0], self.cap.ravel()[flow.cells]]),
            matrix=flow.matrix,
            row_lower=np.zeros(flow.matrix.rows),
            row_upper=np.zeros(flow.matrix.rows),
        )
        if value is None:
            return program
        return replace(
            program,
            cost=np.zeros(len(earned)),
            matrix=_with_row(flow.matrix, earned),
            row_lower=np.append(program.row_lower, value),
            row_upper=np.append(program.row_upper, np.inf),
        )

    def _as_cells(self, x: FloatArray) -> FloatHSA:
        occupancy = np.zeros(self.transitions.shape.cells)
        occupancy[self.polytope.cells] = np.maximum(x[1:], 0.0)
        return occupancy.reshape(self.transitions.shape.hsa)

    def bounds(self, value: float) -> FloatHSA:
        """At least sup rho_h(s,a) over the rho with rho r >= value: caps only cell by cell."""
        slack = max(0.0, self.optimal.best - value)
        return np.minimum(largest_occupancies(self.optimal, slack), self.cap)

    def suprema(self, value: float, enough: float = np.inf) -> FloatHSA:
        """sup rho_h(s,a) over the rho with rho r >= value, by linear programs.

        Where it is ``enough`` or more, any number from there on will do.
        """
        upper = np.minimum(self.bounds(value), enough).ravel()
        lower = np.zeros(len(upper))
        # A point strictly inside costs nothing and keeps rounding from closing the set.
        solver = Solver(self.program(value - CLOSE * max(1.0, abs(value))), Method.PRIMAL)
        cells = self.polytope.cells
        last = 0
        for column, cell in enumerate(cells.tolist(), start=1):
            if lower[cell] >= upper[cell] - CLOSE:
                continue
            solver.change_costs(np.array([last, column]), np.array([0.0, -1.0]))
            answer = solver.solve()
            lower[cells] = np.maximum(lower[cells], answer.x[1:])
            upper[cell] = min(upper[cell], max(-answer.value, 0.0))
            last = column
        return upper.reshape(self.transitions.shape.hsa)


def _with_row(matrix: SparseColumns, row: FloatArray) -> SparseColumns:
    """One more row below."""
    columns = np.flatnonzero(row)
    return SparseColumns.from_entries(
        matrix.rows + 1,
        len(row),
        np.concatenate([matrix.index, np.full(len(columns), matrix.rows)]),
        np.concatenate([matrix.column, columns]),
        np.concatenate([matrix.value, row[columns]]),
    )
