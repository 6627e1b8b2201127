"""``covgame cover``: play until every target is met."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from covgame.cli.messages import say_unless
from covgame.cli.options import (
    common_options,
    config_file_option,
    config_options,
    data_options,
    out_option,
    parse_columns,
    reading_options,
    report_option,
    world_and_target,
)
from covgame.cli.playing import finish
from covgame.config import CoverConfig
from covgame.planning import per_stage_hint
from covgame.runs.cover import start
from covgame.runs.prior_data import DataSource
from covgame.runs.run import create_folder
from covgame.sources.environments import as_environment
from covgame.targets.resolve import NO_TARGET


@click.command()
@partial(world_and_target, required=False)
@reading_options
@config_options(CoverConfig)
@data_options
@out_option
@report_option
@config_file_option
@common_options
def cover(
    env: str,
    target: str | None,
    horizon: int | None,
    states: str | None,
    actions: str | None,
    data: tuple[str, ...],
    columns: str | None,
    out: Path | None,
    report: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Play until every target is met; leaves a run with all episodes as Parquet files.

    \b
    ENV is a family (covgame envs), gym:NAME, py:MODULE:FACTORY or a covgame-mdp/1 file.
    Without --target: uniform:10/pair, every action in every state 10 times.
    Ctrl-C saves what there is; covgame resume goes on.
    Examples:
      covgame cover riverswim:states=8 --target uniform:10 --out my-run
      covgame cover grid --target uniform:50/pair --max-episodes 5000 --json
      covgame cover riverswim:states=8 --target uniform:20 --from my-run --out more
      covgame cover gym:Blackjack-v1 --horizon 10 --target uniform:20/pair --workers 4
    """
    settings = CoverConfig(**options)
    environment = as_environment(env, horizon, states, actions)
    if target is None:
        say_unless(quiet, NO_TARGET)
    else:
        say_unless(quiet, per_stage_hint(environment, target))
    run = start(environment, target, settings, DataSource.of(data, parse_columns(columns)))
    # Before all that takes long.
    say_unless(quiet, run.size.words(discovers=run.source.discovers_states))
    create_folder(run, out)
    finish(run, as_json, quiet, report)
