"""How to play: all that decides which episodes are played, beside the world and the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from covgame.errors import BadInput
from covgame.failures import OnFailure
from covgame.game.adversary import Adversary
from covgame.game.game import Game
from covgame.game.lookahead import is_long
from covgame.game.own import Peer, name_of, own_game
from covgame.game.planner import Planner
from covgame.game.presets import default_game, paper_game
from covgame.game.size import Kept, Size, size_of
from covgame.pac.principle import Suprema
from covgame.runs.refusals import (
    check_care,
    check_choice,
    check_common,
    check_positive,
    check_range,
    check_workers,
    is_whole,
)
from covgame.targets.target import Target
from covgame.types import BoolArray

CoverPreset = Literal["default", "paper"]
CoverPlay = Literal["exact", "lazy", "counts"]

Engine = Literal["local", "ray"]

Command = Literal["explore", "identify"]
LearnPreset = Literal["certified", "paper"]
LearnPlay = Literal["exact", "counts"]


@dataclass(frozen=True)
class Changes:
    """What may be asked for differently when a run goes on; None: as before."""

    max_episodes: int | None = None
    on_failure: OnFailure | None = None
    step_timeout: float | None = None
    workers: int | None = None
    engine: Engine | None = None
    address: str | None = None
    isolate: bool | None = None

    def over(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a run with these changes."""
        changed = {name: value for name, value in vars(self).items() if value is not None}
        return {**settings, **changed}


@dataclass(frozen=True)
class CoverSettings:
    """How to cover: all that decides which episodes are played, beside world and target.

    And one thing that does not, but is asked for with them: ``exact_bound``.
    """

    seed: int = 0
    preset: CoverPreset = "default"
    delta: float = 0.1
    stage_dependent: bool = False
    max_episodes: int | None = None
    play: CoverPlay = "exact"
    min_reach: float = 0.0
    planner: Planner | Peer | str | None = None  # somebody else's, or py:module:name
    adversary: Adversary | str | None = None
    keep_observations: bool = False  # as they were shown, beside the numbers of states
    on_failure: OnFailure = "stop"  # of the environment
    step_timeout: float | None = None  # seconds that a step may take
    exact_bound: bool = False  # phi* itself, however large the world is
    workers: int = 1  # that play at once
    engine: Engine = "local"  # where: processes on this machine, or Ray's actors
    address: str | None = None  # of Ray's cluster; None: one of its own
    isolate: bool = False  # step the environment in a worker process

    def __post_init__(self) -> None:
        check_common(self.seed, self.delta, self.max_episodes)
        check_choice("the preset of cover", self.preset, get_args(CoverPreset))
        check_choice("play", self.play, get_args(CoverPlay))
        check_care(self.on_failure, self.step_timeout)
        check_choice("--engine", self.engine, get_args(Engine))
        check_workers(self)
        if self.on_failure == "avoid" and self.play == "lazy":
            raise BadInput("--on-failure avoid plans again after every failure; use --play exact")
        if not 0 <= self.min_reach <= 1:
            raise BadInput(f"--min-reach is a probability, not {self.min_reach!r}")
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "workers", int(self.workers))
        if self.max_episodes is not None:
            object.__setattr__(self, "max_episodes", int(self.max_episodes))

    def new_game(
        self,
        target: Target,
        *,
        stationary: bool,
        allowed: BoolArray | None = None,
        stage_free: bool = False,
    ) -> Game:
        """A game for these settings, before its first episode.

        ``stage_free``: that its target, whatever becomes of it, never tells stages apart.
        """
        if self.preset == "paper":
            game = paper_game(target, delta=self.delta, allowed=allowed)
        else:
            pooled = stationary and not self.stage_dependent
            looks_ahead = self._looks_ahead(target, stage_free=stage_free)
            game = default_game(target, pooled=pooled, allowed=allowed, looks_ahead=looks_ahead)
        return own_game(game, self.planner, self.adversary) if self.has_own_players else game

    def size_of(self, target: Target, *, stationary: bool, stage_free: bool = False) -> Size:
        """What such a game takes of memory and time; before it begins, so nothing is allocated."""
        paper = self.preset == "paper"
        pooled = stationary and not self.stage_dependent and not paper
        looks_ahead = pooled and self._looks_ahead(target, stage_free=stage_free)
        kept = Kept(pooled, not paper, not stage_free, looks_ahead)
        return size_of(target, target.shape.states, kept)

    def _looks_ahead(self, target: Target, *, stage_free: bool) -> bool:
        """Whether plans look only as far ahead as it takes."""
        plain = self.play == "exact" and not self.has_own_players
        return plain and stage_free and is_long(target.shape)

    @property
    def plays_in_team(self) -> bool:
        """Whether episodes are played by workers, and not here."""
        return self.workers > 1 or self.engine == "ray"

    @property
    def has_own_players(self) -> bool:
        """Whether somebody else's code plans or weighs."""
        return self.planner is not None or self.adversary is not None

    def to_dict(self) -> dict[str, Any]:
        """As a manifest has them."""
        own = {"planner": self.planner, "adversary": self.adversary}
        return {**vars(self), **{key: value and name_of(value) for key, value in own.items()}}


