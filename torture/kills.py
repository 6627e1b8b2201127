"""Kills at random instants: the run is resumed, is killed again, and ends like the unbroken one."""

from __future__ import annotations

import random
import signal
from pathlib import Path

from torture.cases import Attack, Case, Verdict
from torture.forking import Ending, Strike, run
from torture.invariants import differences, torn_files
from torture.scenarios import RESUME, RUN, SCENARIOS, Scenario, Workshop, logged

LIMIT = 120.0
OPENED = "opened"
"""A file for what ``open_run`` has found."""
SHORT = ("family-hurried", "counts", "own-hurried", "own-kept", "identify")


def chosen(workshop: Workshop) -> list[Scenario]:
    """The runs that are attacked."""
    names = SHORT if workshop.short else tuple(SCENARIOS)
    return [SCENARIOS[name] for name in names]


def prepare(workshop: Workshop) -> None:
    """Play the unbroken runs."""
    for one in chosen(workshop):
        workshop.play_whole(one)


def scenario_of(case: Case) -> Scenario:
    """They take turns."""
    every = chosen(case.workshop)
    return every[case.number % len(every)]


def instant(rng: random.Random, seconds: float) -> float:
    """When to strike in a run that takes so long: mostly amidst, sometimes in the first moments."""
    return rng.uniform(0.0, 0.03) if rng.random() < 0.1 else rng.uniform(0.0, 1.02 * seconds)


def one(case: Case) -> Verdict:
    """Up to three kills, the later ones while the run is resumed."""
    scenario, rng = scenario_of(case), case.rng
    seconds = case.workshop.endings[scenario.name].seconds
    words, kills = scenario.command, 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        strike = Strike(instant(rng, seconds), signal.SIGKILL)
        ending = run(
            words,
            case.folder,
            strikes=[strike],
            prepare=scenario.prepare,
            limit=LIMIT,
        )
        if ending.code != -signal.SIGKILL or ending.late:
            if ending.code != scenario.code:
                return Verdict("other exit", f"{scenario.name}: {ending}")
            break
        kills += 1
        torn = torn_files(case.folder / RUN)
        if torn:
            return Verdict("torn", f"{scenario.name}: {torn[0]}")
        if (case.folder / RUN / "run.json").exists():
            words = RESUME
    return resumed(case, scenario, kills)


def resumed(case: Case, scenario: Scenario, kills: int | None) -> Verdict:
    """Play an attacked run to its end, and compare it with the unbroken one.

    Each of the ``kills`` may have cost an episode; None, if any number may be lost.
    """
    lost = 0
    if not (case.folder / RUN / "run.json").exists():
        outcome = "nothing there yet"
        ending = run(scenario.command, case.folder, prepare=scenario.prepare, limit=LIMIT)
    else:
        outcome = "over before" if kills == 0 else "resumed"
        if scenario.external:
            lost = _lost(case, scenario)
        ending = run(
            RESUME,
            case.folder,
            prepare=scenario.prepare,
            limit=LIMIT,
        )
    problem = _judged(case, scenario, ending)
    if problem is None and kills is not None and not 0 <= lost <= kills:
        problem = f"{lost} episodes lost by {kills} kills"
    if problem is not None:
        return Verdict(outcome, f"{scenario.name}: {problem}", lost, kills or 1)
    return Verdict(outcome, None, lost, 1 if kills is None else kills)


def open_run() -> int:
    """What a program does that only looks at a run; it notes how many episodes there are."""
    import covgame

    Path(OPENED).write_text(str(covgame.load(RUN, trust=True).n_episodes))
    return 0


def _lost(case: Case, scenario: Scenario) -> int:
    """Episodes that were over in the environment and that the opened run does not hold."""
    over = logged(case.folder)
    opened = run(open_run, case.folder, prepare=scenario.prepare, limit=LIMIT)
    if opened.code:
        raise RuntimeError(f"{scenario.name} cannot be opened: {opened}")
    return over - int((case.folder / OPENED).read_text())


def _judged(case: Case, scenario: Scenario, ending: Ending) -> str | None:
    if ending.code != scenario.code or ending.late:
        return f"resumed: {ending}"
    whole = case.workshop.reference(scenario)
    found = differences(case.folder / RUN, whole, exact=scenario.exact)
    return "; ".join(found[:3]) or None


KILLS = Attack(
    "kills",
    "`SIGKILL` at random instants, up to three in a row; resumed and compared",
    one,
    lambda workshop: 7 if workshop.short else 1600,
    prepare,
)
