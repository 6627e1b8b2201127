"""``covgame export``: the recorded episodes of a run for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from covgame.cli.messages import print_json, show
from covgame.cli.options import common_options
from covgame.data.export import FORMATS
from covgame.data.export import export as write
from covgame.report.text import facts_lines


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(FORMATS), required=True, help="The format.")
@click.option(
    "--out",
    required=True,
    help="The file to write; for minari a dataset's id (group/name-v0) or a path (./name-v0).",
)
@common_options
def export(run: Path, to: Literal["minari", "csv"], out: str, as_json: bool, quiet: bool) -> None:
    """Write the episodes of a run as a Minari dataset or CSV.

    \b
    Examples:
      covgame export runs/gym-FrozenLake-v1-1 --to minari --out covgame/frozen-v0
      covgame export runs/gym-FrozenLake-v1-1 --to csv --out frozen.csv
    """
    del quiet
    written = write(run, to=to, out=out)
    if as_json:
        print_json({**written.to_dict(), "run": str(run)})
    else:
        show("\n".join(facts_lines(written.facts())))
