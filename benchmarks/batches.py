"""What batches cost in episodes, and the paper's game at 10^2 to 10^8 visits a cell.

    python3 dev.py bench batches [--quick]

First: rounds of K policies planned on anticipated visits, beside one policy for K episodes, in
episodes over phi* at 50 visits a cell. Then: play by counts, for the figure.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from benchmarks.comparison.measures import priced, world
from covgame.engine.engines import BatchEngine, CountsEngine
from covgame.game.presets import default_game, paper_game
from covgame.sources.counted import MOST_EPISODES, SortedSuccessors, draw_visits
from covgame.sources.simulated import SimulatedSource

WORLDS = [
    "garnet:states=20,actions=4,horizon=10,stationary=true",
    "doublechain:length=15,horizon=20",
    "riverswim:states=8,horizon=20",
]
SIZES = [1, 8, 64, 512]
SEEDS = 2
BY_COUNTS = "riverswim:states=6,horizon=12"
DECADES = range(2, 9)
CAP = 60
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "by_counts.svg"


def batches(env: str, visits: float, size: int, *, anticipated: bool) -> float:
    """tau/phi* of batches of one size, the mean over seeds."""
    model = world(env)
    target, cost = priced(env, f"uniform:{visits:g}")
    taus = []
    for seed in range(SEEDS):
        game = default_game(target, pooled=model.transitions.stationary)
        policies, each = (size, 1) if anticipated else (1, size)
        player = BatchEngine(game, SimulatedSource(model, seed), policies=policies, each=each)
        while not game.covered:
            player.play(size)
        taus.append(game.counts.n_episodes)
    return float(np.mean(taus) / cost)


def by_counts(kind: str, visits: float) -> dict[str, Any]:
    """tau/phi* of a preset, played by counts."""
    model = world(BY_COUNTS)
    target, cost = priced(BY_COUNTS, f"uniform:{visits:g}")
    game = default_game(target, pooled=True) if kind == "default" else paper_game(target, delta=0.1)
    player, began = CountsEngine(game, model, 0), time.perf_counter()
    while not game.covered and game.counts.n_episodes < CAP * cost:
        player.play(MOST_EPISODES)
    return {
        "preset": kind,
        "visits": visits,
        "phi": cost,
        "episodes": game.counts.n_episodes,
        "ratio": game.counts.n_episodes / cost,
        "covered": game.covered,
        "seconds": time.perf_counter() - began,
    }


def one_draw(episodes: int) -> float:
    """Seconds to draw the visits of so many episodes of one policy."""
    model = world(BY_COUNTS)
    policy = cg.plan(model, priced(BY_COUNTS, "uniform:1")[0]).policy
    draw_visits(SortedSuccessors(model), policy, 10, np.random.default_rng(0))
    began = time.perf_counter()
    draw_visits(SortedSuccessors(model), policy, episodes, np.random.default_rng(0))
    return time.perf_counter() - began


def draw(rows: list[dict[str, Any]]) -> None:
    """Episodes over phi* against visits wanted."""
    from covgame.report.figures import new_figure, save_figure

    figure = new_figure(6, 3.6)
    axes = figure.subplots()
    for kind, marker in (("paper", "X-"), ("default", "o-")):
        mine = [row for row in rows if row["preset"] == kind]
        axes.plot([r["visits"] for r in mine], [r["ratio"] for r in mine], marker, label=kind)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.set_xlabel("visits wanted of every cell")
    axes.set_ylabel("episodes / phi*")
    axes.legend()
    save_figure(figure, FIGURE)


def main() -> None:
    """Measure batches, then counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 visits, small sizes, not saved")
    quick = parser.parse_args().quick
    rows = []
    for env in WORLDS[:1] if quick else WORLDS:
        row: dict[str, Any] = {"env": env}
        for size in SIZES[:2] if quick else SIZES:
            visits = 5 if quick else 50
            row[f"anticipated {size}"] = batches(env, visits, size, anticipated=True)
            row[f"naive {size}"] = batches(env, visits, size, anticipated=False)
        rows.append(row)
        print(row, flush=True)
    counts = []
    for decade in list(DECADES)[:2] if quick else DECADES:
        for kind in ("default", "paper"):
            counts.append(by_counts(kind, 10.0**decade))
            print(counts[-1], flush=True)
    if not quick:
        draws = {str(10**k): one_draw(10**k) for k in (3, 6, 9, 12, 15)}
        print(draws)
        _results.write("batches", rows, by_counts=counts, one_draw=draws)
        draw(counts)


if __name__ == "__main__":
    main()
