"""PEDEL's objective at one stage: min over occupancies of a maximum over deterministic policies.

min_rho max_pi w(pi) sum_{s,a} p_h^pi(s,a)^2 / rho_h(s,a), with w(pi) = 1/max(least, Delta(pi))^2.
It is convex in rho. The policies are listed, as far as they differ until stage h (what comes after
is best played optimally), and 1/rho is replaced by the maximum of its tangents: a linear program
whose value lies below, and whose solution, put into the objective, lies above.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from covgame.errors import SolverFailed
from covgame.flow.highs import Answer, LinearProgram, Method, solve
from covgame.flow.near_optimal import OptimalValues
from covgame.flow.polytope import FlowPolytope, SparseColumns, flow_polytope
from covgame.mdp import dp
from covgame.types import FloatArray, IntArray

MOST_POLICIES = 5_000
CLOSE = 1e-4
MOST_ROUNDS = 60
HALVINGS = 24
SMALLEST = 1e-9
"""Tangents at still smaller shares of the largest flow would only spoil the numbers."""

MIXTURES = np.concatenate([[0.0], np.logspace(-8, -1, 15)])
"""How much of the spreading occupancy is mixed into a solution to evaluate it."""


def pedel_objective(optimal: OptimalValues, h: int, least: float) -> float | None:
    """The minimum over rho; None for too many policies, or if the solver gives up."""
    listed = _prefixes(optimal, h)
    if listed is None:
        return None
    chances, losses = listed
    if not chances.any():
        return 0.0  # every episode is over before this stage
    weighted = (chances / np.maximum(least, losses)[:, None]) ** 2
    return _Tangents(optimal, h, weighted).minimum()


def _prefixes(optimal: OptimalValues, h: int) -> tuple[FloatArray, FloatArray] | None:
    """(p_h^pi of every pair, Delta) of the policies that differ until stage h."""
    transitions, S = optimal.transitions, optimal.transitions.shape.states
    arrivals, losses = transitions.initial[None, :], np.zeros(1)
    for stage in range(h + 1):
        spread: list[FloatArray] = []
        lost: list[float] = []
        for arriving, loss in zip(arrivals, losses, strict=True):
            choices = _choices(optimal, arriving)
            if choices is None or len(spread) + len(choices) > MOST_POLICIES:
                return None
            for pairs in choices:
                mass = np.zeros(transitions.shape.pairs)
                mass[pairs] = arriving[pairs // transitions.shape.actions]
                spread.append(mass)
                lost.append(loss + float(mass[pairs] @ optimal.gaps[stage].ravel()[pairs]))
        chances, losses = np.array(spread), np.array(lost)
        if stage < h:
            kernel = transitions.stages[stage]
            arrivals = np.array([kernel.push(mass) for mass in chances]).reshape(-1, S)
            arrivals, losses = _cheapest(arrivals, losses)
    return _cheapest(chances, losses)


def _choices(optimal: OptimalValues, arriving: FloatArray) -> list[IntArray] | None:
    """What a deterministic policy can do where it is: a pair for every state it may be in."""
    A = optimal.transitions.shape.actions
    allowed = optimal.transitions.allowed_actions
    per_state = [
        [s * A + a for a in range(A) if allowed[s, a]] for s in np.flatnonzero(arriving).tolist()
    ]
    if np.prod([float(len(pairs)) for pairs in per_state]) > MOST_POLICIES:
        return None
    return [np.array(pairs, dtype=np.int64) for pairs in product(*per_state)]


def _cheapest(rows: FloatArray, losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of policies that look alike, the one that loses least."""
    order = np.argsort(losses, kind="stable")
    _, first = np.unique(np.round(rows[order], 12), axis=0, return_index=True)
    kept = order[first]
    return rows[kept], losses[kept]


