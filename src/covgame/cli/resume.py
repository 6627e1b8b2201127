"""``covgame resume``: go on where a run was."""

from __future__ import annotations

from pathlib import Path

import click

from covgame.cli.messages import say_unless
from covgame.cli.options import common_options
from covgame.cli.playing import finish_covering, finish_learning
from covgame.runs import cover as covering
from covgame.runs import learn as learning
from covgame.runs.taking_up import is_covering


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
    if is_covering(run):
        covered = covering.load(run, max_episodes)
        say_unless(quiet, covered.notice)
        finish_covering(covered, as_json, quiet)
    else:
        learnt = learning.load(run, max_episodes)
        say_unless(quiet, learnt.notice)
        finish_learning(learnt, as_json, quiet)
