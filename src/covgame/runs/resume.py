"""Runs opened again: to read them, to continue them, to use what they have learnt."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from covgame.config import CoverConfig, LearnConfig
from covgame.errors import BadInput, Row
from covgame.game.adversary import Adversary
from covgame.game.custom_players import Peer
from covgame.game.planner import Planner
from covgame.jsonfile import check_content
from covgame.mdp.families import FAMILIES
from covgame.names import Names
from covgame.pac.learnt import LearntModel
from covgame.planning import world_of
from covgame.runs.cover import compute_exact_bound, new_run, worker_pool_of
from covgame.runs.coverage import Coverage
from covgame.runs.learn import opened
from covgame.runs.loop import replay, to_the_end
from covgame.runs.pac_run import Exploration, Identification
from covgame.runs.prior_data import load_prior_data
from covgame.runs.run import Run, failure_policy_of
from covgame.runs.validation import check_can_be_shared
from covgame.sources.environments import Environment, make
from covgame.sources.maps import FUNCTION
from covgame.sources.objects import StateActionSpec
from covgame.sources.states import CountedStates, DiscoveredStates, States
from covgame.sources.steppers import AbsentStepper, Actions, Stepper
from covgame.storage.folder import MODEL, NAMES, TARGET, RunFolder
from covgame.storage.state import counts_from
from covgame.storage.trust import code_named, resume_command
from covgame.targets.files import listed_from
from covgame.targets.requests import Grouped, Request
from covgame.targets.resolve import AnyTarget, resolve_again
from covgame.types import Policy, Shape

OnRecount = Callable[[int, int], None]
"""Called with (episodes counted again, recorded episodes)."""


@dataclass(frozen=True)
class Passed:
    """What a caller passes again because the folder of a run cannot hold it."""

    env: Any = None
    planner: Planner | Peer | None = None
    adversary: Adversary | None = None
    target: AnyTarget | None = None  # ``covgame.groups(...)``
    trust: bool = False  # import the code that the folder names

    def untrusted_code(self, folder: RunFolder) -> dict[str, str]:
        """The code that only the folder names, unless that is trusted."""
        passed = {"environment": self.env, "planner": self.planner, "adversary": self.adversary}
        passed["states"] = self.env if isinstance(self.env, Environment) else None
        code = {} if self.trust else code_named(folder.config)
        return {key: name for key, name in code.items() if passed[key] is None}


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
    passed = Passed(env, planner, adversary, target, trust)
    return _open(RunFolder.open(path), changes, passed)


def load_without_code(path: str | Path) -> Run:
    """Open a run for reading; neither Gymnasium nor code that the folder names is imported."""
    folder = RunFolder.open(path)
    foreign = str(folder.config.get("environment")).startswith(("gym:", "py:"))
    env = absent_environment(folder) if foreign and not folder.config.get("model") else None
    return load(path, env=env)


def command_of(path: str | Path) -> str:
    """The command that made a run: ``cover``, ``explore`` or ``identify``."""
    return str(RunFolder.open(path).config.get("command", "cover"))


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
    run = open_for_resume(path, changes, Passed(env, planner, adversary, target, trust))
    if run.notice:
        warnings.warn(run.notice, stacklevel=2)
    if run.stopped is None:
        to_the_end(run, progress, report=report)
    if isinstance(run, Coverage):
        compute_exact_bound(run)
    return run


def open_for_resume(
    path: str | Path,
    changes: Mapping[str, Any],
    passed: Passed | None = None,
    *,
    on_recount: OnRecount = lambda told, recorded: None,
) -> Run:
    """Open a run to go on with it; a finished one is only read, for which no code is needed.

    ``on_recount`` is called after every recorded episode that has to be counted again.
    """
    folder, passed = RunFolder.open(path), passed or Passed()
    code = passed.untrusted_code(folder)
    if code and not folder.finished:
        raise BadInput(ask_for_trust(folder, code))
    return _open(folder, changes, passed, resuming=True, on_recount=on_recount)


def _open(
    folder: RunFolder,
    changes: Mapping[str, Any],
    passed: Passed,
    *,
    resuming: bool = False,
    on_recount: OnRecount = lambda told, recorded: None,
) -> Run:
    """The run of a folder where it was saved last, with changes to its configuration.

    Simulated episodes after the saved state are played again. Episodes of other environments cannot
    be: if the saved state is behind them or damaged, all of them are counted again.
    """
    steps, damaged = None, None
    if "size" in folder.config:
        from covgame.storage.reading import StepTables

        steps = StepTables(folder)  # before the states: another process may be adding both
    learns = folder.config.get("command") in ("explore", "identify")
    reopen: Callable[..., Callable[[], Run]] = _reopen_learning if learns else _reopen_cover
    begin = reopen(folder, changes, passed)
    run = begin()
    source = run.source
    try:
        arrays = folder.load_arrays()
        if arrays is not None:
            run.restore(arrays)
    except BadInput as error:
        damaged = error
    if source.is_replayable:
        if damaged is not None and not resuming:
            again = f"covgame resume {folder.path} simulates it again"
            raise BadInput(f"{damaged}; restore it from a copy, or {again}")
        if damaged is not None:
            run = begin()
            run.notice = f"{damaged}, so everything is simulated again"
    else:
        from covgame.storage.reading import RecordedEpisodes, StepTables

        steps = steps or StepTables(folder)
        recorded = steps.n_episodes
        if damaged is not None or run.n_episodes != recorded:
            run = begin()
            shape = Shape(source.shape.horizon, source.states.size, source.shape.actions)
            episodes = RecordedEpisodes(steps, shape)
            replay(run, source, episodes, lambda told: on_recount(told, recorded))
        if damaged is not None:
            run.notice = f"{damaged}, so the {recorded:,} recorded episodes were counted again"
    if folder.finished and run.done and not run.notice:  # what was repaired is still to be saved
        run.stopped = run.stop_reason
    run.notice = run.notice or newer_notice(folder)
    return run


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


def names_in(path: str | Path) -> Names:
    """What the states and actions of a run are called, as far as its folder tells."""
    folder = RunFolder.open(path)
    if folder.read_document(NAMES) is not None:
        return folder.load_names()
    known = folder.load_states()
    try:
        environment = environment_of(folder, code=code_named(folder.config))
        if environment.model is not None:
            return environment.model.names
        return environment.open(0, known=known).names
    except BadInput:
        if known is None:
            raise
        return Names(known[1])  # an environment that only its own program has


# -------------------------------------------------------------------------- beginning again


def _reopen_cover(
    folder: RunFolder, changes: Mapping[str, Any], passed: Passed
) -> Callable[[], Coverage]:
    """How to begin a run of ``cover`` once more, with its source open."""
    from covgame.storage.config import StoredCover

    asked = check_content(StoredCover, folder.config, folder.database)
    code = passed.untrusted_code(folder)
    environment = environment_of(folder, passed.env, code)
    known = {name: getattr(asked, name) for name in CoverConfig.model_fields}
    for name in ("planner", "adversary"):
        known[name] = getattr(passed, name) or (None if code else known[name])
    settings = CoverConfig(**known).changed(changes)
    if environment.absent is None:
        check_can_be_shared(environment, settings)
    source = environment.open(
        settings.seed,
        known=folder.load_states(),
        keep_observations=settings.keep_observations,
        failure_policy=failure_policy_of(settings, folder),
        workers=worker_pool_of(settings),
    )
    listed = listed_from(folder.read_document(TARGET), folder.database)
    unreachable: list[tuple[Row, float]] = [(row[:3], row[3]) for row in asked.unreachable]
    groups = passed.target
    if groups is not None and not isinstance(groups, Grouped):
        raise BadInput("a run keeps its target; only what covgame.groups makes is needed again")

    def begin() -> Coverage:
        world = world_of(environment, source)
        again = resolve_again(asked.growing, listed, world, groups=groups)
        first = replace(again, unreachable=unreachable)
        run = new_run(environment, settings, source, first, asked.request, folder)
        stage_free = run.counts.stage_free
        run.start_from(load_prior_data(folder, source.shape, stage_free=stage_free))
        return run

    return begin


def _reopen_learning(
    folder: RunFolder, changes: Mapping[str, Any], passed: Passed
) -> Callable[[], Exploration | Identification]:
    """How to begin a run of ``explore`` or ``identify`` once more, with its source open."""
    from covgame.storage.config import StoredLearn

    asked = check_content(StoredLearn, folder.config, folder.database)
    known = {name: getattr(asked, name) for name in LearnConfig.model_fields}
    settings = LearnConfig(**known).changed(changes)
    environment = environment_of(folder, passed.env, passed.untrusted_code(folder))
    return opened(environment, settings, folder)


# ----------------------------------------------------------------------------- environments


def ask_for_trust(folder: RunFolder, code: Mapping[str, str]) -> str:
    """The sentence that says what would be imported, and how to allow it."""
    trusting = resume_command(folder)
    again = ""
    if list(code) == ["environment"]:
        again = f", or name it again: --env {shlex.quote(code['environment'])}"
    return (
        f"resuming '{folder.path}' would import {' and '.join(code.values())}; if you trust that "
        f"code, use {trusting}{again} (trust=True or env= in Python)"
    )


def environment_of(
    folder: RunFolder, env: Any = None, code: Mapping[str, str] | None = None
) -> Environment:
    """The environment of a run: handed over, made again by name, or the model kept with the run.

    With ``code`` that is not trusted, something in its place: enough to read the data.
    """
    asked = folder.config
    reading = {"states": asked.get("states"), "actions": asked.get("actions")}
    if code:
        return absent_environment(folder, ask_for_trust(folder, code))
    if env is not None:
        return _handed_over(folder, env, reading)
    if asked["model"] is None:
        if not asked.get("by_name", True):
            return absent_environment(folder)
        name = asked["environment"]
        if name.partition(":")[0] not in ("gym", "py", *FAMILIES):  # a model is in the folder
            raise BadInput(f"{folder.database} names an environment that does not exist: {name}")
        return make(name, asked["horizon"], **reading)
    from covgame.mdp.files import model_from

    model = model_from(folder.read_document(MODEL), folder.database)
    return Environment(asked["environment"], model.shape.horizon, model, by_name=False)


def absent_environment(folder: RunFolder, why: str | None = None) -> Environment:
    """Stands for an environment that is not at hand: enough to read its data."""
    reading = {"states": folder.config.get("states"), "actions": folder.config.get("actions")}
    name, size = folder.config["environment"], folder.load_size()
    why = why or (
        f"{folder.path} was played on {name}, which only the program that made it has; go on "
        "there, by covgame.resume(path, env=...)"
    )
    if size is None:
        raise BadInput(why)
    labels = folder.load_names().actions

    def opener() -> tuple[Stepper, States]:
        numbered: States = (
            DiscoveredStates(possible=size.possible)
            if size.states is None
            else CountedStates(size.states)
        )
        known_as = None if labels is None else tuple(labels)
        actions = Actions(range(size.actions), known_as)
        return AbsentStepper(actions, is_driven=not size.plays), numbered

    horizon = folder.config["horizon"]
    return Environment(name, horizon, None, False, opener, StateActionSpec(**reading), absent=why)


def _handed_over(folder: RunFolder, env: Any, reading: dict[str, Any]) -> Environment:
    """An environment for a run, checked to be as long as the one before."""
    horizon = folder.config["horizon"]
    if not isinstance(env, Environment) and str(reading["states"]).endswith(FUNCTION):
        raise BadInput(
            f"{folder.path} was played with the state map {reading['states']}; hand it over as "
            "well: covgame.resume(path, env=covgame.make(env, horizon, states=...))"
        )
    environment = env if isinstance(env, Environment) else make(env, horizon, **reading)
    if environment.horizon != horizon:
        raise BadInput(
            f"{folder.path} has episodes of {horizon} steps, and {environment.name} has "
            f"{environment.horizon}"
        )
    return environment


def newer_notice(folder: RunFolder) -> str | None:
    """A warning if a newer covgame has made the run: it may have played by other rules."""
    found = folder.config.get("versions")
    text = str(found.get("covgame")) if isinstance(found, dict) else ""
    made, here = (re.match(r"\d{1,6}(\.\d{1,6})*", one) for one in (text, version("covgame")))
    if made is None or here is None:
        return None
    older, newer = ([int(part) for part in one[0].split(".")] for one in (here, made))
    if newer <= older:
        return None
    return (
        f"{folder.path} was made by covgame {made[0]} and this is {here[0]}: what is "
        "played from here on may differ; upgrade: pip install --upgrade covgame"
    )
