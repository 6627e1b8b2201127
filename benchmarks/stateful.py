"""Rules of state machines: who sees every transition, who finds which bug, and what a step costs.

covgame beside Hypothesis alone (its own way to choose rules, with and without ``target()``), rules
chosen uniformly, and the rule that was run least often in the state. All of them run the same
machines (``_stateful_systems``) in sequences of 50 rules, with arguments from the same strategies.

python3 dev.py bench stateful
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

import covgame as cg
from benchmarks import _results
from benchmarks._stateful_systems import SYSTEMS, Log, System
from covgame.testing import environment
from covgame.testing.hypothesis_inside import OpenRun, is_allowed, rules_of, with_chosen_rules

STEPS, SEQUENCES, SEEDS = 50, 300, 5
OFTEN = (1, 3)

Method = Callable[[type[System], int, int], None]


def ours(system: type[System], seed: int, sequences: int) -> None:
    """Every transition 10 times."""
    target = cg.uniform(10, "transition")
    world: Any = environment(system, STEPS)
    played = 0
    while played < sequences:  # when all is covered it begins anew, so that budgets are alike
        run = cg.cover(world, target, seed=seed, max_episodes=sequences - played)
        played, seed = played + run.n_episodes, seed + 1_000


def hypothesis_alone(system: type[System], seed: int, sequences: int) -> None:
    """As it is, only that it may run as many test cases as we do."""
    settings = hypothesis.settings(
        max_examples=sequences,
        stateful_step_count=STEPS,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.target],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(hypothesis.seed(seed)(system), settings=settings)


def with_target(system: type[System], seed: int, sequences: int) -> None:
    """Hypothesis is told to look for runs with many different states, by ``target()``."""

    class Targeted(system):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            self.states: set[Any] = set()

        def check_invariants(self, *arguments: Any) -> None:
            super().check_invariants(*arguments)
            self.states.add(self.covgame_state())

        def teardown(self) -> None:
            hypothesis.target(float(len(self.states)))

    hypothesis_alone(Targeted, seed, sequences)


def uniform_rules(system: type[System], seed: int, sequences: int) -> None:
    """Any rule that is allowed."""
    dice = random.Random(seed)
    _by(system, seed, sequences, lambda state, allowed: dice.choice(allowed))


def least_tried_rules(system: type[System], seed: int, sequences: int) -> None:
    """The rule that was run least often in this state; chance decides between equals."""
    dice, tried = random.Random(seed), Counter[tuple[Any, int]]()

    def choose(state: Any, allowed: list[int]) -> int:
        fewest = min(tried[state, rule] for rule in allowed)
        rule = dice.choice([rule for rule in allowed if tried[state, rule] == fewest])
        tried[state, rule] += 1
        return rule

    _by(system, seed, sequences, choose)


def _by(
    system: type[System], seed: int, sequences: int, choose: Callable[[Any, list[int]], int]
) -> None:
    machine, rules = with_chosen_rules(system), rules_of(system)
    for number in range(sequences):
        run = OpenRun(machine, seed * 1_000_003 + number)
        run.start()
        for _ in range(STEPS):
            made = run.machine
            allowed = [number for number, one in enumerate(rules) if is_allowed(made, one)]
            run.run(choose(made.covgame_state(), allowed))
        run.close()


METHODS: dict[str, Method] = {
    "covgame": ours,
    "Hypothesis": hypothesis_alone,
    "Hypothesis, target()": with_target,
    "uniform rules": uniform_rules,
    "least-tried rules": least_tried_rules,
}


def measure(system: type[System], method: str, seed: int, sequences: int) -> dict[str, Any]:
    """One run, with when each transition came and each bug would have shown."""
    System.log = log = Log()
    began = time.process_time()
    METHODS[method](system, seed, sequences)
    seconds = time.process_time() - began
    return {
        "system": system.__name__,
        "method": method,
        "seed": seed,
        "steps": log.steps,
        "sequences": log.sequences,
        "microseconds": 1e6 * seconds / log.steps,
        "bugs": log.bugs,
        "seen": log.seen,
    }


def main(seeds: int, sequences: int) -> list[dict[str, Any]]:
    """All of them; what counts as every transition is what anybody saw."""
    for method in METHODS:  # compiled and imported
        measure(SYSTEMS[0], method, 0, 5)
    rows = []
    for system in SYSTEMS:
        runs = [
            measure(system, method, seed, sequences) for seed in range(seeds) for method in METHODS
        ]
        every = {move for run in runs for move in run["seen"]}
        for run in runs:
            seen = run.pop("seen")
            run["transitions"], run["every"] = len(seen), len(every)
            for often in OFTEN:
                came = [seen.get(move, []) for move in every]
                run[f"enough {often}"] = sum(len(one) >= often for one in came)
                done = run[f"enough {often}"] == len(every)
                run[f"all {often}"] = max(one[often - 1] for one in came) if done else None
            rows.append(run)
        print(*(summary(rows, system.__name__, method) for method in METHODS), sep="\n", flush=True)
    return rows


def seeded() -> list[dict[str, str]]:
    """Which bugs there are, and whether they sit in a state or in a value."""
    return [
        {"system": system.__name__, "kind": kind, "bug": bug}
        for system in SYSTEMS
        for kind, bugs in (("state", system.state_bugs), ("value", system.value_bugs))
        for bug in bugs
    ]


def summary(rows: list[dict[str, Any]], system: str, method: str) -> str:
    """A line for who waits."""
    mine = [row for row in rows if (row["system"], row["method"]) == (system, method)]
    seen, share = (
        statistics.fmean(row[f"enough {often}"] / row["every"] for row in mine) for often in OFTEN
    )
    bugs = Counter(bug for row in mine for bug in row["bugs"])
    cost = statistics.median(row["microseconds"] for row in mine)
    return f"{system:16} {method:22} {seen:.0%} {share:.0%} {cost:.0f} us {dict(bugs)}"


if __name__ == "__main__":
    quick = "--quick" in sys.argv[1:]
    found = main(1 if quick else SEEDS, 40 if quick else SEQUENCES)
    if not quick:
        about = {"often": OFTEN, "steps": STEPS, "sequences": SEQUENCES, "bugs": seeded()}
        _results.write("stateful", found, **about)
