"""``covgame bench``: run the comparison, and make its tables and figures."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from covgame.bench.experiments import Experiment, experiments_of
from covgame.bench.results import RESULTS, Result, read_results
from covgame.bench.running import Progress, run
from covgame.bench.tables import all_tables, update_page
from covgame.cli.common import say
from covgame.errors import BadInput

SAY_EVERY = 10.0


def run_profile(
    profile: str, out: Path, workers: int | None, only: str | None, quiet: bool
) -> tuple[dict[str, Any], list[Result], bool]:
    """Run what is left of a profile: (the answer, all results, whether it is complete)."""
    wanted = _chosen(experiments_of(profile), only)
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


def show(results: list[Result]) -> str:
    """All tables, each under its name."""
    return "\n\n".join(f"## {name}\n\n{text}" for name, text in all_tables(results).items())


def report(
    source: Path, out: Path | None, figures: Path | None, pages: tuple[Path, ...]
) -> tuple[dict[str, Any], str]:
    """Make tables and figures: (the answer, what to print)."""
    results = read_results(source)
    tables = all_tables(results)
    written = []
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "tables.md").write_text(show(results) + "\n")
        written.append(out / "tables.md")
    for folder in filter(None, (out, figures)):
        from covgame.bench.figures import draw_all

        folder.mkdir(parents=True, exist_ok=True)
        written += draw_all(results, folder)
    for page in pages:
        if not page.is_file():
            raise BadInput(f"{page} is not a file")
        if update_page(page, tables):
            written.append(page)
    answer = {"tables": tables, "written": [str(path) for path in written]}
    text = "\n".join(f"wrote {path}" for path in written) if written else show(results)
    return answer, text
