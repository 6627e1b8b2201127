"""The largest occupancies of active distributions: a program per cell, or one-dimensional duals.

    python3 dev.py bench suprema [--quick]

Both on the same learnt model with the same caps, in time and in what they ask for: the sum of the
suprema over all cells, which is what a phase's target is made of.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from covgame.flow.active import WellCovered
from covgame.game.counts import Counts
from covgame.mdp.model import TabularMDP
from covgame.sources.counted import SortedSuccessors, draw_visits
from covgame.types import Policy

SIZES = [(5, 2, 5), (10, 3, 8), (20, 4, 10), (30, 4, 15), (50, 5, 20)]
SLACKS = (0.02, 0.1)
"""How far below the best a distribution may be, as a share of H."""


def data(world: TabularMDP) -> Counts:
    """Ten thousand episodes spread by the policy that covers in proportion to reachability."""
    plan = cg.plan(world, cg.proportional(1.0))
    mixed = 0.9 * plan.policy.probabilities() + 0.1 / world.shape.actions
    counts = Counts(world.shape, pooled=False)
    rng = np.random.default_rng(0)
    counts.add_visits(draw_visits(SortedSuccessors(world), Policy.stochastic(mixed), 10_000, rng))
    return counts


def measure(size: tuple[int, int, int], share: float) -> dict[str, Any]:
    """Both ways on one learnt model."""
    states, actions, horizon = size
    name = f"garnet:states={states},actions={actions},horizon={horizon},branching=4"
    world = cg.make(name).require_model("a benchmark")
    counts = data(world)
    # Caps at which a well covered policy exists and not every policy is well covered.
    cap = counts.visits / counts.n_episodes * 6.0
    covered = WellCovered(counts.kernel(), counts.mean_rewards(), cap)
    value = covered.best_value - share * horizon
    began = time.perf_counter()
    relaxed = covered.bounds(value)
    between = time.perf_counter()
    exact = covered.suprema(value)
    done = time.perf_counter()
    return {
        "states": states,
        "actions": actions,
        "horizon": horizon,
        "cells": world.shape.cells,
        "slack": share * horizon,
        "relaxed_seconds": between - began,
        "exact_seconds": done - between,
        "relaxed_over_exact": float(relaxed.sum() / exact.sum()),
        "capped": float((exact >= cap - 1e-9)[counts.visits > 0].mean()),
    }


def main() -> None:
    """All sizes; the last takes a minute or two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, not saved")
    quick = parser.parse_args().quick
    rows = []
    for size in SIZES[:2] if quick else SIZES:
        for share in SLACKS:
            rows.append(measure(size, share))
            print(rows[-1], flush=True)
    if not quick:
        _results.write("suprema", rows)


if __name__ == "__main__":
    main()
