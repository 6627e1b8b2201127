"""Kills, signals and power cuts at random instants; the run is read, resumed and compared."""

from __future__ import annotations

import random
import signal
import struct
from functools import partial
from pathlib import Path

from torture.cases import Attack, Case, Verdict
from torture.invariants import DATABASE, differences, interrupted_problems, read_run
from torture.processes import Ending, Strike, run
from torture.reading import reading_problem
from torture.scenarios import LIMIT, RESUME, RUN, Scenario, logged_episodes

STOPPED = 130
PAGE, LOG_HEADER, FRAME_HEADER = 4096, 32, 24
BACKFILLED = (96, 128)
"""Where the index of SQLite's log has the number of frames that were moved to the database, and of
those that may have been."""


def scenario_of(case: Case) -> Scenario:
    """The scenarios take turns."""
    every = case.workspace.scenarios
    return every[case.number % len(every)]


def instant(case: Case, scenario: Scenario, rng: random.Random) -> float:
    """Seconds after the start: mostly while it plays, sometimes in the first moments."""
    seconds = case.workspace.endings[scenario.name].seconds
    return rng.uniform(0.0, 0.03) if rng.random() < 0.1 else rng.uniform(0.0, 1.02 * seconds)


def next_command(case: Case, scenario: Scenario) -> list[str]:
    """``resume`` as soon as there is a run."""
    return RESUME if (case.folder / RUN / DATABASE).exists() else scenario.command


def judge_kill(case: Case, power: bool = False) -> Verdict:
    """Up to three kills, the later ones while the run is resumed."""
    scenario, rng = scenario_of(case), case.rng
    kills = 0
    for _ in range(1 if power else rng.choice((1, 1, 2, 3))):
        after = None if rng.random() < 0.2 else case.folder / RUN / DATABASE
        strike = Strike(instant(case, scenario, rng), signal.SIGKILL, after)
        ending = run(
            next_command(case, scenario),
            case.folder,
            strikes=[strike],
            prepare=scenario.prepare,
            limit=LIMIT,
        )
        if not ending.was_killed:
            if ending.code != scenario.code:
                return Verdict("other exit", f"{scenario.name}: {ending}")
            break
        kills += 1
        if power:
            lose_unsynced_log(rng, case.folder / RUN / DATABASE)
        problem = interrupted_problem(case, scenario)
        if problem is not None:
            return Verdict("damaged", f"{scenario.name}, kill {kills}: {problem}")
    return resumed(case, scenario, kills, may_lose_any=power)


def lose_unsynced_log(rng: random.Random, path: Path) -> None:
    """Cut or overwrite the end of SQLite's log, as a power cut may.

    What was moved from the log to the database was synchronised before. The rest may be lost.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if not log.exists() or not index.exists():
        return
    content, about = bytearray(log.read_bytes()), index.read_bytes()
    moved = max(struct.unpack_from("I", about, place)[0] for place in BACKFILLED) if about else 0
    certain = LOG_HEADER + moved * (FRAME_HEADER + PAGE)
    if certain < len(content):
        place = rng.randrange(certain, len(content))
        how = rng.randrange(3)
        tail = b"" if how == 0 else bytes(len(content) - place)
        content[place:] = tail if how < 2 else rng.randbytes(len(content) - place)
        log.write_bytes(content)
    index.unlink()


def interrupted_problem(case: Case, scenario: Scenario) -> str | None:
    """Judge what was left, and read it with every command."""
    found = interrupted_problems(case.folder / RUN)
    if found:
        return found[0]
    whole = case.workspace.reference(scenario) if scenario.exact else None
    return reading_problem(case.folder, whole, scenario.prepare)


def resumed(case: Case, scenario: Scenario, kills: int, *, may_lose_any: bool = False) -> Verdict:
    """Play an interrupted run to its end, and compare it with the unbroken one.

    Each of the ``kills`` may have cost an episode.
    """
    outcome, lost = "not started", 0
    if (case.folder / RUN / DATABASE).exists():
        outcome = "resumed" if kills else "over before"
        if scenario.logged:
            lost = logged_episodes(case.folder) - read_run(case.folder / RUN).episodes
    ending = run(next_command(case, scenario), case.folder, prepare=scenario.prepare, limit=LIMIT)
    problem = end_problem(case, scenario, ending)
    if problem is None and not 0 <= lost <= kills and not may_lose_any:
        problem = f"{lost} episodes lost by {kills} kills"
    problem = None if problem is None else f"{scenario.name}: {problem}"
    return Verdict(outcome, problem, lost, kills)


def end_problem(case: Case, scenario: Scenario, ending: Ending) -> str | None:
    """Compare a run that was played to its end with the unbroken one."""
    if ending.code != scenario.code or ending.timed_out:
        return f"resumed: {ending}"
    whole = case.workspace.reference(scenario)
    exact, same_bytes = scenario.exact, scenario.exact and scenario.simulated
    found = differences(case.folder / RUN, whole, exact=exact, same_bytes=same_bytes)
    return "; ".join(found[:3]) or None


def judge_signals(case: Case) -> Verdict:
    """One to three signals: the run is saved and exits with 130, or was over."""
    scenario, rng = scenario_of(case), case.rng
    delay, strikes = instant(case, scenario, rng), []
    for _ in range(rng.randrange(1, 4)):
        strikes.append(Strike(delay, rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))))
        delay += rng.uniform(0.0, 0.05)
    ending = run(
        scenario.command, case.folder, strikes=strikes, prepare=scenario.prepare, limit=LIMIT
    )
    names = " ".join(f"{one.number.name}@{one.delay:.3f}" for one in strikes)
    where = f"{scenario.name}, {names}"
    if ending.code in {-one.number for one in strikes} and not (case.folder / RUN).exists():
        return Verdict("not started")  # before the handlers of signals were set
    if ending.timed_out or ending.code not in (STOPPED, scenario.code) or "Trace" in ending.err:
        return Verdict("other exit", f"{where}: {ending}")
    problem = interrupted_problem(case, scenario)
    verdict = resumed(case, scenario, 1)
    problem = problem or verdict.problem
    said = None if problem is None else f"{where}: {problem}"
    return Verdict(f"exit {ending.code}", said, verdict.lost, len(strikes))


KILLS = Attack(
    "kills",
    "`SIGKILL` at random instants, up to three in a row; read by every command, resumed, compared",
    judge_kill,
    lambda workspace: 6 if workspace.short else 800,
    lambda workspace: workspace.play_all(),
)
POWER = Attack(
    "power",
    "power cuts at random instants: the part of SQLite's log that was not synchronised is lost",
    partial(judge_kill, power=True),
    lambda workspace: 4 if workspace.short else 200,
    lambda workspace: workspace.play_all(),
)
SIGNALS = Attack(
    "signals",
    "one to three of `SIGINT`, `SIGTERM`, `SIGHUP` at random instants; read, resumed, compared",
    judge_signals,
    lambda workspace: 5 if workspace.short else 250,
    lambda workspace: workspace.play_all(),
)
