"""What workers cost in episodes, and what they save in time.

    python3 dev.py bench workers [--only plans|rates] [--engine local|ray] [--quick]

Plans: episodes over phi* with K workers in virtual time (exact on any machine), with plans that
count on what is under way beside naive ones. Rates: episodes a second with N processes, on
environments that sleep or compute for a given time at every step.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from benchmarks._virtual import VirtualTeam, absent, episodes_to_cover
from covgame.comparison.measures import priced, world
from covgame.game.presets import default_game
from covgame.players.compiled import CompiledGame
from covgame.players.team import TeamPlayer

WORLDS = [
    "garnet:states=20,actions=4,horizon=10,stationary=true",
    "garnet:states=20,actions=4,horizon=10",
    "doublechain:length=15,horizon=20",
    "riverswim:states=8,horizon=20",
    "gym:FrozenLake-v1@12",
]
TEAMS = [1, 2, 8, 64]
SEEDS = 3
FEW, MANY = 10, 50
WORKERS = [1, 2, 4, 8]
STEPS = [(100, "no"), (1_000, "no"), (10_000, "no"), (100, "yes"), (1_000, "yes")]
SECONDS = 4.0
"""About so long one worker plays, at least ``LEAST`` episodes for each of the largest team."""

LEAST = 12
WARM = 0.2
"""Of the episodes, before the clock starts: workers have to begin, and code to be compiled."""

HORIZON = 20


def plans(env: str, visits: int, teams: list[int], seeds: int) -> dict[str, Any]:
    """tau/phi* for every size of team, the mean over seeds."""
    model = world(env)
    target, cost = priced(env, f"uniform:{visits}")
    row: dict[str, Any] = {"env": env, "visits": visits, "phi": cost, "seeds": seeds}
    for size in teams:
        for how in ("anticipated", "naive")[: 1 + (size > 1)]:
            taus = [
                episodes_to_cover(model, target, size, seed, anticipates=how == "anticipated")
                for seed in range(seeds)
            ]
            row[f"{how} {size}"] = float(np.mean(taus) / cost)
            row[f"error {how} {size}"] = float(np.std(taus) / cost / seeds**0.5)
    return row


def rate(micros: int, busy: str, workers: int, engine: str) -> dict[str, Any]:
    """Episodes a second of so many workers, when they have begun."""
    alone = SECONDS / (HORIZON * micros * 1e-6)
    episodes = max(int(alone), LEAST * max(WORKERS))
    began: list[tuple[float, int]] = []

    def look(run: Any) -> None:
        if not began and run.n_episodes >= WARM * episodes:
            began.append((time.perf_counter(), run.n_episodes))

    env = f"py:benchmarks._paced:Paced?micros={micros}&busy={busy}"
    how: dict[str, Any] = {"workers": workers, "engine": engine}
    run = cg.cover(env, "uniform:100000/pair", max_episodes=episodes, progress=look, **how)
    seconds = time.perf_counter() - began[0][0]
    return {
        "micros": micros,
        "busy": busy == "yes",
        "workers": workers,
        "engine": engine,
        "episodes": run.n_episodes,
        "per_second": (run.n_episodes - began[0][1]) / seconds,
    }


def pace(env: str) -> dict[str, Any]:
    """Seconds that a plan and an episode take who hands out jobs, with 8 workers under way."""
    model = world(env)
    target, _ = priced(env, "uniform:50")
    game = default_game(target, pooled=model.transitions.stationary)
    player = TeamPlayer(game, absent(model, 0), None, VirtualTeam(model, 8, 0), each=1, ahead=0)
    while not game.covered and game.counts.n_episodes < 500:
        player.play(100)
    return {
        "env": env,
        "cells": model.shape.cells,
        "planning": player.pace.planning,
        "telling": player.pace.telling,
    }


def main() -> None:
    """Plans, then rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little of everything, not saved")
    parser.add_argument("--only", choices=["plans", "rates"])
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    asked = parser.parse_args()
    CompiledGame.waits = True  # times are those of compiled code
    found: dict[str, list[dict[str, Any]]] = {"plans": [], "rates": [], "paces": []}
    if asked.only != "rates":
        for env in WORLDS[2:3] if asked.quick else WORLDS:
            found["plans"].append(plans(env, FEW, TEAMS, 1 if asked.quick else SEEDS))
            print(found["plans"][-1], flush=True)
            if not asked.quick:
                found["plans"].append(plans(env, MANY, [1, 64], 1))
                print(found["plans"][-1], flush=True)
    if asked.only != "plans":
        for micros, busy in STEPS[1:2] if asked.quick else STEPS:
            for workers in WORKERS[:2] if asked.quick else WORKERS:
                found["rates"].append(rate(micros, busy, workers, asked.engine))
                print(found["rates"][-1], flush=True)
        for env in ("chain:states=12,horizon=20", *WORLDS[:1]):
            found["paces"].append(pace(env))
            print(found["paces"][-1], flush=True)
    if not asked.quick:
        name = "workers" if asked.engine == "local" else "workers_ray"
        save(name, found)


def save(name: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """What was measured now; what was not stays as it was."""
    place = _results.RESULTS / f"{name}.json"
    before = _results.read(name) if place.exists() else {}
    before["plans"] = before.get("rows", [])
    kept = {part: rows or before.get(part, []) for part, rows in found.items()}
    _results.write(name, kept.pop("plans"), **kept)


if __name__ == "__main__":
    main()
