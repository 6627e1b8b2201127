"""Planners: from counts and a reward to the next policy, by optimism.

Appendix C of the paper (UCBVI for changing rewards), and our range-aware form of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import FloatArray, FloatHSA, IntArray, Policy, Shape


class Planner(Protocol):
    """Chooses the policy of the next episode; stateless."""

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        """A policy that goes for the reward, as far as the counts can tell."""
        ...


class Optimism(Protocol):
    """How an estimate of the continuation becomes an upper bound on Q."""

    def upper_q(
        self,
        reward: FloatArray,
        mean: FloatArray,
        variance: FloatArray,
        observed: FloatArray,
        best: FloatArray,
        remaining: float,
        stages_left: int = 1,
    ) -> FloatArray:
        """Q_h per pair.

        ``best`` is the largest value that any action of the state was seen to lead to, where the
        pair itself was seen to lead to one state only, and 0 elsewhere. ``remaining`` bounds what
        any path earns in the ``stages_left`` stages after this one.
        """
        ...


@dataclass(frozen=True)
class PaperOptimism:
    """Q = min(1, r + p V + max{sqrt(8 Var beta/n), 8 beta/n}), infinite bonus at n = 0."""

    shape: Shape
    delta: float
    scale: float = 1.0  # of beta; the paper's is 1

    @property
    def thresholds(self) -> PaperThresholds:
        return PaperThresholds(self.shape, self.scale)

    def beta(self, observed: FloatArray) -> FloatArray:
        """beta(n, delta) of every pair (Appendix C)."""
        return np.array([self.thresholds.transitions(n, self.delta) for n in observed.tolist()])

    def upper_q(
        self,
        reward: FloatArray,
        mean: FloatArray,
        variance: FloatArray,
        observed: FloatArray,
        best: FloatArray,
        remaining: float,
        stages_left: int = 1,
    ) -> FloatArray:
        del best, remaining, stages_left  # the paper clips at 1
        b = 8 * self.beta(observed)
        bonus = _bonus(variance, b, b, observed, 1.0)
        forbidden = reward == -np.inf
        upper = np.minimum(1.0, np.where(forbidden, 0.0, reward) + mean + bonus)
        return np.where(forbidden, -np.inf, upper)


@dataclass(frozen=True)
class RangeAwareOptimism:
    """Q = r + min(R, p V + max{sqrt(b Var/n), b R/n, g/(n + g) (B - p V)}).

    R is what any path can still earn, B the best that any action of the state was seen to lead
    to: that an action has always done the same does not rule out that it does what another one did.
    (Once it was seen to do this and that, the last term is dropped.) Where n = 0 the continuation
    is worth ``promise`` times R: what is certain goes before the same that is only hoped for.

    With b = 8 beta and promise 1 still an upper bound; with a small constant a heuristic that never
    gives up on a reachable cell, because an action not tried yet promises nearly all that is left.

    Bonuses accumulate along a path, also where it takes the same pair again and again. With a
    constant b they reach R after 1/b steps; every action then looks equally good, and a plan for a
    long episode postpones what it could collect now. So with L stages left, b is at most
    ``path_bonus`` / L: on a path whose pairs were each observed once, bonuses add up to at most
    that share of R. In the term b R/n it is at most ``visit_bonus`` / L^2: a bonus is then at most
    that share of what a stage can earn, divided by L. With 0.1 all bonuses of such a path together
    are less than one visit, for up to 1,000 stages (their sum grows with log L), so a visit that
    only the last stage can make outweighs them.
    """

    b: float = 0.03
    doubt: float = 0.3  # g: how many observations outweigh the doubt
    promise: float = 0.99
    path_bonus: float = 1.0
    visit_bonus: float = math.inf

    def bonus_at(self, stages_left: int) -> tuple[float, float]:
        """b with so many stages left: in the term of the variance, and in the one of the range."""
        b = min(self.b, self.path_bonus / stages_left)
        return b, min(b, self.visit_bonus / stages_left / stages_left)

    def upper_q(
        self,
        reward: FloatArray,
        mean: FloatArray,
        variance: FloatArray,
        observed: FloatArray,
        best: FloatArray,
        remaining: float,
        stages_left: int = 1,
    ) -> FloatArray:
        b, b_range = (np.full_like(observed, b) for b in self.bonus_at(stages_left))
        bonus = _bonus(variance, b, b_range, observed, remaining)
        doubt = self.doubt * (1.0 / (observed + self.doubt)) if self.doubt > 0 else 0.0
        upper = np.minimum(remaining, mean + np.maximum(bonus, doubt * (best - mean)))
        return reward + np.where(observed > 0, upper, self.promise * remaining)


def _bonus(
    variance: FloatArray, b: FloatArray, b_range: FloatArray, observed: FloatArray, scale: float
) -> FloatArray:
    """max{sqrt(b Var/n), b' scale/n}, infinite at n = 0."""
    share = 1.0 / np.where(observed > 0, observed, 1.0)
    bonus = np.maximum(np.sqrt(b * variance * share), b_range * scale * share)
    return np.where(observed > 0, bonus, np.inf)


class Plan(NamedTuple):
    """A policy, and what it is worth at the first stage that is planned."""

    policy: Policy
    values: FloatArray  # (S,)
    most: float  # what any path can earn in the stages that are planned


@dataclass(frozen=True)
class OptimisticPlanner:
    """Backward induction on upper bounds; ties go to the less visited action.

    As many stages are planned as the reward has. If these are fewer than an episode's, its earlier
    stages are played like the first of them.
    """

    optimism: Optimism

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        return self.plan_with_values(counts, reward).policy

    def plan_with_values(self, counts: Counts, reward: FloatHSA) -> Plan:
        """``plan``, and the values at the first stage."""
        shape, stages = counts.shape, len(reward)
        chosen = np.empty((stages, shape.states), dtype=np.int64)
        following, remaining = np.zeros(shape.states), 0.0
        for h in reversed(range(stages)):
            q = reward[h]
            if h + 1 < stages:
                mean, square, observed = counts.estimate(h, following)
                variance = np.maximum(square - mean * mean, 0.0)
                best = np.repeat(counts.best_after(h, following), shape.actions)
                best[counts.successors(h) != 1] = 0.0
                q = self.optimism.upper_q(
                    reward[h].ravel(), mean, variance, observed, best, remaining, stages - 1 - h
                )
                q = q.reshape(shape.states, shape.actions)
            chosen[h] = greedy(q, counts.tried(h))
            following = q[np.arange(shape.states), chosen[h]]
            remaining = remaining + float(reward[h].max())
        policy = Policy(chosen, shape.actions, lead=shape.horizon - stages)
        return Plan(policy, following, remaining)


@dataclass(frozen=True, eq=False)
class KnownModelPlanner:
    """The optimal policy for the reward on a given kernel: the paper's known-model variant."""

    transitions: Transitions

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        del counts
        return dp.backward_induction(self.transitions, reward).policy


def greedy(q: FloatArray, visits: IntArray) -> IntArray:
    """A best action per state, the least visited among the best, the first among those."""
    best = q == q.max(axis=1, keepdims=True)
    fewest: IntArray = np.where(best, visits, np.iinfo(np.int64).max).argmin(axis=1)
    return fewest
