"""RF-RL-Explore (Jin, Krishnamurthy, Simchowitz, Yu, ICML 2020).

First, for every state at every stage, N_0 episodes of a regret minimiser whose reward is being
there (EULER in the paper, our optimistic planner here). Then, for good, episodes of policies drawn
from all of those, with a uniform action at the stage and state they were meant for. The paper asks
for N_0 of order S^2 A H^4 log^3 / eps; practical: tens. (It could not be checked against code:
none was found.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import Stretch
from covgame.game.counts import Counts
from covgame.rng import uniforms
from covgame.types import FloatArray, Policy, Shape

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
    return Curiosity(caps, _bonus, spread=_bonus, reward=reward, per_pair=per_pair)


def _bonus(n: FloatArray) -> FloatArray:
    return SMALL / np.maximum(n, 0.5)


@dataclass
class RFRLExplore:
    """Remembers the last policy for each goal, and goes through them at random afterwards."""

    episodes_each: int = 25
    seed: int = 0
    per_pair: bool = False
    learnt: list[Policy] = field(default_factory=list)
    learning: bool = False

    def ask(self, counts: Counts) -> Stretch:
        shape = counts.shape
        goals = [(h, s) for h in range(shape.horizon) for s in range(shape.states)]
        if self.learning:
            h, s = goals[len(self.learnt)]
            self.learnt.append(_then_anything(self._goal(shape, h, s).policy(counts), h, s))
        if len(self.learnt) < len(goals):
            self.learning = True
            return Stretch(self._goal(shape, *goals[len(self.learnt)]), self.episodes_each)
        self.learning = False
        number = float(uniforms(self.seed, STREAM, counts.n_episodes, 1)[0])
        return Stretch(self.learnt[int(number * len(self.learnt))], 1)

    def _goal(self, shape: Shape, h: int, s: int) -> Curiosity:
        return reaching(shape, h, s, per_pair=self.per_pair)


def _then_anything(policy: Policy, h: int, s: int) -> Policy:
    """The policy with a uniform action in s at stage h."""
    chances = policy.probabilities()
    chances[h, s] = 1.0 / policy.actions
    return Policy.stochastic(chances)
