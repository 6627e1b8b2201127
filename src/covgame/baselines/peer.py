"""What a peer is: asked what to play next, it answers from counts alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from covgame.baselines.curiosity import Curiosity
from covgame.game.counts import Counts
from covgame.types import Policy, Shape

FOREVER = 2**62


@dataclass(frozen=True, eq=False)
class Stretch:
    """What to play for so many episodes: a policy, or a plan that is renewed before each."""

    plan: Policy | Curiosity
    episodes: int = FOREVER

    def policy(self, counts: Counts) -> Policy:
        """The policy of the next episode."""
        return self.plan if isinstance(self.plan, Policy) else self.plan.policy(counts)


class Peer(Protocol):
    """A method of exploring. It never sees the world, only what was counted in it."""

    def ask(self, counts: Counts) -> Stretch:
        """What to play next; asked again when that is played."""
        ...


@dataclass(frozen=True)
class CuriousPeer(ABC):
    """A peer that is one recursion: with its paper's confidence ``delta``, or practical without.

    It counts visits by cell, or ``per_pair``: of a state and action at all stages together.
    """

    delta: float | None = None
    per_pair: bool = False

    @abstractmethod
    def curiosity(self, shape: Shape) -> Curiosity:
        """What visits are worth to it."""

    def ask(self, counts: Counts) -> Stretch:
        """The same for ever, planned anew before every episode."""
        return Stretch(self.curiosity(counts.shape))
