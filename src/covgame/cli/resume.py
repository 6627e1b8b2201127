"""``covgame resume``: go on where a run was."""

from __future__ import annotations

from pathlib import Path

import click

from covgame.cli.options import common_options
from covgame.cli.playing import finish
from covgame.cli.supervising import works_on
from covgame.runs.opening import load


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--max-episodes", type=int, help="A new budget, counted from the first episode.")
@common_options
def resume(run: Path, max_episodes: int | None, as_json: bool, quiet: bool) -> None:
    """Go on where a stopped or killed run was.

    \b
    Example:
      covgame resume runs/riverswim-states-8-1
    """
    works_on(run)
    finish(load(run, max_episodes), as_json, quiet)
