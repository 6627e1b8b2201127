"""Every threshold of the paper, each with its equation: one place to check them.

``scale`` multiplies all of them. At 1 they are the paper's and its guarantees hold; below 1 an
algorithm runs the same way in fewer episodes and proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log

from covgame.types import Shape


@dataclass(frozen=True)
class PaperThresholds:
    """The paper's thresholds for a world of H stages, S states and A actions."""

    shape: Shape
    scale: float = 1.0

    def transitions(self, n: float, delta: float) -> float:
        """beta(n, delta) = log(2SAH/delta) + S log(8e(n+1)): n KL(p_hat, p) (Appendix C)."""
        _, S, _ = self.shape.hsa
        return self.scale * (self.log_cells(delta) + S * log(8 * e * (n + 1)))

    def visits(self, delta: float) -> float:
        """beta^cnt(delta) = log(2SAH/delta): n >= n_bar/2 - beta^cnt (Appendix C, event G)."""
        return self.scale * self.log_cells(delta)

    def reward_free(self, t: float, delta: float) -> float:
        """beta^RF(t, delta) = 4H^2 log(1/delta) + 24SH^3 log(A(1+t)) (Appendix D.2)."""
        H, S, A = self.shape.hsa
        return self.scale * (4 * H**2 * log(1 / delta) + 24 * S * H**3 * (log(A) + log(1.0 + t)))

    def rewards(self, t: float, delta: float) -> float:
        """beta^r(t, delta) = 4 log(2/delta) + 2SAH log(1+t) (Appendix D.3)."""
        return self.scale * (4 * log(2 / delta) + 2 * self.shape.cells * log(1.0 + t))

    def values(self, t: float, delta: float) -> float:
        """beta^p(t, delta) = 4H^2 log(2/delta) + 24SAH^3 log(1+t) (Appendix D.3)."""
        H = self.shape.horizon
        return self.scale * (
            4 * H**2 * log(2 / delta) + 24 * self.shape.pairs * H**3 * log(1.0 + t)
        )

    def best_policy(self, t: float, delta: float) -> float:
        """beta^bpi(t, delta) = 16H^2 log(2/delta) + 96SAH^3 log(1+t) (Appendix D.3)."""
        H = self.shape.horizon
        return self.scale * (
            16 * H**2 * log(2 / delta) + 96 * self.shape.pairs * H**3 * log(1.0 + t)
        )

    def planner_regret(self, episodes: float, delta: float) -> float:
        """R^Pi_delta(T) = 65536SAH^2 (log(2SAH/delta) + 6S) log(T+1)^2 (eq. regret-pi)."""
        H, S, _ = self.shape.hsa
        per_log = 65536 * self.shape.pairs * H**2 * (self.log_cells(delta) + 6 * S)
        return self.scale * per_log * log(episodes + 1.0) ** 2

    def adversary_regret(self) -> float:
        """R^lambda = 16 log(SAH) (eq. regret-lambda)."""
        return self.scale * 16 * log(self.shape.cells)

    def visitation_episodes(self, precision: float, delta: float) -> int:
        """T(eps_0, delta) = inf{T : 4R^Pi_{delta/2}(T) + 6 log(4/delta) <= eps_0 T/4}.

        Line 3 of EstimateVisitations. The right side is linear and the left one concave from
        T = 2 on, so they cross once.
        """

        def enough(episodes: int) -> bool:
            needed = 4 * self.planner_regret(episodes, delta / 2) + self.scale * 6 * log(4 / delta)
            return needed <= precision * episodes / 4

        last = 1
        while not enough(last):
            last *= 2
        first = last // 2
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if enough(middle) else (middle, last)
        return last

    def covering_episodes(
        self, cost: float, cost_of_one: float, levels: int, delta: float
    ) -> float:
        """Theorem 2: CovGame takes at most 64 m phi*(c) + T_1 with probability 1 - delta.

        ``cost`` is phi*(c), ``cost_of_one`` phi*(1_X), and ``levels`` m = log2(c_max/c_min), at
        least 1 and rounded up. T_1 = inf{T : T/2 >= m phi*(1_X) (3R^Pi_{delta/2}(T) + 12R^lambda
        + 24 log(4T/delta)) + 1}.
        """

        def enough(episodes: float) -> bool:
            regrets = 3 * self.planner_regret(episodes, delta / 2) + 12 * self.adversary_regret()
            chance = self.scale * 24 * log(4 * episodes / delta)
            return episodes / 2 >= levels * cost_of_one * (regrets + chance) + 1

        last = 1.0
        while not enough(last):
            last *= 2
        first = last / 2
        while last - first > max(0.5, 1e-9 * last):
            middle = (first + last) / 2
            first, last = (first, middle) if enough(middle) else (middle, last)
        return 64 * levels * cost + last

    def log_cells(self, delta: float) -> float:
        """log(2SAH/delta)."""
        return log(2 * self.shape.cells / delta)
