"""One budget for all rows, compiled: mixtures centred at the hypothesis, their lines, penalties.

docs/certified.md, section 1, says what the numbers mean and proves them. The specification is
``tests/reference/budget.py``. Bounds are from outside: searches stop on the side that claims less.
"""

from __future__ import annotations

import math

import numpy as np

from covgame.kernels.confidence import best_of_ball, best_successors
from covgame.kernels.jit import counted
from covgame.types import END

LEAST_COUNT = 6
"""A row with several successors gives evidence if each was seen so often."""

WIDEST_CAP = 0.69
"""And if its ball is no wider, at most log 2."""

TYPICAL = 8.0
"""Lines are chosen for n KL about this; any choice is valid."""

CLOSE = 1e-2
"""How closely the suprema behind a line are bracketed, in units of log-evidence."""

ROUNDING = 1e-14
"""Relative error allowed to logarithms of the gamma function."""


@counted
def digamma(x):  # type: ignore[no-untyped-def]
    """The derivative of log Gamma, for x > 0."""
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    tail = f * (1 / 12.0 - f * (1 / 120.0 - f * (1 / 252.0 - f * (1 / 240.0 - f / 132.0))))
    return shift + math.log(x) - 0.5 / x - tail


@counted
def trigamma(x):  # type: ignore[no-untyped-def]
    """The derivative of digamma, for x > 0."""
    shift = 0.0
    while x < 10.0:
        shift += 1.0 / (x * x)
        x += 1.0
    f = 1.0 / (x * x)
    return shift + 1.0 / x + f / 2 + f / x * (1 / 6.0 - f * (1 / 30.0 - f * (1 / 42.0 - f / 30.0)))


@counted
def widest_share(share, cap):  # type: ignore[no-untyped-def]
    """At least every x with kl(share, x) <= cap, because kl(a, x) >= (x-a)^2 / (2x), x > a.

    And by exchanging heads and tails, kl(a, x) >= (x-a)^2 / (2(1-a)).
    """
    sum_ = share + cap
    high = sum_ + math.sqrt(sum_ * sum_ - share * share)
    return min(1.0, high, share + math.sqrt(2.0 * (1.0 - share) * cap))


@counted
def _rise(z, times, rest, rate, pull):  # type: ignore[no-untyped-def]
    """z f'(z) of ``peak``: rest - sum over i < times of z/(z+i) - y/(e^y - 1) - pull z."""
    y = rate * z
    cover = y / math.expm1(y) if y < 700.0 else 0.0
    return rest - z * (digamma(z + times) - digamma(z)) - cover - pull * z


@counted
def _height(z, times, rest, rate, pull):  # type: ignore[no-untyped-def]
    """f(z) of ``peak``."""
    included = math.log(-math.expm1(-rate * z))
    return rest * math.log(z) - math.lgamma(z + times) + math.lgamma(z) - included - pull * z


@counted
def peak(times, rest, rate, pull, near, high):  # type: ignore[no-untyped-def]
    """At least the supremum over 0 < z <= high of

    f(z) = rest log z - log Gamma(z+times) + log Gamma(z) - log(1 - e^{-rate z}) - pull z.

    z f'(z) is convex and positive near 0 (rest > 2), so f rises until the first zero of it, falls,
    and may rise again: the supremum is there or at ``high``. ``near`` is where to look first.
    """
    right = min(near, high)
    left = right
    falling = _rise(right, times, rest, rate, pull)
    rising = falling
    if falling > 0.0:
        right = high
        falling = _rise(high, times, rest, rate, pull)
    else:
        while rising <= 0.0:
            left *= 0.75
            rising = _rise(left, times, rest, rate, pull)
    at_end = _height(high, times, rest, rate, pull)
    while rising / left * (right - left) > CLOSE:
        y = rate * left
        slope = digamma(left) - digamma(left + times)
        slope += left * (trigamma(left) - trigamma(left + times)) - pull
        if y < 200.0:
            e = math.expm1(y)
            slope -= rate * (1.0 / e - y * (e + 1.0) / (e * e))
        if slope >= 0.0:  # convex, positive and rising: no zero to the right
            return at_end
        following = left - rising / slope  # Newton's step stays left of the zero
        if following >= high:
            return at_end
        if falling <= 0.0:  # the zero of the chord is right of the zero
            chord = left + (right - left) * rising / (rising - falling)
            value = _rise(chord, times, rest, rate, pull)
            if value <= 0.0:
                right, falling = chord, value
        else:  # no bracket yet
            probe = left + 2.0 * (following - left)
            if probe < right:
                value = _rise(probe, times, rest, rate, pull)
                if value <= 0.0:
                    right, falling = probe, value
        value = _rise(following, times, rest, rate, pull)
        if value <= 0.0:  # the zero, but for rounding
            right, falling = following, value
            break
        if following <= left * (1.0 + 1e-13):
            break
        left, rising = following, value
    if falling > 0.0:  # f rises all the way, as far as was looked
        return max(at_end, _height(left, times, rest, rate, pull) + rising / left * (right - left))
    top = _height(left, times, rest, rate, pull) + rising / left * (right - left)
    return max(top, at_end)


