"""``cover``: play until every requirement is met, in close to the fewest episodes possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from covgame.episodes import Block
from covgame.errors import BadInput, Row, UnknownModel
from covgame.flow.min_flow import min_flow
from covgame.game.adversary import Adversary
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.growth import ByChance, Growth, Rare
from covgame.game.own import Peer
from covgame.game.planner import Planner
from covgame.jsonfile import check_content
from covgame.pac.aliasing import Ways
from covgame.pac.mixtures import rarely_reached
from covgame.pac.tasks import CoverTask, Task
from covgame.planning import resolve_target
from covgame.runs.playing import to_the_end
from covgame.runs.refusals import check_can_be_counted
from covgame.runs.run import Arrays, Run, Source, StopReason
from covgame.runs.saving import create_folder, environment_of
from covgame.runs.settings import CoverPlay, CoverPreset, CoverSettings
from covgame.runs.text import coverage_text
from covgame.sources.environments import Environment, as_environment
from covgame.sources.external import ExternalSource
from covgame.sources.maps import AnyMap
from covgame.store.folder import MANIFEST, TARGET, RunFolder
from covgame.store.state import fitting, game_arrays, restore_game
from covgame.targets.requests import (
    Listed,
    Request,
    Uniform,
    check_reachable,
    drop_rarely_reached,
    parse_request,
)
from covgame.targets.target import Target
from covgame.types import ANY, Shape

STEPS_TO_JUDGE = 1000
"""After so many steps it is noticed if more than half of them led to states never seen before."""

LARGE = 20_000
"""Above so many cells phi* takes a while, and nobody waits for it unasked."""


@dataclass(eq=False, repr=False)
class Coverage(Run):
    """A run of ``cover``: what was asked, what was collected, and how it ended."""

    settings: CoverSettings
    game: Game
    growth: Growth  # how the target changes, where states show only as one goes
    request: str = ""  # the target, as it was asked for
    never_reached: list[tuple[Row, float]] = field(default_factory=list)  # by the known model

    FINISHED: ClassVar[StopReason] = "covered"
    ONE_TASK = True

    def __post_init__(self) -> None:
        stepped = isinstance(self.source, ExternalSource) and self.environment.model is None
        self.ways = Ways(self.source.shape.actions) if stepped else None

    # ------------------------------------------------------------------------ what there is

    @property
    def target(self) -> Target:
        """What is to be covered; on an environment without a table it grows."""
        return self.game.target

    @property
    def counts(self) -> Counts:
        return self.game.counts

    @property
    def n_episodes(self) -> int:
        return self.counts.n_episodes

    @property
    def covered(self) -> bool:
        """Whether every row has its visits (and something was seen, where that is the target)."""
        return self.game.covered and (self.growth.request is None or self.n_episodes > 0)

    @property
    def uncovered(self) -> list[tuple[Row, float]]:
        """What is still missing: (row, visits), most first."""
        missing = np.maximum(self.target.counts - self.game.collected, 0.0)
        order = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
        return list(zip(self.target.as_rows(order), missing[order].tolist(), strict=True))

    @property
    def unreachable(self) -> list[tuple[Row, float]]:
        """What ``min_reach`` has left out: (row, a bound on the chance to reach it)."""
        return self.never_reached + self.growth.left_out

    @property
    def aliased(self) -> list[tuple[int, float]]:
        """States whose successors depend on how they were reached, with log10 of the evidence."""
        return self.ways.aliased() if self.ways else []

    @property
    def is_mapped(self) -> bool:
        """Whether states are what somebody's map makes of observations."""
        return self.environment.reading.states is not None

    @property
    def warning(self) -> str | None:
        if self.growth.rare is not None and self.growth.proves_nothing(self.game):
            return (
                "episodes are cut short before the last stage, so that pooled stages prove nothing "
                "to be rare; --min-reach needs --stage-dependent here"
            )
        steps = int(self.counts.visits.sum()) if self.source.discovers_states else 0
        if steps < STEPS_TO_JUDGE or 2 * self.n_states <= steps:
            return None
        return (
            f"{self.n_states:,} states in {steps:,} steps: most observations are new states, so "
            "that covering will hardly end; a coarser map (--states) would help"
        )

    @cached_property
    def min_episodes(self) -> float | None:
        """phi*(target); None if the model is unknown."""
        if self.environment.model is None or self._too_late_to_ask():
            return None
        return min_flow(self.environment.model.transitions, self.target).min_episodes

    def _too_late_to_ask(self) -> bool:
        """Who interrupts a run on a large world does not want to wait for a linear program."""
        return self.stopped == "interrupted" and self.is_large

    @property
    def bound_at_hand(self) -> float | None:
        """phi*, if nobody has to wait for it."""
        return self.min_episodes if not self.is_large or "min_episodes" in vars(self) else None

    @property
    def is_large(self) -> bool:
        """Whether phi* takes a while."""
        return self.target.shape.cells > LARGE

    @property
    def ratio(self) -> float | None:
        """Episodes played over phi*."""
        if not self.min_episodes:
            return None
        ratio = self.n_episodes / self.min_episodes
        return ratio if math.isfinite(ratio) else None

    def to_dict(self, *, solve: bool = True) -> dict[str, Any]:
        """The JSON answer of ``covgame cover``; not to ``solve`` is not to wait for phi*."""
        known = solve or "min_episodes" in vars(self)
        return {
            "environment": self.environment.name,
            "episodes": self.n_episodes,
            "covered": self.covered,
            "stopped": self.stopped,
            "uncovered": [[*row, missing] for row, missing in self.uncovered],
            "unreachable": [[*row, bound] for row, bound in self.unreachable],
            "min_episodes": self.min_episodes if known else None,
            "ratio": self.ratio if known else None,
            "states_seen": int(self.counts.visits.any(axis=(0, 2)).sum()),
            "aliased": [
                {"state": state, "label": self.names.state(state), "evidence": evidence}
                for state, evidence in self.aliased
            ],
            "by_chance": asdict(self.growth.by_chance) if self.growth.by_chance else None,
            "warning": self.warning,
            "failure": self.failure,
            "seed": self.settings.seed,
            "preset": self.settings.preset,
            "run": str(self.path) if self.path else None,
        }

    def answer(self) -> dict[str, Any]:
        return self.to_dict(solve=not self.is_large)

    def to_text(self) -> str:
        return coverage_text(self)

    def __repr__(self) -> str:
        state = "covered" if self.covered else f"{len(self.uncovered)} rows open"
        return f"Coverage({self.environment.name!r}, {self.n_episodes:,} episodes, {state})"

    # ------------------------------------------------------------------------ to be played

    @property
    def done(self) -> bool:
        """Chance plays on when all is covered, but for that a budget need not suffice."""
        looking = self.growth.leaves_to_chance(self.game) and self.budget_left > 0
        return self.covered and not looking

    @property
    def by_counts(self) -> bool:
        return self.settings.play == "counts"

    @property
    def task_seed(self) -> int:
        return self.settings.seed

    def next_task(self) -> Task | None:
        if self.done:
            return None
        rounds = self.settings.play == "lazy"
        return CoverTask("cover", self.game, growth=self.growth, rounds=rounds)

    def tell(self, task: Task) -> bool:
        del task  # its game is ours
        return True

    def keep(self, block: Block) -> None:
        if self.ways is not None:
            self.ways.tell(block)

    # ----------------------------------------------------------------- to be saved and resumed

    def manifest(self) -> dict[str, Any]:
        request = self.growth.request
        return {
            "command": "cover",
            "request": self.request,
            "target": TARGET,
            "growing": vars(request) if request else None,
            **self.settings.to_dict(),
            "unreachable": [[*row, bound] for row, bound in self.never_reached],
        }

    def files(self) -> dict[str, str]:
        from covgame.targets.files import target_text

        return {TARGET: target_text(self.target)}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        left_out, chance = self.growth.left_out, self.growth.by_chance
        rows = [[ANY if i is None else i for i in row] for row, _ in left_out]
        return {
            **game_arrays(self.game),
            "left_out_rows": np.array(rows, dtype=np.int64).reshape(-1, 3),
            "left_out_bounds": np.array([bound for _, bound in left_out]),
            "cut_short": np.array(self.growth.cut_short),
            **(self.ways.arrays() if self.ways else {}),
            **({"by_chance": np.array(astuple(chance))} if chance is not None else {}),
        }

    def restore(self, arrays: Arrays) -> None:
        if self.growth.request is not None or self.growth.rare is not None:
            target = _saved_target(arrays, self.source)
            stationary = self.source.stationary
            self.game = self.settings.new_game(target, stationary=stationary)
        restore_game(self.game, arrays)
        if isinstance(self.source, ExternalSource):
            visited = np.flatnonzero(self.counts.visits.any(axis=(0, 2)))
            self.source.masks.recall(self.game.allowed, visited)
        if "left_out_rows" in arrays:
            self.growth.left_out = _saved_rows(arrays)
        elif self.growth.left_out:  # an older run, which kept them in its manifest
            self.growth.drop_left_out(self.game)
        self.growth.cut_short = bool(arrays.get("cut_short", False))
        with fitting():
            if self.ways is not None:
                self.ways.restore(arrays)
            if self.growth.by_chance is not None:
                self.growth.by_chance = ByChance(*arrays["by_chance"].tolist())