@dataclass(frozen=True)
class LearnSettings:
    """How to learn: all that decides which episodes are played, beside the world."""

    command: Command
    epsilon: float
    delta: float = 0.1
    seed: int = 0
    preset: LearnPreset = "certified"
    play: LearnPlay | None = None  # None: by counts where the model is simulated
    max_episodes: int | None = None
    scale: float = 1.0  # of the paper's thresholds
    suprema: Suprema | None = None  # identify: programs with all caps, or without; None by size
    prune: bool = False  # identify: the published form
    reward_range: tuple[float, float] = (0.0, 1.0)  # what the environment may pay
    return_range: tuple[float, float] | None = None  # of the sum of an episode's rewards
    most_successors: int | None = None  # of a state and an action, the end among them
    stage_dependent: bool = False  # do not pool what is learnt over stages (certified)
    most_states: int | None = None  # an upper bound, where states are discovered (certified)
    keep_observations: bool = False  # as they were shown, beside the numbers of states
    on_failure: OnFailure = "stop"  # of the environment
    step_timeout: float | None = None  # seconds that a step may take
    isolate: bool = False  # step the environment in a worker process

    def __post_init__(self) -> None:
        check_common(self.seed, self.delta, self.max_episodes)
        check_positive("epsilon", self.epsilon)
        check_positive("scale", self.scale)
        for low, high in filter(None, (self.reward_range, self.return_range)):
            check_range(low, high)
        most = self.most_successors
        if most is not None and (not is_whole(most) or most < 1):
            raise BadInput(f"the most successors are a whole number from 1 on, not {most!r}")
        states = self.most_states
        if states is not None and (not is_whole(states) or states < 1):
            raise BadInput(f"--most-states is a whole number from 1 on, not {states!r}")
        check_care(self.on_failure, self.step_timeout)
        if self.on_failure == "avoid":
            raise BadInput(
                f"a guarantee is about all actions, so {self.command} cannot avoid any; use "
                "--on-failure record, which takes a failure for the end of an episode"
            )
        self._check_choices()
        object.__setattr__(self, "seed", int(self.seed))

    def _check_choices(self) -> None:
        check_choice("preset", self.preset, get_args(LearnPreset))
        check_choice("play", self.play, (None, *get_args(LearnPlay)))
        check_choice("suprema", self.suprema, (None, *get_args(Suprema)))
        if self.preset == "certified" and (self.scale != 1 or self.prune or self.suprema):
            raise BadInput("scale, suprema and prune belong to --preset paper")
        if self.preset == "paper" and self.most_states is not None:
            raise BadInput("--most-states belongs to --preset certified")
        if self.prune and self.play == "counts":
            raise BadInput(
                "pruning looks at episodes, and --play counts has none; use --play exact"
            )
