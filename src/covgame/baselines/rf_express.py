"""RF-Express (Menard, Domingues, Jonsson, Kaufmann, Leurent, Valko, ICML 2021).

Bonuses of order 1/n instead of 1/sqrt(n):

    W_h(s,a) = min(H, 15 H^2 beta(n)/n + (1 + 1/H) p_hat max_b W_{h+1}),

stopping when 3e sqrt(max_a W_1) + max_a W_1 <= eps/2; the constants are those of the authors'
public code, which also runs it with n counted over all stages (``per_pair``). Practical: a cell is
worth scale/(2n).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import CuriousPeer
from covgame.game.counts import Counts
from covgame.types import FloatArray, Shape


def threshold(visits: FloatArray, shape: Shape, delta: float) -> FloatArray:
    """beta(n, delta) = log(3SAH/delta) + S log(8e(n+1))."""
    return math.log(3 * shape.cells / delta) + shape.states * np.log(8 * math.e * (visits + 1))


@dataclass(frozen=True)
class RFExpress(CuriousPeer):
    """RF-Express with its confidence ``delta``, or, without one, its practical form."""

    scale: float = 1.0

    def curiosity(self, shape: Shape) -> Curiosity:
        """The recursion for W."""
        H = shape.horizon
        if self.delta is None:
            return Curiosity(
                2.0 * np.arange(H, 0, -1.0),
                lambda n: self.scale * 0.5 / np.maximum(n, 0.5),
                slope=1 + 1 / H,
                per_pair=self.per_pair,
            )
        delta = self.delta
        return Curiosity(
            np.full(H, float(H)),
            lambda n: 15 * H**2 * threshold(n, shape, delta) / n,
            slope=1 + 1 / H,
            per_pair=self.per_pair,
        )

    def error(self, counts: Counts) -> float:
        """2 (3e sqrt(W_1) + W_1): what its stopping rule compares with eps."""
        first = self.curiosity(counts.shape).plan(counts)[1]
        return 2 * (3 * math.e * math.sqrt(first) + first)
