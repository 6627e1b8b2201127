"""Environments that misbehave, each in its own way: ``py:torture.hostile_worlds:make?how=NAME``.

They behave for a while, in rooms that are found one by one, and note each episode that is over.
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

PEACEFUL = 25
"""Episodes of a process before anything happens."""


class Hostile(Logged):
    """Does something in the third step of one episode, or of every later one."""

    def __init__(self, how: str, where: str, peaceful: int) -> None:
        super().__init__()
        self.how, self.where, self.peaceful, self.episodes = how, where, peaceful, 0
        if where == "constructor":
            self.misbehave("room 0")

    def reset(self, seed: int) -> Any:
        self.episodes += 1
        observation: Any = super().reset(seed)
        if self.where == "reset" and self.episodes > self.peaceful:
            return self.misbehave(observation)
        return observation

    def step(self, action: str) -> Any:
        observation, reward, over = super().step(action)
        due = self.episodes > self.peaceful and self.steps == 3
        if self.where == "step" and due:
            return self.misbehave((observation, reward, over))
        return observation, reward, over

    def misbehave(self, usual: Any) -> Any:
        return WAYS[self.how](usual)


def make(how: str = "raises", where: str = "step", peaceful: int = PEACEFUL) -> Any:
    """By name."""
    return NeverEnds() if how == "never ends" else Hostile(how, where, peaceful)


class NeverEnds(Logged):
    """Its episodes have no end of their own."""

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


def _prints(usual: Any) -> Any:
    print("noise " * 50)
    os.write(1, b"noise on descriptor 1\n" * 50)
    return usual


def _closes(usual: Any) -> Any:
    for file in range(3, 30):
        try:
            os.close(file)
        except OSError:
            continue
    return usual


def _moves(usual: Any) -> Any:
    os.chdir("/")
    return usual


def _handles(usual: Any) -> Any:
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    return usual


def _threads(usual: Any) -> Any:
    threading.Thread(target=lambda: time.sleep(3600), daemon=False).start()
    return usual


def _forks(usual: Any) -> Any:
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
    return usual


def _kills(which: signal.Signals) -> Callable[[Any], Any]:
    def do(usual: Any) -> Any:
        os.kill(os.getpid(), which)
        return usual

    return do


HOARD: list[bytes] = []


def _leaks(usual: Any) -> Any:
    HOARD.append(b"x" * 10_000_000)
    return usual


def _exhausts(usual: Any) -> Any:
    HOARD.append(bytes(2**44))
    return usual


def _with(place: int, value: Any) -> Callable[[Any], Any]:
    """One of observation, reward and end is something else."""

    def do(usual: Any) -> Any:
        if not isinstance(usual, tuple):
            return value
        answer = list(usual)
        answer[place] = value
        return tuple(answer)

    return do


class Rude:
    """Breaks whoever looks at it."""

    def __repr__(self) -> str:
        raise RuntimeError("do not look at me")

    def __hash__(self) -> int:
        raise RuntimeError("do not hash me")


WAYS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda usual: usual,
    "raises": _raise(ValueError("the simulator has had enough")),
    "raises without a word": _raise(RuntimeError()),
    "raises on two lines": _raise(ValueError("one\ntwo\x1b[31m")),
    "raises at length": _raise(ValueError("x" * 100_000)),
    "raises KeyboardInterrupt": _raise(KeyboardInterrupt()),
    "raises SystemExit": _raise(SystemExit(3)),
    "raises StopIteration": _raise(StopIteration()),
    "raises GeneratorExit": _raise(GeneratorExit()),
    "raises MemoryError": _raise(MemoryError()),
    "raises OSError": _raise(OSError(28, "No space left on device")),
    "raises BrokenPipeError": _raise(BrokenPipeError()),
    "raises BaseException": _raise(BaseException("odd")),
    "recurses": _recurse,
    "sys.exit": lambda _: sys.exit(0),
    "os._exit": lambda _: os._exit(0),
    "segfault": lambda _: ctypes.string_at(0),
    "aborts": lambda _: os.abort(),
    "SIGKILL": _kills(signal.SIGKILL),
    "SIGINT": _kills(signal.SIGINT),
    "SIGTERM": _kills(signal.SIGTERM),
    "hangs": _hang,
    "spins": _spin,
    "prints": _prints,
    "closes files": _closes,
    "changes folder": _moves,
    "ignores signals": _handles,
    "starts a thread": _threads,
    "forks": _forks,
    "leaks": _leaks,
    "exhausts memory": _exhausts,
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
    "observation rude": _with(0, Rude()),
    "observation odd text": _with(0, "\udcff\x1b[31m\u202e\n"),
    "observation long": _with(0, "x" * 1_000_000),
    "done None": _with(2, None),
    "done text": _with(2, "no"),
    "one value": lambda _: 5,
    "no values": lambda _: (),
    "None": lambda _: None,
    "seven values": lambda _: (0,) * 7,
}
