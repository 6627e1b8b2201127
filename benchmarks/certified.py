"""The certified preset beside the rules of the paper, RF-UCRL and RF-Express.

    python3 dev.py bench certified [--quick]

Episodes until eps = H/10 is proved with delta = 0.1, exploration included. The other rules would
need 10^5 to 10^11 episodes; they are asked how many episodes *in the same proportions* they would
need, of the certified run's data or of proportional coverage, whichever is less.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from covgame.baselines import rf_express, rf_ucrl
from covgame.confidence import PaperThresholds
from covgame.flow.min_flow import min_flow
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.pac.error_bounds import BestPolicyGap, Range, best_policy, reward_free
from covgame.pac.mixtures import Structure
from covgame.sources.counted import SortedSuccessors, draw_visits
from covgame.targets.target import Target
from covgame.types import FloatArray, FloatHSA, Policy

WORLDS: list[tuple[str, int | None]] = [
    ("garnet:states=4,actions=2,horizon=4", None),
    ("garnet:states=20,actions=4,horizon=10", None),
    ("riverswim:states=8,horizon=20", None),
    ("gym:FrozenLake-v1", 12),
    ("deepsea:size=10,noise=0.1", None),
]
DELTA = 0.1
GROWTH = 0.02

Rule = Callable[[TabularMDP, FloatHSA, Transitions, float], float]
"""From a world, the share of visits of every cell, a kernel and episodes to a promised error."""


def model_of(name: str, horizon: int | None) -> TabularMDP:
    """A world with its table."""
    return cg.make(name, horizon).require_model("a benchmark")


# --------------------------------------------------------------- the other stopping rules


def paper_rule(model: TabularMDP, shares: FloatHSA, kernel: Transitions, t: float) -> float:
    """sqrt(H beta^RF(t, delta/3) 2^(4-k)) with 2^k = min n/W: the paper's, visitations for free."""
    reach = dp.reachability(model.transitions)[:, :, None]
    H, S, _ = model.shape.hsa
    wanted = np.broadcast_to(np.where(reach >= H / 10 / (4 * S * H**2), reach, 0.0), shares.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        doubled = float(np.where(wanted > 0, t * shares / wanted, np.inf).min())
    beta = PaperThresholds(model.shape).reward_free(t, DELTA / 3)
    return math.sqrt(16 * H * beta / doubled) if doubled > 0 else math.inf


def rf_ucrl_rule(form: rf_ucrl.StoppingRule) -> Rule:
    """2 max E_1, E_h = min(R_h, R_h sqrt(factor beta(n)/n) + p_hat max E_{h+1}).

    Kaufmann et al., 2021; ``rf_ucrl.RULES`` says what R_h and the factor may be.
    """

    def rule(model: TabularMDP, shares: FloatHSA, kernel: Transitions, t: float) -> float:
        ranges = form.ranges(model.shape)[:, None, None]
        width = form.width(t * shares, model.shape, DELTA)
        cost = np.where(ranges > 0, ranges, 1.0) * width  # where nothing is left, the cap is 0
        return 2 * _recursion(kernel, cost, ranges, 1.0)

    return rule


def rf_express_rule(model: TabularMDP, shares: FloatHSA, kernel: Transitions, t: float) -> float:
    """2 (3e sqrt(W_1) + W_1), W_h = min(H, 15H^2 beta(n)/n + (1 + 1/H) p_hat max W_{h+1}).

    Menard et al., 2021, with beta(n) = log(3SAH/delta) + S log(8e(n+1)).
    """
    H, n = model.shape.horizon, t * shares
    beta = rf_express.threshold(n, model.shape, DELTA)
    with np.errstate(divide="ignore"):
        cost = 15 * H**2 * beta / n
    first = _recursion(kernel, cost, np.full((H, 1, 1), float(H)), 1 + 1 / H)
    return 2 * (3 * math.e * math.sqrt(first) + first)


def _recursion(kernel: Transitions, cost: FloatHSA, most: FloatArray, factor: float) -> float:
    following: FloatArray = np.zeros(kernel.shape.states)
    for h in reversed(range(kernel.shape.horizon)):
        value = np.minimum(most[h], cost[h])
        if h + 1 < kernel.shape.horizon:
            mean = kernel.stages[h].expect(following).reshape(value.shape)
            value = np.minimum(most[h], cost[h] + factor * mean)
        following = value.max(axis=1)
    return float(kernel.initial @ following)


def episodes_needed(rule: Rule, model: TabularMDP, shares: FloatHSA, kernel: Transitions) -> float:
    """The first t at which a rule stops, if data come in these proportions."""
    low, high = 1.0, 1e18
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        stops = rule(model, shares, kernel, middle) <= model.shape.horizon / 10
        low, high = (low, middle) if stops else (middle, high)
    return high


def other_rules(model: TabularMDP, counts: Counts) -> dict[str, float]:
    """Episodes of each rule, on the better of two allocations."""
    reach = dp.reachability(model.transitions)[:, :, None]
    wanted = np.broadcast_to(reach, model.shape.hsa)
    found = min_flow(model.transitions, Target.of_cells(np.ascontiguousarray(wanted)))
    proportional = found.flow / found.upper
    own = counts.visits / counts.n_episodes
    rules: dict[str, Rule] = {
        "paper": paper_rule,
        **{f"RF-UCRL, {name}": rf_ucrl_rule(form) for name, form in rf_ucrl.RULES.items()},
        "RF-Express": rf_express_rule,
    }
    return {
        name: min(
            episodes_needed(rule, model, proportional, model.transitions),
            episodes_needed(rule, model, own, counts.kernel()),
        )
        for name, rule in rules.items()
    }


# --------------------------------------------------------------------------- measurements


def reward_free_row(name: str, horizon: int | None) -> dict[str, Any]:
    """Certified episodes stage-dependent and pooled, and what the other rules would take."""
    model = model_of(name, horizon)
    epsilon = model.shape.horizon / 10
    began = time.perf_counter()
    # A table that Gymnasium shows is played as a model here: the lake's own steps are below.
    run = cg.explore(model, epsilon=epsilon, delta=DELTA, play="counts", stage_dependent=True)
    seconds = time.perf_counter() - began
    row: dict[str, Any] = {
        "env": name,
        "horizon": model.shape.horizon,
        "epsilon": epsilon,
        "certified": run.n_episodes,
        "seconds": seconds,
        **other_rules(model, run.counts),
    }
    if model.transitions.stationary:
        row["pooled"] = cg.explore(model, epsilon=epsilon, delta=DELTA, play="counts").n_episodes
    return row


def best_policy_row(name: str, horizon: int | None) -> dict[str, Any]:
    """Certified best policy, and the same certificate on data that know nothing of the reward."""
    model = model_of(name, horizon)
    epsilon = model.shape.horizon / 10
    run = cg.identify(model, epsilon=epsilon, delta=DELTA, stage_dependent=True)
    best = dp.backward_induction(model.transitions, model.rewards).values
    mine = dp.evaluate(model.transitions, run.policy, model.rewards)
    row: dict[str, Any] = {
        "identify": run.n_episodes,
        "true_gap": float(model.initial @ (best[0] - mine[0])),
        "proportional": _without_elimination(model, epsilon),
    }
    if model.transitions.stationary:
        row["identify pooled"] = cg.identify(model, epsilon=epsilon, delta=DELTA).n_episodes
    return row


def _without_elimination(model: TabularMDP, epsilon: float) -> int:
    """Episodes of the policy that covers in proportion to reachability, until the gap is proved."""
    policy = cg.plan(model, cg.proportional(1.0)).policy
    structure = Structure(known_start=model.initial)
    counts, successors, rng = (
        Counts(model.shape, pooled=False),
        SortedSuccessors(model),
        np.random.default_rng(0),
    )
    certificate: BestPolicyGap | None = None
    while certificate is None or certificate.gap > epsilon:
        more = max(1, int(GROWTH * counts.n_episodes))
        counts.add_visits(draw_visits(successors, Policy.stochastic(policy.table), more, rng))
        certificate = best_policy(counts, structure, DELTA, Range())
    return counts.n_episodes


def frozen_lake(epsilon: float) -> dict[str, Any]:
    """The lake with 50 stages, its own steps and its own reward, delta 0.05."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = cg.identify(
            "gym:FrozenLake-v1",
            horizon=50,
            epsilon=epsilon,
            delta=0.05,
            return_range=(0.0, 1.0),
            out=Path(folder) / "run",
        )
        seconds = time.perf_counter() - began
        cg.certify(Path(folder) / "run")
    found = run.conclusion
    if found is None:
        raise RuntimeError("it ended without a conclusion")
    model = model_of("gym:FrozenLake-v1", 50)
    mine = dp.evaluate(model.transitions, found.policy, model.rewards)
    best = dp.backward_induction(model.transitions, model.rewards).values
    return {
        "epsilon": epsilon,
        "episodes": run.n_episodes,
        "seconds": seconds,
        "lower": found.lower,
        "upper": found.upper,
        "value": float(model.initial @ mine[0]),
        "best": float(model.initial @ best[0]),
    }


def certificate_time(cells: int) -> dict[str, float]:
    """Seconds for one certificate of each kind on a world of so many cells."""
    world = model_of(f"garnet:states={cells // 40},actions=4,horizon=10,branching=3", None)
    counts = Counts(world.shape, pooled=False)
    rng = np.random.default_rng(0)
    counts.add_visits(
        draw_visits(SortedSuccessors(world), Policy.uniform(world.shape), 30_000, rng)
    )
    answer: dict[str, float] = {"cells": float(world.shape.cells)}
    for name in ("reward_free", "best_policy"):
        for _ in range(2):  # the first one compiles
            began = time.perf_counter()
            if name == "reward_free":
                _ = reward_free(counts, Structure(), DELTA).error
            else:
                _ = best_policy(counts, Structure(), DELTA, Range()).gap
            answer[name] = time.perf_counter() - began
    return answer


def main() -> None:
    """All five worlds, then the lake, then the clock."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first world only, not saved")
    quick = parser.parse_args().quick
    rows = []
    for name, horizon in WORLDS[:1] if quick else WORLDS:
        rows.append(reward_free_row(name, horizon) | best_policy_row(name, horizon))
        print(rows[-1], flush=True)
    lake = [frozen_lake(epsilon) for epsilon in ([0.5] if quick else [0.2, 0.1])]
    print(lake, flush=True)
    clock = [certificate_time(cells) for cells in ([1_000] if quick else [1_000, 10_000, 100_000])]
    print(clock, flush=True)
    if not quick:
        _results.write("certified", rows, lake=lake, clock=clock)


if __name__ == "__main__":
    main()
