"""A kill, a full disk or an error of the disk at every single call that writes to a run."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torture.breaking import Breaker, Fault
from torture.cases import Attack, Case, Verdict
from torture.environments import LOG
from torture.forking import call, run
from torture.invariants import torn_files
from torture.kills import LIMIT, resumed
from torture.scenarios import RESUME, RUN, SCENARIOS, Scenario, Workshop

HAPPENS: tuple[Fault, ...] = ("before", "after", "half", "full", "error")
ATTACKED = ("family-hurried", "lake-hurried", "own-hurried", "bins-hurried", "fragile-hurried",
            "counts", "identify",
            "explore-paper")  # fmt: skip
SHORT = ("family-hurried", "own-hurried")
CODES = (2, 4, 130)
"""With which a run may stop on a disk that fails."""

CALLS = ".calls.json"
BROKEN = "broken"


@dataclass(frozen=True)
class Point:
    """One call of one command, and what happens there."""

    scenario: Scenario
    resuming: bool  # the run was killed before, and it is resuming that is struck
    number: int
    name: str
    fault: Fault

    def __str__(self) -> str:
        which = f"{self.scenario.name} resumed" if self.resuming else self.scenario.name
        return f"{which}, {self.fault} {self.name} {self.number}"


def _words(scenario: Scenario, resuming: bool) -> list[str]:
    return RESUME if resuming else scenario.command


def broken(words: list[str], breaker: Breaker, listing: Path | None = None) -> Callable[[], int]:
    """A command whose calls are counted, or go wrong."""

    def task() -> int:
        breaker.install()
        try:
            return call(words)
        finally:
            if listing is not None:
                breaker.save(listing)

    return task


def prepare(workshop: Workshop) -> None:
    """Count the calls of every command in a dry run; those of resuming after a kill half-way."""
    for name in SHORT if workshop.short else ATTACKED:
        scenario = SCENARIOS[name]
        workshop.play_whole(scenario)
        place = _fresh(workshop.folder / BROKEN / name)
        dry = _dry_run(scenario, place, resuming=False)
        shutil.rmtree(place / RUN)
        (place / LOG).unlink(missing_ok=True)
        halfway = Breaker(place, "before", 3 * len(dry) // 5)
        run(broken(scenario.command, halfway), place, prepare=scenario.prepare, limit=LIMIT)
        if (place / RUN / "run.json").exists():
            again = _fresh(workshop.folder / BROKEN / f"{name}-resumed")
            shutil.copytree(place, again, dirs_exist_ok=True)
            _dry_run(scenario, again, resuming=True)
            shutil.rmtree(again / RUN)


def _fresh(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


def _dry_run(scenario: Scenario, place: Path, *, resuming: bool) -> list[list[str]]:
    task = broken(_words(scenario, resuming), Breaker(place / RUN), place / CALLS)
    ending = run(task, place, prepare=scenario.prepare, limit=LIMIT)
    if ending.code != scenario.code:
        raise RuntimeError(f"dry run of {scenario.name}: {ending}")
    calls: list[list[str]] = json.loads((place / CALLS).read_text())
    return calls


def points(workshop: Workshop) -> list[Point]:
    """Every call, with everything that can happen there."""
    found = []
    for name in SHORT if workshop.short else ATTACKED:
        for resuming in (False, True):
            listing = workshop.folder / BROKEN / (f"{name}-resumed" if resuming else name) / CALLS
            calls = json.loads(listing.read_text()) if listing.exists() else []
            found += [
                Point(SCENARIOS[name], resuming, number, called, fault)
                for number, (called, _) in enumerate(calls)
                for fault in HAPPENS
                if fault != "half" or called == "write"
            ]
    if workshop.short:
        found = found[:: max(1, len(found) // 10)]
    return found


def one(case: Case) -> Verdict:
    """Strike, look, and play to the end."""
    point = points(case.workshop)[case.number]
    scenario = point.scenario
    where = str(point)
    before = case.workshop.folder / BROKEN / scenario.name
    kills = 1 if point.resuming else 0
    if point.resuming:
        shutil.copytree(before / RUN, case.folder / RUN)
        if (before / LOG).exists():
            shutil.copy(before / LOG, case.folder)
    task = broken(
        _words(scenario, point.resuming), Breaker(case.folder / RUN, point.fault, point.number)
    )
    ending = run(task, case.folder, prepare=scenario.prepare, limit=LIMIT)
    died = ending.code == -signal.SIGKILL and not ending.late
    allowed = (*CODES, scenario.code)
    if not died and (ending.late or ending.code not in allowed or "Traceback" in ending.err):
        return Verdict("other exit", f"{where}: {ending}")
    torn = torn_files(case.folder / RUN)
    if torn:
        return Verdict("torn", f"{where}: {torn[0]}")
    verdict = resumed(case, scenario, kills + 1)
    outcome = "killed" if died else f"exit {ending.code}"
    problem = None if verdict.problem is None else f"{where}: {verdict.problem}"
    return Verdict(outcome, problem, verdict.lost)


FAULTS = Attack(
    "faults",
    "killed before, after and amidst every call that writes; a disk that is full, or fails, there",
    one,
    lambda workshop: len(points(workshop)),
    prepare,
)