def cover(
    env: Any,
    target: Request | Target | str | Path,
    *,
    horizon: int | None = None,
    states: AnyMap | None = None,
    actions: str | None = None,
    seed: int = 0,
    preset: CoverPreset = "default",
    delta: float = 0.1,
    stage_dependent: bool = False,
    min_reach: float = 0.0,
    max_episodes: int | None = None,
    play: CoverPlay = "exact",
    planner: Planner | Peer | str | None = None,
    adversary: Adversary | str | None = None,
    out: str | Path | None = None,
    progress: Callable[[Coverage], None] | None = None,
) -> Coverage:
    """Play until every requirement of ``target`` is met, or the budget is spent.

    Args:
        env: A name (``covgame envs`` lists them), the path of a model file, a ``TabularMDP``, a
            Gymnasium environment, an object with ``reset`` and ``step``, a class or a function that
            makes one, or what ``covgame.make`` returns.
        target: What has to be visited how often: ``covgame.uniform(50)``, ``proportional``,
            ``cells``, a ``Target``, their text (``"uniform:50/pair"``), or the path of a target
            file.
        horizon: Steps of an episode at most, where ``env`` leaves it open.
        states: What counts as a state, where observations are not states themselves (see
            ``covgame.make``).
        actions: ``"grid:5"`` for actions that are real numbers (see ``covgame.make``).
        seed: Same seed, same run.
        preset: ``"default"``, as we recommend, or ``"paper"``, Algorithm 1 to the letter.
        delta: The probability with which bounds may fail (``preset="paper"``, and ``min_reach`` on
            an environment without a transition table).
        stage_dependent: Do not pool what is learnt over stages, also where the environment is
            stationary.
        min_reach: Leave out what no policy reaches with this probability.
        max_episodes: Stop after so many episodes; ``run.covered`` says whether it was enough.
        play: ``"exact"`` plans before every episode, ``"lazy"`` in batches, and ``"counts"`` plays
            a simulated model by its visits alone: any number of episodes at once, none recorded.
        planner: A planner or peer of your own in the place of ours: an object, or
            ``"py:module:name"``.
        adversary: The same for the adversary.
        out: A folder for the run. The episodes are written there as Parquet files, and a run that
            was stopped goes on with ``covgame.resume``.
        progress: Called with the run after every block of episodes.

    Returns:
        The run: ``run.n_episodes``, ``run.covered``, ``run.counts.visits`` (H x S x A),
        ``run.uncovered``, ``run.min_episodes`` (the lower bound phi*, where the model is known).

    Raises:
        BadInput: What was asked for makes no sense as it stands; the sentence says what to change.
        EnvironmentFailed: The environment raised an error. What was played is saved.
        KeyboardInterrupt: After Ctrl-C, when all is saved.

    Example:
        >>> import covgame as cg
        >>> run = cg.cover("chain:states=5,horizon=8", cg.uniform(10, "pair"), seed=0)
        >>> run.covered
        True
        >>> int(run.counts.visits.sum(axis=0).min()) >= 10
        True
    """
    settings = CoverSettings(
        seed, preset, delta, stage_dependent, max_episodes, play, min_reach, planner, adversary
    )
    run = start(as_environment(env, horizon, states, actions), target, settings)
    if out is not None:
        create_folder(run, out)
    return to_the_end(run, progress)


