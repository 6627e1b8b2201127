"""Two or three processes on one run at once: one writes, nobody else, and readers never mind."""

from __future__ import annotations

from torture.cases import Attack, Case, Verdict
from torture.forking import Ending, Started, start
from torture.invariants import differences
from torture.kills import LIMIT, open_run, prepare, scenario_of
from torture.scenarios import READERS, RESUME, RUN, Scenario

REFUSED = 2


def one(case: Case) -> Verdict:
    """A run is begun; others try to begin, to resume and to read it while it is played."""
    scenario, rng = scenario_of(case), case.rng
    seconds = case.workshop.endings[scenario.name].seconds
    first = start(scenario.command, case.folder, scenario.prepare)
    began = first.ended_within(rng.uniform(0.0, 0.8) * seconds)
    if not began and not (case.folder / RUN / "run.json").exists():
        first.ended_within(0.3)
    resume = RESUME
    others = [
        start(rng.choice((resume, resume, scenario.command)), case.folder, scenario.prepare)
        for _ in range(rng.choice((1, 2)))
    ]
    readers = [_reader(case, scenario, rng.randrange(len(READERS) + 1))]
    endings = [process.wait(limit=LIMIT) for process in (first, *others)]
    read = [process.wait(limit=LIMIT) for process in readers]
    return _judged(case, scenario, endings, read)


def _reader(case: Case, scenario: Scenario, which: int) -> Started:
    task = open_run if which == len(READERS) else [*READERS[which], "--quiet"]
    return start(task, case.folder, scenario.prepare)


def _judged(case: Case, scenario: Scenario, endings: list[Ending], read: list[Ending]) -> Verdict:
    codes = sorted(one.code for one in endings)
    outcome = "exits " + " ".join(map(str, codes))
    if any(one.late or one.code not in (scenario.code, REFUSED) for one in endings):
        return Verdict(outcome, f"{scenario.name}: {'; '.join(map(str, endings))}")
    if scenario.code not in codes:
        return Verdict(outcome, f"{scenario.name}: nobody has finished it: {endings[0]}")
    broken = [one for one in read if one.late or "Traceback" in one.err or one.code not in (0, 2)]
    if broken:
        return Verdict("reader", f"{scenario.name}: a reader failed: {broken[0]}")
    found = differences(case.folder / RUN, case.workshop.reference(scenario), exact=scenario.exact)
    if found:
        return Verdict(outcome, f"{scenario.name}: {'; '.join(found[:3])}")
    for one in endings:
        if one.code == REFUSED and (one.out or not _is_sentence(one.err)):
            return Verdict(outcome, f"{scenario.name}: refused without a sentence: {one.err!r}")
    return Verdict(outcome)


def _is_sentence(said: str) -> bool:
    return said.startswith("covgame: ") and said.count("\n") == 1


WRITERS = Attack(
    "writers",
    "two or three processes begin or resume one run at once, while others read it",
    one,
    lambda workshop: 4 if workshop.short else 300,
    prepare,
)
