"""Random numbers of an episode and what is drawn with them: ``rng``, ``sources/simulated.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from covgame.kernels.jit import compiled, inlined
from covgame.rng import FIRST_FACTOR, INCREMENT, SECOND_FACTOR, UNIT

U11, U27, U30, U31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)


@compiled
def _mix(bits: Any) -> Any:
    bits = (bits ^ (bits >> U30)) * FIRST_FACTOR
    bits = (bits ^ (bits >> U27)) * SECOND_FACTOR
    return bits ^ (bits >> U31)


@compiled
def episode_key(seed: Any, stream: Any, episode: Any) -> Any:
    """What the numbers of an episode follow from, as in ``rng.uniforms``."""
    key = _mix(np.uint64(0) + INCREMENT + np.uint64(seed))
    key = _mix(key + INCREMENT + np.uint64(stream))
    return _mix(key + INCREMENT + np.uint64(episode))


@compiled
def uniform(key: Any, index: Any) -> Any:
    """Number ``index`` (from 0) of ``rng.uniforms``."""
    return float(_mix(key + np.uint64(index + 1) * INCREMENT) >> U11) * UNIT


@compiled
def draw(probability: Any, first: Any, last: Any, number: Any) -> Any:
    """The place whose share of [0, 1) holds the number; the last possible one takes the rest."""
    reached, possible = 0.0, first
    for place in range(first, last):
        reached += probability[place]
        if probability[place] > 0.0:
            possible = place
        if number < reached:
            return place
    return possible


@inlined
def step_reward(key, h, s, a, rewards):  # type: ignore[no-untyped-def]
    """What a step earns."""
    return 1.0 if uniform(key, 3 + 3 * h) < rewards[h % len(rewards), s, a] else 0.0
