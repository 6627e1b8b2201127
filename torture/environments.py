"""Environments that take down themselves what they have shown: nobody else can say what was lost.

Each is as ``py:torture.environments:NAME`` names it. Its episodes depend on their seeds alone.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import gymnasium
import numpy as np

LOG = "log"
"""Beside the run, in the current folder: a dot for every episode that is over."""


def _note_the_end(file: int) -> None:
    os.write(file, b".")


def _log() -> int:
    return os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


class Logged:
    """Nine rooms, which are discovered, three actions, six steps at most."""

    actions, horizon = ("left", "right", "jump"), 6

    def __init__(self, seconds: float = 0.0) -> None:
        self.log, self.seconds = _log(), seconds

    def reset(self, seed: int) -> str:
        self.rng, self.steps = random.Random(seed), 0
        return "room 0"

    def step(self, action: str) -> tuple[str, float, bool]:
        if self.seconds:
            time.sleep(self.seconds)
        self.steps += 1
        over = self.steps == self.horizon or (action == "jump" and self.rng.random() < 0.3)
        if over:
            _note_the_end(self.log)
        drawn = self.rng.randrange(9) if action == "right" else self.rng.randrange(4)
        return f"room {drawn}", float(action == "right"), over


class Fragile(Logged):
    """The same, and now and then it breaks; where and when depends on the seed."""

    def step(self, action: str) -> tuple[str, float, bool]:
        if action == "left" and self.rng.random() < 0.1:
            _note_the_end(self.log)
            raise RuntimeError("it broke")
        return super().step(action)


class Pendulum(gymnasium.Env[Any, Any]):
    """Two real numbers, for maps of states; no end before the last step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)
    horizon = 6

    def __init__(self) -> None:
        self.log = _log()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.steps, self.at = 0, np.zeros(2)
        return self.at.copy(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        push = 0.3 * (1 if action else -1)
        self.at = np.clip(self.at + push * self.np_random.random(2), -1.0, 1.0)
        if self.steps == self.horizon:
            _note_the_end(self.log)
        return self.at.copy(), float(action), False, False, {}


class Counted(gymnasium.Env[Any, Any]):
    """Five places, which are known beforehand, two actions; the last one ends an episode."""

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.log = _log()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.steps = self.at = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        slips = self.np_random.random() < 0.3
        self.at = max(0, self.at - 1) if slips or not action else self.at + 1
        over = self.at == 4
        if over or self.steps == 6:
            _note_the_end(self.log)
        return self.at, float(over), over, False, {}
