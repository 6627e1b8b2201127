"""An environment in a process of its own: it may hang, die or print, and the run goes on.

The process is replaced when it has died or when a step takes longer than allowed. Environments that
can be made by name get a fresh interpreter; objects and functions of this program a copy of it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe
from typing import Any

from covgame.errors import BadInput, EnvironmentFailed
from covgame.sources.maps import MappedStates
from covgame.sources.states import States
from covgame.sources.steppers import Actions, ProcessDied, Step, Stepper

SECONDS_TO_MAKE = 120.0
"""Importing and making an environment may take much longer than a step."""

SECONDS_TO_DIE = 5.0


class Raised(EnvironmentFailed):
    """What an environment raised in the other process."""

    def __init__(self, words: str, traceback: str) -> None:
        super().__init__(words)
        self.traceback = traceback


@dataclass(frozen=True)
class Process:
    """A process that steps an environment, and the line to it."""

    pid: int
    channel: Connection
    wait: Callable[[float], int | None]  # seconds -> how it ended, None if it has not

    def kill(self) -> None:
        """End it, whatever it does."""
        self.channel.close()
        with contextlib.suppress(OSError):  # it may be gone already
            os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self.wait(SECONDS_TO_DIE)


Start = Callable[[], Process]
Opener = Callable[[], tuple[Stepper, States]]


class IsolatedStepper(Stepper):
    """Steps an environment in another process, with a limit on how long that may take."""

    world = None

    def __init__(self, here: Stepper, start: Start, seconds: float | None, *, raw: bool) -> None:
        self.actions: Actions = here.actions
        self.spaces = here.spaces
        self.start, self.seconds, self.raw = start, seconds, raw
        self.mapped: Any = None  # what the state map made of the last observation
        self.process: Process | None = None

    def reset(self, seed: int) -> tuple[Any, Any]:
        """Start an episode, in a new process if there is none any more."""
        if self.process is None:
            self.process = self._begin()
        observation, self.mapped, mask = self._ask(("reset", seed), "reset")
        return observation, mask

    def step(self, action: int) -> Step:
        """Take an action."""
        observation, self.mapped, *rest = self._ask(("step", action), "step")
        return Step(observation, *rest)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def _begin(self) -> Process:
        self.process = self.start()
        (actions,) = self._answer("being made", max(SECONDS_TO_MAKE, self.seconds or 0.0))
        if actions != len(self.actions):
            raise EnvironmentFailed(f"it has {actions} actions now, and had {len(self.actions)}")
        self._ask(("raw", self.raw), "being asked")
        return self.process

    def _ask(self, request: tuple[str, Any], doing: str) -> tuple[Any, ...]:
        if self.process is None:
            raise ProcessDied("its process is gone")
        try:
            self.process.channel.send(request)
        except OSError:
            raise ProcessDied(self._end_of(doing)) from None
        return self._answer(doing, self.seconds)

    def _answer(self, doing: str, seconds: float | None) -> tuple[Any, ...]:
        """What the other side says; if it says nothing, that is the end of it."""
        if self.process is None:
            raise ProcessDied("its process is gone")
        channel = self.process.channel
        try:
            if seconds is not None and not channel.poll(seconds):
                self.close()
                raise ProcessDied(f"it took more than {seconds:g} seconds in {doing}")
            kind, *content = channel.recv()
        except (EOFError, OSError):
            raise ProcessDied(self._end_of(doing)) from None
        except KeyboardInterrupt:
            self.close()  # its answer would be taken for that to the next request
            raise
        if kind == "raised":
            raise Raised(*content)
        return tuple(content)

    def _end_of(self, doing: str) -> str:
        """How the process ended."""
        process, self.process = self.process, None
        code = process.wait(SECONDS_TO_DIE) if process else None
        if process is not None:
            process.kill()
        return f"its process ended in {doing} ({how_it_ended(code)})"


def how_it_ended(code: int | None) -> str:
    """What an exit code says, in words."""
    if code is None:
        return "nobody knows how"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code)
    except ValueError:
        return f"signal {-code}"
    known = {"SIGSEGV": "segmentation fault", "SIGKILL": "killed, perhaps for want of memory"}
    return known.get(name.name, name.name)


def isolated(
    opened: tuple[Stepper, States], start: Start, seconds: float | None, *, raw: bool
) -> tuple[IsolatedStepper, States]:
    """The same environment in another process, and how its observations are numbered here."""
    here, states = opened
    stepper = IsolatedStepper(here, start, seconds, raw=raw or not isinstance(states, MappedStates))
    if isinstance(states, MappedStates):
        # The map may look into the environment, so it is applied where that is.
        done = replace(states.map, function=lambda _, world: world.mapped)
        return stepper, MappedStates(done, stepper, states.keys, states.labels)
    return stepper, states


def start_of(
    name: str | None, horizon: int, reading: dict[str, str | None], opener: Opener
) -> Start:
    """How to start the process: by the environment's name if it has one, or else as a copy."""
    if os.name == "nt":
        raise BadInput(
            "a worker process for the environment (--step-timeout, --isolate) needs Linux or macOS"
        )
    return by_copy(opener) if name is None else by_name(name, horizon, reading)


def by_name(name: str, horizon: int, reading: dict[str, str | None]) -> Start:
    """A fresh interpreter that makes an environment by its name."""
    how = (os.getpid(), name, horizon, reading["states"], reading["actions"], list(sys.path))
    return lambda: in_fresh_interpreter("covgame.sources.worker", how)


def in_fresh_interpreter(module: str, greeting: Any) -> Process:
    """A process that runs ``main`` of a module on the other end of the line, and hears of that."""
    ours, theirs = Pipe()
    run = f"from {module} import main; main({theirs.fileno()})"
    child = subprocess.Popen(  # noqa: S603 - this interpreter, and our own words
        [sys.executable, "-c", run],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=2,  # whatever it prints is a message
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    theirs.close()
    ours.send(greeting)
    return Process(child.pid, ours, lambda seconds: _code(child, seconds))


def _code(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def by_copy(opener: Opener) -> Start:
    """A copy of this process, for an environment that nobody else can make."""
    from covgame.sources.worker import serve

    return lambda: in_copy(serve, opener)


def in_copy(serve: Callable[..., None], argument: Any) -> Process:
    """A copy of this process that serves at the other end of the line."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child: Any = context.Process(
        target=serve, args=(theirs, argument, os.getpid()), kwargs={"forked": True}, daemon=True
    )
    child.start()
    theirs.close()

    def wait(seconds: float) -> int | None:
        child.join(seconds)
        code: int | None = child.exitcode
        return code

    return Process(child.pid, ours, wait)
