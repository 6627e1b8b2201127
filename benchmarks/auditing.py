"""Audits of many steps beside the bare read of the same Parquet files: seconds and memory.

The files hold the columns of a run, 500,000 steps each, of a random walk over 1,000 states with 4
actions and 50 stages. "Bare" decodes the same columns batch by batch and does nothing with them.
Each measurement is a process of its own; memory is its largest resident size. The two
alternate, five times each: medians, and the range, because single ones differ by a factor of two.
Last: ``certify`` of a run of as many steps, which counts all of them anew.

python3 dev.py bench auditing [--quick | --steps N]
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import _results
from covgame.data.steps import BATCH
from covgame.storage.episodes import STEPS_PER_SHARD, WRITING

STATES, ACTIONS, HORIZON = 1_000, 4, 50
TARGET = "uniform:1000/pair"
SIZES = {"--quick": [1_000_000], "": [1_000_000, 10_000_000, 34_000_000]}
PATIENCE, ROUNDS = 3600.0, 5
WORLD = "chain:states=20,horizon=50"
MEASURED = ("seconds", "memory")


def write_steps(folder: Path, steps: int) -> None:
    """A random walk, in shards; an episode terminates now and then."""
    rng, episode = np.random.default_rng(0), 0
    for number in range(-(-steps // STEPS_PER_SHARD)):
        columns = _walk(rng, STEPS_PER_SHARD // HORIZON, episode)
        episode += STEPS_PER_SHARD // HORIZON
        keep = min(STEPS_PER_SHARD, steps - number * STEPS_PER_SHARD)
        table = pa.table({name: column[:keep] for name, column in columns.items()})
        pq.write_table(table, folder / f"part-{number:06d}.parquet", **WRITING)


def _walk(rng: np.random.Generator, episodes: int, first: int) -> dict[str, Any]:
    actions = rng.integers(ACTIONS, size=(episodes, HORIZON), dtype=np.int32)
    moved = np.array([1, -1, 10, -10])[actions] + rng.integers(-1, 2, size=actions.shape)
    path = np.cumsum(np.column_stack([np.zeros(episodes, dtype=np.int64), moved]), axis=1)
    path = (path + STATES // 2) % STATES
    last = np.zeros((episodes, HORIZON), dtype=np.bool_)
    last[:, -1] = True
    ended = rng.random(episodes) < 0.1
    return {
        "episode": np.repeat(np.arange(first, first + episodes), HORIZON),
        "stage": np.tile(np.arange(HORIZON, dtype=np.int32), episodes),
        "state": path[:, :-1].ravel(),
        "action": actions.ravel(),
        "reward": (path[:, 1:] > 700).astype(np.float64).ravel(),
        "next_state": path[:, 1:].ravel(),
        "terminated": (last & ended[:, None]).ravel(),
        "truncated": (last & ~ended[:, None]).ravel(),
    }


def bare(folder: str) -> dict[str, Any]:
    """Decode all columns, batch by batch."""
    began, steps = time.perf_counter(), 0
    for path in sorted(Path(folder).glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                steps += batch.num_rows
    return {"seconds": time.perf_counter() - began, "steps": steps}


def audited(folder: str) -> dict[str, Any]:
    """An audit with everything that it says in a terminal."""
    import covgame as cg

    began = time.perf_counter()
    found = cg.audit(folder, TARGET)
    text = found.to_text()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "steps": found.steps, "holes": len(found.gaps), "text": text}


def _measured(what: str, folder: str) -> dict[str, Any]:
    answer = _results.in_own_process("benchmarks.auditing", what, folder, seconds=PATIENCE)
    if answer is None:
        raise SystemExit(f"{what} took longer than {PATIENCE:g} s")
    return answer


def certified(folder: str) -> dict[str, Any]:
    """A run's claim, checked from its steps."""
    import covgame as cg

    began = time.perf_counter()
    found = cg.certify(folder)
    return {"seconds": time.perf_counter() - began, "episodes": found.episodes}


def certify_run(steps: int) -> dict[str, Any]:
    """A covering run of about so many steps, certified beside the bare read."""
    import covgame as cg

    each = cg.plan(WORLD, "uniform:1").min_episodes * cg.make(WORLD).horizon
    with tempfile.TemporaryDirectory() as folder:
        run = cg.cover(WORLD, f"uniform:{steps / each:.0f}", out=folder)
        asked = {"bare": f"{folder}/episodes", "certify": folder}
        found = {
            what: _results.in_own_process("benchmarks.auditing", what, path, seconds=PATIENCE) or {}
            for what, path in asked.items()
        }
    taken = {f"{what}_{name}": one[name] for what, one in found.items() for name in MEASURED}
    ratio = taken["certify_seconds"] / taken["bare_seconds"]
    return {"steps": int(run.counts.visits.sum()), **taken, "ratio": ratio}


def main(sizes: list[int]) -> None:
    """Measure each size, and save."""
    rows = []
    for steps in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_steps(Path(folder), steps)
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
            pairs = [(_measured("bare", folder), _measured("audit", folder)) for _ in range(ROUNDS)]
        seconds = [[one["seconds"] for one in column] for column in zip(*pairs, strict=True)]
        row = {
            "steps": steps,
            "megabytes": size / 2**20,
            "bare_seconds": statistics.median(seconds[0]),
            "bare_range": [min(seconds[0]), max(seconds[0])],
            "audit_seconds": statistics.median(seconds[1]),
            "audit_range": [min(seconds[1]), max(seconds[1])],
            "ratio": statistics.median(ours / own for own, ours in zip(*seconds, strict=True)),
            "bare_memory": max(own["memory"] for own, _ in pairs),
            "audit_memory": max(ours["memory"] for _, ours in pairs),
        }
        print(row, flush=True)
        rows.append(row)
    if len(sizes) == len(SIZES[""]):
        certify = [certify_run(steps) for steps in sizes[1:]]
        print(certify, flush=True)
        about = {"states": STATES, "actions": ACTIONS, "horizon": HORIZON, "certify": certify}
        _results.write("auditing", rows, **about)


MEASURES = {"bare": bare, "audit": audited, "certify": certified}

if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in MEASURES:
        result = MEASURES[sys.argv[1]](sys.argv[2])
        print(json.dumps(result | {"memory": _results.peak_memory()}))
    elif "--steps" in sys.argv:
        main([int(sys.argv[sys.argv.index("--steps") + 1])])
    else:
        main(SIZES["--quick" if "--quick" in sys.argv else ""])
