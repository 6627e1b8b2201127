"""RF-UCRL (Kaufmann, Menard, Domingues, Jonsson, Leurent, Valko, ALT 2021).

Plays greedily for an upper bound on the error of every policy's value,

    E_h(s,a) = min(R_h, R_h sqrt(factor beta(n)/n) + p_hat max_b E_{h+1}),

and stops when max_a E_1 <= eps/2. R_h is what is left to earn: H-h+1 in the authors' public code,
which has factor 1 and no stopping rule, or H-h if rewards are known, so that the last transition
does not matter; the proof has factor 2. ``RULES`` lists these readings. To explore, that code takes
no minimum, either (``clips=False``). Practical: beta is dropped, a cell is worth scale/sqrt(n), or,
``falling``, (H-h+1) times as much as in that code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import CuriousPeer
from covgame.game.counts import Counts
from covgame.types import FloatArray, Shape


@dataclass(frozen=True)
class StoppingRule:
    """R_h = H-h + ``last`` (h from 1 on), and the factor on beta."""

    last: float
    factor: float

    def ranges(self, shape: Shape) -> FloatArray:
        """R_h of every stage, (H,)."""
        return np.arange(shape.horizon - 1, -1, -1.0) + self.last

    def width(self, visits: FloatArray, shape: Shape, delta: float) -> FloatArray:
        """sqrt(factor beta(n)/n), infinite where n = 0."""
        with np.errstate(divide="ignore"):
            return np.sqrt(self.factor * threshold(visits, shape, delta) / visits)


AUTHORS = StoppingRule(last=1.0, factor=1.0)
RULES = {
    "H-h+1, 2 beta": StoppingRule(last=1.0, factor=2.0),
    "authors' code": AUTHORS,
    "H-h, 2 beta": StoppingRule(last=0.0, factor=2.0),
    "sharpened by us": StoppingRule(last=0.0, factor=0.5),  # total variation instead of L1
}
"""Readings of the paper, its authors' code, and how far the proof would carry."""


def threshold(visits: FloatArray, shape: Shape, delta: float) -> FloatArray:
    """beta(n, delta) = log(2SAH/delta) + (S-1) log(e(1 + n/(S-1)))."""
    others = max(1, shape.states - 1)
    unions = math.log(2 * shape.cells / delta)
    return unions + (shape.states - 1) * np.log(math.e * (1 + visits / others))


@dataclass(frozen=True)
class RFUCRL(CuriousPeer):
    """RF-UCRL with its confidence ``delta`` and a stopping rule, or its practical form."""

    rule: StoppingRule = AUTHORS
    scale: float = 1.0  # these two: of the practical form
    falling: bool = False
    clips: bool = True  # if not: n is at least 1, and what was never tried leads anywhere

    def curiosity(self, shape: Shape) -> Curiosity:
        """The recursion for E."""
        if self.delta is not None:
            delta, rule, least = self.delta, self.rule, 0.0 if self.clips else 1.0
            return Curiosity(
                rule.ranges(shape),
                width=lambda n: rule.width(np.maximum(n, least), shape, delta),
                per_pair=self.per_pair,
                clips=self.clips,
            )
        caps = np.arange(shape.horizon, 0, -1.0)
        if self.falling:
            return Curiosity(caps, width=self._practical, per_pair=self.per_pair)
        return Curiosity(caps, self._practical, per_pair=self.per_pair)

    def _practical(self, n: FloatArray) -> FloatArray:
        """scale/sqrt(2n), and scale at n = 0."""
        return self.scale / np.sqrt(np.maximum(n, 0.5)) / math.sqrt(2)

    def error(self, counts: Counts) -> float:
        """2 max E_1: what its stopping rule compares with eps."""
        return 2 * self.curiosity(counts.shape).plan(counts)[1]
