"""What is handed over between who plans and who plays: jobs, reports, and what a team is.

States are numbered where the plans are made, and nowhere else. A worker has a copy of the numbers,
brought up to date with every job; a state that it does not know yet comes back by its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from covgame.episodes import Episode
from covgame.failures import Failure
from covgame.types import BoolArray, Policy


@dataclass(frozen=True)
class News:
    """States that a worker may not know: their keys and labels, from a number on."""

    first: int = 0
    keys: Sequence[str] = ()
    labels: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Job:
    """Episodes of one policy to be played; their seeds depend on nothing but what stands here."""

    number: int
    seed: int
    tickets: range  # an episode for each; who plays it knows no other number of it
    policy: Policy
    news: News = News()
    attempt: int = 0  # how often a worker was lost on it
    avoided: Mapping[int, Sequence[int]] = field(default_factory=dict)  # actions, by state


@dataclass(frozen=True)
class Stop:
    """Why an environment is not worth another try."""

    words: str
    premise: bool = False  # whether it broke what somebody relies on, or failed too often


Outcome = Episode | Failure | Stop


@dataclass(frozen=True, eq=False)
class Report:
    """What has come of a job, one thing after the other.

    States below ``known`` have the numbers of who plans; the others stand for ``keys``, in order.
    """

    job: int
    outcomes: Sequence[Outcome]
    known: int
    keys: Sequence[str]
    labels: Sequence[str]
    masks: Sequence[tuple[int, BoolArray]]  # what states allow, where that was news
    seconds: float  # that playing took


@dataclass(frozen=True)
class Lost:
    """A worker is gone, with all jobs that it had; another one, which knows nothing, is there."""

    words: str


class Team(Protocol):
    """Workers with numbers from 0 on; each takes its jobs in the order in which they came."""

    size: int

    def send(self, worker: int, job: Job) -> None:
        """Hand over a job, without waiting for anything."""
        ...

    def wait(self, seconds: float) -> Sequence[tuple[int, Report | Lost]]:
        """What has come of jobs, as soon as there is something; nothing after so many seconds."""
        ...

    def close(self) -> None:
        """Send everybody home, whatever they are doing."""
        ...
