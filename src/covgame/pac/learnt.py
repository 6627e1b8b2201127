"""What was learnt of a world: a model to plan on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import BoolArray, FloatArray, FloatHSA, IntArray, Policy, Shape


@dataclass(frozen=True, eq=False)
class LearntModel:
    """The empirical model: transitions, mean rewards, and how often each cell was seen.

    A cell that was never visited leads nowhere: whoever plans for a reward gets that of the cell
    itself there, and nothing after it.
    """

    transitions: Transitions
    rewards: FloatHSA
    visits: IntArray  # (H, S, A)
    allowed: BoolArray | None = None  # (S, A), where some actions are forbidden

    @classmethod
    def of(cls, counts: Counts) -> LearntModel:
        return cls(counts.kernel(), counts.mean_rewards(), counts.visits)

    @property
    def shape(self) -> Shape:
        """Stages, states and actions."""
        return self.transitions.shape

    def plan(self, reward: FloatArray) -> Policy:
        """An optimal policy on the model; ``reward`` is (H, S, A), (S, A) or (S,)."""
        wanted = self._spread(reward)
        if self.allowed is not None:
            wanted = np.where(self.allowed, wanted, -np.inf)
        return dp.backward_induction(self.transitions, wanted).policy

    def value(self, policy: Policy, reward: FloatArray) -> float:
        """What a policy earns on the model, from its first states on."""
        values = dp.evaluate(self.transitions, policy, self._spread(reward))
        return dp.initial_value(self.transitions, values)

    def _spread(self, reward: FloatArray) -> FloatHSA:
        reward = np.asarray(reward, dtype=np.float64)
        if reward.shape == (self.shape.states,):
            reward = reward[:, None]
        try:
            spread: FloatHSA = np.broadcast_to(reward, self.shape.hsa)
        except ValueError:
            raise BadInput(
                f"a reward is an array of shape {self.shape.hsa}, (states, actions) or (states,), "
                f"not {reward.shape}"
            ) from None
        if not (np.isfinite(spread).all() and (spread >= 0).all() and (spread <= 1).all()):
            raise BadInput("rewards lie between 0 and 1")
        return spread
