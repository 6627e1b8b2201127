"""``explore`` and ``identify``: play what an algorithm asks for until it has seen enough."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast, get_args

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.episodes import Block, as_block
from covgame.errors import BadInput, EnvironmentFailed, TooLarge
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.interruption import Indivisible, Interruption
from covgame.jsonfile import check_content
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.certified import CertifiedExploration, CertifiedIdentification
from covgame.pac.error_bounds import Range
from covgame.pac.forecast import Forecast, forecast_best_policy, forecast_reward_free
from covgame.pac.learnt import LearntModel
from covgame.pac.mixtures import Structure
from covgame.pac.parts import AnyPart, Part, Phase, PolicyPart
from covgame.pac.pce import ProportionalCoverage
from covgame.pac.principle import Conclusion, ImplicitElimination, Suprema
from covgame.planning import number
from covgame.players.by_counts import COARSE, GROWTH, MOST_EPISODES, CountsPlayer
from covgame.players.compiled import CompiledPlayer
from covgame.players.policies import PolicyByCounts, PolicyCompiled, PolicyStepped
from covgame.players.stepped import SteppedPlayer
from covgame.rng import episode_seed
from covgame.runs.certify import best_policy_claim, reward_free_claim, write_certificate
from covgame.runs.shared import (
    FIRST_BLOCK,
    STEPS_PER_BLOCK,
    Source,
    check_common,
    environment_of,
    is_whole,
    next_size,
    open_source,
    take_up,
    to_the_end,
    versions,
    warn_of,
)
from covgame.sources.environments import Environment, as_environment
from covgame.sources.external import StepSource
from covgame.sources.simulated import SimulatedSource
from covgame.store.folder import MANIFEST, MODEL, RunFolder, fresh_folder
from covgame.store.state import Arrays, counts_arrays, game_arrays, restore_counts, restore_game
from covgame.targets.target import Target
from covgame.types import END, BoolArray, BoolHSA, Policy, Shape

if TYPE_CHECKING:
    from covgame.store.episodes import RecordedEpisodes
    from covgame.store.recorder import CountsRecorder, Recorder

Command = Literal["explore", "identify"]
Preset = Literal["certified", "paper"]
Play = Literal["exact", "counts"]
Stopped = Literal["rule", "budget", "interrupted", "failed"]

Player = (
    CountsPlayer | CompiledPlayer | SteppedPlayer | PolicyByCounts | PolicyCompiled | PolicyStepped
)

PARTS = 3
"""The stream of random numbers that gives every part its own seed."""

MOST_SIMULATED = 10**9
MOST_STEPPED = 10**7
"""More episodes than that are not begun: simulated one by one, or step by step elsewhere."""

PHASES_SHOWN = 12


@dataclass(frozen=True)
class Settings:
    """How to learn: all that decides which episodes are played, beside the world."""

    command: Command
    epsilon: float
    delta: float = 0.1
    seed: int = 0
    preset: Preset = "certified"
    play: Play | None = None  # None: by counts where the model is simulated
    max_episodes: int | None = None
    scale: float = 1.0  # of the paper's thresholds
    suprema: Suprema | None = None  # identify: programs with all caps, or without; None by size
    prune: bool = False  # identify: the published form
    reward_range: tuple[float, float] = (0.0, 1.0)  # what the environment may pay
    return_range: tuple[float, float] | None = None  # of the sum of an episode's rewards
    most_successors: int | None = None  # of a state and an action, the end among them
    stage_dependent: bool = False  # do not pool what is learnt over stages (certified)

    def __post_init__(self) -> None:
        check_common(self.seed, self.delta, self.max_episodes)
        for name, value in (("epsilon", self.epsilon), ("scale", self.scale)):
            if not (isinstance(value, int | float) and 1e-30 <= value <= 1e30):
                raise BadInput(f"{name} is a positive number (1e-30 to 1e30), not {value!r}")
        for low, high in filter(None, (self.reward_range, self.return_range)):
            if not -math.inf < low < high < math.inf:
                raise BadInput(f"a range is LO,HI with LO below HI, not {low:g},{high:g}")
        most = self.most_successors
        if most is not None and (not is_whole(most) or most < 1):
            raise BadInput(f"the most successors are a whole number from 1 on, not {most!r}")
        self._check_choices()
        object.__setattr__(self, "seed", int(self.seed))

    def _check_choices(self) -> None:
        for name, value, choices in (
            ("preset", self.preset, get_args(Preset)),
            ("play", self.play, (None, *get_args(Play))),
            ("suprema", self.suprema, (None, *get_args(Suprema))),
        ):
            if value not in choices:
                known = " or ".join(choice for choice in choices if choice)
                raise BadInput(f"{name} is {known}, not {value!r}")
        if self.preset == "certified" and (self.scale != 1 or self.prune or self.suprema):
            raise BadInput("scale, suprema and prune belong to --preset paper")
        if self.prune and self.play == "counts":
            raise BadInput("pruning looks at episodes, and by counts there are none; play exact")


Explorer = ProportionalCoverage | CertifiedExploration
Identifier = ImplicitElimination | CertifiedIdentification
Learner = TypeVar("Learner", bound=Explorer | Identifier)


@dataclass(eq=False)
class LearningRun(ABC, Generic[Learner]):
    """A run of ``explore`` or ``identify``: what was asked, how far it got, what it found."""

    environment: Environment
    settings: Settings
    algorithm: Learner = field(repr=False)
    source: Source = field(repr=False)
    forecast: Forecast = field(repr=False)
    n_parts: int = 0  # finished
    n_before: int = 0  # their episodes
    part: AnyPart | None = field(default=None, repr=False)
    blocks: list[Block] = field(default_factory=list, repr=False)  # of the part, if they are needed
    folder: RunFolder | None = field(default=None, repr=False)
    stopped: Stopped | None = None
    failure: str | None = None
    notice: str | None = None  # what had to be mended when it was loaded

    TITLE: ClassVar[str]

    @property
    def n_episodes(self) -> int:
        return self.n_before + (self.part.played if self.part else 0)

    @property
    def done(self) -> bool:
        return self.algorithm.done

    @property
    def allowed(self) -> BoolArray | None:
        """Which actions states have, (S, A), if that is known and not all."""
        model = self.environment.model
        return model.transitions.allowed if model else None

    @property
    def phases(self) -> list[Phase]:
        """What was played, part by part."""
        return self.algorithm.phases

    @property
    def counts(self) -> Counts:
        """What the conclusions rest on: ``counts.visits`` is (H, S, A)."""
        return self.algorithm.counts

    @property
    def model(self) -> LearntModel:
        """What was learnt; ``model.plan(reward)`` gives a policy."""
        return replace(self.algorithm.model, allowed=self.allowed)

    @property
    def guarantee(self) -> str:
        """What the answer is worth."""
        if not self.bounded:
            return "none yet"
        if self.settings.preset == "certified":
            return f"certified, with probability {1 - self.settings.delta:g} (docs/certified.md)"
        if self.settings.scale < 1:
            return f"none: the paper's thresholds were scaled by {self.settings.scale:g}"
        if self.settings.prune:
            return "none: pruning biases the estimates"
        said = f"the paper's, with probability {1 - self.settings.delta:g}"
        if self.settings.command == "explore" and self.by_counts:
            return f"{said} (visitations planned in rounds, see docs/paper.md)"
        return said

    @property
    def by_counts(self) -> bool:
        if self.settings.play is not None:
            return self.settings.play == "counts"
        simulated = isinstance(self.source, SimulatedSource)
        return simulated and self.settings.preset == "paper" and not self.settings.prune

    @property
    def path(self) -> Path | None:
        return self.folder.path if self.folder else None

    @property
    def budget_left(self) -> int:
        """Episodes that may still be played; 64-bit counts end at 2^62 in any case."""
        budget = self.settings.max_episodes
        most = MOST_EPISODES if budget is None else min(budget, MOST_EPISODES)
        return max(0, most - self.n_episodes)

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether anything is proved yet."""

    @abstractmethod
    def findings(self) -> dict[str, Any]:
        """What the run is about, for the JSON answer."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON answer."""
        return {
            "environment": self.environment.name,
            "episodes": self.n_episodes,
            "epsilon": self.settings.epsilon,
            "delta": self.settings.delta,
            **self.findings(),
            "stopped_by": self.stopped,
            "guarantee": self.guarantee,
            "phases": [phase.to_dict() for phase in self.phases],
            "forecast": [[need.part, need.episodes] for need in self.forecast.needs],
            "play": "counts" if self.by_counts else "exact",
            "failure": self.failure,
            "seed": self.settings.seed,
            "preset": self.settings.preset,
            "run": str(self.path) if self.path else None,
        }

    def facts(self) -> list[tuple[str, str]]:
        """What there is to say, as (label, value) lines for people."""
        H, S, A = self.algorithm.counts.shape.hsa
        how = "by counts" if self.by_counts else "episode by episode"
        facts: list[tuple[str, str]] = [
            ("environment", f"{self.environment.name}: {H} stages, {S} states, {A} actions"),
            ("episodes", f"{number(self.n_episodes)} ({how}, seed {self.settings.seed})"),
            ("asked", f"{self.TITLE}, epsilon {self.settings.epsilon:g}"),
            *self._conclusions(),
            ("guarantee", self.guarantee),
        ]
        return [*facts, ("run", str(self.path))] if self.path else facts

    @abstractmethod
    def _conclusions(self) -> list[tuple[str, str]]:
        """The same for people."""

    def to_text(self) -> str:
        """The run as a page for a terminal."""
        lines = [f"{label:<12} {value}" for label, value in self.facts()]
        shown = self.phases[-PHASES_SHOWN:]
        if shown:
            lines += ["", f"  {'part':<32} {'episodes':>12} {'cells':>7} {'most':>10} {'bound':>8}"]
            skipped = len(self.phases) - len(shown)
            lines += [f"  ({skipped:,} parts before)"] if skipped else []
            lines += [f"  {describe(phase)}" for phase in shown]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.environment.name!r}, {self.n_episodes:,} episodes)"


