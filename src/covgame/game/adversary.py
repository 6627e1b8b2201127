"""Adversaries: weigh the requirements so that the hardest earns most.

An adversary keeps its memory in an explicit state, so that a run can be saved and resumed. The
weights in it are positive numbers that need not sum to 1; ``total`` is their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from covgame.arrays import of_each_kind
from covgame.targets.target import Target
from covgame.types import BoolArray, FloatArray

Gains = dict[int, int]
"""What an episode collected: row -> visits, in the order in which rows were first met."""

RATE = math.sqrt(2 * (math.sqrt(2) - 1) / (math.e - 2))
"""C in the learning rate of Cesa-Bianchi, Mansour and Stoltz (Theorem 5)."""

RATE_UPDATE_RATIO = 0.97
"""The target-aware adversary changes its rate when it has fallen below this share."""

MIN_TOTAL_WEIGHT = 1e-3
"""Weights are computed anew when their sum, at least 1 then, has become so small.

The sum is kept up by additions and subtractions; much smaller, it would be rounding errors.
"""

REPLAN_LOG_RATIO = 0.35
"""When a weight has fallen by exp(-0.35) within an episode, the rest is planned anew."""


@dataclass(eq=False)
class AdversaryState:
    """What an adversary remembers between two episodes."""

    weights: FloatArray  # (G,)
    total: float  # the sum of the weights
    variance: float = 0.0  # accumulated variance of the losses
    rate: float = 1.0  # xi
    shift: float = 0.0  # subtracted from exponents
    level: int = 0  # k in Algorithm 1
    rows: int = 0  # that are asked for
    base: FloatArray = field(default_factory=lambda: np.zeros(0))  # (G,), at the last restart
    memory: dict[str, npt.NDArray[Any]] = field(default_factory=dict)  # of adversaries of others


class Adversary(Protocol):
    """Sets weights over the rows of a target, and changes them after every episode.

    That is all one has to write. An adversary may say more, by having the methods of
    ``RevisesWithin``, ``Extends`` or ``Anticipates``; without them a game does the plain thing.
    """

    def start(self, target: Target) -> AdversaryState:
        """The state before the first episode."""
        ...

    def observe(
        self, target: Target, state: AdversaryState, gains: Gains, collected: FloatArray
    ) -> None:
        """Change the state after an episode; ``collected`` contains its gains already."""
        ...


@runtime_checkable
class RevisesWithin(Protocol):
    """Forgets rows that are covered, and says what visits change before an episode is over."""

    def weight_of(self, target: Target, state: AdversaryState, row: int, n: float) -> float:
        """The weight that a row would have with n visits."""
        ...

    def weight_fell(self, target: Target, state: AdversaryState, row: int, gain: int) -> bool:
        """Whether the last of an episode's visits to an open row made its weight much smaller."""
        ...


@runtime_checkable
class Extends(Protocol):
    """Goes on when the target gets more rows, where others start anew."""

    def extend(self, target: Target, state: AdversaryState, collected: FloatArray) -> None:
        """Change the state after the target got more rows."""
        ...


@runtime_checkable
class Reserves(Protocol):
    """Takes rows that are reserved: in the target, but asked for only later.

    Until then they count as collected infinitely often, and weigh nothing.
    """

    def include(self, target: Target, state: AdversaryState, row: int, n: float) -> None:
        """Weigh a row from now on, which has n visits."""
        ...


@runtime_checkable
class Anticipates(Protocol):
    """Knows its weights beforehand, and takes many episodes at once."""

    def anticipate(
        self, target: Target, state: AdversaryState, collected: FloatArray
    ) -> FloatArray:
        """The weights as they would be if so much were collected; the state does not change."""
        ...

    def observe_many(
        self, target: Target, state: AdversaryState, gains: FloatArray, episodes: int,
        collected: FloatArray,
    ) -> None:  # fmt: skip
        """Change the state after many episodes of the same weights."""
        ...


