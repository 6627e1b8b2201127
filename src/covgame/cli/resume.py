"""``covgame resume``: go on where a run was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from covgame.cli.options import (
    common_options,
    config_options,
    report_option,
)
from covgame.cli.playing import finish, leave_unopened, recount_lines
from covgame.config import CoverConfig
from covgame.runs.resume import Passed, open_for_resume


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--trust", is_flag=True, help="Import the code that RUN names (py:MODULE:NAME), if it does."
)
@click.option("--env", help="The environment named again, instead of the name in RUN.")
@config_options(CoverConfig, resumed=True)
@report_option
@common_options
def resume(
    run: Path,
    trust: bool,
    env: str | None,
    report: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Go on where a stopped or killed run was.

    \b
    Examples:
      covgame resume runs/riverswim-states-8-1
      covgame resume runs/py-mine-Env-1 --trust
      covgame resume runs/py-mine-Env-1 --trust --workers 16 --max-episodes 100000
    """
    changes = {name: value for name, value in options.items() if value is not None}
    on_recount = (lambda told, recorded: None) if quiet else recount_lines()
    try:
        passed = Passed(env=env, trust=trust)
        opened = open_for_resume(run, changes, passed, on_recount=on_recount)
    except KeyboardInterrupt:
        leave_unopened(run, as_json)
    finish(opened, as_json, quiet, report)
