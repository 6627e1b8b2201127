"""Plays jobs where it stands: an environment, and a copy of the numbers of its states."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covgame.episodes import Episode
from covgame.errors import EnvironmentFailed, EpisodeFailed, PremiseBroken
from covgame.failures import Failure, Failures, OnFailure
from covgame.sources.environments import Care, Environment, make
from covgame.sources.external import ExternalSource
from covgame.sources.masks import Masks
from covgame.sources.states import DiscoveredStates
from covgame.types import BoolArray
from covgame.workers.jobs import Job, Outcome, Report, Stop


@dataclass(frozen=True)
class Recipe:
    """How a worker gets its environment: by name, or as a copy of one that is here."""

    horizon: int
    name: str | None = None
    states: str | None = None
    actions: str | None = None
    copied: Environment | None = None
    keep_observations: bool = False
    on_failure: OnFailure = "stop"
    seconds: float | None = None  # that a step may take
    path: Sequence[str] = field(default_factory=lambda: tuple(sys.path))

    @classmethod
    def of(cls, environment: Environment, **how: Any) -> Recipe:
        """For an environment that is known here."""
        if not environment.by_name:
            return cls(environment.horizon, copied=environment, **how)
        texts: dict[str, Any] = environment.reading.texts()
        return cls(environment.horizon, environment.name, **texts, **how)

    def open(self, *, apart: bool = False) -> ExternalSource:
        """The environment, in a process of its own if it hangs or was seen to end processes."""
        sys.path += [place for place in self.path if place not in sys.path]
        environment = self.copied
        if environment is None:
            environment = make(self.name, self.horizon, states=self.states, actions=self.actions)
        # What to do about a failure that counts as an episode is for who plans to decide.
        on_failure: OnFailure = "stop" if self.on_failure == "stop" else "record"
        care = Care(on_failure, self.seconds, apart=apart)
        source = environment.open(0, keep_observations=self.keep_observations, care=care)
        if not isinstance(source, ExternalSource):
            raise EnvironmentFailed(f"{environment.name} is simulated, and needs no workers")
        return source


class Desk:
    """Plays whatever job comes next."""

    def __init__(self, source: ExternalSource) -> None:
        self.source, self.masks = source, NotedMasks(source.masks.actions, source.masks.ever)
        source.masks = self.masks

    def play(self, job: Job) -> Report:
        """All episodes of a job, fewer if the environment fails too often."""
        began = time.perf_counter()
        known = self._catch_up(job)
        outcomes = self._outcomes(job)
        states = self.source.states
        found = isinstance(states, DiscoveredStates)
        return Report(
            job.number,
            outcomes,
            known,
            states.keys[known:] if found else (),  # type: ignore[attr-defined]
            states.labels[known:] if found else (),  # type: ignore[attr-defined]
            self.masks.take_notes(),
            time.perf_counter() - began,
        )

    def _catch_up(self, job: Job) -> int:
        """Learn the numbers of states as they are now; what was found here gets them from there."""
        states = self.source.states
        if isinstance(states, DiscoveredStates):
            states.forget_from(job.news.first)
            for key, label in zip(job.news.keys, job.news.labels, strict=True):
                states.number_of_key(key, label)
            self.masks.forget_from(job.news.first)
            states.settle()
        for state, actions in job.avoided.items():
            for action in set(actions) - self.masks.avoided.get(state, set()):
                self.masks.avoid(state, action, self.source.shape.states)
        return states.size

    def _outcomes(self, job: Job) -> list[Outcome]:
        source, outcomes = self.source, list[Outcome]()
        failures = Failures(attempts=dict.fromkeys(job.tickets, job.attempt))

        def set_aside(failure: Failure) -> None:
            outcomes.append(failure)
            failures.add(failure)

        source.seed = job.seed
        source.failures, source.set_aside = failures, set_aside
        try:
            for ticket in job.tickets:
                outcomes.append(self._episode(job, ticket))
        except PremiseBroken as error:
            outcomes.append(Stop(str(error.__cause__ or error), premise=True))
        except EnvironmentFailed as error:
            outcomes.append(Stop(str(error)))
        return outcomes

    def _episode(self, job: Job, ticket: int) -> Episode:
        """Tried again as long as that makes sense."""
        while True:
            try:
                return self.source.play(job.policy, ticket)
            except EpisodeFailed:
                continue


class NotedMasks(Masks):
    """Keeps a note of what states allow, for somebody who was not there."""

    def __init__(self, actions: int, known: BoolArray | None = None) -> None:
        super().__init__(actions, known)
        self.notes: list[tuple[int, BoolArray]] = []

    def show(self, state: int, mask: Any, rows: int) -> None:
        shown = np.asarray(mask).astype(np.bool_)
        new = not self.has_shown(state) or bool((shown & ~self.room_for(rows)[state]).any())
        super().show(state, mask, rows)
        if new:
            self.notes.append((state, shown))

    def take_notes(self) -> list[tuple[int, BoolArray]]:
        """The notes since they were taken last."""
        notes, self.notes = self.notes, []
        return notes


def renumbered(report: Report, numbers: Sequence[int]) -> list[Outcome]:
    """What has come of a job, with the numbers that its new states were given."""
    if list(numbers) == list(range(report.known, report.known + len(numbers))):
        return list(report.outcomes)
    final = np.array(numbers, dtype=np.int64)

    def of(states: Any) -> Any:
        unknown = states >= report.known
        return np.where(unknown, final[np.where(unknown, states - report.known, 0)], states)

    def one(outcome: Outcome) -> Outcome:
        if isinstance(outcome, Episode):
            ended = outcome.ended_in
            return replace(
                outcome,
                state=of(outcome.state),
                next_state=of(outcome.next_state),
                ended_in=None if ended is None else int(of(np.int64(ended))),
            )
        if isinstance(outcome, Failure):
            path = tuple((int(of(np.int64(state))), action) for state, action in outcome.path)
            return replace(outcome, path=path)
        return outcome

    return [one(outcome) for outcome in report.outcomes]
