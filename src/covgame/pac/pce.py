"""PCE (Algorithm 2): reward-free exploration by proportional coverage.

First the reachability of every (h,s) is bounded, then cells are visited in proportion to it, twice
as often from phase to phase, until the model is good enough for any reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.episodes import Block
from covgame.game.counts import Counts
from covgame.game.presets import paper_game
from covgame.pac.tasks import CoverTask, Phased, PhaseReport
from covgame.pac.visitations import EstimateVisitations
from covgame.targets.target import Target
from covgame.types import BoolArray, FloatHSA


class ProportionalCoverage(Phased):
    """PCE with the paper's thresholds; the model it ends with is eps-good for every reward."""

    needs_episodes = False

    def __init__(
        self,
        thresholds: PaperThresholds,
        epsilon: float,
        delta: float,
        allowed: BoolArray | None = None,  # (S, A), where the environment forbids actions
    ) -> None:
        self.thresholds, self.epsilon, self.delta = thresholds, epsilon, delta
        self.allowed = allowed
        H, S, _ = thresholds.shape.hsa
        self.visitations = EstimateVisitations(
            thresholds, epsilon / (4 * S * H**2), delta / 3, allowed
        )
        self.counts = Counts(thresholds.shape, pooled=False)
        self.phases: list[PhaseReport] = []

    @property
    def k(self) -> int:
        """The phase to come; 0 is the burn-in."""
        return len(self.phases) - self.visitations.done

    def bound_after(self, k: int) -> float | None:
        """sqrt(H beta^RF(t_k, delta/3) 2^(4-k)) (line 12); the burn-in has none."""
        if k == 0:
            return None
        beta = self.thresholds.reward_free(self.counts.n_episodes, self.delta / 3)
        return sqrt(self.thresholds.shape.horizon * beta * 2.0 ** (4 - k))

    @property
    def certified_error(self) -> float | None:
        """2 sqrt(H beta^RF 2^-k) + eps/2: what an optimal policy on the model loses at most."""
        return None if self.bound is None else self.bound / 2 + self.epsilon / 2

    def next_task(self) -> CoverTask | None:
        task = self.visitations.next_task()
        if task is not None or self.done:
            return task
        name = f"phase {self.k}" if self.k else "burn-in"
        delta = self.delta / (6 * (self.k + 1) ** 2)
        target = Target.of_cells(self._wanted())
        game = paper_game(target, delta=delta, scale=self.thresholds.scale, allowed=self.allowed)
        return CoverTask(name, game)

    def _wanted(self) -> FloatHSA:
        """Lines 4 and 9: 1 on X_hat, then 2^k times the upper bound of the reachability."""
        kept = self.visitations.kept()
        per_state = 2.0**self.k * self.visitations.upper if self.k else np.ones(kept.shape)
        wanted = np.repeat(np.where(kept, per_state, 0.0)[:, :, None], self._actions, axis=2)
        return wanted if self.allowed is None else wanted * self.allowed

    @property
    def _actions(self) -> int:
        return self.thresholds.shape.actions

    def tell(self, task: CoverTask, episodes: Sequence[Block] = ()) -> bool:
        if task.episodes is not None:
            self.visitations.tell(task, episodes)
            self.phases.append(self.visitations.phases[-1])
            return True
        self.counts.include(task.game.counts)
        target, bound = task.game.target, self.bound_after(self.k)
        phase = PhaseReport(task.name, task.played, len(target), target.largest_count, bound)
        self.phases.append(phase)
        return True

    def state(self) -> dict[str, Any]:
        return self.visitations.state()

    def restore(self, state: dict[str, Any]) -> None:
        H, S, _ = self.thresholds.shape.hsa
        self.visitations.phases = self.phases[: H * S]
        self.visitations.restore(state)
