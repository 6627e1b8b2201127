"""Bounds on phi* by rounds of play on the kernel: how close they come, and what they cost.

For every world a run is played, and three things are compared with phi*: what the run's own
adversary proves (its weights, averaged over all episodes, as prices), what some rounds prove, and
what the same rounds say on the model that the run has learnt. Seconds are those of the run, of the
bound that ``cover`` then prints (so many rounds as the run allows), and of the exact program. The
last world is too large for the program.

python3 dev.py bench cheap_bound [--quick]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks import _results
from covgame.config import CoverConfig
from covgame.engine.engines import SimulatedEngine
from covgame.flow.cheap_bounds import cheap_bounds
from covgame.flow.min_flow import dual_bound, min_flow
from covgame.game.presets import configured_game
from covgame.mdp.model import TabularMDP
from covgame.runs.lower_bound import estimated_bound, quick_bound
from covgame.sources.environments import as_environment
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import parse_request
from covgame.targets.target import Target
from covgame.types import FloatArray

WORLDS: list[tuple[str, int | None, str]] = [
    ("riverswim:states=8,horizon=20", None, "uniform:10"),
    ("doublechain", None, "uniform:5"),
    ("chain:states=20,horizon=40", None, "uniform:10/pair"),
    ("gym:FrozenLake-v1", 12, "uniform:10"),
    ("garnet:states=100,actions=4,horizon=15", None, "uniform:3/pair"),
    ("garnet:states=64,actions=4,horizon=20,stationary=true", None, "uniform:5/pair"),
    ("grid:rows=10,columns=10,horizon=30", None, "uniform:3/pair"),
    ("grid:rows=14,columns=14,horizon=34", None, "uniform:3"),
]
LARGEST = ("grid:rows=50,columns=50,horizon=120", None, "uniform:3/pair")
ROUNDS = (0, 24, 48, 96, 192)
SETTINGS = CoverConfig()
MOST_AVERAGED = 10_000_000
"""Rows times episodes for which weights are averaged: that is done outside of compiled code."""


def play(model: TabularMDP, target: Target, *, averaging: bool) -> tuple[Any, FloatArray, float]:
    """A game played to its end: with the average of its weights, and the seconds that it took."""
    game = configured_game(
        SETTINGS, target, stationary=model.transitions.stationary, stage_free=target.stage_free
    )
    most = 1 if averaging else 1_000
    player = SimulatedEngine(game, SimulatedSource(model, SETTINGS.seed), most=most, record=False)
    average = np.zeros(len(target))
    began = time.perf_counter()
    while not game.covered:
        if averaging:
            average += game.state.weights / game.state.total
        player.play(most)
    return game, average, time.perf_counter() - began


def measured(name: str, horizon: int | None, request: str, *, solve: bool = True) -> dict[str, Any]:
    """One world."""
    model = as_environment(name, horizon).require_model("a bound")
    target, kernel = parse_request(request).resolve(model.transitions), model.transitions
    game, _, seconds = play(model, target, averaging=False)
    visits, episodes = game.counts.visits, game.counts.n_episodes
    row: dict[str, Any] = {"world": name, "target": request, "cells": kernel.shape.cells}
    began = time.perf_counter()
    printed = quick_bound(kernel, target, visits, episodes)
    row |= {"episodes": episodes, "run seconds": seconds, "printed": printed.episodes}
    row |= {"attained": printed.attained, "printed seconds": time.perf_counter() - began}
    row["memory"] = _results.peak_memory()
    if not solve:
        return row
    began = time.perf_counter()
    row["phi"] = min_flow(kernel, target).lower
    row["exact seconds"] = time.perf_counter() - began
    row["rounds"] = [cheap_bounds(kernel, target, rounds, visits).lower for rounds in ROUNDS]
    if len(target) * episodes <= MOST_AVERAGED:
        row["own weights"] = dual_bound(kernel, target, play(model, target, averaging=True)[1])
    row["estimate"] = estimated_bound(game.counts.kernel(), target, visits)
    return row


def main(quick: bool) -> None:
    """Measure all of them; ``quick`` leaves the largest out."""
    play(*_smallest(), averaging=False)  # compile
    rows = []
    for world in WORLDS if quick else [*WORLDS, LARGEST]:
        rows.append(measured(*world, solve=world != LARGEST))
        print(rows[-1], flush=True)
    _results.write("cheap_bound", rows, rounds=ROUNDS)


def _smallest() -> tuple[TabularMDP, Target]:
    model = as_environment("chain").require_model("a bound")
    return model, parse_request("uniform:1/pair").resolve(model.transitions)


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
