"""Environments that log their finished episodes, so that the judge knows which ones a run lacks.

Named as ``py:torture.environments:NAME``. Their episodes depend on the seeds alone.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import gymnasium
import numpy as np

LOG = "log"
"""In the current folder: a dot for every finished episode."""


class Log:
    """Appends to the log file; ``episode_ends`` is called before the last step returns."""

    def __init__(self) -> None:
        self.file = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def episode_ends(self) -> None:
        os.write(self.file, b".")


class Logged:
    """Nine rooms, which are discovered, three actions, at most six steps."""

    actions, horizon = ("left", "right", "jump"), 6

    def __init__(self, seconds: float = 0.0) -> None:
        self.log, self.seconds = Log(), seconds

    def reset(self, seed: int) -> str:
        self.rng, self.steps = random.Random(seed), 0
        return "room 0"

    def step(self, action: str) -> tuple[str, float, bool]:
        if self.seconds:
            time.sleep(self.seconds)
        self.steps += 1
        over = self.steps == self.horizon or (action == "jump" and self.rng.random() < 0.3)
        if over:
            self.log.episode_ends()
        drawn = self.rng.randrange(9) if action == "right" else self.rng.randrange(4)
        return f"room {drawn}", float(action == "right"), over


class Fragile(Logged):
    """Raises an error in some steps, which depend on the seed."""

    def step(self, action: str) -> tuple[str, float, bool]:
        if action == "left" and self.rng.random() < 0.1:
            self.log.episode_ends()
            raise RuntimeError("it broke")
        return super().step(action)


class Pendulum(gymnasium.Env[Any, Any]):
    """Two real numbers, for state maps; episodes end by the horizon alone."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)
    horizon = 6

    def __init__(self) -> None:
        self.log = Log()

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
            self.log.episode_ends()
        return self.at.copy(), float(action), False, False, {}
