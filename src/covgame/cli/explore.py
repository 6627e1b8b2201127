"""``covgame explore``: a model that is good enough for any reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from covgame.cli.options import (
    common_options,
    config_file_option,
    config_options,
    data_options,
    learning_options,
    parse_columns,
    reading_options,
    report_option,
)
from covgame.cli.playing import announce, finish
from covgame.config import LearnConfig
from covgame.runs.learn import start
from covgame.runs.prior_data import DataSource
from covgame.runs.run import create_folder
from covgame.sources.environments import as_environment


@click.command()
@learning_options
@reading_options
@config_options(LearnConfig, command="explore")
@data_options
@report_option
@config_file_option
@common_options
def explore(
    env: str,
    horizon: int | None,
    states: str | None,
    actions: str | None,
    force: bool,
    data: tuple[str, ...],
    columns: str | None,
    out: Path | None,
    report: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Reward-free exploration: a model that is good enough for any reward.

    \b
    Afterwards covgame policy RUN --reward FILE plans on it.
    Examples:
      covgame explore riverswim:states=6,horizon=10 --epsilon 1
      covgame explore garnet:states=3,actions=2,horizon=3 --epsilon 1.5 --preset paper
    """
    settings = LearnConfig(command="explore", **options)
    run = start(
        as_environment(env, horizon, states, actions),
        settings,
        force=force,
        data=DataSource.of(data, parse_columns(columns)),
    )
    if not quiet:
        announce(run)
    create_folder(run, out)
    finish(run, as_json, quiet, report)
