"""``covgame explore``: a model that is good enough for any reward."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from covgame.cli.options import (
    common_options,
    data_options,
    failure_options,
    learning_options,
    parse_columns,
    reading_options,
    report_option,
)
from covgame.cli.playing import finish
from covgame.cli.progress import announce
from covgame.failures import OnFailure
from covgame.runs.given import From
from covgame.runs.learn import start
from covgame.runs.saving import create_folder
from covgame.runs.settings import LearnSettings
from covgame.sources.environments import as_environment


@click.command()
@learning_options
@reading_options
@failure_options
@data_options
@report_option
@common_options
def explore(
    env: str,
    horizon: int | None,
    states: str | None,
    actions: str | None,
    keep_observations: bool,
    on_failure: OnFailure,
    step_timeout: float | None,
    isolate: bool,
    epsilon: float,
    delta: float,
    seed: int,
    preset: Literal["certified", "paper"],
    how: Literal["exact", "counts"] | None,
    max_episodes: int | None,
    scale: float,
    most_successors: int | None,
    most_states: int | None,
    stage_dependent: bool,
    force: bool,
    data: tuple[str, ...],
    columns: str | None,
    out: Path | None,
    report: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Reward-free exploration: a model that is good enough for any reward.

    \b
    Afterwards covgame policy RUN --reward FILE plans on it.
    Examples:
      covgame explore riverswim:states=6,horizon=10 --epsilon 1
      covgame explore garnet:states=3,actions=2,horizon=3 --epsilon 1.5 --preset paper
    """
    settings = LearnSettings(
        "explore", epsilon, delta, seed, preset, how, max_episodes, scale,
        most_successors=most_successors, stage_dependent=stage_dependent,
        most_states=most_states, keep_observations=keep_observations,
        on_failure=on_failure, step_timeout=step_timeout, isolate=isolate,
    )  # fmt: skip
    run = start(
        as_environment(env, horizon, states, actions),
        settings,
        force=force,
        data=From.of(data, parse_columns(columns)),
    )
    if not quiet:
        announce(run)
    create_folder(run, out)
    finish(run, as_json, quiet, report)
