"""Messages between the main process and its workers.

The main process counts and records episodes, workers play them. Where visits change the plan before
an episode is over, each worker plans on a copy of the game, which it keeps up to date with the
episodes of the others. Otherwise the main process sends a policy with each job.

Each process numbers discovered states by itself; ``Numbering`` translates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from covgame.episodes import Episode
from covgame.failures import Failure
from covgame.types import BoolArray, Policy


@dataclass(frozen=True)
class NewStates:
    """States that the sender has numbered since its last message, in order."""

    keys: Sequence[str] = ()
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class GameCopy:
    """The game of the main process, for a worker to start over with."""

    pickled: bytes
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
