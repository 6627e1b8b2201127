"""How large it may be: time of an episode and memory, from a thousand to ten million cells.

    python3 dev.py bench size [--quick] [--only simulated|found|long]

Three measurements, each size in a process of its own. *Simulated*: grids that can be crossed within
an episode, and garnets, where nearly everything leads to nearly everything; every pair is wanted.
Beside planning everything before each episode, and beside backward induction on dense arrays.
*Found*: a torus whose states show only as one goes, stepped in Python. *Long*: environments of
others with long horizons, to their end or for twenty minutes. What rlberry takes stands in
public_code.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from benchmarks.comparison.dense import DensePlanner
from covgame.engine.compiled import CompiledGame
from covgame.engine.engines import SimulatedEngine
from covgame.game.presets import default_game
from covgame.mdp.model import TabularMDP
from covgame.report.figures import new_figure, save_figure
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import parse_request

SIZES = [10**3, 10**4, 10**5, 10**6, 10**7]
LARGEST_DENSE = 10**6
"""Of a grid of ten million cells one dense plan takes minutes, of such a garnet 1 TB of memory."""

ACTIONS = 4
SECONDS = 4.0
"""Of play for every size and method, at least four episodes."""

FOUND = [(10**4, 50), (10**5, 50), (10**6, 50), (10**5, 200)]
"""States, and stages of an episode."""

LONG = [
    ("gym:MountainCar-v0", 200, "bins:12x8", "uniform:10/pair"),
    ("gym:MountainCar-v0?max_episode_steps=1000", 1000, "bins:12x8", "uniform:10/pair"),
    ("gym:Taxi-v4", 200, None, "uniform:3/pair"),
    ("KeyCorridorS3R2-v0", 200, None, "uniform:1/pair"),
    ("KeyCorridorS3R3-v0", 200, None, "uniform:1/pair"),
    ("MultiRoom-N4-S5-v1", 80, None, "uniform:1/pair"),
]
LONGEST = 1200.0
"""Seconds."""

OURS, WHOLE, DENSE = "only what has changed", "planning everything", "dense arrays"
LINES = {"grid": "o-", "garnet": "v:"}
MINUTES_PER_PROCESS = 60


class Torus:
    """A square without borders, from anywhere in it; four directions."""

    actions = ACTIONS

    def __init__(self, side: int) -> None:
        self.side = side

    def reset(self, *, seed: int | None = None) -> tuple[tuple[int, int], dict[str, Any]]:
        """Somewhere."""
        self.x, self.y = np.random.default_rng(seed).integers(0, self.side, 2).tolist()
        return (self.x, self.y), {}

    def step(self, action: int) -> tuple[tuple[int, int], float, bool, bool, dict[str, Any]]:
        """To a neighbour."""
        dx, dy = ((1, 0), (0, 1), (-1, 0), (0, -1))[action]
        self.x, self.y = (self.x + dx) % self.side, (self.y + dy) % self.side
        return (self.x, self.y), 0.0, False, False, {}


def world(kind: str, cells: int) -> TabularMDP:
    """Of about so many cells, all within reach: a grid of side n has 2n stages."""
    side, states = round((cells / (2 * ACTIONS)) ** (1 / 3)), cells // 40
    name = {
        "grid": f"grid:rows={side},columns={side},horizon={2 * side}",
        "garnet": f"garnet:states={states},actions=2,horizon=20,branching=2,stationary=true",
    }[kind]
    return cg.make(name).require_model("a benchmark")


def simulated(kind: str, cells: int, method: str) -> dict[str, Any]:
    """Milliseconds of an exact episode in the second half of a few seconds of play."""
    model = world(kind, cells)
    about = {"kind": "simulated", "world": kind, "method": method, "cells": model.shape.cells}
    if method == DENSE:
        took = DensePlanner(model).seconds_per_plan(SECONDS / 4)
        return {**about, "ms": 1e3 * took, "mb": _results.peak_memory()}
    target = parse_request("uniform:1000/pair").resolve(model.transitions)
    game, source = default_game(target, pooled=True), SimulatedSource(model, 0)
    player = SimulatedEngine(
        game, source, most=64, record=False, incremental=method == OURS, waits=True
    )
    player.play(1)  # compiled
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 4 or time.perf_counter() - began < SECONDS:
        at, before = time.perf_counter(), game.counts.n_episodes
        player.play(64 if cells < 10**5 else 1)
        played = game.counts.n_episodes - before
        times += [(time.perf_counter() - at) / max(1, played)] * played
    middle = statistics.median(times[len(times) // 2 :])
    return {**about, "ms": 1e3 * middle, "episodes": len(times), "mb": _results.peak_memory()}


def found(states: int, stages: int) -> dict[str, Any]:
    """An environment that has shown so many states: what an episode and memory come to then."""
    CompiledGame.waits = True
    marks: list[tuple[float, int]] = []
    side = round(math.sqrt(1.5 * states))

    def look(run: cg.Coverage) -> None:
        marks.append((time.perf_counter(), run.n_episodes))
        if run.n_states >= states:
            raise StopIteration

    env = cg.make(lambda: Torus(side), stages)
    began = time.perf_counter()
    with suppress(StopIteration):
        cg.cover(env, "uniform:1/pair", progress=look)
    seconds, episodes = marks[-1][0] - began, marks[-1][1]
    half = next(i for i, (_, played) in enumerate(marks) if 2 * played >= episodes)
    late = (marks[-1][0] - marks[half][0]) / max(1, episodes - marks[half][1])
    return {
        "kind": "found", "states": states, "stages": stages, "cells": states * stages * ACTIONS,
        "episodes": episodes, "seconds": seconds, "ms": 1e3 * late, "mb": _results.peak_memory(),
    }  # fmt: skip


def long(name: str, horizon: int, states: str | None, target: str) -> dict[str, Any]:
    """A run to its end, or as long as anybody waits."""
    env = _doors(name, horizon) if not name.startswith("gym:") else None
    env = env or cg.make(name, horizon, states=states)
    runs: list[cg.Coverage] = []
    began = time.perf_counter()

    def look(run: cg.Coverage) -> None:
        runs[:] = [run]
        if time.perf_counter() - began > LONGEST:
            raise StopIteration

    with suppress(StopIteration):
        cg.cover(env, target, progress=look)
    seconds, run = time.perf_counter() - began, runs[0]
    return {
        "kind": "long", "name": name, "horizon": horizon, "target": target,
        "states": int(run.counts.visits.any(axis=(0, 2)).sum()), "episodes": run.n_episodes,
        "covered": run.covered, "seconds": seconds, "mb": _results.peak_memory(),
        "us": 1e6 * seconds / max(1, int(run.counts.visits.sum())),
    }  # fmt: skip


def _doors(name: str, horizon: int) -> cg.Environment:
    import gymnasium
    import minigrid  # noqa: F401 (registers its environments)
    from examples.minigrid_doors import SameMaze, state

    return cg.make(lambda: SameMaze(gymnasium.make(f"MiniGrid-{name}")), horizon, states=state)


def draw(rows: list[dict[str, Any]]) -> None:
    """docs/figures/size.svg: the time of an episode against the number of cells."""
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    colours = {OURS: "#b5483a", WHOLE: "#1f6f8b", DENSE: "#2f4858"}
    for (method, colour), (kind, line) in itertools.product(colours.items(), LINES.items()):
        mine = [r for r in rows if (r.get("world"), r.get("method")) == (kind, method)]
        if mine:
            axes.plot([r["cells"] for r in mine], [r["ms"] for r in mine], line, color=colour,
                      label=f"{method}, {kind}s")  # fmt: skip
    shown = [r for r in rows if r["kind"] == "found" and r["stages"] == FOUND[0][1]]
    axes.plot([r["cells"] for r in shown], [r["ms"] for r in shown], "s--", color="#e0998d",
              label="states that are found, stepped in Python")  # fmt: skip
    theirs = [r for r in _results.read("public_code")["rows"] if not r["staged"]]
    axes.plot([r["cells"] for r in theirs], [r["rlberry"] / 1e3 for r in theirs], "^-",
              color="#7a7a7a", label="rlberry's UCBVI")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="cells (stages x states x actions)")
    axes.set_ylabel("milliseconds an episode")
    axes.legend(fontsize=8)
    save_figure(figure, _results.RESULTS.parent.parent / "docs" / "figures" / "size.svg")


def cases(quick: bool) -> list[list[Any]]:
    """What is measured, one process each."""
    sizes = [SIZES[0]] if quick else SIZES
    simulations = [
        ["simulated", kind, cells, method]
        for kind in LINES
        for method in (OURS, WHOLE, DENSE)
        for cells in sizes
        if method != DENSE or (cells <= LARGEST_DENSE and kind == "grid")
    ]
    if quick:
        return simulations
    return [*simulations, *(["found", *one] for one in FOUND), *(["long", *one] for one in LONG)]


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "simulated": simulated,
    "found": found,
    "long": long,
}


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a row measures, whatever it has found."""
    if row["kind"] == "found":
        return "found", row["states"], row["stages"]
    about = ("kind", "world", "name", "horizon", "target", "cells", "method")
    return tuple(row.get(key) for key in about)


def main() -> None:
    """All of it, or one kind; or one case, whose result is printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little of it, not saved")
    parser.add_argument("--only", choices=list(MEASURES), help="what was measured else is kept")
    parser.add_argument("--most-states", type=int, help="leave out larger cases of found states")
    parser.add_argument("--case", help="one case, as JSON")
    asked = parser.parse_args()
    if asked.case:
        kind, *about = json.loads(asked.case)
        print(json.dumps(MEASURES[kind](*about)))
        return
    rows: list[dict[str, Any]] = []
    for case in cases(asked.quick):
        too_large = case[0] == "found" and case[1] > (asked.most_states or math.inf)
        if asked.only in (None, case[0]) and not too_large:
            row = _results.in_own_process(
                "benchmarks.size", "--case", json.dumps(case), seconds=60 * MINUTES_PER_PROCESS
            )
            print(row, flush=True)
            rows += [row] if row else []
    if not asked.quick:
        measured = {_identity(row) for row in rows}
        rows += [row for row in _results.read("size")["rows"] if _identity(row) not in measured]
        rows.sort(key=lambda row: (list(MEASURES).index(row["kind"]), row.get("stages", 0)))
        _results.write("size", rows)
        draw(rows)


if __name__ == "__main__":
    main()
