"""Planning only where something has changed since the plan before (decision 11)."""

from __future__ import annotations

import numpy as np

from covgame.episodes import LAST
from covgame.game.counts import SETTLED
from covgame.kernels.jit import compiled, inlined, spliced
from covgame.kernels.layout import (
    CURRENT_RATE,
    DOUBT,
    DUE,
    HEAVY,
    KNOWN,
    LEANS,
    LINKS,
    PLAN_KAPPA,
    PLAN_RATE,
    PLAN_SHIFT,
    PLANNED,
    PROMISE,
    SHIFT,
    UNFOLLOWED,
    WHOLE,
    ZERO,
)
from covgame.kernels.planner import (
    best_of_state,
    bonus_at,
    depth_to_try,
    digits,
    largest_of,
    layer,
    note_depth,
    plan,
    sees_enough,
    take_route,
    upper_q,
)
from covgame.kernels.tables import borrowed, doubt_share, row_moments, state_kappa, times_seen
from covgame.types import END

HEAVY_SHARE, HEAVY_PLANS, WHOLE_PLANS = 3, 3, 200
"""After 3 plans in a row with over 1/3 of all states due, 200 are made as a whole."""


@inlined
def _mark(flags, due, n_due, h, s, needed):  # type: ignore[no-untyped-def]
    """Have a state planned anew, if it has the flags that are needed."""
    if flags[s, h] & (needed | DUE) == needed:
        flags[s, h] |= DUE
        due[h, n_due[h]] = s
        n_due[h] += 1


@inlined
def _mark_leading(link, links, flags, due, n_due, h, needed):  # type: ignore[no-untyped-def]
    """Have the states planned anew that lead to a successor, from its last link on."""
    while link >= 0:
        _mark(flags, due, n_due, h, links[link, 0], needed)
        link = links[link, 1]


@compiled
def _know(cache, h, s):  # type: ignore[no-untyped-def]
    """From now on an episode can be in a state at a stage, or at all of them."""
    if cache.flags[s, h] != 0:
        return
    first, last = (ZERO, len(cache.n_known)) if cache.everywhere else (h, h + 1)
    for stage in range(first, last):
        cache.flags[s, stage] = KNOWN | LEANS
        cache.known[stage, cache.n_known[stage]] = s
        cache.n_known[stage] += 1
        _mark(cache.flags, cache.due, cache.n_due, stage, s, KNOWN)
    if cache.everywhere:
        for stage in range(last):
            cache.n_followed[stage] += 1
    else:
        cache.tally[UNFOLLOWED] += 1


@compiled
def _know_successors(cache, h, entry, entries):  # type: ignore[no-untyped-def]
    for place in range(entry.start, entry.start + entry.size):
        if entries[place].successor != END:
            _know(cache, h + 1, entries[place].successor)


@compiled
def _follow(learnt, cache, earliest):  # type: ignore[no-untyped-def]
    """Know whatever the states known from a stage on have been seen to lead to."""
    _, S, A = learnt.shape
    known, n_known, n_followed = cache.known, cache.n_known, cache.n_followed
    H = len(known)
    for h in range(earliest, H - 1):
        first = ZERO if learnt.pooled else h * S * A
        while n_followed[h] < n_known[h]:  # which may become more
            s = known[h, n_followed[h]]
            for pair in range(s * A, s * A + A):
                _know_successors(cache, h, learnt.rows[first + pair], learnt.entries)
                if learnt.borrowing:
                    _know_successors(cache, h, learnt.pool_rows[pair], learnt.pool_entries)
            n_followed[h] += 1
    if earliest == 0:
        cache.tally[UNFOLLOWED] = 0


@compiled
def _led_to(rows, entries, first, last, s):  # type: ignore[no-untyped-def]
    """Whether one of these rows has led to a state."""
    found = False
    for row in range(first, last):
        found |= times_seen(rows[row], entries, s) > 0
    return found


@compiled
def _link(cache, head, place, s):  # type: ignore[no-untyped-def]
    """Note that a state leads to the successor whose links start at this place."""
    links, new = cache.links, cache.tally[LINKS]
    links[new, 0], links[new, 1] = s, head[place]
    head[place] = new
    cache.tally[LINKS] += 1