@counted
def line_offset(entry, entries, c, a, cap):  # type: ignore[no-untyped-def]
    """B with log E_c >= a n KL - B for every p whose KL is at most ``cap``; two successors or more.

    c is the concentration, m = c/2 the rate at which successors are included.
    """
    n = float(entry.total)
    rate = 0.5 * math.exp(-cap)  # m'/c
    pull = 0.0
    for place in range(entry.start, entry.start + entry.size):
        times = float(entries[place].count)
        z = c * times / n
        y = rate * z
        cover = rate * c / math.expm1(y) if y < 700.0 else 0.0
        pull += times / n * ((1.0 - a) * n - c * (digamma(z + times) - digamma(z)) - cover)
    offset = math.lgamma(c + n) - math.lgamma(c) + pull
    for place in range(entry.start, entry.start + entry.size):
        times = float(entries[place].count)
        share = times / n
        rest = (1.0 - a) * times
        offset += a * times * math.log(share) - rest * math.log(c)
        high = c * widest_share(share, cap)
        offset += peak(times, rest, rate, pull / c, c * share, high)
    return offset + 1e-9 + ROUNDING * (c + n) * math.log(c + n + 2.0)


@counted
def evidence_lines(rows, entries, caps, slopes, offsets):  # type: ignore[no-untyped-def]
    """Lines of every row and mixture: log E_c >= slope n KL - offset; no line: offset infinite.

    Concentrations are c = 1/4, 1, 4, 16, ...
    """
    for i in range(len(offsets)):
        entry = rows[i]
        offsets[i, :] = np.inf
        slopes[i, :] = 0.0
        n = float(entry.total)
        fewest = n
        inverse = 0.0
        for place in range(entry.start, entry.start + entry.size):
            fewest = min(fewest, float(entries[place].count))
            inverse += 1.0 / entries[place].count
        several = entry.size > 1
        if entry.size == 0 or (several and (fewest < LEAST_COUNT or caps[i] > WIDEST_CAP)):
            continue
        spread = max(inverse - entry.size * entry.size / n, 0.0)
        shrink = min(0.4, max(0.003, math.sqrt(spread / (8.0 * TYPICAL))))
        c = 0.0625
        for j in range(offsets.shape[1]):
            c *= 4.0
            most = 1.0 - (0.5 * c + 1.0) / n
            if c > 4.0 * n or most <= 0.0:
                break
            if not several:
                slopes[i, j], offsets[i, j] = most, 0.0
                continue
            a = min(n / (n + c) * (1.0 - shrink), most, 1.0 - 2.4 / fewest)
            if c < n / 300.0:
                continue
            slopes[i, j], offsets[i, j] = a, line_offset(entry, entries, c, a, caps[i])
            for part in (0.96, 0.9, 0.8):
                other = line_offset(entry, entries, c, a * part, caps[i])
                if a * part * TYPICAL - other <= slopes[i, j] * TYPICAL - offsets[i, j]:
                    break
                slopes[i, j], offsets[i, j] = a * part, other


@counted
def log_factor(y, q, weights, slopes, offsets):  # type: ignore[no-untyped-def]
    """(g(y), g'(y)) for g(y) = log(1 - q + q sum_j e^{weights_j + slope_j y - offset_j})."""
    log_q, rest = math.log(q), math.log1p(-q)
    most = rest
    for j in range(len(weights)):
        if offsets[j] < np.inf:
            most = max(most, log_q + weights[j] + slopes[j] * y - offsets[j])
    whole, rise = math.exp(rest - most), 0.0
    for j in range(len(weights)):
        if offsets[j] < np.inf:
            part = math.exp(log_q + weights[j] + slopes[j] * y - offsets[j] - most)
            whole += part
            rise += slopes[j] * part
    return most + math.log(whole), rise / whole


