"""What was learnt of a world: a model to plan on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.names import Names
from covgame.notebook import facts_table
from covgame.types import BoolArray, FloatArray, FloatHSA, IntArray, Policy, Shape


@dataclass(frozen=True, eq=False, repr=False)
class LearntModel:
    """The empirical model: transitions, mean rewards, and how often each cell was seen.

    A cell that was never visited leads nowhere: whoever plans for a reward gets that of the cell
    itself there, and nothing after it.
    """

    transitions: Transitions
    rewards: FloatHSA  # (H, S, A), or (1, S, A) for all stages
    visits: IntArray  # the same
    allowed: BoolArray | None = None  # (S, A), where some actions are forbidden
    names: Names = field(default_factory=Names)

    @classmethod
    def of(cls, counts: Counts) -> LearntModel:
        return cls(counts.kernel(), counts.mean_rewards(), counts.visits)

    @property
    def shape(self) -> Shape:
        """Stages, states and actions."""
        return self.transitions.shape

    @cached_property
    def own_rewards(self) -> FloatHSA:
        """The environment's own reward as it was seen: means, (H, S, A) or (1, S, A).

        Where stages are learnt together, a cell that was never visited earns what its state and
        action have earned at other stages.
        """
        if not self.transitions.stationary:
            return self.rewards
        seen = self.visits.sum(axis=0)
        everywhere = (self.rewards * self.visits).sum(axis=0) / np.maximum(seen, 1)
        return np.where(self.visits > 0, self.rewards, everywhere)

    def plan(self, reward: FloatArray | None = None) -> Policy:
        """An optimal policy on the model.

        Args:
            reward: (H, S, A), (S, A) or (S,), in [0, 1]. Left out, the environment's own as it was
                seen, whatever its range; then actions that were never tried are left alone where
                others were, because nothing is known of what they earn.

        Returns:
            An action for every stage and state.
        """
        wanted = self.own_rewards if reward is None else self._spread(reward)
        usable = self._usable(tried_only=reward is None)
        if usable is not None:
            wanted = np.where(usable, wanted, -np.inf)
        everywhere = np.broadcast_to(wanted, self.shape.hsa)
        return dp.backward_induction(self.transitions, everywhere).policy

    def value(self, policy: Policy, reward: FloatArray | None = None) -> float:
        """What a policy earns on the model, from its first states on."""
        wanted = self.own_rewards if reward is None else self._spread(reward)
        everywhere = np.broadcast_to(wanted, self.shape.hsa)
        values = dp.evaluate(self.transitions, policy, everywhere)
        return dp.initial_value(self.transitions, values)

    def first(self, states: int) -> LearntModel:
        """The same without the room for further states, of which nothing was seen."""
        H, S, A = self.shape.hsa
        if states >= S:
            return self
        kernel = self.transitions
        row = np.repeat(np.arange(len(kernel.start) - 1), np.diff(kernel.start))
        stage, pair = np.divmod(row, S * A)
        transitions = Transitions.from_entries(
            Shape(H, states, A),
            kernel.initial[:states],
            stage * (states * A) + pair,
            kernel.next_state,
            kernel.probability,
            stationary=kernel.stationary,
        )
        allowed = None if self.allowed is None else self.allowed[:states]
        rewards, visits = self.rewards[:, :states], self.visits[:, :states]
        return LearntModel(transitions, rewards, visits, allowed, self.names)

    def facts(self) -> list[tuple[str, str]]:
        """What there is to say, as (label, value) lines for people."""
        H, S, A = self.shape.hsa
        kind = "the same at every stage" if self.transitions.stationary else "stage by stage"
        seen, visits = int((self.visits > 0).sum()), int(self.visits.sum())
        return [
            ("learnt model", f"{H} stages, {S:,} states, {A} actions, {kind}"),
            ("seen", f"{seen:,} of {self.shape.cells:,} cells, {visits:,} steps"),
            ("transitions", f"{len(self.transitions.next_state):,} different ones"),
        ]

    def __repr__(self) -> str:
        H, S, A = self.shape.hsa
        return f"LearntModel(horizon={H}, states={S}, actions={A}, {self.visits.sum():,} steps)"

    def _repr_html_(self) -> str:
        return facts_table(self.facts())

    def _usable(self, *, tried_only: bool) -> BoolArray | None:
        """Which actions to choose from, (S, A) or (H, S, A); None for all."""
        if not tried_only:
            return self.allowed
        seen = self.visits.sum(axis=0) if self.transitions.stationary else self.visits
        tried: BoolArray = seen > 0
        if self.allowed is not None:
            tried = tried & self.allowed
        others = np.ones_like(tried) if self.allowed is None else self.allowed
        return np.where(tried.any(axis=-1, keepdims=True), tried, others)

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
