"""``cover``: play until every requirement is met, in close to the fewest episodes possible."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from covgame.errors import BadInput, Row, describe_row
from covgame.flow.min_flow import min_flow
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.presets import default_game, paper_game
from covgame.interruption import Interruption
from covgame.mdp.model import TabularMDP
from covgame.planning import number, resolve_target
from covgame.sources.compiled import CompiledPlayer
from covgame.sources.environments import Environment, make
from covgame.sources.simulated import SimulatedSource
from covgame.store.folder import MODEL, TARGET, RunFolder, fresh_folder
from covgame.store.state import restore_game
from covgame.targets.requests import Request, check_reachable, drop_rarely_reached
from covgame.targets.target import Target

if TYPE_CHECKING:
    from covgame.store.recorder import Recorder

Preset = Literal["default", "paper"]
Stopped = Literal["covered", "budget", "interrupted"]

SHOWN = 10
STEPS_PER_BLOCK = 200_000
SECONDS_PER_BLOCK = 0.1
FIRST_BLOCK = 16


@dataclass(frozen=True)
class Settings:
    """How to cover: all that decides which episodes are played, beside world and target."""

    seed: int = 0
    preset: Preset = "default"
    delta: float = 0.1
    stage_dependent: bool = False
    max_episodes: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not (
            isinstance(self.seed, int) and 0 <= self.seed < 2**63
        ):
            raise BadInput(f"a seed is a whole number from 0 to 2^63 - 1, not {self.seed!r}")
        if self.preset not in get_args(Preset):
            raise BadInput(
                f"cover knows the presets {' and '.join(get_args(Preset))}, not {self.preset!r}"
            )
        if not (isinstance(self.delta, int | float) and 0 < self.delta < 1):
            raise BadInput(f"delta is a probability between 0 and 1, not {self.delta!r}")
        budget = self.max_episodes
        if budget is not None and (
            isinstance(budget, bool) or not isinstance(budget, int) or budget < 0
        ):
            raise BadInput(f"a budget is a whole number of episodes, not {budget!r}")

    def new_game(self, target: Target, *, stationary: bool) -> Game:
        if self.preset == "paper":
            return paper_game(target, delta=self.delta)
        return default_game(target, pooled=stationary and not self.stage_dependent)


@dataclass(eq=False)
class Run:
    """A run of ``cover``: what was asked, what was collected, and how it ended."""

    environment: Environment
    target: Target
    settings: Settings
    game: Game = field(repr=False)
    unreachable: list[tuple[Row, float]] = field(default_factory=list, repr=False)
    folder: RunFolder | None = field(default=None, repr=False)
    stopped: Stopped | None = None

    @property
    def n_episodes(self) -> int:
        return self.game.counts.n_episodes

    @property
    def covered(self) -> bool:
        return self.game.covered

    @property
    def counts(self) -> Counts:
        """What was seen: ``counts.visits`` is (H, S, A)."""
        return self.game.counts

    @property
    def path(self) -> Path | None:
        return self.folder.path if self.folder else None

    @cached_property
    def min_episodes(self) -> float | None:
        """phi*(target); None if the model is unknown."""
        if self.folder and "min_episodes" in self.folder.manifest:
            known: float | None = self.folder.manifest["min_episodes"]
            return known
        if self.environment.model is None:
            return None
        return min_flow(self.environment.model.transitions, self.target).min_episodes

    @property
    def ratio(self) -> float | None:
        """Episodes played over phi*."""
        return self.n_episodes / self.min_episodes if self.min_episodes else None

    @property
    def uncovered(self) -> list[tuple[Row, float]]:
        """What is still missing: (row, visits), most first."""
        missing = np.maximum(self.target.counts - self.game.collected, 0.0)
        order = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
        return list(zip(self.target.as_rows(order), missing[order].tolist(), strict=True))

    @property
    def budget_left(self) -> int | None:
        budget = self.settings.max_episodes
        return None if budget is None else max(0, budget - self.n_episodes)

    def to_dict(self) -> dict[str, Any]:
        """The JSON answer of ``covgame cover``."""
        return {
            "environment": self.environment.name,
            "episodes": self.n_episodes,
            "covered": self.covered,
            "stopped": self.stopped,
            "uncovered": [[*row, missing] for row, missing in self.uncovered],
            "unreachable": [[*row, bound] for row, bound in self.unreachable],
            "min_episodes": self.min_episodes,
            "ratio": self.ratio,
            "seed": self.settings.seed,
            "preset": self.settings.preset,
            "run": str(self.path) if self.path else None,
        }

    def facts(self) -> list[tuple[str, str]]:
        """What there is to say, as (label, value) lines for people."""
        H, S, A = self.target.shape.hsa
        facts = [
            ("environment", f"{self.environment.name}: {H} stages, {S} states, {A} actions"),
            ("covered", self._extent()),
            ("episodes", f"{number(self.n_episodes)} ({self._how()})"),
        ]
        if self.min_episodes:
            facts.append(("lower bound", self._comparison()))
        if self.unreachable:
            facts.append(("left out", f"{len(self.unreachable):,} rows below --min-reach"))
        if self.path:
            facts.append(("run", str(self.path)))
        return facts

    def _extent(self) -> str:
        rows = "cells" if self.target.per_cell.all() else "groups of cells"
        wanted = f"{number(self.target.counts.sum())} visits wanted"
        if self.covered:
            return f"all {len(self.target):,} {rows}, {wanted}"
        done = len(self.target) - len(self.uncovered)
        return f"{done:,} of {len(self.target):,} {rows}, {wanted}"

    def _how(self) -> str:
        return f"preset {self.settings.preset}, seed {self.settings.seed}"

    def _comparison(self) -> str:
        bound = f"{number(self.min_episodes or 0.0)} on average for any method (phi*)"
        return f"{bound}: {self.ratio:.3f} times that" if self.covered else bound

    def to_text(self, most: int = SHOWN) -> str:
        """The run as a page for a terminal."""
        lines = [f"{label:<12} {value}" for label, value in self.facts()]
        uncovered = self.uncovered
        if uncovered and most:
            lines += ["", "Still missing (visits)"]
            lines += [f"  {number(n):>10}  {self._name(row)}" for row, n in uncovered[:most]]
            if len(uncovered) > most:
                lines.append(f"  and {len(uncovered) - most:,} more")
        return "\n".join(lines)

    def _name(self, row: Row) -> str:
        model = self.environment.model
        return model.names.describe(row) if model else describe_row(row)

    def __repr__(self) -> str:
        state = "covered" if self.covered else f"{len(self.uncovered)} rows open"
        return f"Run({self.environment.name!r}, {self.n_episodes:,} episodes, {state})"


def cover(
    env: Environment | TabularMDP | str | Path,
    target: Request | Target | str | Path,
    *,
    horizon: int | None = None,
    seed: int = 0,
    preset: Preset = "default",
    delta: float = 0.1,
    stage_dependent: bool = False,
    min_reach: float = 0.0,
    max_episodes: int | None = None,
    out: str | Path | None = None,
    progress: Callable[[Run], None] | None = None,
) -> Run:
    """Play until every requirement of ``target`` is met, or the budget is spent.

    With ``out`` the episodes are written to that folder as Parquet files, and a run that was
    interrupted goes on with ``covgame.resume``. ``progress`` is called after every block of
    episodes. Ctrl-C saves what there is and raises ``KeyboardInterrupt``.
    """
    settings = Settings(seed, preset, delta, stage_dependent, max_episodes)
    run = start(env, target, settings, horizon=horizon, min_reach=min_reach)
    if out is not None:
        create_folder(run, Path(out), str(target))
    return _to_the_end(run, progress)


def resume(
    path: str | Path,
    *,
    max_episodes: int | None = None,
    progress: Callable[[Run], None] | None = None,
) -> Run:
    """Go on where a stopped or killed run was; a finished one is returned as it is."""
    run = load(path, max_episodes)
    return run if run.folder and run.folder.finished else _to_the_end(run, progress)


def _to_the_end(run: Run, progress: Callable[[Run], None] | None) -> Run:
    for _ in play(run):
        if progress:
            progress(run)
    if run.stopped == "interrupted":
        raise KeyboardInterrupt
    return run


def start(
    env: Environment | TabularMDP | str | Path,
    target: Request | Target | str | Path,
    settings: Settings,
    *,
    horizon: int | None = None,
    min_reach: float = 0.0,
) -> Run:
    """A run before its first episode."""
    environment = env if isinstance(env, Environment) else make(env, horizon)
    model = environment.require_model("covering")
    wanted = drop_rarely_reached(resolve_target(target, model), model.transitions, min_reach)
    check_reachable(wanted.target, model.transitions)
    game = settings.new_game(wanted.target, stationary=model.transitions.stationary)
    return Run(environment, wanted.target, settings, game, wanted.dropped)


def create_folder(run: Run, out: Path | None, request: str) -> RunFolder:
    """Give a run a place on disk, with all that is needed to resume it."""
    from covgame.mdp.files import model_text
    from covgame.targets.files import target_text

    model = run.environment.require_model("covering")
    by_name = run.environment.by_name
    manifest = {
        "command": "cover",
        "environment": run.environment.name,
        "horizon": run.environment.horizon,
        "model": None if by_name else MODEL,
        "request": request,
        "target": TARGET,
        **vars(run.settings),
        "unreachable": [[*row, bound] for row, bound in run.unreachable],
        "min_episodes": run.min_episodes,
        "versions": _versions(),
    }
    files = {TARGET: target_text(run.target)}
    if not by_name:
        files[MODEL] = model_text(model)
    run.folder = RunFolder.create(out or fresh_folder(run.environment.name), manifest, files)
    return run.folder


def load(path: str | Path, max_episodes: int | None = None) -> Run:
    """A run from its folder, at the last point that was saved."""
    from covgame.targets.files import load_target

    folder = RunFolder.open(path)
    asked = folder.manifest
    if asked.get("command") != "cover":
        raise BadInput(f"{path} is a run of {asked.get('command')!r}, not of cover")
    try:
        environment = _environment(folder)
        target = load_target(folder.path / asked["target"]).on(
            environment.require_model("covering").shape
        )
        budget = max_episodes if max_episodes is not None else asked["max_episodes"]
        settings = Settings(
            asked["seed"], asked["preset"], asked["delta"], asked["stage_dependent"], budget
        )
        unreachable = [((h, s, a), bound) for h, s, a, bound in asked["unreachable"]]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{folder.path / 'run.json'} is damaged: {error!r}") from error
    stationary = environment.require_model("covering").transitions.stationary
    game = settings.new_game(target, stationary=stationary)
    arrays = folder.load_counts()
    if arrays is not None:
        restore_game(game, arrays)
    run = Run(environment, target, settings, game, unreachable, folder)
    if folder.finished:
        run.stopped = "covered"
    return run


def _environment(folder: RunFolder) -> Environment:
    """The environment of a run, made again by name or from the model kept with the run."""
    asked = folder.manifest
    if asked["model"] is None:
        return make(asked["environment"], asked["horizon"])
    again = make(folder.path / asked["model"])
    return Environment(asked["environment"], again.horizon, again.model, by_name=False)


def play(run: Run) -> Iterator[Run]:
    """Play in blocks; after each the run is yielded. Ends when covered, spent or interrupted.

    However the consumer leaves, what was played is saved.
    """
    model = run.environment.require_model("covering")
    most = max(1, STEPS_PER_BLOCK // model.shape.horizon)
    source = SimulatedSource(model, run.settings.seed)
    recorder = _recorder(run)
    player = CompiledPlayer(run.game, source, most=most, record=recorder is not None)
    episodes, run.stopped = FIRST_BLOCK, None
    with Interruption() as interruption:
        try:
            while not (run.covered or run.budget_left == 0 or interruption.wanted):
                began = time.monotonic()
                limits = [episodes, run.budget_left, recorder.room if recorder else None]
                block = player.play(min(limit for limit in limits if limit is not None))
                if recorder:
                    recorder.add(block)
                episodes = _next_size(episodes, time.monotonic() - began)
                yield run
        finally:
            run.stopped = _why(run)
            if recorder and run.folder:
                recorder.close()
                run.folder.save_result(run.to_dict(), "finished" if run.covered else "stopped")


def _recorder(run: Run) -> Recorder | None:
    """Writes the run down, if it has a folder; what that needs takes a moment to import."""
    if run.folder is None:
        return None
    from covgame.store.recorder import Recorder

    return Recorder(run.folder, run.game)


def _why(run: Run) -> Stopped:
    if run.covered:
        return "covered"
    return "budget" if run.budget_left == 0 else "interrupted"


def _next_size(episodes: int, seconds: float) -> int:
    """Blocks of about a tenth of a second: long enough to be fast, short enough to watch."""
    wanted = episodes * SECONDS_PER_BLOCK / max(seconds, 1e-6)
    return max(1, math.floor(min(wanted, 2.0 * episodes)))


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("covgame", "numba", "numpy", "pyarrow")}
    return {"python": platform.python_version(), **libraries}