def start(
    env: Any,
    target: Request | Target | str | Path,
    settings: CoverSettings,
) -> Coverage:
    """A run before its first episode."""
    environment = as_environment(env)
    if settings.play == "counts":
        check_can_be_counted(environment)
        if settings.has_own_players:
            raise BadInput("a planner or adversary of your own plays episodes; use --play exact")
    if settings.play == "lazy" and environment.model is None:
        raise BadInput("lazy play needs states that are known beforehand; use --play exact")
    source = environment.open(settings.seed)
    if environment.model is None:
        return _start_unknown(environment, target, settings, source)
    transitions = environment.model.transitions
    asked = resolve_target(target, environment.model)
    wanted = drop_rarely_reached(asked, transitions, settings.min_reach)
    check_reachable(wanted.target, transitions)
    game = settings.new_game(
        wanted.target, stationary=transitions.stationary, allowed=transitions.allowed
    )
    return Coverage(
        environment, settings, source, game, Growth(), str(target), never_reached=wanted.dropped
    )


def _start_unknown(
    environment: Environment,
    target: Request | Target | str | Path,
    settings: CoverSettings,
    source: Source,
) -> Coverage:
    """Without a table the target is what was seen so far, or rows over numbered states."""
    if settings.min_reach and source.discovers_states:
        raise BadInput(
            "--min-reach is certified from counts, which needs the number of states beforehand; "
            f"{environment.name} only shows its states as it goes"
        )
    request = parse_request(str(target)) if isinstance(target, str | Path) else target
    if isinstance(request, Uniform):
        wanted = Target.of_rows(source.shape, np.zeros((0, 3), dtype=np.int64), np.zeros(0))
        growth = Growth(request, _rare(settings), _chance(source))
    elif isinstance(request, Listed) and not source.discovers_states:
        wanted, growth = request.on(source.shape), Growth(None, _rare(settings))
    else:
        raise UnknownModel(
            f"{environment.name} has no transition table, so its target must be uniform:N, "
            "uniform:N/pair or uniform:N/state (a list of cells only if its states are numbered)"
        )
    game = settings.new_game(wanted, stationary=source.stationary)
    return Coverage(environment, settings, source, game, growth, str(target))


