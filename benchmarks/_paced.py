"""A world whose steps take a given time, asleep or at work: for measuring workers."""

from __future__ import annotations

import random
import time
from typing import Any


class Paced:
    """A corridor of 12 places with a wind; ``micros`` a step, ``busy`` if it really computes."""

    actions, horizon = 2, 20

    def __init__(self, micros: str = "1000", busy: str = "no") -> None:
        self.seconds, self.busy = int(micros) * 1e-6, busy == "yes"

    def reset(self, seed: int) -> int:
        """Begin at one end."""
        self.random, self.at = random.Random(seed), 0
        return self.at

    def step(self, action: int) -> tuple[Any, float, bool]:
        """One place on or back, against the wind."""
        if self.busy:
            until = time.perf_counter() + self.seconds
            while time.perf_counter() < until:
                pass
        else:
            time.sleep(self.seconds)
        onwards = action == 1 and self.random.random() < 0.7
        self.at = min(11, max(0, self.at + (1 if onwards else -1)))
        return self.at, 0.0, False
