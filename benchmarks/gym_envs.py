"""Gymnasium's toy text, played by its own step: episodes over phi*, and who takes the time.

    python3 dev.py bench gym_envs

The share is the time outside ``reset`` and ``step`` (planning, counting, our part of the loop),
over all of the time.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from covgame.config import CoverConfig
from covgame.runs.cover import start
from covgame.runs.loop import play
from covgame.sources.stepped import SteppedSource
from covgame.sources.steppers import Step, Stepper

CASES = [
    ("gym:FrozenLake-v1", 15, "uniform:10", 0.01, 10),
    ("gym:FrozenLake-v1", 15, "uniform:50/pair", 0.0, 10),
    ("gym:CliffWalking-v1", 20, "uniform:50/pair", 0.0, 5),
    ("gym:Taxi-v4", 20, "uniform:10/pair", 0.0, 3),
    ("gym:Blackjack-v1", 8, "uniform:3/pair", 0.0, 2),
]


class Timed(Stepper):
    """A stepper that knows how long it took."""

    def __init__(self, inner: Stepper) -> None:
        self.inner, self.actions, self.world = inner, inner.actions, inner.world
        self.spaces = inner.spaces
        self.seconds = 0.0

    def reset(self, seed: int) -> tuple[Any, Any]:
        """Start an episode."""
        began = time.perf_counter()
        shown = self.inner.reset(seed)
        self.seconds += time.perf_counter() - began
        return shown

    def step(self, action: int) -> Step:
        """Take an action."""
        began = time.perf_counter()
        shown = self.inner.step(action)
        self.seconds += time.perf_counter() - began
        return shown


def measure(env: str, horizon: int, target: str, reach: float, seeds: int) -> dict[str, Any]:
    """Mean episodes, mean ratio, and our share of the time."""
    environment = cg.make(env, horizon)
    cg.cover(environment, target, min_reach=reach, max_episodes=20)  # compiled and imported
    episodes, ours = [], []
    cost = None
    for seed in range(seeds):
        run = start(environment, target, CoverConfig(seed=seed, min_reach=reach))
        if not isinstance(run.source, SteppedSource):
            raise TypeError("this benchmark is for environments that are played step by step")
        timed = Timed(run.source.stepper)
        run.source.stepper = timed
        began = time.perf_counter()
        for _ in play(run):
            pass
        ours.append(1 - timed.seconds / (time.perf_counter() - began))
        episodes.append(run.n_episodes)
        cost = cost or run.min_episodes
    row = {
        "env": env,
        "horizon": horizon,
        "target": target,
        "reach": reach,
        "episodes": float(np.mean(episodes)),
        "phi": cost,
        "share": float(np.median(ours)),
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    _results.write("gym_envs", [measure(*case) for case in CASES])
