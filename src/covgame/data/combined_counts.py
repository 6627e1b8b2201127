"""What datasets say together: counts, and the model that they are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covgame.data.dataset import Dataset
from covgame.game.counts import Counts
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.memory import require_room
from covgame.names import Names
from covgame.pac.error_bounds import Range
from covgame.pac.homogeneity import TRUNCATED, Stages, difference
from covgame.sources.environments import Environment
from covgame.types import BoolArray, BoolHS, Shape


@dataclass(frozen=True, eq=False)
class CombinedCounts:
    """Everything that was counted, and what is known of the world beside it."""

    datasets: Sequence[Dataset]
    shape: Shape
    environment: Environment | None
    names: Names
    apart: Counts  # stage by stage
    delta: float  # of statements about it
    rewards: Range | None  # what a step pays, where stages are compared by that, too
    stage_dependent: bool = False

    @property
    def model(self) -> TabularMDP | None:
        """The world as it is, where that is known."""
        return None if self.environment is None else self.environment.model

    @property
    def n_episodes(self) -> int:
        """Episodes of all datasets."""
        return self.apart.n_episodes

    @cached_property
    def stages(self) -> tuple[Stages, bool, str]:
        """(how stages were judged, whether they are pooled, that in words)."""
        if self.stage_dependent:
            return "known", False, "stage by stage, as asked"
        if self.model is not None and self.environment is not None and not self.environment.opener:
            alike = self.model.transitions.stationary
            words = "the same at every stage" if alike else "stage by stage"
            return "known", alike, f"{words}, as the model is"
        if self.shape.horizon == 1:
            return "known", False, "of one stage"
        why = TRUNCATED if self.cut_short else None
        if why is None:
            why = difference(self.apart, self.shape.states + 1, self.delta, self.rewards)
        if why is None:
            return "tested", True, "the same at every stage, which the data do not contradict"
        return "parted", False, f"stage by stage, because {why}"

    @property
    def cut_short(self) -> bool:
        """Whether an episode was truncated before the last stage, or may have been."""
        H = self.shape.horizon
        return any(one.is_cut_before(H) or not one.has_ends(H) for one in self.datasets)

    @cached_property
    def counts(self) -> Counts:
        """What was seen, pooled over stages where they are alike."""
        if not self.stages[1]:
            return self.apart
        pooled = Counts(self.shape, pooled=True, paid=self.rewards is not None)
        pooled.include(self.apart)
        return pooled

    @cached_property
    def kernel(self) -> Transitions:
        """How the world moves: as it is known, or as it was seen."""
        return self.counts.kernel() if self.model is None else self.model.transitions

    @cached_property
    def seen(self) -> BoolHS:
        """(H, S): which states were reached at which stage, also where no action followed."""
        seen: BoolHS = np.logical_or.reduce(self.apart.visits > 0, axis=2)
        row, successor, _ = self.apart.transitions()
        stage = row // self.shape.pairs + 1
        inside = (successor >= 0) & (stage < self.shape.horizon)
        seen[stage[inside], successor[inside]] = True
        return seen

    @cached_property
    def allowed(self) -> BoolArray:
        """(S, A): which actions there are, where that is known."""
        if self.model is not None:
            return self.model.transitions.allowed_actions
        return np.ones((self.shape.states, self.shape.actions), dtype=np.bool_)


def gather(datasets: Sequence[Dataset], shape: Shape, *, paid: bool = False) -> Counts:
    """All steps of all datasets, counted stage by stage; ``paid`` also what transitions paid."""
    require_room(shape, 0, "counting")
    total = Counts(shape, pooled=False, paid=paid)
    for one in datasets:
        found = one.counts(shape, pooled=False, paid=paid)
        if len(datasets) == 1:
            return found
        total.include(found)
    return total
