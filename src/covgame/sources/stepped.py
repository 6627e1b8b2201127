"""Sources that step an environment: Gymnasium's, and plain objects.

Every error inside an environment becomes an ``EnvironmentFailed``.
"""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covgame.episodes import Episode
from covgame.errors import EnvironmentFailed, EpisodeFailed, PremiseBroken
from covgame.failures import Failure, Failures, OnFailure
from covgame.game.game import Revise
from covgame.imports import said
from covgame.names import Names
from covgame.plain import sentence
from covgame.rng import episode_seed, uniforms
from covgame.signals import OneProcess
from covgame.sources.masks import Masks
from covgame.sources.messages import Team
from covgame.sources.observations import handed_over, keeper_of, stored_space
from covgame.sources.source import UNOBSERVED, EpisodeObserver, Source
from covgame.sources.states import States
from covgame.sources.steppers import Actions, ProcessDied, Stepper
from covgame.types import END, BoolArray, FloatArray, Policy, Shape

STREAM = 1
ANOTHER_TRY = 4
"""The stream of random numbers that gives every attempt at an episode its own seed."""

FIRST_ROOM = 64
LONGEST_TRACEBACK = 10_000


HAS_WORKER_PROCESSES = os.name == "posix"
"""Whether an environment can be stepped in a process of its own here."""


@dataclass(frozen=True)
class RewardBounds:
    """What an environment may pay, where a certificate relies on it."""

    rewards: tuple[float, float] | None = None  # of a step
    most: float | None = None  # of an episode in all


@dataclass(frozen=True)
class FailurePolicy:
    """What to do when an environment fails, and what is known of earlier failures."""

    on_failure: OnFailure = "stop"
    step_timeout: float | None = None  # seconds; None: no limit
    isolate: bool = False  # step it in a worker process, also without a time limit
    failures: Failures = field(default_factory=Failures)

    @property
    def isolates(self) -> bool:
        """Whether to step it in a worker process: asked for, or it has ended a process before."""
        asked = self.isolate or self.step_timeout is not None
        return asked or (HAS_WORKER_PROCESSES and self.failures.any_death)


@dataclass
class _Unfinished:
    """The part of an episode that was played."""

    path: list[tuple[int, int]] = field(default_factory=list)  # the step being taken included
    steps: list[tuple[int, int, float, int]] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)


