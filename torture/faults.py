"""A kill, a full disk or an error of the disk at every operation of the storage."""

from __future__ import annotations

import errno
import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from torture.cases import Attack, Case, Verdict
from torture.interruptions import interrupted_problem, next_command, resumed
from torture.processes import call, run
from torture.reading import complaint
from torture.scenarios import LIMIT, SCENARIOS, Scenario, Workspace, new_folder

Kind = Literal["none", "kill", "full", "error"]
"""Nothing, a kill, a disk that is full from then on, one error of the disk."""

ATTACKED = (
    *("family-hurried", "identify-hurried", "lake-hurried", "own-hurried", "bins-hurried"),
    *("fragile-hurried", "counts", "explore-paper"),
)
ATTACKED_IN_SHORT = ("family-hurried", "own-hurried")
CASES, CASES_IN_SHORT = 600, 10
NEEDS_ROOM = ("open", "write", "mkdir", "fsync", "commit")
STOPPED = (2, 4)
EVENTS = "events"


def with_fault(
    words: list[str], kind: Kind = "none", at: int = -1, events: Path | None = None
) -> Callable[[], int]:
    """A command that meets a fault at an operation, or lists its operations in a file."""

    def task() -> int:
        from covgame.storage import files

        numbers = itertools.count()

        def fault(operation: str, path: Path) -> None:
            number = next(numbers)
            if events is not None:
                with events.open("a") as file:
                    file.write(f"{operation}\n")
            if kind == "kill" and number == at:
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "error" and number == at:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            if kind == "full" and number >= at and operation in NEEDS_ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

        files.fault = fault
        return call(words)

    return task


def attacked(workspace: Workspace) -> list[Scenario]:
    names = ATTACKED_IN_SHORT if workspace.short else ATTACKED
    return [SCENARIOS[name] for name in names]


def prepare(workspace: Workspace) -> None:
    """List the operations of every command."""
    workspace.play(attacked(workspace))
    for one in attacked(workspace):
        place = new_folder(workspace.folder / EVENTS / one.name)
        task = with_fault(one.command, events=place / EVENTS)
        ending = run(task, place, prepare=one.prepare, limit=LIMIT)
        if ending.code != one.code:
            raise RuntimeError(f"{one.name}: {ending}")
        workspace.events[one.name] = (place / EVENTS).read_text().splitlines()


def points(workspace: Workspace) -> list[tuple[Scenario, int, str, Kind]]:
    """Operations with what happens there, thinned out evenly where there are too many."""
    kinds: tuple[Kind, ...] = ("kill", "full", "error")
    every = [
        (one, number, operation, kind)
        for one in attacked(workspace)
        for number, operation in enumerate(workspace.events[one.name])
        for kind in kinds
        if kind == "kill" or (operation == "unlink" and kind == "error") or operation in NEEDS_ROOM
    ]
    most = CASES_IN_SHORT if workspace.short else CASES
    return [every[place * len(every) // most] for place in range(most)]


def judge(case: Case) -> Verdict:
    """Play with a fault, read what is left, and resume, sometimes after another kill."""
    scenario, at, operation, kind = points(case.workspace)[case.number]
    where = f"{scenario.name}, {kind} at {at} ({operation})"
    task = with_fault(scenario.command, kind, at)
    ending = run(task, case.folder, prepare=scenario.prepare, limit=LIMIT)
    outcome = "killed" if ending.was_killed else f"exit {ending.code}"
    problem = None if ending.was_killed else complaint(scenario.command, ending)
    if not ending.was_killed and ending.code not in (*STOPPED, scenario.code):
        problem = str(ending)
    problem = problem or interrupted_problem(case, scenario)
    kills = 1
    if problem is None and case.rng.random() < 0.3:
        kills, again = 2, case.rng.randrange(2 + at)
        task = with_fault(next_command(case, scenario), "kill", again)
        run(task, case.folder, prepare=scenario.prepare, limit=LIMIT)
        problem = interrupted_problem(case, scenario)
        where = f"{where}, then a kill at {again}"
    verdict = resumed(case, scenario, kills)
    problem = problem or verdict.problem
    said = None if problem is None else f"{where}: {problem}"
    return Verdict(outcome, said, verdict.lost, kills)


FAULTS = Attack(
    "faults",
    "a kill before and after every operation of the storage, a full disk and a disk error there",
    judge,
    lambda workspace: CASES_IN_SHORT if workspace.short else CASES,
    prepare,
)
