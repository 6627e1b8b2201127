"""Time and memory of an exact episode: weights, planning, play and bookkeeping.

    python3 dev.py bench episodes [--quick]

The double chain has 1,240 cells and two successors a row. The readable game plays the same
episodes; its time is given as a multiple. Sizes grow by garnets with two successors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import covgame as cg
from benchmarks import _results
from covgame.config import CoverConfig
from covgame.engine.engines import SimulatedEngine
from covgame.game.game import Game, rounds
from covgame.game.presets import default_game, paper_game
from covgame.runs.cover import start
from covgame.runs.loop import play
from covgame.runs.run import create_folder
from covgame.sources.simulated import SimulatedSource
from covgame.targets.resolve import drop_rarely_reached

CHAIN = "doublechain:length=31,horizon=20"
LONG = 3000  # visits a cell: more than is played here
SIZES = [31, 100, 310, 1000, 2500]
COMPILE = """
import json, time
import covgame as cg
from covgame.engine.compiled import CompiledGame
CompiledGame.waits = True
began = time.perf_counter()
cg.cover("grid", "uniform:1/pair")
print(json.dumps({"seconds": time.perf_counter() - began}))
"""


def game_for(env: str, visits: float, kind: str, reach: float = 0.001) -> tuple[Game, Any]:
    """A game that goes on for long enough, and its world."""
    model = cg.make(env).require_model("a benchmark")
    asked = cg.uniform(visits).resolve(model.transitions)
    target, _ = drop_rarely_reached(asked, model.transitions, reach)
    if kind == "paper":
        return paper_game(target, delta=0.1), model
    return default_game(target, pooled=kind == "pooled"), model


def microseconds(env: str, kind: str, episodes: int, repeats: int = 5) -> float:
    """Per episode in the middle of a long run: the median of several stretches."""
    game, model = game_for(env, LONG, kind)
    player = SimulatedEngine(
        game, SimulatedSource(model, 0), most=episodes, record=False, waits=True
    )
    while game.counts.n_episodes < 2 * episodes:
        player.play(episodes)
    times = []
    for _ in range(repeats):
        began, before = time.perf_counter(), game.counts.n_episodes
        player.play(episodes)
        times.append((time.perf_counter() - began) / (game.counts.n_episodes - before))
    return 1e6 * statistics.median(times)


def readable_microseconds(kind: str, episodes: int) -> float:
    """The same by the readable loop."""
    game, model = game_for(CHAIN, LONG, kind)
    source = SimulatedSource(model, 0)
    began = time.perf_counter()
    for _, _ in zip(rounds(game, source), range(episodes), strict=False):
        pass
    return 1e6 * (time.perf_counter() - began) / episodes


def recording() -> dict[str, float]:
    """What writing Parquet costs: off and on, in turn, medians of five."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(5):
        for record, taken in times.items():
            run = start(CHAIN, "uniform:300", CoverConfig(min_reach=0.001))
            with tempfile.TemporaryDirectory() as folder:
                if record:
                    create_folder(run, Path(folder) / "run")
                began = time.perf_counter()
                for _ in play(run):
                    pass
                taken.append(1e6 * (time.perf_counter() - began) / run.n_episodes)
    return {"off": statistics.median(times[False]), "on": statistics.median(times[True])}


def bytes_per_cell(game: Game) -> float:
    """All arrays of a game, over its cells."""
    counts, state, target = game.counts, game.state, game.target
    arrays = [counts.visits, counts.table.rows, counts.table.entries, state.weights, state.base]
    arrays += [game.collected, target.rows, target.counts, *target.by_cell]
    arrays += [target.members.row, target.members.cell]
    if counts.pool is not None:
        arrays += [counts.pool.rows, counts.pool.entries]
    reward = 8 * target.shape.cells
    return (sum(array.nbytes for array in arrays) + reward) / target.shape.cells


def growth(states: int, kind: str) -> dict[str, Any]:
    """Time and memory on a garnet of this many states, 2 actions, 20 stages, 2 successors."""
    env = f"garnet:states={states},actions=2,horizon=20,branching=2,stationary=true"
    cells = states * 40
    episodes = max(20, 2_000_000 // cells)
    spent = microseconds(env, kind, episodes, repeats=3)
    game, model = game_for(env, LONG, kind)
    SimulatedEngine(game, SimulatedSource(model, 0), most=episodes, record=False, waits=True).play(
        episodes
    )
    return {"cells": cells, "kind": kind, "us": spent, "bytes": bytes_per_cell(game)}


def compilation() -> dict[str, float]:
    """Seconds of the first run with an empty cache, and of the second."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        first, second = (
            json.loads(
                subprocess.run(
                    [sys.executable, "-c", COMPILE],
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )["seconds"]
            for _ in range(2)
        )
    return {"first": first, "cached": second}


def main() -> None:
    """Measure everything, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the double chain, not saved")
    quick = parser.parse_args().quick
    chain = [
        {
            "kind": kind,
            "us": microseconds(CHAIN, kind, 10_000),
            "readable us": readable_microseconds(kind, 200),
        }
        for kind in ("pooled", "stages apart", "paper")
    ]
    print(*chain, sep="\n", flush=True)
    record = recording()
    print("recording", record, flush=True)
    if quick:
        return
    compiling = compilation()
    print("compilation", compiling, flush=True)
    rows = [growth(states, kind) for states in SIZES for kind in ("pooled", "stages apart")]
    print(*rows, sep="\n", flush=True)
    _results.write("episodes", rows, chain=chain, recording=record, compilation=compiling)


if __name__ == "__main__":
    main()
