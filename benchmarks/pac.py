"""The paper's PAC algorithms at the paper's own constants.

    python3 dev.py bench pac [--quick]

- the two runs of the README: PCE and PRINCIPLE on a toy, by counts
- EstimateVisitations a thousand times on random worlds: does the theorem ever fail?
- PCE's model against the worst of all rewards, found exactly
- CovGame inside PCE: episodes over phi* from phase to phase, beside Theorem 2 (figure)
- PRINCIPLE on the two-branch world: what elimination saves, beside the functionals
- PruneDataset on the rare prize: what is believed, and how often the policy is wrong
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from benchmarks._worst_case import worst_reward
from covgame.confidence import PaperThresholds
from covgame.engine.engines import COARSE, CountsEngine
from covgame.flow.functionals import functionals
from covgame.flow.min_flow import min_flow
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.pce import ProportionalCoverage
from covgame.pac.principle import ImplicitElimination
from covgame.pac.visitations import EstimateVisitations
from covgame.targets.target import Target
from covgame.types import FloatHSA, Policy

TOY = "garnet:states=3,actions=2,horizon=3"
DELTA = 0.1
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "theorem_2.svg"

SCAN = [
    (states, actions, horizon, horizon / share)
    for states, actions, horizon in [
        *((2, 2, 2), (3, 2, 2), (4, 2, 2), (5, 2, 2)),
        *((3, 3, 2), (3, 4, 2), (3, 2, 3), (3, 2, 4)),
        *((4, 3, 3), (5, 2, 4)),
    ]
    for share in (2, 8, 32)
]


def toy(seed: int, states: int, actions: int, horizon: int) -> TabularMDP:
    """A random world; every second one is stationary."""
    stationary = "true" if seed % 2 else "false"
    name = f"garnet:states={states},actions={actions},horizon={horizon},branching=2"
    return cg.make(f"{name},seed={seed},stationary={stationary}").require_model("a benchmark")


def first_runs() -> list[dict[str, Any]]:
    """PCE at eps 1.5 and PRINCIPLE at eps 1: episodes, and seconds on one core."""
    rows = []
    cg.cover(TOY, "uniform:10", preset="paper", play="counts")  # compile
    learners: list[tuple[str, Callable[..., Any], float]] = [
        ("PCE", cg.explore, 1.5),
        ("PRINCIPLE", cg.identify, 1.0),
    ]
    for name, learn, epsilon in learners:
        began = time.perf_counter()
        run = learn(TOY, epsilon=epsilon, delta=DELTA, preset="paper")
        rows.append(
            {
                "algorithm": name,
                "epsilon": epsilon,
                "episodes": run.n_episodes,
                "conclusions_rest_on": run.counts.n_episodes,
                "phases": len(run.phases),
                "seconds": time.perf_counter() - began,
            }
        )
        print(rows[-1], flush=True)
    return rows


def visitations(runs: int) -> dict[str, Any]:
    """Theorem estimate-visitations on random worlds: how often does which part fail?"""
    failed = {"interval": 0, "inclusions": 0, "factor 36": 0}
    tightest, episodes = 0.0, 0
    for number in range(runs):
        states, horizon = 2 + number % 2, 2 + number // 2 % 2
        world = toy(number, states, 2, horizon)
        found = EstimateVisitations(PaperThresholds(world.shape), 0.1, DELTA)
        while (part := found.next_task()) is not None:
            player = CountsEngine(part.game, world, number, COARSE)
            while not part.over:
                player.play(part.left or 0)
            found.tell(part)
        reach, kept = dp.reachability(world.transitions), found.kept()
        failed["interval"] += bool(((found.lower > reach) | (found.upper < reach)).any())
        failed["inclusions"] += bool(
            (~kept[reach >= found.precision]).any() or (reach[kept] < found.precision / 8).any()
        )
        failed["factor 36"] += bool((found.upper[kept] > 36 * reach[kept]).any())
        tightest = max(tightest, float((found.upper[kept] / reach[kept]).max()))
        episodes += found.counts.n_episodes
    answer = {
        "runs": runs,
        "failed": failed,
        "largest_factor": tightest,
        "episodes_a_run": episodes / runs,
    }
    print(answer, flush=True)
    return answer


def worst_rewards(runs: int) -> list[dict[str, Any]]:
    """PCE's certified error beside the exact worst case over all rewards in [0,1]."""
    rows = []
    for states, horizon, epsilon in ((2, 2, 0.5), (3, 2, 0.5), (3, 3, 1.5)):
        losses, certified = [], []
        for seed in range(runs):
            world = toy(seed, states, 2, horizon)
            run = cg.explore(world, epsilon=epsilon, delta=DELTA, preset="paper", seed=seed)
            losses.append(worst_reward(world.transitions, run.model.transitions).loss)
            certified.append(run.certified_error or math.inf)
        rows.append(
            {
                "states": states,
                "horizon": horizon,
                "epsilon": epsilon,
                "runs": runs,
                "worst_loss": max(losses),
                "certified": min(certified),
                "failed": sum(loss > epsilon for loss in losses),
            }
        )
        print(rows[-1], flush=True)
    return rows


