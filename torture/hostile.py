"""Environments that misbehave, and what must become of the run, as one table."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from urllib.parse import quote

from torture.cases import Attack, Case, Verdict
from torture.hostile_environments import ERRORS
from torture.invariants import DATABASE, interrupted_problems, problems, read_run
from torture.processes import Ending, run
from torture.reading import complaint, reading_problem
from torture.scenarios import RUN, logged_episodes

DONE, REFUSED, SPENT, FAILED, INTERRUPTED = 0, 2, 3, 4, 130
LIMIT = 40.0
MODULE = "py:torture.hostile_environments"
UNKNOWN = 10_000
"""Episodes that fail have no end in the log: no comparison."""


@dataclass(frozen=True)
class Expected:
    """A run on a hostile environment, and its allowed exit codes."""

    how: str
    codes: tuple[int, ...]
    where: str = "step"
    options: tuple[str, ...] = ()
    lost: int = 1  # episodes in the log that the run may lack
    is_blamed: bool = False  # the answer has the state, the action and the error
    kills: bool = False  # the environment ends the process
    peaceful: int = 25

    @property
    def words(self) -> list[str]:
        """A command that would take a few hundred episodes."""
        env = f"{MODULE}:Hostile?how={quote(self.how)}&where={self.where}&peaceful={self.peaceful}"
        env = f"{MODULE}:NeverEnds" if self.how == "never ends" else env
        words = ["cover", env, "--target", "uniform:12/pair"]
        if "--epsilon" in self.options:
            words = ["explore", env, "--most-states", "30", "--max-episodes", "120"]
        return [*words, "--out", RUN, "--json", "--quiet", *self.options]

    def __str__(self) -> str:
        when = "" if self.peaceful else " at once"
        return f"{self.how} in {self.where}{when} {' '.join(self.options)}".rstrip()


RAISING = (*ERRORS, "recurses", "sys.exit", "exhausts memory")
DEATHS = {
    "os._exit": 0,
    "segfault": -signal.SIGSEGV,
    "aborts": -signal.SIGABRT,
    "SIGKILL": -signal.SIGKILL,
}
"""Exit codes of a process that plays such an environment itself."""

STUCK = ("hangs", "spins")
INVALID = (
    *("reward NaN", "reward inf", "reward None", "reward text", "reward list"),
    *("observation object", "observation unprintable", "one value", "no values", "None"),
    "seven values",
)
ODD = (
    *("observation None", "observation NaN", "observation list", "observation dict"),
    *("observation odd text", "observation long", "reward huge"),
)
HARMLESS = (
    *("nothing", "prints", "changes folder", "starts a thread", "forks", "leaks"),
    *("ignores signals", "never ends"),
)
TIMEOUT = ("--step-timeout", "1")
RULES = tuple(("--on-failure", rule) for rule in ("record", "avoid"))


def table() -> list[Expected]:
    """Every environment, and what is expected of it."""
    found = [Expected(how, (FAILED,), is_blamed=True) for how in (*RAISING, *INVALID)]
    found += [Expected(how, (code,), kills=True) for how, code in DEATHS.items()]
    isolated = [Expected(how, (DONE,), options=("--isolate",), is_blamed=True) for how in DEATHS]
    found += isolated
    found += [  # a new process behaves for a while, which is enough
        Expected(how, (DONE,), where, TIMEOUT, lost=99, is_blamed=where == "step")
        for how in (*DEATHS, *STUCK)
        for where in ("step", "reset")
    ]
    found += [
        Expected(how, (FAILED,), options=TIMEOUT, is_blamed=True, peaceful=0)
        for how in (*DEATHS, *STUCK, "raises", "recurses")
    ]
    found += [Expected("hangs", (FAILED,), "reset", TIMEOUT, peaceful=0)]
    found += [
        Expected(how, (DONE, SPENT), options=(*rule, "--max-episodes", "300"), lost=UNKNOWN)
        for how in (*RAISING, *INVALID)
        for rule in RULES
    ]
    found += [
        Expected(how, (DONE,), options=(*RULES[1], *TIMEOUT), lost=UNKNOWN, is_blamed=True)
        for how in ("segfault", "hangs")
    ]
    resets = (*RAISING, "None", "observation unprintable")
    found += [Expected(how, (FAILED,), "reset") for how in resets]
    found += [Expected(how, (FAILED, REFUSED), "constructor") for how in RAISING]
    found += [Expected(how, (DONE, FAILED)) for how in ODD]
    found += [Expected(how, (DONE, FAILED), lost=99) for how in ("done None", "done text")]
    found += [Expected(how, (DONE,)) for how in HARMLESS]
    found += [
        Expected(how, (FAILED,), options=("--epsilon", "3"))
        for how in ("raises", "reward NaN", "sys.exit")
    ]
    found += [Expected("raises KeyboardInterrupt", (INTERRUPTED, FAILED))]
    return found + [Expected(how, (INTERRUPTED,)) for how in ("SIGINT", "SIGTERM")]


def judge(case: Case) -> Verdict:
    """Play, compare with the table, and read the run."""
    every = table()
    expected = every[case.number * (19 if case.workspace.short else 1) % len(every)]
    ending = run(expected.words, case.folder, limit=LIMIT)
    problem, lost = _mismatch(case, expected, ending), 0
    if problem is None and (case.folder / RUN / DATABASE).exists():
        lost = max(0, logged_episodes(case.folder) - read_run(case.folder / RUN).episodes)
        problem = reading_problem(case.folder, None)
        if lost > expected.lost:
            problem = f"{lost} episodes are lost"
    said = None if problem is None else f"{expected}: {problem}"
    return Verdict(f"exit {ending.code}", said, 0 if expected.lost == UNKNOWN else lost)


def _mismatch(case: Case, expected: Expected, ending: Ending) -> str | None:
    if ending.timed_out or ending.code not in expected.codes:
        return f"{ending}, expected {expected.codes}"
    if expected.kills:
        return next(iter(interrupted_problems(case.folder / RUN)), None)
    problem = complaint(expected.words, ending)
    if problem is not None or ending.code == REFUSED:
        return problem
    found = problems(case.folder / RUN)
    if expected.is_blamed and not found:
        failures = json.loads(ending.out).get("failures") or [{}]
        names = ("action", "episode", "error", "state")
        missing = [name for name in names if failures[0].get(name) is None]
        found = [f"the answer has no {', '.join(missing)} of the failure"] if missing else []
    return found[0] if found else None


HOSTILE = Attack(
    "hostile",
    "environments that raise, die, hang, print, leak, fork, ignore signals, return nonsense",
    judge,
    lambda workspace: 8 if workspace.short else len(table()),
)
