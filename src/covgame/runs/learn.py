"""``explore`` and ``identify``: play what an algorithm asks for until it has seen enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from covgame.config import LearnConfig
from covgame.errors import BadInput
from covgame.jsonfile import check_content
from covgame.runs.algorithms import algorithm_for, pay_of
from covgame.runs.given import (
    AnyData,
    From,
    count_given,
    load_given,
    open_given,
)
from covgame.runs.learning_run import Exploration, Identification
from covgame.runs.playing import to_the_end
from covgame.runs.refusals import (
    check_can_be_counted,
    check_has_confidence_sets,
    check_has_folder,
    check_possible,
)
from covgame.runs.saving import care_of, create_folder, environment_of, foreign_code
from covgame.sources.environments import Environment, as_environment
from covgame.sources.maps import AnyMap
from covgame.storage.folder import RunFolder

AnyRun = TypeVar("AnyRun", Exploration, Identification)


def explore(
    env: Any,
    *,
    epsilon: float,
    delta: float = 0.1,
    horizon: int | None = None,
    states: AnyMap | None = None,
    actions: str | None = None,
    seed: int = 0,
    preset: Literal["certified", "paper"] = "certified",
    max_episodes: int | None = None,
    force: bool = False,
    start_from: AnyData | None = None,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: Callable[[Exploration], None] | bool | None = None,
    report: bool = False,
    **options: Any,
) -> Exploration:
    """Explore without a reward until the learnt model is good enough for any reward.

    Afterwards ``run.model.plan(reward)`` loses at most epsilon against the best policy, whatever
    the reward, with probability 1 - delta.

    Args:
        env: A name (``covgame envs`` lists them), the path of a model file, a ``TabularMDP``, a
            Gymnasium environment, an object with ``reset`` and ``step``, a class or a function that
            makes one, or what ``covgame.make`` returns.
        epsilon: What planning may lose, in units of the return: rewards lie in [0, 1], so that an
            episode earns between 0 and the horizon.
        delta: The probability with which the guarantee may fail.
        horizon: Steps of an episode at most, where ``env`` leaves it open.
        states: What counts as a state, where observations are not states themselves (see
            ``covgame.make``).
        actions: ``"grid:5"`` for actions that are real numbers (see ``covgame.make``).
        seed: Same seed, same run.
        preset: ``"certified"`` plays where the certificate's interval is widest until it says
            enough; ``"paper"`` is PCE with its own thresholds, which takes very many episodes.
        max_episodes: Stop after so many episodes; ``run.certified_error`` says what is proved then.
        force: Begin also what will not end in a lifetime.
        start_from: Data already collected, one dataset or a list of them: whatever
            ``covgame.audit`` reads (``preset="certified"``). They have to be whole episodes of this
            environment, with actions chosen by what had been seen before, and none left out because
            of how it went.
        columns: What the columns of a table to start from are called, ours -> theirs:
            ``{"state": "s", "action": "a"}``.
        out: A folder for the run, which can then be resumed and certified.
        progress: ``True`` shows a bar, in a terminal or a notebook. A function is called with the
            run after every block of episodes.
        report: Write the page of the run (``run.report()``) at the start and rewrite it while the
            run is played, at most every two seconds; it reloads itself until the run has ended.
        **options: The other options of ``covgame.LearnConfig``, for instance ``play``,
            ``most_states``, ``most_successors``, ``stage_dependent``,
            ``keep_observations`` and ``on_failure``.

    Returns:
        The run: ``run.model`` (a ``LearntModel``), ``run.certified_error``, ``run.n_episodes``,
        ``run.phases``.

    Raises:
        BadInput: What was asked for makes no sense; the message says what to change.
        TooLarge: It would take more episodes than anybody can play; the sentence says how many.
        EnvironmentFailed: The environment raised an error. What was played is saved.

    Example:
        >>> import covgame as cg
        >>> run = cg.explore("garnet:states=3,actions=2,horizon=3", epsilon=1.5)
        >>> run.certified_error <= 1.5
        True
        >>> run.model.plan([0.0, 0.0, 1.0]).table.shape  # a reward for being in the last state
        (3, 3)
    """
    settings = LearnConfig(
        command="explore", epsilon=epsilon, delta=delta, seed=seed, preset=preset,
        max_episodes=max_episodes, **options,
    )  # fmt: skip
    check_has_folder(settings, out)
    environment = as_environment(env, horizon, states, actions)
    run = cast(
        "Exploration", start(environment, settings, force=force, data=From.of(start_from, columns))
    )
    return _to_the_end(run, out, progress, report=report)


def identify(
    env: Any,
    *,
    epsilon: float,
    delta: float = 0.1,
    horizon: int | None = None,
    states: AnyMap | None = None,
    actions: str | None = None,
    seed: int = 0,
    preset: Literal["certified", "paper"] = "certified",
    max_episodes: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    return_range: tuple[float, float] | None = None,
    force: bool = False,
    start_from: AnyData | None = None,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: Callable[[Identification], None] | bool | None = None,
    report: bool = False,
    **options: Any,
) -> Identification:
    """Find a policy whose value is within epsilon of the best, for the environment's own reward.

    Args:
        env: A name (``covgame envs`` lists them), the path of a model file, a ``TabularMDP``, a
            Gymnasium environment, an object with ``reset`` and ``step``, a class or a function that
            makes one, or what ``covgame.make`` returns.
        epsilon: What the policy may lose against the best one, in units of the return.
        delta: The probability with which the guarantee may fail.
        horizon: Steps of an episode at most, where ``env`` leaves it open.
        states: What counts as a state, where observations are not states themselves (see
            ``covgame.make``).
        actions: ``"grid:5"`` for actions that are real numbers (see ``covgame.make``).
        seed: Same seed, same run.
        preset: ``"certified"`` plays the policy that may be best until its certificate says enough;
            ``"paper"`` is PRINCIPLE with its own thresholds, which takes very many episodes.
        max_episodes: Stop after so many episodes; ``run.certified_gap`` says what is proved then.
        reward_range: The least and the most that a step may pay.
        return_range: The same for a whole episode, if you know it: a narrow range saves episodes.
        force: Begin also what will not end in a lifetime.
        start_from: Data already collected, one dataset or a list of them: whatever
            ``covgame.audit`` reads (``preset="certified"``). They have to be whole episodes of this
            environment, with actions chosen by what had been seen before, and none left out because
            of how it went.
        columns: What the columns of a table to start from are called, ours -> theirs:
            ``{"state": "s", "action": "a"}``.
        out: A folder for the run, which can then be resumed and certified.
        progress: ``True`` shows a bar, in a terminal or a notebook. A function is called with the
            run after every block of episodes.
        report: Write the page of the run (``run.report()``) at the start and rewrite it while the
            run is played, at most every two seconds; it reloads itself until the run has ended.
        **options: The other options of ``covgame.LearnConfig``, for instance ``play``,
            ``most_states``, ``suprema``, ``stage_dependent``,
            ``keep_observations`` and ``on_failure``.

    Returns:
        The run: ``run.policy``, ``run.certified_gap``, ``run.conclusion`` (with ``lower`` and
        ``upper``), ``run.n_episodes``, ``run.phases``.

    Raises:
        BadInput: What was asked for makes no sense; the message says what to change.
        TooLarge: It would take more episodes than anybody can play; the sentence says how many.
        EnvironmentFailed: The environment raised an error, or paid outside ``reward_range``.

    Example:
        >>> import covgame as cg
        >>> run = cg.identify("garnet:states=3,actions=2,horizon=3", epsilon=1.0)
        >>> run.certified_gap <= 1.0
        True
        >>> run.policy.table.shape  # an action for every stage and state
        (3, 3)
    """
    settings = LearnConfig(
        command="identify", epsilon=epsilon, delta=delta, seed=seed, preset=preset,
        max_episodes=max_episodes,
        reward_range=reward_range, return_range=return_range, **options,
    )  # fmt: skip
    check_has_folder(settings, out)
    environment = as_environment(env, horizon, states, actions)
    run = cast(
        "Identification",
        start(environment, settings, force=force, data=From.of(start_from, columns)),
    )
    return _to_the_end(run, out, progress, report=report)


def _to_the_end(
    run: AnyRun,
    out: str | Path | None,
    progress: Callable[[AnyRun], None] | bool | None,
    *,
    report: bool,
) -> AnyRun:
    if out is not None:
        create_folder(run, out)
    return to_the_end(run, progress, report=report)


def start(
    env: Any,
    settings: LearnConfig,
    *,
    force: bool = False,
    data: From | None = None,
) -> Exploration | Identification:
    """A run before its first episode; one that cannot end is refused, with what it would take.

    ``data`` is what others have collected already.
    """
    environment = as_environment(env)
    if data is not None and settings.preset != "certified":
        raise BadInput(
            "the paper's algorithms count their own episodes alone; --from needs --preset certified"
        )
    if data is not None and settings.play == "counts":
        raise BadInput("--from starts from episodes, and --play counts has none; use --play exact")
    run = _opened(environment, settings, data=data)()
    if run.by_counts:
        check_can_be_counted(environment)
    check_possible(run, run.forecast, force=force)
    return run


def reopen(
    folder: RunFolder, changes: Mapping[str, Any], env: Any = None, *, trust: bool = False
) -> Callable[[], Exploration | Identification]:
    """How to begin the run of a folder once more, with its source open."""
    from covgame.storage.config import StoredLearn

    asked = check_content(StoredLearn, folder.config, folder.database)
    known = {name: getattr(asked, name) for name in LearnConfig.model_fields}
    code = {} if trust else foreign_code(folder, env=env)
    settings = LearnConfig(**known).changed(changes)
    return _opened(environment_of(folder, env, code), settings, folder)


def _opened(
    environment: Environment,
    settings: LearnConfig,
    folder: RunFolder | None = None,
    data: From | None = None,
) -> Callable[[], Exploration | Identification]:
    """Open the source, and say how a run on it begins."""
    source = environment.open(
        settings.seed,
        known=folder.load_states() if folder else None,
        pay=pay_of(settings),
        most_states=settings.most_states,
        keep_observations=settings.keep_observations,
        care=care_of(settings, folder),
    )
    check_has_confidence_sets(environment, source)
    opened = [] if folder else open_given(data, environment, source)
    if opened:
        from covgame.data.dataset import require_evidence

        require_evidence(opened, environment.horizon, rewards=settings.command == "identify")
    paid = settings.command == "identify"
    first = count_given(opened, environment, source.shape, paid=paid)
    kind = Exploration if settings.command == "explore" else Identification

    def begin() -> Exploration | Identification:
        algorithm, forecast = algorithm_for(environment, settings, source)
        run = kind(environment, settings, source, algorithm, forecast, folder=folder)
        run.start_from(load_given(folder, source.shape, paid=paid) if folder else first)
        return run

    return begin