def scan_one(states: int, actions: int, horizon: int, epsilon: float) -> dict[str, Any]:
    """PCE on one world: every phase's episodes beside phi* of its target and Theorem 2."""
    world = toy(1, states, actions, horizon)
    began = time.perf_counter()
    run = cg.explore(world, epsilon=epsilon, delta=DELTA, preset="paper")
    seconds = time.perf_counter() - began
    pce = run.algorithm
    if not isinstance(pce, ProportionalCoverage):
        raise TypeError("the paper's preset is PCE")
    visited = pce.visitations
    upper = np.where(visited.kept(), visited.upper, 0.0)
    cost = _cost(world, upper)
    cost_of_one = _cost(world, (upper > 0).astype(np.float64))
    thresholds = pce.thresholds
    phases = []
    for k, phase in enumerate(run.phases[visited.done + 1 :], start=1):
        wanted = 2.0**k * upper[upper > 0]
        levels = max(1, math.ceil(math.log2(wanted.max() / max(1.0, wanted.min()))))
        delta = DELTA / (6 * (k + 1) ** 2)
        bound = thresholds.covering_episodes(2.0**k * cost, cost_of_one, levels, delta)
        phases.append({"episodes": phase.episodes, "phi": 2.0**k * cost, "bound": bound})
    reach = dp.reachability(world.transitions)
    hardly = epsilon / (32 * states * horizon**2)
    leading = _cost(world, np.where(reach >= hardly, reach, 0.0)) / epsilon**2
    beta = thresholds.reward_free(run.counts.n_episodes, DELTA / 3)
    return {
        "states": states,
        "actions": actions,
        "horizon": horizon,
        "epsilon": epsilon,
        "visitation_episodes": sum(phase.episodes for phase in visited.phases),
        "phase_episodes": run.counts.n_episodes,
        "leading_term": horizon * beta * leading,
        "last_ratio": phases[-1]["episodes"] / phases[-1]["phi"],
        "last_bound": phases[-1]["bound"] / phases[-1]["phi"],
        "seconds": seconds,
        "phases": phases,
    }


def _cost(world: TabularMDP, per_state: FloatHSA) -> float:
    return _needed(world, np.repeat(per_state[:, :, None], world.shape.actions, axis=2))


def _needed(world: TabularMDP, wanted: FloatHSA) -> float:
    return min_flow(world.transitions, Target.of_cells(wanted)).min_episodes


def draw(rows: list[dict[str, Any]]) -> None:
    """Episodes over phi* by phases, Theorem 2, and all phases beside the leading term."""
    from covgame.report.figures import new_figure, save_figure

    figure = new_figure(12.5, 3.8)
    left, middle, right = figure.subplots(1, 3)
    for row in rows:
        if row["epsilon"] == row["horizon"] / 32:
            phi = [phase["phi"] for phase in row["phases"]]
            ratio = [phase["episodes"] / phase["phi"] for phase in row["phases"]]
            bound = [phase["bound"] / phase["phi"] for phase in row["phases"]]
            label = f"S {row['states']}, A {row['actions']}, H {row['horizon']}"
            left.plot(phi, ratio, linewidth=1, label=label)
            middle.plot(phi, bound, linewidth=1)
    left.axhline(1.0, color="black", linewidth=1)
    left.set_yscale("log")
    left.set_yticks([1, 2, 5], ["1", "2", "5"])
    left.minorticks_off()
    left.set_title("measured", fontsize=9)
    left.legend(fontsize=6)
    middle.set_yscale("log")
    middle.set_title("the bound of Theorem 2", fontsize=9)
    for axes in (left, middle):
        axes.set_xscale("log")
        axes.set_xlabel("phi* of a phase's target")
        axes.set_ylabel("episodes of the phase / phi*")
    for marker, share in (("o", 2), ("s", 8), ("^", 32)):
        mine = [row for row in rows if row["epsilon"] == row["horizon"] / share]
        right.plot(
            [row["leading_term"] for row in mine],
            [row["phase_episodes"] for row in mine],
            marker,
            label=f"eps = H/{share}",
        )
    ends = np.array([row["leading_term"] for row in rows])
    ends = np.array([ends.min(), ends.max()])
    right.plot(ends, ends, color="black", linewidth=1, label="equal")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("leading term H beta phi*([W])/eps^2")
    right.set_ylabel("episodes of all phases")
    right.legend(fontsize=7)
    save_figure(figure, FIGURE)