def extended(
    adversary: Adversary, target: Target, state: AdversaryState, collected: FloatArray
) -> AdversaryState:
    """The state for a target with more rows: gone on with, or from the beginning."""
    if isinstance(adversary, Extends):
        adversary.extend(target, state, collected)
        return state
    fresh = adversary.start(target)
    adversary.observe(target, fresh, as_gains(collected), collected)
    return fresh


def anticipated_weights(
    adversary: Adversary, target: Target, state: AdversaryState, collected: FloatArray
) -> FloatArray:
    """The weights if so much were collected, as far as the adversary can tell."""
    if isinstance(adversary, Anticipates):
        return adversary.anticipate(target, state, collected)
    return state.weights


def as_gains(collected: FloatArray) -> Gains:
    """What many episodes have collected, as if it were one."""
    return {row: int(collected[row]) for row in np.flatnonzero(collected).tolist()}


@dataclass(frozen=True)
class WeightedMajority:
    """Algorithm 1's adversary: exp(-xi visits since restart) on the rows of its level.

    It plays episode by episode: within one nothing changes.
    """

    def start(self, target: Target) -> AdversaryState:
        state = AdversaryState(np.zeros(len(target)), 0.0, base=np.zeros(len(target)))
        self._weigh(target, state, np.zeros(len(target)))
        return state

    def observe(
        self, target: Target, state: AdversaryState, gains: Gains, collected: FloatArray
    ) -> None:
        self._advance(target, state, loss_variance(target, state, gains), collected)

    def _advance(
        self, target: Target, state: AdversaryState, variance: float, collected: FloatArray
    ) -> None:
        """Add to the variance, or restart where the level has changed."""
        level = reached_level(target, collected)
        if level != state.level:
            state.level, state.base, state.variance = level, collected.copy(), 0.0
        else:
            state.variance += variance
        self._weigh(target, state, collected)

    def extend(self, target: Target, state: AdversaryState, collected: FloatArray) -> None:
        """More rows are another game: a restart."""
        state.level = reached_level(target, collected)
        state.base, state.variance = collected.copy(), 0.0
        self._weigh(target, state, collected)

    def anticipate(
        self, target: Target, state: AdversaryState, collected: FloatArray
    ) -> FloatArray:
        return _imagined(self._weigh, target, state, collected)

    def observe_many(
        self, target: Target, state: AdversaryState, gains: FloatArray, episodes: int,
        collected: FloatArray,
    ) -> None:  # fmt: skip
        variance = mean_loss_variance(target, state, gains, episodes)
        self._advance(target, state, variance, collected)

    def _weigh(self, target: Target, state: AdversaryState, collected: FloatArray) -> None:
        """lambda ~ exp(-xi (n - n at restart)) on X_k, normalised."""
        active = level_support(target, state.level)
        state.rate = learning_rate(int(active.sum()), state.variance)
        exponent = -state.rate * ((collected - state.base) / target.most_per_episode)
        state.shift = float(exponent[active].max(initial=-math.inf))
        weights = np.zeros(len(target))
        weights[active] = _exp(exponent[active] - state.shift)
        state.weights = weights / _sum(weights)
        state.total = 1.0


