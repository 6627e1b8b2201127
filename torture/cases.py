"""An attack is a number of cases, each in a process of its own and repeatable by its number."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torture.scenarios import Workspace

VERDICT = ".verdict.json"


@dataclass(frozen=True)
class Case:
    """One attack on one run."""

    attack: str
    number: int
    seed: int
    folder: Path
    workspace: Workspace

    @property
    def rng(self) -> random.Random:
        return random.Random(f"{self.seed}/{self.attack}/{self.number}")

    @property
    def repeat(self) -> str:
        """The command that repeats the case."""
        return (
            f"python3 dev.py torture --only {self.attack} --seed {self.seed} --case {self.number}"
        )


@dataclass
class Verdict:
    """The result of a case."""

    outcome: str  # a few words, counted in the table
    problem: str | None = None
    lost: int = 0  # episodes that the environment finished and the run lacks
    strikes: int = 1  # how many kills, signals or faults it took


@dataclass(frozen=True)
class Attack:
    """A kind of attack."""

    name: str
    about: str
    judge: Callable[[Case], Verdict]
    size: Callable[[Workspace], int]  # number of cases
    prepare: Callable[[Workspace], None] = lambda _: None


@dataclass
class Tally:
    """The row of an attack in the table."""

    attack: str
    about: str
    tried: int = 0
    survived: int = 0
    strikes: int = 0
    lost_most: int = 0
    lost_in_all: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, case: Case, verdict: Verdict) -> None:
        self.tried += 1
        self.survived += verdict.problem is None
        self.strikes += verdict.strikes
        self.lost_most = max(self.lost_most, verdict.lost)
        self.lost_in_all += verdict.lost
        self.outcomes[verdict.outcome] += 1
        if verdict.problem is not None:
            self.failures.append({"problem": verdict.problem, "repeat": case.repeat})

    def to_dict(self) -> dict[str, Any]:
        """The content of results.json, without the time, which depends on the machine."""
        content = asdict(self)
        content.pop("seconds")
        content["outcomes"] = dict(sorted(self.outcomes.items()))
        return content


def carry_out(
    attack: Attack, workspace: Workspace, seed: int, numbers: list[int], jobs: int
) -> Tally:
    """Judge the cases, ``jobs`` at a time. Print failures at once, and keep their folders."""
    tally, began = Tally(attack.name, attack.about), time.monotonic()
    place = workspace.folder / attack.name
    cases = (
        Case(attack.name, number, seed, place / f"{number:05d}", workspace) for number in numbers
    )
    for case, verdict in _verdicts(attack, cases, jobs):
        tally.add(case, verdict)
        if verdict.problem is None:
            shutil.rmtree(case.folder, ignore_errors=True)
        else:
            print(f"  {attack.name} {case.number}: {verdict.problem}\n    in {case.folder}")
            print(f"    {case.repeat}", flush=True)
    tally.seconds = time.monotonic() - began
    return tally


def _verdicts(attack: Attack, cases: Iterator[Case], jobs: int) -> Iterator[tuple[Case, Verdict]]:
    """Each case with its verdict, in the order in which they end."""
    running: dict[int, tuple[int, Case]] = {}  # handle -> process, case
    while True:
        while len(running) < jobs and (case := next(cases, None)) is not None:
            pid = _fork(attack, case)
            running[os.pidfd_open(pid)] = pid, case
        if not running:
            return
        ready, _, _ = select.select(list(running), [], [])
        for handle in ready:
            pid, case = running.pop(handle)
            os.waitpid(pid, 0)
            os.close(handle)
            try:
                yield case, Verdict(**json.loads((case.folder / VERDICT).read_text()))
            except (OSError, ValueError):
                yield case, Verdict("suite", "the process of the case has died")


def _fork(attack: Attack, case: Case) -> int:
    shutil.rmtree(case.folder, ignore_errors=True)
    case.folder.mkdir(parents=True)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        verdict = attack.judge(case)
    except BaseException as error:  # a defect of the suite
        place = traceback.extract_tb(error.__traceback__)[-1]
        verdict = Verdict("suite", f"{error!r} in {Path(place.filename).name}:{place.lineno}")
    with suppress(BaseException):
        (case.folder / VERDICT).write_text(json.dumps(asdict(verdict)))
    os._exit(0)