def two_branches(epsilons: list[float]) -> list[dict[str, Any]]:
    """PRINCIPLE where a large branch can be ruled out: how much of it is still visited?"""
    rows = []
    world = cg.make("twobranch:states=8,actions=2,horizon=3,gap=1").require_model("a benchmark")
    for epsilon in epsilons:
        began = time.perf_counter()
        run = cg.identify(world, epsilon=epsilon, delta=DELTA, preset="paper")
        principle = run.algorithm
        if not isinstance(principle, ImplicitElimination):
            raise TypeError("the paper's preset is PRINCIPLE")
        exists = principle.exists
        barren = exists.copy()
        barren[:, : 1 + max(1, round(math.log(8)))] = False
        uniform = 2.0 ** (principle.k - 1)
        everything = _needed(world, np.where(exists, uniform, 0.0))
        entered = int(run.counts.visits[0, 0, 1:].sum())
        needed = _needed(world, np.where(barren, uniform, 0.0))
        found = functionals(world.transitions, world.rewards, epsilon)
        rows.append(
            {
                "epsilon": epsilon,
                "episodes": run.n_episodes,
                "phases": principle.k - 1,
                "entered_over_uniform": entered / needed,
                "episodes_over_uniform": run.n_episodes / everything,
                "functional_share": found.principle / found.pce,
                "principle": found.principle,
                "pce": found.pce,
                "moca": found.moca,
                "gap": _loss(world, run.policy),
                "seconds": time.perf_counter() - began,
            }
        )
        print(rows[-1], flush=True)
    return rows


def _loss(world: TabularMDP, policy: Policy) -> float:
    best = dp.backward_induction(world.transitions, world.rewards).values
    mine = dp.evaluate(world.transitions, policy, world.rewards)
    return float(world.initial @ (best[0] - mine[0]))


def pruning(scales: list[float], runs: int) -> list[dict[str, Any]]:
    """The rare prize (chance .01) with PruneDataset and without, at growing amounts of data."""
    rows = []
    world = cg.make("rareprize").require_model("a benchmark")
    for scale in scales:
        for prune in (False, True):
            believed, wrong, episodes = [], 0, 0
            for seed in range(runs):
                run = cg.identify(
                    world,
                    epsilon=0.2,
                    delta=DELTA,
                    preset="paper",
                    play="exact",
                    scale=scale,
                    prune=prune,
                    seed=seed,
                )
                believed.append(float(run.counts.kernel().stages[0].probability[0]))
                wrong += _loss(world, run.policy) > 0.2
                episodes += run.n_episodes
            rows.append(
                {
                    "scale": scale,
                    "pruned": prune,
                    "runs": runs,
                    "wrong": wrong,
                    "believed": float(np.mean(believed)),
                    "episodes": episodes / runs,
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """All of it; the thousand runs take longest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a taste of each, not saved")
    quick = parser.parse_args().quick
    toys = first_runs()
    chances = visitations(10 if quick else 1000)
    rewards = worst_rewards(1 if quick else 10)
    rows = []
    for states, actions, horizon, epsilon in SCAN[:2] if quick else SCAN:
        rows.append(scan_one(states, actions, horizon, epsilon))
        print({k: v for k, v in rows[-1].items() if k != "phases"}, flush=True)
    branches = two_branches([0.4] if quick else [0.4, 0.2, 0.1, 0.05, 0.02])
    pruned = pruning([2e-5] if quick else [2e-5, 1e-4, 3e-4], 2 if quick else 10)
    if not quick:
        _results.write(
            "pac",
            rows,
            first_runs=toys,
            visitations=chances,
            worst_rewards=rewards,
            two_branches=branches,
            pruning=pruned,
        )
        draw(rows)


if __name__ == "__main__":
    main()
