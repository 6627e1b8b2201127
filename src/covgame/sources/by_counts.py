"""Many episodes of one policy at a cost that does not depend on how many they are.

On a known model the visits of K episodes of a policy are drawn exactly, stage by stage: those in a
state split over its actions, those of a cell over its successors, binomially one after the other.
Which episode went where is never decided. Counts are 64-bit; beyond 2^53 a binomial draw is rounded
to double precision (relative error 1e-16), which no test can see but is no longer an exact draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.episodes import Block, as_block
from covgame.errors import TooLarge
from covgame.game.batches import plan_batch
from covgame.game.game import Game
from covgame.mdp.model import TabularMDP
from covgame.sources.compiled import CompiledGame
from covgame.types import FloatArray, IntArray, Policy

STREAM = 2
MOST_EPISODES = 2**62
GROWTH = 0.02
POLICIES = 8


@dataclass(frozen=True, eq=False)
class CountedVisits:
    """What many episodes visited."""

    episodes: int
    starts: IntArray  # (S,)
    visits: IntArray  # (H, S, A)
    moves: tuple[IntArray, IntArray, IntArray]  # (cell, successor, times), each once


def draw_visits(
    model: TabularMDP, policy: Policy, episodes: int, rng: np.random.Generator
) -> CountedVisits:
    """The visits of so many episodes of a policy, exact in distribution."""
    H, S, A = model.shape.hsa
    visits = np.zeros((H, S, A), dtype=np.int64)
    starts = present = split(rng, np.array([episodes]), model.initial[None, :])[0]
    chances = policy.probabilities() if policy.is_stochastic else None
    cells, successors, times = [], [], []
    for h in range(H):
        if chances is None:
            visits[h, np.arange(S), policy.table[h]] = present
        else:
            busy = np.flatnonzero(present)
            visits[h, busy] = split(rng, present[busy], chances[h, busy])
        if h + 1 == H:
            break
        kernel = model.transitions.stages[h]
        drawn = _split_rows(rng, visits[h].ravel(), kernel.start, kernel.probability)
        taken = np.flatnonzero(drawn)
        row = np.searchsorted(kernel.start, taken, side="right") - 1
        cells.append(h * S * A + row)
        successors.append(kernel.next_state[taken])
        times.append(drawn[taken])
        present = np.zeros(S + 1, dtype=np.int64)
        np.add.at(present, kernel.next_state[taken], drawn[taken])
        present = present[:S]
    nothing = np.zeros(0, dtype=np.int64)
    moves = tuple(np.concatenate([*column, nothing]) for column in (cells, successors, times))
    return CountedVisits(episodes, starts, visits, (moves[0], moves[1], moves[2]))


def split(rng: np.random.Generator, totals: IntArray, chances: FloatArray) -> IntArray:
    """Each total over its outcomes: (n,), (n, k) -> (n, k).

    The likeliest outcome comes last, because the last one takes what rounding leaves over.
    """
    order = np.argsort(chances, axis=1)
    sorted_chances = np.take_along_axis(chances, order, axis=1)
    drawn = np.zeros(chances.shape, dtype=np.int64)
    np.put_along_axis(drawn, order, rng.multinomial(totals, sorted_chances), axis=1)
    return drawn


def _split_rows(
    rng: np.random.Generator, totals: IntArray, start: IntArray, probability: FloatArray
) -> IntArray:
    """Visits of rows over their successors, for rows of any length."""
    size = np.diff(start)
    drawn = np.zeros(len(probability), dtype=np.int64)
    busy = np.flatnonzero((totals > 0) & (size > 0))
    if not len(busy):
        return drawn
    width = int(size[busy].max())
    place = start[busy][:, None] + np.arange(width)
    exists = np.arange(width) < size[busy][:, None]
    chances = np.where(exists, probability[np.minimum(place, len(probability) - 1)], 0.0)
    chances /= chances.sum(axis=1, keepdims=True)
    drawn[place[exists]] = split(rng, totals[busy], chances)[exists]
    return drawn


class CountsPlayer:
    """Plays a game on a known model in batches that grow with the run, by their visits alone.

    A round holds several policies, planned against what the ones before will collect, and takes a
    small share of the episodes played so far.
    """

    def __init__(self, game: Game, model: TabularMDP, seed: int) -> None:
        self.game, self.model, self.seed = game, model, seed
        self.compiled = CompiledGame(game)

    def play(self, most: int) -> Block:
        """One round of at most so many episodes, of which nobody sees the steps."""
        played = self.game.counts.n_episodes
        wanted = min(most, max(1, int(GROWTH * played)))
        if played + wanted > MOST_EPISODES:
            raise TooLarge("this takes more than 2^62 episodes, more than 64-bit counts can hold")
        policies = min(POLICIES, wanted)
        each, more = divmod(wanted, policies)
        for number, policy in enumerate(plan_batch(self.game, policies, each, self.compiled.plan)):
            episodes = each + (1 if number < more else 0)
            rng = np.random.default_rng([self.seed, STREAM, self.game.counts.n_episodes])
            seen = draw_visits(self.model, policy, episodes, rng)
            self.game.tell_visits(seen.episodes, seen.starts, seen.visits, seen.moves)
            if self.game.covered:
                break
        return as_block(played, [])
