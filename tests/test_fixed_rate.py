"""Theorem D1 (docs/fixed-rate-game.md): how long the fixed-rate game plays on a known model."""

from __future__ import annotations

from math import ceil, exp, log

import numpy as np
import pytest
from scipy.stats import binom

import covgame as cg
from covgame.flow.min_flow import min_flow
from covgame.mdp import dp
from covgame.targets.target import Target

DELTA = 0.1


def factor(rows: int, least: float, alpha: float, visits: float = 1.0) -> float:
    """The theorem's episodes over phi*."""
    eta = alpha * least / visits
    return (1 + log(rows / DELTA) / eta) / (1 - alpha / 2)


def best_alpha(rows: int, least: float, visits: float = 1.0) -> float:
    alphas: list[float] = np.linspace(0.01, 1, 400).tolist()
    return min(alphas, key=lambda alpha: factor(rows, least, alpha, visits))


def episodes_until_covered(
    model: cg.TabularMDP, target: Target, alpha: float, rng: np.random.Generator
) -> int:
    """The game as the page states it, on simulated episodes."""
    H, S, _ = model.shape.hsa
    counts, per_episode = target.counts, target.most_per_episode
    eta = alpha * counts.min() / per_episode
    seen, played = np.zeros(len(target)), 0
    kernels = model.transitions.stages
    while (seen < counts).any():
        weights = np.where(seen < counts, np.exp(-eta * seen / counts) / counts, 0.0)
        best = dp.backward_induction(model.transitions, target.cell_rewards(weights))
        visits = np.zeros(model.shape.hsa)
        state = int(rng.choice(S, p=model.initial))
        for h in range(H):
            action = int(best.policy.table[h, state])
            visits[h, state, action] = 1
            pair = state * model.shape.actions + action
            entries = slice(kernels[h].start[pair], kernels[h].start[pair + 1])
            if h + 1 == H:
                break
            state = int(
                rng.choice(kernels[h].next_state[entries], p=kernels[h].probability[entries])
            )
            if state == cg.END:
                break
        seen += target.collected(visits)
        played += 1
    return played


@pytest.mark.parametrize(
    ("name", "request_", "runs"),
    [
        ("garnet:states=3,actions=2,horizon=3", "uniform:20", 30),
        ("riverswim:states=3,horizon=4", "uniform:20/pair", 20),
    ],
)
def test_the_game_ends_in_time(name: str, request_: str, runs: int) -> None:
    """At most a share delta of runs is longer than the theorem says; rows of cells and of pairs."""
    model = cg.make(name).require_model("a test")
    target = cg.plan(name, request_, min_reach=0.05).target
    phi = min_flow(model.transitions, target).upper
    visits = target.most_per_episode
    alpha = best_alpha(len(target), float(target.counts.min()), visits)
    most = ceil(phi * factor(len(target), float(target.counts.min()), alpha, visits))
    rng = np.random.default_rng(1)
    late = sum(episodes_until_covered(model, target, alpha, rng) > most for _ in range(runs))
    assert late <= DELTA * runs


@pytest.mark.parametrize("count", [50, 200])
@pytest.mark.parametrize("p", [0.02, 0.1])
def test_one_row_by_chance_is_nearly_tight(count: int, p: float) -> None:
    """m = 1: tau is the number of episodes until ``count`` of them succeed, and phi* = count/p."""
    alpha = best_alpha(1, count)
    phi, bound = count / p, factor(1, count, alpha)

    def is_late(episodes: float) -> float:
        return float(binom.cdf(count - 1, ceil(episodes), p))

    assert is_late(phi * bound) <= DELTA
    quantile = next(t for t in range(int(phi), int(3 * phi)) if is_late(t) <= DELTA)
    assert phi * bound <= quantile * (1.1 if count == 200 else 1.2)
    # Neither half of the formula can be dropped or have its sign changed.
    wrong_sign = (1 + log(1 / DELTA) / (alpha * count)) / (1 + alpha / 2)
    assert is_late(phi * wrong_sign) > DELTA
    no_logarithm = 1 / (1 - alpha / 2)
    assert is_late(phi * no_logarithm) > DELTA


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_visits_are_no_exception(count: int) -> None:
    """For small counts too, and for every rate."""
    for p in (0.05, 0.5, 0.9):
        for alpha in (0.2, 0.6, 1.0):
            episodes = ceil(count / p * factor(1, count, alpha))
            assert float(binom.cdf(count - 1, episodes, p)) <= DELTA


def test_the_potential_falls_as_the_proof_says() -> None:
    """1 - e^{-z} >= z (1 - alpha/2) up to alpha, and not with alpha/4."""
    for alpha in (0.1, 0.5, 1.0):
        for z in np.linspace(0, alpha, 50):
            assert 1 - exp(-z) >= z * (1 - alpha / 2) - 1e-15
        assert 1 - exp(-alpha) < alpha * (1 - alpha / 4)


def test_the_factors_of_the_page() -> None:
    """What the page says of two worlds (rows that some policy reaches with chance 0.01)."""
    for name, factors in (
        ("garnet:states=4,actions=2,horizon=4", (1.59, 1.26)),
        ("riverswim:states=5,horizon=10", (1.67, 1.29)),
    ):
        rows = len(cg.plan(name, "uniform:1", min_reach=0.01).target)
        for count, said in zip((50, 200), factors, strict=True):
            found = factor(rows, count, best_alpha(rows, count))
            assert found == pytest.approx(said, abs=0.006)
