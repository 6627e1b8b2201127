"""``covgame resume``: go on where a run was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from covgame.cli.options import common_options, failure_options
from covgame.cli.playing import finish
from covgame.runs.opening import load
from covgame.sources.failures import OnFailure


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--max-episodes", type=int, help="A new budget, counted from the first episode.")
@partial(failure_options, resumed=True)
@common_options
def resume(
    run: Path,
    max_episodes: int | None,
    on_failure: OnFailure | None,
    step_timeout: float | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Go on where a stopped or killed run was.

    \b
    Example:
      covgame resume runs/riverswim-states-8-1
    """
    again = load(run, max_episodes, on_failure=on_failure, step_timeout=step_timeout)
    finish(again, as_json, quiet)
