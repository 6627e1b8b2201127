"""``cover``: play until every requirement is met, in close to the fewest episodes possible."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from covgame.config import CoverConfig
from covgame.errors import BadInput
from covgame.game.growth import Growth, SecondLook
from covgame.game.presets import configured_game, configured_size
from covgame.pac.mixtures import rarely_reached
from covgame.planning import world_of
from covgame.runs.coverage import Coverage
from covgame.runs.loop import save_answer, to_the_end
from covgame.runs.prior_data import AnyData, DataSource, count_prior_data, open_prior_data
from covgame.runs.run import create_folder, failure_policy_of
from covgame.runs.validation import check_can_be_counted, check_can_be_shared, check_has_folder
from covgame.sources.environments import Environment, as_environment
from covgame.sources.maps import AnyMap
from covgame.sources.messages import WorkerPool
from covgame.sources.source import Source
from covgame.storage.folder import RunFolder
from covgame.targets.discovered import SeenLabels
from covgame.targets.resolve import (
    DEFAULT_TARGET,
    NO_TARGET,
    AnyTarget,
    Resolved,
    as_request,
    is_about_transitions,
    resolve,
)


def cover(
    env: Any,
    target: AnyTarget | None = None,
    *,
    horizon: int | None = None,
    states: AnyMap | None = None,
    actions: str | None = None,
    seed: int = 0,
    max_episodes: int | None = None,
    min_reach: float = 0.0,
    workers: int = 1,
    start_from: AnyData | None = None,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: Callable[[Coverage], None] | bool | None = None,
    report: bool = False,
    **options: Any,
) -> Coverage:
    """Play until every requirement of ``target`` is met, or the budget is spent.

    Args:
        env: A name (``covgame envs`` lists them), the path of a model file, a ``TabularMDP``, a
            Gymnasium environment, an object with ``reset`` and ``step``, a class or a function that
            makes one, or what ``covgame.make`` returns.
        target: What has to be visited how often: ``covgame.uniform(50)``, ``proportional``,
            ``cells``, ``groups``, a ``Target``, their text (``"uniform:50/pair"``), or the path of
            a target file. Left out, every action in every state 10 times, at any stage, and a
            sentence on standard error says so.
        horizon: Steps of an episode at most, where ``env`` leaves it open.
        states: What counts as a state, where observations are not states themselves (see
            ``covgame.make``).
        actions: ``"grid:5"`` for actions that are real numbers (see ``covgame.make``).
        seed: Same seed, same run, if there is one worker.
        max_episodes: Stop after this many episodes; ``run.covered`` says whether it was enough.
        min_reach: Skip what no policy reaches with at least this probability.
        workers: So many copies of the environment play at once, each in a process of its own. With
            several, episodes count as they end, and the same seed need not give the same run.
        start_from: Data already collected, one dataset or a list of them: whatever
            ``covgame.audit`` reads (a run, Parquet or CSV files with a run's columns,
            ``minari:ID``). Their visits count, and only what is missing is played.
        columns: What the columns of a table to start from are called, ours -> theirs:
            ``{"state": "s", "action": "a"}``.
        out: A folder for the run. The episodes are written there as Parquet files, and a run that
            was stopped goes on with ``covgame.resume``.
        progress: ``True`` shows a bar, in a terminal or a notebook. A function is called with the
            run after every block of episodes.
        report: Write the page of the run (``run.report()``) at the start and rewrite it while the
            run is played, at most every two seconds; it reloads itself until the run has ended.
        **options: The other options of ``covgame.CoverConfig``, for instance ``preset``, ``play``,
            ``keep_observations``, ``on_failure``, ``step_timeout`` and ``exact_bound``.

    Returns:
        The run: ``run.n_episodes``, ``run.covered``, ``run.counts.visits`` (H x S x A),
        ``run.uncovered``, ``run.min_episodes`` (the fewest that any method needs on average, where
        the model is known) and ``run.min_episodes_is`` (``"exact"`` or ``"lower bound"``).

    Raises:
        BadInput: What was asked for makes no sense; the message says what to change.
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
    settings = CoverConfig(
        seed=seed, max_episodes=max_episodes, min_reach=min_reach, workers=workers, **options
    )
    check_has_folder(settings, out)
    if target is None:
        _say(NO_TARGET)
    run = start(
        as_environment(env, horizon, states, actions),
        target,
        settings,
        DataSource.of(start_from, columns),
    )
    if out is not None:
        create_folder(run, out)
    _say(run.size.words(discovers=run.source.discovers_states))
    to_the_end(run, progress, report=report)
    compute_exact_bound(run)
    if report and settings.exact_bound:
        run.report()
    return run


