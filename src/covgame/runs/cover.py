"""``cover``: play until every requirement is met, in close to the fewest episodes possible."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from covgame.errors import BadInput, EnvironmentFailed, Row, UnknownModel, describe_row
from covgame.flow.min_flow import min_flow
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.presets import default_game, paper_game
from covgame.interruption import Indivisible, Interruption
from covgame.jsonfile import check_content
from covgame.mdp.model import TabularMDP
from covgame.pac.mixtures import ConfidenceSets, Structure
from covgame.planning import number, resolve_target
from covgame.players.by_counts import MOST_EPISODES, CountsPlayer
from covgame.players.compiled import CompiledPlayer
from covgame.players.lazy import BatchedPlayer
from covgame.players.stepped import SteppedPlayer
from covgame.runs.shared import (
    FIRST_BLOCK,
    STEPS_PER_BLOCK,
    Source,
    check_common,
    environment_of,
    next_size,
    open_source,
    take_up,
    to_the_end,
    versions,
    warn_of,
)
from covgame.sources.environments import Environment, as_environment
from covgame.sources.external import StepSource
from covgame.store.folder import MANIFEST, MODEL, TARGET, RunFolder, fresh_folder
from covgame.store.state import Arrays, game_arrays, restore_game
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

if TYPE_CHECKING:
    from covgame.store.episodes import RecordedEpisodes
    from covgame.store.manifest import CoverManifest
    from covgame.store.recorder import CountsRecorder, Recorder

Preset = Literal["default", "paper"]
Play = Literal["exact", "lazy", "counts"]
Stopped = Literal["covered", "budget", "interrupted", "failed"]
Player = CompiledPlayer | SteppedPlayer | BatchedPlayer | CountsPlayer

SHOWN = 10
WIDEST_MAP = 16
LARGE = 20_000
"""Above so many cells phi* takes a while, and is computed after the episodes, not before."""


@dataclass(frozen=True)
class Settings:
    """How to cover: all that decides which episodes are played, beside world and target."""

    seed: int = 0
    preset: Preset = "default"
    delta: float = 0.1
    stage_dependent: bool = False
    max_episodes: int | None = None
    play: Play = "exact"

    def __post_init__(self) -> None:
        check_common(self.seed, self.delta, self.max_episodes)
        if self.preset not in get_args(Preset):
            raise BadInput(
                f"cover knows the presets {' and '.join(get_args(Preset))}, not {self.preset!r}"
            )
        if self.play not in get_args(Play):
            raise BadInput(f"play exact, lazy or by counts, not {self.play!r}")
        object.__setattr__(self, "seed", int(self.seed))
        if self.max_episodes is not None:
            object.__setattr__(self, "max_episodes", int(self.max_episodes))

    def new_game(self, target: Target, *, stationary: bool) -> Game:
        if self.preset == "paper":
            return paper_game(target, delta=self.delta)
        return default_game(target, pooled=stationary and not self.stage_dependent)


@dataclass(eq=False)
class Run:
    """A run of ``cover``: what was asked, what was collected, and how it ended."""

    environment: Environment
    settings: Settings
    game: Game = field(repr=False)
    source: Source = field(repr=False)
    unreachable: list[tuple[Row, float]] = field(default_factory=list, repr=False)
    growing: Uniform | None = field(default=None, repr=False)
    folder: RunFolder | None = field(default=None, repr=False)
    stopped: Stopped | None = None
    failure: str | None = None  # what the environment did, if it failed
    min_reach: float = 0.0  # on an environment without a table: leave out what is rarer than that
    notice: str | None = None  # what had to be mended when it was loaded

    @property
    def target(self) -> Target:
        """What is to be covered; on an environment without a table it grows."""
        return self.game.target

    @property
    def n_episodes(self) -> int:
        return self.game.counts.n_episodes

    @property
    def covered(self) -> bool:
        """Whether every row has its visits (and something was seen, where that is the target)."""
        return self.game.covered and (self.growing is None or self.n_episodes > 0)

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
        if self.folder and self.folder.manifest["min_episodes"] is not None:
            known: float = self.folder.manifest["min_episodes"]
            return known
        if self.environment.model is None or self._too_late_to_ask():
            return None
        return min_flow(self.environment.model.transitions, self.target).min_episodes

    def _too_late_to_ask(self) -> bool:
        """Who interrupts a run on a large world does not want to wait for a linear program."""
        return self.stopped == "interrupted" and self.target.shape.cells > LARGE

    @property
    def ratio(self) -> float | None:
        """Episodes played over phi*."""
        if not self.min_episodes:
            return None
        ratio = self.n_episodes / self.min_episodes
        return ratio if math.isfinite(ratio) else None

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
            "failure": self.failure,
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
        if self.growing is not None:
            facts.append(("states seen", self._seen()))
        if self.unreachable:
            proved = " (proved from the data)" if self.min_reach else ""
            facts.append(("left out", f"{len(self.unreachable):,} rows below --min-reach{proved}"))
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

    def _seen(self) -> str:
        visits = self.counts.visits.sum(axis=2)
        states, places = int(visits.any(axis=0).sum()), int((visits > 0).sum())
        meaning = "all that was seen is meant; what never was may still exist"
        return f"{states:,}, {places:,} with their stages ({meaning})"

    def _how(self) -> str:
        return f"preset {self.settings.preset}, seed {self.settings.seed}"

    def _comparison(self) -> str:
        least = number(self.min_episodes or 0.0)
        bound = f"{least} on average for any method that always covers (phi*)"
        return f"{bound}: {self.ratio:.3f} times that" if self.covered else bound

    def to_text(self, most: int = SHOWN) -> str:
        """The run as a page for a terminal."""
        lines = [f"{label:<12} {value}" for label, value in self.facts()]
        lines += self._map()
        uncovered = self.uncovered
        if uncovered and most:
            lines += ["", "Still missing (visits)"]
            lines += [f"  {number(n):>10}  {self._name(row)}" for row, n in uncovered[:most]]
            if len(uncovered) > most:
                lines.append(f"  and {len(uncovered) - most:,} more")
        return "\n".join(lines)

    def _map(self) -> list[str]:
        """The visits of every state, drawn as a grid where the environment is one."""
        model = self.environment.model
        if model is None or model.names.grid is None or model.names.grid[1] > WIDEST_MAP:
            return []
        visits = self.counts.visits.sum(axis=(0, 2)).reshape(model.names.grid)
        words = [[f"{n:,}" if n else "." for n in row] for row in visits.tolist()]
        width = max(len(word) for row in words for word in row)
        drawn = ["  ".join(f"{word:>{width}}" for word in row) for row in words]
        return ["", "Visits (all stages and actions)", *(f"  {line}" for line in drawn)]

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
    play: Play = "exact",
    out: str | Path | None = None,
    progress: Callable[[Run], None] | None = None,
) -> Run:
    """Play until every requirement of ``target`` is met, or the budget is spent.

    With ``out`` the episodes are written to that folder as Parquet files, and a run that was
    interrupted goes on with ``covgame.resume``. ``play="counts"`` plays a simulated model by its
    visits alone, billions of episodes a second, and leaves no episodes. ``progress`` is called
    after every block of episodes. Ctrl-C saves what there is and raises ``KeyboardInterrupt``.
    """
    settings = Settings(seed, preset, delta, stage_dependent, max_episodes, play)
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
    warn_of(run)
    return run if run.stopped == "covered" else _to_the_end(run, progress)


def _to_the_end(run: Run, progress: Callable[[Run], None] | None) -> Run:
    to_the_end(run, play_blocks(run), progress)
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
    environment = as_environment(env, horizon)
    if settings.play == "counts" and environment.opener is not None:
        raise BadInput(
            f"{environment.name} is played step by step; only models, families and files are "
            "played by counts (covgame envs NAME --save FILE writes a table as a model file)"
        )
    if settings.play == "lazy" and environment.model is None:
        raise BadInput("lazy play needs states that are known beforehand; use --play exact")
    source = open_source(environment, settings.seed)
    if environment.model is None:
        return _start_unknown(environment, target, settings, source, min_reach)
    transitions = environment.model.transitions
    asked = resolve_target(target, environment.model)
    wanted = drop_rarely_reached(asked, transitions, min_reach)
    check_reachable(wanted.target, transitions)
    game = settings.new_game(wanted.target, stationary=transitions.stationary)
    game.allowed = transitions.allowed
    if isinstance(source, StepSource):
        source.allowed = transitions.allowed
    return Run(environment, settings, game, source, wanted.dropped)


def _start_unknown(
    environment: Environment,
    target: Request | Target | str | Path,
    settings: Settings,
    source: Source,
    min_reach: float,
) -> Run:
    """Without a table the target is what was seen so far, or rows over numbered states."""
    if not 0 <= min_reach <= 1:
        raise BadInput(f"--min-reach is a probability, not {min_reach!r}")
    if min_reach and source.discovers_states:
        raise BadInput(
            "--min-reach is certified from counts, which needs the number of states beforehand; "
            f"{environment.name} only shows its states as it goes"
        )
    request = parse_request(str(target)) if isinstance(target, str | Path) else target
    shape = source.shape
    if isinstance(request, Uniform):
        empty = Target.of_rows(shape, np.zeros((0, 3), dtype=np.int64), np.zeros(0))
        game = settings.new_game(empty, stationary=source.stationary)
        return Run(environment, settings, game, source, growing=request, min_reach=min_reach)
    if isinstance(request, Listed) and not source.discovers_states:
        listed = request.on(shape)
        game = settings.new_game(listed, stationary=source.stationary)
        return Run(environment, settings, game, source, min_reach=min_reach)
    raise UnknownModel(
        f"{environment.name} has no transition table, so its target must be uniform:N, "
        "uniform:N/pair or uniform:N/state (a list of cells only if its states are numbered)"
    )


def create_folder(run: Run, out: Path | None, request: str) -> RunFolder:
    """Give a run a place on disk, with all that is needed to resume it."""
    from covgame.mdp.files import model_text
    from covgame.targets.files import target_text

    model, by_name = run.environment.model, run.environment.by_name
    manifest = {
        "command": "cover",
        "environment": run.environment.name,
        "horizon": run.environment.horizon,
        "model": None if by_name else MODEL,
        "request": request,
        "target": TARGET,
        "growing": vars(run.growing) if run.growing else None,
        **vars(run.settings),
        "min_reach": run.min_reach,
        "unreachable": [[*row, bound] for row, bound in run.unreachable],
        "min_episodes": run.min_episodes if run.target.shape.cells <= LARGE else None,
        "versions": versions(),
    }
    files = {TARGET: target_text(run.target)}
    if model is not None and not by_name:
        files[MODEL] = model_text(model)
    run.folder = RunFolder.create(out or fresh_folder(run.environment.name), manifest, files)
    return run.folder


def load(path: str | Path, max_episodes: int | None = None) -> Run:
    """A run from its folder, at the last point that was saved."""
    from covgame.store.manifest import CoverManifest

    folder = RunFolder.open(path)
    asked = check_content(CoverManifest, folder.manifest, folder.path / MANIFEST)
    environment = environment_of(folder)
    budget = max_episodes if max_episodes is not None else asked.max_episodes
    settings = Settings(
        asked.seed, cast("Preset", asked.preset), asked.delta, asked.stage_dependent, budget,
        asked.play,
    )  # fmt: skip
    source = open_source(environment, settings.seed, folder.load_states())
    run = take_up(
        folder, lambda: _begin(folder, asked, environment, settings, source), _restore, _recount
    )
    if folder.finished and run.covered and not run.notice:  # what was mended is still to be saved
        run.stopped = "covered"
    return run


def _begin(
    folder: RunFolder,
    asked: CoverManifest,
    environment: Environment,
    settings: Settings,
    source: Source,
) -> Run:
    """The run of a folder, before its first episode."""
    from covgame.targets.files import load_target

    target = load_target(folder.path / asked.target).on(source.shape)
    game = settings.new_game(target, stationary=source.stationary)
    if environment.model is not None:
        game.allowed = environment.model.transitions.allowed
        if isinstance(source, StepSource):
            source.allowed = game.allowed
    unreachable: list[tuple[Row, float]] = [(row[:3], row[3]) for row in asked.unreachable]
    growing = Uniform(asked.growing.count, asked.growing.per) if asked.growing else None
    return Run(
        environment, settings, game, source, unreachable, growing, folder,
        min_reach=asked.min_reach,
    )  # fmt: skip


def _restore(run: Run, arrays: Arrays) -> None:
    """Bring a run to where its counts were saved."""
    if run.growing is not None or run.min_reach:
        target = _saved_target(arrays, run.source)
        run.game = run.settings.new_game(target, stationary=run.source.stationary)
    restore_game(run.game, arrays)
    if isinstance(run.source, StepSource) and run.source.allowed is None:
        allowed = run.game.allowed
        run.source.allowed = None if allowed is None else allowed.copy()


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


def _recount(run: Run, source: StepSource, recorded: RecordedEpisodes) -> None:
    """Tell the game all recorded episodes, as if they were played now."""
    if run.min_reach and run.folder:
        run.unreachable = run.folder.manifest["unreachable"] = []  # found again on the way
    player = SteppedPlayer(run.game, source, run.growing)
    for episode in recorded:
        player.replay(episode)
        if run.min_reach:
            _leave_out_rare(run, player)


def play_blocks(run: Run) -> Iterator[Run]:
    """Play in blocks; after each the run is yielded. Ends when covered, spent or interrupted.

    However the consumer leaves, what was played is saved, as far as it belongs together.
    """
    episodes, run.stopped, recorder = FIRST_BLOCK, None, None
    one_block = Indivisible()
    with Interruption() as interruption:
        try:
            recorder = _recorder(run)
            player = _player(run, record=recorder is not None)
            while not (run.covered or run.budget_left == 0 or interruption.wanted):
                began = time.monotonic()
                size = None if run.settings.play == "counts" else episodes
                limits = [
                    size,
                    run.budget_left,
                    recorder.room if recorder else None,
                    next_look(run.n_episodes) - run.n_episodes if run.min_reach else None,
                ]
                most = min((limit for limit in limits if limit is not None), default=MOST_EPISODES)
                with one_block:
                    block = player.play(most)
                    if recorder:
                        recorder.add(block)
                    if run.min_reach and isinstance(player, SteppedPlayer):
                        _leave_out_rare(run, player)
                episodes = next_size(episodes, time.monotonic() - began)
                yield run
        except EnvironmentFailed as error:
            run.failure = str(error)
        finally:
            if recorder:
                recorder.close(whole=not one_block.broken)
            run.stopped = "interrupted" if one_block.broken else _why(run)
            if recorder and not one_block.broken:
                save_answer(run, run.to_dict(solve=run.target.shape.cells <= LARGE))


FIRST_LOOK = 50


def next_look(episodes: int) -> int:
    """After how many episodes reachability is bounded next: a sequence that depends on nothing."""
    look = FIRST_LOOK
    while look <= episodes:
        look = math.ceil(1.25 * look)
    return look


def _leave_out_rare(run: Run, player: SteppedPlayer) -> None:
    """Drop open rows that, as the data prove, no policy reaches with ``min_reach``."""
    if run.n_episodes != next_look(run.n_episodes - 1):
        return
    sets = ConfidenceSets(run.counts, Structure(allowed=run.game.allowed), run.settings.delta)
    open_rows = np.flatnonzero(run.game.collected < run.target.counts)
    bounds = sets.reach_of_rows(run.target.rows[open_rows])
    rare = open_rows[bounds < run.min_reach]
    if not len(rare):
        return
    found = zip(run.target.as_rows(rare), bounds[bounds < run.min_reach].tolist(), strict=True)
    run.unreachable += list(found)
    player.leave_out(run.target.rows[rare])
    if run.folder:
        run.folder.manifest["unreachable"] = [[*row, bound] for row, bound in run.unreachable]
        run.folder.save_manifest()


def save_answer(run: Run, answer: dict[str, Any]) -> None:
    """Write the answer to the run's folder, if it has one."""
    if run.folder:
        run.folder.save_result(answer, "finished" if run.covered else "stopped")


