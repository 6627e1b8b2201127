"""Real disks that are full, read-only or forbidden, and room made afterwards."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

from torture.cases import Attack, Case, Verdict
from torture.environments import LOG
from torture.forking import Ending, Strike, run
from torture.fuzz import complaint
from torture.invariants import torn_files
from torture.kills import LIMIT, instant, open_run, prepare, resumed, scenario_of
from torture.scenarios import READERS, RESUME, RUN, Scenario

NEW_NAMESPACE, NEW_USER = 0x20000, 0x10000000
READ_ONLY, REMOUNT, BELOW, PRIVATE = 1, 32, 0x4000, 1 << 18
NOBODY = 65534
STOPPED = (2, 4)
"""With which a run may end on a disk that fails it."""

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(place: Path, options: str, flags: int = 0) -> None:
    where, kind = os.fsencode(place), b"tmpfs"
    until = time.monotonic() + 5.0
    while _libc.mount(kind, where, kind, flags, options.encode()):
        wrong = ctypes.get_errno()
        if wrong != errno.EBUSY or time.monotonic() > until:  # somebody is just leaving
            raise OSError(wrong, os.strerror(wrong), str(place))
        time.sleep(0.02)


def _small_disk(place: Path, size: int) -> None:
    """A disk that only this process and its children see, and that goes away with them."""
    wanted = NEW_NAMESPACE if os.geteuid() == 0 else NEW_NAMESPACE | NEW_USER
    if _libc.unshare(wanted) or _libc.mount(None, b"/", None, BELOW | PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no disks can be mounted here")
    place.mkdir(exist_ok=True)
    _mount(place, f"size={size}")


def one(case: Case) -> Verdict:
    """They take turns."""
    scenario = scenario_of(case)
    attack = KINDS[case.number % len(KINDS)]
    verdict = attack(case, scenario)
    name = attack.__name__.strip("_").replace("_", " ")
    if verdict.problem is not None:
        verdict.problem = f"{scenario.name}, {name}: {verdict.problem}"
    verdict.outcome = f"{name}: {verdict.outcome}"
    return verdict


def _wrong(ending: Ending, scenario: Scenario) -> str | None:
    """What must not be, however a disk fails."""
    if ending.code == scenario.code and not ending.late:
        return None
    if ending.late or ending.code not in STOPPED:
        return str(ending)
    return complaint(["--json", "--quiet"], ending) if ending.code == 2 else None


def _full(case: Case, scenario: Scenario) -> Verdict:
    """A disk that is too small; then room is made."""
    whole = sum(path.stat().st_size for path in case.workshop.reference(scenario).rglob("*"))
    size = 4096 * case.rng.randrange(1, max(2, whole // 4096 + 12))
    try:
        _small_disk(case.folder / RUN, size)
    except OSError as error:
        return Verdict(f"not tried: {error.strerror}")
    ending = run(scenario.command, case.folder, prepare=scenario.prepare, limit=LIMIT)
    problem = _wrong(ending, scenario) or next(iter(torn_files(case.folder / RUN)), None)
    if problem is not None:
        return Verdict(f"exit {ending.code}", f"{size} bytes: {problem}")
    _mount(case.folder / RUN, f"size={64 * 2**20}", REMOUNT)
    return _ended(case, scenario, ending)


def _file_limit(case: Case, scenario: Scenario) -> Verdict:
    """No file may grow beyond a size."""
    sizes = (20_000, 50_000, 100_000) if scenario.external else (0, 100, 1000, 5000, 20_000)
    size = case.rng.choice(sizes)  # an environment needs some room for its own notes

    def limited() -> None:
        scenario.prepare()
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    ending = run(scenario.command, case.folder, prepare=limited, limit=LIMIT)
    if not ending.err and ending.code in STOPPED:  # what it says goes to a file as well
        ending = Ending(ending.code, ending.seconds, ending.out, "covgame: \n", ending.late)
    problem = _wrong(Ending(ending.code, 0, "", "covgame: x", ending.late), scenario)
    problem = problem or next(iter(torn_files(case.folder / RUN)), None)
    if problem is not None:
        return Verdict(f"exit {ending.code}", f"{size} bytes: {problem}")
    return _ended(case, scenario, ending)


def _ended(case: Case, scenario: Scenario, ending: Ending) -> Verdict:
    verdict = resumed(case, scenario, 1)
    return Verdict(f"exit {ending.code}", verdict.problem, verdict.lost)


def _read_only(case: Case, scenario: Scenario) -> Verdict:
    """A run that was killed, on a disk that nobody can write to: read, refused; later resumed."""
    try:
        _small_disk(case.folder / RUN, 64 * 2**20)
    except OSError as error:
        return Verdict(f"not tried: {error.strerror}")
    seconds = case.workshop.endings[scenario.name].seconds
    strike = Strike(instant(case.rng, seconds), signal.SIGKILL)
    run(scenario.command, case.folder, strikes=[strike], prepare=scenario.prepare, limit=LIMIT)
    _mount(case.folder / RUN, "", REMOUNT | READ_ONLY)
    return _read_then_resumed(
        case, scenario, lambda: _mount(case.folder / RUN, "", REMOUNT), scenario.prepare
    )


def _forbidden(case: Case, scenario: Scenario) -> Verdict:
    """The same by permissions, for a user who is not root."""
    seconds = case.workshop.endings[scenario.name].seconds
    strike = Strike(instant(case.rng, seconds), signal.SIGKILL)
    run(scenario.command, case.folder, strikes=[strike], prepare=scenario.prepare, limit=LIMIT)
    places = [case.folder / RUN, *(case.folder / RUN).rglob("*")]
    places = [place for place in places if place.exists()]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)

    def as_somebody() -> None:
        scenario.prepare()
        if os.geteuid() == 0:
            Path(LOG).touch()
            Path(LOG).chmod(0o666)
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    def allow() -> None:
        for place in places:
            place.chmod(0o755 if place.is_dir() else 0o644)

    return _read_then_resumed(case, scenario, allow, as_somebody)


def _read_then_resumed(
    case: Case, scenario: Scenario, allow: Callable[[], None], who: Callable[[], None]
) -> Verdict:
    there = (case.folder / RUN / "run.json").exists()
    done = _is_done(case.folder / RUN)
    resume = RESUME
    readers = [[*words, "--quiet", "--json"] for words in READERS]
    for words in (*readers, resume) if there else (scenario.command,):
        ending = run(words, case.folder, prepare=who, limit=LIMIT)
        refused = complaint(words, ending) or (
            None if ending.code in (0, 2, scenario.code) else str(ending)
        )
        if words is resume and done and ending.code != scenario.code:
            refused = f"a finished run: {ending}"
        if refused is not None:
            return Verdict(f"exit {ending.code}", f"{words[0]}: {refused}")
    if there and scenario.external:
        opened = run(open_run, case.folder, prepare=who, limit=LIMIT)
        if opened.code:
            return Verdict("not opened", f"it cannot be opened: {opened}")
    allow()
    verdict = resumed(case, scenario, 1)
    return Verdict("read, then resumed" if there else "refused", verdict.problem, verdict.lost)


def _is_done(folder: Path) -> bool:
    path = folder / "run.json"
    return path.exists() and '"state": "finished"' in path.read_text()


KINDS = (_full, _file_limit, _read_only, _forbidden, _full)

DISK = Attack(
    "disk",
    "disks that are too small, read-only or forbidden; then room is made",
    one,
    lambda workshop: 3 if workshop.short else 400,
    prepare,
)
