"""PRINCIPLE (Algorithm 3): the best policy, by covering what can still be task of it.

From phase to phase the visits double, but only for cells that an *active* state-action
distribution may need: one that is well covered by the data and may still be optimal.

Where the paper prunes each phase's data to bound the number of episodes inside a logarithm, phase k
ends here at the first t with n^t >= 2^k min(sup rho + 2 sqrt(H beta^bpi(t, delta/2) 2^(1-k)), 1):
the target grows with t, and the induction of Lemma PRINCIPLE-optimal-never-elim holds with t_k
itself. ``pruned=True`` is the published form (see ``pruning``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.episodes import Block
from covgame.errors import Infeasible
from covgame.flow.active import WellCovered
from covgame.game.counts import Counts
from covgame.game.presets import paper_game
from covgame.mdp import dp
from covgame.pac.pruning import prune
from covgame.pac.tasks import CoverTask, Phased, PhaseReport
from covgame.targets.target import Target
from covgame.types import BoolArray, BoolHSA, FloatHSA, Policy, Shape

Suprema = Literal["exact", "relaxed"]

EXACT_CELLS = 2_000
"""Up to so many cells a program for each of them takes a few seconds a phase."""


def _allowed(exists: BoolHSA) -> BoolArray | None:
    """Which actions states have, (S, A), None if all: what is reached at no stage is forbidden."""
    pairs: BoolArray = np.any(exists, axis=0)
    allowed: BoolArray = pairs | ~np.any(pairs, axis=1, keepdims=True)
    return None if allowed.all() else allowed


@dataclass(frozen=True, eq=False)
class Conclusion:
    """What the data say of the best policy."""

    policy: Policy
    lower: float  # of the value of the policy
    upper: float  # of V*

    @property
    def gap(self) -> float:
        return self.upper - self.lower


class ImplicitElimination(Phased):
    """PRINCIPLE with the paper's thresholds; the policy it ends with is eps-optimal.

    ``exists`` says which cells some policy reaches: the algorithm takes that as given.
    Where episodes start in one of several states, thresholds are those of a world with one stage
    more, at which nothing is decided but the first state. Rewards are divided by the width of
    their range inside; where episodes may end, 0 has to be in it.
    """

    def __init__(
        self,
        thresholds: PaperThresholds,
        epsilon: float,
        delta: float,
        exists: BoolHSA,
        *,
        random_start: bool = False,
        reward_range: tuple[float, float] = (0.0, 1.0),
        suprema: Suprema | None = None,
        pruned: bool = False,
    ) -> None:
        self.epsilon, self.delta, self.exists = epsilon, delta, exists
        self.allowed = _allowed(exists)
        self.world = thresholds.shape
        H, S, A = self.world.hsa
        self.thresholds = PaperThresholds(
            Shape(H + 1 if random_start else H, S, A), thresholds.scale
        )
        self.suprema = suprema or ("exact" if self.world.cells <= EXACT_CELLS else "relaxed")
        self.needs_episodes = self.pruned = pruned
        low, high = reward_range
        self.unit, self.value_range = high - low, (H * low, H * high)
        self.counts = Counts(self.world, pooled=False)
        self.phases: list[PhaseReport] = []
        self.task: CoverTask | None = None
        self.largest: FloatHSA | None = None  # sup rho over Omega^(k-1), None for "not needed"

    @property
    def k(self) -> int:
        """The phase to come; 0 is the burn-in."""
        return len(self.phases)

    def width(self, k: int, t: float) -> float:
        """sqrt(H beta^bpi(t, delta/2) 2^-k): what a well covered policy's value is known to."""
        beta = self.thresholds.best_policy(t, self.delta / 2)
        return sqrt(self.thresholds.shape.horizon * beta * 2.0**-k)

    def bound_after(self, k: int) -> float | None:
        """sqrt(2^(2-k) H beta^bpi(t_k, delta/2)) (line 19); the burn-in has none."""
        return 2 * self.unit * self.width(k, self.counts.n_episodes) if k else None

    # ------------------------------------------------------------------ what to play

    def next_task(self) -> CoverTask | None:
        if self.task is None and not self.done:
            self.largest = self._largest_occupancies()
            self.task = self._task_on(self._missing(self._played()))
        return self.task

    def _played(self) -> int:
        """Episodes that count, those of the task being played included."""
        return self.counts.n_episodes + (self.task.played if self.task else 0)

    def _task_on(self, missing: FloatHSA) -> CoverTask:
        delta = self.delta / (4 * (self.k + 1) ** 2)
        game = paper_game(
            Target.of_cells(missing),
            delta=delta,
            scale=self.thresholds.scale,
            allowed=self.allowed,
        )
        return CoverTask(f"phase {self.k}" if self.k else "burn-in", game)

    def _missing(self, t: int) -> FloatHSA:
        """What is to be visited in this phase, if it ends after t episodes in all."""
        wanted = self.wanted(t)
        return wanted if self.pruned else np.maximum(wanted - self.counts.visits, 0.0)

    def wanted(self, t: int) -> FloatHSA:
        """c^k: 1 in the burn-in, then 2^k min(sup rho + slack, 1), on what can be reached."""
        if self.k == 0:
            return self.exists.astype(np.float64)
        slack = self._slack(self.counts.n_episodes + self._most_kept() if self.pruned else t)
        known = 0.0 if self.largest is None else self.largest
        return np.where(self.exists, 2.0**self.k * np.minimum(known + slack, 1.0), 0.0)

    def _most_kept(self) -> int:
        """SAH 2^k: so many episodes remain of a phase that was pruned."""
        return self.world.cells << self.k

    def _slack(self, t: float) -> float:
        """2 sqrt(H beta^bpi(t, delta/2) 2^(1-k)) (line 9)."""
        return 2 * sqrt(2.0) * self.width(self.k, t)

    def _largest_occupancies(self) -> FloatHSA | None:
        """sup rho_h(s,a) over Omega^(k-1), None while the slack alone asks for everything."""
        slack = self._slack(self._played())
        if self.k == 0 or slack >= 1:
            return None
        covered = self._well_covered(self.k - 1)
        if self.k == 1:  # Omega^0 holds all distributions
            return covered.bounds(-np.inf)
        try:
            value = covered.best_value - 2 * self.width(self.k - 1, self.counts.n_episodes)
            if self.suprema == "exact":
                return covered.suprema(value, enough=1.0 - slack)
            return covered.bounds(value)
        except Infeasible:  # the confidence sets have failed: eliminate nothing
            return np.ones(self.world.hsa)

    def _well_covered(self, k: int) -> WellCovered:
        model = self.model
        rewards = model.rewards / self.unit
        return WellCovered(model.transitions, rewards, np.ldexp(self.counts.visits, -k))

    # ------------------------------------------------------------------ what came of it

    def tell(self, task: CoverTask, episodes: Sequence[Block] = ()) -> bool:
        if not self.pruned and self.k > 0:
            missing = self._missing(self._played())
            if (task.game.counts.visits < missing).any():
                task.game.grow(Target.of_cells(missing))
                return False
        wanted = self.wanted(self._played())
        notes: dict[str, float | str] = {}
        if self.k > 0:
            # 1 would be uniform coverage: what is below was eliminated.
            notes["share_wanted"] = float(wanted[self.exists].mean() / 2.0**self.k)
        seen = task.game.counts
        if self.pruned and self.k > 0 and task.played > self._most_kept():
            seen = self._pruned(task, episodes)
            notes["kept"] = seen.n_episodes
        self.counts.include(seen)
        self.task = None
        bound = self.bound_after(self.k)
        if bound is not None:
            notes |= self._value_notes()
        cells = len(task.game.target)
        self.phases.append(
            PhaseReport(task.name, task.played, cells, float(wanted.max()), bound, notes)
        )
        return True

    def _pruned(self, task: CoverTask, episodes: Sequence[Block]) -> Counts:
        kept = Counts(self.world, pooled=False)
        played = (one for block in episodes for one in block.episodes())
        for episode in prune(played, task.game.target.cell_counts()):
            kept.add(episode)
        return kept

    def _value_notes(self) -> dict[str, float | str]:
        found = self._conclusion_after(self.k)
        if found is None:
            return {"note": "no policy is well covered; nothing is eliminated"}
        return {"value_lower": found.lower, "value_upper": found.upper}

    def conclusion(self) -> Conclusion | None:
        """The best well covered policy, with bounds; None before the first phase."""
        return self._conclusion_after(self.k - 1) if self.k > 1 else None

    def _conclusion_after(self, k: int) -> Conclusion | None:
        """Correctness of PRINCIPLE, steps (a) and (c) of the proof."""
        covered = self._well_covered(k)
        try:
            policy, occupancy = covered.best
        except Infeasible:
            return None
        t = self.counts.n_episodes
        beta = self.thresholds.best_policy(t, self.delta / 2)
        visits = np.maximum(self.counts.visits, 1)
        unsure = (occupancy**2 / visits).sum() + (1.0 / t if self._lifted else 0.0)
        least, most = self.value_range
        return Conclusion(
            policy,
            lower=max(least, self.unit * (covered.best_value - sqrt(beta * unsure))),
            upper=min(most, self.unit * (covered.best_value + self.width(k, t))),
        )

    @property
    def _lifted(self) -> bool:
        return self.thresholds.shape.horizon > self.world.horizon

    @property
    def policy(self) -> Policy:
        """The policy to recommend now."""
        found = self.conclusion()
        if found is not None:
            return found.policy
        model = self.model
        return dp.backward_induction(model.transitions, model.rewards).policy

    def state(self) -> dict[str, Any]:
        largest = None if self.largest is None else self.largest.tolist()
        return {"largest": largest, "playing": self.task is not None}

    def restore(self, state: dict[str, Any]) -> None:
        largest = state["largest"]
        self.largest = None if largest is None else np.array(largest)
        if state["playing"]:
            self.task = self._task_on(self._missing(self.counts.n_episodes))
