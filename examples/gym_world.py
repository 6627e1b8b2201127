"""A Gymnasium environment of one's own, with an action mask.

covgame cover py:examples.gym_world:stairs --target uniform:5
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Stairs(gymnasium.Env[Any, Any]):
    """Up or down a stair that is slippery; at the bottom there is no way down."""

    def __init__(self, steps: int = 5) -> None:
        self.observation_space = gymnasium.spaces.Discrete(steps)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.steps, self.at = steps, 0

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([self.at > 0, True], dtype=np.int8)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """At the bottom."""
        super().reset(seed=seed)
        self.at = 0
        return self.at, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Up is 1, down is 0; one in ten steps slips back to the bottom."""
        up = self.at + (1 if action == 1 else -1)
        self.at = 0 if self.np_random.random() < 0.1 else min(up, self.steps - 1)
        return self.at, float(self.at == self.steps - 1), False, False, self._info()


class Limited(Stairs):
    """The same with a horizon in its specification."""

    spec = gymnasium.envs.registration.EnvSpec("Stairs-v0", max_episode_steps=8)


def stairs() -> Limited:
    """What ``py:examples.gym_world:stairs`` calls."""
    return Limited()
