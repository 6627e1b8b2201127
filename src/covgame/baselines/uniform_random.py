"""Uniform random: every action with the same probability, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass

from covgame.baselines.peer import Rollout
from covgame.game.counts import Counts
from covgame.types import Policy


@dataclass(frozen=True)
class UniformRandom:
    """What most people do first."""

    def ask(self, counts: Counts) -> Rollout:
        return Rollout(Policy.uniform(counts.shape))
