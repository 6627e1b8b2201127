"""The certified preset: play what the certificate doubts most, until it says enough.

``explore``: the policy whose value is known least is played for a few more episodes, then the
certificate is computed anew. Cells of which nothing is known count as if everything could be lost
there, so exploring needs no beginning of its own. ``identify``: the policy that may be best.

Any way of choosing policies is covered by the certificates, which look at the data alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from covgame.episodes import Block
from covgame.game.counts import Counts
from covgame.pac.best_policy import Conclusion
from covgame.pac.certificates import (
    BestPolicyGap,
    Range,
    RewardFreeError,
    best_policy,
    reward_free,
)
from covgame.pac.learnt import LearntModel
from covgame.pac.mixtures import Structure
from covgame.pac.parts import Phase, PolicyPart
from covgame.types import Policy

GROWTH = 0.02
"""A round takes this share of the episodes so far, at least one."""

MILESTONE = 1.25
"""Progress is noted whenever the episodes have grown by this factor."""


@dataclass(eq=False)
class _Certified(ABC):
    """Rounds of one policy each, until the bound is at most epsilon."""

    counts: Counts
    structure: Structure
    epsilon: float
    delta: float

    needs_episodes = False

    def __post_init__(self) -> None:
        self.phases: list[Phase] = []
        self.rounds = 0
        self.noted = 0  # episodes at the last milestone
        self._known: tuple[int, Any] | None = None

    @property
    @abstractmethod
    def bound(self) -> float:
        """What has to fall below epsilon."""

    @abstractmethod
    def _next_policy(self) -> Policy:
        """What to play next."""

    @property
    def done(self) -> bool:
        return self.counts.n_episodes > 0 and self.bound <= self.epsilon

    @property
    def model(self) -> LearntModel:
        return LearntModel.of(self.counts)

    def next_part(self) -> PolicyPart | None:
        if self.done:
            return None
        episodes = max(1, int(GROWTH * self.counts.n_episodes))
        fresh = Counts(self.counts.shape, pooled=self.counts.pooled)
        return PolicyPart(f"round {self.rounds + 1}", self._next_policy(), episodes, fresh)

    def tell(self, part: PolicyPart, episodes: Sequence[Block] = ()) -> bool:
        del episodes
        self.counts.include(part.counts)
        self.rounds += 1
        played = self.counts.n_episodes
        if played >= MILESTONE * self.noted or self.done:
            seen = int((self.counts.visits > 0).sum())
            name = f"until round {self.rounds}"
            self.phases.append(Phase(name, played - self.noted, seen, 0.0, self.bound))
            self.noted = played
        return True

    def state(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "noted": self.noted}

    def restore(self, state: dict[str, Any]) -> None:
        self.rounds, self.noted = state["rounds"], state["noted"]


class CertifiedExploration(_Certified):
    """Reward-free: plays the policy whose value is known least."""

    @property
    def certificate(self) -> RewardFreeError:
        """What the data prove now."""
        if self._known is None or self._known[0] != self.counts.n_episodes:
            found = reward_free(self.counts, self.structure, self.delta)
            self._known = (self.counts.n_episodes, found)
        certificate: RewardFreeError = self._known[1]
        return certificate

    @property
    def bound(self) -> float:
        return self.certificate.error

    @property
    def certified_error(self) -> float | None:
        return self.bound if self.counts.n_episodes else None

    def _next_policy(self) -> Policy:
        return self.certificate.worst_policy


@dataclass(eq=False)
class CertifiedIdentification(_Certified):
    """Best policy: plays the policy that may be best."""

    range: Range

    @property
    def certificate(self) -> BestPolicyGap:
        """What the data prove now."""
        if self._known is None or self._known[0] != self.counts.n_episodes:
            found = best_policy(self.counts, self.structure, self.delta, self.range)
            self._known = (self.counts.n_episodes, found)
        certificate: BestPolicyGap = self._known[1]
        return certificate

    @property
    def bound(self) -> float:
        return self.certificate.gap

    def _next_policy(self) -> Policy:
        return self.certificate.optimistic_policy

    def conclusion(self) -> Conclusion | None:
        """The candidate with its bounds; None before the first episode."""
        if not self.counts.n_episodes:
            return None
        lower, policy = self.certificate.candidate
        return Conclusion(policy, lower, self.certificate.upper)

    @property
    def policy(self) -> Policy:
        return self.certificate.candidate[1]
