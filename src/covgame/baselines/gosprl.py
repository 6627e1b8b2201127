"""GOSPRL (Tarbouriech, Pirotta, Valko, Lazaric, NeurIPS 2021), for episodes.

Whatever has too few samples is a goal. The next policy minimises the expected number of steps to
*some* goal on an optimistic model (a shortest path), and at a goal the missing action is taken. The
paper's world never ends; here an episode that ends begins anew, which is a step like any other, so
the shortest path runs through the end: its length from the start solves a fixed point.

As published, optimism comes from Bernstein intervals whose mass is moved to the goal: every
successor keeps max(0, p_hat - 4 sqrt(p_hat L/n) - 28 L/n), L = log(SAH n/delta) (the intervals of
Rosenberg et al., 2020). Practical: the estimate as it is; only what was never tried leads there.
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
from covgame.targets.target import Target
from covgame.types import BoolArray, FloatArray, FloatHSA, IntArray, Policy

MOST_ROUNDS = 50
CLOSE = 1e-9


@dataclass(frozen=True)
class NearestGoal:
    """Plans the shortest path to a cell with a positive reward."""

    delta: float | None = None  # of the published intervals

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
                row, successor, chance, known = self._successors(counts, h)
                later, never = np.append(steps, 0.0), np.append(missed, 1.0)
                to_go = 1.0 + sum_by_index(row, chance * later[successor], shape.pairs)
                without = sum_by_index(row, chance * never[successor], shape.pairs)
                to_go = np.where(known, to_go, 1.0)
            to_go, without = np.where(goals[h], 0.0, to_go), np.where(goals[h], 0.0, without)
            chosen[h] = greedy(-(to_go + without * restart).reshape(S, A), counts.visits[h])
            best = np.arange(S) * A + chosen[h]
            steps, missed = to_go[best], without[best]
        return chosen, steps, missed

    def _successors(
        self, counts: Counts, h: int
    ) -> tuple[IntArray, IntArray, FloatArray, BoolArray]:
        """(row, successor, optimistic probability) of a stage, and which rows are known."""
        pairs, table = counts.shape.pairs, counts.table
        first = 0 if counts.pooled else h * pairs
        row, successor, count = table.listed(first, first + pairs)
        share = table.rows["share"][first : first + pairs][row]
        chance = count * share
        if self.delta is not None:
            n = table.total[first : first + pairs][row].tolist()
            width = np.array([self.width(counts, number) for number in n]) * share
            chance = np.maximum(chance - 4 * np.sqrt(chance * width) - 28 * width, 0.0)
        return row, successor, chance, table.total[first : first + pairs] > 0

    def width(self, counts: Counts, n: int) -> float:
        """L = log(SAH n/delta)."""
        return math.log(n * (counts.shape.cells / (self.delta or 1.0)))


class CompiledNearestGoal(NearestGoal):
    """The same plans from compiled code."""

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        from covgame.kernels import game as kernel
        from covgame.sources.compiled import learnt_arrays

        shape = counts.shape
        goals = reward.reshape(shape.horizon, -1) > 0
        chosen = np.zeros(shape.hs, dtype=np.int64)
        unions = -1.0 if self.delta is None else shape.cells / self.delta
        nearest_goal: Any = kernel.nearest_goal
        nearest_goal(
            learnt_arrays(kernel, counts), counts.n_episodes, goals, unions, MOST_ROUNDS, CLOSE,
            chosen, np.zeros((2, 2, shape.states + 1)), np.zeros((2, shape.pairs)),
        )  # fmt: skip
        return Policy.deterministic(chosen, shape.actions)


def _sum(values: FloatArray) -> float:
    """From left to right, as a loop would do it."""
    return float(np.cumsum(values)[-1])


def gosprl(
    target: Target, *, pooled: bool, delta: float | None = None, compiled: bool = True
) -> Game:
    """The game of GOSPRL: its planner for whatever is missing."""
    counts = Counts(target.shape, pooled=pooled and delta is None)
    planner = CompiledNearestGoal(delta) if compiled else NearestGoal(delta)
    return Game(target, planner, MissingOnly(), counts)
