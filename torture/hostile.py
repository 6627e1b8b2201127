"""Environments that misbehave: what is promised of each of them, as one table."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from torture.cases import Attack, Case, Verdict
from torture.forking import Ending, run
from torture.fuzz import complaint
from torture.invariants import episodes_in, problems, torn_files
from torture.kills import OPENED, open_run
from torture.scenarios import RUN, logged

FAILED, INTERRUPTED, REFUSED, DONE, SPENT = 4, 130, 2, 0, 3
LIMIT = 30.0
MAKE = "py:torture.hostile_worlds:make"


@dataclass(frozen=True)
class Expected:
    """What must come of an environment that misbehaves in this way."""

    how: str
    codes: tuple[int, ...]
    where: str = "step"
    lost: int = 1  # episodes that were over and are not kept, at most
    options: tuple[str, ...] = ()
    verb: str = "cover"
    blamed: bool = False  # the answer names the state, the action and the error
    ends: bool = False  # it ends the process; counts follow when the run is opened
    at_once: bool = False  # it never behaves, in no process

    @property
    def words(self) -> list[str]:
        """A command that would take a few hundred episodes."""
        env = f"{MAKE}?how={quote(self.how)}&where={self.where}"
        env += "&peaceful=0" if self.at_once else ""
        asked = {
            "cover": ["--target", "uniform:12/pair"],
            "explore": ["--epsilon", "3", "--most-states", "30", "--max-episodes", "120"],
        }[self.verb]
        return [self.verb, env, *asked, "--out", RUN, "--json", "--quiet", *self.options]

    def __str__(self) -> str:
        when = " at once" if self.at_once else ""
        return f"{self.verb}, {self.how} in {self.where}{when} {' '.join(self.options)}".rstrip()


RAISING = (
    "raises", "raises without a word", "raises on two lines", "raises at length",
    "raises SystemExit",
    "raises StopIteration", "raises GeneratorExit", "raises MemoryError", "raises OSError",
    "raises BrokenPipeError",
    "raises BaseException", "recurses", "sys.exit", "exhausts memory",
)  # fmt: skip
DEATHS = {
    "os._exit": 0,
    "segfault": -signal.SIGSEGV,
    "aborts": -signal.SIGABRT,
    "SIGKILL": -signal.SIGKILL,
}
"""How the process ends that such an environment plays in."""

DYING = tuple(DEATHS)
DYING_OR_STUCK = (*DYING, "hangs", "spins")
SET_ASIDE = 10_000
"""They break in the middle of episodes that never end for them: nothing to compare with."""

LYING = (
    "reward NaN", "reward inf", "reward None", "reward text", "reward list", "observation object",
    "observation rude", "one value", "no values", "None", "seven values",
)  # fmt: skip
ODD = (
    "observation None", "observation NaN", "observation list", "observation dict",
    "observation odd text",
    "observation long", "reward huge",
)  # fmt: skip
ENDLESS = ("done None", "done text")
"""What they take for an end, nobody else does."""

HARMLESS = (
    "nothing", "prints", "changes folder", "starts a thread", "forks", "leaks", "ignores signals",
    "never ends",
)  # fmt: skip


WATCHED = ("--step-timeout", "1")
ISOLATED = ("--isolate",)
RECORDED = ("--on-failure", "record")
AVOIDED = ("--on-failure", "avoid")


def table() -> list[Expected]:
    """Every environment, and what is promised of it."""
    found = [Expected(how, (FAILED,), blamed=True) for how in (*RAISING, *LYING)]
    found += [Expected(how, (code,), ends=True) for how, code in DEATHS.items()]
    found += [Expected(how, (DONE,), options=ISOLATED, blamed=True) for how in DYING]
    found += [  # another process behaves for a while, which is enough
        Expected(how, (DONE,), options=WATCHED, blamed=True) for how in DYING_OR_STUCK
    ]
    found += [
        Expected(how, (FAILED,), options=WATCHED, blamed=True, at_once=True)
        for how in (*DYING_OR_STUCK, "raises", "recurses")
    ]
    found += [Expected("hangs", (FAILED,), "reset", options=WATCHED, at_once=True)]
    found += [
        Expected(how, (DONE,), lost=SET_ASIDE, options=options, blamed=True)
        for how in ("raises", "sys.exit", "reward NaN")
        for options in (RECORDED, AVOIDED)
    ]
    found += [
        Expected(how, (DONE,), lost=SET_ASIDE, options=(*AVOIDED, *WATCHED), blamed=True)
        for how in ("segfault", "hangs")
    ]
    found += [Expected(how, (FAILED,), "reset") for how in (*RAISING, "None", "observation rude")]
    found += [Expected(how, (FAILED, REFUSED), "constructor") for how in RAISING]
    found += [Expected(how, (DONE, FAILED)) for how in ODD]
    found += [Expected(how, (DONE, FAILED), lost=99) for how in ENDLESS]
    found += [Expected(how, (DONE,)) for how in HARMLESS]
    found += [
        Expected(how, (FAILED,), verb="explore") for how in ("raises", "reward NaN", "sys.exit")
    ]
    found += _watched()
    found += [Expected("raises KeyboardInterrupt", (INTERRUPTED, FAILED))]
    found += [Expected(how, (INTERRUPTED,)) for how in ("SIGINT", "SIGTERM")]
    return found


def _watched() -> list[Expected]:
    """In a process of its own, and with every rule for failures."""
    found = [
        Expected(how, (DONE,), where, lost=99, options=("--step-timeout", "1"))
        for how in (*DYING, "hangs", "spins")
        for where in ("step", "reset")
    ]
    found += [
        Expected(how, (FAILED,), options=("--step-timeout", "5")) for how in ("raises", "sys.exit")
    ]
    found += [
        Expected(how, (DONE, SPENT), options=("--on-failure", rule, "--max-episodes", "300"))
        for how in (*RAISING, *LYING)
        for rule in ("record", "avoid")
    ]
    return found


def one(case: Case) -> Verdict:
    """Play, and compare with the table."""
    every = table()
    expected = every[case.number * (7 if case.workshop.short else 1) % len(every)]
    ending = run(expected.words, case.folder, limit=LIMIT)
    problem = _mismatch(case, expected, ending)
    lost = _lost(case) if problem is None and (case.folder / RUN / "run.json").exists() else 0
    if problem is None and lost > expected.lost:
        problem = f"{lost} episodes are lost"
    said = None if problem is None else f"{expected}: {problem}"
    return Verdict("no end" if ending.late else f"exit {ending.code}", said, max(0, lost))


def _mismatch(case: Case, expected: Expected, ending: Ending) -> str | None:
    if ending.late or ending.code not in expected.codes:
        return f"{ending}, expected {expected.codes}"
    if expected.ends:
        return next(iter(torn_files(case.folder / RUN)), None)
    problem = complaint(expected.words, ending)
    if problem is not None or ending.code == REFUSED:
        return problem
    if found := problems(case.folder / RUN):
        return found[0]
    answer = json.loads(ending.out)
    held = episodes_in(case.folder / RUN)
    if answer["episodes"] != held:
        return f"it says {answer['episodes']} episodes, and there are {held}"
    return _not_blamed(answer) if expected.blamed else None


def _not_blamed(answer: dict[str, Any]) -> str | None:
    """A failure is shown with where it was."""
    wanted = {"state", "action", "error", "episode"}
    if not answer.get("failures"):
        return "the answer lists no failures"
    first = answer["failures"][0]
    missing = [name for name in sorted(wanted) if first.get(name) is None]
    return f"a failure without {', '.join(missing)}" if missing else None


def _lost(case: Case) -> int:
    """Episodes that the environment has shown and that the run does not hold."""
    over = logged(case.folder)
    opened = run(open_run, case.folder, limit=LIMIT)
    if opened.code:
        raise RuntimeError(f"cannot be opened: {opened}")
    return over - int((case.folder / OPENED).read_text())


HOSTILE = Attack(
    "hostile",
    "environments that raise, die, hang, print, leak, lie, fork, close files, ignore signals",
    one,
    lambda workshop: 8 if workshop.short else len(table()),
)
