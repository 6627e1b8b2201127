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
from covgame.pac.error_bounds import Range
from covgame.pac.mixtures import Structure
from covgame.types import END, BoolArray, FloatArray
from tests.reference.recursions import (
    best_of_ball,
    best_successors,
    fixed_function_threshold,
    row_of,
    seen,
)

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
    """Lemma 10: g(y) = log(1 - q + q sum_j w_j exp(a_j y - b_j)), w_j ~ 3^{-|j - centre|}."""
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


# --------------------------------------------------------------------------- Theorem 4


def fixed_factor(y: float, q: float, lost: float) -> float:
    """g(y) = log(1 - q + q e^{y - lost})."""
    return log1p(q * (exp(y - lost) - 1))


def penalised_best(
    chances: FloatArray,
    values: FloatArray,
    beyond: float,
    n: int,
    cap: float,
    price: float,
    q: float,
    lost: float,
) -> float:
    """Theorem 4: sup over KL(p_hat, r) = kappa <= cap of r V - price (g(n kappa) - g(0))."""
    start = fixed_factor(0.0, q, lost)
    if n == 0:
        return beyond

    def gain(kappa: float) -> float:
        most = best_of_ball(chances, values, kappa, beyond)
        return most - price * (fixed_factor(n * kappa, q, lost) - start)

    grid = [0.0, *np.geomspace(cap * 1e-6, cap, 40).tolist()]
    place = int(np.argmax([gain(kappa) for kappa in grid]))
    ends = (grid[max(0, place - 1)], grid[min(len(grid) - 1, place + 1)])
    found = minimize_scalar(lambda kappa: -gain(kappa), bounds=ends, method="bounded")
    return max(gain(grid[place]), -float(found.fun))


Outcomes = dict[tuple[float, int | None], float]
"""(reward, successor) -> how often, in fractions where rewards lie between the ends."""


def outcomes(counts: Counts, earned: Range, h: int, s: int, a: int) -> Outcomes:
    """What is known of r and s' together; of the last stage only r is, with None after it."""
    H = counts.shape.horizon
    row, number = seen(counts, h, s, a), row_of(counts, h, s, a)
    if h == H - 1:
        visits, sums = counts.visits[:, s, a], counts.reward_sums[:, s, a]
        n = int(visits.sum() if counts.pooled else visits[h])
        times_and_sums: dict[int | None, tuple[int, float]] = {
            None: (n, float(sums.sum() if counts.pooled else sums[h]))
        }
    else:
        assert counts.payments is not None
        paid = counts.payments.of(np.full(len(row), number), np.array(list(row), dtype=np.int64))
        times_and_sums = {
            i: (n, float(sum_)) for (i, n), sum_ in zip(row.items(), paid, strict=True)
        }
    found: Outcomes = {}
    for successor, (n, total) in times_and_sums.items():
        high = min(max((total - earned.low * n) / (earned.high - earned.low), 0.0), n)
        found[earned.high, successor] = high
        found[earned.low, successor] = n - high
    return {outcome: times for outcome, times in found.items() if times > 0}


def penalised_values(
    counts: Counts,
    structure: Structure,
    earned: Range,
    level: float,
    mu: float,
    q: float,
    reach: FloatArray,
) -> tuple[FloatArray, FloatArray, float]:
    """Theorem 4: (U_h(s,a), U_h(s), the sum of -g(0) over the factors of rows)."""
    H, S, A = counts.shape.hsa
    possible = [*range(S), END] if structure.can_end else list(range(S))
    values, best = np.zeros((H + 1, S + 1)), np.zeros((H, S, A))
    bases: dict[int, float] = {}
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                known = outcomes(counts, earned, h, s, a)
                n = round(sum(known.values()))
                row, number = seen(counts, h, s, a), row_of(counts, h, s, a)
                after = {i: float(values[h + 1, i]) for i in possible}
                if h == H - 1:
                    most = earned.high
                else:
                    among = possible if len(row) < structure.limit else list(row)
                    most = earned.high + max(after[i] for i in among)
                chances = np.array([times / n for times in known.values()])
                worth = np.array([r + (0.0 if i is None else after[i]) for r, i in known])
                lost = fixed_function_threshold(n, 0.0) + (log(H) if counts.pooled else 0.0)
                forbidden = structure.allowed is not None and not structure.allowed[s, a]
                if n > 0 and not forbidden:
                    bases[number] = max(bases.get(number, 0.0), -fixed_factor(0.0, q, lost))
                    cap = fixed_function_threshold(n, level) / n
                    price = mu / max(reach[number], 1e-9)
                    most = penalised_best(chances, worth, most, n, cap, price, q, lost)
                best[h, s, a] = min(earned.ceilings(H)[h], most)
        allowed = structure.allowed
        if allowed is not None:
            best[h][~allowed] = -inf
        values[h, :S] = best[h].max(axis=1)
    return best, values[:H, :S], sum(bases.values())


def possible_visits(
    counts: Counts,
    thresholds: FloatArray,
    structure: Structure,
    allowed: BoolArray,
    h: int,
    s: int,
    a: int,
) -> FloatArray:
    """The most visits of a cell (of a pair, at all stages) in any world of the balls."""
    H, S, A = counts.shape.hsa
    values = np.zeros(S + 1)
    for stage in reversed(range(H)):
        q = np.zeros((S, A))
        if stage < H - 1:
            q = best_successors(counts, stage, thresholds, values, structure)
        here = (s, a) if counts.pooled else (s, slice(None))
        if counts.pooled or stage == h:
            q[here] += 1.0
        if not counts.pooled and stage > h:
            q[:] = 0.0
        values[:S] = np.where(allowed, q, 0.0).max(axis=1)
    return values[:S]
