"""Episodes to cover against phi*: our game, the paper's, and what each change buys.

    python3 dev.py bench covering [--quick] [--seeds N] [--draw]

Six worlds, cells that some policy reaches with probability 0.01 or more, the same seeds for all.
A figure is the mean of tau/phi* over seeds; the last column of the table is the geometric mean
over worlds. A run is stopped at ``CAP`` times phi* and counted with that ("at least").
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from covgame.flow.min_flow import MinFlow, min_flow
from covgame.game.adversary import MissingOnly, TargetAware, WeightedMajority
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.game.presets import default_game, paper_game
from covgame.mdp.model import TabularMDP
from covgame.sources.compiled import blocks
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import drop_rarely_reached
from covgame.targets.target import Target
from covgame.types import END, FloatArray, IntArray, Policy

WORLDS = [
    "garnet:states=20,actions=4,horizon=10,stationary=true",
    "riverswim:states=8,horizon=20",
    "deepsea:size=10,noise=0.1",
    "grid:rows=5,columns=5,horizon=12",
    "chain:states=10,horizon=20",
    "inventory:capacity=10,horizon=12",
]
TARGETS = ["50 visits", "10 visits", "5 visits", "1 visit", "unbalanced", "proportional"]
REACH = 0.01
CAP = 30
PAPER_SEEDS = 2

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "covering.svg"

MakeGame = Callable[[Target, bool], Game]


def range_aware(adversary: Any, *, borrowing: bool = False) -> MakeGame:
    """Our planner with another adversary."""
    return lambda target, pooled: Game(
        target,
        OptimisticPlanner(RangeAwareOptimism()),
        adversary,
        Counts(target.shape, pooled=pooled, borrowing=borrowing),
    )


METHODS: dict[str, MakeGame] = {
    "default": lambda target, pooled: default_game(target, pooled=pooled),
    "default, stages apart": lambda target, _: default_game(target, pooled=False),
    "default, stages apart, nothing borrowed": lambda target, _: range_aware(TargetAware())(
        target, False
    ),
    "paper's adversary, range-aware": range_aware(WeightedMajority(), borrowing=True),
    "GOSPRL reward, range-aware": range_aware(MissingOnly(), borrowing=True),
    "paper": lambda target, _: paper_game(target, delta=0.1),
}
FLOW_POLICY = "flow policy, model known"


def wanted(model: TabularMDP, name: str) -> Target:
    """One of ``TARGETS`` on a world."""
    if name == "unbalanced":
        everywhere = cg.uniform(1).resolve(model.transitions)
        spread = 10 ** np.random.default_rng(5).uniform(0, 3, len(everywhere))
        asked = Target(everywhere.shape, everywhere.rows, np.round(spread))
    elif name == "proportional":
        asked = cg.proportional(500).resolve(model.transitions)
    else:
        asked = cg.uniform(float(name.partition(" ")[0])).resolve(model.transitions)
    return drop_rarely_reached(asked, model.transitions, REACH).target


def episodes(game: Game, model: TabularMDP, seed: int, most: int) -> int:
    """tau, or ``most`` if that is reached first."""
    for _ in blocks(game, SimulatedSource(model, seed), size=512, record=False):
        if game.counts.n_episodes >= most:
            return most
    return game.counts.n_episodes


def flow_policy_episodes(model: TabularMDP, cost: MinFlow, seed: int, most: int) -> int:
    """tau of a policy that knows the model, plays phi*'s policy and does not look."""
    rng, target = np.random.default_rng(seed), cost.target
    visits, played = np.zeros(target.shape.cells, dtype=np.int64), 0
    while played < most:
        cells = simulate(model, cost.policy, rng, 512)
        after = visits + np.bincount(cells[cells >= 0], minlength=len(visits))
        if (target.collected(after) >= target.counts).all():
            for row in cells:
                visits[row[row >= 0]] += 1
                played += 1
                if (target.collected(visits) >= target.counts).all():
                    return played
        visits, played = after, played + len(cells)
    return most


