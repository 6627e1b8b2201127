"""The joint budget in plain Python: the specification of ``kernels/budget.py``.

Functions have the names of the compiled ones, and the lemma of docs/certified.md that they come
from. Suprema are looked for on grids. A row is a list of how often each successor was seen, a law
a list of probabilities of these successors; what is missing to 1 belongs to others, never seen.
"""

from __future__ import annotations

from itertools import combinations
from math import exp, expm1, inf, lgamma, log, log1p, sqrt

import numpy as np
from scipy.optimize import minimize_scalar

from covgame.game.counts import Counts
from covgame.types import END, BoolArray, FloatArray
from tests.reference.recursions import row_of, seen

POINTS = 500
"""Grids have so many points; the best of them is refined."""


def divergence(row: list[int], law: list[float]) -> float:
    """KL(p_hat, p)."""
    n = sum(row)
    return sum(times / n * log(times / n / p) for times, p in zip(row, law, strict=True))


def evidence(row: list[int], law: list[float], unseen: list[float], c: float) -> float:
    """E of Lemma 8 as it is defined, summed over every set T that holds what was seen.

    ``law`` and ``unseen`` are the chances of what was seen and of the others; together 1.
    """
    m, every = c / 2, [*law, *unseen]
    total = 0.0
    for size in range(len(unseen) + 1):
        for more in combinations(range(len(law), len(every)), size):
            inside = [*range(len(law)), *more]
            included = [1 - exp(-m * every[j]) for j in inside]
            outside = exp(-m * sum(p for j, p in enumerate(every) if j not in inside))
            chance = outside * sum(
                every[j] * np.prod(included[:i] + included[i + 1 :]) for i, j in enumerate(inside)
            )
            t = sum(every[j] for j in inside)
            total += chance * exp(_dirichlet(row, [p / t for p in law], c) - sum(row) * log(t))
    return total


def _dirichlet(row: list[int], x: list[float], c: float) -> float:
    """L_c(x) of Lemma 8."""
    value = lgamma(c) - lgamma(c + sum(row))
    for times, share in zip(row, x, strict=True):
        value += lgamma(c * share + times) - lgamma(c * share) - times * log(share)
    return value


def log_evidence(row: list[int], law: list[float], c: float) -> float:
    """Lemma 8: log E is at least this; t = p(T) for the set T that was seen, u = log 1/t."""
    n, t, m = sum(row), sum(law), c / 2
    value = (n - m - 1) * -log(t)
    if len(row) > 1:
        value += sum(log(1 - exp(-m * p)) for p in law)
        value += _dirichlet(row, [p / t for p in law], c)
    return value


def widest_share(share: float, cap: float) -> float:
    """Lemma 9: at least every x with kl(share, x) <= cap."""
    first = share + cap + sqrt((share + cap) ** 2 - share**2)
    return min(1.0, first, share + sqrt(2 * (1 - share) * cap))


def peak(times: int, rest: float, rate: float, pull: float, high: float) -> float:
    """Lemma 9: sup of rest log z - log Gamma(z+N) + log Gamma(z) - log(1-e^{-rate z}) - pull z."""

    def f(z: float) -> float:
        gammas = lgamma(z) - lgamma(z + times)
        return rest * log(z) + gammas - log(-expm1(-rate * z)) - pull * z

    grid = np.geomspace(high * 1e-9, high, POINTS)
    place = int(np.argmax([f(z) for z in grid]))
    ends = (float(grid[max(0, place - 1)]), float(grid[min(POINTS - 1, place + 1)]))
    found = minimize_scalar(lambda z: -f(z), bounds=ends, method="bounded", options={"xatol": 1e-9})
    return max(f(float(grid[place])), -float(found.fun))


def line_offset(row: list[int], c: float, a: float, cap: float) -> float:
    """Lemma 9: B with log E >= a n KL - B, for the lambda that balances the peaks at p_hat."""
    n, rate = sum(row), exp(-cap) / 2

    def rise(z: float, times: int) -> float:
        """z f'(z) without the term of lambda."""
        sums = sum(z / (z + i) for i in range(times))
        cover = rate * z / expm1(rate * z) if rate * z < 700 else 0.0
        return (1 - a) * times - sums - cover

    pull = sum(rise(c * times / n, times) for times in row)
    offset = lgamma(c + n) - lgamma(c) + pull
    for times in row:
        high = c * widest_share(times / n, cap)
        offset += a * times * log(times / n) - (1 - a) * times * log(c)
        offset += peak(times, (1 - a) * times, rate, pull / c, high)
    return offset


def line(row: list[int], cap: float, c: float) -> tuple[float, float]:
    """(slope, offset) of a concentration; an infinite offset where there is no line."""
    n, fewest = sum(row), min(row, default=0)
    most = 1 - (c / 2 + 1) / n if n else 0.0
    if c > 4 * n or most <= 0:
        return 0.0, inf
    if len(row) == 1:
        return most, 0.0
    if fewest < 6 or cap > 0.69 or c < n / 300:
        return 0.0, inf
    spread = sum(1 / times for times in row) - len(row) ** 2 / n
    shrink = min(0.4, max(0.003, sqrt(max(spread, 0.0) / 64)))
    steepest = min(n / (n + c) * (1 - shrink), most, 1 - 2.4 / fewest)
    found = (steepest, line_offset(row, c, steepest, cap))
    for part in (0.96, 0.9, 0.8):
        other = (steepest * part, line_offset(row, c, steepest * part, cap))
        if 8 * other[0] - other[1] <= 8 * found[0] - found[1]:
            break
        found = other
    return found


def log_factor(y: float, q: float, centre: int, lines: list[tuple[float, float]]) -> float:
    """Section 4: g(y) = log(1 - q + q sum_j w_j exp(a_j y - b_j)), w_j ~ 3^{-|j - centre|}."""
    total = sum(3.0 ** -abs(j - centre) for j in range(len(lines)))
    mixed = sum(
        3.0 ** -abs(j - centre) / total * exp(a * y - b)
        for j, (a, b) in enumerate(lines)
        if b < inf
    )
    return log1p(q * (mixed - 1))


def penalised_radius(
    n: int, cap: float, price: float, q: float, centre: int, lines: list[tuple[float, float]]
) -> float:
    """Theorem 6: sup over 0 <= y <= n cap of y/n - price (g(y) - g(0))."""
    start = log_factor(0.0, q, centre, lines)

    def gain(y: float) -> float:
        return y / n - price * (log_factor(y, q, centre, lines) - start)

    grid = np.linspace(0, n * cap, POINTS)
    place = int(np.argmax([gain(y) for y in grid]))
    ends = (float(grid[max(0, place - 1)]), float(grid[min(POINTS - 1, place + 1)]))
    found = minimize_scalar(lambda y: -gain(y), bounds=ends, method="bounded")
    return max(gain(float(grid[place])), -float(found.fun))


def most_visits(counts: Counts, allowed: BoolArray, h: int, s: int, a: int) -> FloatArray:
    """The most visits of a cell (of a pair, before the last stage) from every first state."""
    H, S, A = counts.shape.hsa
    values = np.zeros(S)
    for stage in reversed(range(H - 1)):
        q = np.zeros((S, A))
        for state in range(S):
            for action in range(A):
                row = seen(counts, stage, state, action)
                if not row or not allowed[state, action]:
                    continue
                n = sum(row.values())
                q[state, action] = sum(k * values[i] for i, k in row.items() if i != END) / n
                if row_of(counts, stage, state, action) == row_of(counts, h, s, a):
                    q[state, action] += 1.0
        values = q.max(axis=1)
    return values
