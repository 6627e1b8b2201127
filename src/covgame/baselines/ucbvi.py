"""UCBVI (Azar, Osband, Munos, ICML 2017) and BPI-UCBVI (Menard et al., ICML 2021).

UCBVI plays optimistically for the environment's own reward. It is what people run when they want
high returns, and here to show that high returns are not coverage. Its practical form has the bonus
sqrt(b Var/n) + b H/n. The constants of Azar et al. are not here: with a confidence ``delta`` the
bonus is that of BPI-UCBVI, which explores in the same way and stops by a bound on the gap of its
policy,

    G_h = min(H, 6 sqrt(Var beta*/n) + 36 H^2 beta/n + (1 + 3/H) p_hat G_{h+1}(pi)),

when G_1 <= eps, with beta = log(3SAH/delta) + S log(8e(n+1)), beta* = log(3SAH/delta) +
log(8e(n+1)), and the bonus 3 sqrt(Var beta*/n) + 14 H^2 beta/n + p_hat(U - L)/H, of which the last
term is left out here: that makes it explore less, never stop earlier. (No public code of BPI-UCBVI
was found to check this against.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import CuriousPeer
from covgame.baselines.rf_express import threshold
from covgame.game.counts import Counts
from covgame.mdp.transitions import Transitions
from covgame.types import FloatArray, Policy, Shape


def value_threshold(visits: FloatArray, shape: Shape, delta: float) -> FloatArray:
    """beta*(n, delta) = log(3SAH/delta) + log(8e(n+1)): one function instead of all."""
    return math.log(3 * shape.cells / delta) + np.log(8 * math.e * (visits + 1))


@dataclass(frozen=True)
class UCBVI(CuriousPeer):
    """UCBVI with the practical bonus ``b``, or, given ``delta``, with the one of BPI-UCBVI."""

    b: float = 0.03

    def curiosity(self, shape: Shape) -> Curiosity:
        """Optimistic values: the mean reward seen so far, and a bonus by Bernstein."""
        H, delta = shape.horizon, self.delta
        left = np.arange(H, 0, -1.0)
        if delta is None:
            return Curiosity(
                left,
                lambda n: self.b * H / np.maximum(n, 0.5),
                variance_scale=lambda n: self.b / np.maximum(n, 0.5),
                learns_rewards=True,
                per_pair=self.per_pair,
            )
        return Curiosity(
            left,
            lambda n: 14 * H**2 * threshold(n, shape, delta) / n,
            variance_scale=lambda n: 9 * value_threshold(n, shape, delta) / np.maximum(n, 0.5),
            learns_rewards=True,
            per_pair=self.per_pair,
        )


@dataclass(frozen=True)
class BPIUCBVI(UCBVI):
    """UCBVI that knows when to stop."""

    delta: float | None = 0.1

    def gap(self, counts: Counts) -> tuple[Policy, float]:
        """(the policy it recommends, G_1: a bound on what it loses)."""
        shape, delta = counts.shape, self.delta or 0.1
        policy = self.curiosity(shape).policy(counts)
        kernel, H = counts.kernel(), shape.horizon
        n = counts.visits.astype(np.float64)
        upper = _values(kernel, policy, counts.mean_rewards())
        with np.errstate(divide="ignore", invalid="ignore"):
            wide = 6 * np.sqrt(value_threshold(n, shape, delta) / n)
            flat = 36 * H**2 * threshold(n, shape, delta) / n
        gap = np.zeros(shape.states)
        for h in reversed(range(H)):
            bound = flat[h]
            if h + 1 < H:
                stage = kernel.stages[h]
                mean, square = stage.expect(upper[h + 1]), stage.expect(upper[h + 1] ** 2)
                deviation = np.sqrt(np.maximum(square - mean**2, 0.0)).reshape(bound.shape)
                expected = stage.expect(gap).reshape(bound.shape)
                with np.errstate(invalid="ignore"):
                    bound = bound + wide[h] * deviation + (1 + 3 / H) * expected
            bound = np.fmin(np.where(n[h] > 0, bound, H), H)
            gap = np.take_along_axis(bound, policy.table[h][:, None], axis=1)[:, 0]
        return policy, float(kernel.initial @ gap)


def _values(kernel: Transitions, policy: Policy, rewards: FloatArray) -> FloatArray:
    """The values of the policy on the learnt model, whose spread the bound is about."""
    from covgame.mdp import dp

    return dp.evaluate(kernel, policy, rewards)
