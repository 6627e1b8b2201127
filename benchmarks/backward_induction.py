"""Backward induction from 10^3 to 10^6 cells: linear in transitions, beside a dense planner.

    python3 dev.py bench backward_induction [--quick]

The dense planner is plain NumPy on S x A x S arrays, the usual way; it stops where its kernel
would take more than half a gigabyte. Writes a figure as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from benchmarks.comparison.dense import DensePlanner
from covgame.mdp import dp

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "backward_induction.svg"
CELLS = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
DENSE_LIMIT = 2**29


def main(quick: bool) -> None:
    """Measure, save, draw."""
    rows = [measure(cells) for cells in (CELLS[:2] if quick else CELLS)]
    if quick:
        return
    large = [row for row in rows if row["cells"] >= 10_000]
    slope = np.polyfit(
        np.log([row["transitions"] for row in large]), np.log([row["seconds"] for row in large]), 1
    )[0]
    print(f"time grows like transitions^{slope:.2f} from 10^4 cells on")
    _results.write("backward_induction", rows, exponent=round(float(slope), 2))
    draw(rows)


def measure(cells: int) -> dict[str, Any]:
    """Seconds for one backward induction, sparse and dense, on a stationary garnet."""
    states = cells // 40
    name = f"garnet:states={states},actions=4,horizon=10,branching=3,stationary=true"
    model = cg.make(name).require_model("a benchmark")
    row: dict[str, Any] = {
        "cells": model.shape.cells,
        "transitions": 10 * len(model.transitions.next_state),
        "seconds": best_of(lambda: dp.backward_induction(model.transitions, model.rewards)),
        "dense seconds": None,
    }
    if 8 * states * 4 * states <= DENSE_LIMIT:
        dense = DensePlanner(model)
        row["dense seconds"] = best_of(lambda: dense.plan(model.rewards))
    print(row, flush=True)
    return row


def best_of(action: Callable[[], object], seconds: float = 1.0) -> float:
    """The fastest of as many runs as fit into a second (at least three)."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def draw(rows: list[dict[str, Any]]) -> None:
    """Time against transitions, log-log, with a line of slope 1."""
    from covgame.report.figures import new_figure, save_figure

    figure = new_figure(6, 3.8)
    axes = figure.subplots()
    transitions = np.array([row["transitions"] for row in rows])
    seconds = np.array([row["seconds"] for row in rows])
    axes.loglog(transitions, seconds, "o-", label="covgame (sparse)")
    dense = [(row["transitions"], row["dense seconds"]) for row in rows if row["dense seconds"]]
    axes.loglog(*zip(*dense, strict=True), "s-", color="#b5483a", label="dense NumPy")
    axes.loglog(
        transitions, seconds[-1] * transitions / transitions[-1], ":", color="grey", label="slope 1"
    )
    axes.set(xlabel="transitions (over all stages)", ylabel="seconds", title="Backward induction")
    axes.legend(frameon=False)
    save_figure(figure, FIGURE)
    print(f"wrote {FIGURE}")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