def simulate(
    model: TabularMDP, policy: Policy, rng: np.random.Generator, episodes: int
) -> IntArray:
    """The cells that episodes of a policy visit, (episodes, H); -1 after the end."""
    H, _, A = model.shape.hsa
    chances = policy.probabilities()
    cells = np.full((episodes, H), -1, dtype=np.int64)
    state = rng.choice(model.shape.states, size=episodes, p=model.initial)
    alive = np.arange(episodes)
    for h in range(H):
        action = _draw(chances[h][state], rng)
        cells[alive, h] = (h * model.shape.states + state) * A + action
        if h + 1 == H:
            break
        kernel = model.transitions.stages[h]
        row = state * A + action
        following = np.empty(len(row), dtype=np.int64)
        for pair in np.unique(row):
            here = row == pair
            entries = slice(kernel.start[pair], kernel.start[pair + 1])
            chance = kernel.probability[entries] / kernel.probability[entries].sum()
            following[here] = rng.choice(kernel.next_state[entries], size=here.sum(), p=chance)
        alive, state = alive[following != END], following[following != END]
    return cells


def _draw(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    drawn: IntArray = (rng.random((len(chances), 1)) > np.cumsum(chances, axis=1)).sum(axis=1)
    last: IntArray = np.minimum(drawn, chances.shape[1] - 1)
    return last


def measure(target_name: str, seeds: int) -> list[dict[str, Any]]:
    """tau/phi* of every method on every world, for one target."""
    rows: list[dict[str, Any]] = []
    for env in WORLDS:
        model = cg.make(env).require_model("a benchmark")
        target = wanted(model, target_name)
        cost = min_flow(model.transitions, target)
        most = int(CAP * cost.min_episodes)

        def tau(name: str, seed: int, model: TabularMDP = model, cost: MinFlow = cost,
                most: int = most) -> int:  # fmt: skip
            if name == FLOW_POLICY:
                return flow_policy_episodes(model, cost, seed, most)
            game = METHODS[name](cost.target, model.transitions.stationary)
            return episodes(game, model, seed, most)

        for name in [*METHODS, FLOW_POLICY]:
            if name == "paper" and target_name not in ("50 visits", "1 visit"):
                continue  # hours, for the same answer
            began = time.perf_counter()
            runs = min(seeds, PAPER_SEEDS) if name == "paper" else seeds
            taus = [tau(name, seed) for seed in range(runs)]
            rows.append(
                {
                    "target": target_name,
                    "env": env,
                    "method": name,
                    "phi": cost.min_episodes,
                    "ratios": [t / cost.min_episodes for t in taus],
                    "capped": sum(t >= most for t in taus),
                    "seconds": time.perf_counter() - began,
                }
            )
    return rows


def summary(rows: list[dict[str, Any]], target: str, method: str) -> str:
    """The geometric mean over worlds of the mean over seeds, for a glance."""
    means = [np.mean(r["ratios"]) for r in rows if (r["target"], r["method"]) == (target, method)]
    return f"{np.exp(np.mean(np.log(means))):.3f}" if means else "-"


def draw(rows: list[dict[str, Any]]) -> None:
    """tau/phi* of every method for every target, with the lower bound."""
    from covgame.report.figures import new_figure, save_figure

    figure = new_figure(9.5, 3.8)
    axes = figure.subplots()
    markers = dict(zip([*METHODS, FLOW_POLICY], "oDd^sXP", strict=True))
    for shift, (method, marker) in zip(np.linspace(-0.3, 0.3, 7), markers.items(), strict=True):
        points = [
            (place + shift, float(summary(rows, target, method)))
            for place, target in enumerate(TARGETS)
            if summary(rows, target, method) != "-"
        ]
        axes.plot(*zip(*points, strict=True), marker, label=method, markersize=6)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set_yscale("log")
    axes.set_yticks([1, 1.2, 1.5, 2, 3, 5, 10, 20], ["1", "1.2", "1.5", "2", "3", "5", "10", "20"])
    axes.set_xticks(range(len(TARGETS)), TARGETS)
    axes.set_ylabel("episodes / phi*")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, FIGURE)


def main() -> None:
    """Measure all targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one target, two seeds, not saved")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--draw", action="store_true", help="only the figure, from what is saved")
    arguments = parser.parse_args()
    if arguments.draw:
        draw(_results.read("covering")["rows"])
        return
    rows: list[dict[str, Any]] = []
    for target in ["5 visits"] if arguments.quick else TARGETS:
        seeds = 2 if arguments.quick else arguments.seeds * (4 if target == "1 visit" else 1)
        rows += measure(target, seeds)
        for method in [*METHODS, FLOW_POLICY]:
            print(f"{target:>14}  {method:<42} {summary(rows, target, method)}", flush=True)
    if not arguments.quick:
        _results.write("covering", rows, cap=CAP, reach=REACH)
        draw(rows)


if __name__ == "__main__":
    main()
