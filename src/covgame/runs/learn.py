"""``explore`` and ``identify``: play what an algorithm asks for until it has seen enough."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from covgame.jsonfile import check_content
from covgame.mdp.model import TabularMDP
from covgame.pac.principle import Suprema
from covgame.runs.algorithms import algorithm_for, pay_of
from covgame.runs.learning_run import Exploration, Identification
from covgame.runs.playing import to_the_end
from covgame.runs.refusals import (
    check_can_be_counted,
    check_has_confidence_sets,
    check_possible,
)
from covgame.runs.saving import create_folder, environment_of
from covgame.runs.settings import LearnPlay, LearnPreset, LearnSettings
from covgame.sources.environments import Environment, as_environment
from covgame.store.folder import MANIFEST, RunFolder

AnyRun = TypeVar("AnyRun", Exploration, Identification)


def explore(
    env: Environment | TabularMDP | str | Path,
    *,
    epsilon: float,
    delta: float = 0.1,
    horizon: int | None = None,
    seed: int = 0,
    preset: LearnPreset = "certified",
    play: LearnPlay | None = None,
    max_episodes: int | None = None,
    scale: float = 1.0,
    most_successors: int | None = None,
    stage_dependent: bool = False,
    force: bool = False,
    out: str | Path | None = None,
    progress: Callable[[Exploration], None] | None = None,
) -> Exploration:
    """Explore without a reward until ``run.model.plan(reward)`` is eps-optimal for any reward."""
    settings = LearnSettings(
        "explore", epsilon, delta, seed, preset, play, max_episodes, scale,
        most_successors=most_successors, stage_dependent=stage_dependent,
    )  # fmt: skip
    run = cast("Exploration", start(env, settings, horizon=horizon, force=force))
    return _to_the_end(run, out, progress)


def identify(
    env: Environment | TabularMDP | str | Path,
    *,
    epsilon: float,
    delta: float = 0.1,
    horizon: int | None = None,
    seed: int = 0,
    preset: LearnPreset = "certified",
    play: LearnPlay | None = None,
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
    progress: Callable[[Identification], None] | None = None,
) -> Identification:
    """Find a policy whose value is within epsilon of the best, for the environment's reward."""
    settings = LearnSettings(
        "identify", epsilon, delta, seed, preset, play, max_episodes, scale, suprema, prune,
        reward_range, return_range, most_successors, stage_dependent,
    )  # fmt: skip
    run = cast("Identification", start(env, settings, horizon=horizon, force=force))
    return _to_the_end(run, out, progress)


def _to_the_end(
    run: AnyRun, out: str | Path | None, progress: Callable[[AnyRun], None] | None
) -> AnyRun:
    if out is not None:
        create_folder(run, out)
    return to_the_end(run, progress)


def start(
    env: Environment | TabularMDP | str | Path,
    settings: LearnSettings,
    *,
    horizon: int | None = None,
    force: bool = False,
) -> Exploration | Identification:
    """A run before its first episode; one that cannot end is refused, with what it would take."""
    environment = as_environment(env, horizon)
    run = _opened(environment, settings)()
    if run.by_counts:
        check_can_be_counted(environment)
    check_possible(run, run.forecast, force=force)
    return run


def reopen(
    folder: RunFolder, max_episodes: int | None
) -> Callable[[], Exploration | Identification]:
    """How to begin the run of a folder once more, with its source open."""
    from covgame.store.manifest import LearningManifest

    asked = check_content(LearningManifest, folder.manifest, folder.path / MANIFEST)
    known = {name: getattr(asked, name) for name in LearnSettings.__dataclass_fields__}
    if max_episodes is not None:
        known["max_episodes"] = max_episodes
    return _opened(environment_of(folder), LearnSettings(**known), folder)


def _opened(
    environment: Environment, settings: LearnSettings, folder: RunFolder | None = None
) -> Callable[[], Exploration | Identification]:
    """Open the source, and say how a run on it begins."""
    source = environment.open(settings.seed, pay=pay_of(settings))
    check_has_confidence_sets(environment, source)
    kind = Exploration if settings.command == "explore" else Identification

    def begin() -> Exploration | Identification:
        algorithm, forecast = algorithm_for(environment, settings, source)
        return kind(environment, settings, source, algorithm, forecast, folder=folder)

    return begin
