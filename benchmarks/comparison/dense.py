"""The planner that everybody writes first: dense arrays, S x A x S. A yardstick for time."""

from __future__ import annotations

import statistics
import time

import numpy as np

from covgame.mdp.model import TabularMDP
from covgame.types import FloatArray


class DensePlanner:
    """Backward induction by matrix products, as short as NumPy allows."""

    def __init__(self, model: TabularMDP) -> None:
        _, S, A = model.shape.hsa
        self.shape = model.shape
        self.kernel = np.zeros((S * A, S))
        stage = model.transitions.stages[0]
        row = np.repeat(np.arange(S * A), np.diff(stage.start))
        kept = stage.next_state >= 0
        self.kernel[row[kept], stage.next_state[kept]] = stage.probability[kept]

    def plan(self, rewards: FloatArray) -> FloatArray:
        """Optimal values at every stage, for rewards by stage, state and action."""
        H, S, A = self.shape.hsa
        values = np.zeros((H + 1, S))
        for h in reversed(range(H)):
            values[h] = (rewards[h] + (self.kernel @ values[h + 1]).reshape(S, A)).max(axis=1)
        return values

    def seconds_per_plan(self, seconds: float) -> float:
        """The median over as many plans as fit into so many seconds."""
        reward = np.random.default_rng(0).random(self.shape.hsa[1:])
        rewards = np.broadcast_to(reward, self.shape.hsa)
        times: list[float] = []
        began = time.perf_counter()
        while len(times) < 3 or time.perf_counter() - began < seconds:
            at = time.perf_counter()
            self.plan(rewards)
            times.append(time.perf_counter() - at)
        return statistics.median(times)
