"""Many episodes of one policy at a cost that does not depend on how many they are.

On a known model the visits of K episodes of a policy are drawn exactly, stage by stage: those in a
state split over its actions, those of a cell over its successors, binomially one after the other.
Which episode went where is never decided. Counts are 64-bit; beyond 2^53 a binomial draw is rounded
to double precision (relative error 1e-16), which no test can see but is no longer an exact draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from covgame.episodes import Block, as_block
from covgame.errors import TooLarge
from covgame.game.counts import CountedVisits
from covgame.game.game import Game
from covgame.kernels import layout
from covgame.mdp.model import TabularMDP
from covgame.players.compiled import CompiledGame
from covgame.types import END, FloatArray, IntArray, Policy

STREAM = 2
MOST_EPISODES = 2**62
GROWTH = 0.005
"""A round takes this share of the episodes played so far."""

POLICIES = 8
"""And holds so many policies, each planned against what the ones before will collect."""

COARSE = 0.05
"""Enough where the reward stays the same, and only what is learnt changes the policy."""

ROUNDS = 64
"""So many rounds draw from one stream of random numbers."""

TOO_MANY = "this takes more than 2^62 episodes, more than 64-bit counts can hold"


@dataclass(frozen=True, eq=False)
class SortedSuccessors:
    """A model's successors, the likeliest of each row last.

    Whoever comes last takes what is left over, and with it what rounding leaves over.
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
    """The visits of so many episodes of a policy, exact in distribution.

    ``paid`` also says what each transition paid. Rewards of a model do not depend on successors.
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
                told = paid and h + 1 < H  # then every outcome is paid by itself
                if not told:
                    reward_sums[h, s, a] = rng.binomial(n, mean) if mean > 0 else 0
                if h + 1 == H:
                    continue
                cell = (h * S + s) * A + a
                row = s * A + a if model.transitions.stationary else cell
                places = slice(start[row], start[row + 1])
                taken = split(rng, n, probability[places])
                if told:
                    payments += [float(rng.binomial(times, mean)) for times in taken if times]
                    reward_sums[h, s, a] = sum(payments[-sum(times > 0 for times in taken) :])
                for successor, times in zip(next_state[places].tolist(), taken, strict=True):
                    if times:
                        arriving[successor] += times
                        moves.append((cell, successor, times))
        present = arriving[:END]
    return CountedVisits(episodes, starts, visits, reward_sums, moves, payments if paid else None)


def split(rng: np.random.Generator, total: int, chances: FloatArray) -> list[int]:
    """So many over their outcomes, one outcome after the other; the last takes what is left."""
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


def stream(seed: int, game: Game) -> np.random.Generator:
    """The random numbers of the next rounds, by how far the game has got."""
    return np.random.default_rng([seed, STREAM, game.counts.n_episodes])


class CountsPlayer(CompiledGame):
    """Plays a game on a known model in rounds that grow with the run, by their visits alone.

    A round holds several policies, planned against what the ones before will collect, and takes a
    small share of the episodes played so far.
    """

    waits = True

    def __init__(self, game: Game, model: TabularMDP, seed: int, growth: float = GROWTH) -> None:
        successors = SortedSuccessors(model)
        start, next_state, probability = successors.rows
        for table in filter(None, (game.counts.table, game.counts.pool)):
            # A row that moves to twice the room as it grows takes up to four times its size.
            stages = model.shape.horizon if model.transitions.stationary else 1
            table.make_room(4 * stages * len(next_state) + 2 * len(table))
        super().__init__(game)
        self.seed, self.growth = seed, growth
        first_state, first_probability = successors.first
        self.world = layout.SortedSuccessors(
            first_state=first_state,
            first_probability=first_probability,
            start=start,
            next_state=next_state,
            probability=probability,
            rewards=model.stage_rewards,
            stationary=model.transitions.stationary,
        )
        _, S, _ = model.shape.hsa
        rows = len(game.target)
        self.batch = layout.Batch(
            policies=np.zeros((POLICIES, *model.shape.hs), dtype=np.int64),
            present=np.zeros(S, dtype=np.int64),
            arriving=np.zeros(S, dtype=np.int64),
            mass=np.zeros(S),
            arriving_mass=np.zeros(S),
            gains=np.zeros(rows),
            anticipated=np.zeros(rows),
            weights=np.zeros(rows),
            memory=np.zeros(5),
        )

    def play(self, most: int) -> Block:
        """Some rounds, of at most so many episodes in all; nobody sees their steps."""
        from covgame.kernels import by_counts as kernel

        counts = self.game.counts
        play_counted: Any = kernel.play_counted
        why, played = play_counted(
            ROUNDS, most, MOST_EPISODES, self.growth, counts.n_episodes,
            stream(self.seed, self.game),
            self.world, self.learnt, self.wanted, self.weighing, self.workspace, self.batch,
            self.optimism, self.paper, self.majority, self._missing_only,
        )  # fmt: skip
        self._put_back()
        first = counts.n_episodes
        counts.n_episodes += played
        if why == layout.TOO_MANY:
            raise TooLarge(TOO_MANY)
        return as_block(first, [])
