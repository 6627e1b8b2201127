"""EstimateVisitations (Algorithm 5): how likely can each state be reached at each stage?

For one (h,s) a regret minimiser plays T episodes for the reward 1{(h,s)}; the share of its visits
bounds W_h(s) = max_pi p_h^pi(s) from both sides (Theorem estimate-visitations). The minimiser is
UCBVI: the planner of the game, against an adversary that asks for nothing but (h,s) and never has
enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.episodes import Block
from covgame.game.adversary import MissingOnly
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, PaperOptimism
from covgame.pac.tasks import CoverTask, PhaseReport
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, BoolHS, FloatHS


@dataclass(frozen=True)
class Interval:
    """What the visits of a state say of W_h(s)."""

    lower: float
    upper: float


def interval(visits: int, episodes: int, precision: float) -> Interval:
    """Line 6: ((n/(2T) - eps_0/16) v 0, (2n/T + eps_0/4) ^ 1)."""
    share = visits / episodes
    return Interval(
        max(share / 2 - precision / 16, 0.0),
        min(2 * share + precision / 4, 1.0),
    )


def visitation_task(
    thresholds: PaperThresholds,
    h: int,
    s: int,
    precision: float,
    delta: float,
    allowed: BoolArray | None = None,
) -> CoverTask:
    """EstimateVisitations((h,s); eps_0, delta), lines 3 and 4: what to play."""
    shape = thresholds.shape
    episodes = thresholds.visitation_episodes(precision, delta)
    never_enough = Target.of_rows(shape, np.array([[h, s, ANY]]), np.array([2.0 * episodes]))
    optimism = PaperOptimism(shape, delta / 2, thresholds.scale)
    counts = Counts(shape, pooled=False)
    game = Game(never_enough, OptimisticPlanner(optimism), MissingOnly(), counts, allowed)
    return CoverTask(f"visits of state {s} at stage {h}", game, episodes)


class EstimateVisitations:
    """All (h,s), one after the other, each with its share delta/(SH) of the risk."""

    needs_episodes = False

    def __init__(
        self,
        thresholds: PaperThresholds,
        precision: float,
        delta: float,
        allowed: BoolArray | None = None,  # (S, A), where the environment forbids actions
    ) -> None:
        self.thresholds, self.precision, self.allowed = thresholds, precision, allowed
        H, S, _ = thresholds.shape.hsa
        self.delta_each = delta / (S * H)
        self.counts = Counts(thresholds.shape, pooled=False)  # of all parts together
        self.lower: FloatHS = np.zeros((H, S))
        self.upper: FloatHS = np.ones((H, S))
        self.phases: list[PhaseReport] = []

    @property
    def done(self) -> int:
        """How many (h,s) have their interval."""
        return len(self.phases)

    def next_task(self) -> CoverTask | None:
        H, S, _ = self.thresholds.shape.hsa
        if self.done == H * S:
            return None
        h, s = divmod(self.done, S)
        return visitation_task(self.thresholds, h, s, self.precision, self.delta_each, self.allowed)

    def tell(self, task: CoverTask, episodes: Sequence[Block] = ()) -> bool:
        del episodes
        h, s = divmod(self.done, self.thresholds.shape.states)
        visits = int(task.game.counts.visits[h, s].sum())
        found = interval(visits, task.played, self.precision)
        self.lower[h, s], self.upper[h, s] = found.lower, found.upper
        self.counts.include(task.game.counts)
        notes: dict[str, float | str] = {"lower": found.lower, "upper": found.upper}
        self.phases.append(PhaseReport(task.name, task.played, 1, 0.0, notes=notes))
        return True

    def kept(self) -> BoolHS:
        """X_hat = {(h,s) : lower >= eps_0/8}."""
        kept: BoolHS = self.lower >= self.precision / 8
        return kept

    def state(self) -> dict[str, Any]:
        return {"lower": self.lower.tolist(), "upper": self.upper.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        self.lower[:], self.upper[:] = state["lower"], state["upper"]