def compute_exact_bound(run: Coverage) -> None:
    """Compute phi* itself if that was asked for; it is saved with the answer."""
    if run.settings.exact_bound and run.min_episodes_is == "lower bound":
        run.solve_exactly()
        save_answer(run)


def _say(sentence: str | None) -> None:
    """Write to standard error, if there is one."""
    if sentence is not None:
        with contextlib.suppress(OSError, AttributeError):
            sys.stderr.write(f"covgame: {sentence}\n")


def worker_pool_of(settings: CoverConfig) -> WorkerPool | None:
    """The workers that were asked for."""
    if not settings.plays_in_team:
        return None
    return WorkerPool(settings.workers, settings.engine, settings.address)


def start(
    env: Any,
    target: AnyTarget | None,
    settings: CoverConfig,
    data: DataSource | None = None,
) -> Coverage:
    """A run before its first episode; ``data`` has been collected already."""
    environment = as_environment(env)
    check_can_be_shared(environment, settings)
    if settings.play == "counts":
        check_can_be_counted(environment)
        if settings.has_custom_players:
            raise BadInput("a planner or adversary of your own plays episodes; use --play exact")
    if settings.play == "lazy" and environment.model is None:
        raise BadInput("lazy play needs states that are known beforehand; use --play exact")
    if settings.play == "counts" and data is not None:
        raise BadInput("--from starts from episodes, and --play counts has none; use --play exact")
    source = environment.open(
        settings.seed,
        keep_observations=settings.keep_observations,
        failure_policy=failure_policy_of(settings),
        workers=worker_pool_of(settings),
    )
    opened = open_prior_data(data, environment, source)
    request, asked = as_request(target), DEFAULT_TARGET if target is None else str(target)
    if is_about_transitions(request) and settings.play != "exact":
        raise BadInput("transitions are covered episode by episode; use --play exact")
    resolved = resolve(request, world_of(environment, source), settings.min_reach)
    run = new_run(environment, settings, source, resolved, asked)
    if opened and run.growth.needs_stages:
        from covgame.data.dataset import require_evidence

        require_evidence(opened, environment.horizon)
    stage_free = run.counts.stage_free
    run.start_from(count_prior_data(opened, environment, source.shape, stage_free=stage_free))
    return run


def new_run(
    environment: Environment,
    settings: CoverConfig,
    source: Source,
    resolved: Resolved,
    request: str,
    folder: RunFolder | None = None,
) -> Coverage:
    """A run that has not begun, for a target that was resolved; with ``folder`` once more."""
    growth, unreachable = Growth(resolved.discovered), resolved.unreachable
    if settings.min_reach and environment.model is None:
        growth.rare = partial(rarely_reached, delta=settings.delta, min_reach=settings.min_reach)
        growth.left_out, unreachable = list(unreachable), []
    grows = growth.request is not None and not isinstance(growth.request, SeenLabels)
    if grows and source.discovers_states and not source.is_driven:
        growth.second_look = SecondLook()  # targets by label look for further states anyway
    model = environment.model
    how = {
        "stationary": source.stationary and not growth.needs_stages,
        "stage_free": growth.stage_free(resolved.target),
    }
    if folder is None:
        configured_size(settings, resolved.target, **how).require_memory()
    allowed = model.transitions.allowed if model else None
    game = configured_game(settings, resolved.target, allowed=allowed, **how)
    return Coverage(
        environment, settings, source, game, growth, request,
        never_reached=unreachable, folder=folder,
    )  # fmt: skip