def _player(run: Run, *, record: bool) -> Player:
    """Who plays the episodes, and how."""
    if run.settings.play == "counts":
        model = run.environment.require_model("playing by counts")
        return CountsPlayer(run.game, model, run.settings.seed)
    if run.settings.play == "lazy":
        return BatchedPlayer(run.game, run.source)
    if isinstance(run.source, StepSource):
        player = SteppedPlayer(run.game, run.source, run.growing)
        if run.min_reach and run.unreachable:
            rows = [[ANY if i is None else i for i in row] for row, _ in run.unreachable]
            player.leave_out(np.array(rows, dtype=np.int64))
        return player
    most = max(1, STEPS_PER_BLOCK // run.source.shape.horizon)
    return CompiledPlayer(run.game, run.source, most=most, record=record)


def _recorder(run: Run) -> Recorder | CountsRecorder | None:
    """Writes the run down, if it has a folder; what that needs takes a moment to import."""
    if run.folder is None:
        return None
    from covgame.store.recorder import CountsRecorder, Recorder

    if run.settings.play == "counts":
        return CountsRecorder(run.folder, lambda: game_arrays(run.game))
    horizon = run.target.shape.horizon
    return Recorder(run.folder, horizon, run.n_episodes, run.source, lambda: game_arrays(run.game))


def _why(run: Run) -> Stopped:
    if run.failure:
        return "failed"
    if run.covered:
        return "covered"
    return "budget" if run.budget_left == 0 else "interrupted"
