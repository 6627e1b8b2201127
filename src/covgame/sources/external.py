"""Environments that are played step by step: Gymnasium's, and plain objects.

Whatever goes wrong inside an environment becomes one ``EnvironmentFailed``.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covgame.episodes import Episode
from covgame.errors import EnvironmentFailed, EpisodeFailed, PremiseBroken
from covgame.failures import ATTEMPTS, Failure, Failures, OnFailure
from covgame.game.game import Revise
from covgame.imports import said
from covgame.names import Names
from covgame.plain import sentence
from covgame.rng import episode_seed, uniforms
from covgame.signals import OneProcess
from covgame.sources.isolated import IsolatedStepper
from covgame.sources.masks import Masks
from covgame.sources.observations import Keeper, handed_over, keeper_of, stored_space
from covgame.sources.states import DiscoveredStates, States
from covgame.sources.steppers import ProcessDied, Stepper
from covgame.types import END, BoolArray, FloatArray, Policy, Shape

STREAM = 1
ANOTHER_TRY = 4
"""The stream of random numbers that gives every attempt at an episode its own seed."""

FIRST_ROOM = 64
LONGEST_TRACEBACK = 10_000


@dataclass(frozen=True)
class Pay:
    """What an environment may pay, where somebody relies on it."""

    rewards: tuple[float, float] | None = None  # of a step
    most: float | None = None  # of an episode in all


@dataclass
class _Unfinished:
    """What there is of an episode while it is played."""

    path: list[tuple[int, int]] = field(default_factory=list)  # the step being taken included
    steps: list[tuple[int, int, float, int]] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)


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
        self.on_failure: OnFailure = "stop"
        self.failures = Failures()
        self.set_aside: Callable[[Failure], None] = self.failures.add
        self.visits_of: Callable[[int, int], int] = lambda state, action: 0
        self.number_of: Callable[[int], int] = int  # in the run, of an episode of a task
        self.process = OneProcess()

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
        return None if self.masks.ever is None else self.masks.room_for(self.shape.states)

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
            while room <= self.states.size + self.horizon:  # an episode may show that many more
                room *= 2
        return Shape(self.horizon, room, len(self.stepper.actions))

    def shows_masks(self) -> bool:
        """Whether it says at the beginning of an episode which actions are allowed."""
        try:
            with self.process:
                _, mask = self.stepper.reset(episode_seed(self.seed, STREAM, 0))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise EnvironmentFailed(
                f"the environment failed to begin with {said(error)}"
            ) from error
        return mask is not None

    def play(self, policy: Policy, episode: int, revise: Revise | None = None) -> Episode:
        """One episode of at most H steps.

        Raises ``EpisodeFailed`` if it failed and is worth another try, which gets another seed.
        """
        number = self.number_of(episode)
        attempt = self.failures.attempt(number)
        own = seed_of_attempt(self.seed, attempt)
        seed, taken = episode_seed(own, STREAM, episode), _Unfinished()
        numbers = []
        if policy.is_stochastic:
            numbers = uniforms(own, STREAM, episode, self.horizon).tolist()
        try:
            with self.process:
                return self._play(policy, seed, numbers, revise, taken)
        except KeyboardInterrupt:
            raise
        except PremiseBroken as error:
            raise PremiseBroken(f"the environment failed in episode {number}: {error}") from error
        except BaseException as error:  # also sys.exit: an environment does not end a run
            return self._failed(error, Failure(number, attempt, seed, "", tuple(taken.path)), taken)

    def _failed(self, error: BaseException, failure: Failure, taken: _Unfinished) -> Episode:
        """Note a failure; the episode ends there, is to be tried again, or was the last."""
        words = sentence(str(error) if isinstance(error, EnvironmentFailed) else said(error))
        died = isinstance(error, ProcessDied)
        traced = "" if died else getattr(error, "traceback", None) or _traceback_of(error)
        failure = replace(failure, error=words, died=died, traceback=traced[-LONGEST_TRACEBACK:])
        if failure.path and self.on_failure != "stop":
            self.take_for_an_end(failure)
            return self._ended_there(failure, taken)
        self.set_aside(failure)
        if not self.failures.is_given_up(failure.episode):
            raise EpisodeFailed(self.in_words(failure)) from error
        raise EnvironmentFailed(self.in_words(failure, last=True)) from error

    def take_for_an_end(self, failure: Failure) -> None:
        """Note a failure with which an episode ends that counts; perhaps it is avoided now."""
        avoided = self.on_failure == "avoid" and self._fails_mostly(failure) and self.avoid(failure)
        self.set_aside(replace(failure, then="avoided" if avoided else "recorded"))

    def in_words(self, failure: Failure, *, last: bool = False) -> str:
        """A failure as a sentence; ``last`` if it is not tried again."""
        where = f"episode {failure.episode}, at {failure.words(self.names)}"
        attempts = f" (attempt {ATTEMPTS} of {ATTEMPTS})" if last else ""
        return f"the environment failed in {where}: {failure.error}{attempts}"

    def take_care(self, on_failure: OnFailure, failures: Failures) -> None:
        """Say what to do when it fails, and what is known of earlier failures."""
        self.on_failure, self.failures = on_failure, failures
        self.set_aside = failures.add

    def close(self) -> None:
        """Let go of what it holds, such as a process; it may be played again."""
        if isinstance(self.stepper, IsolatedStepper):
            self.stepper.close()

    def avoid(self, failure: Failure) -> bool:
        """Do not go there again; False if a state would be left without any action."""
        if failure.state is None or failure.action is None:
            return False
        return self.masks.avoid(failure.state, failure.action, self.shape.states)

    def _fails_mostly(self, failure: Failure) -> bool:
        """Whether an action has failed in a state more often than not; some only fail at times."""
        pair, failed, kept = failure.path[-1], 1, 0
        for one in self.failures:
            if one.path and one.path[-1] == pair:
                failed, kept = failed + 1, kept + (one.then != "set aside")
        went_well = self.visits_of(*pair) - kept + failure.path[:-1].count(pair)
        return failed > went_well

    def _ended_there(self, failure: Failure, taken: _Unfinished) -> Episode:
        """A failure as the end of an episode, which shows no state.

        It pays nothing, or as little as the range of rewards allows.
        """
        steps = taken.steps[: len(taken.path) - 1]
        low, high = self.pay.rewards or (0.0, 0.0)
        reward = min(max(0.0, low), high)
        kept = None
        if self.keep is not None:
            kept = [*taken.kept[: len(taken.path)], None]
        return Episode.of_steps(
            [*steps, (*taken.path[-1], reward, END)], seed=failure.seed, observations=kept
        )

    def _play(
        self,
        policy: Policy,
        seed: int,
        numbers: list[float],
        revise: Revise | None,
        taken: _Unfinished,
    ) -> Episode:
        drawn, step, paid = policy.is_stochastic, self.stepper.step, self.pay.rewards
        observation, mask = self.stepper.reset(seed)
        path, steps = taken.path, taken.steps
        keep, kept = self.keep, taken.kept  # kept at once: the next step may write over it
        if keep is not None:
            kept.append(keep(observation))
        self.masks.now = None
        state, last = self._state(observation, mask), self.horizon - 1
        known, pairs = policy.table.shape[1], policy.table.shape[1] * policy.actions
        ended_in: int | None = None
        cut_short = False
        policy = policy.begin(state)
        for h in range(self.horizon):
            action = self._action(policy, h, state, numbers[h] if drawn else 0.0)
            path.append((state, action))
            self.process.check()  # a forked child must not write to the files of the run
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
            raise PremiseBroken(
                f"an episode paid {paid:g}, more than the {most:g} of --return-range"
            )

    def _state(self, observation: Any, mask: Any) -> int:
        state = self.states.index(observation)
        if self.most_states is not None and state >= self.most_states:
            raise PremiseBroken(
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
            chosen = table[policy.row(h), state]
            if table.ndim == 3:
                action = _drawn(chosen, self.masks.here(state), number)
            else:
                action = int(chosen)
            if self.masks.ever is None:
                return action
        return self.masks.permitted(action, state)


def seed_of_attempt(seed: int, attempt: int) -> int:
    """What stands for the seed of a run when an episode is tried again."""
    return seed if not attempt else episode_seed(seed, ANOTHER_TRY, attempt)


def _drawn(chances: FloatArray, allowed: BoolArray | None, number: float) -> int:
    """An action by its chances, among those that are allowed."""
    if allowed is not None and not allowed.all():
        chances = np.where(allowed, chances, 0.0)
        number *= float(chances.sum())
    reached = np.cumsum(chances)
    return min(int(np.searchsorted(reached, number, side="right")), len(reached) - 1)


def _traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


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
        raise PremiseBroken(
            f"it paid the reward {value:g}, outside [{low:g}, {high:g}]; say --reward-range LO,HI"
        )
    return value


Opener = Callable[[], tuple[Stepper, States]]
"""Opens an environment: how to step it, and how its observations are numbered."""
