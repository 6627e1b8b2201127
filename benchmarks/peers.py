"""Compare covgame with its peers: experiments as data, one Parquet file of results.

    python3 dev.py bench peers                                       the quick profile
    python3 dev.py bench peers --profile full --out bench-full
    python3 dev.py bench peers --method py:examples.own_players:LeastTried --only 'cover|lock*'
    python3 dev.py bench peers report bench-full --out bench-pages   tables and figures

A comparison that was stopped or killed continues with the same command: finished experiments are
recorded in a journal and not run again.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison.experiments import Experiment, experiments_of
from benchmarks.comparison.markdown import update_page
from benchmarks.comparison.results import RESULTS, Result, read_results
from benchmarks.comparison.running import Progress, run
from benchmarks.comparison.summaries import all_tables
from covgame.errors import BadInput, options_in_messages

INTERRUPTED = 130
SECONDS_BETWEEN_MESSAGES = 10.0


def main(words: Sequence[str]) -> int:
    """Run one of the commands above; returns the exit code."""
    is_report = list(words[:1]) == ["report"]
    options = (_report_options() if is_report else _run_options()).parse_args(
        words[1:] if is_report else words
    )
    try:
        return _report(options) if is_report else _compare(options)
    except BadInput as error:
        with options_in_messages():
            print(f"bench peers: {error}", file=sys.stderr)
        return error.exit_code


def _run_options() -> argparse.ArgumentParser:
    options = _parser("python3 dev.py bench peers")
    options.add_argument(
        "--profile",
        default="quick",
        help="quick (a minute or two), tuning (the peers' forms) or full (an hour or so)",
    )
    options.add_argument(
        "--out",
        type=Path,
        default=Path("bench"),
        help="folder of the results; finished experiments there are not run again",
    )
    options.add_argument("--workers", type=int, help="processes (default: one per core)")
    options.add_argument(
        "--only", help="only experiments whose name matches, such as 'cover|lock*'"
    )
    options.add_argument(
        "--method",
        dest="methods",
        action="append",
        default=[],
        help="py:MODULE:NAME, a planner, peer or adversary of your own; may be repeated",
    )
    options.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return options


def _report_options() -> argparse.ArgumentParser:
    options = _parser("python3 dev.py bench peers report")
    options.add_argument("results", type=Path, nargs="?", default=Path("bench"))
    options.add_argument(
        "--out", type=Path, help="write tables.md and all figures into this folder"
    )
    options.add_argument("--figures", type=Path, help="write the figures into this folder")
    options.add_argument(
        "--page",
        dest="pages",
        type=Path,
        action="append",
        default=[],
        help="update the tables between the markers of this page; may be repeated",
    )
    return options


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        program, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _compare(options: argparse.Namespace) -> int:
    """Run the experiments of a profile that are not finished; print the tables of all results."""
    wanted = _chosen(experiments_of(options.profile, options.methods), options.only)
    if options.out.exists() and not options.out.is_dir():
        raise BadInput(f"{options.out} is not a folder")
    progress = None if options.quiet else _progress_messages()
    complete = run(wanted, options.out, workers=options.workers, progress=progress)
    results = read_results(options.out / RESULTS)
    answer = {
        "profile": options.profile,
        "experiments": len(wanted),
        "done": len({result.experiment for result in results}),
        "results": str(options.out / RESULTS),
    }
    _answer(options, answer, _page(results))
    if complete:
        return 0
    if not options.quiet:
        print("interrupted; the same command continues the comparison", file=sys.stderr)
    return INTERRUPTED


def _chosen(experiments: list[Experiment], only: str | None) -> list[Experiment]:
    if only is None:
        return experiments
    chosen = [one for one in experiments if fnmatch.fnmatch(one.key, only)]
    if not chosen:
        raise BadInput(f"no experiment matches {only!r}; one is {experiments[0].key!r}")
    return chosen


def _progress_messages() -> Callable[[Progress], None]:
    """Print progress every few seconds."""
    last = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_MESSAGES or progress.done == progress.wanted:
            last = time.monotonic()
            message = f"{progress.done} of {progress.wanted} experiments done ({progress.last})"
            print(message, file=sys.stderr)

    return show


def _report(options: argparse.Namespace) -> int:
    """Write tables and figures; without a place to write to, print the tables."""
    results = read_results(options.results)
    tables = all_tables(results)
    written: list[Path] = []
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "tables.md").write_text(_page(results) + "\n", encoding="utf-8")
        written.append(options.out / "tables.md")
    for folder in filter(None, (options.out, options.figures)):
        from benchmarks.comparison.figures import draw_all

        folder.mkdir(parents=True, exist_ok=True)
        written += draw_all(results, folder)
    for page in options.pages:
        if not page.is_file():
            raise BadInput(f"{page} is not a file")
        if update_page(page, tables):
            written.append(page)
    text = "\n".join(f"wrote {path}" for path in written) if written else _page(results)
    _answer(options, {"tables": tables, "written": [str(path) for path in written]}, text)
    return 0


def _answer(options: argparse.Namespace, answer: dict[str, Any], text: str) -> None:
    print(json.dumps(answer, allow_nan=False) if options.json else text)


def _page(results: list[Result]) -> str:
    """All tables, each under its name."""
    return "\n\n".join(f"## {name}\n\n{text}" for name, text in all_tables(results).items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
