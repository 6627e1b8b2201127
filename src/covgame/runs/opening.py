"""Runs taken up again from their folders."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covgame.errors import BadInput
from covgame.game.adversary import Adversary
from covgame.game.own import Peer
from covgame.game.planner import Planner
from covgame.pac.learnt import LearntModel
from covgame.runs import cover, learn
from covgame.runs.cover import solved_as_asked
from covgame.runs.coverage import Coverage
from covgame.runs.playing import replay, to_the_end
from covgame.runs.run import Run
from covgame.runs.saving import (
    absent_environment,
    ask_for_trust,
    foreign_code,
    newer_notice,
)
from covgame.storage.folder import RunFolder
from covgame.storage.state import counts_from
from covgame.targets.requests import Request
from covgame.types import Policy, Shape

if TYPE_CHECKING:
    from covgame.storage.reading import StepTables

OnRecount = Callable[[int, int], None]
"""Called with (episodes counted again, recorded episodes)."""


def load(
    path: str | Path,
    max_episodes: int | None = None,
    *,
    env: Any = None,
    planner: Planner | Peer | None = None,
    adversary: Adversary | None = None,
    target: Request | None = None,
    trust: bool = False,
) -> Run:
    """Open a run, at the last point that was saved; nothing is played.

    A run's folder is data: code that it names (``py:module:name``) is not imported unless you say
    so. Such a run can be read all the same; ``run.environment.absent`` says why it cannot go on.

    Args:
        path: The folder of a run.
        max_episodes: A new budget, counted from the first episode.
        env: An environment, state map, planner or adversary that was handed over as an object has
            to be handed over again.
        planner: The same.
        adversary: The same.
        target: ``covgame.groups(...)`` once more, if that was the target and states are discovered
            as one goes: their groups are not known beforehand.
        trust: Import the code that the folder names.

    Returns:
        A ``Coverage``, ``Exploration`` or ``Identification``, whatever it was.

    Raises:
        BadInput: The folder holds no run, or its files are damaged.

    Example:
        >>> import tempfile, covgame as cg
        >>> folder = tempfile.mkdtemp()
        >>> run = cg.cover("chain:states=4,horizon=6", "uniform:2/pair", out=folder)
        >>> cg.load(folder).n_episodes == run.n_episodes
        True
    """
    changes = {} if max_episodes is None else {"max_episodes": max_episodes}
    return _loaded(
        RunFolder.open(path), changes,
        env=env, planner=planner, adversary=adversary, target=target, trust=trust,
    )  # fmt: skip


def load_without_code(path: str | Path) -> Run:
    """Open a run for reading; neither Gymnasium nor code that the folder names is imported."""
    folder = RunFolder.open(path)
    foreign = str(folder.config.get("environment")).startswith(("gym:", "py:"))
    env = absent_environment(folder) if foreign and not folder.config.get("model") else None
    return load(path, env=env)


def command_of(path: str | Path) -> str:
    """The command that made a run: ``cover``, ``explore`` or ``identify``."""
    return str(RunFolder.open(path).config.get("command", "cover"))


def _loaded(
    folder: RunFolder,
    changes: Mapping[str, Any],
    *,
    env: Any = None,
    planner: Planner | Peer | None = None,
    adversary: Adversary | None = None,
    target: Request | None = None,
    trust: bool = False,
    resuming: bool = False,
    on_recount: OnRecount = lambda told, recorded: None,
) -> Run:
    """The run of a folder, with the changes that were asked for."""
    # Before the states are read: another process may be adding both.
    steps = _step_tables(folder) if "size" in folder.config else None
    if folder.config.get("command") in ("explore", "identify"):
        begin: Callable[[], Run] = learn.reopen(folder, changes, env, trust=trust)
    else:
        begin = cover.reopen(folder, changes, env, planner, adversary, target, trust=trust)
    run = _take_up(folder, begin, steps, on_recount, resuming=resuming)
    if folder.finished and run.done and not run.notice:  # what was mended is still to be saved
        run.stopped = run.stop_reason
    run.notice = run.notice or newer_notice(folder)
    return run


def resume(
    path: str | Path,
    *,
    max_episodes: int | None = None,
    env: Any = None,
    planner: Planner | Peer | None = None,
    adversary: Adversary | None = None,
    target: Request | None = None,
    trust: bool = False,
    progress: Callable[[Any], None] | bool | None = None,
    report: bool = False,
    **changes: Any,
) -> Any:
    """Continue a run that was stopped or killed; a finished one is returned as it is.

    Args:
        path: The folder of a run.
        max_episodes: A new budget, counted from the first episode.
        env: An environment, state map, planner or adversary that was handed over as an object has
            to be handed over again.
        planner: The same.
        adversary: The same.
        target: ``covgame.groups(...)`` once more, if that was the target and states are discovered
            as one goes: their groups are not known beforehand.
        trust: Import the code that the folder names (``py:module:name``): say so if the run is
            yours, or you have looked at that code.
        progress: ``True`` shows a bar, in a terminal or a notebook. A function is called with the
            run after every block of episodes.
        report: Write the page of the run (``run.report()``) at the start and rewrite it while the
            run is played, at most every two seconds; it reloads itself until the run has ended.
        **changes: Options that hold from now on: ``on_failure``, ``step_timeout``, ``isolate``,
            ``workers``, ``engine`` and ``address`` (see ``covgame.CoverConfig``).

    Returns:
        The run, played to its end: the same as if it had never stopped.

    Raises:
        BadInput: The folder holds no run, or its files are damaged.
        EnvironmentFailed: The environment raised an error. What was played is saved.

    Example:
        >>> import tempfile, covgame as cg
        >>> folder = tempfile.mkdtemp()
        >>> run = cg.cover("chain:states=4,horizon=6", "uniform:9/pair", max_episodes=5, out=folder)
        >>> run.covered, cg.resume(folder, max_episodes=10_000).covered
        (False, True)
    """
    if max_episodes is not None:
        changes["max_episodes"] = max_episodes
    run = take_up(
        path, changes, env=env, planner=planner, adversary=adversary, target=target, trust=trust,
    )  # fmt: skip
    if run.notice:
        warnings.warn(run.notice, stacklevel=2)
    run = run if run.stopped is not None else to_the_end(run, progress, report=report)
    return solved_as_asked(run) if isinstance(run, Coverage) else run


def take_up(
    path: str | Path,
    changes: Mapping[str, Any],
    *,
    env: Any = None,
    planner: Planner | Peer | None = None,
    adversary: Adversary | None = None,
    target: Request | None = None,
    trust: bool = False,
    on_recount: OnRecount = lambda told, recorded: None,
) -> Run:
    """Open a run to go on with it; a finished one is only read, for which no code is needed.

    ``on_recount`` is called after every recorded episode that has to be counted again.
    """
    folder = RunFolder.open(path)
    code = foreign_code(folder, env=env, planner=planner, adversary=adversary)
    if code and not trust and not folder.finished:
        raise BadInput(ask_for_trust(folder, code))
    return _loaded(
        folder, changes, resuming=True, on_recount=on_recount,
        env=env, planner=planner, adversary=adversary, target=target, trust=trust,
    )  # fmt: skip


def learnt_model(path: str | Path) -> LearntModel:
    """What a run has learnt about its environment so far.

    Args:
        path: The folder of a run of any command.

    Returns:
        The empirical model: ``model.plan(reward)``, ``model.value(policy, reward)``; without a
        reward for the environment's own.

    Raises:
        BadInput: The folder holds no run, or nothing was saved yet.
    """
    folder = RunFolder.open(path)
    if not folder.load_result():  # killed: the saved state may be behind the recorded episodes
        run: Any = load(path)
        if run.n_episodes:
            model: LearntModel = run.model
            return model
    arrays = folder.load_arrays()
    if arrays is None:
        raise BadInput(f"{path} has learnt nothing yet: it was stopped before anything was saved")
    known, names = folder.load_states(), folder.load_names()
    learnt = LearntModel.of(counts_from(arrays))
    learnt = replace(learnt, allowed=arrays.get("allowed"), names=names)
    return learnt if known is None else learnt.first(len(known[0]))


def recommended(path: str | Path, shape: Shape) -> Policy | None:
    """The policy that a run of ``identify`` has found, None if it was no such run."""
    folder = RunFolder.open(path)
    found = folder.load_result().get("policy")
    if folder.config.get("command") != "identify" or found is None:
        return None
    try:
        policy = Policy(np.array(found), shape.actions).first(shape.states)
        fits = policy.table.shape in (shape.hs, shape.hsa) and np.isfinite(policy.table).all()
    except (ValueError, TypeError, IndexError):
        fits = False
    if not fits:
        raise BadInput(f"{folder.database} is damaged: it holds no valid policy")
    return policy


def is_finished(path: str | Path) -> bool:
    """Whether a run has come to its end."""
    return RunFolder.open(path).finished


def _step_tables(folder: RunFolder) -> StepTables:
    from covgame.storage.reading import StepTables

    return StepTables(folder)


def _take_up(
    folder: RunFolder,
    begin: Callable[[], Run],
    steps: StepTables | None,
    on_recount: OnRecount,
    *,
    resuming: bool,
) -> Run:
    """A run where its folder leaves it.

    Simulated episodes after the saved state are played again. Episodes of other environments cannot
    be: if the saved state is behind them or damaged, all of them are counted again.
    """
    run = begin()
    source = run.source
    if source.is_replayable:
        try:
            _restore(run, folder)
        except BadInput as error:
            if not resuming:
                again = f"covgame resume {folder.path} simulates it again"
                raise BadInput(f"{error}; restore it from a copy, or {again}") from None
            run = begin()
            run.notice = f"{error}, so everything is simulated again"
        return run
    from covgame.storage.reading import RecordedEpisodes

    steps, damaged = steps or _step_tables(folder), None
    try:
        _restore(run, folder)
        if run.n_episodes == steps.n_episodes:
            return run
    except BadInput as error:
        damaged = error
    run = begin()
    shape = Shape(source.shape.horizon, source.states.size, source.shape.actions)
    recorded = steps.n_episodes
    replay(run, source, RecordedEpisodes(steps, shape), lambda told: on_recount(told, recorded))
    if damaged is not None:
        run.notice = f"{damaged}, so the {recorded:,} recorded episodes were counted again"
    return run


def _restore(run: Run, folder: RunFolder) -> None:
    arrays = folder.load_arrays()
    if arrays is not None:
        run.restore(arrays)
