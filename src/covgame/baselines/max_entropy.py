"""Maximum entropy by Frank-Wolfe (Hazan, Kakade, Singh, Van Soest, ICML 2019).

Every round adds a policy to a uniform mixture: the best one, on the learnt model, for the gradient
of the smoothed entropy at the density of the mixture so far, log(1/(d + sigma)). The oracle plans
without bonuses and takes what it has never tried for the best there is. The mixture is played as it
grows, so its density is that of all visits, stage by stage or ``per_pair``. (The authors' public
experiments take the density over states alone and have no tabular oracle; over states *and* actions
it covers sooner.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import Rollout
from covgame.game.counts import Counts


@dataclass(frozen=True)
class MaxEntropy:
    """``episodes`` of each policy: 1 is the practical form, what a proof needs is thousands."""

    episodes: int = 1
    smoothing: float = 1.0  # sigma, in visits
    per_pair: bool = False
    replans: bool = False

    def ask(self, counts: Counts) -> Rollout:
        sigma = self.smoothing
        oracle = Curiosity(
            np.arange(counts.shape.horizon, 0, -1.0),
            lambda n: -np.log(n + sigma),
            log_offset=1.0 + sigma,
            per_pair=self.per_pair,
            replans=self.replans,
        )
        if self.episodes == 1:
            return Rollout(oracle)
        return Rollout(oracle.policy(counts), self.episodes)
