"""What covgame adds to a step of an environment, beside the bare loop of the same environment.

The bare loop resets and steps with actions in turn, and does nothing else. Ours maps observations,
checks, counts, plans and (with a folder) records. Alternating, medians.

python3 dev.py bench step_overhead
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
from covgame.rng import episode_seed
from covgame.sources.stepped import STREAM

CASES: list[tuple[str, int, str, str | None, bool]] = [
    ("gym:FrozenLake-v1", 20, "uniform:1000", None, False),
    ("gym:FrozenLake-v1", 20, "uniform:1000", None, True),
    ("gym:FrozenLake-v1", 100, "uniform:5000/pair", None, False),
    ("gym:MountainCar-v0", 200, "uniform:5000/pair", "bins:12x8", False),
    ("gym:Blackjack-v1", 8, "uniform:1000/pair", None, False),
]
EPISODES, ROUNDS = 3_000, 5


def bare(env: cg.Environment, steps: int) -> float:
    """Microseconds a step, resets included."""
    source: Any = env.open(0)
    stepper, actions = source.stepper, len(source.stepper.actions)
    taken = episode = 0
    began = time.perf_counter()
    while taken < steps:
        stepper.reset(episode_seed(0, STREAM, episode))
        episode += 1
        for h in range(env.horizon):
            shown = stepper.step((h + episode) % actions)
            taken += 1
            if shown.terminated or shown.truncated:
                break
    return 1e6 * (time.perf_counter() - began) / taken


def ours(env: cg.Environment, target: str, *, record: bool) -> tuple[float, int]:
    """(microseconds a step, steps) of a run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run" if record else None
        began = time.perf_counter()
        run = cg.cover(env, target, max_episodes=min(EPISODES, 60_000 // env.horizon), out=out)
        seconds = time.perf_counter() - began
    steps = int(run.counts.visits.sum())
    return 1e6 * seconds / steps, steps


def measure(name: str, horizon: int, target: str, states: str | None, record: bool) -> Any:
    """Medians of the two, in turn."""
    env = cg.make(name, horizon, states=states)
    _, steps = ours(env, target, record=record)  # imported and compiled
    pairs = [(bare(env, steps), ours(env, target, record=record)[0]) for _ in range(ROUNDS)]
    row = {
        "env": name if states is None else f"{name}, {states}",
        "horizon": horizon,
        "target": target,
        "recorded": record,
        "bare": statistics.median(own for own, _ in pairs),
        "ours": statistics.median(all_in for _, all_in in pairs),
        "ratio": statistics.median(all_in / own for own, all_in in pairs),
        "beyond": statistics.median(all_in - own for own, all_in in pairs),
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    rows = [measure(*case) for case in (CASES[:1] if "--quick" in sys.argv[1:] else CASES)]
    if "--quick" not in sys.argv[1:]:
        _results.write("step_overhead", rows)