@compiled
def note_successor(cache, head, rows, entries, row, h, s, shape):  # type: ignore[no-untyped-def]
    """A row that counts at stage h, or at all where links are shared, has led to a new state."""
    _, S, A = shape
    H = len(cache.n_known)
    first = row - row % A
    if _led_to(rows, entries, first, row, s) or _led_to(rows, entries, row + 1, first + A, s):
        return
    state = row // A % S
    if len(head) > S:
        if h + 1 < H:  # environments show what came after the last stage as well
            _link(cache, head, (h + 1) * S + s, state)
            _know(cache, h + 1, s)
        return
    _link(cache, head, s, state)
    for stage in range(H - 1):
        if cache.flags[state, stage] != 0:
            _know(cache, stage + 1, s)


@inlined
def _set_top(tops, h, node, value):  # type: ignore[no-untyped-def]
    """Change a reward of a stage, and whatever is largest by it."""
    tops[h, node] = value
    while node > 1:
        node >>= 1
        largest = max(tops[h, 2 * node], tops[h, 2 * node + 1])
        if tops[h, node] == largest:
            return
        tops[h, node] = largest


@compiled
def _set_all_tops(tops, reward):  # type: ignore[no-untyped-def]
    """Take over the rewards of all stages."""
    H, pairs = reward.shape
    for h in range(H):
        for pair in range(pairs):
            tops[h, pairs + pair] = reward[h, pair]
        for node in range(pairs - 1, 0, -1):
            tops[h, node] = max(tops[h, 2 * node], tops[h, 2 * node + 1])