def describe(phase: Phase) -> str:
    """A phase in one line."""
    bound = "" if phase.bound is None else f"{phase.bound:.4g}"
    most = f"{number(phase.largest)}" if phase.largest else ""
    return f"{phase.name:<32} {number(phase.episodes):>12} {phase.wanted:>7,} {most:>10} {bound:>8}"


class Exploration(LearningRun[Explorer]):
    """A run of ``explore``."""

    TITLE = "a model that is good enough for any reward"

    @property
    def certified_error(self) -> float | None:
        """What an optimal policy on the model loses at most, whatever the reward."""
        error = self.algorithm.certified_error
        return None if error is None else min(error, float(self.counts.shape.horizon))

    @property
    def bounded(self) -> bool:
        return self.certified_error is not None

    def findings(self) -> dict[str, Any]:
        return {"certified_error": self.certified_error}

    def _conclusions(self) -> list[tuple[str, str]]:
        if self.certified_error is None:
            return [("error", "not bounded yet")]
        return [("error", f"at most {number(self.certified_error)} for any reward in [0, 1]")]


class Identification(LearningRun[Identifier]):
    """A run of ``identify``."""

    TITLE = "a policy close to the best"

    _known: tuple[int, Conclusion | None] | None = None  # and after how many parts

    @property
    def conclusion(self) -> Conclusion | None:
        """What the data say of the best policy, after the last finished part."""
        if self._known is None or self._known[0] != self.n_parts:
            self._known = (self.n_parts, self.algorithm.conclusion())
        return self._known[1]

    @property
    def bounded(self) -> bool:
        return self.conclusion is not None

    @property
    def policy(self) -> Policy:
        """The policy to recommend."""
        return self.conclusion.policy if self.conclusion else self.algorithm.policy

    @property
    def certified_gap(self) -> float | None:
        """What the policy loses at most against the best one."""
        return self.conclusion.gap if self.conclusion else None

    def findings(self) -> dict[str, Any]:
        found = self.conclusion
        return {
            "certified_gap": self.certified_gap,
            "value_lower": found.lower if found else None,
            "value_upper": found.upper if found else None,
            "policy": self.policy.to_list(),
        }

    def _conclusions(self) -> list[tuple[str, str]]:
        found = self.conclusion
        if found is None:
            return [("gap", "not bounded yet")]
        return [
            ("policy", "stochastic" if found.policy.is_stochastic else "deterministic"),
            (
                "value",
                f"at least {number(found.lower)}; the best has at most {number(found.upper)}",
            ),
            ("gap", f"at most {number(found.gap)}"),
        ]


