"""Confidence sets, compiled: thresholds by mixtures, best and worst cases of KL balls, recursions.

Rows and entries are those of ``SuccessorTable``. A value array has S + 1 places, the last for the
end of an episode. ``pac/mixtures.py`` says what the numbers mean. The specification is
``tests/reference/recursions.py``: the same functions in plain Python, each with its lemma.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from covgame.kernels.jit import counted
from covgame.types import END

CLOSE = 1e-11
MOST_STEPS = 200


@counted
def transition_thresholds(rows, entries, symbols, level, out):  # type: ignore[no-untyped-def]
    """level + sum N log p_hat - log Q(N) of every row, Q a Dirichlet(1/symbols) mixture.

    n KL(p_hat, p) stays below it at all times but with probability exp(-level).
    """
    alpha = 1.0 / symbols
    first = math.lgamma(alpha)
    for i in range(len(rows)):
        entry = rows[i]
        if entry.total == 0:
            out[i] = np.inf
            continue
        value = level + math.lgamma(entry.total + 1.0)
        for place in range(entry.start, entry.start + entry.size):
            count = entries[place].count
            value += count * math.log(count / entry.total) - math.lgamma(count + alpha) + first
        out[i] = value


@counted
def mean_thresholds(visits, sums, level, out):  # type: ignore[no-untyped-def]
    """level + n (r log r + (1-r) log(1-r)) - log of the Beta(1/2,1/2) mixture, r the mean.

    n kl(r, mean) stays below it, for variables in [0,1], but with probability exp(-level).
    """
    constant = math.log(math.pi)
    for i in range(len(visits)):
        n = visits[i]
        if n == 0:
            out[i] = np.inf
            continue
        yes = min(max(sums[i], 0.0), float(n))
        no = n - yes
        value = level + constant + math.lgamma(n + 1.0)
        value -= math.lgamma(yes + 0.5) + math.lgamma(no + 0.5)
        if yes > 0:
            value += yes * math.log(yes / n)
        if no > 0:
            value += no * math.log(no / n)
        out[i] = value


@counted
def _bernoulli(p: Any, q: Any) -> Any:
    """kl(p, q)."""
    value = 0.0
    if p > 0:
        value += p * math.log(p / q) if q > 0 else np.inf
    if p < 1:
        value += (1 - p) * math.log((1 - p) / (1 - q)) if q < 1 else np.inf
    return value


@counted
def _edge(p: Any, radius: Any, end: Any) -> Any:
    """The q between p and ``end`` (0 or 1) with kl(p, q) = radius, from outside."""
    if radius == np.inf:
        return end
    inside, outside = p, end
    for _ in range(MOST_STEPS):
        middle = 0.5 * (inside + outside)
        if _bernoulli(p, middle) > radius:
            outside = middle
        else:
            inside = middle
        if abs(outside - inside) <= CLOSE:
            break
    return outside


@counted
def mean_bounds(visits, sums, thresholds, low, high):  # type: ignore[no-untyped-def]
    """The means r' with n kl(r, r') below the threshold: an interval."""
    for i in range(len(visits)):
        low[i], high[i] = 0.0, 1.0
        n = visits[i]
        if n > 0:
            p = min(max(sums[i] / n, 0.0), 1.0)
            low[i] = _edge(p, thresholds[i] / n, 0.0)
            high[i] = _edge(p, thresholds[i] / n, 1.0)


@counted
def best_of_ball(chances, values, size, radius, beyond):  # type: ignore[no-untyped-def]
    """max q V over KL(p, q) <= radius; ``beyond`` is the best value outside the support, or -inf.

    The maximiser is q ~ p/(nu - V) for the nu > max V at which the constraint is tight; if even the
    smallest such nu leaves room, the rest goes to ``beyond``. The answer is from outside: the
    bracket is left within rounding of the maximum, never below it.
    """
    top, bottom, mean = -np.inf, np.inf, 0.0
    for i in range(size):
        top, bottom = max(top, values[i]), min(bottom, values[i])
        mean += chances[i] * values[i]
    most = max(top, beyond)
    if size == 0 or radius == np.inf:
        return most
    if radius <= 0.0:
        return mean
    width = most - bottom
    if not math.isfinite(width):
        return most
    if width <= 1e-14 * max(1.0, abs(most)):
        return most
    if beyond > top:
        logs, inverse = 0.0, 0.0
        for i in range(size):
            logs += chances[i] * math.log(beyond - values[i])
            inverse += chances[i] / (beyond - values[i])
        need = logs + math.log(inverse)
        if need <= radius:
            return beyond - math.exp(need - radius) / inverse
    # f(nu) = sum p log(nu - V) + log sum p/(nu - V) falls from infinity to 0.
    outside, gap = 0.0, width  # nu = most + gap
    while True:
        logs, inverse = 0.0, 0.0
        for i in range(size):
            logs += chances[i] * math.log(most + gap - values[i])
            inverse += chances[i] / (most + gap - values[i])
        if logs + math.log(inverse) <= radius or gap > 1e18 * width:
            break
        outside = gap
        gap *= 8.0
    inside = gap
    if outside == 0.0:
        gap = inside
        while True:
            gap *= 0.125
            logs, inverse = 0.0, 0.0
            for i in range(size):
                logs += chances[i] * math.log(most + gap - values[i])
                inverse += chances[i] / (most + gap - values[i])
            if logs + math.log(inverse) > radius or gap < 1e-18 * width:
                break
            inside = gap
        outside = gap
    for _ in range(MOST_STEPS):
        middle = math.sqrt(inside * outside)
        logs, inverse = 0.0, 0.0
        for i in range(size):
            logs += chances[i] * math.log(most + middle - values[i])
            inverse += chances[i] / (most + middle - values[i])
        if logs + math.log(inverse) > radius:
            outside = middle
        else:
            inside = middle
        if inside - outside <= 1e-9 * inside:
            break
    inverse = 0.0
    for i in range(size):
        inverse += chances[i] / (most + outside - values[i])
    value = most + outside - 1.0 / inverse
    return min(max(value, mean), most)


@counted
def _order(values, order):  # type: ignore[no-untyped-def]
    """Places by value, largest first."""
    order[:] = np.argsort(-values)


@counted
def best_successors(  # type: ignore[no-untyped-def]
    rows, entries, first, thresholds, values, can_end, most_successors, out
):
    """max q V of the rows from ``first`` on, as many as ``out`` holds.

    Any state may be an unseen successor, and the end if ``can_end``, unless a row has shown
    ``most_successors`` already.
    """
    size = len(values)
    order = np.empty(size, dtype=np.int64)
    _order(values, order)
    mark = np.full(size, -1, dtype=np.int64)
    chances, seen = np.empty(size), np.empty(size)
    for i in range(len(out)):
        entry = rows[first + i]
        n = entry.total
        for j in range(entry.size):
            known = entries[entry.start + j]
            place = size - 1 if known.successor == END else known.successor
            mark[place] = i
            chances[j] = known.count / n
            seen[j] = values[place]
        beyond = -np.inf
        if entry.size < most_successors:
            for place in order:
                if mark[place] != i and (place != size - 1 or can_end):
                    beyond = values[place]
                    break
        radius = thresholds[first + i] / n if n > 0 else np.inf
        out[i] = best_of_ball(chances, seen, entry.size, radius, beyond)


@counted
def upper_values(  # type: ignore[no-untyped-def]
    rows, entries, pooled, thresholds, reward, ceiling, can_end, most_successors, q, values
):
    """Q_h = min(ceiling_h, r + max q V_{h+1}) and V_h = max_a Q_h; ``reward``, ``q``: (H, S, A)."""
    H, S, A = q.shape
    out = np.empty(S * A)
    following = np.zeros(S + 1)
    for h in range(H - 1, -1, -1):
        if h + 1 < H:
            first = 0 if pooled else h * S * A
            best_successors(
                rows, entries, first, thresholds, following, can_end, most_successors, out
            )
        for s in range(S):
            best = -np.inf
            for a in range(A):
                more = out[s * A + a] if h + 1 < H else 0.0
                q[h, s, a] = min(ceiling[h], reward[h, s, a] + more)
                best = max(best, q[h, s, a])
            values[h, s] = following[s] = best
        following[S] = 0.0


@counted
def lower_values(  # type: ignore[no-untyped-def]
    rows, entries, pooled, thresholds, reward, floor, can_end, most_successors, chosen, values
):
    """The policy with the best worst case: Q_h = r + min q V_{h+1}, at least ``floor_h``.

    Fills ``chosen``, or keeps to it where it holds an action (it is -1 where it does not).
    """
    H, S, A = reward.shape
    out = np.empty(S * A)
    following = np.zeros(S + 1)
    for h in range(H - 1, -1, -1):
        if h + 1 < H:
            first = 0 if pooled else h * S * A
            best_successors(
                rows, entries, first, thresholds, -following, can_end, most_successors, out
            )
        for s in range(S):
            best, action = -np.inf, 0
            for a in range(A):
                if chosen[h, s] >= 0 and chosen[h, s] != a:
                    continue
                if reward[h, s, a] == -np.inf:
                    continue  # forbidden
                value = max(floor[h], reward[h, s, a] - (out[s * A + a] if h + 1 < H else 0.0))
                if value > best:
                    best, action = value, a
            chosen[h, s] = action
            values[h, s] = following[s] = best
        following[S] = 0.0


@counted
def reach_from(  # type: ignore[no-untyped-def]
    rows, entries, pooled, thresholds, can_end, most_successors, allowed, stage, sign, values
):
    """From chances of being right at ``stage`` to those at the first one, best actions taken.

    ``values`` is (S + 1,) and changed in place; sign 1 gives upper bounds, -1 lower ones.
    """
    S, A = allowed.shape
    out = np.empty(S * A)
    for h in range(stage - 1, -1, -1):
        first = 0 if pooled else h * S * A
        best_successors(
            rows, entries, first, thresholds, sign * values, can_end, most_successors, out
        )
        for s in range(S):
            best = 0.0
            for a in range(A):
                if allowed[s, a]:
                    best = max(best, sign * out[s * A + a])
            values[s] = best
        values[S] = 0.0


@counted
def reward_free_error(  # type: ignore[no-untyped-def]
    rows, entries, pooled, radii, distances, theta, allowed, visits, chosen, values
):
    """X_h = min(H-h, min(kappa/theta, (H-h) tv) + p_hat max_b X_{h+1}), and who attains it.

    Stages count from 1 in this formula: the last has no transition that matters. Ties go to the
    action visited less. theta = 0 stands for "total variation only".
    """
    H, S, A = visits.shape
    following = np.zeros(S + 1)
    for s in range(S):
        values[H - 1, s] = 0.0
        action = 0
        for a in range(A):
            better = not allowed[s, action] or visits[H - 1, s, a] < visits[H - 1, s, action]
            if allowed[s, a] and better:
                action = a
        chosen[H - 1, s] = action
    for h in range(H - 2, -1, -1):
        left = float(H - 1 - h)
        first = 0 if pooled else h * S * A
        for s in range(S):
            best, action = -1.0, 0
            for a in range(A):
                if not allowed[s, a]:
                    continue
                i = first + s * A + a
                entry = rows[i]
                value = left
                if entry.total > 0:
                    cost = left * distances[i]
                    if theta > 0:
                        cost = min(cost, radii[i] / theta)
                    mean = 0.0
                    for place in range(entry.start, entry.start + entry.size):
                        known = entries[place]
                        if known.successor != END:
                            mean += known.count * following[known.successor]
                    value = min(left, cost + mean / entry.total)
                tie = value == best and visits[h, s, a] < visits[h, s, action]
                if value > best or tie:
                    best, action = value, a
            chosen[h, s] = action
            values[h, s] = best
        for s in range(S):
            following[s] = values[h, s]
