"""``covgame report``: the page of a run."""

from __future__ import annotations

from pathlib import Path

import click

from covgame.cli.messages import print_json, say_unless, show
from covgame.cli.options import common_options
from covgame.runs.resume import load


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the page.  [default: report.html in RUN]",
)
@common_options
def report(run: Path, out: Path | None, as_json: bool, quiet: bool) -> None:
    """The page of a run: one HTML file that opens in any browser, without a network.

    \b
    It shows what was asked and what came of it, coverage over episodes, visits
    against target state by state, what was expensive, missing or out of reach.
    Finished or not, failed or killed; no code that RUN names is imported.
    Examples:
      covgame report runs/grid-1
      covgame report runs/grid-1 --out grid.html
    """
    loaded = load(run)
    say_unless(quiet, loaded.notice)
    place = loaded.report(out)
    if as_json:
        print_json({"run": str(run), "report": str(place), "bytes": place.stat().st_size})
    else:
        show(str(place))
