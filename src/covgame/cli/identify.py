"""``covgame identify``: a policy close to the best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from covgame.cli.messages import say
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
@config_options(LearnConfig, command="identify")
@data_options
@report_option
@config_file_option
@common_options
def identify(
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
    """Best-policy identification: a policy close to the best for ENV's reward.

    \b
    Examples:
      covgame identify gym:FrozenLake-v1 --horizon 20 --epsilon 0.2 --return-range 0,1
      covgame identify garnet:states=3,actions=2,horizon=3 --epsilon 1 --preset paper
    """
    settings = LearnConfig(command="identify", **options)
    if settings.prune and not quiet:
        say("PruneDataset biases the estimates; what comes out may be far from the best policy")
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
