"""What a peer is: asked what to play next, it answers from counts alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.game import custom_players
from covgame.game.counts import Counts
from covgame.rng import uniforms
from covgame.types import IntArray, Policy, Shape

FOREVER = 2**62


ANY = -1
"""In a table of actions: all of them are as good."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Policies of which one is drawn before every episode, each with the same probability."""

    tables: IntArray  # (policies, H, S), ANY for a uniform action
    seed: int
    stream: int

    def policy(self, counts: Counts) -> Policy:
        """The policy that is drawn for the next episode."""
        number = float(uniforms(self.seed, self.stream, counts.n_episodes, 1)[0])
        table = self.tables[int(number * len(self.tables))]
        chances = np.eye(counts.shape.actions)[table]
        chances[table == ANY] = 1.0 / counts.shape.actions
        return Policy.stochastic(chances)


@dataclass(frozen=True, eq=False)
class Rollout:
    """What to play for so many episodes: a policy, or a plan that is renewed before each."""

    plan: Policy | Curiosity | Mixture
    episodes: int = FOREVER

    def policy(self, counts: Counts) -> Policy:
        """The policy of the next episode."""
        return self.plan if isinstance(self.plan, Policy) else self.plan.policy(counts)


class Peer(custom_players.Peer, Protocol):
    """A method of exploring. It never sees the world, only what was counted in it."""

    def ask(self, counts: Counts) -> Rollout:
        """What to play next; asked again when that is played."""
        ...


@dataclass(frozen=True)
class CuriousPeer(ABC):
    """A peer that is one recursion: with its paper's confidence ``delta``, or practical without.

    It counts visits by cell, or ``per_pair``: of a state and action at all stages together. It
    plans before every episode and, if it ``replans``, whenever visits of a pair have doubled.
    """

    delta: float | None = None
    per_pair: bool = False
    replans: bool = False

    @abstractmethod
    def curiosity(self, shape: Shape) -> Curiosity:
        """What visits are worth to it."""

    def ask(self, counts: Counts) -> Rollout:
        """The same for ever."""
        return Rollout(replace(self.curiosity(counts.shape), replans=self.replans))
