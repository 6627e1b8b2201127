"""Refuse runs that cannot work: sources that do not fit the options, or too many episodes."""

from __future__ import annotations

from pathlib import Path

from covgame.config import CoverConfig, RunConfig
from covgame.errors import BadInput, EnvironmentFailed, TooLarge
from covgame.pac.forecast import Forecast
from covgame.planning import number
from covgame.runs.run import Run
from covgame.sources.counted import MOST_EPISODES
from covgame.sources.environments import Environment
from covgame.sources.source import Source

MOST_SIMULATED = 10**9
MOST_STEPPED = 10**7
"""More episodes than that are not begun: simulated one by one, or step by step elsewhere."""


def check_can_be_shared(environment: Environment, settings: CoverConfig) -> None:
    """What several workers can play."""
    if not settings.plays_in_team:
        return
    if environment.opener is None:
        raise BadInput(
            f"{environment.name} is simulated here from its model, thousands of episodes a second; "
            "--workers and --engine are for environments that are played step by step (gym:, py:)"
        )
    if settings.min_reach > 0 and environment.model is None:
        raise BadInput(
            "--min-reach on an environment without a table proves bounds, and these need episodes "
            "in the order in which they were begun; play with one worker, or without --min-reach"
        )
    if settings.engine == "ray" and not environment.by_name:
        raise BadInput(
            f"Ray makes environments on other machines, by name: gym:NAME or py:MODULE:FACTORY; "
            f"{environment.name} is an object of this program"
        )
    if settings.engine == "ray":
        from covgame.sources.ray import library

        library()


def check_has_folder(settings: RunConfig, out: str | Path | None) -> None:
    """Observations are kept on disk or nowhere."""
    if settings.keep_observations and out is None:
        raise BadInput("observations are kept in the folder of a run, and it has none: say out=")


def check_can_be_counted(environment: Environment) -> None:
    """Only a simulated model is played by its visits."""
    if environment.opener is not None:
        raise BadInput(
            f"{environment.name} is played step by step; --play counts needs a family or a model "
            "file (covgame envs NAME --save FILE writes a table as a model file)"
        )


def check_has_confidence_sets(environment: Environment, source: Source) -> None:
    """Certificates need numbered states, and to know what is forbidden."""
    if source.discovers_states and source.most_states is None:
        raise BadInput(
            f"the states of {environment.name} are discovered on the way, and a certificate needs "
            "to know how many there can be; give an upper bound: --most-states N"
        )
    if environment.model is not None:
        return
    if environment.absent is not None:
        return
    try:
        shows_masks = source.shows_masks()
    except EnvironmentFailed:  # the first episode fails as well, and the run reports it
        return
    if shows_masks:
        raise BadInput(
            f"{environment.name} forbids actions and has no table to say which; only cover plays it"
        )


def check_possible(run: Run, forecast: Forecast, *, force: bool) -> None:
    """Refuse a run of too many episodes; the message has the number and what to do instead."""
    needed = forecast.episodes
    parts = ", ".join(f"{need.part}: {number(need.episodes)}" for need in forecast.needs)
    said = f"this needs at least {number(needed)} episodes on average ({parts})"
    if needed > MOST_EPISODES:
        raise TooLarge(
            f"{said}, more than 64-bit counts can hold; use --preset certified, ask for a larger "
            "epsilon or a smaller world, or scale the thresholds (--scale, then nothing is "
            "guaranteed)"
        )
    external = run.source.model is None
    most = MOST_STEPPED if external else MOST_SIMULATED
    budget = run.settings.max_episodes
    if run.by_counts or force or needed <= most or (budget is not None and budget <= most):
        return
    instead = (
        f"save its table (covgame envs {run.environment.name} --horizon {run.environment.horizon} "
        "--save model.json) and use --play counts on that"
        if external
        else "use --play counts"
    )
    raise TooLarge(
        f"{said}, and episodes are played one by one here; use --preset certified, {instead}, "
        "scale the thresholds (--scale, then nothing is guaranteed), or insist with --force"
    )
