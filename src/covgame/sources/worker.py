"""The other end of ``isolated``: a process that does nothing but step one environment.

It hears how to make it, then ``("reset", seed)`` and ``("step", action)``, and answers each with
``("shown", ...)`` or ``("raised", sentence, traceback)``. It ends when nobody listens any more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from covgame.signals import OneProcess, end_with

Opened = tuple[Any, Any]
"""(how to step it, what maps its observations or None)."""

RAW_IS_NOT_WANTED = True
"""Stands for an observation of which only the state counts."""


def main(descriptor: int) -> None:
    """A process of its own that makes an environment by name, with an open line to who asks."""
    with Connection(descriptor) as channel:
        parent, *how = channel.recv()
        serve(channel, lambda: _open_by_name(*how), parent)


def _keep_off_standard_output() -> None:
    """Whatever an environment prints is a message; nothing reads from the terminal."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr


def _open_by_name(
    name: str, horizon: int, states: str | None, actions: str | None, path: list[str]
) -> Opened:
    from covgame.sources.environments import make

    sys.path[:] = path
    environment = make(name, horizon, states=states, actions=actions)
    return environment.opened()


def serve(
    channel: Connection, open_world: Callable[[], Opened], parent: int, *, forked: bool = False
) -> None:
    """Step an environment as long as somebody asks for it."""
    begin(parent, forked=forked)
    try:
        with OneProcess():
            stepper, states = open_world()
        desk = Desk(stepper, states)
        channel.send(("made", len(stepper.actions)))
    except BaseException as error:
        channel.send(raised(error))
        return
    with contextlib.suppress(EOFError, OSError):
        while True:
            channel.send(desk.answer(*channel.recv()))


def begin(parent: int, *, forked: bool) -> None:
    """What a process does first that works for another one, and for nothing else."""
    for one in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(one, signal.SIG_IGN)  # whoever asks decides when it is over
    if forked:
        _keep_off_standard_output()
    end_with(parent)


class Desk:
    """Hands requests to an environment, and what it shows back."""

    def __init__(self, stepper: Any, states: Any) -> None:
        self.stepper = stepper
        self.map, self.world = getattr(states, "map", None), getattr(states, "world", None)
        self.raw_wanted = True

    def answer(self, kind: str, argument: Any) -> tuple[Any, ...]:
        """What comes of a request."""
        try:
            with OneProcess():
                if kind == "raw":
                    self.raw_wanted = bool(argument)
                    return ("shown",)
                if kind == "reset":
                    observation, mask = self.stepper.reset(argument)
                    return ("shown", *self._seen(observation), mask)
                observation, reward, terminated, truncated, mask = self.stepper.step(argument)
                seen = self._seen(observation)
                return ("shown", *seen, reward, bool(terminated), bool(truncated), mask)
        except BaseException as error:
            return raised(error)

    def _seen(self, observation: Any) -> tuple[Any, Any]:
        """(the observation, if anybody wants it; what the state map makes of it)."""
        if observation is None or self.map is None:
            return observation, None
        mapped = self.map(observation, self.world)
        return (observation if self.raw_wanted else RAW_IS_NOT_WANTED), mapped


def raised(error: BaseException) -> tuple[str, str, str]:
    """An error as it is told to another process."""
    from covgame.errors import CovgameError
    from covgame.imports import said

    words = str(error) if isinstance(error, CovgameError) else said(error)
    return "raised", words, "".join(traceback.format_exception(error))
