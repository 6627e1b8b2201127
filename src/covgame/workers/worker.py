"""A worker: an environment, and a copy of the game where workers plan."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covgame.episodes import Episode
from covgame.errors import EnvironmentFailed, EpisodeFailed, PremiseBroken
from covgame.failures import Failure, Failures, OnFailure
from covgame.game.game import Game
from covgame.players.stepped import SteppedPlayer, random_actions
from covgame.sources.environments import Environment, make
from covgame.sources.source import EpisodeObserver, Source
from covgame.sources.states import DiscoveredStates
from covgame.sources.stepped import FailurePolicy, SteppedSource
from covgame.types import Policy
from covgame.workers.messages import GameCopy, Job, Outcome, Report, Stop
from covgame.workers.numbering import Numbering


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
    isolate: bool = False
    path: Sequence[str] = field(default_factory=lambda: tuple(sys.path))

    @classmethod
    def of(cls, environment: Environment, **how: Any) -> Recipe:
        """For an environment that is known here."""
        if not environment.by_name:
            return cls(environment.horizon, copied=environment, **how)
        texts: dict[str, Any] = environment.spec.texts()
        return cls(environment.horizon, environment.name, **texts, **how)

    def open(self, *, apart: bool = False) -> SteppedSource:
        """The environment, in a process of its own if it hangs or was seen to end processes."""
        sys.path += [place for place in self.path if place not in sys.path]
        environment = self.copied
        if environment is None:
            environment = make(self.name, self.horizon, states=self.states, actions=self.actions)
        # What to do about a failure that counts as an episode is for who plans to decide.
        on_failure: OnFailure = "stop" if self.on_failure == "stop" else "record"
        policy = FailurePolicy(on_failure, self.seconds, isolate=apart or self.isolate)
        return environment.open_stepped(
            0, keep_observations=self.keep_observations, failure_policy=policy
        )


class Worker:
    """Plays one job after the other."""

    def __init__(self, source: SteppedSource) -> None:
        self.source = source.for_worker()
        self.numbering = Numbering(self.source.states)
        self.player: PlanningPlayer | None = None

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
        if job.game is not None and self.source.discovers_states:  # number them as the main process
            self.source = self.source.for_worker()
            self.numbering = Numbering(self.source.states)
        self.numbering.take(job.new_states)
        rows, masks = self.source.shape.states, self.source.masks
        for state, mask in job.masks:
            masks.show(int(self.numbering.of(state)), mask, rows)
        masks.take_changes()
        if job.game is not None:
            self._start_over(job.game)
        for state, actions in job.avoided.items():
            mine = int(self.numbering.of(state))
            for action in set(actions) - masks.avoided.get(mine, set()):
                masks.avoid(mine, action, rows)
        if self.player is not None:
            for episode in job.told:
                self.player.count(self.numbering.of_episode(episode))

    def _start_over(self, copied: GameCopy) -> None:
        game: Game = pickle.loads(copied.pickled)  # noqa: S301 (from our own process)
        game.preference_seed = copied.preference_seed
        self.numbering.agree()
        self.player = PlanningPlayer(game, self.source)

    def _outcomes(self, job: Job) -> list[Outcome]:
        noted = JobObserver()
        failures = Failures(attempts=dict.fromkeys(job.tickets, job.attempt))
        source = self.source.seeded(job.seed, failures)
        try:
            for ticket in job.tickets:
                if ticket != job.tickets.start and self.player and not self.player.has_room:
                    break
                noted.outcomes.append(self._episode(job, ticket, source, noted))
        except PremiseBroken as error:
            noted.outcomes.append(Stop(str(error.__cause__ or error), premise=True))
        except EnvironmentFailed as error:
            noted.outcomes.append(Stop(str(error)))
        return noted.outcomes

    def _episode(self, job: Job, ticket: int, source: Source, noted: JobObserver) -> Episode:
        """One episode, with new attempts as long as they make sense."""
        while True:
            try:
                return self._attempt(job, ticket, source, noted)
            except EpisodeFailed:
                if self.player is not None:
                    self.player.abandon()

    def _attempt(self, job: Job, ticket: int, source: Source, noted: JobObserver) -> Episode:
        if job.at_random:
            policy = random_actions(source.shape)
            episode = source.play(policy, ticket, observer=noted)
        elif job.policy is not None:
            return source.play(self._translated(job.policy), ticket, observer=noted)
        elif self.player is None:
            raise EnvironmentFailed("a worker was asked to plan before it got a game")
        else:
            episode = self.player.play_episode(source, ticket, noted)
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


class PlanningPlayer(SteppedPlayer):
    """Plans and counts on a copy of a game; its target grows in the main process only."""

    def play_episode(self, source: Source, number: int, observer: EpisodeObserver) -> Episode:
        """One episode, which is not counted yet."""
        return source.play(self.next_policy(), number, self.revise, observer)

    def count(self, episode: Episode) -> None:
        """Count an episode, own or not."""
        self._tell(episode)

    @property
    def has_room(self) -> bool:
        """Whether the game has room for all states that an episode can discover."""
        states = self.source.states
        if not isinstance(states, DiscoveredStates):
            return True
        return states.size + self.source.shape.horizon < self.game.target.shape.states

    def _make_room(self) -> None:
        """The main process does; it sends another copy then."""
