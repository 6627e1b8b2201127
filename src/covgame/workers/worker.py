"""A worker: an environment, and a copy of the game where workers plan."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covgame.engine.engines import SteppedEngine
from covgame.episodes import Episode
from covgame.errors import EnvironmentFailed, EpisodeFailed, PremiseBroken
from covgame.failures import Failure, Failures, OnFailure
from covgame.game.game import Game
from covgame.sources.environments import Care, Environment, make
from covgame.sources.external import ExternalSource
from covgame.sources.masks import Masks
from covgame.sources.states import DiscoveredStates
from covgame.types import BoolArray, Policy
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
        care = Care(on_failure, self.seconds, isolate=apart or self.isolate)
        source = environment.open(0, keep_observations=self.keep_observations, care=care)
        if not isinstance(source, ExternalSource):
            raise EnvironmentFailed(f"{environment.name} is simulated, and needs no workers")
        return source


class Worker:
    """Plays one job after the other."""

    def __init__(self, source: ExternalSource) -> None:
        self.source, self.numbering = source, Numbering(source.states)
        self.masks = source.masks = NotedMasks(source.masks.actions, source.masks.ever)
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
            self.masks.take_notes(),
            time.perf_counter() - began,
        )

    def _catch_up(self, job: Job) -> None:
        """Take in what the main process knows by now."""
        if job.game is not None:
            self._forget_states()
        self.numbering.take(job.new_states)
        rows = self.source.shape.states
        for state, mask in job.masks:
            self.masks.show(int(self.numbering.of(state)), mask, rows)
        self.masks.take_notes()
        if job.game is not None:
            self._start_over(job.game)
        for state, actions in job.avoided.items():
            mine = int(self.numbering.of(state))
            for action in set(actions) - self.masks.avoided.get(mine, set()):
                self.masks.avoid(mine, action, rows)
        if self.player is not None:
            for episode in job.told:
                self.player.count(self.numbering.of_episode(episode))

    def _forget_states(self) -> None:
        """Number states as the main process does from now on."""
        states = self.source.states
        if isinstance(states, DiscoveredStates):
            self.source.states = states.again((), ())
            self.masks = self.source.masks = NotedMasks(self.masks.actions)
            self.numbering = Numbering(self.source.states)

    def _start_over(self, copied: GameCopy) -> None:
        game: Game = pickle.loads(copied.pickled)  # noqa: S301 (from our own process)
        game.preference_seed = copied.preference_seed
        self.numbering.agree()
        self.player = PlanningPlayer(game, self.source)

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
                if ticket != job.tickets.start and self.player and not self.player.has_room:
                    break
                outcomes.append(self._episode(job, ticket))
        except PremiseBroken as error:
            outcomes.append(Stop(str(error.__cause__ or error), premise=True))
        except EnvironmentFailed as error:
            outcomes.append(Stop(str(error)))
        return outcomes

    def _episode(self, job: Job, ticket: int) -> Episode:
        """One episode, with new attempts as long as they make sense."""
        while True:
            try:
                return self._attempt(job, ticket)
            except EpisodeFailed:
                if self.player is not None:
                    self.player.abandon()

    def _attempt(self, job: Job, ticket: int) -> Episode:
        if job.at_random:
            episode = self.source.play(Policy.uniform(self.source.shape), ticket)
        elif job.policy is not None:
            return self.source.play(self._translated(job.policy), ticket)
        else:
            episode = self._player.play_episode(ticket)
        if self.player is not None:
            self.player.count(episode)
        return episode

    @property
    def _player(self) -> PlanningPlayer:
        if self.player is None:
            raise EnvironmentFailed("a worker was asked to plan before it got a game")
        return self.player

    def _translated(self, policy: Policy) -> Policy:
        """A policy of the main process, by the numbers that states have here."""
        mine = self.numbering.mine
        if self.numbering.states is None or np.array_equal(mine, np.arange(len(mine))):
            return policy
        width = max(policy.table.shape[1], int(mine.max(initial=0)) + 1)
        table = np.zeros((len(policy.table), width, *policy.table.shape[2:]), policy.table.dtype)
        table[:, mine] = policy.table[:, : len(mine)]
        return replace(policy, table=table)


class PlanningPlayer(SteppedEngine):
    """Plans and counts on a copy of a game; its target grows in the main process only."""

    def play_episode(self, number: int) -> Episode:
        """One episode, which is not counted yet."""
        return self.source.play(self.next_policy(), number, self.revise)

    def count(self, episode: Episode) -> None:
        """Count an episode, own or not."""
        self.tell(episode)

    @property
    def has_room(self) -> bool:
        """Whether the game has room for all states that an episode can discover."""
        states = self.source.states
        if not isinstance(states, DiscoveredStates):
            return True
        return states.size + self.source.horizon < self.game.target.shape.states

    def make_room(self) -> None:
        """The main process does; it sends another copy then."""


class NotedMasks(Masks):
    """Notes what states allow, for the main process."""

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
        """The notes since the last call."""
        notes, self.notes = self.notes, []
        return notes
