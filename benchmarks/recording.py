"""What recording costs: the same run with and without a folder, in turn.

Every episode of an environment is committed to the run's database when it ends. The aim is at most
15% of the time of an episode of FrozenLake, which is among the fastest environments. Processor time
is measured, that of the system included: no commit waits for the disk, and other programs do not
disturb it.

python3 dev.py bench recording
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import covgame as cg
from benchmarks import _results
from covgame.storage import database
from covgame.storage.episodes import BYTES_PER_UNSEALED_STEP, UNSEALED_HEADER
from covgame.storage.recorder import INSERT_EPISODE

CASES: list[tuple[str, int, str]] = [
    ("gym:FrozenLake-v1", 20, "uniform:1000"),
    ("gym:FrozenLake-v1", 100, "uniform:1000"),
]
EPISODES, ROUNDS = 5_000, 15
MODES, COMMITS = ("WAL", "TRUNCATE", "PERSIST", "DELETE"), 2_000


def microseconds(env: cg.Environment, target: str, *, recorded: bool) -> float:
    """Processor time of an episode, everything included."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run" if recorded else None
        began = time.process_time()
        run = cg.cover(env, target, max_episodes=EPISODES, out=out)
        run.to_dict()  # a recorded run computes its answer, phi* included
        return 1e6 * (time.process_time() - began) / run.n_episodes


def commit_microseconds(mode: str) -> float:
    """Processor time of a transaction that adds an episode of 20 steps, by journal mode."""
    steps = bytes(UNSEALED_HEADER.size + 20 * BYTES_PER_UNSEALED_STEP)
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(Path(folder) / "run.db", isolation_level=None)) as connection,
    ):
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("PRAGMA synchronous=OFF")  # the processor alone is compared
        connection.execute(database.SCHEMA["unsealed"])
        connection.execute("BEGIN IMMEDIATE")
        began = time.process_time()
        for number in range(COMMITS):
            connection.execute(INSERT_EPISODE, (number, steps, None, 0))
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
        return 1e6 * (time.process_time() - began) / COMMITS


def measure_modes(rounds: int) -> dict[str, Any]:
    """Medians for each journal mode."""
    took: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(rounds):
        for mode in MODES:
            took[mode].append(commit_microseconds(mode))
    row = {"modes": {mode: statistics.median(times) for mode, times in took.items()}}
    print(row, flush=True)
    return row


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
        measure_modes(rounds=1)
    else:
        _results.write(
            "recording", [*(measure(*case, rounds=ROUNDS) for case in CASES), measure_modes(5)]
        )
