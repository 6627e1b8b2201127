"""Messages between the main process and worker processes.

A worker process has an environment. It takes single steps for ``--step-timeout`` and ``--isolate``,
and plays jobs of whole episodes for ``--workers``. Over a pipe a request is (kind, argument), and
its answer is (kind, *content):

    request          answer
    (at the start)   made, number of actions
    reset, seed      shown, observation, mapped observation, mask
    step, action     shown, observation, mapped observation, reward, terminated, truncated, mask
    play, Job        report, Report
    (any)            raised, message, traceback

A Ray actor takes the same jobs. The main process counts and records episodes, workers play them.
Where visits change the plan before an episode is over, each worker plans on a copy of the game,
which is told the episodes of the others. Otherwise the main process sends a policy with each job.
Each process numbers discovered states by itself; ``Numbering`` translates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from covgame.episodes import Episode
from covgame.failures import Failure
from covgame.sources.source import EpisodeObserver, Source
from covgame.sources.states import DiscoveredStates, States
from covgame.types import BoolArray, Policy


@dataclass(frozen=True)
class NewStates:
    """States that the sender has numbered since its last message, in order."""

    keys: Sequence[str] = ()
    labels: Sequence[str] = ()


class WorkerPlayer(Protocol):
    """Plans the episodes of a worker on a copy of the game."""

    @property
    def has_room(self) -> bool:
        """Whether the game has room for all states that an episode can discover."""
        ...

    def play_episode(self, source: Source, episode: int, observer: EpisodeObserver) -> Episode:
        """Plan and play an episode, without counting it."""
        ...

    def count(self, episode: Episode) -> None:
        """Count an episode, of this worker or of another one."""
        ...

    def abandon(self) -> None:
        """Forget an episode that failed."""
        ...


@dataclass(frozen=True)
class GameCopy:
    """The game of the main process, for a worker to start over with."""

    pickled: bytes  # a function from (source, preference seed) to a ``WorkerPlayer``
    preference_seed: int | None  # ``Game.preference_seed`` of this worker


@dataclass(frozen=True, eq=False)
class Job:
    """Episodes to play. Their seeds depend on ``seed``, ticket and attempt only."""

    number: int
    seed: int
    tickets: range  # one episode each
    policy: Policy | None = None  # None: the worker plans
    second_look: bool = False  # whether it looks for further states
    at_random: bool = False  # whether it does so by random actions
    attempt: int = 0  # how many workers were lost with it
    new_states: NewStates = NewStates()
    masks: Sequence[tuple[int, BoolArray]] = ()  # allowed actions of new states
    avoided: Mapping[int, Sequence[int]] = field(default_factory=dict)  # actions, by state
    game: GameCopy | None = None  # None: go on with the copy that the worker has
    told: Sequence[Episode] = ()  # episodes of other workers, counted since the last job


@dataclass(frozen=True)
class Stop:
    """The environment failed in a way that ends the run."""

    words: str
    premise: bool = False  # whether it violated a declared assumption


Outcome = Episode | Failure | Stop


@dataclass(frozen=True, eq=False)
class Report:
    """The outcomes of a job in order; fewer episodes than tickets if memory has to grow first."""

    job: int
    outcomes: Sequence[Outcome]
    new_states: NewStates
    masks: Sequence[tuple[int, BoolArray]]  # allowed actions of states, where they changed
    seconds: float  # that playing took


@dataclass(frozen=True)
class Lost:
    """A worker has ended, with all its jobs; a new one, which knows nothing, is in its place."""

    words: str


@dataclass(frozen=True)
class WorkerPool:
    """How many workers play, and where."""

    size: int
    engine: str = "local"  # or "ray"
    address: str | None = None  # of a Ray cluster


class Team(Protocol):
    """Workers with numbers from 0 on; each takes its jobs in order."""

    size: int

    def send(self, worker: int, job: Job) -> None:
        """Send a job without waiting."""
        ...

    def wait(self, seconds: float) -> Sequence[tuple[int, Report | Lost]]:
        """Reports as soon as there are any; none after so many seconds."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...


class Numbering:
    """Translates the state numbers of another process.

    Each process numbers states as it meets them, and announces the keys of new ones with its next
    message. Where the environment counts its states, both have the same numbers.
    """

    def __init__(self, states: States) -> None:
        self.states = states if isinstance(states, DiscoveredStates) else None
        self.announced = 0
        self.mine = np.zeros(0, dtype=np.int64)  # by the number of the other process

    def announce(self) -> NewStates:
        """The states that were numbered here since the last call."""
        if self.states is None:
            return NewStates()
        first, self.announced = self.announced, self.states.size
        return NewStates(self.states.keys[first:], self.states.labels[first:])

    def take(self, new: NewStates) -> None:
        """Number the states that the other process announces."""
        if self.states is not None and new.keys:
            named = zip(new.keys, new.labels, strict=True)
            numbers = [self.states.number_of_key(key, label) for key, label in named]
            self.mine = np.append(self.mine, np.array(numbers, dtype=np.int64))

    def agree(self) -> None:
        """Both processes have the same numbers so far."""
        if self.states is not None:
            self.announced, self.mine = self.states.size, np.arange(self.states.size)

    def of(self, states: Any) -> Any:
        """The numbers here of states of the other process; negative numbers are no states."""
        if self.states is None:
            return states
        return np.where(states >= 0, self.mine[np.maximum(states, 0)], states)

    def of_episode(self, episode: Episode) -> Episode:
        """An episode of the other process."""
        return replace(
            episode,
            state=self.of(episode.state),
            next_state=self.of(episode.next_state),
        )

    def of_failure(self, failure: Failure) -> Failure:
        """A failure in the other process."""
        path = tuple((int(self.of(state)), action) for state, action in failure.path)
        return replace(failure, path=path)
