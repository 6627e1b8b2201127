"""Environments that misbehave: ``py:torture.hostile_environments:Hostile?how=NAME``.

They behave for a while, in rooms that are discovered, and log their episodes.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from torture.environments import Logged


class Hostile(Logged):
    """Misbehaves in the third step, or in ``reset``, after some ``peaceful`` episodes."""

    def __init__(self, how: str = "raises", where: str = "step", peaceful: int = 25) -> None:
        super().__init__()
        self.how, self.where, self.peaceful, self.episodes = how, where, peaceful, 0
        if where == "constructor":
            BEHAVIOURS[how]("room 0")

    def reset(self, seed: int) -> Any:
        self.episodes += 1
        usual: Any = super().reset(seed)
        misbehaves = self.where == "reset" and self.episodes > self.peaceful
        return BEHAVIOURS[self.how](usual) if misbehaves else usual

    def step(self, action: str) -> Any:
        usual = super().step(action)
        misbehaves = self.where == "step" and self.episodes > self.peaceful and self.steps == 3
        return BEHAVIOURS[self.how](usual) if misbehaves else usual


class NeverEnds(Logged):
    """Its episodes end by the horizon alone."""

    def step(self, action: str) -> Any:
        observation, reward, _ = super().step("right")
        return observation, reward, False


def _raise(error: BaseException) -> Callable[[Any], Any]:
    def do(_: Any) -> Any:
        raise error

    return do


def _recurse(usual: Any) -> Any:
    return _recurse(usual)


def _hang(_: Any) -> Any:
    while True:
        time.sleep(3600)


def _spin(_: Any) -> Any:
    while True:
        pass


def _after(action: Callable[[], object]) -> Callable[[Any], Any]:
    """Do something, and return the usual answer."""

    def do(usual: Any) -> Any:
        action()
        return usual

    return do


def _print() -> None:
    print("noise " * 50)
    os.write(1, b"noise on descriptor 1\n" * 50)


def _ignore_signals() -> None:
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)


def _fork() -> None:
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)


def _kill(number: signal.Signals) -> Callable[[Any], Any]:
    return _after(lambda: os.kill(os.getpid(), number))


def _with(place: int, value: Any) -> Callable[[Any], Any]:
    """Replace the observation, the reward or the end."""

    def do(usual: Any) -> Any:
        if not isinstance(usual, tuple):
            return value
        return (*usual[:place], value, *usual[place + 1 :])

    return do


class Unprintable:
    """Cannot be printed or hashed."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


HOARD: list[bytes] = []

ERRORS: dict[str, BaseException] = {
    "raises": ValueError("the simulator failed"),
    "raises without a message": RuntimeError(),
    "raises on two lines": ValueError("one\ntwo\x1b[31m"),
    "raises at length": ValueError("x" * 100_000),
    "raises SystemExit": SystemExit(3),
    "raises StopIteration": StopIteration(),
    "raises GeneratorExit": GeneratorExit(),
    "raises MemoryError": MemoryError(),
    "raises OSError": OSError(28, "No space left on device"),
    "raises BrokenPipeError": BrokenPipeError(),
    "raises BaseException": BaseException("odd"),
}
BEHAVIOURS: dict[str, Callable[[Any], Any]] = {
    **{how: _raise(error) for how, error in ERRORS.items()},
    "raises KeyboardInterrupt": _raise(KeyboardInterrupt()),
    "recurses": _recurse,
    "sys.exit": lambda _: sys.exit(0),
    "os._exit": lambda _: os._exit(0),
    "segfault": lambda _: ctypes.string_at(0),
    "aborts": lambda _: os.abort(),
    "SIGKILL": _kill(signal.SIGKILL),
    "SIGINT": _kill(signal.SIGINT),
    "SIGTERM": _kill(signal.SIGTERM),
    "hangs": _hang,
    "spins": _spin,
    "nothing": lambda usual: usual,
    "prints": _after(_print),
    "changes folder": _after(lambda: os.chdir("/")),
    "ignores signals": _after(_ignore_signals),
    "starts a thread": _after(lambda: threading.Thread(target=time.sleep, args=(3600,)).start()),
    "forks": _after(_fork),
    "leaks": _after(lambda: HOARD.append(b"x" * 10_000_000)),
    "exhausts memory": _after(lambda: HOARD.append(bytes(2**44))),
    "reward NaN": _with(1, math.nan),
    "reward inf": _with(1, math.inf),
    "reward None": _with(1, None),
    "reward text": _with(1, "a lot"),
    "reward list": _with(1, [1.0, 2.0]),
    "reward huge": _with(1, 1e308),
    "observation None": _with(0, None),
    "observation NaN": _with(0, math.nan),
    "observation list": _with(0, ["a", ["b"]]),
    "observation dict": _with(0, {"a": {1, 2}}),
    "observation object": _with(0, object()),
    "observation unprintable": _with(0, Unprintable()),
    "observation odd text": _with(0, "\udcff\x1b[31m\u202e\n"),
    "observation long": _with(0, "x" * 1_000_000),
    "done None": _with(2, None),
    "done text": _with(2, "no"),
    "one value": lambda _: 5,
    "no values": lambda _: (),
    "None": lambda _: None,
    "seven values": lambda _: (0,) * 7,
}
