"""Starting from data already collected: episodes over phi* of what is missing from them.

    python3 dev.py bench topping_up [--quick]

Three kinds of data, each of about half the episodes that covering takes at least: uniformly random
actions, an earlier run of covgame, and none, for comparison. Target: 10 visits.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from covgame.config import CoverConfig
from covgame.engine.engines import SimulatedPolicyEngine
from covgame.game.counts import Counts
from covgame.runs.cover import start
from covgame.runs.loop import to_the_end
from covgame.runs.prior_data import PriorData
from covgame.sources.simulated import SimulatedSource
from covgame.types import Policy

WORLDS = [
    "garnet:states=20,actions=4,horizon=10,stationary=true",
    "grid:rows=4,columns=4,horizon=8",
    "chain:states=6,horizon=10",
    "riverswim:states=6,horizon=12",
    "doublechain:length=10,horizon=15",
    "twobranch",
]
TARGETS = ["uniform:10", "uniform:10/pair"]
KINDS = ["nothing", "random actions", "an earlier run"]
SEEDS = 30


def given(kind: str, env: str, target: str, episodes: int, seed: int) -> list[PriorData]:
    """Data of one kind, of about so many episodes."""
    model = cg.make(env).require_model("a benchmark")
    if kind == "nothing":
        return []
    counts = Counts(model.shape, pooled=False)
    if kind == "an earlier run":
        settings = CoverConfig(seed=seed, max_episodes=episodes, stage_dependent=True)
        counts.include(to_the_end(start(env, target, settings)).counts)
    else:
        player = SimulatedPolicyEngine(
            Policy.uniform(model.shape),
            counts,
            SimulatedSource(model, seed),
            most=1000,
            record=False,
        )
        while counts.n_episodes < episodes:
            player.play(episodes - counts.n_episodes)
    return [PriorData(kind, int(counts.visits.sum()), counts)]


def measure(env: str, target: str, kind: str, seeds: int) -> dict[str, Any]:
    """Episodes over phi* of what is missing, and what share of the whole that is."""
    whole = cg.plan(env, target).min_episodes
    ratios, left = [], []
    for seed in range(seeds):
        run = start(env, target, CoverConfig(seed=seed))
        run.start_from(given(kind, env, target, int(whole / 2), seed + 10_000))
        to_the_end(run)
        assert run.covered  # noqa: S101
        if run.min_episodes:
            ratios.append(run.n_episodes / run.min_episodes)
            left.append(run.min_episodes / whole)
    return {
        "env": env,
        "target": target,
        "data": kind,
        "ratio": float(np.mean(ratios)),
        "error": float(np.std(ratios, ddof=1) / np.sqrt(len(ratios))),
        "left": float(np.mean(left)),
        "seeds": len(ratios),
    }


def main() -> None:
    """All worlds, targets and kinds of data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    seeds = 4 if parser.parse_args().quick else SEEDS
    rows = []
    for env in WORLDS:
        for target in TARGETS:
            for kind in KINDS:
                rows.append(measure(env, target, kind, seeds))
                print(rows[-1], flush=True)
    _results.write("topping_up", rows, seeds=seeds)


if __name__ == "__main__":
    main()
