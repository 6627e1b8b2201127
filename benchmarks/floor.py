"""Certified learning beside its floor: what any method needs, what ours takes, what data could do.

    python3 dev.py bench floor [--quick]

delta 0.1, epsilon H/10, stages apart, rewards simulated. The floor is proved. The estimate is not:
the episodes, at the proportions of the run, with which the values that are learnt are right within
epsilon / 2 in 90% of draws. For ``explore`` "right" is about the policy and reward for which they
are furthest off, as far as coordinate ascent finds them.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from covgame.flow.alternatives import WorldClass, Worlds, deterministic, largest_differences
from covgame.flow.floor import FloorTask
from covgame.mdp.model import TabularMDP
from covgame.planning import world_class
from covgame.types import FloatArray, FloatHSA

WORLDS: list[tuple[str, int | None]] = [
    ("garnet:states=4,actions=2,horizon=4", None),
    ("lock:horizon=5,actions=2,slip=0.1", None),
    ("riverswim:states=5,horizon=10", None),
    ("deepsea:size=6,noise=0.1", None),
    ("riverswim:states=8,horizon=20", None),
    ("gym:FrozenLake-v1", 12),
    ("deepsea:size=10,noise=0.1", None),
    ("garnet:states=20,actions=4,horizon=10", None),
]
DELTA = 0.1
DRAWS = 200
SHARE_RIGHT = 0.9
STEPS = 12
TASKS: tuple[FloorTask, ...] = ("identify", "explore")


def draws(family: WorldClass, visits: FloatHSA, rng: np.random.Generator) -> Worlds:
    """Worlds as estimated from data with these visits; without a visit, an episode ends there."""
    worlds = Worlds.copies(family, DRAWS)
    chances = family.rows[1]
    n = np.round(family.per_row(visits)).astype(np.int64)
    last = np.zeros_like(chances)
    last[..., -1] = 1.0
    share = np.where(chances.sum(axis=3, keepdims=True) > 0, chances, last)
    share = share / share.sum(axis=3, keepdims=True)
    seen = rng.multinomial(n, share, size=(DRAWS, *n.shape))
    worlds.chance[..., :-1] = seen / np.maximum(n, 1)[..., None]
    worlds.chance[..., -1] = n == 0
    if family.changes_rewards:
        paid = np.round(family.per_payment(visits)).astype(np.int64)
        earned = rng.binomial(paid, family.paid, size=(DRAWS, *paid.shape))
        worlds.paid = earned / np.maximum(paid, 1)
    return worlds


def errors(worlds: Worlds, rng: np.random.Generator) -> FloatArray:
    """How far values are off: V*, or that of the worst policy and reward that is found."""
    family = worlds.family
    if family.changes_rewards:
        given = Worlds.copies(family, 1)
        best = given.start_values(given.best(given.reward())[1])[0]
        off: FloatArray = np.abs(worlds.start_values(worlds.best(worlds.reward())[1]) - best)
        return off
    shape = (len(worlds), *family.transitions.shape.hsa)
    most = np.zeros(len(worlds))
    given = Worlds.copies(family, len(worlds))
    for _ in range(3):
        start = deterministic(rng.random(shape) * family.transitions.allowed_actions)
        policy, _ = largest_differences(worlds, start)
        more = worlds.occupancies(policy) - given.occupancies(policy)
        above, below = np.maximum(more, 0).sum(axis=(1, 2)), np.maximum(-more, 0).sum(axis=(1, 2))
        most = np.maximum(most, np.maximum(above, below))
    return most


def in_hindsight(family: WorldClass, shares: FloatHSA, epsilon: float, most: float) -> float:
    """Episodes with which 90% of draws are right within epsilon / 2: an estimate."""
    low, high = 1.0, most
    for _ in range(STEPS):
        middle = math.sqrt(low * high)
        rng = np.random.default_rng(0)
        is_right = errors(draws(family, middle * shares, rng), rng) <= epsilon / 2
        low, high = (low, middle) if is_right.mean() >= SHARE_RIGHT else (middle, high)
    return high


def row(name: str, horizon: int | None, task: FloorTask) -> dict[str, Any]:
    """Floor, run and estimate of a task on a world."""
    model: TabularMDP = cg.make(name, horizon).require_model("a benchmark")
    epsilon = model.shape.horizon / 10
    began = time.process_time()
    floor = cg.floor(model, task=task, epsilon=epsilon, delta=DELTA, stage_dependent=True)
    seconds = time.process_time() - began
    run = (
        cg.identify(model, epsilon=epsilon, delta=DELTA, stage_dependent=True)
        if task == "identify"
        else cg.explore(model, epsilon=epsilon, delta=DELTA, stage_dependent=True, play="counts")
    )
    family = world_class(model, task, pooled=False)
    shares = run.counts.visits / run.n_episodes
    answer = {
        "env": name,
        "horizon": model.shape.horizon,
        "task": task,
        "floor": floor.episodes,
        "ended": floor.ended,
        "alternatives": len(floor.alternatives),
        "floor_seconds": seconds,
        "episodes": run.n_episodes,
        "estimate": in_hindsight(family, shares, epsilon, float(run.n_episodes)),
    }
    if model.transitions.stationary:
        pooled = cg.floor(model, task=task, epsilon=epsilon, delta=DELTA)
        answer["floor_pooled"] = pooled.episodes
    return answer


def main() -> None:
    """All worlds; saved after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first world only, not saved")
    quick = parser.parse_args().quick
    rows = []
    for name, horizon in WORLDS[:1] if quick else WORLDS:
        rows += [row(name, horizon, task) for task in TASKS]
        print(*rows[-2:], sep="\n", flush=True)
        if not quick:
            _results.write("floor", rows, delta=DELTA)


if __name__ == "__main__":
    main()
