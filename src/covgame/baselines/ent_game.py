"""EntGame (Tiapkin et al., ICML 2023): a game for the largest entropy of visits.

A forecaster predicts the density of visits, d_h(s,a) = (n_h(s,a) + 1)/(t + SA), and a sampler plays
optimistically for the reward log(1/d). Its authors' public code counts n over all stages and t in
steps (``per_pair``), and adds the bonus

    (H - h + 1) log(t + SA) sqrt(beta(n)/max(1, n)),
    beta(n) = log(4SAH/delta) + (S-1) log(e(1 + n/(S-1))),

without any clipping; what was never tried leads to any state alike. They run it without a bonus,
too, which covers soonest. Practical: a Bernstein bonus sqrt(b Var/n) + b H log(SA)/n, and whatever
was never tried is worth the most that it could be, which is kinder. b = 0 is their second form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from covgame.baselines import rf_ucrl
from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import CuriousPeer
from covgame.types import FloatArray, Shape


@dataclass(frozen=True)
class EntGame(CuriousPeer):
    """The game with confidence ``delta``, or, without one, its practical form."""

    b: float = 0.03

    def curiosity(self, shape: Shape) -> Curiosity:
        """The sampler's recursion; log(t + SA) bounds the reward, so it multiplies the caps."""
        left, offset = np.arange(shape.horizon, 0, -1.0), float(shape.pairs)
        if self.delta is None:
            return self._practical(shape, left, offset)
        half = self.delta / 2  # RF-UCRL's beta has 2SAH where this one has 4SAH

        def width(n: FloatArray) -> FloatArray:
            return np.sqrt(rf_ucrl.threshold(n, shape, half) / np.maximum(n, 1.0))

        return Curiosity(
            left, _surprise, width, log_offset=offset, per_pair=self.per_pair, clips=False
        )

    def _practical(self, shape: Shape, left: FloatArray, offset: float) -> Curiosity:
        largest = shape.horizon * math.log(shape.pairs)
        return Curiosity(
            left,
            lambda n: _surprise(n) + self.b * largest / np.maximum(n, 0.5),
            variance_scale=lambda n: self.b / np.maximum(n, 0.5),
            log_offset=offset,
            per_pair=self.per_pair,
        )


def _surprise(n: FloatArray) -> FloatArray:
    """log(1/d), but for what all cells share."""
    surprise: FloatArray = -np.log(n + 1.0)
    return surprise
