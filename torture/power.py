"""Power cuts: what no ``fsync`` has made certain may be gone afterwards, or as it was before."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

from torture.breaking import Breaker, die
from torture.cases import Attack, Case, Verdict
from torture.faults import BROKEN, CALLS, broken
from torture.faults import prepare as count_calls
from torture.forking import run
from torture.invariants import torn_files
from torture.kills import LIMIT, resumed
from torture.scenarios import RUN, SCENARIOS, Workshop

ATTACKED = ("family-hurried", "lake-hurried", "own-hurried", "bins-hurried", "fragile-hurried",
            "counts", "identify", "explore-paper")  # fmt: skip
SHORT = ("family-hurried", "own-hurried")
TURNS = 2
"""How often every call is the last one: once with all that was not synchronised gone, once with
some of it."""


class Disk(Breaker):
    """Remembers what of a folder would outlive a power cut, and cuts it at some call."""

    def __init__(self, below: Path, at: int, rng: random.Random, kept: float) -> None:
        super().__init__(below, "none", at)
        self.rng, self.kept = rng, kept  # the chance of what is not certain
        self.names: dict[str, dict[str, int]] = {}  # of every folder: its certain entries
        self.contents: dict[int, bytes] = {}  # of files: what is certain to be in them

    def reached(self, number: int) -> None:
        """Before every call."""
        if number == self.at:
            self._cut()

    def happened(self, name: str, path: str) -> None:
        """After every call."""
        if name == "fsync" and os.path.isdir(path):
            self.names[path] = _entries(path)
        elif name == "fsync":
            self.contents[os.stat(path).st_ino] = _content(path)
        elif name == "open" and os.path.isfile(path) and not os.path.getsize(path):
            self._forget(os.stat(path).st_ino)

    def _forget(self, inode: int) -> None:
        """A new file may have the number of one that is gone."""
        if not any(inode in entries.values() for entries in self.names.values()):
            self.contents.pop(inode, None)

    def _cut(self) -> None:
        """Leave what a disk may hold after this instant, and die."""
        now = _contents_below(self.below)
        left = dict(self._left_of(self.below, now))
        shutil.rmtree(self.below, ignore_errors=True)
        for path, content in left.items():
            if content is None:
                os.makedirs(path, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Path(path).write_bytes(content)
        die()

    def _left_of(self, folder: str, now: dict[int, bytes]) -> list[tuple[str, bytes | None]]:
        """Everything below a folder: each name and each content as it is, or as it was."""
        current = _entries(folder)
        entries = current if self.rng.random() < self.kept else self.names.get(folder, {})
        left: list[tuple[str, bytes | None]] = [(folder, None)]
        for name, inode in entries.items():
            path = os.path.join(folder, name)
            if os.path.isdir(path):
                left += self._left_of(path, now)
                continue
            certain = self.contents.get(inode, b"")
            is_kept = self.rng.random() < self.kept
            left.append((path, now.get(inode, certain) if is_kept else certain))
        return left


def _entries(folder: str) -> dict[str, int]:
    return {one.name: one.inode() for one in os.scandir(folder)}


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _contents_below(folder: str) -> dict[int, bytes]:
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {path.stat().st_ino: path.read_bytes() for path in files}


def chosen(workshop: Workshop) -> tuple[str, ...]:
    return SHORT if workshop.short else ATTACKED


def points(workshop: Workshop) -> list[tuple[str, int]]:
    """Every call of every command."""
    found: list[tuple[str, int]] = []
    for name in chosen(workshop):
        calls: list[Any] = json.loads((workshop.folder / BROKEN / name / CALLS).read_text())
        found += [(name, number) for number in range(len(calls))]
    return found[:: max(1, len(found) // 6)] if workshop.short else found


def one(case: Case) -> Verdict:
    """Cut the power before a call, and resume from what the disk still holds."""
    every = points(case.workshop)
    name, number = every[case.number // TURNS]
    scenario, kept = SCENARIOS[name], (0.0, 0.5)[case.number % TURNS]
    disk = Disk(case.folder / RUN, number, case.rng, kept)
    ending = run(
        broken(scenario.command, disk), case.folder, prepare=scenario.prepare,
        limit=LIMIT,
    )  # fmt: skip
    where = f"{name}, call {number}, {'some' if kept else 'nothing'} of what was not certain"
    if ending.code not in (-signal.SIGKILL, scenario.code):
        return Verdict("other exit", f"{where}: {ending}")
    torn = torn_files(case.folder / RUN)
    if torn:
        return Verdict("torn", f"{where}: {torn[0]}")
    verdict = resumed(case, scenario, kills=None)
    problem = None if verdict.problem is None else f"{where}: {verdict.problem}"
    return Verdict(verdict.outcome, problem, verdict.lost)


POWER = Attack(
    "power",
    "power cuts before every call that writes, simulated: what was not synchronised may be gone",
    one,
    lambda workshop: TURNS * len(points(workshop)),
    count_calls,
)
