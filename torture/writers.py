"""Several processes on one run: one writes, other writers are refused, readers see episodes."""

from __future__ import annotations

from torture.cases import Attack, Case, Verdict
from torture.interruptions import end_problem, scenario_of
from torture.invariants import DATABASE
from torture.processes import start
from torture.reading import READERS, REFUSED, complaint, load_run
from torture.scenarios import LIMIT, RESUME, RUN


def judge(case: Case) -> Verdict:
    """Start a run; meanwhile start or resume it again, and read it."""
    scenario, rng = scenario_of(case), case.rng
    seconds = case.workspace.endings[scenario.name].seconds
    first = start(scenario.command, case.folder, scenario.prepare)
    if rng.random() < 0.7:  # else at the same time
        first.ends_within(rng.uniform(0.0, 0.8) * seconds)
        if not (case.folder / RUN / DATABASE).exists():
            first.ends_within(0.3)
    others = [
        (words, start(words, case.folder, scenario.prepare))
        for words in rng.choices((RESUME, RESUME, scenario.command), k=rng.choice((1, 2)))
    ]
    name = rng.choice([*READERS, "load"])
    words = [*READERS[name], "--quiet", "--json"] if name in READERS else []
    reader = start(words or load_run, case.folder, scenario.prepare)
    writers = [(scenario.command, first), *others]
    endings = [(words, process.wait(limit=LIMIT)) for words, process in writers]
    read = reader.wait(limit=LIMIT)
    codes = [ending.code for _, ending in endings]
    problem = next((one for one in (complaint(*each) for each in endings) if one), None)
    if not problem and (scenario.code not in codes or not {*codes} <= {scenario.code, REFUSED}):
        problem = f"exits {codes}: {'; '.join(str(ending) for _, ending in endings)}"
    if not problem and words and ((problem := complaint(words, read)) or read.code > REFUSED):
        problem = f"the reader: {problem or read}"
    if not problem:
        finished = next(ending for _, ending in endings if ending.code == scenario.code)
        problem = end_problem(case, scenario, finished)
    said = None if problem is None else f"{scenario.name}, {name}: {problem}"
    return Verdict(f"exits {' '.join(map(str, sorted(codes)))}", said)


WRITERS = Attack(
    "writers",
    "two or three processes begin or resume one run at once, while another one reads it",
    judge,
    lambda workspace: 4 if workspace.short else 100,
    lambda workspace: workspace.play_all(),
)
