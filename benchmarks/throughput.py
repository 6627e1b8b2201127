"""The model of throughput beside what was measured, and carried on to where nobody has measured.

    python3 dev.py bench throughput

Reads benchmarks/results/workers.json (``dev.py bench workers``), measures what plans cost from a
thousand to a million cells, and writes benchmarks/results/throughput.json.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from benchmarks._paced import Paced
from benchmarks._throughput_model import Plant, forecast, workers_worth_having
from benchmarks._virtual import VirtualTeam, absent
from benchmarks.comparison.measures import world
from benchmarks.workers import HORIZON
from covgame.engine.compiled import CompiledGame
from covgame.game.presets import default_game
from covgame.targets.requests import parse_request
from covgame.workers.player import TeamPlayer

SIDES = [5, 16, 50]
"""Of square grids, with 40 stages: 4,000 to 400,000 cells."""

GRID_STAGES = 40
EPISODES = 60
STEPS_TIMED = 200

ON_PAPER = [
    ("a slow simulator, a cluster", {"step": 1e-2, "workers": 1_000, "cells": 10**6}),
    ("a quick one", {"step": 1e-3, "workers": 1_000, "cells": 10**6}),
    ("a large world", {"step": 1e-2, "workers": 1_000, "cells": 10**9}),
    ("a large world and minutes an episode", {"step": 1.0, "workers": 1_000, "cells": 10**9}),
]
PAPER_STEPS = 200


def plan_cost(side: int) -> dict[str, Any]:
    """Seconds of a plan with 8 workers under way, and of telling an episode."""
    model = world(f"grid:rows={side},columns={side},horizon={GRID_STAGES}")
    target = parse_request("uniform:20/pair").resolve(model.transitions)
    game = default_game(target, pooled=True)
    player = TeamPlayer(game, absent(model, 0), None, VirtualTeam(model, 8, 0), each=1, ahead=0)
    while game.counts.n_episodes < EPISODES:
        player.play(EPISODES)
    return {
        "cells": model.shape.cells,
        "planning": player.pace.planning,
        "telling": player.pace.telling,
    }


def step_overhead() -> float:
    """Seconds that we add to a step in a worker."""
    from covgame.sources.messages import Job
    from covgame.sources.worker import Recipe, Worker
    from covgame.types import Policy

    worker = Worker(Recipe(HORIZON, "py:benchmarks._paced:Paced?micros=0&busy=yes").open())
    policy = Policy.deterministic(np.ones((HORIZON, 64), dtype=np.int64), 2)
    worker.play(Job(0, 0, range(10), policy))
    began = time.perf_counter()
    worker.play(Job(1, 0, range(200), policy))
    return (time.perf_counter() - began) / (200 * HORIZON)


def step_time(micros: int, *, busy: bool) -> float:
    """Seconds that a step of the environment really takes: who sleeps wakes up late."""
    world = Paced(str(micros), "yes" if busy else "no")
    world.reset(0)
    began = time.perf_counter()
    for _ in range(STEPS_TIMED):
        world.step(1)
    return (time.perf_counter() - began) / STEPS_TIMED


def alone_overhead() -> float:
    """Seconds that an episode takes a single process whose environment takes none."""
    env = "py:benchmarks._paced:Paced?micros=0&busy=yes"
    marks: list[tuple[float, int]] = []
    cg.cover(
        env,
        "uniform:100000/pair",
        max_episodes=2_000,
        progress=lambda run: marks.append((time.perf_counter(), run.n_episodes)),
    )
    half = len(marks) // 2
    return (marks[-1][0] - marks[half][0]) / (marks[-1][1] - marks[half][1])


def beside_measurements(
    paces: dict[str, Any], overhead: float, alone: float
) -> list[dict[str, Any]]:
    """Every measured rate with the model's; a single process has no team, and its own sum."""
    machine, rows = _results.read("workers"), []
    cores = machine["machine"]["cores"]
    steps = {
        (micros, busy): step_time(micros, busy=busy)
        for micros, busy in {(row["micros"], row["busy"]) for row in machine["rates"]}
    }
    for row in machine["rates"]:
        step = steps[row["micros"], row["busy"]]
        if row["workers"] == 1:
            rows.append({**row, "step": step, "predicted": 1 / (HORIZON * step + alone)})
            continue
        plant = Plant(
            step=step,
            steps=HORIZON,
            workers=row["workers"],
            cores=cores if row["busy"] else None,
            planning=paces["planning"],
            telling=paces["telling"],
            overhead=overhead,
        )
        rows.append({**row, "step": step, "predicted": forecast(plant).per_second})
    return rows


def on_paper(costs: list[dict[str, Any]], telling: float, overhead: float) -> list[dict[str, Any]]:
    """Where nobody has measured."""
    cells = np.array([row["cells"] for row in costs], dtype=float)
    per_plan = [row["planning"] + row["telling"] - telling for row in costs]
    slope, base = (float(number) for number in np.polyfit(cells, per_plan, 1))
    rows = []
    for name, how in ON_PAPER:
        plant = Plant(
            steps=PAPER_STEPS,
            planning=max(base, 1e-3),
            planning_per_cell=slope,
            telling=telling,
            overhead=overhead,
            stage_states=int(how["cells"] // 4),
            **how,  # type: ignore[arg-type]
        )
        made = forecast(plant)
        rows.append({
            "name": name, **how, "each": plant.episodes_each, "per_hour": made.per_hour,
            "limit": made.limit, "planning": plant.pace.planning,
            "worth_having": workers_worth_having(plant),
        })  # fmt: skip
    return rows


def main() -> None:
    """Costs, then the model beside measurements, then on paper."""
    CompiledGame.waits = True
    costs = [plan_cost(side) for side in SIDES]
    overhead, alone = step_overhead(), alone_overhead()
    (paces,) = [row for row in _results.read("workers")["paces"] if "chain" in row["env"]]
    rows = beside_measurements(paces, overhead, alone)
    paper = on_paper(costs, paces["telling"], overhead)
    for one in (*costs, *rows, *paper):
        print(one)
    _results.write("throughput", rows, costs=costs, paper=paper, overhead=overhead, alone=alone)


if __name__ == "__main__":
    main()
