"""Worlds for workers, jobs to hand out, and something that looks like Ray."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from covgame.sources.messages import Job, Lost, NewStates, Report, Team
from covgame.types import Policy

SLOW = 40
"""So many episodes take a worker a while."""

WORLDS = """
import os, random, time
import numpy as np

class Rooms:
    '''Rooms in a row, found one by one; what they allow is shown, and chance has a say.'''

    actions, horizon = 2, 6

    def reset(self, seed):
        self.random, self.at, self.steps = random.Random(seed), 0, 0
        return ("room", 0), {"action_mask": self.mask()}

    def mask(self):
        return [self.at != 0, True]

    def step(self, action):
        self.steps += 1
        self.at += 1 if action and self.random.random() < 0.8 else -1
        self.at = max(0, self.at)
        late = self.steps == 5 and self.random.random() < 0.3
        about = {"action_mask": self.mask()}
        return ("room", self.at), self.random.random(), self.at == 4, late, about

class Slow(Rooms):
    def step(self, action):
        time.sleep(0.005)
        return super().step(action)

class Trapped(Rooms):
    '''Ends its process in the third room, as long as there is a file that says so.'''

    def step(self, action):
        shown = super().step(action)
        if self.at == 2 and os.path.exists("trap"):
            os.remove("trap")
            os._exit(7)
        return shown

class Broken(Rooms):
    '''Fails where it goes right in the second room.'''

    def step(self, action):
        if self.at == 1 and action == 1:
            raise ValueError("a hole")
        return super().step(action)

class Hanging(Rooms):
    def step(self, action):
        if self.at == 2 and os.path.exists("trap"):
            os.remove("trap")
            time.sleep(60)
        return super().step(action)
"""


def right(states: int = 8, horizon: int = 6) -> Policy:
    return Policy.deterministic(np.ones((horizon, states), dtype=np.int64), 2)


def job_for(
    number: int, *, episodes: int = 1, seed: int = 3, new_states: NewStates | None = None
) -> Job:
    tickets = range(100 * number, 100 * number + episodes)
    return Job(number, seed, tickets, right(), new_states=new_states or NewStates())


def reports(team: Team, count: int) -> list[Any]:
    """The next reports, whoever they are from."""
    found: list[Report | Lost] = []
    for _ in range(6000):
        found += [one for _, one in team.wait(0.01)]
        if len(found) >= count:
            return found
    raise AssertionError(f"only {len(found)} of {count} reports came")


def seeds_of(run: Path) -> list[int]:
    """Of the episodes of a run."""
    table = pq.read_table(run / "episodes").to_pydict()
    return list(dict(zip(table["episode"], table["seed"], strict=True)).values())


class LikeRay:
    """What ``RayTeam`` needs of Ray: calls are played at once, and what they hand over is pickled.

    An actor that was struck answers no call, as if its node were gone.
    """

    class exceptions:  # noqa: N801
        """As Ray names them."""

        class RayError(Exception):
            """Something was lost."""

    def __init__(self) -> None:
        self.running = True
        self.done: dict[int, Any] = {}

    def remote(self, **_: Any) -> Any:
        def decorate(kind: Any) -> Any:
            return type("Remote", (), {"remote": lambda *args: _Actor(self, kind, args[-2:])})()

        return decorate

    def wait(self, refs: list[int], num_returns: int, timeout: float) -> Any:
        del num_returns, timeout
        return refs, []

    def get(self, ref: int) -> Any:
        found = self.done[ref]
        if isinstance(found, Exception):
            raise found
        return found

    def kill(self, actor: Any) -> None:
        actor.gone = True

    def shutdown(self) -> None:
        self.running = False


class _Actor:
    def __init__(self, ray: LikeRay, kind: Any, arguments: Any) -> None:
        self.ray, self.gone = ray, False
        self.one = kind(*pickle.loads(pickle.dumps(arguments)))  # noqa: S301
        self.play = type("Method", (), {"remote": lambda _, job: self._call(job)})()

    def _call(self, job: Job) -> int:
        ref = len(self.ray.done)
        if self.gone:
            self.ray.done[ref] = self.ray.exceptions.RayError("the actor is gone")
            return ref
        try:
            report = self.one.play(pickle.loads(pickle.dumps(job)))  # noqa: S301
            self.ray.done[ref] = pickle.loads(pickle.dumps(report))  # noqa: S301
        except Exception as error:
            wrapped = self.ray.exceptions.RayError(str(error))
            wrapped.cause = error  # type: ignore[attr-defined]
            self.ray.done[ref] = wrapped
        return ref