@counted
def penalised_radius(n, cap, price, q, weights, slopes, offsets):  # type: ignore[no-untyped-def]
    """(sup over 0 <= y <= n cap of y/n - price (g(y) - g(0)), g(0)); concave, from outside."""
    start, rise = log_factor(0.0, q, weights, slopes, offsets)
    if 1.0 / n <= price * rise:
        return 0.0, start
    value, rise_at_end = log_factor(n * cap, q, weights, slopes, offsets)
    if 1.0 / n >= price * rise_at_end:
        return cap - price * (value - start), start
    low, high, best = 0.0, n * cap, 0.0
    gain = 1.0 / n - price * rise
    for _ in range(60):
        if gain * (high - low) <= 1e-3 * best:
            break
        middle = 0.5 * (low + high)
        value, rise = log_factor(middle, q, weights, slopes, offsets)
        if 1.0 / n > price * rise:
            low, gain = middle, 1.0 / n - price * rise
            best = middle / n - price * (value - start)
        else:
            high = middle
    return best + gain * (high - low), start


@counted
def penalised_radii(  # type: ignore[no-untyped-def]
    rows, caps, reach, mu, q, weights, slopes, offsets, out
):
    """Fill the penalised radius of every row; returns the sum of -g(0) over rows that were seen."""
    base = 0.0
    for i in range(len(out)):
        n = rows[i].total
        if n == 0:
            out[i] = np.inf
            continue
        price = mu / max(reach[i], 1e-9)
        radius, start = penalised_radius(
            float(n), caps[i], price, q, weights, slopes[i], offsets[i]
        )
        out[i] = radius
        base -= start
    return base


@counted
def most_visits(  # type: ignore[no-untyped-def]
    rows, entries, pooled, allowed, horizon, chances, radius, out
):
    """The most visits that a policy pays each row, on the learnt model, before the last stage.

    ``chances`` are those of first states; any distribution within ``radius`` is possible.
    """
    S, A = allowed.shape
    values, following = np.zeros(S), np.zeros(S)
    seen = np.flatnonzero(chances)
    for i in range(len(out)):
        out[i] = 0.0
        pair = i % (S * A)
        state, action, stage = pair // A, pair % A, i // (S * A)
        if rows[i].total == 0 or not allowed[state, action]:
            continue
        if not pooled and action > 0:  # the chance to be there, whatever is done then
            out[i] = out[i - action : i].max()
            if out[i] > 0.0:
                continue
        following[:] = 0.0
        last = horizon - 2 if pooled else stage
        for h in range(last, -1, -1):
            for s in range(S):
                best = 0.0
                for a in range(A):
                    row = s * A + a if pooled else (h * S + s) * A + a
                    entry = rows[row]
                    if entry.total == 0 or not allowed[s, a]:
                        continue
                    value = 0.0
                    if h < last:
                        for place in range(entry.start, entry.start + entry.size):
                            known = entries[place]
                            if known.successor != END:
                                value += known.count * following[known.successor]
                        value /= entry.total
                    if row == i:
                        value += 1.0
                    best = max(best, value)
                values[s] = best
            following[:] = values
        beyond = -np.inf
        for s in range(S):
            if chances[s] == 0.0:
                beyond = max(beyond, values[s])
        out[i] = best_of_ball(chances[seen], values[seen], len(seen), radius, beyond)


@counted
def most_visits_roughly(  # type: ignore[no-untyped-def]
    rows, entries, pooled, allowed, horizon, likeliest, out
):
    """At least ``most_visits``, in one pass: every state is left by the best action for each
    successor. ``likeliest`` are upper bounds on the chances of first states.
    """
    S, A = allowed.shape
    present, arriving, best = likeliest.copy(), np.zeros(S), np.zeros(S)
    out[:] = 0.0
    for h in range(horizon - 1):
        arriving[:] = 0.0
        for s in range(S):
            if present[s] == 0.0:
                continue
            for a in range(A):
                row = s * A + a if pooled else (h * S + s) * A + a
                entry = rows[row]
                if entry.total == 0 or not allowed[s, a]:
                    continue
                out[row] += present[s]
                for place in range(entry.start, entry.start + entry.size):
                    known = entries[place]
                    if known.successor != END:
                        share = known.count / entry.total
                        if share > best[known.successor]:
                            arriving[known.successor] += present[s] * (
                                share - best[known.successor]
                            )
                            best[known.successor] = share
            for a in range(A):
                entry = rows[s * A + a if pooled else (h * S + s) * A + a]
                for place in range(entry.start, entry.start + entry.size):
                    if entries[place].successor != END:
                        best[entries[place].successor] = 0.0
        for s in range(S):
            present[s] = min(1.0, arriving[s])


