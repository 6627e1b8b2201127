"""What the journal costs: the same recorded run with and without it, in turn.

Every episode of an environment is written to the journal of its run when it is over. The promise is
at most a tenth of the time of an episode of FrozenLake, which is as fast as environments are. It is
the processor's time, that of the system included: nobody waits for the disk, so that nothing else
counts, and other programs do not disturb it.

python3 dev.py bench journal
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
from covgame.storage.recorder import Recorder

CASES: list[tuple[str, int, str]] = [
    ("gym:FrozenLake-v1", 20, "uniform:1000"),
    ("gym:FrozenLake-v1", 100, "uniform:1000"),
]
EPISODES, ROUNDS = 5_000, 15


def microseconds(env: cg.Environment, target: str, *, journal: bool) -> float:
    """Of the processor, for an episode, all in, of a run with a folder."""
    note = Recorder.note
    if not journal:
        Recorder.note = lambda self, number, episode: None  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            run = cg.cover(env, target, max_episodes=EPISODES, out=Path(folder) / "run")
            return 1e6 * (time.process_time() - began) / run.n_episodes
    finally:
        Recorder.note = note  # type: ignore[method-assign]


def measure(name: str, horizon: int, target: str, rounds: int) -> dict[str, Any]:
    """Medians of the two, and of their ratio with its quartiles; who is first changes."""
    env = cg.make(name, horizon)
    microseconds(env, target, journal=True)  # imported and compiled
    pairs = []
    for number in range(rounds):
        took = {}
        for journal in (number % 2 == 0, number % 2 == 1):
            took[journal] = microseconds(env, target, journal=journal)
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
        _results.write("journal", [measure(*case, rounds=ROUNDS) for case in CASES])
