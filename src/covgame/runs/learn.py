"""``explore`` and ``identify``: play what an algorithm asks for until it has seen enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.config import LearnConfig
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.certified import CertifiedExploration, CertifiedIdentification
from covgame.pac.error_bounds import Range
from covgame.pac.forecast import Forecast, forecast_best_policy, forecast_reward_free
from covgame.pac.mixtures import Structure
from covgame.pac.pce import ProportionalCoverage
from covgame.pac.principle import ImplicitElimination
from covgame.runs.loop import to_the_end
from covgame.runs.pac_run import Exploration, Explorer, Identification, Identifier
from covgame.runs.prior_data import (
    AnyData,
    DataSource,
    count_prior_data,
    load_prior_data,
    open_prior_data,
)
from covgame.runs.run import create_folder, failure_policy_of
from covgame.runs.validation import (
    check_can_be_counted,
    check_has_confidence_sets,
    check_has_folder,
    check_possible,
)
from covgame.sources.environments import Environment, as_environment
from covgame.sources.maps import AnyMap
from covgame.sources.source import Source
from covgame.sources.stepped import RewardBounds
from covgame.storage.folder import RunFolder
from covgame.types import END, BoolHSA


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
        force: Begin also a run that would take too many episodes.
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
        TooLarge: It would take too many episodes; the sentence says how many.
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
        "Exploration",
        start(environment, settings, force=force, data=DataSource.of(start_from, columns)),
    )
    if out is not None:
        create_folder(run, out)
    return to_the_end(run, progress, report=report)


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
        force: Begin also a run that would take too many episodes.
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
        TooLarge: It would take too many episodes; the sentence says how many.
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
        start(environment, settings, force=force, data=DataSource.of(start_from, columns)),
    )
    if out is not None:
        create_folder(run, out)
    return to_the_end(run, progress, report=report)


def start(
    env: Any,
    settings: LearnConfig,
    *,
    force: bool = False,
    data: DataSource | None = None,
) -> Exploration | Identification:
    """A run before its first episode; one that cannot end is refused, with what it would take.

    ``data`` has been collected already.
    """
    environment = as_environment(env)
    if data is not None and settings.preset != "certified":
        raise BadInput(
            "the paper's algorithms count their own episodes alone; --from needs --preset certified"
        )
    if data is not None and settings.play == "counts":
        raise BadInput("--from starts from episodes, and --play counts has none; use --play exact")
    run = opened(environment, settings, data=data)()
    if run.by_counts:
        check_can_be_counted(environment)
    check_possible(run, run.forecast, force=force)
    return run


def opened(
    environment: Environment,
    settings: LearnConfig,
    folder: RunFolder | None = None,
    data: DataSource | None = None,
) -> Callable[[], Exploration | Identification]:
    """Open the source; returns how a run on it begins."""
    source = environment.open(
        settings.seed,
        known=folder.load_states() if folder else None,
        bounds=reward_bounds_of(settings),
        most_states=settings.most_states,
        keep_observations=settings.keep_observations,
        failure_policy=failure_policy_of(settings, folder),
    )
    check_has_confidence_sets(environment, source)
    datasets = [] if folder else open_prior_data(data, environment, source)
    if datasets:
        from covgame.data.dataset import require_evidence

        require_evidence(datasets, environment.horizon, rewards=settings.command == "identify")
    paid = settings.command == "identify"
    first = count_prior_data(datasets, environment, source.shape, paid=paid)
    kind = Exploration if settings.command == "explore" else Identification

    def begin() -> Exploration | Identification:
        algorithm, forecast = algorithm_for(environment, settings, source)
        run = kind(environment, settings, source, algorithm, forecast, folder=folder)
        run.start_from(load_prior_data(folder, source.shape, paid=paid) if folder else first)
        return run

    return begin


# -------------------------------------------------------------------------------- algorithms


def reward_bounds_of(settings: LearnConfig) -> RewardBounds | None:
    """What an environment may pay, because the bounds rely on it."""
    if settings.command == "explore":
        return None
    certified, returns = settings.preset == "certified", settings.return_range
    return RewardBounds(settings.reward_range, returns[1] if certified and returns else None)


def algorithm_for(
    environment: Environment, settings: LearnConfig, source: Source
) -> tuple[Explorer | Identifier, Forecast]:
    """The algorithm that was asked for, and what it takes at least."""
    if settings.preset == "certified":
        return _certified(environment, settings, source), Forecast(())
    if settings.command == "explore":
        return _pce(environment, settings, source)
    return _principle(environment, settings, source)


def _pce(
    environment: Environment, settings: LearnConfig, source: Source
) -> tuple[ProportionalCoverage, Forecast]:
    """The paper's reward-free exploration."""
    thresholds = PaperThresholds(source.shape, settings.scale)
    asked = (settings.epsilon, settings.delta)
    transitions = environment.model.transitions if environment.model else None
    allowed = transitions.allowed if transitions else None
    pce = ProportionalCoverage(thresholds, *asked, allowed)
    return pce, forecast_reward_free(thresholds, *asked, transitions)


