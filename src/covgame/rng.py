"""Randomness keyed by (seed, stream, episode), not drawn from one long stream.

Episode 1,000 gets the same numbers whether the 999 before it were played here, elsewhere, or
in an earlier run; resuming, replaying and spreading over workers then need no state. The
generator is SplitMix64 on a hashed key: a few integer operations, the same everywhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from covgame.types import FloatArray

UIntArray = npt.NDArray[np.uint64]

INCREMENT = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
UNIT = 2.0**-53


def uniforms(seed: int, stream: int, episode: int, count: int) -> FloatArray:
    """``count`` numbers in [0, 1) that depend on nothing but the key."""
    with np.errstate(over="ignore"):
        key = np.zeros(1, dtype=np.uint64)
        for part in (seed, stream, episode):
            key = mix(key + INCREMENT + np.uint64(part))
        steps = np.arange(1, count + 1, dtype=np.uint64) * INCREMENT
        return (mix(key + steps) >> np.uint64(11)).astype(np.float64) * UNIT


def mix(bits: UIntArray) -> UIntArray:
    """SplitMix64's finaliser: every bit of the input moves every bit of the output."""
    bits = (bits ^ (bits >> np.uint64(30))) * FIRST_FACTOR
    bits = (bits ^ (bits >> np.uint64(27))) * SECOND_FACTOR
    return bits ^ (bits >> np.uint64(31))


def episode_seed(seed: int, stream: int, episode: int) -> int:
    """A whole number below 2^31 for environments that seed themselves; quick, without arrays."""
    key = 0
    for part in (seed, stream, episode, 1):
        key = _mix_one((key + int(INCREMENT) + part) % 2**64)
    return key >> 33


def _mix_one(bits: int) -> int:
    """``mix`` of one number."""
    bits = ((bits ^ (bits >> 30)) * int(FIRST_FACTOR)) % 2**64
    bits = ((bits ^ (bits >> 27)) * int(SECOND_FACTOR)) % 2**64
    return bits ^ (bits >> 31)
