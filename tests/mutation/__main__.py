"""Change the sources in small ways and see whether a test notices: ``python3 dev.py mutate``.

Each mutant is tried in a process of its own, forked from one that has imported all but covgame,
with kernels in plain Python. It runs the few test files that cover its module, up to the first
failure. Who takes too long, or too much memory, counts as noticed.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"
os.environ["COVGAME_MUTATION"] = "1"

import hypothesis  # noqa: F401
import numba  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
import pytest
import scipy.optimize
import scipy.special
import scipy.stats  # noqa: F401

from tests.mutation import plain, table
from tests.mutation.changes import Change, changes

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "covgame"
KILLED, SURVIVED, BROKEN = 1, 0, 9
MEMORY = 6 * 2**30
PATIENCE = 5
"""Who takes so many times longer than the tests take without a change, runs for ever."""

SECONDS: dict[tuple[str, ...], float] = {}
"""How long they take then, by the names of their files."""


@dataclass(frozen=True)
class Mutant:
    """A module with a change in it."""

    path: Path
    change: Change

    @property
    def place(self) -> str:
        return self.path.relative_to(SOURCE).as_posix()

    @property
    def argument(self) -> str | None:
        """Why no test needs to notice it."""
        return table.argued(self.place, self.change)

    def __str__(self) -> str:
        change = self.change
        where = f"{self.place}:{change.line} {change.function}".rstrip()
        return f"{where}: `{change.old}` -> `{change.new}`"


# ------------------------------------------------------------------------------ choosing


def modules() -> list[Path]:
    found = {path for place in table.PLACES for path in SOURCE.glob(place)}
    return sorted(found - {SOURCE / place for place in table.EXCEPT})


def all_mutants(only: str = "") -> list[Mutant]:
    """Every change of every module whose path contains ``only``."""
    found = [path for path in modules() if only in path.relative_to(SOURCE).as_posix()]
    return [Mutant(path, change) for path in found for change in changes(path.read_text())]


def sample(mutants: list[Mutant], number: int, seed: int) -> list[Mutant]:
    """So many of them, spread over the groups of the table as evenly as they allow."""
    groups: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault(table.group(mutant.place), []).append(mutant)
    rng = random.Random(seed)
    waiting = [rng.sample(group, len(group)) for group in groups.values()]
    chosen: list[Mutant] = []
    while len(chosen) < number and any(waiting):
        chosen += [group.pop() for group in waiting if group]
    return sorted(chosen[:number], key=lambda mutant: (mutant.place, mutant.change.line))


def quick() -> list[Mutant]:
    """The listed ones: each old text stands once in the files it names."""
    found = []
    for place, old, new in table.QUICK:
        at = [path for path in SOURCE.glob(place) if old in path.read_text()]
        if len(at) != 1 or (text := at[0].read_text()).count(old) != 1:
            raise SystemExit(f"{old!r} should stand once in {place}; renew the list of QUICK")
        line = text[: text.index(old)].count("\n") + 1
        found.append(Mutant(at[0], Change(line, "", old, new, text.replace(old, new))))
    return found


# ------------------------------------------------------------------------------- trying


class Watcher:
    """Leaves out what takes long in plain Python, and notes the first test that fails."""

    def __init__(self, note: Path) -> None:
        self.note = note

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.originalname not in table.TOO_LONG]

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.note.write_text(report.nodeid)


def start(mutant: Mutant, note: Path) -> int:
    """Fork, and run the tests of the mutant's module there; returns the process id."""
    child = os.fork()
    if child:
        return child
    code = BROKEN
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        signal.alarm(10 + int(PATIENCE * SECONDS.get(table.tests(mutant.place), 60)))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        plain.install(mutant.path, mutant.change.text)
        tests = [f"tests/{name}" for name in table.tests(mutant.place)]
        options = ["-x", "-q", "-m", "not slow and not browser", "-p", "no:cacheprovider"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # imported beforehand
        ended = pytest.main([*options, "--tb=short", *tests], plugins=[Watcher(note)])
        code = {0: SURVIVED, 1: KILLED, 2: KILLED}.get(int(ended), BROKEN)
    finally:
        os._exit(code)


def tried(mutants: Iterable[Mutant], processes: int) -> Iterator[tuple[Mutant, bool, str, float]]:
    """(mutant, whether it was noticed, by which test, seconds) in the order in which they end."""
    with tempfile.TemporaryDirectory() as folder:
        waiting = iter(mutants)
        running: dict[int, tuple[Mutant, Path, float]] = {}
        while True:
            while len(running) < processes and (mutant := next(waiting, None)) is not None:
                note = Path(folder) / str(time.monotonic_ns())
                running[start(mutant, note)] = mutant, note, time.perf_counter()
            if not running:
                return
            ended, status = os.wait()
            mutant, note, began = running.pop(ended)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == BROKEN:
                raise SystemExit(f"the tests of {mutant} could not be run")
            survived = os.WIFEXITED(status) and os.WEXITSTATUS(status) == SURVIVED
            by = note.read_text() if note.exists() else "time, memory or import"
            yield mutant, not survived, "" if survived else by, time.perf_counter() - began


def check_unchanged(mutants: list[Mutant], processes: int) -> None:
    """Without a change all tests pass, or nothing that follows means anything."""
    first = {table.tests(mutant.place): mutant for mutant in mutants}
    same = [Mutant(m.path, Change(0, "", "", "", m.path.read_text())) for m in first.values()]
    for mutant, failed, by, seconds in tried(same, processes):
        tests = table.tests(mutant.place)
        SECONDS[tests] = seconds
        print(f"unchanged: {seconds:5.1f} s  {' '.join(tests)}", flush=True)
        if failed:
            raise SystemExit(f"fails without any change, in plain Python: {by}")


# ------------------------------------------------------------------------------- telling


def tabulated(results: list[tuple[Mutant, bool, str]]) -> str:
    """Killed and survived per module, as a Markdown table."""
    made, noticed, argued = Counter[str](), Counter[str](), Counter[str]()
    for mutant, killed, _ in results:
        made[mutant.place] += 1
        noticed[mutant.place] += killed
        argued[mutant.place] += not killed and mutant.argument is not None
    lines = ["| module | mutants | killed | survived, argued | survived |", "|---|---|---|---|---|"]
    for place, number in [*sorted(made.items()), ("all", made.total())]:
        good = noticed.total() if place == "all" else noticed[place]
        fine = argued.total() if place == "all" else argued[place]
        lines.append(f"| {place} | {number} | {good} | {fine} | {number - good - fine} |")
    return "\n".join(lines)


def survivors(results: list[tuple[Mutant, bool, str]]) -> str:
    """The survivors with their arguments, as a Markdown table."""
    left = sorted((m for m, killed, _ in results if not killed), key=lambda m: (m.place, str(m)))
    lines = ["| mutant | why no test notices |", "|---|---|"]
    for mutant in left:
        said = str(mutant).replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {said} | {mutant.argument or '**not argued**'} |")
    return "\n".join(lines) if left else "None."


def write(page: Path, results: list[tuple[Mutant, bool, str]], asked: str) -> None:
    """Put the two tables between the markers of a page."""
    text = page.read_text()
    before, rest = text.split("<!-- mutants -->\n")
    _, after = rest.split("<!-- end -->\n")
    tables = f"`python3 dev.py mutate {asked}`:\n\n{tabulated(results)}\n\n{survivors(results)}\n"
    page.write_text(f"{before}<!-- mutants -->\n{tables}<!-- end -->\n{after}")


def main(arguments: list[str]) -> int:
    """0 if every survivor is argued for."""
    parser = argparse.ArgumentParser(prog="dev.py mutate", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fixed list, half a minute")
    parser.add_argument("--number", type=int, default=300, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--only", default="", help="modules whose path contains this")
    parser.add_argument("--write", type=Path, help="a page for the tables")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args(arguments)
    chosen = quick() if asked.quick else sample(all_mutants(asked.only), asked.number, asked.seed)
    check_unchanged(chosen, asked.processes)
    began, results = time.perf_counter(), []
    for mutant, killed, by, _ in tried(chosen, asked.processes):
        results.append((mutant, killed, by))
        verdict = f"killed by {by}" if killed else mutant.argument or "SURVIVED"
        print(f"{len(results):4d}/{len(chosen)} {mutant}  {verdict}", flush=True)
    print(f"\n{tabulated(results)}\n\n{survivors(results)}\n")
    print(f"{len(results)} mutants in {time.perf_counter() - began:.0f} s")
    if asked.write is not None:
        write(asked.write, results, f"--number {asked.number} --seed {asked.seed}")
    return int(any(not killed and mutant.argument is None for mutant, killed, _ in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
