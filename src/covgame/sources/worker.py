"""The worker process: makes its environment, then plays steps and jobs of episodes on request."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, cast

import numpy as np

from covgame.episodes import Episode
from covgame.errors import CovgameError, EnvironmentFailed, EpisodeFailed, PremiseBroken
from covgame.failures import Failure, Failures, OnFailure
from covgame.imports import said
from covgame.signals import OneProcess, end_with
from covgame.sources.environments import Environment, make
from covgame.sources.messages import (
    Job,
    Numbering,
    Outcome,
    Report,
    Stop,
    WorkerPlayer,
)
from covgame.sources.source import EpisodeObserver, Source
from covgame.sources.stepped import FailurePolicy, SteppedSource
from covgame.types import Policy


@dataclass(frozen=True)
class Recipe:
    """How a worker gets its environment: by name, or as a forked copy of one that is here."""

    horizon: int
    name: str | None = None
    states: str | None = None
    actions: str | None = None
    copied: Environment | None = None
    keep_observations: bool = False
    on_failure: OnFailure = "stop"
    step_timeout: float | None = None
    isolate: bool = False
    path: Sequence[str] = field(default_factory=lambda: tuple(sys.path))

    @classmethod
    def of(cls, environment: Environment, **how: Any) -> Recipe:
        """For an environment that is known here."""
        if not environment.by_name:
            return cls(environment.horizon, copied=environment, **how)
        texts: dict[str, Any] = environment.spec.texts()
        return cls(environment.horizon, environment.name, **texts, **how)

    def open(self) -> SteppedSource:
        """Make the environment."""
        sys.path += [place for place in self.path if place not in sys.path]
        environment = self.copied
        if environment is None:
            environment = make(self.name, self.horizon, states=self.states, actions=self.actions)
        # The main process decides what follows from a failure that counts as an episode.
        on_failure: OnFailure = "stop" if self.on_failure == "stop" else "record"
        policy = FailurePolicy(on_failure, self.step_timeout, self.isolate)
        source = environment.open(
            0, keep_observations=self.keep_observations, failure_policy=policy
        )
        return cast("SteppedSource", source)  # simulated ones have no workers


def main(descriptor: int) -> None:
    """Serve in a fresh interpreter; the other end of the pipe first sends how."""
    with Connection(descriptor) as channel:
        parent, recipe = channel.recv()
        sys.path[:] = recipe.path
        serve(channel, recipe, parent)


def serve(channel: Connection, recipe: Recipe, parent: int, *, forked: bool = False) -> None:
    """Answer requests until the other end of the pipe is closed."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)  # the main process ends this one
    if forked:
        # Output of the environment is messages, and there is no input.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        # It may need a process of its own for its environment.
        multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    end_with(parent)
    with contextlib.suppress(EOFError, OSError):
        try:
            with OneProcess():
                worker = Worker(recipe.open())
        except BaseException as error:
            channel.send(_raised(error))
            return
        channel.send(("made", len(worker.source.actions)))
        while True:
            channel.send(worker.answer(*channel.recv()))


def _raised(error: BaseException) -> tuple[str, str, str]:
    """An error as an answer."""
    words = str(error) if isinstance(error, CovgameError) else said(error)
    return "raised", words, "".join(traceback.format_exception(error))


