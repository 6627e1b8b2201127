"""What runs are not begun with: numbers that make no sense, sources that do not fit, lifetimes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, get_args

from covgame.errors import BadInput, EnvironmentFailed, TooLarge
from covgame.failures import OnFailure
from covgame.pac.forecast import Forecast
from covgame.planning import number
from covgame.players.by_counts import MOST_EPISODES
from covgame.runs.run import Run, Settings, Source
from covgame.sources.environments import Environment
from covgame.sources.external import ExternalSource
from covgame.sources.simulated import SimulatedSource

MOST_WORKERS = 10_000
MOST_SECONDS = 1_000_000
MOST_SIMULATED = 10**9
MOST_STEPPED = 10**7
"""More episodes than that are not begun: simulated one by one, or step by step elsewhere."""


class Teamed(Protocol):
    """Settings that say who plays."""

    @property
    def workers(self) -> int: ...

    @property
    def engine(self) -> str: ...

    @property
    def address(self) -> str | None: ...

    @property
    def play(self) -> str: ...

    @property
    def min_reach(self) -> float: ...

    @property
    def plays_in_team(self) -> bool: ...


def is_whole(value: object) -> bool:
    """Whether it is a whole number (and not a truth value)."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def check_common(seed: int, delta: float, max_episodes: int | None) -> None:
    """What every command asks of its numbers."""
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise BadInput(f"a seed is a whole number from 0 to 2^63 - 1, not {seed!r}")
    if not (isinstance(delta, int | float) and 1e-100 <= delta < 1):
        raise BadInput(f"delta is a probability between 0 and 1 (from 1e-100 on), not {delta!r}")
    if max_episodes is not None and (not is_whole(max_episodes) or max_episodes < 0):
        raise BadInput(f"a budget is a whole number of episodes, not {max_episodes!r}")


def check_positive(name: str, value: float) -> None:
    """Precisions and scales."""
    if not (isinstance(value, int | float) and 1e-30 <= value <= 1e30):
        raise BadInput(f"{name} is a positive number (1e-30 to 1e30), not {value!r}")


def check_range(low: float, high: float) -> None:
    """Of rewards or returns."""
    if not -math.inf < low < high < math.inf:
        raise BadInput(f"a range is LO,HI with LO below HI, not {low:g},{high:g}")


def check_care(on_failure: str, step_timeout: float | None) -> None:
    """What to do about environments that fail, and how long they may take."""
    check_choice("--on-failure", on_failure, get_args(OnFailure))
    if step_timeout is None:
        return
    if not (isinstance(step_timeout, int | float) and 1e-3 <= step_timeout <= MOST_SECONDS):
        raise BadInput(
            f"--step-timeout is a number of seconds from 0.001 to {MOST_SECONDS:,}, not "
            f"{step_timeout!r}"
        )


def check_workers(settings: Teamed) -> None:
    """How many play at once, and where."""
    workers = settings.workers
    if not is_whole(workers) or not 1 <= workers <= MOST_WORKERS:
        raise BadInput(f"--workers is a whole number from 1 to {MOST_WORKERS:,}, not {workers!r}")
    if settings.address is not None and settings.engine != "ray":
        raise BadInput("--address is where a Ray cluster is; say --engine ray as well")
    if settings.plays_in_team and settings.play != "exact":
        raise BadInput(
            f"workers plan ahead in any case, and play episodes; leave out --play {settings.play}"
        )


def check_can_be_shared(environment: Environment, settings: Teamed) -> None:
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
        from covgame.workers.on_ray import library

        library()


def check_choice(name: str, value: str | None, choices: Sequence[str | None]) -> None:
    """One of a few words."""
    if value not in choices:
        known = _or([choice for choice in choices if choice])
        raise BadInput(f"{name} is {known}, not {value!r}")


def _or(words: Sequence[str]) -> str:
    """``stop, record or avoid``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def check_has_folder(settings: Settings, out: str | Path | None) -> None:
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
    if isinstance(source, SimulatedSource) or environment.model is not None:
        return
    if environment.absent is None and _shows_masks(source):
        raise BadInput(
            f"{environment.name} forbids actions and has no table to say which; only cover plays it"
        )


def _shows_masks(source: ExternalSource) -> bool:
    """Not where it fails: its first episode will, and the run then says so."""
    try:
        return source.shows_masks()
    except EnvironmentFailed:
        return False


def check_possible(run: Run, forecast: Forecast, *, force: bool) -> None:
    """Refuse what would not end in a lifetime, with the number and what to do instead."""
    needed = forecast.episodes
    parts = ", ".join(f"{need.part}: {number(need.episodes)}" for need in forecast.needs)
    said = f"this needs at least {number(needed)} episodes on average ({parts})"
    if needed > MOST_EPISODES:
        raise TooLarge(
            f"{said}, more than 64-bit counts can hold; use --preset certified, ask for a larger "
            "epsilon or a smaller world, or scale the thresholds (--scale, then nothing is "
            "guaranteed)"
        )
    external = isinstance(run.source, ExternalSource)
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
