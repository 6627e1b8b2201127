"""Worker processes on this machine: one that is stepped, or several that play jobs.

A process is replaced when it has died, or when it takes longer than allowed. An environment that
can be made by name gets a fresh interpreter, other ones a forked copy of this process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from covgame.errors import BadInput, EnvironmentFailed
from covgame.sources.maps import MappedStates
from covgame.sources.messages import Job, Lost, Report
from covgame.sources.states import States
from covgame.sources.steppers import ProcessDied, Step, Stepper
from covgame.sources.worker import Recipe, serve

SECONDS_TO_MAKE = 120.0
"""Importing and making an environment may take much longer than a step."""

SECONDS_TO_DIE = 5.0

SMALL = 16_384
"""Bytes that always fit into a pipe, so that sending them does not wait for the receiver."""

FRESH = "from covgame.sources.worker import main; main({descriptor})"


class Raised(EnvironmentFailed):
    """What an environment raised in a worker process."""

    def __init__(self, words: str, traceback: str) -> None:
        super().__init__(words)
        self.traceback = traceback


class WorkerProcess:
    """A worker process, and the pipe to it."""

    def __init__(self, recipe: Recipe) -> None:
        if os.name == "nt":
            raise BadInput(
                "worker processes (--step-timeout, --isolate, --workers) need Linux or macOS"
            )
        self.child: Any
        self.channel: Connection
        if recipe.copied is not None:
            context = multiprocessing.get_context("fork")
            self.channel, theirs = context.Pipe()
            self.child = context.Process(
                target=serve, args=(theirs, recipe, os.getpid()), kwargs={"forked": True},
                daemon=True,
            )  # fmt: skip
            self.child.start()
        else:
            self.channel, theirs = Pipe()
            self.child = subprocess.Popen(  # noqa: S603 - this interpreter, and our own words
                [sys.executable, "-c", FRESH.format(descriptor=theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # its output is messages
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            self.channel.send((os.getpid(), recipe))
        theirs.close()

    @property
    def pid(self) -> int:
        """The process."""
        pid: int = self.child.pid
        return pid

    def kill(self) -> None:
        """End it, whatever it does."""
        self.channel.close()
        self.child.kill()
        self._exit_code()

    def end(self) -> str:
        """How it ended by itself, in words."""
        code = self._exit_code()
        self.kill()
        if code is None:
            return "unknown cause"
        if code >= 0:
            return f"exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
        known = {"SIGSEGV": "segmentation fault", "SIGKILL": "killed, perhaps for want of memory"}
        return known.get(name, name)

    def _exit_code(self) -> int | None:
        """Its exit code, None if it does not end in time."""
        code: int | None
        if isinstance(self.child, subprocess.Popen):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(SECONDS_TO_DIE)
            code = self.child.returncode
        else:
            self.child.join(SECONDS_TO_DIE)
            code = self.child.exitcode
        return code


def isolated(
    stepper: Stepper, states: States, recipe: Recipe, seconds: float | None
) -> tuple[Stepper, States]:
    """The same environment in a worker process, and how its observations are numbered here."""
    remote = ProcessStepper(stepper, recipe, seconds)
    if isinstance(states, MappedStates):
        # The map may read the environment, so it is applied in the worker process.
        done = replace(states.map, function=lambda _, world: world.mapped)
        return remote, MappedStates(done, remote, states.keys, states.labels)
    return remote, states


class ProcessStepper(Stepper):
    """Steps an environment in a worker process, with a limit on the time of a step."""

    world = None

    def __init__(self, here: Stepper, recipe: Recipe, seconds: float | None) -> None:
        self.actions, self.spaces = here.actions, here.spaces
        self.recipe, self.seconds = recipe, seconds
        self.mapped: Any = None  # what the state map made of the last observation
        self.process: WorkerProcess | None = None

    def reset(self, seed: int) -> tuple[Any, Any]:
        if self.process is None:
            self.process = WorkerProcess(self.recipe)
            (actions,) = self._answer("being made", max(SECONDS_TO_MAKE, self.seconds or 0.0))
            if actions != len(self.actions):
                raise EnvironmentFailed(
                    f"it has {actions} actions now, and had {len(self.actions)}"
                )
        observation, self.mapped, mask = self._ask("reset", seed)
        return observation, mask

    def step(self, action: int) -> Step:
        observation, self.mapped, *rest = self._ask("step", action)
        return Step(observation, *rest)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None

    def _ask(self, kind: str, argument: int) -> tuple[Any, ...]:
        if self.process is None:
            raise ProcessDied("its process is gone")
        try:
            self.process.channel.send((kind, argument))
        except OSError:
            raise ProcessDied(self._ended_in(kind)) from None
        return self._answer(kind, self.seconds)

    def _answer(self, doing: str, seconds: float | None) -> tuple[Any, ...]:
        """The answer to the last request; a process that gives none in time is ended."""
        if self.process is None:
            raise ProcessDied("its process is gone")
        channel = self.process.channel
        try:
            if seconds is not None and not channel.poll(seconds):
                self.close()
                raise ProcessDied(f"it took more than {seconds:g} seconds in {doing}")
            kind, *content = channel.recv()
        except (EOFError, OSError):
            raise ProcessDied(self._ended_in(doing)) from None
        except KeyboardInterrupt:
            self.close()  # its answer would be taken for that to the next request
            raise
        if kind == "raised":
            raise Raised(*content)
        return tuple(content)

    def _ended_in(self, doing: str) -> str:
        process, self.process = self.process, None
        how = "unknown cause" if process is None else process.end()
        return f"its process ended in {doing} ({how})"


@dataclass
class _Member:
    """A worker of a team, what it was sent, and what waits until it reads again."""

    process: WorkerProcess
    made_by: float | None  # when its environment has to be there; None: it is
    sent: int = 0
    waiting: deque[bytes] = field(default_factory=deque)


class LocalTeam:
    """Worker processes; one that dies is replaced, and isolates its environment from then on."""

    def __init__(self, recipe: Recipe, size: int, actions: int) -> None:
        self.recipe, self.size, self.actions = recipe, size, actions
        self.members: list[_Member] = []
        try:
            for _ in range(size):
                self.members.append(self._start(recipe))
        except BaseException:
            self.close()
            raise

    def _start(self, recipe: Recipe) -> _Member:
        limit = max(SECONDS_TO_MAKE, recipe.step_timeout or 0.0)
        return _Member(WorkerProcess(recipe), time.monotonic() + limit)

    def pid(self, worker: int) -> int:
        """The process of a worker."""
        return self.members[worker].process.pid

    def send(self, worker: int, job: Job) -> None:
        member = self.members[worker]
        member.waiting.append(pickle.dumps(("play", job), pickle.HIGHEST_PROTOCOL))
        self._push(member)

    def _push(self, member: _Member) -> None:
        """Send what can be sent without waiting for the other side.

        A worker that plays does not read; if it then waits for its report to be read while this
        process waits for its job to be read, both wait for ever.
        """
        waiting = member.waiting
        while waiting and (not member.sent or (member.sent == 1 and len(waiting[0]) < SMALL)):
            with contextlib.suppress(OSError):  # it is gone, as ``wait`` will find
                member.process.channel.send_bytes(waiting[0])
            waiting.popleft()
            member.sent += 1

    def wait(self, seconds: float) -> Sequence[tuple[int, Report | Lost]]:
        channels = {one.process.channel: number for number, one in enumerate(self.members)}
        ready = wait(list(channels), max(0.0, seconds))
        found = [self._receive(channels[channel]) for channel in ready]  # type: ignore[index]
        for number, member in enumerate(self.members):
            if member.made_by is not None and time.monotonic() > member.made_by:
                words = f"it took more than {SECONDS_TO_MAKE:g} seconds in being made"
                found.append(self._lose(number, words))
        return [one for one in found if one is not None]

    def _receive(self, number: int) -> tuple[int, Report | Lost] | None:
        member = self.members[number]
        try:
            kind, *content = member.process.channel.recv()
        except (EOFError, OSError):
            return self._lose(number, f"its process ended ({member.process.end()})")
        if kind == "raised":
            return self._lose(number, content[0])
        if kind == "made":
            member.made_by = None
            if content[0] != self.actions:
                words = f"it has {content[0]} actions in a worker, and {self.actions} here"
                return self._lose(number, words)
            return None
        member.sent -= 1
        self._push(member)
        return number, content[0]

    def _lose(self, number: int, words: str) -> tuple[int, Report | Lost]:
        self.members[number].process.kill()
        self.members[number] = self._start(replace(self.recipe, isolate=True))
        return number, Lost(words)

    def close(self) -> None:
        for member in self.members:
            member.process.kill()
        self.members = []
