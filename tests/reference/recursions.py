"""What the certificates compute, in plain Python: the specification of ``kernels/confidence.py``.

A function here has the name of the compiled one and the lemma or theorem of docs/certified.md that
it comes from. Nothing is done for speed, and a row is a dictionary from successors to how often
they were seen; tests compare the two on random worlds.
"""

from __future__ import annotations

from math import exp, inf, lgamma, log, pi

import numpy as np

from covgame.game.counts import Counts
from covgame.pac.mixtures import Structure
from covgame.types import END, BoolArray, FloatArray, FloatHS, FloatHSA, FloatS, IntArray

Row = dict[int, int]
"""Successor -> how often it was seen; ``END`` for the end of an episode."""

HALVINGS = 80
"""Brackets are halved so often: until nothing is left of them."""


def seen(counts: Counts, h: int, s: int, a: int) -> Row:
    """What the pair has led to, at this stage or, where stages are pooled, at all of them."""
    number = row_of(counts, h, s, a)
    _, successor, times = counts.table.listed(number, number + 1)
    return dict(zip(successor.tolist(), times.tolist(), strict=True))


def row_of(counts: Counts, h: int, s: int, a: int) -> int:
    """The number of the row that speaks of a cell."""
    _, S, A = counts.shape.hsa
    return (0 if counts.pooled else h * S * A) + s * A + a


# ------------------------------------------------------------------------------- thresholds


def transition_threshold(row: Row, symbols: int, level: float) -> float:
    """Lemma 1: log(1/delta') + sum N log(N/n) - log Q(N), infinite where nothing was seen.

    Q is the chance of what was seen if after k visits of a successor among m its next one has
    the chance (k + 1/K)/(m + 1): the Dirichlet(1/K, ..., 1/K) mixture, step by step.
    """
    n = sum(row.values())
    if n == 0:
        return inf
    log_q = -sum(log(m + 1) for m in range(n))
    for times in row.values():
        log_q += sum(log(k + 1 / symbols) for k in range(times))
    return level + sum(times * log(times / n) for times in row.values()) - log_q


def mean_threshold(n: int, total: float, level: float) -> float:
    """Lemma 2: log(1/delta') + n (r log r + (1-r) log(1-r)) - log(B(nr+1/2, n(1-r)+1/2)/pi)."""
    if n == 0:
        return inf
    log_beta = lgamma(total + 0.5) + lgamma(n - total + 0.5) - lgamma(n + 1.0)
    likeliest = sum(part * log(part / n) for part in (total, n - total) if part > 0)
    return level + likeliest - (log_beta - log(pi))


def fixed_function_threshold(n: int, level: float) -> float:
    """Lemma 3: log(1/delta') + log(sqrt(pi) Gamma(n+1)/Gamma(n+1/2)).

    The ratio is 2/1 for one visit, and (m+1)/(m+1/2) times larger after each of m before.
    """
    return inf if n == 0 else level + sum(log((m + 1) / (m + 0.5)) for m in range(n))


def kl_of_coins(p: float, q: float) -> float:
    """kl(p, q) between two coins."""
    parts = ((p, q), (1 - p, 1 - q))
    return sum(inf if y == 0 else x * log(x / y) for x, y in parts if x > 0)


def mean_bounds(n: int, total: float, threshold: float) -> tuple[float, float]:
    """Lemma 2: the smallest and largest mean r' with n kl(r, r') <= threshold."""
    return _edge(n, total, threshold, 0.0), _edge(n, total, threshold, 1.0)


def _edge(n: int, total: float, threshold: float, end: float) -> float:
    if n == 0:
        return end
    inside, outside = total / n, end
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        if n * kl_of_coins(total / n, middle) <= threshold:
            inside = middle
        else:
            outside = middle
    return outside


# --------------------------------------------------------------------------------- KL balls


def best_of_ball(chances: FloatArray, values: FloatArray, radius: float, beyond: float) -> float:
    """Section 2: max q V over KL(p, q) <= radius, with one more point of value ``beyond``.

    By its dual, min over nu >= max V of nu - exp(sum p log(nu - V) - radius). Its derivative is
    1 - exp(f(nu) - radius), with f(nu) = sum p log(nu - V) + log sum p/(nu - V), which falls.
    """
    top = max(float(values.max(initial=-inf)), beyond)
    if len(values) == 0 or radius == inf or top == values.min():
        return top
    if radius <= 0:
        return float(chances @ values)
    least, most = 1e-18 * (top - values.min()), 1e18 * (top - values.min())
    for _ in range(HALVINGS):
        middle = (least * most) ** 0.5
        gaps = top + middle - values
        if chances @ np.log(gaps) + log(chances @ (1 / gaps)) > radius:
            least = middle
        else:
            most = middle
    nu = top + least
    return min(top, float(nu - exp(chances @ np.log(nu - values) - radius)))