@compiled
def note_rewards(met, n_met, row_start, row_cell, reward, tops, A, flags, due, n_due):  # type: ignore[no-untyped-def]
    """Have planned anew where the cells of rows earn something else than when it was noted."""
    pairs = tops.shape[1] // 2
    for i in range(n_met):
        for place in range(row_start[met[i]], row_start[met[i] + 1]):
            cell = row_cell[place]
            h = cell // pairs
            pair = cell - h * pairs
            if tops[h, pairs + pair] != reward[cell]:
                _set_top(tops, h, pairs + pair, reward[cell])
                if len(tops) > 1:
                    _mark(flags, due, n_due, h, pair // A, KNOWN)
                    continue
                for stage in range(len(n_due)):
                    _mark(flags, due, n_due, stage, pair // A, KNOWN)


@compiled
def _note_visits(path, length, S, A, flags, due, n_due):  # type: ignore[no-untyped-def]
    """Have planned anew where an episode changed visits."""
    for h in range(length):
        _mark(flags, due, n_due, h, path[h] // A - h * S, KNOWN)


@compiled
def _note_steps(path, path_next, first, last, S, A, stage_free, flags, due, n_due):  # type: ignore[no-untyped-def]
    """Have planned anew, at all stages, what steps say about rows that stages share.

    Also where rows stand by themselves: how much a state borrows may have changed. At the last
    stage they say something only about which of equal actions comes next, ``Counts.tried``.
    """
    stages = len(n_due) if stage_free else len(n_due) - 1
    for h in range(first, last):
        if path_next[h] != LAST:
            s = path[h] // A - h * S
            for stage in range(stages):
                _mark(flags, due, n_due, stage, s, KNOWN)


@inlined
def _estimate(entry, entries, pool_rows, pool_entries, pair, kappa, values, h):  # type: ignore[no-untyped-def]
    """``Counts.estimate`` of a pair; kappa is 0 where nothing is borrowed."""
    mean, square = row_moments(entry, entries, values, h)
    observed, share, successors = float(entry.total), entry.share, entry.size
    if observed < SETTLED * kappa:
        lender = pool_rows[pair]
        extra = min(kappa, lender.total - observed)
        if extra > 0:
            observed = observed + extra
            share = 1.0 / observed
            trust = extra / observed
            pool_mean, pool_square = row_moments(lender, pool_entries, values, h)
            mean += trust * (pool_mean - mean)
            square += trust * (pool_square - square)
            successors = lender.size
    return mean, square, observed, share, successors


@inlined
def _tried(rows, visits, stage_free, h, s, a):  # type: ignore[no-untyped-def]
    """``Counts.tried``."""
    return digits(rows[s * visits.shape[2] + a].total) if stage_free else visits[h, s, a]


@compiled
def _renew(  # type: ignore[no-untyped-def]
    earliest, reward, optimism, kappa, state_agreement, pooled, stage_free, rows, entries,
    pool_rows, pool_entries, visits, chosen, values, scratch, flags, known, n_known, due, n_due,
    tops, remaining, own_head, shared_head, links,
):  # fmt: skip
    """The work of ``replan``, on arrays alone; returns how many states were planned."""
    _, S, A = visits.shape
    H = len(chosen)
    doubt, promise = optimism[DOUBT], optimism[PROMISE]
    mean, square, observed, share = scratch[0], scratch[1], scratch[2], scratch[3]
    doubted = scratch[4]
    planned, rest, lent = ZERO, 0.0, 0.0
    for h in range(H - 1, earliest - 1, -1):
        whole, earning = remaining[h] != rest, ZERO if len(reward) == 1 else h
        n = n_known[h] if whole else n_due[h]
        first = ZERO if pooled else h * S * A
        b, b_range = bonus_at(optimism, H - 1 - h) if h + 1 < H else (0.0, 0.0)
        for i in range(n):
            s = np.int64(known[h, i] if whole else due[h, i])
            leans, in_doubt, largest = pooled, 0.0, 0.0
            if h + 1 < H:
                if kappa > 0.0:
                    lent = state_kappa(kappa, state_agreement, s)
                for a in range(A):
                    entry = rows[first + s * A + a]
                    leans |= entry.total < SETTLED * lent
                    mean[a], square[a], observed[a], share[a], successors = _estimate(
                        entry, entries, pool_rows, pool_entries, s * A + a, lent, values, h + 1
                    )
                    doubted[a] = doubt_share(observed[a], successors, doubt)
                    in_doubt += doubted[a]
                if in_doubt > 0.0:
                    largest = best_of_state(
                        rows, entries, first + s * A, pool_rows, pool_entries, s * A, observed,
                        ZERO, A, values, h + 1,
                    )  # fmt: skip
            best, action = -np.inf, 0
            for a in range(A):
                q = reward[earning, s * A + a]
                if h + 1 < H:
                    q = upper_q(
                        q, mean[a], square[a], observed[a], share[a], doubted[a], largest, rest,
                        b, b_range, promise,
                    )  # fmt: skip
                if a == 0 or q > best:
                    best, action = q, a
                elif q == best and _tried(rows, visits, stage_free, h, s, a) < _tried(
                    rows, visits, stage_free, h, s, action
                ):
                    action = a
            chosen[h, s] = action
            flags[s, h] = KNOWN | LEANS if leans else KNOWN
            if best != values[h, s]:
                values[h, s] = best
                if h > 0 and len(own_head) > 0:
                    link = own_head[h * S + s]
                    _mark_leading(link, links, flags, due, n_due, h - 1, KNOWN)
                if h > 0 and len(shared_head) > 0:
                    _mark_leading(shared_head[s], links, flags, due, n_due, h - 1, KNOWN | LEANS)
        planned += n
        n_due[h] = 0
        remaining[h] = rest
        rest = rest + tops[earning, 1]
    return planned


@spliced
def replan(learnt, reward, optimism, workspace, cache, memory, earliest):  # type: ignore[no-untyped-def]
    """``plan`` of all states that can be entered, where something has changed since.

    A state whose value has changed makes those due that lead to it; a stage is planned anew as a
    whole when what any path can still earn has changed. Returns how many states were planned, 0 if
    all had to be.
    """
    basis, tally = cache.basis, cache.tally
    if tally[UNFOLLOWED] > 0:
        _follow(learnt, cache, earliest)
    kappa = borrowed(learnt.agreement) if learnt.borrowing else 0.0
    afresh = (
        basis[PLAN_RATE] != memory[CURRENT_RATE]
        or basis[PLAN_SHIFT] != memory[SHIFT]
        or basis[PLAN_KAPPA] != kappa
    )
    if afresh:
        basis[PLAN_RATE], basis[PLAN_SHIFT] = memory[CURRENT_RATE], memory[SHIFT]
        basis[PLAN_KAPPA] = kappa
        _set_all_tops(cache.tops, reward)
        for h in range(len(cache.remaining)):
            cache.remaining[h] = np.nan
    planned = _renew(
        earliest, reward, optimism, kappa, learnt.state_agreement, learnt.pooled,
        learnt.stage_free, learnt.rows, learnt.entries, learnt.pool_rows, learnt.pool_entries,
        learnt.visits, workspace.chosen, workspace.values, workspace.scratch, cache.flags,
        cache.known, cache.n_known, cache.due, cache.n_due, cache.tops, cache.remaining,
        cache.own_head, cache.shared_head, cache.links,
    )  # fmt: skip
    tally[PLANNED] += planned
    return ZERO if afresh else planned


@spliced
def keep_plan(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, workspace, cache, optimism, h, s, n_met, first_new
):
    """Plan for an episode that is in state s at stage h, the cheaper way: ``Game._plan_from``.

    Its steps from ``first_new`` on were learnt since the last plan.
    """
    H, S, A = learnt.shape
    deepest, tally = len(workspace.chosen), cache.tally
    depth = depth_to_try(deepest, learnt.stage_free)
    _know(cache, layer(h, H, deepest, depth), s)
    whole = tally[WHOLE] > 0
    if h > 0 and not whole:
        _note_steps(
            workspace.path, workspace.path_next, first_new, h, S, A, learnt.stage_free,
            cache.flags, cache.due, cache.n_due,
        )  # fmt: skip
        note_rewards(
            workspace.met, n_met, wanted.row_start, wanted.row_cell, weighing.reward,
            cache.tops, A, cache.flags, cache.due, cache.n_due,
        )  # fmt: skip
    planned, looking = ZERO, True
    while looking:
        earliest = layer(h, H, deepest, depth)
        if whole:
            plan(learnt, weighing.stage_reward, optimism, None, workspace, earliest)
            top = largest_of(weighing.stage_reward[0])
        else:
            planned += replan(
                learnt, weighing.stage_reward, optimism, workspace, cache, weighing.memory, earliest
            )
            top = cache.tops[0, 1]
        note_depth(workspace, depth, top)
        looking = not sees_enough(workspace.values, depth, workspace.enough[0], H - h, s)
        looking = looking and not take_route(
            learnt, weighing.stage_reward[0], workspace, depth, H - h, s
        )
        if looking:
            depth = min(2 * depth, deepest)
    if h == 0 and not whole and planned > 0:
        heavy = HEAVY_SHARE * planned > (deepest - earliest) * S
        tally[HEAVY] = tally[HEAVY] + 1 if heavy else 0


@spliced
def note_episode(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, workspace, cache, length, n_met, first_new
):
    """What an episode that is counted makes due; nothing if the next plan is made as a whole."""
    _, S, A = learnt.shape
    tally = cache.tally
    if tally[WHOLE] == 0 and tally[HEAVY] == HEAVY_PLANS:
        tally[HEAVY], tally[WHOLE] = 0, WHOLE_PLANS
    elif tally[WHOLE] > 1:
        tally[WHOLE] -= 1
    elif tally[WHOLE] == 1:
        tally[WHOLE] = 0
        cache.basis[PLAN_RATE] = np.nan
    else:
        if not learnt.stage_free:
            _note_visits(workspace.path, length, S, A, cache.flags, cache.due, cache.n_due)
        if learnt.pooled or learnt.borrowing:
            _note_steps(
                workspace.path, workspace.path_next, first_new, length, S, A, learnt.stage_free,
                cache.flags, cache.due, cache.n_due,
            )  # fmt: skip
        note_rewards(
            workspace.met, n_met, wanted.row_start, wanted.row_cell, weighing.reward,
            cache.tops, A, cache.flags, cache.due, cache.n_due,
        )  # fmt: skip
