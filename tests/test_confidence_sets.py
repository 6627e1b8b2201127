"""Confidence sets by mixtures: their thresholds, and the best and worst cases of KL balls."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import betaln, gammaln, xlogy

from covgame.game.counts import Counts
from covgame.kernels import confidence as kernel
from covgame.pac.mixtures import ConfidenceSets, Structure
from covgame.types import FloatArray, Shape
from tests.evidence import allowed_failures, data, small

seeds = st.integers(0, 2**31)


# ------------------------------------------------------------------------------ KL balls


def by_duality(p: FloatArray, v: FloatArray, radius: float, beyond: float) -> float:
    """min over nu >= max V of nu - exp(sum p log(nu - V) - radius), by a general minimiser."""
    top = max(float(v.max()), beyond)

    def value(log_gap: float) -> float:
        nu = top + math.exp(log_gap)
        return float(nu - np.exp(p @ np.log(nu - v) - radius))

    found = min(
        minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-11}).fun
        for bounds in ((-30, -5), (-8, 3), (0, 14))
    )
    if beyond > v.max():
        found = min(found, float(beyond - np.exp(p @ np.log(beyond - v) - radius)))
    return float(min(found, top))


@settings(max_examples=1000)
@given(seeds)
def test_the_best_of_a_ball_against_a_general_minimiser(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 7))
    p = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 10.0]))) + 1e-7
    p /= p.sum()
    v = rng.random(size) * rng.choice([1.0, 20.0])
    if rng.random() < 0.3:
        v = np.round(v, 1)  # ties
    radius = 10 ** rng.uniform(-5, 1)
    beyond = float(rng.choice([-np.inf, rng.random() * 2 * v.max()]))
    mine = kernel.best_of_ball(p, v, size, radius, beyond)
    exact = by_duality(p, v, radius, beyond)
    assert mine == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert mine >= exact - 1e-7 * max(1.0, abs(exact))


@pytest.mark.parametrize("seed", range(8))
def test_the_best_of_a_ball_against_a_convex_program(seed: int) -> None:
    """max q V over the ball, unseen successor included, by SLSQP."""
    rng = np.random.default_rng(seed)
    p, v = rng.dirichlet(np.ones(4)), rng.random(5)
    radius = float(rng.choice([0.01, 0.1, 0.5]))

    def room(q: FloatArray) -> float:
        return float(radius - (p * np.log(p / q[:4])).sum())

    found = minimize(
        lambda q: -(q @ v),
        np.append(0.98 * p, 0.02),
        method="SLSQP",
        bounds=[(1e-9, 1)] * 5,
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "ineq", "fun": room},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    mine = kernel.best_of_ball(p, v[:4], 4, radius, v[4])
    assert mine == pytest.approx(-found.fun, abs=2e-5)


def test_the_corners_of_a_ball() -> None:
    one, values = np.ones(1), np.array([0.4])
    assert kernel.best_of_ball(one, values, 1, 0.5, -np.inf) == 0.4  # a single point, closed
    assert kernel.best_of_ball(one, values, 1, np.inf, 0.9) == 0.9  # nothing known
    assert kernel.best_of_ball(one, values, 0, 0.1, 0.9) == 0.9  # nothing seen
    assert kernel.best_of_ball(one, values, 1, 0.0, 0.9) == 0.4  # everything known
    open_ball = kernel.best_of_ball(one, values, 1, 0.5, 1.0)
    assert open_ball == pytest.approx(0.4 + 0.6 * (1 - math.exp(-0.5)))
    same = np.array([0.3, 0.3])
    assert kernel.best_of_ball(np.full(2, 0.5), same, 2, 1.0, 0.3) == pytest.approx(0.3)


# ------------------------------------------------------------------------- thresholds


def test_thresholds_by_hand() -> None:
    """The formulas of docs/certified.md, by scipy's functions."""
    counts = Counts(Shape(2, 3, 1), pooled=False)
    for successor, times in ((0, 5), (2, 2), (-1, 1)):
        counts.table.add(1, successor, times)
    sets = ConfidenceSets(counts, Structure(known_start=np.array([1.0, 0, 0])), 0.1)
    n, seen = 8, np.array([5, 2, 1, 0])
    mixture = gammaln(1) - gammaln(n + 1) + (gammaln(seen + 0.25) - gammaln(0.25)).sum()
    expected = math.log(3 / 0.1) + xlogy(seen, seen / n).sum() - mixture
    assert sets.transitions[1] == pytest.approx(expected)
    assert sets.transitions[0] == np.inf
    fixed = math.log(60) + 0.5 * math.log(math.pi) + gammaln(9) - gammaln(8.5)
    assert sets.fixed_function[1] == pytest.approx(fixed)
    out = np.empty(1)
    kernel.mean_thresholds(np.array([8]), np.array([3.0]), math.log(10), out)
    mixture = betaln(3.5, 5.5) - betaln(0.5, 0.5)
    assert out[0] == pytest.approx(
        math.log(10) + 3 * math.log(3 / 8) + 5 * math.log(5 / 8) - mixture
    )


