"""Which random numbers recorded episodes were drawn with: certificates need them independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from covgame.errors import BadInput
from covgame.types import IntArray

SEEDS = 2**31
"""How many seeds there are, so that a few of many episodes share one by chance."""


@dataclass(frozen=True, eq=False)
class Draws:
    """What is recorded about the random numbers of a dataset."""

    name: str
    seeds: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # sorted, unique
    stream: str | None = None  # of a simulated run, which records no seed per episode
    digest: str | None = None  # of all steps

    def repeats(self, other: Draws) -> bool:
        """Whether episodes of both share random numbers, beyond what chance explains."""
        shared = len(np.intersect1d(self.seeds, other.seeds, assume_unique=True))
        fewer = min(len(self.seeds), len(other.seeds))
        by_chance = len(self.seeds) * len(other.seeds) / SEEDS
        same_seeds = shared > 0 and (shared == fewer or shared > 3 + 4 * by_chance)
        same_stream = self.stream is not None and self.stream == other.stream
        return (
            same_seeds or same_stream or (self.digest is not None and self.digest == other.digest)
        )


def require_independent(found: Sequence[Draws]) -> None:
    """Refuse datasets whose episodes repeat the random numbers of others."""
    for place, one in enumerate(found):
        for other in found[:place]:
            if one.repeats(other):
                raise BadInput(
                    f"{other.name} and {one.name} were played with the same seeds, so that their "
                    "episodes are not independent, and a certificate needs that; leave one of "
                    "them out, and give every run another --seed"
                )
