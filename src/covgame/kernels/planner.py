"""Planning everything: ``game/planner.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from covgame.game.counts import SETTLED
from covgame.game.lookahead import ENOUGH, INITIAL_DEPTH, LARGE, NEAR, ROUTE_DEPTH
from covgame.kernels.jit import compiled, inlined
from covgame.kernels.layout import (
    BONUS,
    CAME_BY,
    DOUBT,
    LOG_CELLS,
    PATH_BONUS,
    PROMISE,
    QUEUE,
    ROUTE,
    SCALE,
    SEARCHED,
    STATES,
    VISIT_BONUS,
    ZERO,
)
from covgame.kernels.tables import borrowed, doubt_share, row_largest, row_moments, state_kappa


@compiled
def moments(rows, entries, first, values, h, mean, square):  # type: ignore[no-untyped-def]
    """The moments of the rows from ``first`` on, as many as ``mean`` holds."""
    for i in range(len(mean)):
        mean[i], square[i] = row_moments(rows[first + i], entries, values, h)


@compiled
def observations(rows, first, observed, share, doubted, doubt):  # type: ignore[no-untyped-def]
    """n, 1/n and the doubt of the rows from ``first`` on."""
    for i in range(len(observed)):
        entry = rows[first + i]
        observed[i], share[i] = float(entry.total), entry.share
        doubted[i] = doubt_share(observed[i], entry.size, doubt)


@compiled
def borrow(  # type: ignore[no-untyped-def]
    kappa, state_agreement, pool_rows, pool_mean, pool_square,
    mean, square, observed, share, doubted, doubt,
):  # fmt: skip
    """What ``Counts.estimate`` takes from the pool."""
    actions = len(mean) // len(state_agreement)
    for s in range(len(state_agreement)):
        lent = state_kappa(kappa, state_agreement, s)
        for i in range(s * actions, (s + 1) * actions):
            n = observed[i]
            extra = min(lent, pool_rows[i].total - n)
            if n < SETTLED * lent and extra > 0:
                n = n + extra
                trust = extra / n
                observed[i], share[i] = n, 1.0 / n
                mean[i] += trust * (pool_mean[i] - mean[i])
                square[i] += trust * (pool_square[i] - square[i])
                doubted[i] = doubt_share(n, pool_rows[i].size, doubt)


@inlined
def bonus_at(optimism, stages_left):  # type: ignore[no-untyped-def]
    """``RangeAwareOptimism.bonus_at``."""
    b = min(optimism[BONUS], optimism[PATH_BONUS] / stages_left)
    return b, min(b, optimism[VISIT_BONUS] / stages_left / stages_left)


@inlined
def upper_q(  # type: ignore[no-untyped-def]
    reward, mean, square, observed, share, doubted, best, remaining, b, b_range, promise
):
    """``RangeAwareOptimism.upper_q``; without branches, so that it runs on vectors."""
    variance = square - mean * mean
    variance = variance if variance > 0.0 else 0.0
    root, plain = math.sqrt(b * variance * share), b_range * remaining * share
    bonus = root if root > plain else plain
    hope = doubted * (best - mean)
    upper = mean + (hope if hope > bonus else bonus)
    upper = upper if upper < remaining else remaining
    return reward + (upper if observed > 0.0 else promise * remaining)


@compiled
def _range_aware(  # type: ignore[no-untyped-def]
    reward, mean, square, observed, share, doubted, best, remaining, b, b_range, promise, q
):
    """``upper_q`` of every pair."""
    for i in range(len(q)):
        q[i] = upper_q(
            reward[i], mean[i], square[i], observed[i], share[i], doubted[i], best[i], remaining,
            b, b_range, promise,
        )  # fmt: skip


@compiled
def best_of_state(  # type: ignore[no-untyped-def]
    rows, entries, first, pool_rows, pool_entries, pair, observed, place, actions, values, h
):
    """``Counts.best_after`` of a state; who has more observations than its row, borrows.

    The observations of its actions start at ``place``.
    """
    largest = 0.0
    for a in range(actions):
        entry = rows[first + a]
        largest = max(largest, row_largest(entry, entries, values, h))
        if observed[place + a] > entry.total:
            largest = max(largest, row_largest(pool_rows[pair + a], pool_entries, values, h))
    return largest


@compiled
def _find_best(  # type: ignore[no-untyped-def]
    rows, entries, first, pool_rows, pool_entries, observed, values, h, doubted, best, actions
):
    """``Counts.best_after``, for the pairs of states that have an action in doubt."""
    for pair in range(0, len(best), actions):
        in_doubt = 0.0
        for i in range(pair, pair + actions):
            in_doubt += doubted[i]
        if in_doubt > 0.0:
            largest = best_of_state(
                rows, entries, first + pair, pool_rows, pool_entries, pair, observed, pair,
                actions, values, h,
            )  # fmt: skip
            for i in range(pair, pair + actions):
                best[i] = largest


@compiled
def _paper_optimism(reward, mean, square, observed, share, scale, log_cells, states, q):  # type: ignore[no-untyped-def]
    """``PaperOptimism.upper_q``."""
    for i in range(len(q)):
        q[i] = 1.0
        if reward[i] == -np.inf:
            q[i] = -np.inf
        elif observed[i] > 0.0:
            beta = scale * (log_cells + states * math.log(8 * math.e * (observed[i] + 1)))
            b = 8 * beta
            variance = max(square[i] - mean[i] * mean[i], 0.0)
            bonus = max(math.sqrt(b * variance * share[i]), b * 1.0 * share[i])
            q[i] = min(1.0, reward[i] + mean[i] + bonus)


@inlined
def layer(h, horizon, deepest, depth):  # type: ignore[no-untyped-def]
    """Which of the stages that may be planned stands for stage h of an episode.

    As far as the plan looks ahead, or to the end of the episode if that is nearer.
    """
    return deepest - min(depth, horizon - h)


@inlined
def depth_to_try(deepest, stage_free):  # type: ignore[no-untyped-def]
    """The depth that a plan is tried with first: ``lookahead.first_depth``."""
    return min(INITIAL_DEPTH, deepest) if stage_free else deepest


@inlined
def sees_enough(values, depth, enough, left, s):  # type: ignore[no-untyped-def]
    """``Game.sees_enough``, with so many stages left."""
    deepest = len(values)
    return depth >= min(deepest, left) or values[deepest - depth, s] >= enough


@compiled
def note_depth(workspace, depth, top):  # type: ignore[no-untyped-def]
    """Note how far the plan looks; no stage earns more than ``top``."""
    most = 0.0
    for _ in range(depth):
        most = most + top
    workspace.depth[0], workspace.enough[0] = depth, ENOUGH * most


@compiled
def _most_frequent(entry, entries):  # type: ignore[no-untyped-def]
    """``SuccessorTable.most_frequent``, -1 for none."""
    successor, count = np.int64(-1), np.int64(0)
    for place in range(entry.start, entry.start + entry.size):
        known = entries[place]
        if known.count > count or (known.count == count and known.successor < successor):
            successor, count = known.successor, known.count
    return successor


@compiled
def _find_route(rows, entries, reward, actions, s, route, search, searches):  # type: ignore[no-untyped-def]
    """``lookahead.find_route``: writes the route; returns its length, 0 for none, and ``reached``.

    States of this search have its number in ``search[SEARCHED]``.
    """
    for i in range(searches[1]):
        route[search[ROUTE, i]] = -1
    searches[0] += 1
    number, searches[1] = searches[0], 0
    queue, came_by, searched = search[QUEUE], search[CAME_BY], search[SEARCHED]
    queue[0], came_by[s], searched[s] = s, -1, number
    first, last, length = ZERO, np.int64(1), ZERO
    while first < last and (length == 0 or last < LARGE):
        at = queue[first]
        first += 1
        for pair in range(at * actions, at * actions + actions):
            if length == 0 and reward[pair] > 0.0:
                step = pair
                while step >= 0:
                    route[step // actions] = step % actions
                    search[ROUTE, length] = step // actions
                    length += 1
                    step = came_by[step // actions]
                searches[1] = length
            if reward[pair] > -np.inf:
                successor = _most_frequent(rows[pair], entries)
                if successor >= 0 and searched[successor] != number:
                    searched[successor], came_by[successor] = number, pair
                    queue[last] = successor
                    last += 1
    return length, last


@compiled
def take_route(learnt, reward, workspace, depth, left, s):  # type: ignore[no-untyped-def]
    """Follow a route from state s, or keep the plan, with so many stages left: ``_plan_from``.

    Returns whether that was decided; if not, a deeper plan is needed.
    """
    if not learnt.stage_free or depth != ROUTE_DEPTH:
        return False
    length, reached = _find_route(
        learnt.rows, learnt.entries, reward, learnt.shape[2], s, workspace.route,
        workspace.search, workspace.searches,
    )  # fmt: skip
    if reached < LARGE or length == 0:
        return False
    if NEAR < length <= left:
        workspace.depth[0] = 0
    else:
        workspace.enough[0] = 0.0
    return True


@inlined
def digits(n):  # type: ignore[no-untyped-def]
    """Of a number in binary."""
    return math.frexp(float(n))[1]


@compiled
def _list_tried(rows, tried):  # type: ignore[no-untyped-def]
    """``Counts.tried`` of all pairs, where it is the same at all stages."""
    S, A = tried.shape
    for s in range(S):
        for a in range(A):
            tried[s, a] = digits(rows[s * A + a].total)


@compiled
def act(q, tried, chosen, upper):  # type: ignore[no-untyped-def]
    """Per state a best action, the least tried among the best, the first among those."""
    S, A = tried.shape
    for s in range(S):
        best, action = q[s * A], 0
        for a in range(1, A):
            if q[s * A + a] > best:
                best, action = q[s * A + a], a
            elif q[s * A + a] == best and tried[s, a] < tried[s, action]:
                action = a
        chosen[s] = action
        upper[s] = best


@compiled
def largest_of(values: Any) -> Any:
    """The largest of some numbers."""
    largest = -np.inf
    for value in values:
        largest = max(largest, value)
    return largest


@compiled
def plan(learnt, reward, optimism, paper, workspace, earliest):  # type: ignore[no-untyped-def]
    """``OptimisticPlanner.plan``: fills ``chosen`` from its row ``earliest`` on.

    Tuples are taken apart before the loop: handing one on, or an access inside, takes longer
    than planning a state.
    """
    visits, pooled, borrowing = learnt.visits, learnt.pooled, learnt.borrowing
    rows, entries, tried = learnt.rows, learnt.entries, workspace.tried
    if learnt.stage_free:
        _list_tried(rows, tried)
    pool_rows, pool_entries = learnt.pool_rows, learnt.pool_entries
    chosen, values, scratch = workspace.chosen, workspace.values, workspace.scratch
    mean, square, observed, share = scratch[0], scratch[1], scratch[2], scratch[3]
    pool_mean, pool_square = scratch[4], scratch[5]
    doubted, best, q = scratch[6], scratch[7], scratch[8]
    doubt, promise = optimism[DOUBT], optimism[PROMISE]
    if pooled:
        observations(rows, ZERO, observed, share, doubted, doubt)
    kappa = borrowed(learnt.agreement)
    last = len(chosen) - 1
    apart = ZERO if len(reward) == 1 else np.int64(1)  # whether stages have rewards of their own
    act(
        reward[last * apart], tried if learnt.stage_free else visits[last], chosen[last],
        values[last],
    )  # fmt: skip
    remaining = largest_of(reward[last * apart])
    for h in range(last - 1, earliest - 1, -1):
        first = ZERO if pooled else h * len(q)
        moments(rows, entries, first, values, h + 1, mean, square)
        if not pooled:
            observations(rows, first, observed, share, doubted, doubt)
        if borrowing:
            moments(pool_rows, pool_entries, ZERO, values, h + 1, pool_mean, pool_square)
            borrow(
                kappa, learnt.state_agreement, pool_rows, pool_mean, pool_square,
                mean, square, observed, share, doubted, doubt,
            )  # fmt: skip
        if paper is None:
            b, b_range = bonus_at(optimism, last - h)
            _find_best(
                rows, entries, first, pool_rows, pool_entries, observed, values, h + 1, doubted,
                best, learnt.shape[2],
            )  # fmt: skip
            _range_aware(
                reward[h * apart],
                mean,
                square,
                observed,
                share,
                doubted,
                best,
                remaining,
                b,
                b_range,
                promise,
                q,
            )
        else:
            _paper_optimism(
                reward[h * apart],
                mean,
                square,
                observed,
                share,
                paper[SCALE],
                paper[LOG_CELLS],
                paper[STATES],
                q,
            )
        act(q, tried if learnt.stage_free else visits[h], chosen[h], values[h])
        remaining = remaining + largest_of(reward[h * apart])
