"""RF-RL-Explore (Jin, Krishnamurthy, Simchowitz, Yu, ICML 2020).

First, for every state at every stage, N_0 episodes of a regret minimiser whose reward is being
there (EULER in the paper, our optimistic planner here). Then, for good, episodes of policies drawn
from all of those, with a uniform action at the stage and state they were meant for. The paper asks
for N_0 of order S^2 A H^4 log^3 / eps; practical: tens. (It could not be checked against code:
none was found.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import ANY, Mixture, Rollout
from covgame.game.counts import Counts
from covgame.types import FloatArray, IntArray, Shape

SMALL = 0.03
STREAM = 7


def learning_episodes(shape: Shape, epsilon: float, delta: float) -> float:
    """N_0 = S^2 A H^4 iota^3/eps, iota = log(SAH/(delta eps)); the paper's constant is free: 1."""
    H, S, A = shape.hsa
    iota = math.log(shape.cells / (delta * epsilon))
    return S**2 * A * H**4 * iota**3 / epsilon


def reaching(shape: Shape, h: int, s: int, *, per_pair: bool = False) -> Curiosity:
    """Optimism for the reward of being in s at stage h; what comes later is worth nothing."""
    reward = np.zeros(shape.hsa)
    reward[h, s] = 1.0
    caps = np.where(np.arange(shape.horizon) <= h, 1.0, 0.0)
    return Curiosity(caps, _bonus, variance_scale=_bonus, reward=reward, per_pair=per_pair)


def _bonus(n: FloatArray) -> FloatArray:
    return SMALL / np.maximum(n, 0.5)


@dataclass
class RFRLExplore:
    """Remembers the last policy for each goal, and goes through them at random afterwards."""

    episodes_each: int = 25
    seed: int = 0
    per_pair: bool = False
    replans: bool = False
    learnt: list[IntArray] = field(default_factory=list)  # (H, S), ANY at their goals
    learning: Curiosity | None = None

    def ask(self, counts: Counts) -> Rollout:
        shape = counts.shape
        if self.learning is not None:
            table = self.learning.policy(counts).table.copy()
            table[divmod(len(self.learnt), shape.states)] = ANY
            self.learnt.append(table)
        if len(self.learnt) == shape.horizon * shape.states:
            return Rollout(Mixture(np.array(self.learnt), self.seed, STREAM))
        goal = divmod(len(self.learnt), shape.states)
        bonus = reaching(shape, *goal, per_pair=self.per_pair)
        self.learning = replace(bonus, replans=self.replans)
        return Rollout(self.learning, self.episodes_each)