@counted
def regret(n):  # type: ignore[no-untyped-def]
    """log(sqrt(pi) Gamma(n+1)/Gamma(n+1/2)): what the mixture of Lemma 3 may lose."""
    return 0.5 * math.log(math.pi) + math.lgamma(n + 1.0) - math.lgamma(n + 0.5)


@counted
def fixed_factor(y, q, lost):  # type: ignore[no-untyped-def]
    """(g(y), g'(y)) for g(y) = log(1 - q + q e^{y - lost})."""
    rest, mixed = math.log1p(-q), math.log(q) + y - lost
    if mixed > rest:
        other = math.exp(rest - mixed)
        return mixed + math.log1p(other), 1.0 / (1.0 + other)
    other = math.exp(mixed - rest)
    return rest + math.log1p(other), other / (1.0 + other)


@counted
def penalised_best(  # type: ignore[no-untyped-def]
    chances, values, size, beyond, n, cap, price, q, lost
):
    """At least sup of r V - price (g(n KL) - g(0)) over the laws r with KL(chances, r) <= cap.

    ``beyond`` is the best value outside the support. For any nu >= max V the largest r V with
    KL = kappa is at most nu - exp(sum p log(nu - V) - kappa); that is concave in kappa, penalty
    included, and its supremum is bracketed by a tangent. nu is where both would be optimal.
    """
    top, bottom, mean = beyond, np.inf, 0.0
    for j in range(size):
        top, bottom = max(top, values[j]), min(bottom, values[j])
        mean += chances[j] * values[j]
    if n == 0 or size == 0:
        return top
    width = top - bottom
    if width <= 1e-14 * max(1.0, abs(top)):
        return top
    least, most = math.log(1e-12 * width), math.log(1e7 * width)
    while most - least > 1e-3:
        middle = 0.5 * (least + most)
        gap = math.exp(middle)
        logs, inverse = 0.0, 0.0
        for j in range(size):
            further = gap + (top - values[j])
            logs += chances[j] * math.log(further)
            inverse += chances[j] / further
        kappa = logs + math.log(inverse)
        rise = fixed_factor(n * kappa, q, lost)[1] if price > 0.0 else 0.0
        if kappa > cap or inverse * price * n * rise > 1.0:
            least = middle
        else:
            most = middle
    gap = math.exp(most)
    logs = 0.0
    for j in range(size):
        logs += chances[j] * math.log(gap + (top - values[j]))
    nu, start = top + gap, fixed_factor(0.0, q, lost)[0]
    low, high = 0.0, cap
    best = nu - math.exp(logs)
    gain = math.exp(logs) - price * n * fixed_factor(0.0, q, lost)[1]
    if gain <= 0.0:
        return min(top, best)
    value, rise = fixed_factor(n * cap, q, lost)
    if math.exp(logs - cap) >= price * n * rise:
        return min(top, nu - math.exp(logs - cap) - price * (value - start))
    while gain * (high - low) > 1e-4 * width:
        middle = 0.5 * (low + high)
        value, rise = fixed_factor(n * middle, q, lost)
        slope = math.exp(logs - middle) - price * n * rise
        if slope > 0.0:
            low, gain = middle, slope
            best = nu - math.exp(logs - middle) - price * (value - start)
        else:
            high = middle
    return min(top, best + gain * (high - low))


@counted
def _outcomes(  # type: ignore[no-untyped-def]
    entry, entries, paid, following, low, high, chances, values
):
    """Fill (reward, successor) outcomes of a row; rewards in between count as a mixture of both.

    Returns how many there are.
    """
    size, n = 0, entry.total
    for place in range(entry.start, entry.start + entry.size):
        known = entries[place]
        after = 0.0 if known.successor == END else following[known.successor]
        share = (paid[place] - low * known.count) / (high - low)
        share = min(max(share, 0.0), float(known.count))
        if share > 0.0:
            chances[size], values[size] = share / n, high + after
            size += 1
        if share < known.count:
            chances[size], values[size] = (known.count - share) / n, low + after
            size += 1
    return size


