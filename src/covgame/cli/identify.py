"""``covgame identify``: a policy close to the best."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from covgame.cli.messages import say
from covgame.cli.options import (
    as_range,
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
@click.option(
    "--suprema",
    type=click.Choice(["exact", "relaxed"]),
    help="Targets by a program per cell, or by a bound that is quicker; by size if left out.",
)
@click.option(
    "--reward-range",
    default="0,1",
    show_default=True,
    help="LO,HI: what the environment may pay.",
)
@click.option("--return-range", help="LO,HI: a known range of the sum of an episode's rewards.")
@click.option(
    "--prune",
    is_flag=True,
    help="The published form, with PruneDataset: it biases the estimates and can be wrong.",
)
@failure_options
@data_options
@report_option
@common_options
def identify(
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
    suprema: Literal["exact", "relaxed"] | None,
    reward_range: str,
    return_range: str | None,
    prune: bool,
    force: bool,
    data: tuple[str, ...],
    columns: str | None,
    out: Path | None,
    report: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Best-policy identification: a policy close to the best for ENV's reward.

    \b
    Examples:
      covgame identify gym:FrozenLake-v1 --horizon 20 --epsilon 0.2 --return-range 0,1
      covgame identify garnet:states=3,actions=2,horizon=3 --epsilon 1 --preset paper
    """
    settings = LearnSettings(
        "identify", epsilon, delta, seed, preset, how, max_episodes, scale, suprema, prune,
        as_range(reward_range), None if return_range is None else as_range(return_range),
        most_successors, stage_dependent, most_states, keep_observations,
        on_failure, step_timeout, isolate,
    )  # fmt: skip
    if prune and not quiet:
        say("PruneDataset biases the estimates; what comes out may be far from the best policy")
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
