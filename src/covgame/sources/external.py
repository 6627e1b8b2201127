"""Environments that are played step by step: Gymnasium's, and plain objects.

Whatever goes wrong inside an environment becomes one ``EnvironmentFailed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from covgame.episodes import Episode
from covgame.errors import EnvironmentFailed
from covgame.game.game import Revise
from covgame.imports import said
from covgame.names import Names
from covgame.rng import episode_seed, uniforms
from covgame.sources.masks import Masks
from covgame.sources.observations import Keeper, handed_over, keeper_of, stored_space
from covgame.sources.states import DiscoveredStates, States
from covgame.sources.steppers import Stepper
from covgame.types import END, BoolArray, FloatArray, Policy, Shape

STREAM = 1
FIRST_ROOM = 64


@dataclass(frozen=True)
class Pay:
    """What an environment may pay, where somebody relies on it."""

    rewards: tuple[float, float] | None = None  # of a step
    most: float | None = None  # of an episode in all


class ExternalSource:
    """Plays episodes of an environment; its randomness is seeded by (seed, episode)."""

    stationary = True

    def __init__(
        self,
        stepper: Stepper,
        states: States,
        horizon: int,
        seed: int,
        *,
        allowed: BoolArray | None = None,  # (S, A), where that is known beforehand
        pay: Pay | None = None,
        most_states: int | None = None,  # an upper bound, where somebody relies on it
        keeps_observations: bool = False,  # also as they are, beside the numbers of states
    ) -> None:
        self.stepper, self.states = stepper, states
        self.horizon, self.seed = horizon, seed
        self.masks = Masks(len(stepper.actions), allowed)
        self.pay, self.most_states = pay or Pay(), most_states
        self.observation_space = stored_space(stepper.spaces[0]) if keeps_observations else None
        self.keep: Keeper | None = keeper_of(self.observation_space) if keeps_observations else None

    @property
    def keeps_observations(self) -> bool:
        """Whether its episodes have their observations as they were shown."""
        return self.keep is not None

    def spaces(self) -> dict[str, Any]:
        """What a record of observations needs beside it, as JSON."""
        values = handed_over(self.stepper.actions)
        return {
            "observation_space": self.observation_space,
            "action_space": stored_space(self.stepper.spaces[1]),
            **({} if values is None else {"action_values": values}),
        }

    @property
    def allowed(self) -> BoolArray | None:
        """(S, A), what was allowed at some visit; None if nothing is ever forbidden."""
        return self.masks.ever

    def seeded(self, seed: int) -> ExternalSource:
        """The same environment with other episodes."""
        again = copy(self)
        again.seed = seed
        return again

    @property
    def repeats(self) -> bool:
        """Environments of others may be slow, or not keep to their seed."""
        return False

    @property
    def state_keys(self) -> list[str] | None:
        """The observations by number, if states are discovered."""
        return self.states.keys if isinstance(self.states, DiscoveredStates) else None

    @property
    def state_labels(self) -> list[str] | None:
        """What they are called."""
        return self.states.labels if isinstance(self.states, DiscoveredStates) else None

    @property
    def names(self) -> Names:
        """States and actions in the user's words."""
        return Names(self.state_labels, self.stepper.actions.labels)

    @property
    def discovers_states(self) -> bool:
        """Whether states get their numbers as they appear."""
        return self.states.discovered

    @property
    def shape(self) -> Shape:
        """With room for states that are still to be discovered."""
        room = self.states.size
        if self.states.discovered and self.most_states is not None:
            room = self.most_states
        elif self.states.discovered:
            room = FIRST_ROOM
            while room < self.states.size:
                room *= 2
        return Shape(self.horizon, room, len(self.stepper.actions))

    def shows_masks(self) -> bool:
        """Whether it says at the beginning of an episode which actions are allowed."""
        try:
            _, mask = self.stepper.reset(episode_seed(self.seed, STREAM, 0))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise EnvironmentFailed(
                f"the environment failed to begin with {said(error)}"
            ) from error
        return mask is not None

    def play(self, policy: Policy, episode: int, revise: Revise | None = None) -> Episode:
        """One episode of at most H steps."""
        try:
            return self._play(policy, episode, revise)
        except EnvironmentFailed as error:
            raise EnvironmentFailed(
                f"the environment failed in episode {episode}: {error}"
            ) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also sys.exit: an environment does not end a run
            raise EnvironmentFailed(
                f"the environment failed in episode {episode} with {said(error)}"
            ) from error

    def _play(self, policy: Policy, episode: int, revise: Revise | None) -> Episode:
        drawn, step, paid = policy.is_stochastic, self.stepper.step, self.pay.rewards
        numbers = uniforms(self.seed, STREAM, episode, self.horizon).tolist() if drawn else []
        seed = episode_seed(self.seed, STREAM, episode)
        observation, mask = self.stepper.reset(seed)
        keep, kept = self.keep, []  # kept at once: the next step may write over it
        if keep is not None:
            kept.append(keep(observation))
        self.masks.now = None
        state, last = self._state(observation, mask), self.horizon - 1
        known, pairs = policy.table.shape[1], policy.table.shape[1] * policy.actions
        steps: list[tuple[int, int, float, int]] = []
        ended_in: int | None = None
        cut_short = False
        for h in range(self.horizon):
            action = self._action(policy, h, state, numbers[h] if drawn else 0.0)
            observation, earned, terminated, truncated, mask = step(action)
            reward = _checked_reward(earned, paid)
            if keep is not None:
                shown = observation is not None or not terminated
                kept.append(keep(observation) if shown else None)
            if terminated:
                ended_in, following = self._last_state(observation), END
            else:
                following = self._state(observation, mask)
            if truncated and not terminated and h < last:
                # Nobody gets further from here, whatever the state: for a learner it is over.
                ended_in, following, cut_short = following, END, True
            steps.append((state, action, reward, following))
            if terminated or truncated or h == last:
                break
            if revise is not None and state < known and following < known:
                policy = revise(h * pairs + state * policy.actions + action, following) or policy
            elif state >= known:
                revise = None  # the rest of this episode is off the map
            state = following
        self._check_return(steps)
        observations = None if keep is None else kept
        return Episode.of_steps(
            steps, ended_in, cut_short=cut_short, seed=seed, observations=observations
        )

    def _check_return(self, steps: list[tuple[int, int, float, int]]) -> None:
        most = self.pay.most
        if most is None:
            return
        paid = sum(reward for _, _, reward, _ in steps)
        if paid > most + 1e-9:
            raise EnvironmentFailed(
                f"an episode paid {paid:g}, more than the {most:g} of --return-range"
            )

    def _state(self, observation: Any, mask: Any) -> int:
        state = self.states.index(observation)
        if self.most_states is not None and state >= self.most_states:
            raise EnvironmentFailed(
                f"it showed more states than the {self.most_states:,} of --most-states"
            )
        if mask is not None:
            self.masks.show(state, mask, self.shape.states)
        return state

    def _last_state(self, observation: Any) -> int | None:
        """Where an episode terminated; None if nothing is shown there."""
        return None if observation is None else self._state(observation, None)

    def _action(self, policy: Policy, h: int, state: int, number: float) -> int:
        """The policy's action, as far as it has one and that is allowed."""
        action, table = None, policy.table
        if state < table.shape[1]:
            if table.ndim == 3:
                action = _drawn(table[h, state], self.masks.here(state), number)
            else:
                action = int(table[h, state])
            if self.masks.ever is None:
                return action
        return self.masks.permitted(action, state)


def _drawn(chances: FloatArray, allowed: BoolArray | None, number: float) -> int:
    """An action by its chances, among those that are allowed."""
    if allowed is not None and not allowed.all():
        chances = np.where(allowed, chances, 0.0)
        number *= float(chances.sum())
    reached = np.cumsum(chances)
    return min(int(np.searchsorted(reached, number, side="right")), len(reached) - 1)


def _checked_reward(reward: Any, allowed: tuple[float, float] | None) -> float:
    if type(reward) is float and allowed is None and math.isfinite(reward):
        return reward
    try:
        value = float(reward)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise EnvironmentFailed(f"it paid the reward {reward!r}, which is no finite number")
    if allowed is not None and not allowed[0] <= value <= allowed[1]:
        low, high = allowed
        raise EnvironmentFailed(
            f"it paid the reward {value:g}, outside [{low:g}, {high:g}]; say --reward-range LO,HI"
        )
    return value


Opener = Callable[[], tuple[Stepper, States]]
"""Opens an environment: how to step it, and how its observations are numbered."""