AnyRun = Exploration | Identification
Progress = Callable[[AnyRun], None]


def explore(
    env: Environment | TabularMDP | str | Path,
    *,
    epsilon: float,
    delta: float = 0.1,
    horizon: int | None = None,
    seed: int = 0,
    preset: Preset = "certified",
    play: Play | None = None,
    max_episodes: int | None = None,
    scale: float = 1.0,
    most_successors: int | None = None,
    stage_dependent: bool = False,
    force: bool = False,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Exploration:
    """Explore without a reward until ``run.model.plan(reward)`` is eps-optimal for any reward."""
    settings = Settings(
        "explore", epsilon, delta, seed, preset, play, max_episodes, scale,
        most_successors=most_successors, stage_dependent=stage_dependent,
    )  # fmt: skip
    run = start(env, settings, horizon=horizon, force=force)
    return cast("Exploration", _to_the_end(run, out, progress))


def identify(
    env: Environment | TabularMDP | str | Path,
    *,
    epsilon: float,
    delta: float = 0.1,
    horizon: int | None = None,
    seed: int = 0,
    preset: Preset = "certified",
    play: Play | None = None,
    max_episodes: int | None = None,
    scale: float = 1.0,
    suprema: Suprema | None = None,
    prune: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
    return_range: tuple[float, float] | None = None,
    most_successors: int | None = None,
    stage_dependent: bool = False,
    force: bool = False,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Identification:
    """Find a policy whose value is within epsilon of the best, for the environment's reward."""
    settings = Settings(
        "identify", epsilon, delta, seed, preset, play, max_episodes, scale, suprema, prune,
        reward_range, return_range, most_successors, stage_dependent,
    )  # fmt: skip
    run = start(env, settings, horizon=horizon, force=force)
    return cast("Identification", _to_the_end(run, out, progress))


def _to_the_end(run: AnyRun, out: str | Path | None, progress: Progress | None) -> AnyRun:
    if out is not None:
        create_folder(run, Path(out))
    to_the_end(run, play_parts(run), progress)
    return run


# ------------------------------------------------------------------------- to begin a run


def start(
    env: Environment | TabularMDP | str | Path,
    settings: Settings,
    *,
    horizon: int | None = None,
    force: bool = False,
) -> AnyRun:
    """A run before its first episode; one that cannot end is refused, with what it would take."""
    environment = as_environment(env, horizon)
    run = _new_run(environment, settings, _open(environment, settings))
    if run.by_counts and environment.opener is not None:
        raise BadInput(
            f"{environment.name} is played step by step; only models, families and files are "
            "played by counts (covgame envs NAME --save FILE writes a table as a model file)"
        )
    _check_possible(run, force=force)
    return run


def _open(environment: Environment, settings: Settings) -> Source:
    """Where the episodes come from, if confidence sets can be had there."""
    source = open_source(environment, settings.seed)
    if source.discovers_states:
        raise BadInput(
            "confidence sets need the number of states beforehand, and "
            f"{environment.name} only shows its states as it goes"
        )
    if isinstance(source, StepSource) and environment.model is None and source.shows_masks():
        raise BadInput(
            f"{environment.name} forbids actions and has no table to say which; only cover plays it"
        )
    return source


def _new_run(environment: Environment, settings: Settings, source: Source) -> AnyRun:
    if settings.preset == "certified":
        return _new_certified(environment, settings, source)
    thresholds = PaperThresholds(source.shape, settings.scale)
    model, asked = environment.model, (settings.epsilon, settings.delta)
    transitions = model.transitions if model else None
    if settings.command == "explore":
        allowed = transitions.allowed if transitions else None
        pce = ProportionalCoverage(thresholds, *asked, allowed)
        forecast = forecast_reward_free(thresholds, *asked, transitions)
        return Exploration(environment, settings, pce, source, forecast)
    known = environment.require_model("the paper's identify")
    exists = _existing_cells(known)
    _check_rewards(known, settings, source)
    principle = ImplicitElimination(
        thresholds,
        *asked,
        exists,
        random_start=not _one_start(known),
        suprema=settings.suprema,
        pruned=settings.prune,
        reward_range=_paid(settings, known),
    )
    precision = settings.epsilon / principle.unit
    forecast = forecast_best_policy(
        principle.thresholds, precision, settings.delta, exists, transitions
    )
    return Identification(environment, settings, principle, source, forecast)


def _new_certified(environment: Environment, settings: Settings, source: Source) -> AnyRun:
    model = environment.model
    simulated = isinstance(source, SimulatedSource)
    structure = Structure(
        most_successors=settings.most_successors,
        # In the paper's setting the first state is given; an environment has to show it.
        known_start=model.initial if model and simulated and _one_start(model) else None,
        allowed=model.transitions.allowed if model else None,
        same_rewards=model is None or len(model.stage_rewards) == 1,
    )
    counts = Counts(source.shape, pooled=source.stationary and not settings.stage_dependent)
    asked = (counts, structure, float(settings.epsilon), settings.delta)
    nothing = Forecast(())
    if settings.command == "explore":
        return Exploration(environment, settings, CertifiedExploration(*asked), source, nothing)
    if model is not None:
        _check_rewards(model, settings, source)
    elif isinstance(source, StepSource):
        source.reward_range = settings.reward_range
    low, high = settings.reward_range if isinstance(source, StepSource) else (0.0, 1.0)
    earned = Range(low, high, _most_paid(settings, model, source))
    # By counts nobody could tell the returns of some episodes from those of the others.
    learner = CertifiedIdentification(*asked, earned, validates=settings.play != "counts")
    return Identification(environment, settings, learner, source, nothing)


def _most_paid(settings: Settings, model: TabularMDP | None, source: Source) -> float | None:
    """The most that an episode pays in all, where the user knows; checked as far as possible."""
    if settings.return_range is None:
        return None
    most = settings.return_range[1]
    if isinstance(source, StepSource):
        source.most_return = most
    elif model is not None:
        pays = (model.rewards > 0).astype(np.float64)  # simulated rewards are 0 or 1
        possible = dp.highest_return(model.transitions, pays)
        if possible > most:
            raise BadInput(
                f"an episode can pay {possible:g} here (simulated rewards are 0 or 1), more than "
                f"the {most:g} of --return-range"
            )
    return most


def _one_start(model: TabularMDP) -> bool:
    return int((model.initial > 0).sum()) == 1


def _check_rewards(model: TabularMDP, settings: Settings, source: Source) -> None:
    """Rewards have to lie in the range that the confidence sets are made for."""
    low, high = (0.0, 1.0)
    if isinstance(source, StepSource):
        low, high = source.reward_range = settings.reward_range
    if (model.rewards < low).any() or (model.rewards > high).any():
        least, most = float(model.rewards.min()), float(model.rewards.max())
        raise BadInput(
            f"rewards from {least:g} to {most:g} do not lie in [{low:g}, {high:g}]; "
            "say --reward-range LO,HI for an environment that is played step by step"
        )


def _paid(settings: Settings, model: TabularMDP) -> tuple[float, float]:
    """The range of rewards; an episode that is over earns 0, so that is in it where it can be."""
    low, high = settings.reward_range
    if (model.transitions.next_state == END).any():
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def _existing_cells(model: TabularMDP) -> BoolHSA:
    """What some policy reaches; PRINCIPLE takes it as given."""
    reachable = dp.reachable(model.transitions)[:, :, None]
    return reachable & model.transitions.allowed_actions


def _check_possible(run: AnyRun, *, force: bool) -> None:
    """Refuse what would not end in a lifetime, with the number and what to do instead."""
    needed = run.forecast.episodes
    parts = ", ".join(f"{need.part}: {number(need.episodes)}" for need in run.forecast.needs)
    said = f"this needs at least {number(needed)} episodes on average ({parts})"
    if needed > MOST_EPISODES:
        raise TooLarge(
            f"{said}, more than 64-bit counts can hold; use --preset certified, ask for a larger "
            "epsilon or a smaller world, or scale the thresholds (--scale, then nothing is "
            "guaranteed)"
        )
    stepped = isinstance(run.source, StepSource)
    most = MOST_STEPPED if stepped else MOST_SIMULATED
    budget = run.settings.max_episodes
    if run.by_counts or force or needed <= most or (budget is not None and budget <= most):
        return
    instead = (
        f"save its table (covgame envs {run.environment.name} --horizon {run.environment.horizon} "
        "--save model.json) and play that by counts"
        if stepped
        else "play by counts (--play counts)"
    )
    raise TooLarge(
        f"{said}, and episodes are played one by one here; use --preset certified, {instead}, "
        "scale the thresholds (--scale, then nothing is guaranteed), or insist with --force"
    )


def create_folder(run: AnyRun, out: Path | None) -> RunFolder:
    """Give a run a place on disk, with all that is needed to resume it."""
    from covgame.mdp.files import model_text

    model, by_name = run.environment.model, run.environment.by_name
    manifest = {
        **vars(run.settings),
        "environment": run.environment.name,
        "horizon": run.environment.horizon,
        "model": None if by_name else MODEL,
        "versions": versions(),
    }
    files = {} if model is None or by_name else {MODEL: model_text(model)}
    run.folder = RunFolder.create(out or fresh_folder(run.environment.name), manifest, files)
    return run.folder


# ----------------------------------------------------------------------- to save and resume


def load(path: str | Path, max_episodes: int | None = None) -> AnyRun:
    """A run from its folder, at the last point that was saved."""
    from covgame.store.manifest import LearningManifest

    folder = RunFolder.open(path)
    asked = check_content(LearningManifest, folder.manifest, folder.path / MANIFEST)
    settings = Settings(
        asked.command,
        asked.epsilon,
        asked.delta,
        asked.seed,
        asked.preset,
        asked.play,
        max_episodes if max_episodes is not None else asked.max_episodes,
        asked.scale,
        asked.suprema,
        asked.prune,
        asked.reward_range,
        asked.return_range,
        asked.most_successors,
        asked.stage_dependent,
    )
    environment = environment_of(folder)
    source = _open(environment, settings)

    def begin() -> AnyRun:
        run = _new_run(environment, settings, source)
        run.folder = folder
        return run

    run = take_up(folder, begin, _restore, _recount)
    if folder.finished and run.done and not run.notice:  # what was mended is still to be saved
        run.stopped = "rule"
    return run


def resume(
    path: str | Path, *, max_episodes: int | None = None, progress: Progress | None = None
) -> AnyRun:
    """Go on where a stopped or killed run was; a finished one is returned as it is."""
    run = load(path, max_episodes)
    warn_of(run)
    return run if run.stopped == "rule" else _to_the_end(run, None, progress)


def run_arrays(run: AnyRun) -> dict[str, Any]:
    """What was learnt, under the same names as in a run of ``cover``, and how to go on."""
    algorithm = run.algorithm
    arrays: dict[str, Any] = {
        **counts_arrays(algorithm.counts),
        "progress": np.array(
            json.dumps(
                {
                    "n_parts": run.n_parts,
                    "n_before": run.n_before,
                    "phases": [asdict(phase) for phase in algorithm.phases],
                    "state": algorithm.state(),
                }
            )
        ),
    }
    if run.allowed is not None:
        arrays["allowed"] = run.allowed
    if run.part is not None and not algorithm.needs_episodes:
        playing = (
            game_arrays(run.part.game)
            if isinstance(run.part, Part)
            else counts_arrays(run.part.counts)
        )
        arrays |= {f"part_{name}": value for name, value in playing.items()}
    return arrays


def _restore(run: AnyRun, arrays: Arrays) -> None:
    algorithm = run.algorithm
    restore_counts(algorithm.counts, arrays)
    try:
        progress = json.loads(str(arrays["progress"]))
        run.n_parts, run.n_before = progress["n_parts"], progress["n_before"]
        algorithm.phases = [Phase(**phase) for phase in progress["phases"]]
        algorithm.restore(progress["state"])
        _check_progress(run)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise BadInput(f"counts.npz does not fit to this run ({error})") from error
    saved = {name[5:]: value for name, value in arrays.items() if name.startswith("part_")}
    if saved:
        run.part = algorithm.next_part()
        if isinstance(run.part, Part):
            run.part.game = _restored(run.part.game, saved)
        elif run.part is not None:
            restore_counts(run.part.counts, saved)
    if run.n_before < 0 or (run.part is not None and run.part.played < 0):
        raise BadInput("counts.npz does not fit to this run (episodes below 0)")
    if run.part is not None and run.part.over:
        _finish(run, run.part)  # it was saved just before the algorithm was told


def _check_progress(run: AnyRun) -> None:
    """What JSON let through: numbers have to be numbers."""
    for value in (run.n_parts, run.n_before):
        if not is_whole(value):
            raise TypeError(f"{value!r} is no number of episodes or parts")
    for phase in run.algorithm.phases:
        phase.to_dict()
        if not (phase.bound is None or isinstance(phase.bound, int | float)):
            raise TypeError(f"{phase.bound!r} is no bound")


def _restored(game: Game, arrays: Arrays) -> Game:
    """The game of a part, whose target may have grown since, as it was saved."""
    if "target_rows" not in arrays or "target_counts" not in arrays:
        raise BadInput("counts.npz lacks the target of the part being played")
    target = Target.of_rows(game.counts.shape, arrays["target_rows"], arrays["target_counts"])
    again = Game(target, game.planner, game.adversary, Counts(game.counts.shape, pooled=False))
    restore_game(again, arrays)
    return again


def _recount(run: AnyRun, source: StepSource, recorded: RecordedEpisodes) -> None:
    """Tell the algorithm all recorded episodes; it asks for the parts that it asked for then."""
    told = 0
    while told < len(recorded):
        run.part = run.part or run.algorithm.next_part()
        if run.part is None:
            raise BadInput(f"{recorded.folder} holds more episodes than this run ever asks for")
        player = _stepped_player(run, run.part, source)
        while told < len(recorded) and not run.part.over:
            player.replay(recorded[told])
            _keep(run, as_block(told, [recorded[told]]))
            told += 1
        if run.part.over:
            _finish(run, run.part)


# ------------------------------------------------------------------------------- to play


def play_parts(run: AnyRun) -> Generator[AnyRun]:
    """Play in blocks; after each the run is yielded. Ends by the rule, the budget or Ctrl-C.

    However the consumer leaves, what was played is saved, as far as it belongs together.
    """
    run.stopped, recorder = None, None
    one_step = Indivisible()
    with Interruption() as interruption:
        try:
            recorder = _recorder(run)
            while not (run.budget_left == 0 or interruption.wanted):
                with one_step:
                    run.part = run.part or run.algorithm.next_part()
                if run.part is None:
                    break
                for _ in _blocks(run, run.part, recorder, interruption, one_step):
                    yield run
                if not run.part.over:
                    break
                with one_step:
                    _finish(run, run.part)
                yield run
        except EnvironmentFailed as error:
            run.failure = str(error)
        finally:
            if recorder:
                recorder.close(whole=not one_step.broken)
            run.stopped = "interrupted" if one_step.broken else _why(run)
            if recorder and run.folder and not one_step.broken:
                _certify(run, run.folder)
                run.folder.save_result(run.to_dict(), "finished" if run.done else "stopped")


def _certify(run: AnyRun, folder: RunFolder) -> None:
    """Write down what the data prove so far; the paper's algorithms have no certificate."""
    algorithm, epsilon = run.algorithm, run.settings.epsilon
    if not algorithm.counts.n_episodes or run.part is not None:
        return  # a round that was broken off is not counted yet
    if isinstance(algorithm, CertifiedExploration):
        write_certificate(folder, reward_free_claim(algorithm.certificate, epsilon))
    elif isinstance(algorithm, CertifiedIdentification):
        claim = best_policy_claim(algorithm.certificate, epsilon, run.settings.delta)
        write_certificate(folder, claim)


def _blocks(
    run: AnyRun,
    part: AnyPart,
    recorder: Recorder | CountsRecorder | None,
    interruption: Interruption,
    one_step: Indivisible,
) -> Iterator[None]:
    """The blocks of one part, until it is over or something stops it."""
    if part.over:
        return
    with one_step:
        player = _player(run, part)
    size, before = FIRST_BLOCK, run.n_before
    while not (part.over or run.budget_left == 0 or interruption.wanted):
        began = time.monotonic()
        limits = [
            None if run.by_counts else size,
            part.left,
            run.budget_left,
            recorder.room if recorder else None,
        ]
        with one_step:
            block = player.play(min(most for most in limits if most is not None))
            block = replace(block, first_episode=before + block.first_episode)
            _keep(run, block)
            if recorder:
                recorder.add(block)
        size = next_size(size, time.monotonic() - began)
        yield


def _keep(run: AnyRun, block: Block) -> None:
    """Keep the episodes for an algorithm that wants to look at them again."""
    if run.algorithm.needs_episodes:
        run.blocks.append(block)


def _finish(run: AnyRun, part: AnyPart) -> None:
    """Tell the algorithm; if it wants more of the same part, the part goes on."""
    algorithm: Any = run.algorithm  # who hands out parts of a kind takes them
    blocks, run.blocks = run.blocks, []
    if algorithm.tell(part, blocks):
        run.n_parts += 1
        run.n_before += part.played
        run.part = None


def _player(run: AnyRun, part: AnyPart) -> Player:
    """Who plays a part."""
    if isinstance(run.source, StepSource):
        return _stepped_player(run, part, run.source)
    if isinstance(part, PolicyPart):
        return _policy_player(run, part, run.source.model)
    seed = _seed(run)
    part.game.allowed = run.allowed
    if run.by_counts:
        growth = GROWTH if part.episodes is None else COARSE
        return CountsPlayer(part.game, run.source.model, seed, growth)
    source = SimulatedSource(run.source.model, seed)
    most = max(1, STEPS_PER_BLOCK // source.shape.horizon)
    record = run.folder is not None or run.algorithm.needs_episodes
    return CompiledPlayer(part.game, source, most=most, record=record)


def _seed(run: AnyRun) -> int:
    """Each part has a seed of its own, because each counts episodes from 0."""
    return episode_seed(run.settings.seed, PARTS, run.n_parts)


def _stepped_player(
    run: AnyRun, part: AnyPart, source: StepSource
) -> SteppedPlayer | PolicyStepped:
    """Who plays a part step by step."""
    source.seed, source.allowed = _seed(run), run.allowed
    if isinstance(part, PolicyPart):
        return PolicyStepped(part.policy, part.counts, source)
    part.game.allowed = run.allowed
    return SteppedPlayer(part.game, source, None)


def _policy_player(run: AnyRun, part: PolicyPart, model: TabularMDP) -> Player:
    """Who plays the episodes of one policy on a simulated model."""
    seed = _seed(run)
    if run.by_counts:
        return PolicyByCounts(part.policy, part.counts, model, seed)
    source = SimulatedSource(model, seed)
    most = min(part.left, max(1, STEPS_PER_BLOCK // source.shape.horizon))
    record = run.folder is not None
    return PolicyCompiled(part.policy, part.counts, source, most=most, record=record)


def _recorder(run: AnyRun) -> Recorder | CountsRecorder | None:
    """Writes the run down, if it has a folder; what that needs takes a moment to import."""
    if run.folder is None:
        return None
    from covgame.store.recorder import CountsRecorder, Recorder

    if run.by_counts:
        return CountsRecorder(run.folder, lambda: run_arrays(run))
    shape: Shape = run.source.shape
    return Recorder(run.folder, shape.horizon, run.n_episodes, run.source, lambda: run_arrays(run))


def _why(run: AnyRun) -> Stopped:
    if run.failure:
        return "failed"
    if run.done:
        return "rule"
    return "budget" if run.budget_left == 0 else "interrupted"