@pytest.mark.parametrize("delta", [0.02, 0.1])
@pytest.mark.parametrize("law", [[0.5, 0.3, 0.2, 0.0], [0.97, 0.01, 0.01, 0.01]])
def test_transitions_stay_inside_at_all_times(law: list[float], delta: float) -> None:
    """The worst time within 300 steps is looked for: a stopping rule that wants to see it fail."""
    runs, failed, true = 300, 0, np.array(law)
    rng = np.random.default_rng(1)
    for _ in range(runs):
        draws = rng.choice(4, size=300, p=true)
        counts = np.cumsum(np.eye(4)[draws], axis=0)
        n = np.arange(1, 301)
        mixture = -gammaln(n + 1) + (gammaln(counts + 0.25) - gammaln(0.25)).sum(axis=1)
        threshold = -math.log(delta) + xlogy(counts, counts / n[:, None]).sum(axis=1) - mixture
        with np.errstate(divide="ignore"):
            spread = xlogy(counts, counts / n[:, None] / np.maximum(true, 1e-300)).sum(axis=1)
        failed += bool((spread > threshold).any())
    assert failed <= allowed_failures(delta, runs)


@pytest.mark.parametrize("delta", [0.02, 0.1])
@pytest.mark.parametrize("kind", ["coin", "uniform", "rare"])
def test_means_stay_inside_at_all_times(kind: str, delta: float) -> None:
    runs, failed = 300, 0
    rng = np.random.default_rng(2)
    mean = {"coin": 0.3, "uniform": 0.5, "rare": 0.02}[kind]
    for _ in range(runs):
        drawn = rng.random(200)
        sample = drawn if kind == "uniform" else (drawn < mean).astype(float)
        visits = np.arange(1, 201)
        sums, thresholds = np.cumsum(sample), np.empty(200)
        kernel.mean_thresholds(visits, sums, -math.log(delta), thresholds)
        low, high = np.empty(200), np.empty(200)
        kernel.mean_bounds(visits, sums, thresholds, low, high)
        failed += bool(((mean < low) | (mean > high)).any())
    assert failed <= allowed_failures(delta, runs)


@pytest.mark.parametrize("delta", [0.02, 0.1])
def test_a_fixed_function_stays_below_at_all_times(delta: float) -> None:
    """The alphabet has fifty letters; the threshold does not know."""
    rng = np.random.default_rng(3)
    true, values = rng.dirichlet(np.full(50, 0.3)), rng.random(50)
    mean, runs, failed = float(true @ values), 150, 0
    for _ in range(runs):
        draws = rng.choice(50, size=120, p=true)
        worst = False
        for n in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 120):
            seen, times = np.unique(draws[:n], return_counts=True)
            threshold = -math.log(delta) + 0.5 * math.log(math.pi)
            threshold += gammaln(n + 1) - gammaln(n + 0.5)
            beyond = np.delete(values, seen).max()
            upper = kernel.best_of_ball(times / n, values[seen], len(seen), threshold / n, beyond)
            worst |= bool(upper < mean)
        failed += worst
    assert failed <= allowed_failures(delta, runs)


