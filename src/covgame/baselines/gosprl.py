"""GOSPRL (Tarbouriech, Pirotta, Valko, Lazaric, NeurIPS 2021), for episodes.

Whatever has too few samples is a goal. The next policy minimises the expected number of steps to
*some* goal on an optimistic model (a shortest path), and at a goal the missing action is taken. The
paper's world never ends; here an episode that ends begins anew, which is a step like any other, so
the shortest path runs through the end: its length from the start solves a fixed point.

As published, optimism comes from Bernstein intervals whose mass is moved to the goal: every
successor keeps max(0, p_hat - 4 sqrt(p_hat L/n) - 28 L/n), L = log(SAH n/delta) (the intervals of
Rosenberg et al., 2020). Practical: max(0, p_hat - sqrt(b p_hat/n) - b/n), and what was never tried
leads there. Without the b runs get stuck: what failed once is not tried again for long. Stages may
borrow from each other as in our game. (It could not be checked against code: none was found.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from covgame.arrays import sum_by_index
from covgame.game.adversary import MissingOnly
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import greedy
from covgame.game.successors import SuccessorTable
from covgame.kernels import layout
from covgame.targets.target import Target
from covgame.types import BoolArray, FloatArray, FloatHSA, IntArray, Policy

MOST_ROUNDS = 50
CLOSE = 1e-9
ROSENBERG = (4.0, 28.0)


@dataclass(frozen=True)
class NearestGoal:
    """Plans the shortest path to a cell with a positive reward."""

    delta: float | None = None  # of the published intervals
    b: float = 0.0  # of the practical ones

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        """Policy iteration on the length of the path from the start."""
        goals = reward.reshape(counts.shape.horizon, -1) > 0
        share = counts.starts / max(1, counts.n_episodes)
        restart = 0.0
        for _ in range(MOST_ROUNDS):
            chosen, steps, missed = self._plan_once(counts, goals, restart)
            length = _sum(share * steps) / max(1.0 - _sum(share * missed), CLOSE)
            if not length > restart * (1.0 + CLOSE):
                break
            restart = length
        return Policy.deterministic(chosen, counts.shape.actions)

    def _plan_once(
        self, counts: Counts, goals: BoolArray, restart: float
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """(actions, steps to go, probability to end without a goal), per state at the start."""
        shape = counts.shape
        H, S, A = shape.hsa
        chosen = np.empty(shape.hs, dtype=np.int64)
        steps, missed = np.zeros(S), np.ones(S)
        for h in reversed(range(H)):
            to_go, without = np.ones(shape.pairs), np.ones(shape.pairs)
            if h + 1 < H:
                later, never = np.append(steps, 0.0), np.append(missed, 1.0)
                after, without = self._paths_after(counts, h, later, never)
                to_go = 1.0 + after
            to_go, without = np.where(goals[h], 0.0, to_go), np.where(goals[h], 0.0, without)
            chosen[h] = greedy(-(to_go + without * restart).reshape(S, A), counts.visits[h])
            best = np.arange(S) * A + chosen[h]
            steps, missed = to_go[best], without[best]
        return chosen, steps, missed

    def _paths_after(
        self, counts: Counts, h: int, later: FloatArray, never: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(steps to go, probability to end without a goal) after the pairs of a stage.

        0 and 0 after what was never tried. Borrowed observations count as in ``Counts.estimate``.
        """
        pairs, table, pool = counts.shape.pairs, counts.table, counts.pool
        first = 0 if counts.pooled else h * pairs
        n = table.total[first : first + pairs].astype(np.float64)
        if pool is None:
            return self._mean_paths(counts, table, first, n, later, never)
        lent = counts.lent(n)
        to_go, without = self._mean_paths(counts, table, first, n + lent, later, never)
        pool_to_go, pool_without = self._mean_paths(counts, pool, 0, n + lent, later, never)
        trust = lent / np.where(lent > 0, n + lent, 1.0)
        return to_go + trust * (pool_to_go - to_go), without + trust * (pool_without - without)

    def _mean_paths(
        self, counts: Counts, table: SuccessorTable, first: int, n: FloatArray,
        later: FloatArray, never: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """The same by the rows of one table, as optimistic as after n observations."""
        pairs = counts.shape.pairs
        row, successor, count = table.listed(first, first + pairs)
        chance = count * table.rows["share"][first : first + pairs][row]
        root, flat = (1.0, 1.0) if self.delta is None else ROSENBERG
        loss = np.array([self.width(counts, number) / number for number in n[row].tolist()])
        chance = np.maximum(chance - root * np.sqrt(chance * loss) - flat * loss, 0.0)
        return (
            sum_by_index(row, chance * later[successor], pairs),
            sum_by_index(row, chance * never[successor], pairs),
        )

    def unions(self, counts: Counts) -> float:
        """SAH/delta, and -1 for the practical form."""
        return -1.0 if self.delta is None else counts.shape.cells / self.delta

    def width(self, counts: Counts, n: float) -> float:
        """L = log(SAH n/delta), or b."""
        return self.b if self.delta is None else math.log(n * self.unions(counts))


class CompiledNearestGoal(NearestGoal):
    """The same plans from compiled code."""

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        from covgame.kernels import shortest_path as kernel

        shape = counts.shape
        goals = reward.reshape(shape.horizon, -1) > 0
        chosen = np.zeros(shape.hs, dtype=np.int64)
        nearest_goal: Any = kernel.nearest_goal
        nearest_goal(
            layout.count_arrays(counts), counts.n_episodes, goals, self.unions(counts), self.b,
            MOST_ROUNDS, CLOSE, chosen, np.zeros((2, 2, shape.states + 1)),
            np.zeros((2, shape.pairs)),
        )  # fmt: skip
        return Policy.deterministic(chosen, shape.actions)


def _sum(values: FloatArray) -> float:
    """From left to right, as a loop would do it."""
    return float(np.cumsum(values)[-1])


def gosprl(
    target: Target,
    *,
    pooled: bool,
    delta: float | None = None,
    b: float = 0.03,
    borrowing: bool = True,
    compiled: bool = True,
) -> Game:
    """The game of GOSPRL: its planner for whatever is missing."""
    practical = delta is None
    counts = Counts(target.shape, pooled=pooled and practical, borrowing=borrowing and practical)
    planner = CompiledNearestGoal(delta, b) if compiled else NearestGoal(delta, b)
    return Game(target, planner, MissingOnly(), counts)
