"""What data prove, whoever collected them: reward-free error, best-policy gap (docs/certified.md).

Everything here is a function of counts. A run that stops on a certificate and somebody who checks
it from the files compute the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor, log
from typing import Any, NamedTuple, TypeVar

import numpy as np

from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.pac.mixtures import ConfidenceSets, Structure
from covgame.types import FloatArray, FloatHSA, IntArray, Policy

THETAS = np.concatenate([[0.0], np.logspace(-4, 1, 26)])
"""Where the trade-off theta is looked for first, in units of 1/(H-1)."""

PENALISED_THETAS = np.logspace(-2, 0.5, 6)
"""The same where part of what cells cost is paid from the joint budget."""

REFINEMENTS = 12

COMPONENTS = 12
"""Mixtures of every row, with concentrations 1/4, 1, 4, ..., 4^10."""

WEIGHTS = (0.03, 0.1, 0.4)
"""q: the weight of the mixtures in the factor of a row, averaged over."""

CENTRES = range(2, COMPONENTS)
"""The concentration with the largest weight is 4^(centre - 1), averaged over, too."""

MOST_BALLS = 500_000
"""The same where the best of a ball is looked for at each step."""

GRID = 2**16
"""Returns that are no whole numbers are rounded down to so many steps of their range."""

MOST_WORK = 300_000_000
"""Reach is computed exactly up to so many steps of its recursions, about half a second."""


@dataclass(frozen=True)
class Penalty:
    """How the joint budget is used; every choice is valid, and certificates say which."""

    price: float  # mu, in units of the median of reach/visits
    weight: float  # q, one of ``WEIGHTS``
    centre: int  # one of ``CENTRES``


FIRST_PENALTY = Penalty(2.0, 0.1, 6)
"""Where the search begins."""


class Bound(NamedTuple):
    """An error, and the trade-offs that prove it."""

    error: float
    theta: float
    penalty: Penalty | None = None  # None: every row by itself


FIRST_OPTIMISM = Penalty(1.0, 0.1, 0)
"""The same for the best policy, where a row has one mixture."""

Found = TypeVar("Found", bound=tuple[Any, ...])


def _descend(bound: Callable[[Penalty], Found], best: Penalty) -> Found:
    """From one penalty to better neighbours; ``bound`` gives tuples that begin with a number."""
    found: dict[Penalty, Found] = {}

    def value(penalty: Penalty) -> float:
        if penalty not in found:
            found[penalty] = bound(penalty)
        return float(found[penalty][0])

    for factor in (2.0, 1.2):
        nearest: Penalty | None = None
        while nearest is None or value(nearest) < value(best):
            best = nearest or best
            near = [replace(best, price=best.price * step) for step in (factor, 1 / factor)]
            weight = WEIGHTS.index(best.weight)
            near += [replace(best, weight=one) for one in WEIGHTS[max(0, weight - 1) : weight + 2]]
            near += [
                replace(best, centre=one)
                for one in (best.centre - 1, best.centre + 1)
                if best.centre in CENTRES and one in CENTRES
            ]
            nearest = min(near, key=value)
    return found[best]


@dataclass(frozen=True, eq=False)
class RewardFreeError:
    """How far a policy that is optimal on the learnt model is from the best, for any reward.

    2 min [theta (H-1)^2/8 + budget + max_pi E_hat of what its cells cost], where a cell costs its
    radius/theta or (H-h) tv, whichever is less, and a path never more than what is left of it. A
    radius bounds KL(p_hat, p) less what the joint budget pays of it (Theorem 6).
    """

    sets: ConfidenceSets
    risk: float  # the probability that the joint budget fails

    @property
    def counts(self) -> Counts:
        return self.sets.counts

    @cached_property
    def radii(self) -> FloatArray:
        """kappa >= KL(p_hat, p) of every row."""
        total = self.counts.table.total
        return np.where(total > 0, self.sets.transitions / np.maximum(total, 1), np.inf)

    @cached_property
    def distances(self) -> FloatArray:
        """An upper bound on the total variation between p_hat and p, of every row.

        Pinsker's, or Bretagnolle and Huber's for large kappa.
        """
        return np.minimum(np.sqrt(self.radii / 2), np.sqrt(-np.expm1(-self.radii)))

    # ---------------------------------------------------------------------- the joint budget

    @property
    def _moving(self) -> int:
        """How many rows come before the last stage."""
        shape, rows = self.counts.shape, len(self.counts.table)
        return rows if self.counts.pooled else rows - shape.pairs

    @cached_property
    def reach(self) -> FloatArray:
        """The most visits in an episode that a policy pays each row, on the learnt model."""
        from covgame.kernels import budget as kernel

        counts, sets = self.counts, self.sets
        H, S, _ = counts.shape.hsa
        table, allowed = counts.table, sets.allowed
        out = np.empty(self._moving)
        entries = int(table.rows["size"].sum())
        targets = int((table.total > 0).reshape(-1, S, counts.shape.actions).any(axis=2).sum())
        work = targets * entries / 2
        if counts.pooled:
            work = int((table.total > 0).sum()) * entries * H
        if work <= MOST_WORK:
            chances, radius = sets.first_states(fixed=False)
            kernel.most_visits(
                table.rows, table.entries, counts.pooled, allowed, H, chances, radius, out
            )
        else:
            likeliest = np.array([sets.highest_start(one, fixed=False) for one in np.eye(S)])
            kernel.most_visits_roughly(
                table.rows, table.entries, counts.pooled, allowed, H, likeliest, out
            )
        return out

    @cached_property
    def _lines(self) -> tuple[FloatArray, FloatArray]:
        """Slopes and offsets: log-evidence >= slope n KL - offset, for every row and mixture."""
        from covgame.kernels import budget as kernel

        table = self.counts.table
        slopes, offsets = np.empty((2, self._moving, COMPONENTS))
        kernel.evidence_lines(table.rows, table.entries, self.radii, slopes, offsets)
        return slopes, offsets

    @cached_property
    def _unit(self) -> float:
        """The median of reach/visits, the order of magnitude of mu."""
        visits = self.counts.table.total[: self._moving]
        seen = visits > 0
        return float(np.median(self.reach[seen] / visits[seen])) if seen.any() else 1.0

    def _penalised(self, penalty: Penalty | None) -> tuple[FloatArray, float]:
        """The radii that are left, and what the budget costs, to be divided by theta."""
        from covgame.kernels import budget as kernel

        if penalty is None:
            return self.radii, 0.0
        mu = penalty.price * self._unit
        weights = -log(3.0) * np.abs(np.arange(COMPONENTS) - penalty.centre)
        weights -= log(np.exp(weights).sum())
        radii = np.full(len(self.radii), np.inf)
        base = kernel.penalised_radii(
            self.counts.table.rows,
            self.radii,
            self.reach,
            mu,
            penalty.weight,
            weights,
            *self._lines,
            radii[: self._moving],
        )
        return radii, mu * (log(len(WEIGHTS) * len(CENTRES) / self.risk) + base)

    # --------------------------------------------------------------------------- the bound

    @cached_property
    def best(self) -> Bound:
        """The smallest bound found."""
        return min(self.bound(), self.search(), key=lambda found: found.error)

    def bound(self, penalty: Penalty | None = None) -> Bound:
        """The smallest bound found over theta."""
        H = self.counts.shape.horizon
        if H == 1:
            return Bound(0.0, 0.0)
        costs = self._penalised(penalty)
        thetas = (THETAS if penalty is None else PENALISED_THETAS) / (H - 1)
        errors = [self._at(theta, *costs) for theta in thetas]
        place = int(np.argmin(errors))
        found = (errors[place], float(thetas[place]))
        if 0 < place < len(thetas) - 1:
            found = min(found, self._refined(thetas[place - 1], thetas[place + 1], *costs))
        return Bound(*found, penalty)

    def _refined(
        self, low: float, high: float, radii: FloatArray, budget: float
    ) -> tuple[float, float]:
        """Golden-section search between two thetas; any theta is valid, this one is better."""
        ratio = (np.sqrt(5.0) - 1) / 2
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = self._at(left, radii, budget), self._at(right, radii, budget)
        for _ in range(REFINEMENTS):
            if at_left < at_right:
                high, right, at_right = right, left, at_left
                left = high - ratio * (high - low)
                at_left = self._at(left, radii, budget)
            else:
                low, left, at_left = left, right, at_right
                right = low + ratio * (high - low)
                at_right = self._at(right, radii, budget)
        return min((at_left, left), (at_right, right))

    def search(self, start: Penalty | None = None) -> Bound:
        """The smallest bound found over penalties: from ``start`` to better neighbours."""
        return _descend(self.bound, start or FIRST_PENALTY)

    def at(self, theta: float, penalty: Penalty | None = None) -> float:
        """The bound for one theta."""
        return self._at(theta, *self._penalised(penalty))

    def _at(self, theta: float, radii: FloatArray, budget: float) -> float:
        values, _ = self._recursion(theta, radii)
        H = self.counts.shape.horizon
        first = self.sets.highest_start(values[0], fixed=False)
        more = budget / theta if budget else 0.0
        return 2.0 * (theta * (H - 1) ** 2 / 8 + more + first)

    @property
    def error(self) -> float:
        """The certified error, at most H: no policy can lose more."""
        return min(self.best.error, float(self.counts.shape.horizon))

    @property
    def worst_policy(self) -> Policy:
        """The policy whose value is known least."""
        return self.policy(self.best)

    def policy(self, bound: Bound) -> Policy:
        """The policy whose value is known least, by one of the bounds: what to play next."""
        _, chosen = self._recursion(bound.theta, self._penalised(bound.penalty)[0])
        return Policy.deterministic(chosen, self.counts.shape.actions)

    def _recursion(self, theta: float, radii: FloatArray) -> tuple[FloatArray, IntArray]:
        from covgame.kernels import confidence as kernel

        counts, table = self.counts, self.counts.table
        values = np.zeros(counts.shape.hs)
        chosen = np.zeros(counts.shape.hs, dtype=np.int64)
        kernel.reward_free_error(
            table.rows,
            table.entries,
            counts.pooled,
            radii,
            self.distances,
            theta,
            self.sets.allowed,
            counts.visits,
            chosen,
            values,
        )
        return values, chosen


@dataclass(frozen=True)
class Range:
    """What rewards, and their sum, may be."""

    low: float = 0.0
    high: float = 1.0
    return_high: float | None = None  # of the sum of rewards, if less than H times the highest

    def ceilings(self, horizon: int) -> FloatArray:
        """The most that can be earned from every stage on."""
        left = np.arange(horizon, 0, -1.0)
        most = np.maximum(left * self.high, 0.0)
        if self.return_high is not None and self.low >= 0:
            most = np.minimum(most, self.return_high)
        return most

    def floors(self, horizon: int) -> FloatArray:
        """The least that can be earned from every stage on."""
        return np.minimum(np.arange(horizon, 0, -1.0) * self.low, 0.0)


@dataclass(frozen=True, eq=False)
class Validation:
    """Fresh episodes of a policy that was fixed before them: the attempt-th such policy."""

    policy: Policy
    attempt: int  # from 1 on
    first_episode: int
    returns: Mapping[float, int] = field(default_factory=dict)  # and how often each was seen

    @property
    def episodes(self) -> int:
        return sum(self.returns.values())

    def and_then(self, returns: Mapping[float, int], least: float, most: float) -> Validation:
        """With more of them, rounded down to one of ``GRID`` steps from ``least`` to ``most``."""
        merged, unit = dict(self.returns), (most - least) / GRID
        for value, times in returns.items():
            rounded = value
            if value != round(value):
                rounded = max(least, least + floor((value - least) / unit) * unit)
            merged[rounded] = merged.get(rounded, 0) + times
        return replace(self, returns=merged)

    def lower(self, least: float, delta: float) -> float:
        """The policy's value is at least this: no return is below ``least``.

        Attempt j may fail with probability delta/(j(j+1)); these add up to delta.
        """
        from covgame.kernels import budget, confidence

        n = self.episodes
        if n == 0:
            return -np.inf
        values, times = np.array(sorted(self.returns.items()), dtype=np.float64).T
        threshold = log(self.attempt * (self.attempt + 1) / delta) + budget.regret(float(n))
        lowest = confidence.best_of_ball(times / n, -values, len(values), threshold / n, -least)
        return float(-lowest)


class Optimism(NamedTuple):
    """V* is at most ``upper``; what every action may be worth, (H, S, A)."""

    upper: float
    values: FloatHSA
    penalty: Penalty | None = None


@dataclass(frozen=True, eq=False)
class BestPolicyGap:
    """V* from above, the value of a policy from below.

    Above: reward and V* of the successor are one variable with one mean per cell (Theorem 4).
    Below: the worst case over the whole confidence set, because the policy depends on the data; or
    the returns of fresh episodes of a policy.
    """

    counts: Counts
    structure: Structure
    delta: float
    range: Range
    validation: Validation | None = None

    @cached_property
    def sets(self) -> ConfidenceSets:
        """For policies from below: transitions and rewards."""
        return ConfidenceSets(self.counts, self.structure, OF_POLICIES * self.delta / 2)

    @cached_property
    def functions(self) -> ConfidenceSets:
        """For V*, every cell by itself."""
        share = OF_FUNCTIONS + (0.0 if self.is_joint else OF_BUDGET)
        return ConfidenceSets(self.counts, self.structure, share * self.delta)

    @property
    def is_joint(self) -> bool:
        """Whether reward and successor were seen together, of the same law at every stage."""
        alike = not self.counts.pooled or self.structure.same_rewards
        return self.counts.payments is not None and alike

    # ----------------------------------------------------------------------- V* from above

    @cached_property
    def rewards(self) -> tuple[FloatHSA, FloatHSA]:
        return self.sets.reward_bounds(self.range.low, self.range.high)

    @cached_property
    def reach(self) -> FloatArray:
        """The most visits in an episode that a policy pays each row, in any world of the balls."""
        from covgame.kernels import budget as kernel

        counts, functions, table = self.counts, self.functions, self.counts.table
        H, S, A = counts.shape.hsa
        balls = S * A * H / 2 * S * H if not counts.pooled else S * A * H * S * A
        if balls > MOST_BALLS:
            return np.full(len(table), float(H) if counts.pooled else 1.0)
        out = np.empty(len(table))
        kernel.possible_visits(
            table.rows,
            table.entries,
            counts.pooled,
            functions.fixed_function,
            self.structure.can_end,
            self.structure.limit,
            functions.allowed,
            H,
            *functions.first_states(fixed=True),
            out,
        )
        return out

    def optimism(self, penalty: Penalty | None = None, reach: FloatArray | None = None) -> Optimism:
        """V* from above; with a ``reach`` of earlier data a guess, no bound."""
        from covgame.kernels import budget as kernel

        if not self.is_joint:
            return self._apart
        counts, table = self.counts, self.counts.table
        H = counts.shape.horizon
        values, best = np.empty(counts.shape.hs), np.empty(counts.shape.hsa)
        if reach is None:
            reach = np.ones(len(table)) if penalty is None else self.reach
        mu = 0.0 if penalty is None else penalty.price * self._unit(reach)
        weight = WEIGHTS[0] if penalty is None else penalty.weight
        base = kernel.penalised_values(
            table.rows,
            table.entries,
            self._paid,
            counts.pooled,
            *self._last_stage,
            self.range.low,
            self.range.high,
            self.functions.level_of_functions,
            log(H) if counts.pooled else 0.0,
            reach,
            mu,
            weight,
            self.range.ceilings(H),
            self.functions.allowed,
            self.structure.can_end,
            self.structure.limit,
            best,
            values,
        )
        budget = mu * (log(len(WEIGHTS) / (OF_BUDGET * self.delta)) + base)
        upper = self.functions.highest_start(values[0], fixed=True) + budget
        return Optimism(upper, best, penalty)

    @cached_property
    def _paid(self) -> FloatArray:
        """What was earned with each entry of the table."""
        table, payments = self.counts.table, self.counts.payments
        assert payments is not None  # noqa: S101 (is_joint)
        paid, size = np.zeros(len(table.entries)), table.rows["size"]
        row, successor, _ = table.listed(0, len(table))
        within = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        paid[np.repeat(table.rows["start"], size) + within] = payments.of(row, successor)
        return paid

    @cached_property
    def _last_stage(self) -> tuple[IntArray, FloatArray]:
        """Visits and sums of rewards that speak of the last stage, by pair."""
        visits, sums = self.sets.rewarded
        return visits[-1].ravel(), sums[-1].ravel()

    def _unit(self, reach: FloatArray) -> float:
        """The order of magnitude of mu."""
        counts, H = self.counts, self.counts.shape.horizon
        by_stage = counts.visits.reshape(-1, counts.shape.pairs)
        visits = by_stage.sum(axis=0) if counts.pooled else by_stage.ravel()
        seen = visits > 0
        median = float(np.median(reach[seen] / visits[seen])) if seen.any() else 1.0
        return median * float(self.range.ceilings(H)[0] - self.range.floors(H)[0])

    @cached_property
    def _apart(self) -> Optimism:
        """With rewards and successors bounded one by one."""
        from covgame.kernels import confidence as kernel

        counts, table = self.counts, self.counts.table
        q, values = np.empty(counts.shape.hsa), np.empty(counts.shape.hs)
        kernel.upper_values(
            table.rows,
            table.entries,
            counts.pooled,
            self.functions.fixed_function,
            np.where(self.sets.allowed, self.rewards[1], -np.inf),
            self.range.ceilings(counts.shape.horizon),
            self.structure.can_end,
            self.structure.limit,
            q,
            values,
        )
        return Optimism(self.functions.highest_start(values[0], fixed=True), q)

    def search(self, start: Penalty | None = None, reach: FloatArray | None = None) -> Optimism:
        """The smallest bound found over penalties: from ``start`` to better neighbours."""
        return _descend(lambda penalty: self.optimism(penalty, reach), start or FIRST_OPTIMISM)

    @cached_property
    def best(self) -> Optimism:
        """The smallest bound found on V*."""
        if not self.is_joint:
            return self.optimism()
        return min(self.optimism(), self.search(), key=lambda found: found.upper)

    @property
    def upper(self) -> float:
        """V* is at most this."""
        return self.best.upper

    def policy(self, optimism: Optimism) -> Policy:
        """The policy that may be best: what to play next. Ties go to the action visited less."""
        q = optimism.values
        best = q >= q.max(axis=2, keepdims=True) - 1e-12
        chosen = np.where(best, self.counts.visits, np.iinfo(np.int64).max).argmin(axis=2)
        return Policy.deterministic(chosen, self.counts.shape.actions)

    # ----------------------------------------------------------------- policies from below

    @cached_property
    def candidate(self) -> tuple[float, Policy]:
        """(value at least, policy): the best of what is proved.

        One plans for the worst case, one for the estimates, and one may have been validated.
        """
        careful = np.full(self.counts.shape.hs, -1, dtype=np.int64)
        found = [(self.lower(careful), Policy.deterministic(careful, self.counts.shape.actions))]
        estimated = self.estimated[1]
        found.append((self.lower(estimated.table), estimated))
        if self.validation is not None and self.validation.episodes:
            found.append((self.validated, self.validation.policy))
        return max(found, key=lambda pair: pair[0])

    @property
    def validated(self) -> float:
        """What fresh episodes prove of their policy."""
        if self.validation is None:
            return -np.inf
        least = self.range.floors(self.counts.shape.horizon)[0]
        return self.validation.lower(least, OF_VALIDATIONS * self.delta)

    @cached_property
    def estimated(self) -> tuple[float, Policy]:
        """(value, policy) that is best if the estimates are right."""
        wanted = np.where(self.sets.allowed, self._mean_rewards, -np.inf)
        kernel = self.counts.kernel()
        found = dp.backward_induction(kernel, wanted)
        return dp.initial_value(kernel, found.values), found.policy

    def length_of_validation(self, room: float, level: float) -> float:
        """How many episodes it may take to bound the estimated policy's value within ``room``."""
        H = self.counts.shape.horizon
        farthest = float(self.range.ceilings(H)[0] - self.range.floors(H)[0])
        return 2 * (self._variance + room * farthest / 3) * level / room**2

    @property
    def _variance(self) -> float:
        """Of the returns of the estimated policy, if rewards are as far apart as can be."""
        kernel, table = self.counts.kernel(), self.estimated[1].table
        low, high = self.range.low, self.range.high
        mean = np.take_along_axis(self._mean_rewards, table[:, :, None], axis=2)[:, :, 0]
        square = (low + high) * mean - low * high
        first, second = np.zeros((2, self.counts.shape.states))
        for h in reversed(range(self.counts.shape.horizon)):
            after, after_square = first * 0.0, second * 0.0
            if h + 1 < self.counts.shape.horizon:
                pairs = np.arange(len(first)) * self.counts.shape.actions + table[h]
                after = kernel.stages[h].expect(first)[pairs]
                after_square = kernel.stages[h].expect(second)[pairs]
            second = square[h] + 2 * mean[h] * after + after_square
            first = mean[h] + after
        value = dp.initial_value(kernel, first[None])
        return max(0.0, dp.initial_value(kernel, second[None]) - value**2)

    @cached_property
    def _mean_rewards(self) -> FloatHSA:
        visits, sums = self.sets.rewarded
        return np.broadcast_to(sums / np.maximum(visits, 1), self.counts.shape.hsa)

    def lower(self, chosen: IntArray) -> float:
        """A policy's value is at least this; where ``chosen`` is -1 it gets the best worst case."""
        from covgame.kernels import confidence as kernel

        counts, table = self.counts, self.counts.table
        values = np.empty(counts.shape.hs)
        reward = np.where(self.sets.allowed, self.rewards[0], -np.inf)
        kernel.lower_values(
            table.rows,
            table.entries,
            counts.pooled,
            self.sets.transitions,
            reward,
            self.range.floors(counts.shape.horizon),
            self.sets.structure.can_end,
            self.sets.structure.limit,
            chosen,
            values,
        )
        return self.sets.lowest_start(values[0])

    @property
    def gap(self) -> float:
        """What the candidate loses at most."""
        return self.upper - self.candidate[0]


def reward_free(counts: Counts, structure: Structure, delta: float) -> RewardFreeError:
    """The reward-free certificate: a half of delta for the sets of rows, a half for the budget."""
    return RewardFreeError(ConfidenceSets(counts, structure, delta / 2), delta / 2)


OF_FUNCTIONS, OF_BUDGET, OF_VALIDATIONS, OF_POLICIES = 1 / 8, 1 / 4, 1 / 4, 3 / 8
"""What parts of delta go to V* cell by cell, to V* jointly, to validations, to all policies."""


def best_policy(
    counts: Counts,
    structure: Structure,
    delta: float,
    reward_range: Range,
    validation: Validation | None = None,
) -> BestPolicyGap:
    """The best-policy certificate."""
    return BestPolicyGap(counts, structure, delta, reward_range, validation)
