"""Kills while files for others are written: these are there as a whole, or not at all."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from torture.cases import Attack, Case, Verdict
from torture.forking import Strike, run
from torture.scenarios import RUN, SCENARIOS, Workshop

LIMIT = 60.0
SOURCE = "own-kept"
TASKS: dict[str, list[str]] = {
    "steps.csv": ["export", RUN, "--to", "csv", "--out", "steps.csv"],
    "steps-v0": ["export", RUN, "--to", "minari", "--out", "./steps-v0"],
    "page.html": ["audit", RUN, "--target", "uniform:3/pair", "--report", "page.html"],
    "plan.svg": ["audit", RUN, "--target", "uniform:3/pair", "--plot", "plan.svg"],
}
WHOLE = "exports"


def prepare(workshop: Workshop) -> None:
    """Write each of them once."""
    workshop.play_whole(SCENARIOS[SOURCE])
    place = workshop.folder / WHOLE
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    shutil.copytree(workshop.reference(SCENARIOS[SOURCE]), place / RUN)
    for name, words in TASKS.items():
        ending = run([*words, "--quiet"], place, limit=LIMIT)
        if ending.code:
            raise RuntimeError(f"{' '.join(words)}: {ending}")
        workshop.endings[name] = ending


def one(case: Case) -> Verdict:
    """Kill, look, and write it again."""
    name = list(TASKS)[case.number % len(TASKS)]
    whole = case.workshop.folder / WHOLE
    (case.folder / RUN).symlink_to(whole / RUN)
    words = [*TASKS[name], "--quiet"]
    seconds = case.workshop.endings[name].seconds
    strike = Strike(case.rng.uniform(0.0, 1.02 * seconds), signal.SIGKILL)
    run(words, case.folder, strikes=[strike], limit=LIMIT)
    written = case.folder / name
    outcome = "whole" if written.exists() else "not there"
    if written.exists() and (problem := _difference(written, whole / name)):
        return Verdict("torn", f"{name}: {problem}")
    again = run(words, case.folder, limit=LIMIT)
    if again.code and not (again.code == 2 and outcome == "whole"):
        return Verdict(outcome, f"{name}, once more: {again}")
    problem = _difference(written, whole / name)
    return Verdict(outcome, None if problem is None else f"{name}, once more: {problem}")


def _difference(written: Path, whole: Path) -> str | None:
    """Sizes, because archives carry the time at which they were written."""
    sizes = [
        {str(path.relative_to(place)): path.stat().st_size for path in _files(place)}
        for place in (written, whole)
    ]
    return None if sizes[0] == sizes[1] else f"{sizes[0]} instead of {sizes[1]}"


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return sorted(path for path in place.rglob("*") if path.is_file())


EXPORTS = Attack(
    "exports",
    "`SIGKILL` while exports, pages and pictures are written",
    one,
    lambda _: 150,
    prepare,
    in_short=False,
)
