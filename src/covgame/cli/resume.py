"""``covgame resume``: go on where a run was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from covgame.cli.options import (
    common_options,
    failure_options,
    report_option,
    worker_options,
)
from covgame.cli.playing import finish, leave_unopened
from covgame.cli.progress import recount_lines
from covgame.failures import OnFailure
from covgame.runs.opening import take_up
from covgame.runs.settings import Changes, Engine


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--max-episodes", type=int, help="A new budget, counted from the first episode.")
@click.option(
    "--trust", is_flag=True, help="Import the code that RUN names (py:MODULE:NAME), if it does."
)
@click.option("--env", help="The environment named again, instead of the name in RUN.")
@partial(failure_options, resumed=True)
@partial(worker_options, resumed=True)
@report_option
@common_options
def resume(
    run: Path,
    max_episodes: int | None,
    trust: bool,
    env: str | None,
    on_failure: OnFailure | None,
    step_timeout: float | None,
    isolate: bool | None,
    workers: int | None,
    engine: Engine | None,
    address: str | None,
    report: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Go on where a stopped or killed run was.

    \b
    Examples:
      covgame resume runs/riverswim-states-8-1
      covgame resume runs/py-mine-Env-1 --trust
      covgame resume runs/py-mine-Env-1 --trust --workers 16 --max-episodes 100000
    """
    changes = Changes(max_episodes, on_failure, step_timeout, workers, engine, address, isolate)
    on_recount = (lambda told, recorded: None) if quiet else recount_lines()
    try:
        taken_up = take_up(run, changes, env=env, trust=trust, on_recount=on_recount)
    except KeyboardInterrupt:
        leave_unopened(run, as_json)
    finish(taken_up, as_json, quiet, report)
