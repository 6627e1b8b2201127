"""What recording costs: the same run with and without a folder, in turn.

Every episode of an environment is committed to the run's database when it ends. The aim is at most
15% of the time of an episode of FrozenLake, which is among the fastest environments. Processor time
is measured, that of the system included: no commit waits for the disk, and other programs do not
disturb it.

python3 dev.py bench recording
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import covgame as cg
from benchmarks import _results

CASES: list[tuple[str, int, str]] = [
    ("gym:FrozenLake-v1", 20, "uniform:1000"),
    ("gym:FrozenLake-v1", 100, "uniform:1000"),
]
EPISODES, ROUNDS = 5_000, 15


def microseconds(env: cg.Environment, target: str, *, recorded: bool) -> float:
    """Processor time of an episode, everything included."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run" if recorded else None
        began = time.process_time()
        run = cg.cover(env, target, max_episodes=EPISODES, out=out)
        return 1e6 * (time.process_time() - began) / run.n_episodes


def measure(name: str, horizon: int, target: str, rounds: int) -> dict[str, Any]:
    """Medians of the two, and of their ratio with its quartiles; which is first alternates."""
    env = cg.make(name, horizon)
    microseconds(env, target, recorded=True)  # imported and compiled
    pairs = []
    for number in range(rounds):
        took = {}
        for recorded in (number % 2 == 0, number % 2 == 1):
            took[recorded] = microseconds(env, target, recorded=recorded)
        pairs.append((took[False], took[True]))
    low, middle, high = statistics.quantiles([with_it / bare for bare, with_it in pairs], n=4)
    row = {
        "env": name,
        "horizon": horizon,
        "target": target,
        "episodes": EPISODES,
        "without": statistics.median(bare for bare, _ in pairs),
        "with": statistics.median(with_it for _, with_it in pairs),
        "ratio": middle,
        "quartiles": [low, high],
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    if "--quick" in sys.argv[1:]:
        measure(*CASES[0], rounds=3)
    else:
        _results.write("recording", [measure(*case, rounds=ROUNDS) for case in CASES])
