"""How an algorithm works through its episodes: it says what to play next, and is told the outcome.

An algorithm never plays. It hands out parts, one at a time, and takes their counts; who plays them,
by trajectories or by counts, is none of its business. So a run can be watched, stopped, saved and
resumed by whoever plays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from covgame.episodes import Block
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.growth import Growth
from covgame.pac.learnt import LearntModel
from covgame.types import Policy


@dataclass(eq=False)
class CoverTask:
    """A game to be played until it is covered, or for so many episodes."""

    name: str
    game: Game
    episodes: int | None = None  # None: until it is covered
    growth: Growth | None = None  # how the target changes on the way
    rounds: bool = False  # planned in rounds of several policies, not before every episode

    @property
    def counts(self) -> Counts:
        return self.game.counts

    @property
    def played(self) -> int:
        return self.counts.n_episodes

    @property
    def left(self) -> int | None:
        """How many episodes at most, None if that is open."""
        return None if self.episodes is None else self.episodes - self.played

    @property
    def over(self) -> bool:
        if self.episodes is not None:
            return self.left == 0
        return self.game.covered if self.growth is None else self.growth.is_over(self.game)


@dataclass(eq=False)
class PolicyTask:
    """So many episodes of one deterministic policy."""

    name: str
    policy: Policy
    episodes: int
    counts: Counts
    validates: bool = False  # whether the returns of these episodes are looked at by themselves

    @property
    def played(self) -> int:
        return self.counts.n_episodes

    @property
    def left(self) -> int:
        return self.episodes - self.played

    @property
    def over(self) -> bool:
        return self.left == 0


Task = CoverTask | PolicyTask


@dataclass(frozen=True)
class PhaseReport:
    """What a part was about, and what came of it: a line of the report."""

    name: str
    episodes: int
    wanted: int  # cells that were still to be visited
    largest: float  # the most visits asked of one of them
    bound: float | None = None  # the left side of the stopping rule afterwards
    notes: dict[str, float | str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        return {**{k: v for k, v in content.items() if k != "notes"}, **self.notes}


class Phased:
    """What the paper's two algorithms share: phases that end when a bound is small enough."""

    counts: Counts
    phases: list[PhaseReport]
    epsilon: float

    @property
    def bound(self) -> float | None:
        """The left side of the stopping rule after the last phase."""
        return self.phases[-1].bound if self.phases else None

    @property
    def done(self) -> bool:
        return self.bound is not None and self.bound <= self.epsilon

    @property
    def model(self) -> LearntModel:
        return LearntModel.of(self.counts)


class Algorithm(Protocol):
    """Hands out parts until it has seen enough."""

    counts: Counts  # all that its conclusions rest on
    phases: list[PhaseReport]

    @property
    def needs_episodes(self) -> bool:
        """Whether counts are not enough to be told of a part."""
        ...

    def next_task(self) -> CoverTask | PolicyTask | None:
        """What to play next, None when there is no need to."""
        ...

    def tell(self, part: Any, episodes: Sequence[Block]) -> bool:
        """Take what a part has brought; False if it will be handed out again, asking for more."""
        ...

    def state(self) -> dict[str, Any]:
        """What is remembered beside counts and phases, as JSON."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from such a state; counts and phases are set by the caller."""
        ...
