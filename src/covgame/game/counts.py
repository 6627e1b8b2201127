"""Counts: all that a learner remembers of the episodes it has seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from covgame.arrays import sum_by_index
from covgame.episodes import LAST, Block, Episode
from covgame.game.payments import Payments
from covgame.game.successors import SuccessorTable
from covgame.mdp.transitions import Transitions
from covgame.types import END, BoolArray, FloatArray, IntArray, Shape

MOST_COUNTED = 20_000_000
"""Up to so many different transitions are counted in an array, more of them by sorting."""

MOST_BORROWED = 10.0
"""A row borrows at most so many observations from other stages."""

BORROWED_STEPS = 32
"""kappa moves in steps of 3 to 6 per cent, so that a plan need not change everywhere with it."""

SETTLED = 30.0
"""A row with so many times more observations than it may borrow stands by itself."""

FIRST_AGREEMENT = (1.0, 0.5)
"""Before anything is seen, stages are taken to agree by half: a row borrows one observation."""

AS_ELSEWHERE = 8.0
"""A state is taken to agree over stages as all states do, with the weight of so many steps."""

MOST_BY_STAGE = 10_000_000
"""Where nobody tells stages apart, visits of more cells than these are added up over stages."""

YOUNG = 3
"""Up to so many observations, and whenever it leads somewhere new, a row is news."""


@dataclass(frozen=True, eq=False)
class CountedVisits:
    """What many episodes visited, of which nobody saw the steps."""

    episodes: int
    starts: IntArray  # (S,)
    visits: IntArray  # (H, S, A)
    reward_sums: FloatArray  # (H, S, A)
    moves: list[tuple[int, int, int]]  # (cell, successor, times)
    paid: list[float] | None = None  # with each of these moves, where that is told


class Counts:
    """Visits and rewards of every cell, and transitions of every row of a kernel.

    Visits are always per stage. What is learnt of the transitions is kept by one of three rules:

    - ``pooled``: one row per pair for all stages, for environments that are stationary;
    - neither: a row per cell, as in the paper;
    - ``borrowing``: a row per cell, and beside it what all stages have seen of the pair. A row
      then counts as if it had a few more observations, distributed as in that pool. How many is
      measured, state by state: as many as its stages have been seen to agree.

    Whoever asks for an ``estimate`` or a ``kernel`` does not see the difference.

    ``stage_free`` says that nobody tells stages apart at all: they are pooled, and what is asked
    for may be visited at any stage. Plans depend then on the stages that are left and on nothing
    else, and in large worlds ``visits`` and ``reward_sums`` have a single stage, the sum of all.

    ``paid`` also adds up rewards by transition (``payments``), which best-policy certificates need.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        pooled: bool,
        borrowing: bool = False,
        stage_free: bool = False,
        paid: bool = False,
    ) -> None:
        self.shape = shape
        self.pooled, self.stage_free = pooled, stage_free
        stages = self._stages_apart(shape)
        self.visits = np.zeros((stages, *shape.hsa[1:]), dtype=np.int64)
        self.reward_sums = np.zeros(self.visits.shape)
        self.starts = np.zeros(shape.states, dtype=np.int64)
        self.n_episodes = 0
        self.table = SuccessorTable(shape.pairs if pooled else shape.cells)
        self.pool = SuccessorTable(shape.pairs) if borrowing and not pooled else None
        self.payments = Payments() if paid else None
        self.agreement = np.array(FIRST_AGREEMENT)  # (2,): with the own stage, with the others
        self.state_agreement = np.zeros((shape.states, 2))  # the same of each state alone

    def grow(self, states: int) -> None:
        """Make room for more states; what was counted stays."""
        old, new = self.shape, Shape(self.shape.horizon, states, self.shape.actions)
        more, stages = states - old.states, self._stages_apart(new)
        wider = ((0, 0), (0, more), (0, 0))
        self.visits = np.pad(summed_to(stages, self.visits), wider)
        self.reward_sums = np.pad(summed_to(stages, self.reward_sums), wider)
        self.starts = np.concatenate([self.starts, np.zeros(more, dtype=np.int64)])
        self.state_agreement = np.concatenate([self.state_agreement, np.zeros((more, 2))])
        self.table.lay_out(1 if self.pooled else old.horizon, old.pairs, new.pairs)
        if self.pool is not None:
            self.pool.lay_out(1, old.pairs, new.pairs)
        if self.payments is not None:
            row, successor, sums = self.payments.listed()
            self.payments = Payments()
            stage, pair = row // old.pairs, row % old.pairs
            self.payments.add(stage * new.pairs + pair, successor, sums)
        self.shape = new

    def _stages_apart(self, shape: Shape) -> int:
        """How many stages have visits of their own: all, or they are added up."""
        return 1 if self.stage_free and shape.cells > MOST_BY_STAGE else shape.horizon

    def tried(self, h: int) -> IntArray:
        """(S, A), how often actions were tried: which one of equals is to be tried next.

        Where stages are not told apart, in powers of two: the digits of the number. Who always took
        the least tried would do this and that in turn, and in worlds with momentum get nowhere.
        """
        if self.stage_free:
            digits: IntArray = np.frexp(self.table.total)[1].astype(np.int64)
            return digits.reshape(self.shape.states, self.shape.actions)
        tried: IntArray = self.visits[h]
        return tried

    @property
    def shares_stages(self) -> bool:
        """Whether what is seen at one stage says something about others."""
        return self.pooled or self.pool is not None

    def add(self, episode: Episode, learnt: int = 0) -> None:
        """Count one episode, of whose first steps so many are learnt already."""
        self.n_episodes += 1
        self.starts[episode.state[0]] += 1
        visits, reward_sums = self.visits.reshape(-1), self.reward_sums.reshape(-1)
        for step, (cell, successor, reward) in enumerate(
            zip(
                episode.cells(self.shape),
                episode.successors.tolist(),
                episode.reward.tolist(),
                strict=True,
            )
        ):
            visits[cell % len(visits)] += 1
            reward_sums[cell % len(visits)] += reward
            if successor != LAST and step >= learnt:
                self.learn(cell, successor)
        if self.payments is not None:
            cells = np.array(list(episode.cells(self.shape)), dtype=np.int64)
            self._pay(cells, episode.successors, episode.reward, np.array([len(episode)]))

    def _pay(
        self, cell: IntArray, successor: IntArray, reward: FloatArray, lengths: IntArray
    ) -> None:
        """Add what whole episodes were paid, step by step; ``LAST`` is no successor."""
        assert self.payments is not None  # noqa: S101 (asked by the callers)
        moves = successor != LAST
        row = (cell % self.shape.pairs if self.pooled else cell)[moves]
        self.payments.add(row, successor[moves], reward[moves])
        if self.payments.returns is not None and len(lengths):
            begins = np.cumsum(lengths) - lengths
            self.payments.add_returns(np.add.reduceat(reward, begins))

    def pay(self, block: Block) -> None:
        """Add what the episodes of a block were paid, whose steps are counted already."""
        stage = np.arange(len(block.state)) - np.repeat(
            np.cumsum(block.lengths) - block.lengths, block.lengths
        )
        cell = (stage * self.shape.states + block.state) * self.shape.actions + block.action
        self._pay(cell, block.next_state, block.reward, block.lengths)

    def add_visits(self, seen: CountedVisits) -> None:
        """Count many episodes at once.

        How stages agree is not learnt from them: that needs the steps one by one.
        """
        if self.payments is not None and seen.moves and seen.paid is None:
            raise ValueError("these visits do not say what each transition paid")
        self.n_episodes += seen.episodes
        self.starts += seen.starts
        self.visits += seen.visits
        self.reward_sums += seen.reward_sums
        for cell, successor, times in seen.moves:
            pair = cell % self.shape.pairs
            if self.pool is not None:
                self.pool.add(pair, successor, times)
            self.table.add(pair if self.pooled else cell, successor, times)
        if self.payments is not None and seen.moves:
            cells, successors, _ = np.array(seen.moves, dtype=np.int64).T
            row = cells % self.shape.pairs if self.pooled else cells
            self.payments.add(row, successors, np.array(seen.paid))

    def add_steps(self, steps: Mapping[str, npt.NDArray[Any]]) -> None:
        """Count the steps of whole episodes, by the names of their columns.

        A step that terminates the episode leads to the end, and so does one after which the
        environment truncates it before the last stage, whatever state was shown: no policy gets
        further. Where the next state is below 0 and the episode was not over, it was not recorded,
        and no transition is counted.
        """
        shape = self.shape
        stage, state, action, shown = (
            steps[name].astype(np.int64, copy=False)
            for name in ("stage", "state", "action", "next_state")
        )
        cell = (stage * shape.states + state) * shape.actions + action
        place = cell % self.visits.size
        self.visits += np.bincount(place, minlength=self.visits.size).reshape(self.visits.shape)
        earned = np.bincount(place, steps["reward"], minlength=self.visits.size)
        self.reward_sums += earned.reshape(self.visits.shape)
        over = steps["terminated"] | (steps["truncated"] & (stage + 1 < shape.horizon))
        begins = stage == 0
        self.starts += np.bincount(state[begins], minlength=shape.states)
        self.n_episodes += int(begins.sum())
        moves = over | (shown >= 0)
        row = (cell % shape.pairs if self.pooled else cell)[moves]
        width = shape.states + 1
        moved = row * width + np.where(over, END, shown)[moves] + 1
        found, times = _different(moved, len(self.table) * width)
        self.table.add_many(found // width, found % width - 1, times)
        if self.payments is not None:
            successor = np.where(over, END, np.where(shown >= 0, shown, LAST))
            lengths = np.diff(np.append(np.flatnonzero(begins), len(stage)))
            self._pay(cell, successor, steps["reward"], lengths)

    def include(self, other: Counts, *, last_stage: bool = True) -> None:
        """Add other counts by the same rule, or counts by stage where this pools stages.

        Without ``last_stage`` transitions from the last stage are left out. No value depends on
        them, but where stages are pooled, a dataset that shows only some of them would bias rows.
        """
        self.n_episodes += other.n_episodes
        self.starts += other.starts
        self.visits += summed_to(len(self.visits), other.visits)
        self.reward_sums += summed_to(len(self.visits), other.reward_sums)
        moves = other.table.listed(0, len(other.table) - (0 if last_stage else self.shape.pairs))
        self.table.add_many(*(moves if other.pooled or not self.pooled else self._together(*moves)))
        if self.pool is not None:
            self.pool.add_many(*self._together(*moves))
            self._compare_all(*moves)
        if self.payments is not None:
            self._include_payments(other, last_stage=last_stage)

    def _include_payments(self, other: Counts, *, last_stage: bool) -> None:
        if self.payments is None or other.payments is None:
            raise ValueError("these counts do not say what each transition paid")
        row, successor, sums = other.payments.listed()
        kept = row < len(other.table) - (0 if last_stage else self.shape.pairs)
        row, successor, sums = row[kept], successor[kept], sums[kept]
        if self.pooled and not other.pooled:
            row = row % self.shape.pairs
        self.payments.add(row, successor, sums)
        if self.payments.returns is not None:
            for value, times in (other.payments.returns or {}).items():
                self.payments.returns[value] = self.payments.returns.get(value, 0) + times

    def _compare_all(self, cell: IntArray, successor: IntArray, times: IntArray) -> None:
        """What ``_compare`` would have added on average, had the steps come in random order.

        The second of n steps on, each had been seen n_y - 1 times in n - 1 by its own stage, and
        by the others as often as they have seen it in all.
        """
        width, pairs = self.shape.states + 1, self.shape.pairs
        of_pair = cell % pairs
        n = np.bincount(cell, times, minlength=self.shape.cells)[cell]
        others = np.bincount(of_pair, times, minlength=pairs)[of_pair] - n
        _, place = np.unique(of_pair * width + successor + 1, return_inverse=True)
        elsewhere = np.bincount(place, times)[place] - times
        told = (n > 1) & (others > 0)
        own = np.where(told, times * (times - 1) / n, 0.0)
        too = np.where(told, (n - 1) * times / n * elsewhere / np.maximum(others, 1), 0.0)
        state = of_pair // self.shape.actions
        for column, part in enumerate((own, too)):
            self.agreement[column] += part.sum()
            self.state_agreement[:, column] += sum_by_index(state, part, self.shape.states)

    def _together(
        self, row: IntArray, successor: IntArray, times: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The transitions of all stages, by pair."""
        width = self.shape.states + 1
        found, place = np.unique(
            row % self.shape.pairs * width + successor + 1, return_inverse=True
        )
        summed = np.bincount(place, times, minlength=len(found)).astype(np.int64)
        return found // width, found % width - 1, summed

    def learn(self, cell: int, successor: int) -> bool:
        """Count a transition; whether that is news for other stages, too."""
        pair = cell % self.shape.pairs
        if self.pool is not None:
            self._compare(self.pool, cell, pair, successor)
            self.pool.add(pair, successor)
        self.table.add(pair if self.pooled else cell, successor)
        return self._is_news(pair, successor)

    def agreement_now(self) -> tuple[FloatArray, ...]:
        """A copy of how stages agree, to go back to; nothing where that is not measured."""
        if self.pool is None:
            return ()
        return self.agreement.copy(), self.state_agreement.copy()

    def unlearn(self, steps: Sequence[tuple[int, int]], before: tuple[FloatArray, ...]) -> None:
        """Forget the (cell, successor) that were learnt last; ``before`` was the agreement."""
        for cell, successor in reversed(steps):
            pair = cell % self.shape.pairs
            self.table.remove(pair if self.pooled else cell, successor)
            if self.pool is not None:
                self.pool.remove(pair, successor)
        if before:
            self.agreement[:], self.state_agreement[:] = before

    def _is_news(self, pair: int, successor: int) -> bool:
        """Whether the transition just counted is worth thinking again for."""
        if not self.shares_stages:
            return False
        shared = self.table if self.pool is None else self.pool
        return bool(shared.total[pair] <= YOUNG) or shared.seen(pair, successor) == 1

    def _compare(self, pool: SuccessorTable, cell: int, pair: int, successor: int) -> None:
        """How probable was this successor, by the own stage and by the others?"""
        n, n_all = int(self.table.total[cell]), int(pool.total[pair])
        if 0 < n < n_all:
            own, everywhere = self.table.seen(cell, successor), pool.seen(pair, successor)
            for agreement in (self.agreement, self.state_agreement[pair // self.shape.actions]):
                agreement[0] += own / n
                agreement[1] += (everywhere - own) / (n_all - n)

    @property
    def borrowed(self) -> float:
        """kappa = alpha/(1 - alpha), rounded to ``BORROWED_STEPS``, at most ``MOST_BORROWED``.

        alpha compares the mean probability that other stages gave to what happened with the one
        that the own stage gave: near 1 where the stages agree, near 0 where each is different.
        """
        kappa = _kappa(*self.agreement.tolist())
        if kappa == MOST_BORROWED:
            return kappa
        fraction, exponent = math.frexp(kappa)
        return math.ldexp(math.floor(fraction * BORROWED_STEPS + 0.5) / BORROWED_STEPS, exponent)

    def borrowed_by_state(self) -> FloatArray:
        """kappa of every state: its own steps, and ``AS_ELSEWHERE`` steps that agree as all do."""
        kappa = self.borrowed
        others = AS_ELSEWHERE * (kappa / (1.0 + kappa))
        return np.array(
            [_kappa(own + AS_ELSEWHERE, too + others) for own, too in self.state_agreement.tolist()]
        )

    def lent(self, observed: FloatArray) -> FloatArray:
        """How many observations each row of a stage gets from the pool."""
        if self.pool is None:
            return np.zeros(len(observed))
        kappa = np.repeat(self.borrowed_by_state(), self.shape.actions)
        extra = np.maximum(np.minimum(kappa, self.pool.total - observed), 0.0)
        extra[observed >= SETTLED * kappa] = 0.0
        return extra

    def transitions(self) -> tuple[IntArray, IntArray, IntArray]:
        """All that was counted: (row, successor, times), in the order of rows."""
        return self.table.listed(0, len(self.table))

    def _rows(self, h: int) -> tuple[int, int]:
        first = 0 if self.pooled else h * self.shape.pairs
        return first, first + self.shape.pairs

    def estimate(self, h: int, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Per pair at stage h: mean of V and of V squared after it, and observations n.

        Where n = 0 nothing is known. Sums run in the order in which successors were first seen,
        here and in compiled code.
        """
        first, last = self._rows(h)
        mean, square = self.table.moments(first, last, values)
        observed = self.table.total[first:last].astype(np.float64)
        if self.pool is None:
            return mean, square, observed
        pool_mean, pool_square = self.pool.moments(0, self.shape.pairs, values)
        extra = self.lent(observed)
        trust = extra / np.where(extra > 0, observed + extra, 1.0)
        mean = mean + trust * (pool_mean - mean)
        square = square + trust * (pool_square - square)
        return mean, square, observed + extra

    def best_after(self, h: int, values: FloatArray) -> FloatArray:
        """Per state at stage h: the largest V that any of its actions was seen to lead to."""
        first, last = self._rows(h)
        best = self.table.largest(first, last, values)
        if self.pool is not None:
            pool_best = self.pool.largest(0, self.shape.pairs, values)
            best = np.where(self._borrows(first, last), np.maximum(best, pool_best), best)
        largest: FloatArray = best.reshape(self.shape.states, self.shape.actions).max(axis=1)
        return largest

    def successors(self, h: int) -> IntArray:
        """Per pair at stage h: how many different successors the estimate looks at."""
        first, last = self._rows(h)
        number: IntArray = self.table.rows["size"][first:last]
        if self.pool is not None:
            number = np.where(self._borrows(first, last), self.pool.rows["size"], number)
        return number

    def _borrows(self, first: int, last: int) -> BoolArray:
        """Which rows of a stage the pool lends something to."""
        borrows: BoolArray = self.lent(self.table.total[first:last].astype(np.float64)) > 0
        return borrows

    def mean_rewards(self) -> FloatArray:
        """The mean reward of every cell, 0 where it was never visited; shaped as visits are."""
        return self.reward_sums / np.maximum(self.visits, 1)

    def kernel(self) -> Transitions:
        """The maximum-likelihood estimate; rows never seen are empty."""
        row, successor, count = self.transitions()
        return Transitions.from_entries(
            self.shape,
            self.starts / max(1, self.n_episodes),
            row,
            successor,
            count / self.table.total[row],
            stationary=self.pooled,
        )


def summed_to(stages: int, visits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(H, S, A) as it is, or with all stages in one."""
    return visits if len(visits) == stages else visits.sum(axis=0, keepdims=True)


def _different(numbers: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """The different numbers below ``most``, in order, and how often each is there."""
    if most > min(MOST_COUNTED, 4 * len(numbers)):
        found, times = np.unique(numbers, return_counts=True)
        return found, times.astype(np.int64)
    counted = np.bincount(numbers, minlength=most)
    found = np.flatnonzero(counted)
    return found, counted[found]


def _kappa(own: float, others: float) -> float:
    """alpha/(1 - alpha) for alpha = others/own, at most ``MOST_BORROWED``."""
    if others * (1.0 + MOST_BORROWED) >= own * MOST_BORROWED:
        return MOST_BORROWED
    return others / (own - others)