class SteppedSource(Source):
    """Plays episodes of an environment; its randomness is seeded by (seed, episode)."""

    model = None
    stationary = True

    def __init__(
        self,
        stepper: Stepper,
        states: States,
        horizon: int,
        seed: int,
        *,
        allowed: BoolArray | None = None,  # (S, A), where that is known beforehand
        bounds: RewardBounds | None = None,
        most_states: int | None = None,
        keeps_observations: bool = False,
        policy: FailurePolicy | None = None,
        new_team: Callable[[int], Team] | None = None,  # workers, for so many actions
    ) -> None:
        policy = policy or FailurePolicy()
        self.stepper, self.states = stepper, states
        self.horizon, self.seed = horizon, seed
        self.is_driven = stepper.is_driven
        self.masks = Masks(len(stepper.actions), allowed)
        self.bounds, self.most_states = bounds or RewardBounds(), most_states
        self.observation_space = stored_space(stepper.spaces[0]) if keeps_observations else None
        self.keep = keeper_of(self.observation_space) if keeps_observations else None
        self.on_failure, self.failures = policy.on_failure, policy.failures
        self.new_team = new_team
        self.team: Team | None = None
        self.process = OneProcess()

    def spaces(self) -> dict[str, Any]:
        values = handed_over(self.actions)
        return {
            "observation_space": self.observation_space,
            "action_space": stored_space(self.stepper.spaces[1]),
            **({} if values is None else {"action_values": values}),
        }

    def seeded(self, seed: int, failures: Failures | None = None) -> SteppedSource:
        again = copy(self)
        again.seed = seed
        again.failures = self.failures if failures is None else failures
        return again

    def for_worker(self) -> SteppedSource:
        """The same environment with nothing discovered yet; its masks note what they show."""
        again = copy(self)
        again.states = self.states.again((), ())
        known = None if self.discovers_states else self.masks.ever
        again.masks = Masks(len(self.actions), known, notes_changes=True)
        return again

    @property
    def actions(self) -> Actions:
        return self.stepper.actions

    @property
    def names(self) -> Names:
        return Names(self.state_labels, self.actions.labels)

    @property
    def shape(self) -> Shape:
        room = self.states.size
        if self.states.discovered and self.most_states is not None:
            room = self.most_states
        elif self.states.discovered:
            room = FIRST_ROOM
            while room <= self.states.size + self.horizon:  # an episode may show that many more
                room *= 2
        return Shape(self.horizon, room, len(self.actions))

    def shows_masks(self) -> bool:
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

    def play(
        self,
        policy: Policy,
        episode: int,
        revise: Revise | None = None,
        observer: EpisodeObserver = UNOBSERVED,
    ) -> Episode:
        number = observer.number_of(episode)
        attempt = self.failures.attempt(number)
        own = seed_of_attempt(self.seed, attempt)
        seed, taken = episode_seed(own, STREAM, episode), _Unfinished()
        numbers = []
        if policy.is_stochastic:
            numbers = uniforms(own, STREAM, episode, self.horizon).tolist()
        try:
            with self.process:
                played = self._play(policy, seed, numbers, revise, taken)
        except KeyboardInterrupt:
            raise
        except PremiseBroken as error:
            raise PremiseBroken(f"the environment failed in episode {number}: {error}") from error
        except BaseException as error:  # also sys.exit: an environment does not end a run
            failure = Failure(number, attempt, seed, "", tuple(taken.path))
            played = self._failed(error, failure, taken, observer)
        observer.on_episode(number, played)
        return played

    def _failed(
        self, error: BaseException, failure: Failure, taken: _Unfinished, observer: EpisodeObserver
    ) -> Episode:
        """Record a failure; the episode ends there, is to be tried again, or was the last."""
        words = sentence(str(error) if isinstance(error, EnvironmentFailed) else said(error))
        died = isinstance(error, ProcessDied)
        traced = "" if died else getattr(error, "traceback", None) or _traceback_of(error)
        failure = replace(failure, error=words, died=died, traceback=traced[-LONGEST_TRACEBACK:])
        if failure.path and self.on_failure != "stop":
            self.end_by_failure(failure, observer)
            return self._ended_there(failure, taken)
        self.record_failure(failure, observer)
        if not self.failures.is_given_up(failure.episode):
            raise EpisodeFailed(failure.sentence(self.names)) from error
        raise EnvironmentFailed(failure.sentence(self.names, last=True)) from error

    def end_by_failure(self, failure: Failure, observer: EpisodeObserver) -> None:
        avoided = (
            self.on_failure == "avoid"
            and self._fails_mostly(failure, observer)
            and self.avoid(failure)
        )
        self.record_failure(replace(failure, then="avoided" if avoided else "recorded"), observer)

    def open_team(self) -> Team | None:
        if self.new_team is not None:
            self.team = self.new_team(len(self.actions))
        return self.team

    def close(self) -> None:
        self.stepper.close()
        if self.team is not None:
            self.team.close()
            self.team = None

    def _fails_mostly(self, failure: Failure, observer: EpisodeObserver) -> bool:
        """Whether an action has failed in a state more often than not; some only fail at times."""
        pair, failed, kept = failure.path[-1], 1, 0
        for one in self.failures:
            if one.path and one.path[-1] == pair:
                failed, kept = failed + 1, kept + (one.then != "set aside")
        went_well = observer.visits_of(*pair) - kept + failure.path[:-1].count(pair)
        return failed > went_well

    def _ended_there(self, failure: Failure, taken: _Unfinished) -> Episode:
        """A failure as the end of an episode, which shows no state.

        It pays nothing, or as little as the range of rewards allows.
        """
        steps = taken.steps[: len(taken.path) - 1]
        low, high = self.bounds.rewards or (0.0, 0.0)
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
        drawn, step, paid = policy.is_stochastic, self.stepper.step, self.bounds.rewards
        observation, mask = self.stepper.reset(seed)
        path, steps = taken.path, taken.steps
        keep, kept = self.keep, taken.kept  # kept at once: the next step may write over it
        if keep is not None:
            kept.append(keep(observation))
        self.masks.clear()
        state, last = self._state(observation, mask), self.horizon - 1
        known, pairs = policy.table.shape[1], policy.table.shape[1] * policy.actions
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
            if terminated:  # in a state, if one is shown
                following = END if observation is None else self._state(observation, None)
            else:
                following = self._state(observation, mask)
            steps.append((state, action, reward, following))
            if terminated or truncated or h == last:
                break
            if revise is not None and state < known and following < known:
                policy = revise(h * pairs + state * policy.actions + action, following) or policy
            elif state >= known:
                revise = None  # the rest of this episode is off the map
            state = following
        self._check_return(steps)
        return Episode.of_steps(
            steps,
            terminated=bool(terminated),
            cut_short=bool(truncated and not terminated and h < last),
            seed=seed,
            observations=None if keep is None else kept,
        )

    def _check_return(self, steps: list[tuple[int, int, float, int]]) -> None:
        most = self.bounds.most
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
