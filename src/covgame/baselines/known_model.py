"""Players who know the model: what nobody who has to learn it can be expected to beat.

``FlowPolicy`` plays the policy that attains phi* and does not look at what it collects.
``adaptive`` looks before every episode: the paper's known-model variant of the game.
"""

from __future__ import annotations

from dataclasses import dataclass

from covgame.baselines.peer import Rollout
from covgame.flow.min_flow import min_flow
from covgame.game.adversary import TargetAware
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import KnownModelPlanner
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import Policy


@dataclass(frozen=True, eq=False)
class FlowPolicy:
    """The optimal mixture, blindly."""

    policy: Policy

    @classmethod
    def of(cls, transitions: Transitions, target: Target) -> FlowPolicy:
        """The policy of phi*."""
        return cls(min_flow(transitions, target).policy)

    def ask(self, counts: Counts) -> Rollout:
        del counts
        return Rollout(self.policy)


def adaptive(transitions: Transitions, target: Target) -> Game:
    """Our adversary, and the best policy for its weights on the true kernel."""
    counts = Counts(target.shape, pooled=False)  # it has nothing to learn from them
    return Game(target, KnownModelPlanner(transitions), TargetAware(), counts)
