"""PEDEL's objective at one stage: min over occupancies of a maximum over deterministic policies.

min_rho max_pi w(pi) sum_{s,a} p_h^pi(s,a)^2 / rho_h(s,a), with w(pi) = 1/max(least, Delta(pi))^2.
It is convex in rho. The policies are listed, as far as they differ until stage h (what comes after
is best played optimally), and 1/rho is replaced by the maximum of its tangents: a linear program
whose value lies below, and whose solution, put into the objective, lies above.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from covgame.flow.highs import LinearProgram, Method, solve
from covgame.flow.min_flow import natural_flow
from covgame.flow.near_optimal import OptimalValues
from covgame.flow.polytope import FlowPolytope, SparseColumns, flow_polytope
from covgame.types import FloatArray, FloatHSA, IntArray

MOST_POLICIES = 5_000
CLOSE = 1e-4
MOST_ROUNDS = 60
HALVINGS = 24


def pedel_objective(optimal: OptimalValues, h: int, least: float) -> float | None:
    """The minimum over rho, within a ten-thousandth; None for too many policies."""
    listed = _prefixes(optimal, h)
    if listed is None:
        return None
    chances, losses = listed
    weighted = (chances / np.maximum(least, losses)[:, None]) ** 2
    unit = float(weighted.max())
    return _Tangents(optimal, h, weighted / unit).minimum() * unit


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
    """min_rho max_i sum_j weighted[i, j] / rho_j by linear programs with more and more tangents."""

    def __init__(self, optimal: OptimalValues, h: int, weighted: FloatArray) -> None:
        self.transitions = optimal.transitions.with_horizon(h + 1)
        self.polytope: FlowPolytope = flow_polytope(self.transitions)
        shape = self.transitions.shape
        columns = self.polytope.column_of_cell()[h * shape.pairs :]
        self.pairs = np.flatnonzero(weighted.any(axis=0))
        self.columns = columns[self.pairs]
        self.weighted = weighted[:, self.pairs]
        self.spread: FloatHSA = natural_flow(self.transitions)
        most = np.minimum(1.0, self.spread[h].ravel()[self.pairs] * shape.pairs)
        places = np.arange(len(self.pairs))
        self.at = (
            np.tile(places, HALVINGS),
            np.concatenate([most * 2.0**-i for i in range(HALVINGS)]),
        )

    def minimum(self) -> float:
        below, above = 0.0, np.inf
        for _ in range(MOST_ROUNDS):
            answer = solve(self._program(), Method.VERTEX)
            below = max(below, answer.value)
            rho = answer.x[self.columns]
            if (rho > 0).all():
                above = min(above, float((self.weighted / rho).sum(axis=1).max()))
            if above - below <= CLOSE * above:
                break
            where, at = self.at
            new = np.maximum(rho, at.min() * 1e-3)
            self.at = (
                np.concatenate([where, np.arange(len(rho))]),
                np.concatenate([at, new]),
            )
        return above if np.isfinite(above) else below

    def _program(self) -> LinearProgram:
        """Columns: episodes and flow, u_j above the tangents of 1/rho_j, and the maximum t."""
        flow = self.polytope.matrix
        n_flow, n_pairs = 1 + len(self.polytope.cells), len(self.pairs)
        where, at = self.at
        n_tangents = len(at)
        policy, pair = np.nonzero(self.weighted)
        tangent, first = np.arange(n_tangents), flow.rows
        last = first + n_tangents
        row = [flow.index, first + tangent, first + tangent, last + policy]
        column = [flow.column, self.columns[where], n_flow + where, n_flow + pair]
        # u + rho/at^2 >= 2/at, times at;  t - sum weighted u >= 0
        value = [flow.value, 1 / at, at, -self.weighted[policy, pair]]
        row.append(last + np.arange(len(self.weighted)))
        column.append(np.full(len(self.weighted), n_flow + n_pairs))
        value.append(np.ones(len(self.weighted)))
        rows, columns = last + len(self.weighted), n_flow + n_pairs + 1
        matrix = SparseColumns.from_entries(
            rows, columns, np.concatenate(row), np.concatenate(column), np.concatenate(value)
        )
        cost = np.zeros(columns)
        cost[-1] = 1.0
        lower, upper = np.zeros(columns), np.full(columns, np.inf)
        lower[0] = upper[0] = 1.0
        row_lower = np.concatenate(
            [np.zeros(flow.rows), np.full(n_tangents, 2.0), np.zeros(len(self.weighted))]
        )
        row_upper = np.concatenate([np.zeros(flow.rows), np.full(rows - flow.rows, np.inf)])
        return LinearProgram(cost, lower, matrix, row_lower, row_upper, upper)
