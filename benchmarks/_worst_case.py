"""The reward for which planning on a learnt model goes most wrong, exactly.

max over rewards r in [0,1] of V*(r) - V^pi(r), where pi is optimal for r on the learnt model. For a
fixed pi the rewards for which it is optimal there form a polytope (Bellman's inequalities are
linear in r and the values), and what a fixed policy gains over pi is linear in r. So all pairs of
deterministic policies are listed and a linear program is solved for each: for small worlds, to
check what algorithms promise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.baselines.pedel import deterministic_policies
from covgame.flow.highs import LinearProgram, Method, Solver
from covgame.flow.polytope import SparseColumns
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import FloatArray, FloatHSA, IntArray, Policy


@dataclass(frozen=True, eq=False)
class WorstReward:
    """A reward, and what the policy that is optimal for it on the learnt model loses."""

    loss: float
    reward: FloatHSA


def worst_reward(truth: Transitions, learnt: Transitions) -> WorstReward:
    """The worst case over all rewards in [0,1] and all ways of breaking ties."""
    policies = list(deterministic_policies(truth))
    occupancies = np.array([dp.occupancy(truth, policy).ravel() for policy in policies])
    distinct = np.unique(np.round(occupancies, 12), axis=0)
    worst = WorstReward(0.0, np.zeros(truth.shape.hsa))
    for policy, occupancy in zip(policies, occupancies, strict=True):
        solver = Solver(_program(truth, learnt, policy), Method.PRIMAL)
        rewards = np.arange(truth.shape.cells)
        for other in distinct:
            solver.change_costs(rewards, occupancy - other)
            answer = solver.solve()
            if -answer.value > worst.loss:
                worst = WorstReward(
                    -answer.value, answer.x[: len(rewards)].reshape(truth.shape.hsa)
                )
    return worst


def _program(truth: Transitions, learnt: Transitions, policy: Policy) -> LinearProgram:
    """(r, V) with r in [0,1], V_h(s) >= r + p_hat V_{h+1}, and "=" for the policy's action."""
    H, S, A = truth.shape.hsa
    cells, states = H * S * A, H * S
    places = np.argwhere(np.repeat(dp.reachable(truth)[:, :, None], A, axis=2))
    row: list[int] = []
    column: list[int] = []
    value: list[float] = []
    tight = np.zeros(len(places))
    for number, (h, s, a) in enumerate(places.tolist()):
        entries = [(cells + h * S + s, 1.0), ((h * S + s) * A + a, -1.0)]
        entries += [(cells + (h + 1) * S + i, -p) for i, p in _successors(learnt, h, s * A + a)]
        row += [number] * len(entries)
        column += [place for place, _ in entries]
        value += [amount for _, amount in entries]
        tight[number] = 0.0 if policy.table[h, s] == a else np.inf
    matrix = SparseColumns.from_entries(
        len(places), cells + states, _ints(row), _ints(column), np.array(value)
    )
    upper = np.concatenate([np.ones(cells), np.full(states, float(H))])
    zeros = np.zeros(cells + states)
    return LinearProgram(zeros, zeros, matrix, np.zeros(len(places)), tight, upper)


def _successors(learnt: Transitions, h: int, pair: int) -> list[tuple[int, float]]:
    if h + 1 == learnt.shape.horizon:
        return []
    kernel = learnt.stages[h]
    entries = slice(kernel.start[pair], kernel.start[pair + 1])
    listed: FloatArray = kernel.probability[entries]
    found = zip(kernel.next_state[entries].tolist(), listed.tolist(), strict=True)
    return [(state, chance) for state, chance in found if state >= 0]


def _ints(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
