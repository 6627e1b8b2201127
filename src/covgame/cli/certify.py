"""``covgame certify``: check what a run claims, from its data alone."""

from __future__ import annotations

from pathlib import Path

import click

from covgame.cli.messages import print_json, show
from covgame.cli.options import common_options
from covgame.report.text import facts_lines
from covgame.runs.certify import certify as check


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@common_options
def certify(run: Path, as_json: bool, quiet: bool) -> None:
    """Check what a run claims, from its data alone; exits with 2 if it does not hold.

    \b
    Example:
      covgame certify runs/riverswim-states-6-1
    """
    del quiet
    checked = check(run)
    if as_json:
        print_json({**checked.to_dict(), "run": str(run)})
    else:
        show("\n".join(facts_lines(checked.facts())))