@dataclass(frozen=True)
class TargetAware:
    """Weights 1{n < c} (1/c) exp(-xi c_max n/c): ignores what is covered, needs no levels.

    Visits are whole, so c is rounded up: who wants 1.2 visits has got half of them with the first.
    The rate follows the paper's rule in small steps, so that between two steps only the rows
    that an episode has met change their weights. Rows that an episode can visit several times
    lose weight on the way, visit by visit, so that their losses need not be scaled by the most
    that an episode can collect: the rate may start sqrt(H) times faster.
    """

    def start(self, target: Target) -> AdversaryState:
        state = AdversaryState(np.zeros(len(target)), 0.0, rate=_fastest(target), rows=len(target))
        self._weigh(target, state, np.zeros(len(target)))
        return state

    def observe(
        self, target: Target, state: AdversaryState, gains: Gains, collected: FloatArray
    ) -> None:
        state.variance += loss_variance(target, state, gains)
        for row in gains:
            weight = self.weight_of(target, state, row, float(collected[row]))
            state.total += weight - state.weights[row]
            state.weights[row] = weight
        wanted = learning_rate(state.rows, state.variance, _fastest(target))
        if wanted < RATE_UPDATE_RATIO * state.rate or state.total < MIN_TOTAL_WEIGHT:
            state.rate = wanted
            self._weigh(target, state, collected)

    def include(self, target: Target, state: AdversaryState, row: int, n: float) -> None:
        _include(state, row, self.weight_of(target, state, row, n))

    def extend(self, target: Target, state: AdversaryState, collected: FloatArray) -> None:
        state.rows = int(np.isfinite(collected).sum())
        wanted = learning_rate(state.rows, state.variance, _fastest(target))
        state.rate = min(state.rate, wanted) if state.variance > 0 else wanted
        self._weigh(target, state, collected)

    def anticipate(
        self, target: Target, state: AdversaryState, collected: FloatArray
    ) -> FloatArray:
        return _imagined(self._weigh, target, state, collected)

    def observe_many(
        self, target: Target, state: AdversaryState, gains: FloatArray, episodes: int,
        collected: FloatArray,
    ) -> None:  # fmt: skip
        state.variance += mean_loss_variance(target, state, gains, episodes)
        state.rate = learning_rate(state.rows, state.variance, _fastest(target))
        self._weigh(target, state, collected)

    def weight_of(self, target: Target, state: AdversaryState, row: int, n: float) -> float:
        count = float(target.whole_counts[row])
        if n >= count:
            return 0.0
        return math.exp(_exponent(target, state, n, count) - state.shift)

    def weight_fell(self, target: Target, state: AdversaryState, row: int, gain: int) -> bool:
        """Whether the exponent has just passed another multiple of ``REPLAN_LOG_RATIO``."""
        pace, count = state.rate * _largest(target), float(target.whole_counts[row])
        before, now = pace * (gain - 1) / count, pace * gain / count
        return math.floor(now / REPLAN_LOG_RATIO) > math.floor(before / REPLAN_LOG_RATIO)

    def _weigh(self, target: Target, state: AdversaryState, collected: FloatArray) -> None:
        """All weights anew, scaled to a largest one of 1."""
        is_open = collected < target.whole_counts
        counts = target.whole_counts[is_open]
        pace = state.rate * _largest(target)
        exponents = -(pace * collected[is_open] / counts) - of_each_kind(math.log, counts)
        state.shift = float(exponents.max()) if len(exponents) else 0.0
        state.weights = np.zeros(len(target))
        state.weights[is_open] = of_each_kind(math.exp, exponents - state.shift)
        state.total = _sum(state.weights)


@dataclass(frozen=True)
class MissingOnly:
    """Weight 1 for every open row: the reward of GOSPRL (Tarbouriech et al., 2021)."""

    def start(self, target: Target) -> AdversaryState:
        return AdversaryState(np.ones(len(target)), float(len(target)))

    def observe(
        self, target: Target, state: AdversaryState, gains: Gains, collected: FloatArray
    ) -> None:
        for row in gains:
            if collected[row] >= target.counts[row] and state.weights[row] > 0:
                state.weights[row] = 0.0
                state.total -= 1.0

    def weight_of(self, target: Target, state: AdversaryState, row: int, n: float) -> float:
        del state
        return 1.0 if n < target.counts[row] else 0.0

    def weight_fell(self, target: Target, state: AdversaryState, row: int, gain: int) -> bool:
        del target, state, row, gain
        return False

    def include(self, target: Target, state: AdversaryState, row: int, n: float) -> None:
        _include(state, row, self.weight_of(target, state, row, n))

    def extend(self, target: Target, state: AdversaryState, collected: FloatArray) -> None:
        state.weights = self.anticipate(target, state, collected)
        state.total = _sum(state.weights)

    def anticipate(
        self, target: Target, state: AdversaryState, collected: FloatArray
    ) -> FloatArray:
        del state
        return np.where(collected < target.counts, 1.0, 0.0)

    def observe_many(
        self, target: Target, state: AdversaryState, gains: FloatArray, episodes: int,
        collected: FloatArray,
    ) -> None:  # fmt: skip
        del gains, episodes
        self.extend(target, state, collected)