def _principle(
    environment: Environment, settings: LearnConfig, source: Source
) -> tuple[ImplicitElimination, Forecast]:
    """The paper's best-policy identification."""
    model = environment.require_model("the paper's identify")
    reachable = dp.reachable(model.transitions)[:, :, None]
    exists: BoolHSA = reachable & model.transitions.allowed_actions
    _check_rewards(model, settings, source)
    low, high = settings.reward_range
    if (model.transitions.next_state == END).any():  # an episode that is over earns 0
        low, high = min(low, 0.0), max(high, 0.0)
    principle = ImplicitElimination(
        PaperThresholds(source.shape, settings.scale),
        settings.epsilon,
        settings.delta,
        exists,
        random_start=not _one_start(model),
        suprema=settings.suprema,
        pruned=settings.prune,
        reward_range=(low, high),
    )
    precision = settings.epsilon / principle.unit
    forecast = forecast_best_policy(
        principle.thresholds, precision, settings.delta, exists, model.transitions
    )
    return principle, forecast


def _certified(
    environment: Environment, settings: LearnConfig, source: Source
) -> CertifiedExploration | CertifiedIdentification:
    """Algorithms that play until their certificate says enough."""
    model = environment.model
    simulated = source.model is not None
    structure = known_structure(model, settings.most_successors, simulated=simulated)
    paid = settings.command == "identify"
    pooled = source.stationary and not settings.stage_dependent
    counts = Counts(source.shape, pooled=pooled, paid=paid)
    # A model knows whether its stages are alike; of an environment that is supposed, and tested.
    tested = counts.pooled and not simulated
    apart = Counts(source.shape, pooled=False, paid=paid) if tested else None
    asked = (counts, structure, float(settings.epsilon), settings.delta)
    if settings.command == "explore":
        return CertifiedExploration(*asked, apart=apart)
    if model is not None:
        _check_rewards(model, settings, source)
    earned = Range(*settings.reward_range, _most_paid(settings, model, source))
    # Counts do not separate the returns of some episodes from those of the others.
    return CertifiedIdentification(*asked, earned, validates=settings.play != "counts", apart=apart)


def known_structure(
    model: TabularMDP | None, most_successors: int | None, *, simulated: bool
) -> Structure:
    """What a certificate may take as known of an environment.

    In the paper's setting the first state is given; an environment that is played step by step has
    to show it.
    """
    one_start = model is not None and simulated and _one_start(model)
    return Structure(
        most_successors=most_successors,
        known_start=model.initial if model and one_start else None,
        allowed=model.transitions.allowed if model else None,
        same_rewards=model is None or len(model.stage_rewards) == 1,
    )


def _most_paid(settings: LearnConfig, model: TabularMDP | None, source: Source) -> float | None:
    """The declared maximum of the sum of rewards, checked where a model is simulated."""
    if settings.return_range is None:
        return None
    most = settings.return_range[1]
    if model is not None and source.model is not None:
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


def _check_rewards(model: TabularMDP, settings: LearnConfig, source: Source) -> None:
    """Rewards have to lie in the range that the confidence sets are made for."""
    low, high = settings.reward_range
    if source.model is not None and (low > 0 or high < 1):
        raise BadInput(
            f"simulated rewards are 0 or 1, which --reward-range {low:g},{high:g} does not hold; "
            "leave it out"
        )
    if (model.rewards < low).any() or (model.rewards > high).any():
        least, most = float(model.rewards.min()), float(model.rewards.max())
        raise BadInput(
            f"rewards from {least:g} to {most:g} do not lie in [{low:g}, {high:g}]; "
            "say --reward-range LO,HI for an environment that is played step by step"
        )
