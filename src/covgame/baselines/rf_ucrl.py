"""RF-UCRL (Kaufmann, Menard, Domingues, Jonsson, Leurent, Valko, ALT 2021).

Plays greedily for an upper bound on the error of every policy's value,

    E_h(s,a) = min(H, H sqrt(2 beta(n)/n) + p_hat max_b E_{h+1}),

and stops when max_a E_1 <= eps/2. Practical: beta is dropped, a cell is worth 1/sqrt(n).
"""

from __future__ import annotations

import math

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import CuriousPeer
from covgame.game.counts import Counts
from covgame.types import FloatArray, Shape


def threshold(visits: FloatArray, shape: Shape, delta: float) -> FloatArray:
    """beta(n, delta) = log(2SAH/delta) + (S-1) log(e(1 + n/(S-1)))."""
    others = max(1, shape.states - 1)
    unions = math.log(2 * shape.cells / delta)
    return unions + (shape.states - 1) * np.log(math.e * (1 + visits / others))


class RFUCRL(CuriousPeer):
    """RF-UCRL with its confidence ``delta``, or, without one, its practical form."""

    def curiosity(self, shape: Shape) -> Curiosity:
        """The recursion for E."""
        H = shape.horizon
        if self.delta is None:
            return Curiosity(
                np.arange(H, 0, -1.0), lambda n: 1 / np.sqrt(np.maximum(n, 0.5)) / math.sqrt(2)
            )
        delta = self.delta
        return Curiosity(
            np.full(H, float(H)), lambda n: H * np.sqrt(2 * threshold(n, shape, delta) / n)
        )

    def error(self, counts: Counts) -> float:
        """2 max E_1: what its stopping rule compares with eps."""
        return 2 * self.curiosity(counts.shape).plan(counts)[1]