def best_successors(
    counts: Counts, h: int, thresholds: FloatArray, values: FloatArray, structure: Structure
) -> FloatArray:
    """max q V after every pair at stage h: (S, A); ``values`` has a last place for the end.

    Any state may come after a pair, and the end if episodes can end, unless the pair has shown
    as many successors as it can have.
    """
    _, S, A = counts.shape.hsa
    possible = [*range(S), END] if structure.can_end else list(range(S))
    out = np.empty((S, A))
    for s in range(S):
        for a in range(A):
            row = seen(counts, h, s, a)
            n = sum(row.values())
            unseen = [float(values[i]) for i in possible if i not in row]
            beyond = max(unseen, default=-inf) if len(row) < structure.limit else -inf
            radius = thresholds[row_of(counts, h, s, a)] / n if n else inf
            chances = np.array([times / n for times in row.values()])
            out[s, a] = best_of_ball(chances, values[list(row)], radius, beyond)
    return out


# ------------------------------------------------------------------------------- recursions


def upper_values(
    counts: Counts,
    thresholds: FloatArray,
    reward: FloatHSA,
    ceiling: FloatArray,
    structure: Structure,
) -> tuple[FloatHSA, FloatHS]:
    """Theorem 4: U_h(s,a) = min(c_h, r_up + max q U_{h+1}), U_h(s) = max_a; after H comes 0."""
    H, S, _ = counts.shape.hsa
    q, following = np.array(reward), np.zeros(S)
    for h in reversed(range(H)):
        if h < H - 1:
            q[h] += best_successors(counts, h, thresholds, np.append(following, 0.0), structure)
        q[h] = np.minimum(ceiling[h], q[h])
        following = q[h].max(axis=1)
    return q, q.max(axis=2)


def lower_values(
    counts: Counts,
    thresholds: FloatArray,
    reward: FloatHSA,
    floor: FloatArray,
    structure: Structure,
    chosen: IntArray,
) -> tuple[IntArray, FloatHS]:
    """Theorem 5: L_h(s) = max(f_h, r_low + min q L_{h+1}) for the actions of ``chosen``.

    Where it holds -1, the action with the best such bound, the first of several. min q L is
    - max q (-L). Forbidden actions pay -inf and are not chosen.
    """
    H, S, A = counts.shape.hsa
    actions, values = np.array(chosen), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        following = np.append(values[h + 1], 0.0)
        worst = np.zeros((S, A))
        if h < H - 1:
            worst = -best_successors(counts, h, thresholds, -following, structure)
        q = np.where(reward[h] == -inf, -inf, np.maximum(floor[h], reward[h] + worst))
        actions[h] = np.where(chosen[h] >= 0, chosen[h], q.argmax(axis=1))
        values[h] = q[np.arange(S), actions[h]]
    return actions, values[:-1]


def reach_from(
    counts: Counts,
    thresholds: FloatArray,
    structure: Structure,
    allowed: BoolArray,
    stage: int,
    state: int,
    *,
    upper: bool,
) -> FloatS:
    """Section 3, reachability: a bound on the best chance of being in a state at a stage.

    From every first state; the best action is taken, the best or worst q of its ball.
    """
    sign = 1.0 if upper else -1.0
    chance = np.zeros(counts.shape.states)
    chance[state] = 1.0
    for h in reversed(range(stage)):
        after = np.append(chance, 0.0)
        found = sign * best_successors(counts, h, thresholds, sign * after, structure)
        chance = np.where(allowed, np.maximum(found, 0.0), 0.0).max(axis=1)
    return chance


def reward_free_error(
    counts: Counts, radii: FloatArray, distances: FloatArray, theta: float, allowed: BoolArray
) -> tuple[FloatHS, IntArray]:
    """Theorem 6: X_h = min(H-h, min(kappa/theta, (H-h) tau) + p_hat max_b X_{h+1}), X_H = 0.

    Stages count from 1 in the formula. theta = 0 stands for total variation alone. With it the
    actions that attain the maximum over b: of equal ones the least visited, the first of these.
    """
    H, S, A = counts.shape.hsa
    values, chosen = np.zeros((H, S)), np.zeros((H, S), dtype=np.int64)
    for stage in range(H, 0, -1):
        h, left = stage - 1, float(H - stage)
        x = np.full((S, A), left)
        for s in range(S):
            for a in range(A):
                row, number = seen(counts, h, s, a), row_of(counts, h, s, a)
                if left == 0 or not row:
                    continue
                price = left * distances[number]
                price = min(price, radii[number] / theta) if theta > 0 else price
                n = sum(row.values())
                mean = sum(k * values[h + 1, i] for i, k in row.items() if i != END) / n
                x[s, a] = min(left, price + mean)
        x[~allowed] = -1.0
        values[h] = x.max(axis=1)
        chosen[h] = least_visited(x == values[h][:, None], counts.visits[h])
    return values, chosen


def least_visited(best: BoolArray, visits: IntArray) -> IntArray:
    """Per state the best action that was visited least, the first of several."""
    fewest: IntArray = np.where(best, visits, np.iinfo(np.int64).max).argmin(axis=1)
    return fewest
