"""Real disks that are too small, read-only or forbidden; afterwards the run is resumed."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from torture.cases import Attack, Case, Verdict
from torture.environments import LOG
from torture.interruptions import (
    instant,
    interrupted_problem,
    next_command,
    resumed,
    scenario_of,
)
from torture.invariants import DATABASE, interrupted_problems, read_run
from torture.processes import Strike, run
from torture.reading import REFUSED, complaint, reading_problem
from torture.scenarios import LIMIT, RUN, Scenario

NEW_NAMESPACE, NEW_USER = 0x20000, 0x10000000
READ_ONLY, REMOUNT, RECURSIVE, PRIVATE = 1, 32, 0x4000, 1 << 18
UNPRIVILEGED = 65534
STOPPED = (2, 4)
ROOM = "size=64m"

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(place: Path, options: str, flags: int = 0) -> None:
    until = time.monotonic() + 5.0
    while _libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", flags, options.encode()):
        wrong = ctypes.get_errno()
        if wrong != errno.EBUSY or time.monotonic() > until:
            raise OSError(wrong, os.strerror(wrong), str(place))
        time.sleep(0.02)


def _own_disk(place: Path, options: str) -> None:
    """Mount a disk that only this process and its children see."""
    wanted = NEW_NAMESPACE if os.geteuid() == 0 else NEW_NAMESPACE | NEW_USER
    if _libc.unshare(wanted) or _libc.mount(None, b"/", None, RECURSIVE | PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no disks can be mounted here")
    place.mkdir()
    _mount(place, options)


def judge(case: Case) -> Verdict:
    """The kinds take turns."""
    scenario, kind = scenario_of(case), KINDS[case.number % len(KINDS)]
    name = kind.__name__.strip("_").replace("_", " ")
    try:
        verdict = kind(case, scenario)
    except OSError as error:
        return Verdict(f"not tried: {error.strerror}")
    if verdict.problem is not None:
        verdict.problem = f"{scenario.name}, {name}: {verdict.problem}"
    verdict.outcome = f"{name}: {verdict.outcome}"
    return verdict


def _full_disk(case: Case, scenario: Scenario) -> Verdict:
    whole = sum(path.stat().st_size for path in case.workspace.reference(scenario).rglob("*"))
    size = 4096 * case.rng.randrange(1, whole // 4096 + 40)  # SQLite's log needs some room, too
    _own_disk(case.folder / RUN, f"size={size}")
    ending = run(scenario.command, case.folder, prepare=scenario.prepare, limit=LIMIT)
    problem = complaint(scenario.command, ending)
    if ending.code not in (scenario.code, *STOPPED):
        problem = str(ending)
    problem = problem or next(iter(interrupted_problems(case.folder / RUN)), None)
    if problem is not None:
        return Verdict(f"exit {ending.code}", f"{size} bytes: {problem}")
    _mount(case.folder / RUN, ROOM, REMOUNT)
    problem = interrupted_problem(case, scenario)
    verdict = resumed(case, scenario, 1)
    return Verdict(f"exit {ending.code}", problem or verdict.problem, verdict.lost)


def _read_only_disk(case: Case, scenario: Scenario) -> Verdict:
    _own_disk(case.folder / RUN, ROOM)
    _kill(case, scenario)
    _mount(case.folder / RUN, "", REMOUNT | READ_ONLY)

    def allow() -> None:
        _mount(case.folder / RUN, "", REMOUNT)

    return _read_then_resumed(case, scenario, allow, scenario.prepare)


def _forbidden_folder(case: Case, scenario: Scenario) -> Verdict:
    """A folder of another user."""
    _kill(case, scenario)
    places = [case.folder / RUN, *(case.folder / RUN).rglob("*")]
    places = [place for place in places if place.exists()]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    (case.folder / LOG).touch()
    (case.folder / LOG).chmod(0o666)

    def as_other_user() -> None:
        scenario.prepare()
        if os.geteuid() == 0:
            os.setgid(UNPRIVILEGED)
            os.setuid(UNPRIVILEGED)

    def allow() -> None:
        for place in places:
            if place.exists():
                place.chmod(0o755 if place.is_dir() else 0o644)

    case.folder.chmod(0o777)
    return _read_then_resumed(case, scenario, allow, as_other_user)


def _kill(case: Case, scenario: Scenario) -> None:
    strike = Strike(instant(case, scenario, case.rng), signal.SIGKILL)
    run(scenario.command, case.folder, strikes=[strike], prepare=scenario.prepare, limit=LIMIT)


def _read_then_resumed(
    case: Case, scenario: Scenario, allow: Callable[[], None], prepare: Callable[[], None]
) -> Verdict:
    """Every command reads the run; resuming an unfinished one is refused until it is allowed."""
    folder, words = case.folder / RUN, next_command(case, scenario)
    has_run = (folder / DATABASE).exists()
    whole = case.workspace.reference(scenario) if scenario.exact else None
    problem = reading_problem(case.folder, whole, prepare)
    if problem is None and (has_run or folder.exists()):
        ending = run(words, case.folder, prepare=prepare, limit=LIMIT)
        is_finished = has_run and read_run(folder).is_finished
        expected = scenario.code if is_finished else REFUSED
        problem = None if ending.code == expected else f"{words[0]}: {ending}"
        problem = problem or complaint(words, ending)
    allow()
    verdict = resumed(case, scenario, 1)
    outcome = "read, then resumed" if has_run else "not started"
    return Verdict(outcome, problem or verdict.problem, verdict.lost)


KINDS = (_full_disk, _read_only_disk, _full_disk, _forbidden_folder)

DISK = Attack(
    "disk",
    "disks that are too small, read-only or forbidden: read, then room is made and resumed",
    judge,
    lambda workspace: 4 if workspace.short else 120,
    lambda workspace: workspace.play_all(),
)
