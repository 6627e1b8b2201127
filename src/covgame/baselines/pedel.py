"""PEDEL (Wagenmaker and Jamieson, NeurIPS 2022) on tabular worlds small enough to list policies.

Round l, precision eps_l = H 2^-l: for every stage, collect data by an online experiment design
until no active policy's occupancy is uncertain,

    max_pi sum_{s,a} p_h^pi(s,a)^2 / n_h(s,a) <= eps_l^2/beta_l,
    beta_l = 64 H^2 log(4 H^2 |Pi_l| l^2/delta),

then drop the policies whose estimated value is more than 2 eps_l below the best. It ends at
eps_l <= eps/4, or when one policy is left. The design is found as it is played: each step goes, on
the learnt model, for the gradient of the objective at its worst policy (Frank-Wolfe). No public
code was found; the text that was has 36 H^4 where this has 64 H^2, which is less and helps PEDEL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from covgame.baselines.peer import Rollout
from covgame.baselines.rf_express import RFExpress
from covgame.errors import TooLarge
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import FloatArray, Policy

GROWTH = 0.02
"""A step takes this share of the episodes so far, at least one."""

BURN_IN = 10
"""Every cell that the learnt model reaches is visited so often before policies are listed."""

MAX_POLICIES = 1024
"""Worlds with more deterministic policies are refused."""


@dataclass
class Pedel:
    """Policy elimination by experiment design; ``policy`` is the answer once it is ``done``."""

    epsilon: float
    delta: float
    round: int = 0  # l
    active: list[Policy] = field(default_factory=list)
    done: bool = False

    def ask(self, counts: Counts) -> Rollout:
        """The next step of the design."""
        if not self.round:
            if _begins(counts):
                return Rollout(RFExpress().curiosity(counts.shape), 1)
            self.active, self.round = list(deterministic_policies(counts.kernel())), 1
        while not self.done:
            occupancies = [dp.occupancy(counts.kernel(), policy) for policy in self.active]
            reward = self._gradient(counts, np.array(occupancies))
            if reward is not None:
                best = dp.backward_induction(counts.kernel(), reward).policy
                return Rollout(best, max(1, int(GROWTH * counts.n_episodes)))
            self._eliminate(counts, np.array(occupancies))
        return Rollout(self.policy(counts), 1)

    def policy(self, counts: Counts) -> Policy:
        """The best active policy by the data."""
        return max(self.active, key=lambda policy: _value(counts, policy))

    def _precision(self, counts: Counts) -> float:
        return counts.shape.horizon * 2.0**-self.round

    def _gradient(self, counts: Counts, occupancies: FloatArray) -> FloatArray | None:
        """The reward that helps the worst policy at the first stage that is not well known."""
        H = counts.shape.horizon
        unions = 4 * H**2 * len(self.active) * self.round**2 / self.delta
        limit = self._precision(counts) ** 2 / (64 * H**2 * math.log(unions))
        n = np.maximum(counts.visits, 0.5)
        for h in range(H):
            uncertain = (occupancies[:, h] ** 2 / n[h]).sum(axis=(1, 2))
            if uncertain.max() > limit:
                reward: FloatArray = np.zeros(counts.shape.hsa)
                reward[h] = (occupancies[uncertain.argmax(), h] / n[h]) ** 2
                reward /= reward.max()
                return reward
        return None

    def _eliminate(self, counts: Counts, occupancies: FloatArray) -> None:
        values = (occupancies * counts.mean_rewards()).sum(axis=(1, 2, 3))
        kept = values >= values.max() - 2 * self._precision(counts)
        self.active = [policy for policy, keep in zip(self.active, kept, strict=True) if keep]
        self.done = len(self.active) == 1 or self._precision(counts) <= self.epsilon / 4
        self.round += 1


def _begins(counts: Counts) -> bool:
    """Whether some cell that the learnt model reaches was hardly visited yet."""
    if not counts.n_episodes:
        return True
    reached = dp.reachable(counts.kernel())[:, :, None]
    return bool((reached & (counts.visits < BURN_IN)).any())


def _value(counts: Counts, policy: Policy) -> float:
    kernel = counts.kernel()
    return dp.initial_value(kernel, dp.evaluate(kernel, policy, counts.mean_rewards()))


def deterministic_policies(transitions: Transitions) -> Iterator[Policy]:
    """All deterministic policies that differ in a reachable state."""
    shape = transitions.shape
    places = np.argwhere(dp.reachable(transitions))
    if shape.actions ** len(places) > MAX_POLICIES:
        raise TooLarge(f"{shape.actions}^{len(places)} deterministic policies are too many to list")
    for actions in product(range(shape.actions), repeat=len(places)):
        chosen = np.zeros(shape.hs, dtype=np.int64)
        chosen[tuple(places.T)] = actions
        yield Policy.deterministic(chosen, shape.actions)