class Worker:
    """An environment, and a copy of the game where workers plan."""

    def __init__(self, source: SteppedSource) -> None:
        self.source = source.for_worker()
        self.numbering = Numbering(self.source.states)
        self.player: WorkerPlayer | None = None
        self.map = getattr(source.states, "map", None)
        self.world = getattr(source.states, "world", None)

    def answer(self, kind: str, argument: Any) -> tuple[Any, ...]:
        """The answer to a request."""
        try:
            with OneProcess():
                if kind == "play":
                    return "report", self.play(argument)
                if kind == "reset":
                    observation, mask = self.source.stepper.reset(argument)
                    return ("shown", *self._mapped(observation), mask)
                shown = self.source.stepper.step(argument)
                seen = self._mapped(shown.observation)
                ends = bool(shown.terminated), bool(shown.truncated)
                return ("shown", *seen, shown.reward, *ends, shown.mask)
        except BaseException as error:
            return _raised(error)

    def _mapped(self, observation: Any) -> tuple[Any, Any]:
        """(Observation, what the state map makes of it): the map may read the environment.

        Of an observation that is mapped and not kept only True is sent.
        """
        if observation is None or self.map is None:
            return observation, None
        mapped = self.map(observation, self.world)
        return (observation if self.source.keeps_observations else True), mapped

    def play(self, job: Job) -> Report:
        """The episodes of a job, fewer if the environment fails too often."""
        began = time.perf_counter()
        self._catch_up(job)
        outcomes = self._outcomes(job)
        return Report(
            job.number,
            outcomes,
            self.numbering.announce(),
            self.source.masks.take_changes(),
            time.perf_counter() - began,
        )

    def _catch_up(self, job: Job) -> None:
        """Take in what the main process knows by now."""
        if job.game is not None and self.source.discovers_states:
            self.source = self.source.for_worker()  # numbers states as the main process does
            self.numbering = Numbering(self.source.states)
        self.numbering.take(job.new_states)
        rows, masks = self.source.shape.states, self.source.masks
        for state, mask in job.masks:
            masks.show(int(self.numbering.of(state)), mask, rows)
        masks.take_changes()
        if job.game is not None:
            new_player = pickle.loads(job.game.pickled)  # noqa: S301 (from our own process)
            self.numbering.agree()
            self.player = new_player(self.source, job.game.preference_seed)
        for state, actions in job.avoided.items():
            mine = int(self.numbering.of(state))
            for action in set(actions) - masks.avoided.get(mine, set()):
                masks.avoid(mine, action, rows)
        if self.player is not None:
            for episode in job.told:
                self.player.count(self.numbering.of_episode(episode))

    def _outcomes(self, job: Job) -> list[Outcome]:
        observer = JobObserver()
        failures = Failures(attempts=dict.fromkeys(job.tickets, job.attempt))
        source = self.source.seeded(job.seed, failures)
        try:
            for ticket in job.tickets:
                if ticket != job.tickets.start and self.player and not self.player.has_room:
                    break
                observer.outcomes.append(self._episode(job, ticket, source, observer))
        except PremiseBroken as error:
            observer.outcomes.append(Stop(str(error.__cause__ or error), premise=True))
        except EnvironmentFailed as error:
            observer.outcomes.append(Stop(str(error)))
        return observer.outcomes

    def _episode(self, job: Job, ticket: int, source: Source, observer: JobObserver) -> Episode:
        """One episode, with new attempts as long as they make sense."""
        while True:
            try:
                if job.policy is not None:
                    policy = self._translated(job.policy)
                    return source.play(policy, ticket, observer=observer)
                if job.at_random:
                    policy = Policy.uniform(source.shape)
                    episode = source.play(policy, ticket, observer=observer)
                elif self.player is None:
                    raise EnvironmentFailed("a worker was asked to plan before it got a game")
                else:
                    episode = self.player.play_episode(source, ticket, observer)
            except EpisodeFailed:
                if self.player is not None:
                    self.player.abandon()
                continue
            if self.player is not None:
                self.player.count(episode)
            return episode

    def _translated(self, policy: Policy) -> Policy:
        """A policy of the main process, by the numbers that states have here."""
        mine = self.numbering.mine
        if self.numbering.states is None or np.array_equal(mine, np.arange(len(mine))):
            return policy
        width = max(policy.table.shape[1], int(mine.max(initial=0)) + 1)
        table = np.zeros((len(policy.table), width, *policy.table.shape[2:]), policy.table.dtype)
        table[:, mine] = policy.table[:, : len(mine)]
        return replace(policy, table=table)


class JobObserver(EpisodeObserver):
    """Collects the outcomes of a job in order; episodes when they are counted."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def on_failure(self, failure: Failure) -> None:
        self.outcomes.append(failure)
