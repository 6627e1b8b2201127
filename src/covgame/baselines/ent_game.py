"""EntGame (Tiapkin et al., ICML 2023): a game for the largest entropy of visits.

A forecaster predicts the density of visits, d_h(s,a) = (n_h(s,a) + 1)/(t + SA), and a sampler plays
optimistically for the reward log(1/d). Here the sampler is UCBVI with the bonus
sqrt(b Var/n) + b H log(SA)/n: b = 8 beta as published, b = 0.03 in the practical form (ours).
"""

from __future__ import annotations

import math

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import CuriousPeer
from covgame.baselines.rf_express import threshold
from covgame.types import FloatArray, Shape

SMALL = 0.03


class EntGame(CuriousPeer):
    """The game with confidence ``delta``, or, without one, its practical form."""

    def curiosity(self, shape: Shape) -> Curiosity:
        """The sampler's recursion; log(t + SA) bounds the reward, so it multiplies the caps."""
        largest = shape.horizon * math.log(shape.pairs)

        def b(n: FloatArray) -> FloatArray:
            if self.delta is None:
                return np.full(len(n), SMALL)
            return 8 * threshold(n, shape, self.delta)

        def worth(n: FloatArray) -> FloatArray:
            return -np.log(n + 1.0) + b(n) * largest / np.maximum(n, 0.5)

        return Curiosity(
            np.arange(shape.horizon, 0, -1.0),
            worth,
            lambda n: b(n) / np.maximum(n, 0.5),
            log_offset=float(shape.pairs),
        )
