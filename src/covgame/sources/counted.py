"""Visits of many episodes of one policy, at a cost that does not depend on their number.

On a known model the visits of K episodes of a policy are drawn exactly, stage by stage: those in a
state split over its actions, those of a cell over its successors, binomially one after the other.
Which episode went where is never decided. Counts are 64-bit; beyond 2^53 a binomial draw is rounded
to double precision (relative error 1e-16), which no test can see but is no longer an exact draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covgame.game.counts import CountedVisits
from covgame.mdp.model import TabularMDP
from covgame.types import END, FloatArray, IntArray, Policy

STREAM = 2

MOST_EPISODES = 2**62
"""The most episodes that 64-bit counts can hold."""


@dataclass(frozen=True, eq=False)
class SortedSuccessors:
    """A model's successors, the most likely one of each row last.

    The last one takes the remaining episodes, and with them the error of rounding.
    """

    model: TabularMDP

    @cached_property
    def first(self) -> tuple[IntArray, FloatArray]:
        """(state, probability) of the first stage."""
        order = np.argsort(self.model.initial, kind="stable")
        order = order[self.model.initial[order] > 0]
        return order, self.model.initial[order]

    @cached_property
    def rows(self) -> tuple[IntArray, IntArray, FloatArray]:
        """(start, next state, probability): row i owns the places start[i]:start[i+1]."""
        kernel = self.model.transitions
        row = np.repeat(np.arange(len(kernel.start) - 1), np.diff(kernel.start))
        order = np.lexsort((kernel.probability, row))
        return kernel.start, kernel.next_state[order], kernel.probability[order]


def draw_visits(
    successors: SortedSuccessors,
    policy: Policy,
    episodes: int,
    rng: np.random.Generator,
    *,
    paid: bool = False,
) -> CountedVisits:
    """The visits of a number of episodes of a policy, exact in distribution.

    ``paid`` also adds up the rewards of each transition. Rewards of a model do not depend on
    successors.
    """
    model = successors.model
    H, S, A = model.shape.hsa
    visits, reward_sums = np.zeros((H, S, A), dtype=np.int64), np.zeros((H, S, A))
    starts, moves = np.zeros(S, dtype=np.int64), []
    payments: list[float] = []
    states, chances = successors.first
    starts[states] = split(rng, episodes, chances)
    start, next_state, probability = successors.rows
    acting = policy.probabilities()
    present = starts
    for h in range(H):
        arriving = np.zeros(S + 1, dtype=np.int64)
        for s in np.flatnonzero(present).tolist():
            visits[h, s] = _split_over_actions(rng, int(present[s]), acting[h, s])
            for a in np.flatnonzero(visits[h, s]).tolist():
                n, mean = int(visits[h, s, a]), float(model.rewards[h, s, a])
                by_outcome = paid and h + 1 < H
                if not by_outcome:
                    reward_sums[h, s, a] = rng.binomial(n, mean) if mean > 0 else 0
                if h + 1 == H:
                    continue
                cell = (h * S + s) * A + a
                row = s * A + a if model.transitions.stationary else cell
                places = slice(start[row], start[row + 1])
                taken = split(rng, n, probability[places])
                if by_outcome:
                    sums = [float(rng.binomial(times, mean)) for times in taken if times]
                    reward_sums[h, s, a] = sum(sums)
                    payments += sums
                for successor, times in zip(next_state[places].tolist(), taken, strict=True):
                    if times:
                        arriving[successor] += times
                        moves.append((cell, successor, times))
        present = arriving[:END]
    return CountedVisits(episodes, starts, visits, reward_sums, moves, payments if paid else None)


def split(rng: np.random.Generator, total: int, chances: FloatArray) -> list[int]:
    """Split a number of episodes over outcomes, one after the other; the last takes the rest."""
    taken, left, rest = [], total, 1.0
    for chance in chances.tolist()[:-1]:
        some = int(rng.binomial(left, min(1.0, chance / rest))) if left else 0
        taken.append(some)
        left, rest = left - some, rest - chance
    return [*taken, left] if len(chances) else []


def _split_over_actions(rng: np.random.Generator, total: int, chances: FloatArray) -> IntArray:
    order = np.argsort(chances, kind="stable")
    taken = np.zeros(len(chances), dtype=np.int64)
    if chances[order[-1]] == 1.0:
        taken[order[-1]] = total
    else:
        taken[order] = split(rng, total, chances[order])
    return taken