OURS = (WeightedMajority, TargetAware, MissingOnly)
"""The adversaries that compiled code knows; a subclass is somebody else's."""


def _include(state: AdversaryState, row: int, weight: float) -> None:
    state.rows += 1
    state.weights[row] = weight
    state.total += weight


def _imagined(
    weigh: Callable[[Target, AdversaryState, FloatArray], None],
    target: Target,
    state: AdversaryState,
    collected: FloatArray,
) -> FloatArray:
    """The weights that ``weigh`` would set, on a copy of the state."""
    imagined = replace(state)
    weigh(target, imagined, collected)
    return imagined.weights


def _exponent(target: Target, state: AdversaryState, n: float, count: float) -> float:
    """-xi c_max n/c - log c, with losses per path scaled into [0, 1]."""
    return -(state.rate * _largest(target) * n / count) - math.log(count)


def _largest(target: Target) -> float:
    """c_max in units of the most that an episode can collect of a row."""
    return target.largest_whole_count / target.most_per_episode


def _fastest(target: Target) -> float:
    """The rate that ``TargetAware`` starts with: 1 where an episode visits a row only once."""
    return math.sqrt(target.most_per_episode)


def learning_rate(rows: int, variance: float, fastest: float = 1.0) -> float:
    """xi = min{1, C sqrt(ln N / V)}, with another number for 1 if wanted."""
    if variance <= 0:
        return fastest
    return min(fastest, RATE * math.sqrt(math.log(max(rows, 2)) / variance))


def loss_variance(target: Target, state: AdversaryState, gains: Gains) -> float:
    """Var_lambda of the losses, scaled into [0, 1] by the most a path can collect of a row."""
    if state.total <= 0:
        return 0.0
    most = target.most_per_episode
    mean = square = 0.0
    for row, gain in gains.items():
        loss = gain / most
        mean += state.weights[row] * loss
        square += state.weights[row] * (loss * loss)
    mean, square = mean / state.total, square / state.total
    return max(0.0, square - mean * mean)


def mean_loss_variance(
    target: Target, state: AdversaryState, gains: FloatArray, episodes: int
) -> float:
    """At least the sum of the variances of many episodes, from their mean loss m: m(1 - m).

    m(1 - m) bounds the variance of losses in [0, 1] and is concave, so the mean may stand for the
    episodes.
    """
    if state.total <= 0 or not episodes:
        return 0.0
    mean = _sum(state.weights * gains) / (state.total * target.most_per_episode * episodes)
    return episodes * max(0.0, mean * (1.0 - mean))


def smallest_count(target: Target) -> float:
    """c_min = (min_X c) v 1."""
    return max(1.0, float(target.counts.min(initial=math.inf)))


def level_support(target: Target, level: int) -> BoolArray:
    """X_k: everything at level 0, later the rows with c > c_min 2^k."""
    if level == 0:
        return np.ones(len(target), dtype=np.bool_)
    return target.counts > smallest_count(target) * 2.0**level


def reached_level(target: Target, collected: FloatArray) -> int:
    """The largest k such that all rows outside X_k are covered (line 10 of Algorithm 1).

    Rows outside X_k ask for at most c_min 2^k, so the open row that asks least decides: it
    has to lie in X_k. Once all is covered the game is over and no level matters.
    """
    still_open = target.counts[collected < target.counts]
    if not still_open.size:
        return 0
    smallest = float(still_open.min())
    level = 0
    while smallest > smallest_count(target) * 2.0 ** (level + 1):
        level += 1
    return level


def _exp(exponents: FloatArray) -> FloatArray:
    """exp by the C library, entry by entry: NumPy's own differs in the last bit."""
    return np.array([math.exp(x) for x in exponents.tolist()])


def _sum(values: FloatArray) -> float:
    """The sum from left to right, as a loop would do it."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0
