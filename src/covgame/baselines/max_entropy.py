"""Maximum entropy by Frank-Wolfe (Hazan, Kakade, Singh, Van Soest, ICML 2019), stage by stage.

Every round adds a policy to a uniform mixture: the best one, on the learnt model, for the gradient
of the smoothed entropy at the density of the mixture so far, log(1/(d + sigma)). The oracle plans
without bonuses and, as in its tabular form, takes what it has never tried for the best there is.
The mixture is played as it grows, so its density is that of all visits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import Stretch
from covgame.game.counts import Counts


@dataclass(frozen=True)
class MaxEntropy:
    """``episodes`` of each policy: 1 is the practical form, what a proof needs is thousands."""

    episodes: int = 1
    smoothing: float = 1.0  # sigma, in visits

    def ask(self, counts: Counts) -> Stretch:
        sigma = self.smoothing
        oracle = Curiosity(
            np.arange(counts.shape.horizon, 0, -1.0),
            lambda n: -np.log(n + sigma),
            log_offset=1.0 + sigma,
        )
        if self.episodes == 1:
            return Stretch(oracle)
        return Stretch(oracle.policy(counts), self.episodes)