def test_the_mixture_pays_most_at_the_ends() -> None:
    """max_k of sup l^k (1-l)^(n-k) over its Beta(1/2,1/2) mean is attained at k = 0 (Lemma 3)."""
    for n in range(1, 200):
        k = np.arange(n + 1)
        largest = xlogy(k, k / n) + xlogy(n - k, 1 - k / n)
        ratio = largest - (betaln(k + 0.5, n - k + 0.5) - math.log(math.pi))
        assert ratio.max() <= ratio[0] + 1e-9
        claimed = 0.5 * math.log(math.pi) + gammaln(n + 1) - gammaln(n + 0.5)
        assert ratio[0] == pytest.approx(claimed)


def test_one_function_per_stage_is_paid_for() -> None:
    """Pooled or not, V* of every later stage needs its share of the risk (Lemma 3)."""
    world = small(1, stationary=True)
    apart, pooled = (data(world, 100, 0, pooled=flag) for flag in (False, True))
    level = math.log((3 * 3 * 2 + 1) / 0.1)
    for counts in (apart, pooled):
        sets = ConfidenceSets(counts, Structure(), 0.1)
        n = counts.table.total[counts.table.total > 0][0]
        expected = level + 0.5 * math.log(math.pi) + gammaln(n + 1) - gammaln(n + 0.5)
        assert sets.fixed_function[counts.table.total > 0][0] == pytest.approx(expected)


@pytest.mark.parametrize("symbols", [1, 2, 4])
def test_the_mixture_over_transitions_is_a_law(symbols: int) -> None:
    """The chances Q of all sequences of successors add up to 1: exact, where counting is not."""
    n = 5
    total = 0.0
    for sequence in product(range(symbols), repeat=n):
        seen = Counter(sequence)
        counts = Counts(Shape(2, 4, 1), pooled=False)
        for successor, times in seen.items():
            counts.table.add(0, successor, times)
        out = np.empty(len(counts.table))
        kernel.transition_thresholds(counts.table.rows, counts.table.entries, symbols, 0.0, out)
        likeliest = sum(times * math.log(times / n) for times in seen.values())
        total += math.exp(likeliest - out[0])
    assert total == pytest.approx(1.0)


def test_the_mixture_over_means_is_a_law() -> None:
    """So do the chances of all sequences of heads and tails."""
    n, total = 9, 0.0
    for heads in range(n + 1):
        out = np.empty(1)
        kernel.mean_thresholds(np.array([n]), np.array([float(heads)]), 0.0, out)
        likeliest = xlogy(heads, heads / n) + xlogy(n - heads, 1 - heads / n)
        total += math.comb(n, heads) * math.exp(likeliest - out[0])
    assert total == pytest.approx(1.0)


def test_a_threshold_without_its_level_would_be_found_out() -> None:
    """What the counted tests can see: at delta = 1 most runs leave the interval sometime."""
    runs, failed = 100, 0
    rng = np.random.default_rng(2)
    for _ in range(runs):
        sums, visits = np.cumsum(rng.random(200) < 0.3).astype(float), np.arange(1, 201)
        thresholds, low, high = np.empty((3, 200))
        kernel.mean_thresholds(visits, sums, -1.5, thresholds)
        kernel.mean_bounds(visits, sums, np.maximum(thresholds, 0.0), low, high)
        failed += bool(((low > 0.3) | (high < 0.3)).any())
    assert failed > allowed_failures(0.1, runs)
