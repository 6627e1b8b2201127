"""Seconds and memory of an export, beside a bare read of the same Parquet files.

    python3 dev.py bench exporting [--quick]

Simulated runs of ten million steps, in short episodes and in long ones. Every measurement has a
process of its own, whose growth is the memory; medians of three, in turn.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import covgame as cg
from benchmarks import _results

STEPS = 10_000_000
WORLDS = {
    20: "doublechain:length=31,horizon=20",
    500: "doublechain:length=31,horizon=500",
}
NAMES = {"csv": "steps.csv", "minari": "./steps-v0"}


def read(run: Path) -> None:
    """Every file once, one after the other."""
    for path in sorted((run / "episodes").glob("*.parquet")):
        pq.read_table(path)


def measured(what: str, run: Path) -> dict[str, Any]:
    """Seconds and memory of one export, or of the bare read."""
    before, size = _results.peak_memory(), 0
    with tempfile.TemporaryDirectory(dir=run.parent) as folder:
        began, worked = time.perf_counter(), time.process_time()
        if what == "read":
            read(run)
        else:
            to: Any = what
            size = cg.export(run, to=to, out=Path(folder) / NAMES[what]).size
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    return {
        "seconds": seconds,
        "cpu": cpu,
        "MB": _results.peak_memory() - before,
        "written": size / 1e6,
    }


def rows_of(horizon: int, steps: int, repeats: int) -> list[dict[str, Any]]:
    """All measurements on a run with episodes of this length."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        make = ("--make", str(horizon), str(steps // horizon), str(path))
        _results.in_own_process("benchmarks.exporting", *make, seconds=600)
        taken: dict[str, list[dict[str, Any]]] = {what: [] for what in ("read", *NAMES)}
        for _ in range(repeats):
            for what, found in taken.items():
                arguments = ("--child", what, str(path))
                one = _results.in_own_process("benchmarks.exporting", *arguments, seconds=600)
                found.append(one or {"seconds": 600.0, "cpu": 600.0, "MB": 0.0, "written": 0.0})
        for what, found in taken.items():
            middle = {key: statistics.median(one[key] for one in found) for key in found[0]}
            rows.append({"horizon": horizon, "steps": steps, "what": what, **middle})
            print(rows[-1], flush=True)
        shutil.rmtree(path)
    return rows


def main() -> None:
    """Measure everything, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps, not saved")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        horizon, episodes, path = asked.make
        target = "uniform:100000000/pair"
        run = cg.cover(WORLDS[int(horizon)], target, max_episodes=int(episodes), out=path)
        print(json.dumps({"episodes": run.n_episodes}))
        return
    if asked.child:
        print(json.dumps(measured(asked.child[0], Path(asked.child[1]))))
        return
    steps, repeats = (STEPS // 10, 1) if asked.quick else (STEPS, 3)
    rows = [row for horizon in WORLDS for row in rows_of(horizon, steps, repeats)]
    if not asked.quick:
        _results.write("exporting", rows)


if __name__ == "__main__":
    main()
