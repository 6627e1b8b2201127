"""An attack is many cases, each in a process of its own, each repeatable by its number."""

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

from torture.scenarios import Workshop

VERDICT = ".verdict.json"


@dataclass(frozen=True)
class Case:
    """One attack on one run."""

    attack: str
    number: int
    seed: int
    folder: Path
    workshop: Workshop

    @property
    def rng(self) -> random.Random:
        """Randomness that depends on nothing else."""
        return random.Random(f"{self.seed}/{self.attack}/{self.number}")

    @property
    def repeat(self) -> str:
        """The command that does it once more."""
        return (
            f"python3 dev.py torture --only {self.attack} --seed {self.seed} --case {self.number}"
        )


@dataclass
class Verdict:
    """What came of a case."""

    outcome: str  # in a few words, to be counted
    problem: str | None = None
    lost: int = 0  # episodes that were over and are not in the run
    struck: int = 1  # how many times something was done to it


@dataclass(frozen=True)
class Attack:
    """Its name, what the table says of it, and who carries it out."""

    name: str
    about: str
    one: Callable[[Case], Verdict]
    size: Callable[[Workshop], int]  # how many cases there are
    prepare: Callable[[Workshop], None] = lambda _: None
    in_short: bool = True  # whether the short version has it
    jobs: int | None = None  # where cases must not disturb each other


@dataclass
class Tally:
    """What the table says of an attack."""

    attack: str
    about: str
    tried: int = 0
    survived: int = 0
    struck: int = 0
    lost_most: int = 0
    lost_in_all: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, case: Case, verdict: Verdict) -> None:
        self.tried += 1
        self.survived += verdict.problem is None
        self.struck += verdict.struck
        self.lost_most = max(self.lost_most, verdict.lost)
        self.lost_in_all += verdict.lost
        self.outcomes[verdict.outcome] += 1
        if verdict.problem is not None:
            self.failures.append(
                {
                    "problem": verdict.problem,
                    "repeat": case.repeat,
                    "case": case.number,
                    "outcome": verdict.outcome,
                }
            )

    def correct(self, before: dict[str, Any]) -> None:
        """Take what failed before, and was repeated, out of an older tally, and add the rest."""
        repeated = before["failures"]
        for failed in repeated:
            before["outcomes"][failed["outcome"]] -= 1
        self.outcomes = +(Counter(before["outcomes"]) + self.outcomes)
        self.tried += before["tried"] - len(repeated)
        self.survived += before["survived"]
        self.struck += before["struck"] - len(repeated)
        self.lost_most = max(self.lost_most, before["lost_most"])
        self.lost_in_all += before["lost_in_all"]

    def to_dict(self) -> dict[str, Any]:
        """As results.json has it; how long it took is nobody's promise."""
        content = asdict(self)
        content.pop("seconds")
        content["outcomes"] = dict(sorted(self.outcomes.items()))
        return content


def carry_out(
    attack: Attack, workshop: Workshop, seed: int, numbers: list[int], jobs: int
) -> Tally:
    """All cases, some at a time; what went wrong is said at once and its folder kept."""
    tally, began = Tally(attack.name, attack.about), time.monotonic()
    place = workshop.folder / attack.name
    cases = (
        Case(attack.name, number, seed, place / f"{number:05d}", workshop) for number in numbers
    )
    for case, verdict in _judged(attack, cases, attack.jobs or jobs):
        tally.add(case, verdict)
        if verdict.problem is None:
            shutil.rmtree(case.folder, ignore_errors=True)
        else:
            print(f"  {attack.name} {case.number}: {verdict.problem}\n    in {case.folder}")
            print(f"    {case.repeat}", flush=True)
    tally.seconds = time.monotonic() - began
    return tally


def _judged(attack: Attack, cases: Iterator[Case], jobs: int) -> Iterator[tuple[Case, Verdict]]:
    """Each case with its verdict, as they end."""
    going: dict[int, tuple[int, Case]] = {}  # handle -> process, case
    while True:
        while len(going) < jobs and (case := next(cases, None)) is not None:
            pid = _forked(attack, case)
            going[os.pidfd_open(pid)] = pid, case
        if not going:
            return
        ready, _, _ = select.select(list(going), [], [])
        for handle in ready:
            pid, case = going.pop(handle)
            os.waitpid(pid, 0)
            os.close(handle)
            yield case, _verdict(case.folder)


def _forked(attack: Attack, case: Case) -> int:
    shutil.rmtree(case.folder, ignore_errors=True)
    case.folder.mkdir(parents=True)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        verdict = attack.one(case)
    except BaseException as error:  # the suite itself is at fault
        place = traceback.extract_tb(error.__traceback__)[-1]
        verdict = Verdict("suite", f"{error!r} in {Path(place.filename).name}:{place.lineno}")
    with suppress(BaseException):
        (case.folder / VERDICT).write_text(json.dumps(asdict(verdict)))
    os._exit(0)


def _verdict(folder: Path) -> Verdict:
    try:
        return Verdict(**json.loads((folder / VERDICT).read_text()))
    except (OSError, ValueError):
        return Verdict("suite", "the case itself has died")
