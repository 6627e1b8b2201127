"""The command itself, as people start it: killed in all its parts, and in other surroundings."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from torture.cases import Attack, Case, Verdict
from torture.forking import Ending, end_family, family
from torture.invariants import differences, torn_files
from torture.kills import LIMIT, resumed
from torture.scenarios import RUN, SCENARIOS, Scenario, Workshop

ROOT = Path(__file__).resolve().parents[1]
ATTACKED = ("family", "counts", "lake", "own", "own-slow", "own-kept", "identify", "own-identify")
LEFT_OVER = 10.0
"""After so many seconds nothing is left of a process that was killed."""


def command_line(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "covgame", *words]


def surroundings(**changed: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **changed}


def start(words: list[str], folder: Path, **changed: str) -> subprocess.Popen[bytes]:
    """As from a shell, in a session of its own."""
    with (folder / ".real.out").open("wb") as out, (folder / ".real.err").open("wb") as err:
        return subprocess.Popen(
            command_line(words),
            cwd=folder,
            env=surroundings(**changed),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def ended(process: subprocess.Popen[bytes], folder: Path, limit: float = LIMIT) -> Ending:
    began = time.monotonic()
    try:
        code, late = process.wait(limit), False
    except subprocess.TimeoutExpired:
        process.kill()
        code, late = process.wait(), True
    said = [(folder / name).read_text(errors="replace") for name in (".real.out", ".real.err")]
    return Ending(code, time.monotonic() - began, said[0], said[1], late)


def prepare(workshop: Workshop) -> None:
    for name in ATTACKED:
        workshop.play_whole(SCENARIOS[name])


def one(case: Case) -> Verdict:
    """Kill one process of the command, or all, and resume."""
    scenario, rng = SCENARIOS[ATTACKED[case.number % len(ATTACKED)]], case.rng
    process = start(scenario.command, case.folder)
    _wait_for_a_run(process, case.folder, rng, case.workshop.endings[scenario.name].seconds)
    victims = family(process.pid)
    which = rng.choice(("all", "first", "any"))
    chosen = {"all": victims, "first": [process.pid], "any": [rng.choice(victims or [process.pid])]}
    for pid in chosen[which]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    ending = ended(process, case.folder)
    left = end_family(process.pid, LEFT_OVER)
    outcome = f"{which} of {len(victims)}"
    if left:
        return Verdict(outcome, f"{scenario.name}: {left} processes outlive the kill of {which}")
    if ending.late or "Traceback" in ending.err:
        return Verdict(outcome, f"{scenario.name}, {which}: {ending}")
    torn = torn_files(case.folder / RUN)
    if torn:
        return Verdict(outcome, f"{scenario.name}: {torn[0]}")
    verdict = resumed(case, scenario, 1)
    return Verdict(outcome, verdict.problem, verdict.lost)


def _wait_for_a_run(
    process: subprocess.Popen[bytes], folder: Path, rng: random.Random, seconds: float
) -> None:
    """Sometimes it is struck while it imports, mostly while it plays."""
    until = time.monotonic() + (rng.uniform(0.0, 2.0) if rng.random() < 0.2 else LIMIT)
    while time.monotonic() < until and process.poll() is None:
        if (folder / RUN / "run.json").exists():
            time.sleep(rng.uniform(0.0, 1.1 * seconds))
            return
        time.sleep(0.01)


# ------------------------------------------------------------------------- surroundings

SAME = (
    "family",
    "transition",
    "counts",
    "own",
    "bins",
    "identify",
    "explore-paper",
    "own-identify",
)
CHANGES: tuple[dict[str, str], ...] = (
    {"PYTHONHASHSEED": "1"},
    {"PYTHONHASHSEED": "4711"},
    {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    {"OMP_NUM_THREADS": "7", "OPENBLAS_NUM_THREADS": "7"},
    {"TZ": "Pacific/Kiritimati"},
    {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0"},
    {"LC_ALL": "de_DE.UTF-8"},
    {"PYTHONOPTIMIZE": "2"},
    {"COLUMNS": "20", "TERM": "dumb", "NO_COLOR": "1"},
)


def prepare_same(workshop: Workshop) -> None:
    for name in SAME:
        workshop.play_whole(SCENARIOS[name])


def same(case: Case) -> Verdict:
    """Another hash seed, number of threads, time zone, locale: the same bytes."""
    scenario: Scenario = SCENARIOS[SAME[case.number % len(SAME)]]
    changed = CHANGES[case.number // len(SAME) % len(CHANGES)]
    process = start(scenario.command, case.folder, **changed)
    ending = ended(process, case.folder)
    where = f"{scenario.name} with {changed}"
    if ending.code != scenario.code:
        return Verdict("other exit", f"{where}: {ending}")
    whole = case.workshop.reference(scenario)
    found = differences(case.folder / RUN, whole, exact=True)
    for path in sorted((whole / "episodes").glob("*.parquet")):
        mine = case.folder / RUN / "episodes" / path.name
        if not mine.exists() or mine.read_bytes() != path.read_bytes():
            found.append(f"{path.name} has other bytes")
    return Verdict(
        "same bytes" if not found else "other bytes",
        "; ".join([where, *found[:3]]) if found else None,
    )


PROCESSES = Attack(
    "processes",
    "`SIGKILL` of one or all processes of the command as people start it",
    one,
    lambda _: 64,
    prepare,
    in_short=False,
)
SURROUNDINGS = Attack(
    "surroundings",
    "other hash seeds, numbers of threads, time zones, locales: the same bytes",
    same,
    lambda _: len(SAME) * len(CHANGES),
    prepare_same,
    in_short=False,
)