@counted
def penalised_values(  # type: ignore[no-untyped-def]
    rows, entries, paid, pooled, visits, sums, low, high, level, mixed, reach, mu, q,
    ceiling, allowed, can_end, most_successors, best, values,
):  # fmt: skip
    """U_h(s,a), with Z = r + U_{h+1}(s') as one variable, penalised by mu/reach; and max over a.

    ``visits`` and ``sums`` (S * A) are those of the last stage, where Z is the reward. ``mixed`` is
    log H where the functions of all stages share the factor of a row, 0 otherwise. Returns the sum
    of -g(0) over the factors of rows that were seen.
    """
    H, S, A = best.shape
    room = 2
    for i in range(len(rows)):
        room = max(room, 2 * rows[i].size)
    chances, outcome = np.empty(room), np.empty(room)
    following, order = np.zeros(S + 1), np.zeros(S + 1, dtype=np.int64)
    mark = np.full(S + 1, -1, dtype=np.int64)
    base = np.zeros(len(reach))
    for h in range(H - 1, -1, -1):
        order[:] = np.argsort(-following)
        for s in range(S):
            values[h, s] = -np.inf
            for a in range(A):
                pair = s * A + a
                if not allowed[s, a]:
                    best[h, s, a] = -np.inf
                    continue
                row = pair if pooled else h * S * A + pair
                if h + 1 == H:
                    n, beyond, size = visits[pair], high, 0
                    if n > 0:
                        share = min(max((sums[pair] - low * n) / (high - low), 0.0), float(n))
                        chances[0], outcome[0] = share / n, high
                        chances[1], outcome[1] = (n - share) / n, low
                        size = 2
                        if share == n:
                            size = 1
                        elif share == 0.0:
                            chances[0], outcome[0], size = 1.0, low, 1
                else:
                    entry = rows[row]
                    n, beyond = entry.total, -np.inf
                    size = _outcomes(entry, entries, paid, following, low, high, chances, outcome)
                    for place in range(entry.start, entry.start + entry.size):
                        successor = entries[place].successor
                        at = S if successor == END else successor
                        mark[at] = (h * S + s) * A + a
                        beyond = max(beyond, high + following[at])
                    if entry.size < most_successors:
                        for at in order:
                            if mark[at] != (h * S + s) * A + a and (at != S or can_end):
                                beyond = max(beyond, high + following[at])
                                break
                if n > 0:
                    lost = regret(float(n)) + mixed
                    cap = (level + regret(float(n))) / n
                    price = mu / max(reach[row], 1e-9)
                    value = penalised_best(
                        chances, outcome, size, beyond, float(n), cap, price, q, lost
                    )
                    base[row] = max(base[row], -fixed_factor(0.0, q, lost)[0])
                else:
                    value = beyond
                best[h, s, a] = min(ceiling[h], value)
                values[h, s] = max(values[h, s], best[h, s, a])
        following[:S] = values[h]
        following[S] = 0.0
    return base.sum()


@counted
def possible_visits(  # type: ignore[no-untyped-def]
    rows, entries, pooled, thresholds, can_end, most_successors, allowed, horizon,
    chances, radius, out,
):  # fmt: skip
    """The most visits that a policy pays each row in any world of the balls, all stages counted."""
    S, A = allowed.shape
    after = np.empty(S * A)
    following = np.zeros(S + 1)
    seen = np.flatnonzero(chances)
    for i in range(len(out)):
        pair, stage = i % (S * A), i // (S * A)
        state, action = pair // A, pair % A
        if not pooled and action > 0:  # the chance to be there, whatever is done then
            out[i] = out[i - action]
            continue
        following[:] = 0.0
        last = horizon - 1 if pooled else stage
        for h in range(last, -1, -1):
            after[:] = 0.0
            if h < last:
                first = 0 if pooled else h * S * A
                best_successors(
                    rows, entries, first, thresholds, following, can_end, most_successors, after
                )
            for s in range(S):
                following[s] = 0.0
                for a in range(A):
                    here = s * A + a == pair if pooled else (h == stage and s == state)
                    if allowed[s, a]:
                        more = 1.0 if here else 0.0
                        following[s] = max(following[s], after[s * A + a] + more)
            following[S] = 0.0
        beyond = -np.inf
        for s in range(S):
            if chances[s] == 0.0:
                beyond = max(beyond, following[s])
        out[i] = best_of_ball(chances[seen], following[seen], len(seen), radius, beyond)
