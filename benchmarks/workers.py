"""What workers cost in episodes, and what they save in time.

    python3 dev.py bench workers [--only plans|pairs|long|rates] [--engine local|ray] [--quick]

Plans: episodes over phi* with K workers in virtual time (exact on any machine), with plans that
count on what is under way beside naive ones. Pairs: the same where workers plan. Long: episodes and
virtual time until every pair is covered, in deterministic worlds with long episodes whose states
are discovered. Rates: episodes a second with N processes, on environments that sleep or compute for
a given time at every step.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results, long_episodes
from benchmarks._virtual import VirtualTeam, absent, discover_and_cover, episodes_to_cover
from benchmarks.comparison.measures import priced, world
from benchmarks.long_episodes import model_of
from covgame.engine.compiled import CompiledGame
from covgame.engine.engines import SimulatedEngine
from covgame.game.presets import default_game
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import FloatArray
from covgame.workers.player import TeamPlayer

WORLDS = [
    "garnet:states=20,actions=4,horizon=10,stationary=true",
    "garnet:states=20,actions=4,horizon=10",
    "doublechain:length=15,horizon=20",
    "riverswim:states=8,horizon=20",
    "gym:FrozenLake-v1@12",
]
FEW, MANY = 10, 50
TEAMS = {1: 36, 2: 4, 8: 4, 64: 36}
"""How many seeds for how many workers; naive ones are as many as the most, for a third of them."""

PAIR_SEEDS = 16
PAIRS = [
    ("grid:rows=6,columns=6,horizon=30", 10),
    ("grid:rows=6,columns=6,horizon=30", 100),
    ("gym:FrozenLake-v1@20", 10),
    ("riverswim:states=8,horizon=20", 20),
    ("garnet:states=20,actions=4,horizon=10,stationary=true", 10),
    ("doublechain:length=15,horizon=20", 50),
]
PAIR_TEAMS = [1, 8, 64]
LONG = ["digraph, 300 nodes", "grid 40 x 40", "text adventure"]
"""Worlds of ``bench long_episodes``."""

LONG_TEAMS, LONG_SEEDS = [1, 2, 8], 4
WORKERS = [1, 2, 4, 8]
STEPS = [(100, "no"), (1_000, "no"), (10_000, "no"), (100, "yes"), (1_000, "yes")]
SECONDS = 4.0
"""About so long one worker plays, at least ``LEAST`` episodes for each of the largest team."""

LEAST = 12
WARM = 0.2
"""Of the episodes, before the clock starts: workers have to begin, and code to be compiled."""

HORIZON = 20


def plans(env: str, visits: int, teams: dict[int, int]) -> dict[str, Any]:
    """tau/phi* for every size of team, the mean over seeds; naive workers in the largest alone."""
    model = world(env)
    target, cost = priced(env, f"uniform:{visits}")
    row: dict[str, Any] = {"env": env, "visits": visits, "phi": cost, "seeds": teams[1]}
    asked = [("anticipated", *one) for one in teams.items()]
    asked.append(("naive", max(teams), max(1, teams[1] // 3)))
    alone = np.zeros(0)
    for how, size, seeds in asked:
        taus = [
            episodes_to_cover(model, target, size, seed, anticipates=how == "anticipated")
            for seed in range(seeds)
        ]
        ratios = np.array(taus) / cost
        row[f"{how} {size}"], row[f"error {how} {size}"] = mean_and_error(ratios)
        alone = ratios if size == 1 else alone
        lost = (ratios - alone[:seeds]) / alone[:seeds].mean()  # the same seeds, side by side
        row[f"lost {how} {size}"], row[f"error lost {how} {size}"] = mean_and_error(lost)
    return row


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """The mean of some runs and its standard error, 0 of a single one."""
    several = len(values) > 1
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if several else 0.0
    return float(values.mean()), error


def fixed(env: str, visits: int, seeds: int) -> dict[str, Any]:
    """Episodes for pairs at any stage: one process that plans within episodes, beside workers."""
    model = world(env)
    target, cost = priced(env, f"uniform:{visits}/pair")
    row: dict[str, Any] = {"env": env, "visits": visits, "phi": cost, "seeds": seeds}
    alone = [alone_to_cover(model, target, seed) for seed in range(seeds)]
    row["alone"], row["error alone"] = mean_and_error(np.array(alone))
    for size in PAIR_TEAMS:
        taus = [episodes_to_cover(model, target, size, seed) for seed in range(seeds)]
        row[f"workers {size}"], row[f"error workers {size}"] = mean_and_error(np.array(taus))
    return row


def long(name: str, model: TabularMDP, seeds: int) -> dict[str, Any]:
    """Episodes and virtual time of teams that discover the states, every pair once."""
    row: dict[str, Any] = {"world": name, "stages": model.shape.horizon, "seeds": seeds}
    for size in LONG_TEAMS:
        found = [
            discover_and_cover(model, "uniform:1/pair", size, seed)
            for seed in range(seeds if size > 1 else 1)
        ]
        row[f"episodes {size}"], row[f"time {size}"] = np.array(found).mean(axis=0).tolist()
        row[f"most episodes {size}"] = max(episodes for episodes, _ in found)
    return row


def measure_long(*, quick: bool) -> list[dict[str, Any]]:
    """Deterministic worlds with long episodes."""
    models = {one.name: model_of(one) for one in long_episodes.WORLDS if one.name in LONG}
    if quick:
        return [said(long(LONG[0], models[LONG[0]], 1))]
    return [said(long(name, model, LONG_SEEDS)) for name, model in models.items()]


def alone_to_cover(model: TabularMDP, target: Target, seed: int) -> int:
    """How many episodes a single process needs, which plans within episodes."""
    game = default_game(target, pooled=model.transitions.stationary)
    player = SimulatedEngine(
        game, SimulatedSource(model, seed), most=1_000, record=False, waits=True
    )
    while not game.covered:
        player.play(1_000)
    return game.counts.n_episodes


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


def measure_plans(*, quick: bool) -> list[dict[str, Any]]:
    """All worlds, for few visits with every size of team, for many with two."""
    if quick:
        return [plans(WORLDS[2], FEW, dict.fromkeys(TEAMS, 1))]
    few, many = (FEW, TEAMS), (MANY, {1: 3, 64: 3})
    return [said(plans(env, *how)) for env in WORLDS for how in (few, many)]


def measure_rates(engine: str, *, quick: bool) -> list[dict[str, Any]]:
    """All step times, for every number of workers."""
    steps, workers = (STEPS[1:2], WORKERS[:2]) if quick else (STEPS, WORKERS)
    return [said(rate(*step, number, engine)) for step in steps for number in workers]


def said(row: dict[str, Any]) -> dict[str, Any]:
    """A row, shown as soon as it is there."""
    print(row, flush=True)
    return row


def main() -> None:
    """Plans, pairs, then rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little of everything, not saved")
    parser.add_argument("--only", choices=["plans", "pairs", "long", "rates"])
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    asked = parser.parse_args()
    CompiledGame.waits = True  # times are those of compiled code
    found: dict[str, list[dict[str, Any]]]
    found = {"plans": [], "pairs": [], "long": [], "rates": [], "paces": []}
    if asked.only in (None, "pairs"):
        pairs, seeds = (PAIRS[:1], 1) if asked.quick else (PAIRS, PAIR_SEEDS)
        found["pairs"] = [said(fixed(*one, seeds)) for one in pairs]
    if asked.only in (None, "long"):
        found["long"] = measure_long(quick=asked.quick)
    if asked.only in (None, "plans"):
        found["plans"] = measure_plans(quick=asked.quick)
    if asked.only in (None, "rates"):
        found["rates"] = measure_rates(asked.engine, quick=asked.quick)
        found["paces"] = [said(pace(env)) for env in ("chain:states=12,horizon=20", *WORLDS[:1])]
    if not asked.quick:
        save("workers" if asked.engine == "local" else "workers_ray", found)


def save(name: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """What was measured now; what was not stays as it was."""
    place = _results.RESULTS / f"{name}.json"
    before = _results.read(name) if place.exists() else {}
    before["plans"] = before.get("rows", [])
    kept = {part: rows or before.get(part, []) for part, rows in found.items()}
    _results.write(name, kept.pop("plans"), **kept)


if __name__ == "__main__":
    main()
