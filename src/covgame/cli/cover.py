"""``covgame cover``: play until every target is met."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import click

from covgame.cli.messages import say_unless
from covgame.cli.options import (
    OUT,
    common_options,
    data_options,
    failure_options,
    parse_columns,
    reading_options,
    report_option,
    worker_options,
    world_and_target,
)
from covgame.cli.playing import finish
from covgame.failures import OnFailure
from covgame.runs.asking import DEFAULT_TARGET, NO_TARGET, per_stage_hint
from covgame.runs.cover import start
from covgame.runs.given import From
from covgame.runs.saving import create_folder
from covgame.runs.settings import CoverSettings, Engine
from covgame.sources.environments import as_environment


@click.command()
@partial(world_and_target, required=False)
@reading_options
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Same seed, same run, if there is one worker.",
)
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="How to play: as we recommend, or Algorithm 1 of the paper to the letter.",
)
@click.option(
    "--delta",
    type=float,
    default=0.1,
    show_default=True,
    help="Probability with which the paper's bounds may fail (preset paper).",
)
@click.option("--max-episodes", type=int, help="Stop after this many episodes (exit code 3).")
@click.option(
    "--play",
    "how",
    type=click.Choice(["exact", "lazy", "counts"]),
    default="exact",
    show_default=True,
    help="Plan before every episode; plan in batches; or draw visit counts instead of episodes.",
)
@click.option(
    "--stage-dependent",
    is_flag=True,
    help="Learn every stage separately, even if ENV behaves alike at all of them.",
)
@click.option(
    "--planner",
    help="py:MODULE:NAME, a planner (or peer) of your own instead of ours.",
)
@click.option(
    "--adversary",
    help="py:MODULE:NAME, an adversary of your own instead of ours.",
)
@click.option(
    "--exact-bound",
    is_flag=True,
    help="Compute phi*, the fewest episodes possible on average, also where that "
    "takes longer than a second or two.",
)
@failure_options
@worker_options
@data_options
@click.option(
    "--out",
    type=OUT,
    help="The folder of the run; a fresh one in runs/ if left out.",
)
@report_option
@common_options
def cover(
    env: str,
    target: str | None,
    horizon: int | None,
    states: str | None,
    actions: str | None,
    keep_observations: bool,
    on_failure: OnFailure,
    step_timeout: float | None,
    isolate: bool,
    workers: int,
    engine: Engine,
    address: str | None,
    seed: int,
    preset: Literal["default", "paper"],
    delta: float,
    max_episodes: int | None,
    how: Literal["exact", "lazy", "counts"],
    min_reach: float,
    stage_dependent: bool,
    planner: str | None,
    adversary: str | None,
    exact_bound: bool,
    data: tuple[str, ...],
    columns: str | None,
    out: Path | None,
    report: bool,
    as_json: bool,
    quiet: bool,
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
    settings = CoverSettings(
        seed, preset, delta, stage_dependent, max_episodes, how, min_reach, planner, adversary,
        keep_observations, on_failure, step_timeout, exact_bound, workers, engine, address, isolate,
    )  # fmt: skip
    environment = as_environment(env, horizon, states, actions)
    if target is None:
        say_unless(quiet, NO_TARGET)
    else:
        say_unless(quiet, per_stage_hint(environment, target))
    run = start(
        environment, target or DEFAULT_TARGET, settings, From.of(data, parse_columns(columns))
    )
    say_unless(quiet, run.size_words)  # before all that takes long
    create_folder(run, out)
    finish(run, as_json, quiet, report)