def _chance(source: Source) -> ByChance | None:
    """Who discovers states is not to believe too soon that there are no others.

    Who owns the loop ends it when all is covered, so nothing is left to chance there.
    """
    stepped = isinstance(source, ExternalSource) and getattr(source.stepper, "plays", True)
    return ByChance() if stepped and source.discovers_states else None


def _rare(settings: CoverSettings) -> Rare | None:
    """What to leave out on the way."""
    if not settings.min_reach:
        return None
    return partial(rarely_reached, delta=settings.delta, min_reach=settings.min_reach)


def reopen(
    folder: RunFolder,
    max_episodes: int | None,
    env: Any = None,
    planner: Planner | Peer | None = None,
    adversary: Adversary | None = None,
) -> Callable[[], Coverage]:
    """How to begin the run of a folder once more, with its source open."""
    from covgame.store.manifest import CoverManifest
    from covgame.targets.files import load_target

    asked = check_content(CoverManifest, folder.manifest, folder.path / MANIFEST)
    environment = environment_of(folder, env)
    budget = max_episodes if max_episodes is not None else asked.max_episodes
    settings = CoverSettings(
        asked.seed, asked.preset, asked.delta, asked.stage_dependent, budget, asked.play,
        asked.min_reach, planner or asked.planner, adversary or asked.adversary,
    )  # fmt: skip
    source = environment.open(settings.seed, known=folder.load_states())
    target = load_target(folder.path / asked.target).on(source.shape)
    model = environment.model
    never: list[tuple[Row, float]] = [(row[:3], row[3]) for row in asked.unreachable]

    def begin() -> Coverage:
        game = settings.new_game(
            target,
            stationary=source.stationary,
            allowed=model.transitions.allowed if model else None,
        )
        request = Uniform(asked.growing.count, asked.growing.per) if asked.growing else None
        growth = Growth(request, None if model else _rare(settings), _chance(source))
        if growth.rare is not None:
            growth.left_out = list(never)
        return Coverage(
            environment, settings, source, game, growth, asked.request,
            never_reached=[] if growth.rare else never, folder=folder,
        )  # fmt: skip

    return begin


def _saved_target(arrays: Arrays, source: Source) -> Target:
    """A target that had grown, as it was saved.

    There may be room for more states by now: some were seen in an episode that did not count.
    """
    if not {"visits", "target_rows", "target_counts"} <= arrays.keys():
        raise BadInput("counts.npz lacks the target of this run")
    horizon, room, actions = source.shape.hsa
    visits, keys = arrays["visits"], source.state_keys
    if visits.ndim != 3 or visits.shape[1] > room:
        raise BadInput("counts.npz is about other states than this run")
    if keys is not None and visits[:, len(keys) :].any():
        raise BadInput("states.json lists fewer states than were counted")
    shape = Shape(horizon, visits.shape[1], actions)
    return Target.of_rows(shape, arrays["target_rows"], arrays["target_counts"])


def _saved_rows(arrays: Arrays) -> list[tuple[Row, float]]:
    """The rows that were left out, with their bounds."""
    rows, bounds = arrays["left_out_rows"], arrays.get("left_out_bounds", np.zeros(0))
    if rows.ndim != 2 or rows.shape[1] != 3 or bounds.shape != (len(rows),):
        raise BadInput("counts.npz does not say which rows were left out")
    named = [(None if h == ANY else h, s, None if a == ANY else a) for h, s, a in rows.tolist()]
    return list(zip(named, bounds.tolist(), strict=True))
