"""``covgame bench``: run the comparison, and make its tables and figures."""

from __future__ import annotations

import fnmatch
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from covgame.cli.messages import INTERRUPTED, print_json, say, show
from covgame.cli.options import common_options
from covgame.errors import BadInput

if TYPE_CHECKING:
    from covgame.comparison.experiments import Experiment
    from covgame.comparison.results import Result
    from covgame.comparison.running import Progress

SAY_EVERY = 10.0


@click.group(invoke_without_command=True)
@click.option(
    "--profile",
    default="quick",
    show_default=True,
    help="What to run: quick (a minute or two), tuning (the peers' forms) or full (an hour or so).",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench"),
    show_default=True,
    help="The folder of the results; what is done there is not done again.",
)
@click.option("--workers", type=int, help="Processes; as many as there are cores if left out.")
@click.option("--only", help="Only experiments whose name matches, such as 'cover|chain*'.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="py:MODULE:NAME, a planner, peer or adversary of your own to compare with the others.",
)
@common_options
@click.pass_context
def bench(
    context: click.Context,
    profile: str,
    out: Path,
    workers: int | None,
    only: str | None,
    methods: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare covgame with its peers: experiments as data, one Parquet file of results.

    \b
    Ctrl-C keeps what is done; the same command goes on.
    Examples:
      covgame bench
      covgame bench --profile full --out bench-full
      covgame bench --method py:my_module:MyPlanner --only 'cover|lock*'
      covgame bench report bench-full --out bench-pages
    """
    if context.invoked_subcommand is not None:
        return
    answer, results, complete = _run_profile(profile, out, workers, only, methods, quiet)
    if as_json:
        print_json(answer)
    else:
        show(_show(results))
    if not complete:
        if not quiet:
            say("interrupted; everything is saved, the same command goes on")
        sys.exit(INTERRUPTED)


@bench.command("report")
@click.argument("results", type=click.Path(path_type=Path), default=Path("bench"))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write tables.md and all figures into this folder; without it, tables are printed.",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the figures into this folder.",
)
@click.option(
    "--page",
    "pages",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Renew the tables in this page, between their markers; may be given several times.",
)
@common_options
def bench_report(
    results: Path,
    out: Path | None,
    figures: Path | None,
    pages: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Tables and figures from the results of covgame bench.

    \b
    Example:
      covgame bench report bench --out pages
    """
    del quiet
    answer, text = _report(results, out, figures, pages)
    if as_json:
        print_json(answer)
    else:
        show(text)


def _run_profile(
    profile: str,
    out: Path,
    workers: int | None,
    only: str | None,
    methods: tuple[str, ...],
    quiet: bool,
) -> tuple[dict[str, Any], list[Result], bool]:
    """Run what is left of a profile: (the answer, all results, whether it is complete)."""
    from covgame.comparison.experiments import experiments_of
    from covgame.comparison.results import RESULTS, read_results
    from covgame.comparison.running import run

    wanted = _chosen(experiments_of(profile, methods), only)
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is not a folder")
    complete = run(wanted, out, workers=workers, progress=None if quiet else _speak())
    results = read_results(out / RESULTS)
    answer = {
        "profile": profile,
        "experiments": len(wanted),
        "done": len({result.experiment for result in results}),
        "results": str(out / RESULTS),
    }
    return answer, results, complete


def _chosen(experiments: list[Experiment], only: str | None) -> list[Experiment]:
    if only is None:
        return experiments
    chosen = [one for one in experiments if fnmatch.fnmatch(one.key, only)]
    if not chosen:
        raise BadInput(f"no experiment matches {only!r}; one is {experiments[0].key!r}")
    return chosen


def _speak() -> Callable[[Progress], None]:
    """Say how far it is, now and then."""
    last = time.monotonic()

    def speak(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > SAY_EVERY or progress.done == progress.wanted:
            last = time.monotonic()
            say(f"{progress.done} of {progress.wanted} experiments done ({progress.last})")

    return speak


def _show(results: list[Result]) -> str:
    """All tables, each under its name."""
    from covgame.comparison.summaries import all_tables

    return "\n\n".join(f"## {name}\n\n{text}" for name, text in all_tables(results).items())


def _report(
    source: Path, out: Path | None, figures: Path | None, pages: tuple[Path, ...]
) -> tuple[dict[str, Any], str]:
    """Make tables and figures: (the answer, what to print)."""
    from covgame.comparison.markdown import update_page
    from covgame.comparison.results import read_results
    from covgame.comparison.summaries import all_tables

    results = read_results(source)
    tables = all_tables(results)
    written = []
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "tables.md").write_text(_show(results) + "\n", encoding="utf-8")
        written.append(out / "tables.md")
    for folder in filter(None, (out, figures)):
        from covgame.comparison.figures import draw_all

        folder.mkdir(parents=True, exist_ok=True)
        written += draw_all(results, folder)
    for page in pages:
        if not page.is_file():
            raise BadInput(f"{page} is not a file")
        if update_page(page, tables):
            written.append(page)
    answer = {"tables": tables, "written": [str(path) for path in written]}
    text = "\n".join(f"wrote {path}" for path in written) if written else _show(results)
    return answer, text
