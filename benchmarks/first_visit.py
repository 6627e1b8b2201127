"""The first visit: every cell, or every pair, once. What does not knowing the world cost?

    python3 dev.py bench first_visit [--quick] [--seeds N]

Three players with the same adversary and planner on the same worlds and seeds:

- *covgame*, the default game, which knows nothing;
- *map known*: told beforehand where every action may lead, but not how often (one made-up
  observation of every possible successor);
- *model known*: told the true probabilities (so many made-up observations that nothing it sees
  makes a difference), and without bonuses, since it has nothing to try out.

Figures are episodes. The last columns tell about luck: the largest of all runs over their median.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from benchmarks import _results
from benchmarks.comparison.measures import REACH, priced, world
from covgame.engine.engines import SimulatedEngine
from covgame.game.adversary import TargetAware
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.game.presets import default_game
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target

PAIRS, CELLS = "uniform:1/pair", "uniform:1"
WORLDS = [
    "grid:rows=9,columns=9,horizon=20,slip=0.05,start=middle",
    "grid:rows=9,columns=9,horizon=25,slip=0.1,rooms=true",
    "gym:FrozenLake-v1@12",
    "gym:FrozenLake-v1@40",
    "doublechain:length=31,horizon=20,slip=0.05",
    "chain:states=10,horizon=20",
    "riverswim:states=8,horizon=20",
    "lock",
    "lock:slip=0.1",
    "lock:horizon=10,actions=3,slip=0.05,seed=3",
    "deepsea:size=10,noise=0.1",
    "garnet:states=20,actions=4,horizon=10",
    "garnet:states=20,actions=4,horizon=10,stationary=true",
    "inventory:capacity=10,horizon=12",
]
SEEDS = 1000
FEWER = 100
"""Runs of those who know more, and of everybody where phi* is above ``DEAR``."""

DEAR = 100.0
CAP = 60
"""Runs are stopped at so many phi*."""

CERTAIN = 10**9
"""Made-up observations of a row, in all, for the player who knows the model."""


def covgame(model: TabularMDP, target: Target) -> Game:
    """The default game."""
    return default_game(target, pooled=model.transitions.stationary)


def map_known(model: TabularMDP, target: Target) -> Game:
    """Our planner, who has seen every possible successor once."""
    return _told(model, target, RangeAwareOptimism(), np.ones_like)


def model_known(model: TabularMDP, target: Target) -> Game:
    """Our planner without bonuses, who has seen so much that it has nothing to learn."""
    certain = RangeAwareOptimism(b=0.0, doubt=0.0)
    return _told(model, target, certain, lambda p: np.maximum(1.0, np.round(p * CERTAIN)))


def _told(model: TabularMDP, target: Target, optimism: RangeAwareOptimism, of: Any) -> Game:
    """A game that starts with made-up observations of every row."""
    transitions, shape = model.transitions, model.shape
    counts = Counts(shape, pooled=transitions.stationary)
    for h in range(1 if transitions.stationary else shape.horizon - 1):
        kernel = transitions.stages[h]
        row = h * shape.pairs + np.repeat(np.arange(shape.pairs), np.diff(kernel.start))
        times = of(kernel.probability).astype(np.int64)
        for one in zip(row.tolist(), kernel.next_state.tolist(), times.tolist(), strict=True):
            counts.table.add(*one)
    return Game(target, OptimisticPlanner(optimism), TargetAware(), counts)


PLAYERS = {"covgame": covgame, "map known": map_known, "model known": model_known}


def episodes(env: str, text: str, player: str, seeds: int) -> list[int]:
    """How many each run took; those that were stopped took at least so many."""
    model, (target, phi) = world(env), priced(env, text)
    taken = []
    for seed in range(seeds):
        game = PLAYERS[player](model, target)
        compiled = SimulatedEngine(
            game, SimulatedSource(model, seed), most=512, record=False, waits=True
        )
        while not game.covered and game.counts.n_episodes < CAP * phi:
            compiled.play(512)
        taken.append(game.counts.n_episodes)
    return taken


def measure(env: str, text: str, seeds: int) -> dict[str, Any]:
    """One row: means, errors, and how far the worst run is from the median one."""
    _, phi = priced(env, text)
    row: dict[str, Any] = {"env": env, "target": text, "phi": round(phi, 3)}
    for player in PLAYERS:
        dear = phi > DEAR or player != "covgame"
        taken = np.array(episodes(env, text, player, min(seeds, FEWER) if dear else seeds))
        row[player] = round(float(taken.mean()), 3)
        row[f"{player}, error"] = round(float(taken.std() / math.sqrt(len(taken))), 3)
        if player == "covgame":
            row |= {"runs": len(taken), "worst": round(float(taken.max() / np.median(taken)), 2)}
    print(
        f"{env} {text}: "
        + ", ".join(f"{name} {row[name]:.1f} +- {row[f'{name}, error']:.1f}" for name in PLAYERS)
        + f"; ratio {row['covgame'] / row['model known']:.2f}, worst {row['worst']:.1f} medians",
        flush=True,
    )
    return row


def main() -> None:
    """All worlds, pairs and cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two worlds, not saved")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    worlds = [WORLDS[4], WORLDS[8]] if arguments.quick else WORLDS
    rows = [measure(env, text, arguments.seeds) for text in (PAIRS, CELLS) for env in worlds]
    if not arguments.quick:
        _results.write("first_visit", rows, reach=REACH, seeds=arguments.seeds)


if __name__ == "__main__":
    main()
