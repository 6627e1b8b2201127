"""Storms of signals: one to three of SIGINT, SIGTERM and SIGHUP, at random instants."""

from __future__ import annotations

import signal

from torture.cases import Attack, Case, Verdict
from torture.forking import Strike, run
from torture.invariants import torn_files
from torture.kills import LIMIT, instant, prepare, resumed, scenario_of
from torture.scenarios import RUN

STORM = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


def one(case: Case) -> Verdict:
    """However it ends, its files belong together, and resumed it is the unbroken run."""
    scenario, rng = scenario_of(case), case.rng
    seconds = case.workshop.endings[scenario.name].seconds
    first = instant(rng, seconds)
    strikes = [Strike(first, rng.choice(STORM))]
    for _ in range(rng.randrange(3)):
        strikes.append(Strike(strikes[-1].after + rng.uniform(0.0, 0.05), rng.choice(STORM)))
    ending = run(
        scenario.command, case.folder, strikes=strikes, prepare=scenario.prepare, limit=LIMIT
    )
    names = " ".join(f"{one.what.name}@{one.after:.3f}" for one in strikes)
    where = f"{scenario.name}, {names}"
    unborn = ending.code in {-one.what for one in strikes} and not (case.folder / RUN).exists()
    if unborn:  # nobody had said yet what is to be done with signals
        return Verdict("struck before it began")
    if ending.late or ending.code not in (INTERRUPTED, scenario.code):
        return Verdict("other exit", f"{where}: {ending}")
    if "Traceback" in ending.err:
        return Verdict("traceback", f"{where}: {ending.err[-300:]}")
    torn = torn_files(case.folder / RUN)
    if torn:
        return Verdict("torn", f"{where}: {torn[0]}")
    verdict = resumed(case, scenario, 1)
    problem = None if verdict.problem is None else f"{where}: {verdict.problem}"
    return Verdict(f"exit {ending.code}", problem, verdict.lost, len(strikes))


SIGNALS = Attack(
    "signals",
    "one to three of `SIGINT`, `SIGTERM`, `SIGHUP` at random instants; resumed and compared",
    one,
    lambda workshop: 5 if workshop.short else 1000,
    prepare,
)