class _Tangents:
    """min_rho max_i sum_j weighted[i, j] / rho_j by linear programs with more and more tangents.

    Flow is measured in multiples of a bound on reachability, so that no number is large; rho stands
    for these multiples from here on.
    """

    def __init__(self, optimal: OptimalValues, h: int, weighted: FloatArray) -> None:
        transitions = optimal.transitions.with_horizon(h + 1)
        self.polytope: FlowPolytope = flow_polytope(transitions)
        spread = dp.reach_bound(transitions).ravel()[self.polytope.states]
        per_column = spread[self.polytope.state_of_cell] / transitions.shape.actions
        self.unit = np.concatenate([[1.0], per_column])
        self.flow = self.polytope.matrix.scaled(1 / spread, self.unit)
        columns = self.polytope.column_of_cell()[h * transitions.shape.pairs :]
        pairs = np.flatnonzero(weighted.any(axis=0))
        self.columns = columns[pairs]
        weighted = weighted[:, pairs] / self.unit[self.columns]
        self.scale = float(weighted.max())
        self.weighted = weighted / self.scale
        places = np.arange(len(pairs))
        most = 1 / self.unit[self.columns]
        self.where = np.tile(places, HALVINGS)
        self.at = np.concatenate([most * 2.0**-i for i in range(HALVINGS)])
        self.least = SMALLEST * most

    def minimum(self) -> float | None:
        """The value within a ten-thousandth, None if the numbers defy the solver."""
        below, above = 0.0, np.inf
        for _ in range(MOST_ROUNDS):
            answer = self._solved()
            if answer is None:
                break
            below = max(below, answer.value)
            rho = answer.x[self.columns]
            above = min(above, self._objective(rho))
            if above - below <= CLOSE * below:
                break
            self.where = np.concatenate([self.where, np.arange(len(rho))])
            self.at = np.concatenate([self.at, np.maximum(rho, self.least)])
        return above * self.scale if above - below <= 100 * CLOSE * below else None

    def _solved(self) -> Answer | None:
        """The program of the tangents so far; some methods mind its large and small numbers."""
        program = self._program()
        for method in (Method.VERTEX, Method.SIMPLEX, Method.PRIMAL):
            try:
                return solve(program, method)
            except SolverFailed:
                continue
        return None

    def _objective(self, rho: FloatArray) -> float:
        """The true objective of the best mixture of a solution with the spreading occupancy."""
        best = np.inf
        for share in MIXTURES:
            mixed = (1 - share) * rho + share
            if (mixed > 0).all():
                best = min(best, float((self.weighted / mixed).sum(axis=1).max()))
        return best

    def _program(self) -> LinearProgram:
        """Columns: episodes and flow, u_j above the tangents of 1/rho_j, and the maximum t."""
        n_flow, n_pairs, n_policies = len(self.unit), len(self.columns), len(self.weighted)
        policy, pair = np.nonzero(self.weighted)
        tangent = self.flow.rows + np.arange(len(self.at))
        row_of_policy = self.flow.rows + len(self.at) + np.arange(n_policies)
        # u + rho/at^2 >= 2/at, times at;  t - sum weighted u >= 0
        row = [self.flow.index, tangent, tangent, row_of_policy[policy], row_of_policy]
        column = [
            self.flow.column,
            self.columns[self.where],
            n_flow + self.where,
            n_flow + pair,
            np.full(n_policies, n_flow + n_pairs),
        ]
        value = [
            self.flow.value,
            1 / self.at,
            self.at,
            -self.weighted[policy, pair],
            np.ones(n_policies),
        ]
        rows, columns = self.flow.rows + len(self.at) + n_policies, n_flow + n_pairs + 1
        matrix = SparseColumns.from_entries(
            rows, columns, np.concatenate(row), np.concatenate(column), np.concatenate(value)
        )
        cost = np.zeros(columns)
        cost[-1] = 1.0
        lower, upper = np.zeros(columns), np.full(columns, np.inf)
        lower[0] = upper[0] = 1.0
        row_lower = np.zeros(rows)
        row_lower[tangent] = 2.0
        row_upper = np.full(rows, np.inf)
        row_upper[: self.flow.rows] = 0.0
        return LinearProgram(cost, lower, matrix, row_lower, row_upper, upper)
