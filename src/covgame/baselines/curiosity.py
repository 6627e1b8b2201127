"""Planning on what visits are worth: the backbone that most peers share.

A cell that was visited n times earns a ``bonus(n)``; a policy is found by backward induction:

    Q_h = min(cap_h, c(t) + bonus(n) + cap_h width(n) + r_h + slope p_hat V_{h+1}
                     + sqrt(variance_scale(n) Var V_{h+1}))

and Q_h = cap_h where no transition was seen. Bonuses of RF-UCRL, RF-Express, UCBVI and the
rewards of entropy methods are all such functions of n; the peers differ in nothing else.

n counts the visits of a cell, or, ``per_pair``, those of its state and action at all stages, as the
public code of several authors does; t then counts steps instead of episodes. Whoever ``replans``
does so within an episode, too: whenever the visits of a pair have doubled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from covgame.game.counts import Counts
from covgame.game.planner import greedy
from covgame.types import FloatArray, FloatHSA, IntArray, Policy

OfVisits = Callable[[FloatArray], FloatArray]
"""A function of the number of visits, over an array of them; may be infinite at 0."""

CHUNK = 2**16
"""Functions of visits are listed in chunks: once, for readable and for compiled code."""

MOST_LISTED = 2**20
"""From so many visits on they are computed where they are needed."""


def nothing(visits: FloatArray) -> FloatArray:
    """0, however often a cell was visited."""
    return np.zeros(len(visits))


@dataclass(frozen=True, eq=False)
class Curiosity:
    """What visits are worth, and how far the recursion may go."""

    caps: FloatArray  # (H,)
    bonus: OfVisits = nothing
    width: OfVisits = nothing  # in units of the stage's cap
    variance_scale: OfVisits = nothing  # of the variance under the root
    slope: float = 1.0
    reward: FloatHSA | None = None  # known beforehand
    learns_rewards: bool = False  # adds the mean reward seen so far
    log_offset: float | None = None  # c(t) = log(t + offset), which then multiplies the caps too
    per_pair: bool = False  # visits, and rewards seen, of all stages together
    replans: bool = False  # within an episode
    clips: bool = True  # if not: no min, and what was never tried leads to any state alike
    _listed: list[FloatArray] = field(default_factory=list, repr=False)  # (3, visits), if asked for

    def listed(self, most: int) -> FloatArray:
        """``bonus``, ``width``, ``variance_scale`` of 0 to ``most`` and more visits: (3, more)."""
        if not self._listed or self._listed[0].shape[1] <= most:
            chunks = [
                self._computed(np.arange(first, first + CHUNK))
                for first in range(0, 2 * most + 1, CHUNK)
            ]
            self._listed[:] = [np.concatenate(chunks, axis=1)]
        return self._listed[0]

    def _computed(self, visits: IntArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            n = visits.astype(np.float64)
            return np.array([self.bonus(n), self.width(n), self.variance_scale(n)])

    def policy(self, counts: Counts) -> Policy:
        """The policy that collects most of it, as far as the counts can tell."""
        return self.plan(counts)[0]

    def plan(self, counts: Counts) -> tuple[Policy, float]:
        """(the policy, its value at the start)."""
        shape = counts.shape
        chosen = np.empty(shape.hs, dtype=np.int64)
        constant, scale = self.constant(counts)
        visits, reward_sums = self._counted(counts)
        following = np.zeros(shape.states)
        for h in reversed(range(shape.horizon)):
            n, cap = visits[h].ravel(), self.caps[h] * scale
            bonus, width, variance_scale = self._of(n)
            with np.errstate(invalid="ignore"):
                q = constant + bonus + cap * width
            if self.reward is not None:
                q = q + self.reward[h].ravel()
            if self.learns_rewards:
                q = q + reward_sums[h].ravel() / np.maximum(n, 1)
            if h + 1 < shape.horizon:
                mean, square, observed = counts.estimate(h, following)
                variance = np.maximum(square - mean * mean, 0.0)
                untried = observed <= 0
                if not self.clips:
                    mean = np.where(untried, float(np.cumsum(following)[-1]) / shape.states, mean)
                with np.errstate(invalid="ignore"):
                    q = q + self.slope * mean + np.sqrt(variance_scale * variance)
                q = np.where(untried, cap, q) if self.clips else q
            q = (np.fmin(q, cap) if self.clips else q).reshape(shape.states, shape.actions)
            chosen[h] = greedy(q, visits[h])
            following = q[np.arange(shape.states), chosen[h]]
        started = counts.starts / max(1, counts.n_episodes)
        return Policy.deterministic(chosen, shape.actions), float(started @ following)

    def _counted(self, counts: Counts) -> tuple[IntArray, FloatHSA]:
        """Visits and rewards seen, per cell or of all stages together."""
        if not self.per_pair:
            return counts.visits, counts.reward_sums
        shape = counts.shape.hsa
        visits, reward_sums = counts.visits.sum(axis=0), counts.reward_sums.sum(axis=0)
        return np.broadcast_to(visits, shape), np.broadcast_to(reward_sums, shape)

    def constant(self, counts: Counts) -> tuple[float, float]:
        """(what every cell is worth beside its visits, what multiplies the caps)."""
        if self.log_offset is None:
            return 0.0, 1.0
        t = int(counts.visits.sum()) if self.per_pair else counts.n_episodes
        constant = math.log(t + self.log_offset)
        return constant, constant

    def _of(self, visits: IntArray) -> FloatArray:
        """``bonus``, ``width`` and ``variance_scale`` of numbers of visits."""
        most = int(visits.max(initial=0))
        if most < MOST_LISTED:
            return self.listed(most)[:, visits]
        return self._computed(visits)
