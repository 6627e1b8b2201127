"""The game in blocks of episodes, compiled: the same episodes as the readable game.

``game/*.py`` and ``sources/simulated.py`` are the specification; every sum here runs in the
same order, so that the results are the same to the last bit (a test compares them).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from covgame.episodes import LAST
from covgame.game.adversary import FADED, NOTABLE, RATE, STALE
from covgame.game.counts import (
    AS_ELSEWHERE,
    BORROWED_STEPS,
    MOST_BORROWED,
    SETTLED,
    YOUNG,
    SuccessorTable,
)
from covgame.kernels.compiling import compiled, counted, inlined, playing
from covgame.rng import FIRST_FACTOR, INCREMENT, SECOND_FACTOR, UNIT
from covgame.types import END

COVERED, BUDGET, POOL_FULL, TOO_MANY = 0, 1, 2, 3
"""Why a block ended: all rows covered, episodes played, no room for new successors or numbers."""


class World(NamedTuple):
    """The model that episodes are drawn from."""

    initial: Any
    start: Any
    next_state: Any
    probability: Any
    rewards: Any
    stationary: Any


class Urns(NamedTuple):
    """The model that visits are drawn from: ``sources.by_counts.Urns``."""

    first_state: Any
    first_probability: Any
    start: Any
    next_state: Any
    probability: Any
    rewards: Any
    stationary: Any


class Learnt(NamedTuple):
    """``Counts``: the table and, where stages borrow, the pool; used: (places, largest row)."""

    visits: Any
    flat_visits: Any  # (H * S * A,), the same memory
    reward_sums: Any  # (H * S * A,)
    starts: Any
    rows: Any
    entries: Any
    used: Any
    pool_rows: Any
    pool_entries: Any
    pool_used: Any
    agreement: Any
    state_agreement: Any  # (S, 2)
    pooled: Any
    borrowing: Any


class Wanted(NamedTuple):
    """A target, what of it is collected, and which cells belong to which rows."""

    counts: Any
    log_counts: Any
    collected: Any
    any_stage: Any
    largest: Any
    smallest: Any
    most: Any
    row_start: Any
    row_cell: Any
    cell_start: Any
    cell_row: Any


class Weighing(NamedTuple):
    """``AdversaryState``: memory is (total, variance, rate, shift)."""

    weights: Any
    reward: Any
    stage_reward: Any  # (H, S * A), the same memory
    memory: Any


class Majority(NamedTuple):
    """What only ``WeightedMajority`` remembers; level is an array of one."""

    base: Any
    level: Any


class Workspace(NamedTuple):
    """Arrays that a block writes on; made outside, because the compiler takes long over that."""

    chosen: Any  # (H, S)
    values: Any  # (H, S + 1), the last column 0: the value of the end
    scratch: Any  # (9, S * A)
    everything: Any  # (G,), all rows of the target
    met: Any  # (G,)
    gain: Any  # (G,), all 0
    kept: Any  # (G,), weights of rows that the episode has covered
    path: Any  # (H,), cells of the episode
    path_next: Any  # (H,), their successors
    path_reward: Any  # (H,), and what they earned


class Standing(NamedTuple):
    """The plan as it stands, for ``_replan``: who can be entered, what is due, who leans on whom.

    A link says that a state has been seen to lead to another one: at one stage (``own_head``, where
    stages are apart), or at whichever stage (``shared_head``, where rows are pooled or borrowed).
    """

    flags: Any  # (S, H), of KNOWN, DUE and LEANS
    known: Any  # (H, S), states that an episode can be in at a stage, by what was seen
    n_known: Any  # (H,)
    n_followed: Any  # (H,), of how many of them the successors are known, too
    due: Any  # (H, S), states to be planned anew
    n_due: Any  # (H,)
    tops: Any  # (H, 2 * S * A), rewards behind their tournament: [h, 1] is the largest
    remaining: Any  # (H,), what any path earns after a stage, when it was planned
    basis: Any  # (3,), rate, shift and kappa of the plan: with them everything changes
    own_head: Any  # (H * S,) or empty, the last link of a successor, -1 if there is none
    shared_head: Any  # (S,) or empty
    links: Any  # (L, 2), state and next link
    tally: Any  # (6,), by EPISODE, LINKS, PLANNED, UNFOLLOWED, HEAVY and WHOLE


class Batch(NamedTuple):
    """Arrays for rounds that are played by counts."""

    policies: Any  # (POLICIES, H, S)
    present: Any  # (S,), episodes, or their share, that are in a state
    arriving: Any  # (S,), and that will be at the next stage
    mass: Any  # (S,), the same for shares
    arriving_mass: Any  # (S,)
    gains: Any  # (G,), visits of one draw, exact or expected
    anticipated: Any  # (G,)
    weights: Any  # (G,), as they would be then
    memory: Any  # (4,)


class Curious(NamedTuple):
    """``baselines.curiosity.Curiosity``, its functions of visits listed."""

    worth: Any  # (visits,)
    width: Any  # (visits,)
    spread: Any  # (visits,)
    caps: Any  # (H,)
    reward: Any  # (H, S * A)
    slope: Any
    learns_rewards: Any
    log_offset: Any  # negative for none
    per_pair: Any
    replans: Any
    clips: Any
    pair_visits: Any  # (S, A), written on: the visits of all stages
    flat_pair_visits: Any  # (S * A,), the same memory
    pair_sums: Any  # (S * A,), written on: their rewards


class Mixed(NamedTuple):
    """``baselines.peer.Mixture``: policies of which one is drawn before every episode."""

    tables: Any  # (policies, H, S), ANY where every action is as good
    uniform: Any  # (A,)
    seed: Any
    stream: Any


class Goals(NamedTuple):
    """What GOSPRL looks for: the rows of a target, which cells are goals, and room to plan."""

    counts: Any  # (G,)
    collected: Any  # (G,)
    any_stage: Any  # (G,)
    row_start: Any
    row_cell: Any
    cell_start: Any
    cell_row: Any
    by_stage: Any  # (H, S * A), whether a cell is a goal
    by_cell: Any  # (H * S * A,), the same memory
    values: Any  # (2, 2, S + 1)
    paths: Any  # (2, S * A)
    unions: Any
    b: Any
    most_rounds: Any
    close: Any
    replans: Any


class Record(NamedTuple):
    """Where the steps of a block are written."""

    lengths: Any
    state: Any
    action: Any
    reward: Any
    next_state: Any


ANY = -1
"""In a table of actions: all of them are as good."""
FIRST_CAPACITY = SuccessorTable.FIRST_CAPACITY
ZERO = np.int64(0)
KNOWN, DUE, LEANS = np.uint8(1), np.uint8(2), np.uint8(4)
"""Flags of a state at a stage: can be entered, is to be planned anew, needs shared rows."""
EPISODE, LINKS, PLANNED, UNFOLLOWED, HEAVY, WHOLE = 0, 1, 2, 3, 4, 5
"""Tallies: the episode that is next, links, states planned, known ones not followed yet, plans in
a row in which much was due, plans still to be made as a whole."""
HEAVY_SHARE, HEAVY_PLANS, WHOLE_PLANS = 3, 3, 200
"""After 3 plans in a row with over 1/3 of all states due, 200 are made as a whole."""
U11, U27, U30, U31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)


@compiled
def _mix(bits: Any) -> Any:
    bits = (bits ^ (bits >> U30)) * FIRST_FACTOR
    bits = (bits ^ (bits >> U27)) * SECOND_FACTOR
    return bits ^ (bits >> U31)


@compiled
def _key(seed: Any, stream: Any, episode: Any) -> Any:
    key = _mix(np.uint64(0) + INCREMENT + np.uint64(seed))
    key = _mix(key + INCREMENT + np.uint64(stream))
    return _mix(key + INCREMENT + np.uint64(episode))


@compiled
def _uniform(key: Any, index: Any) -> Any:
    """Number ``index`` (from 0) of ``rng.uniforms``."""
    return float(_mix(key + np.uint64(index + 1) * INCREMENT) >> U11) * UNIT


@compiled
def _draw(probability: Any, first: Any, last: Any, number: Any) -> Any:
    """The place whose share of [0, 1) holds the number; the last possible one takes the rest."""
    reached, possible = 0.0, first
    for place in range(first, last):
        reached += probability[place]
        if probability[place] > 0.0:
            possible = place
        if number < reached:
            return place
    return possible


@compiled
def _refresh_row(entry, entries, end):  # type: ignore[no-untyped-def]
    """Bring the first two successors up to date; the end of an episode is index S."""
    if entry.size > 0:
        known = entries[entry.start]
        entry.first = np.uint32(end if known.successor == END else known.successor)
        entry.p_first = known.count * entry.share
    if entry.size > 1:
        known = entries[entry.start + 1]
        entry.second = np.uint32(end if known.successor == END else known.successor)
        entry.p_second = known.count * entry.share


@compiled
def _refresh_rows(rows, entries, end):  # type: ignore[no-untyped-def]
    for row in range(len(rows)):
        _refresh_row(rows[row], entries, end)


@inlined
def _row_moments(entry, entries, values, h):  # type: ignore[no-untyped-def]
    """``SuccessorTable.moments`` of a row, for the values of stage h."""
    value = values[h, entry.first]
    part = entry.p_first * value
    mean, square = part, part * value
    value = values[h, entry.second]
    part = entry.p_second * value
    mean += part
    square += part * value
    if entry.size > 2:
        for place in range(entry.start + 2, entry.start + entry.size):
            known = entries[place]
            if known.successor != END:
                value = values[h, known.successor]
                part = known.count * entry.share * value
                mean += part
                square += part * value
    return mean, square


@inlined
def _row_largest(entry, entries, values, h):  # type: ignore[no-untyped-def]
    """``SuccessorTable.largest`` of a row, for the values of stage h."""
    largest = 0.0
    if entry.size > 0:
        largest = max(largest, values[h, entry.first])
    if entry.size > 1:
        largest = max(largest, values[h, entry.second])
    if entry.size > 2:
        for place in range(entry.start + 2, entry.start + entry.size):
            if entries[place].successor != END:
                largest = max(largest, values[h, entries[place].successor])
    return largest


@compiled
def _moments(rows, entries, first, values, h, mean, square):  # type: ignore[no-untyped-def]
    """The moments of the rows from ``first`` on, as many as ``mean`` holds."""
    for i in range(len(mean)):
        mean[i], square[i] = _row_moments(rows[first + i], entries, values, h)


@inlined
def _doubted(observed, successors, doubt):  # type: ignore[no-untyped-def]
    """How much of an estimate is doubt: g/(n + g), nothing once two successors were seen."""
    return doubt * (1.0 / (observed + doubt)) if successors == 1 else 0.0


@compiled
def _observations(rows, first, observed, share, doubted, doubt):  # type: ignore[no-untyped-def]
    """n, 1/n and the doubt of the rows from ``first`` on."""
    for i in range(len(observed)):
        entry = rows[first + i]
        observed[i], share[i] = float(entry.total), entry.share
        doubted[i] = _doubted(observed[i], entry.size, doubt)


@compiled
def _kappa(own: Any, others: Any) -> Any:
    """``counts._kappa``."""
    if others * (1.0 + MOST_BORROWED) >= own * MOST_BORROWED:
        return MOST_BORROWED
    return others / (own - others)


@compiled
def _borrowed(agreement: Any) -> Any:
    """``Counts.borrowed``."""
    kappa = _kappa(agreement[0], agreement[1])
    if kappa == MOST_BORROWED:
        return kappa
    fraction, exponent = math.frexp(kappa)
    return math.ldexp(math.floor(fraction * BORROWED_STEPS + 0.5) / BORROWED_STEPS, exponent)


@compiled
def _state_kappa(kappa: Any, state_agreement: Any, s: Any) -> Any:
    """``Counts.borrowed_by_state`` of a state, where ``kappa`` is borrowed in general."""
    others = AS_ELSEWHERE * (kappa / (1.0 + kappa))
    return _kappa(state_agreement[s, 0] + AS_ELSEWHERE, state_agreement[s, 1] + others)


@compiled
def _borrow(  # type: ignore[no-untyped-def]
    kappa, state_agreement, pool_rows, pool_mean, pool_square,
    mean, square, observed, share, doubted, doubt,
):  # fmt: skip
    """What ``Counts.estimate`` takes from the pool."""
    actions = len(mean) // len(state_agreement)
    for s in range(len(state_agreement)):
        lent = _state_kappa(kappa, state_agreement, s)
        for i in range(s * actions, (s + 1) * actions):
            n = observed[i]
            extra = min(lent, pool_rows[i].total - n)
            if n < SETTLED * lent and extra > 0:
                n = n + extra
                trust = extra / n
                observed[i], share[i] = n, 1.0 / n
                mean[i] += trust * (pool_mean[i] - mean[i])
                square[i] += trust * (pool_square[i] - square[i])
                doubted[i] = _doubted(n, pool_rows[i].size, doubt)


@inlined
def _upper(reward, mean, square, observed, share, doubted, best, remaining, b, promise):  # type: ignore[no-untyped-def]
    """``RangeAwareOptimism.upper_q``; without branches, so that it runs on vectors."""
    variance = square - mean * mean
    variance = variance if variance > 0.0 else 0.0
    root, plain = math.sqrt(b * variance * share), b * remaining * share
    bonus = root if root > plain else plain
    hope = doubted * (best - mean)
    upper = mean + (hope if hope > bonus else bonus)
    upper = upper if upper < remaining else remaining
    return reward + (upper if observed > 0.0 else promise * remaining)


@compiled
def _range_aware(reward, mean, square, observed, share, doubted, best, remaining, b, promise, q):  # type: ignore[no-untyped-def]
    """``_upper`` of every pair."""
    for i in range(len(q)):
        q[i] = _upper(
            reward[i], mean[i], square[i], observed[i], share[i], doubted[i], best[i], remaining,
            b, promise,
        )  # fmt: skip


@compiled
def _best_of_state(  # type: ignore[no-untyped-def]
    rows, entries, first, pool_rows, pool_entries, pair, observed, actions, values, h
):
    """``Counts.best_after`` of a state; who has more observations than its row, borrows."""
    largest = 0.0
    for a in range(actions):
        entry = rows[first + a]
        largest = max(largest, _row_largest(entry, entries, values, h))
        if observed[a] > entry.total:
            largest = max(largest, _row_largest(pool_rows[pair + a], pool_entries, values, h))
    return largest


@compiled
def _find_best(  # type: ignore[no-untyped-def]
    rows, entries, first, pool_rows, pool_entries, observed, values, h, doubted, best, actions
):
    """``Counts.best_after``, for the pairs of states that have an action in doubt."""
    for pair in range(0, len(best), actions):
        if doubted[pair : pair + actions].sum() > 0.0:
            best[pair : pair + actions] = _best_of_state(
                rows, entries, first + pair, pool_rows, pool_entries, pair,
                observed[pair : pair + actions], actions, values, h,
            )  # fmt: skip


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


@compiled
def _act(q, visits, chosen, upper):  # type: ignore[no-untyped-def]
    """Per state a best action, the least visited among the best, the first among those."""
    S, A = visits.shape
    for s in range(S):
        best, action = q[s * A], 0
        for a in range(1, A):
            if q[s * A + a] > best:
                best, action = q[s * A + a], a
            elif q[s * A + a] == best and visits[s, a] < visits[s, action]:
                action = a
        chosen[s] = action
        upper[s] = best


@compiled
def _largest(values: Any) -> Any:
    largest = -np.inf
    for value in values:
        largest = max(largest, value)
    return largest


@compiled
def _plan(learnt, reward, optimism, paper, workspace, earliest):  # type: ignore[no-untyped-def]
    """``OptimisticPlanner.plan``: fills ``chosen`` from the stage ``earliest`` on.

    Tuples are taken apart before the loop: handing one on, or an access inside, takes longer
    than planning a state.
    """
    visits, pooled, borrowing = learnt.visits, learnt.pooled, learnt.borrowing
    rows, entries = learnt.rows, learnt.entries
    pool_rows, pool_entries = learnt.pool_rows, learnt.pool_entries
    chosen, values, scratch = workspace.chosen, workspace.values, workspace.scratch
    mean, square, observed, share = scratch[0], scratch[1], scratch[2], scratch[3]
    pool_mean, pool_square = scratch[4], scratch[5]
    doubted, best, q = scratch[6], scratch[7], scratch[8]
    b, doubt, promise = optimism[0], optimism[1], optimism[2]
    if pooled:
        _observations(rows, ZERO, observed, share, doubted, doubt)
    kappa = _borrowed(learnt.agreement)
    last = len(visits) - 1
    _act(reward[last], visits[last], chosen[last], values[last])
    remaining = _largest(reward[last])
    for h in range(last - 1, earliest - 1, -1):
        first = ZERO if pooled else h * len(q)
        _moments(rows, entries, first, values, h + 1, mean, square)
        if not pooled:
            _observations(rows, first, observed, share, doubted, doubt)
        if borrowing:
            _moments(pool_rows, pool_entries, ZERO, values, h + 1, pool_mean, pool_square)
            _borrow(
                kappa, learnt.state_agreement, pool_rows, pool_mean, pool_square,
                mean, square, observed, share, doubted, doubt,
            )  # fmt: skip
        if paper is None:
            _find_best(
                rows, entries, first, pool_rows, pool_entries, observed, values, h + 1, doubted,
                best, visits.shape[2],
            )  # fmt: skip
            _range_aware(
                reward[h], mean, square, observed, share, doubted, best, remaining, b, promise, q
            )
        else:
            _paper_optimism(
                reward[h], mean, square, observed, share, paper[0], paper[1], paper[2], q
            )
        _act(q, visits[h], chosen[h], values[h])
        remaining = remaining + _largest(reward[h])


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
def _know(standing, h, s):  # type: ignore[no-untyped-def]
    """From now on an episode can be in a state at a stage."""
    if standing.flags[s, h] == 0:
        standing.flags[s, h] = KNOWN | LEANS
        standing.known[h, standing.n_known[h]] = s
        standing.n_known[h] += 1
        standing.tally[UNFOLLOWED] += 1
        _mark(standing.flags, standing.due, standing.n_due, h, s, KNOWN)


@compiled
def _know_successors(standing, h, entry, entries):  # type: ignore[no-untyped-def]
    for place in range(entry.start, entry.start + entry.size):
        if entries[place].successor != END:
            _know(standing, h + 1, entries[place].successor)


@compiled
def _follow(learnt, standing, earliest):  # type: ignore[no-untyped-def]
    """Know whatever the states known from a stage on have been seen to lead to."""
    H, S, A = learnt.visits.shape
    known, n_known, n_followed = standing.known, standing.n_known, standing.n_followed
    for h in range(earliest, H - 1):
        first = ZERO if learnt.pooled else h * S * A
        for i in range(n_followed[h], n_known[h]):
            for pair in range(known[h, i] * A, known[h, i] * A + A):
                _know_successors(standing, h, learnt.rows[first + pair], learnt.entries)
                if learnt.borrowing:
                    _know_successors(standing, h, learnt.pool_rows[pair], learnt.pool_entries)
        n_followed[h] = n_known[h]
    if earliest == 0:
        standing.tally[UNFOLLOWED] = 0


@compiled
def _led_to(rows, entries, first, last, s):  # type: ignore[no-untyped-def]
    """Whether one of these rows has led to a state."""
    found = False
    for row in range(first, last):
        found |= _seen(rows[row], entries, s) > 0
    return found


@compiled
def _link(standing, head, place, s):  # type: ignore[no-untyped-def]
    """Note that a state leads to the successor whose links start at this place."""
    links, new = standing.links, standing.tally[LINKS]
    links[new, 0], links[new, 1] = s, head[place]
    head[place] = new
    standing.tally[LINKS] += 1


@compiled
def _link_rows(standing, head, rows, entries, S, A):  # type: ignore[no-untyped-def]
    """The links of a table, one for each state and successor."""
    head[:] = -1
    for row in range(len(rows)):
        entry = rows[row]
        stage = row // (S * A)
        for place in range(entry.start, entry.start + entry.size):
            s = entries[place].successor
            if s != END and not _led_to(rows, entries, row - row % A, row, s):
                at = (stage + 1) * S + s if len(head) > S else s
                _link(standing, head, at, row // A - stage * S)


@compiled
def _set_up(learnt, standing):  # type: ignore[no-untyped-def]
    """Start from the counts: nothing is planned yet."""
    _, S, A = learnt.visits.shape
    standing.flags[:] = 0
    standing.n_known[:] = 0
    standing.n_followed[:] = 0
    standing.n_due[:] = 0
    standing.basis[:] = np.nan
    standing.tally[:] = 0
    if learnt.pooled:
        _link_rows(standing, standing.shared_head, learnt.rows, learnt.entries, S, A)
    else:
        _link_rows(standing, standing.own_head, learnt.rows, learnt.entries, S, A)
    if learnt.borrowing:
        _link_rows(standing, standing.shared_head, learnt.pool_rows, learnt.pool_entries, S, A)
    for s in range(S):
        if learnt.starts[s] > 0:
            _know(standing, ZERO, s)


@compiled
def _note_successor(standing, head, rows, entries, row, h, s, shape):  # type: ignore[no-untyped-def]
    """A row that counts at stage h, or at all where links are shared, has led to a new state."""
    H, S, A = shape
    first = row - row % A
    if _led_to(rows, entries, first, row, s) or _led_to(rows, entries, row + 1, first + A, s):
        return
    state = row // A % S
    if len(head) > S:
        _link(standing, head, (h + 1) * S + s, state)
        _know(standing, h + 1, s)
        return
    _link(standing, head, s, state)
    for stage in range(H - 1):
        if standing.flags[state, stage] != 0:
            _know(standing, stage + 1, s)


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
def _note_rewards(met, n_met, row_start, row_cell, reward, tops, A, flags, due, n_due):  # type: ignore[no-untyped-def]
    """Have planned anew where the cells of rows earn something else than when it was noted."""
    pairs = tops.shape[1] // 2
    for i in range(n_met):
        for place in range(row_start[met[i]], row_start[met[i] + 1]):
            cell = row_cell[place]
            h = cell // pairs
            pair = cell - h * pairs
            if tops[h, pairs + pair] != reward[cell]:
                _set_top(tops, h, pairs + pair, reward[cell])
                _mark(flags, due, n_due, h, pair // A, KNOWN)


@compiled
def _note_visits(path, length, S, A, flags, due, n_due):  # type: ignore[no-untyped-def]
    """Have planned anew where an episode changed visits."""
    for h in range(length):
        _mark(flags, due, n_due, h, path[h] // A - h * S, KNOWN)


@compiled
def _note_steps(path, path_next, first, last, S, A, flags, due, n_due):  # type: ignore[no-untyped-def]
    """Have planned anew, at all stages, what steps say about rows that stages share.

    Also where rows stand by themselves: how much a state borrows may have changed.
    """
    for h in range(first, last):
        if path_next[h] != LAST:
            s = path[h] // A - h * S
            for stage in range(len(n_due) - 1):
                _mark(flags, due, n_due, stage, s, KNOWN)


@inlined
def _estimate(entry, entries, pool_rows, pool_entries, pair, kappa, values, h):  # type: ignore[no-untyped-def]
    """``Counts.estimate`` of a pair; kappa is 0 where nothing is borrowed."""
    mean, square = _row_moments(entry, entries, values, h)
    observed, share, successors = float(entry.total), entry.share, entry.size
    if observed < SETTLED * kappa:
        lender = pool_rows[pair]
        extra = min(kappa, lender.total - observed)
        if extra > 0:
            observed = observed + extra
            share = 1.0 / observed
            trust = extra / observed
            pool_mean, pool_square = _row_moments(lender, pool_entries, values, h)
            mean += trust * (pool_mean - mean)
            square += trust * (pool_square - square)
            successors = lender.size
    return mean, square, observed, share, successors


@compiled
def _renew(  # type: ignore[no-untyped-def]
    earliest, reward, optimism, kappa, state_agreement, pooled, rows, entries, pool_rows,
    pool_entries, visits, chosen, values, scratch, flags, known, n_known, due, n_due, tops,
    remaining, own_head, shared_head, links,
):  # fmt: skip
    """The work of ``_replan``, on arrays alone; returns how many states were planned."""
    H, S, A = visits.shape
    b, doubt, promise = optimism[0], optimism[1], optimism[2]
    mean, square, observed, share = scratch[0], scratch[1], scratch[2], scratch[3]
    doubted = scratch[4]
    planned, rest, lent = ZERO, 0.0, 0.0
    for h in range(H - 1, earliest - 1, -1):
        whole = remaining[h] != rest
        n = n_known[h] if whole else n_due[h]
        first = ZERO if pooled else h * S * A
        for i in range(n):
            s = np.int64(known[h, i] if whole else due[h, i])
            leans, in_doubt, largest = pooled, 0.0, 0.0
            if h + 1 < H:
                if kappa > 0.0:
                    lent = _state_kappa(kappa, state_agreement, s)
                for a in range(A):
                    entry = rows[first + s * A + a]
                    leans |= entry.total < SETTLED * lent
                    mean[a], square[a], observed[a], share[a], successors = _estimate(
                        entry, entries, pool_rows, pool_entries, s * A + a, lent, values, h + 1
                    )
                    doubted[a] = _doubted(observed[a], successors, doubt)
                    in_doubt += doubted[a]
                if in_doubt > 0.0:
                    largest = _best_of_state(
                        rows, entries, first + s * A, pool_rows, pool_entries, s * A, observed, A,
                        values, h + 1,
                    )  # fmt: skip
            best, action = -np.inf, 0
            for a in range(A):
                q = reward[h, s * A + a]
                if h + 1 < H:
                    q = _upper(
                        q, mean[a], square[a], observed[a], share[a], doubted[a], largest, rest,
                        b, promise,
                    )  # fmt: skip
                if a == 0 or q > best:
                    best, action = q, a
                elif q == best and visits[h, s, a] < visits[h, s, action]:
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
        rest = rest + tops[h, 1]
    return planned


@compiled
def _replan(learnt, reward, optimism, workspace, standing, memory, earliest):  # type: ignore[no-untyped-def]
    """``_plan`` of all states that can be entered, where something has changed since.

    A state whose value has changed makes those due that lead to it; a stage is planned anew as a
    whole when what any path can still earn has changed.
    """
    basis, tally = standing.basis, standing.tally
    if tally[UNFOLLOWED] > 0:
        _follow(learnt, standing, earliest)
    kappa = _borrowed(learnt.agreement) if learnt.borrowing else 0.0
    afresh = basis[0] != memory[2] or basis[1] != memory[3] or basis[2] != kappa
    if afresh:
        basis[0], basis[1], basis[2] = memory[2], memory[3], kappa
        _set_all_tops(standing.tops, reward)
        standing.remaining[:] = np.nan
    planned = _renew(
        earliest, reward, optimism, kappa, learnt.state_agreement, learnt.pooled, learnt.rows,
        learnt.entries, learnt.pool_rows, learnt.pool_entries, learnt.visits, workspace.chosen,
        workspace.values, workspace.scratch, standing.flags, standing.known, standing.n_known,
        standing.due, standing.n_due, standing.tops, standing.remaining, standing.own_head,
        standing.shared_head, standing.links,
    )  # fmt: skip
    tally[PLANNED] += planned
    if earliest == 0 and not afresh:
        heavy = HEAVY_SHARE * planned > standing.flags.size
        tally[HEAVY] = tally[HEAVY] + 1 if heavy else 0


@compiled
def _keep_plan(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, workspace, standing, optimism, h, s, n_met, first_new
):
    """Plan for an episode that is in state s at stage h, the cheaper way.

    Its steps from ``first_new`` on were learnt since the last plan.
    """
    _know(standing, h, s)
    if standing.tally[WHOLE] > 0:
        _plan(learnt, weighing.stage_reward, optimism, None, workspace, h)
        return
    if h > 0:
        _, S, A = learnt.visits.shape
        _note_steps(
            workspace.path, workspace.path_next, first_new, h, S, A, standing.flags, standing.due,
            standing.n_due,
        )  # fmt: skip
        _note_rewards(
            workspace.met, n_met, wanted.row_start, wanted.row_cell, weighing.reward,
            standing.tops, learnt.visits.shape[2], standing.flags, standing.due, standing.n_due,
        )  # fmt: skip
    _replan(learnt, weighing.stage_reward, optimism, workspace, standing, weighing.memory, h)


@compiled
def _note_episode(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, workspace, standing, length, n_met, first_new
):
    """What an episode that is counted makes due; nothing if the next plan is made as a whole."""
    _, S, A = learnt.visits.shape
    tally = standing.tally
    if tally[WHOLE] == 0 and tally[HEAVY] == HEAVY_PLANS:
        tally[HEAVY], tally[WHOLE] = 0, WHOLE_PLANS
    elif tally[WHOLE] > 1:
        tally[WHOLE] -= 1
    elif tally[WHOLE] == 1:
        tally[WHOLE] = 0
        standing.basis[:] = np.nan
    else:
        _note_visits(workspace.path, length, S, A, standing.flags, standing.due, standing.n_due)
        if learnt.pooled or learnt.borrowing:
            _note_steps(
                workspace.path, workspace.path_next, first_new, length, S, A, standing.flags,
                standing.due, standing.n_due,
            )  # fmt: skip
        _note_rewards(
            workspace.met, n_met, wanted.row_start, wanted.row_cell, weighing.reward,
            standing.tops, A, standing.flags, standing.due, standing.n_due,
        )  # fmt: skip


@compiled
def _rate(rows: Any, variance: Any, fastest: Any) -> Any:
    if variance <= 0:
        return fastest
    return min(fastest, RATE * math.sqrt(math.log(max(rows, 2)) / variance))


@compiled
def _set_reward(cell, weights, cell_start, cell_row, reward):  # type: ignore[no-untyped-def]
    """A cell earns the sum of the weights of its rows."""
    if reward[cell] == -np.inf:
        return  # an action that the environment forbids
    total = 0.0
    for place in range(cell_start[cell], cell_start[cell + 1]):
        total += weights[cell_row[place]]
    reward[cell] = total


@compiled
def _set_rewards(wanted, weights, reward, met, n_met):  # type: ignore[no-untyped-def]
    """The rewards of the cells of the first ``n_met`` rows in ``met``."""
    row_start, row_cell = wanted.row_start, wanted.row_cell
    cell_start, cell_row = wanted.cell_start, wanted.cell_row
    for i in range(n_met):
        row = met[i]
        for place in range(row_start[row], row_start[row + 1]):
            _set_reward(row_cell[place], weights, cell_start, cell_row, reward)


@compiled
def _loss_variance(weights, total, met, n_met, gain, most):  # type: ignore[no-untyped-def]
    if total <= 0:
        return 0.0
    mean, square = 0.0, 0.0
    for i in range(n_met):
        row = met[i]
        loss = gain[row] / most
        mean += weights[row] * loss
        square += weights[row] * (loss * loss)
    mean, square = mean / total, square / total
    return max(0.0, square - mean * mean)


@compiled
def _exponent(rate: Any, largest: Any, collected: Any, count: Any, log_count: Any) -> Any:
    return -(rate * largest * collected / count) - log_count


@compiled
def _weigh_by_target(counts, log_counts, collected, largest, weights, memory):  # type: ignore[no-untyped-def]
    """``TargetAware._weigh``; memory is (total, variance, rate, shift)."""
    shift = -np.inf
    for row in range(len(counts)):
        weights[row] = -np.inf
        if collected[row] < counts[row]:
            weights[row] = _exponent(
                memory[2], largest, collected[row], counts[row], log_counts[row]
            )
            shift = max(shift, weights[row])
    if shift == -np.inf:
        shift = 0.0
    total = 0.0
    for row in range(len(counts)):
        weights[row] = math.exp(weights[row] - shift)
        total += weights[row]
    memory[0], memory[3] = total, shift


@compiled
def _observe_target_aware(wanted, weights, memory, reward, met, n_met, gain, everything):  # type: ignore[no-untyped-def]
    """``TargetAware.observe``; keeps the rewards of cells in step with the weights."""
    counts, log_counts, largest = wanted.counts, wanted.log_counts, wanted.largest
    collected = wanted.collected
    memory[1] += _loss_variance(weights, memory[0], met, n_met, gain, wanted.most)
    for i in range(n_met):
        row = met[i]
        weight = 0.0
        if collected[row] < counts[row]:
            exponent = _exponent(memory[2], largest, collected[row], counts[row], log_counts[row])
            weight = math.exp(exponent - memory[3])
        memory[0] += weight - weights[row]
        weights[row] = weight
    rate = _rate(len(counts), memory[1], math.sqrt(wanted.most))
    if rate < STALE * memory[2] or memory[0] < FADED:
        memory[2] = rate
        _weigh_by_target(counts, log_counts, collected, largest, weights, memory)
        met, n_met = everything, len(everything)
    _set_rewards(wanted, weights, reward, met, n_met)


@compiled
def _observe_missing_only(wanted, weights, memory, reward, met, n_met):  # type: ignore[no-untyped-def]
    """``MissingOnly.observe``."""
    counts, collected = wanted.counts, wanted.collected
    for i in range(n_met):
        row = met[i]
        if collected[row] >= counts[row] and weights[row] > 0:
            weights[row] = 0.0
            memory[0] -= 1.0
    _set_rewards(wanted, weights, reward, met, n_met)


@compiled
def _reached_level(counts, collected, smallest_count):  # type: ignore[no-untyped-def]
    smallest = np.inf
    for row in range(len(counts)):
        if collected[row] < counts[row]:
            smallest = min(smallest, counts[row])
    level = ZERO
    if smallest == np.inf:
        return level
    while smallest > smallest_count * 2.0 ** (level + 1):
        level += 1
    return level


@compiled
def _weigh_by_majority(counts, collected, threshold, weights, memory, base, most):  # type: ignore[no-untyped-def]
    """``WeightedMajority._weigh`` on the rows that ask for more than the threshold."""
    active, shift = ZERO, -np.inf
    for row in range(len(counts)):
        if counts[row] > threshold:
            active += 1
    memory[2] = _rate(active, memory[1], 1.0)
    for row in range(len(counts)):
        weights[row] = -np.inf
        if counts[row] > threshold:
            weights[row] = -memory[2] * ((collected[row] - base[row]) / most)
            shift = max(shift, weights[row])
    total = 0.0
    for row in range(len(counts)):
        weights[row] = math.exp(weights[row] - shift)
        total += weights[row]
    for row in range(len(counts)):
        weights[row] = weights[row] / total
    memory[0], memory[3] = 1.0, shift


@compiled
def _observe_weighted_majority(  # type: ignore[no-untyped-def]
    wanted, weights, memory, majority, reward, met, n_met, gain, everything
):
    """``WeightedMajority.observe``."""
    base, level = majority.base, majority.level
    counts, collected = wanted.counts, wanted.collected
    reached = _reached_level(counts, collected, wanted.smallest)
    if reached != level[0]:
        level[0] = reached
        memory[1] = 0.0
        for row in everything:
            base[row] = collected[row]
    else:
        memory[1] += _loss_variance(weights, memory[0], met, n_met, gain, wanted.most)
    threshold = -1.0 if reached == 0 else wanted.smallest * 2.0**reached
    _weigh_by_majority(counts, collected, threshold, weights, memory, base, wanted.most)
    _set_rewards(wanted, weights, reward, everything, len(everything))


@compiled
def _seen(entry, entries, s):  # type: ignore[no-untyped-def]
    """``SuccessorTable.seen``."""
    for place in range(entry.start, entry.start + entry.size):
        if entries[place].successor == s:
            return entries[place].count
    return 0


@compiled
def _compare(entry, entries, pool_entry, pool_entries, s, agreement, of_state):  # type: ignore[no-untyped-def]
    """``Counts._compare``."""
    n, n_all = entry.total, pool_entry.total
    if 0 < n < n_all:
        own, everywhere = _seen(entry, entries, s), _seen(pool_entry, pool_entries, s)
        agreement[0] += own / n
        agreement[1] += (everywhere - own) / (n_all - n)
        of_state[0] += own / n
        of_state[1] += (everywhere - own) / (n_all - n)


@compiled
def _count_transition(entry, entries, used, s, end, times):  # type: ignore[no-untyped-def]
    """``SuccessorTable.add``; the caller has seen to it that the pool has room.

    Returns whether the successor is new to the row.
    """
    entry.total += times
    entry.share = 1.0 / entry.total
    for place in range(entry.start, entry.start + entry.size):
        if entries[place].successor == s:
            entries[place].count += times
            _refresh_row(entry, entries, end)
            return False
    if entry.size == entry.capacity:
        room = max(FIRST_CAPACITY, 2 * entry.capacity)
        new = used[0]
        for i in range(entry.size):
            entries[new + i].successor = entries[entry.start + i].successor
            entries[new + i].count = entries[entry.start + i].count
        entry.start = new
        entry.capacity = room
        used[0] += room
        used[1] = max(used[1], room)
    entries[entry.start + entry.size].successor = s
    entries[entry.start + entry.size].count = times
    entry.size += 1
    _refresh_row(entry, entries, end)
    return True


@compiled
def _has_room(entries, used, horizon):  # type: ignore[no-untyped-def]
    """Whether any episode fits in.

    A row of capacity c that gains m successors moves to places of 2c, 4c, ..., 4c + 4m in all.
    """
    return used[0] + 4 * horizon * (used[1] + 1) <= len(entries)


@compiled
def _collect(counts, collected, met, n_met, gain):  # type: ignore[no-untyped-def]
    """Add an episode's gains; returns how many rows have just been covered."""
    covered = 0
    for i in range(n_met):
        row = met[i]
        was_open = collected[row] < counts[row]
        collected[row] += gain[row]
        if was_open and collected[row] >= counts[row]:
            covered += 1
    return covered


@compiled
def _visit(cell, cell_start, cell_row, gain, met, n_met):  # type: ignore[no-untyped-def]
    """Count a visit for the rows of a cell; returns how many rows were met so far."""
    for place in range(cell_start[cell], cell_start[cell + 1]):
        row = cell_row[place]
        if gain[row] == 0:
            met[n_met] = row
            n_met += 1
        gain[row] += 1
    return n_met


@compiled
def _lower_weights(wanted, weights, memory, reward, met, n_met, gain, missing_only):  # type: ignore[no-untyped-def]
    """``Game.revised_weights``: rows open to all stages weigh less after the episode's visits."""
    counts, log_counts, collected = wanted.counts, wanted.log_counts, wanted.collected
    for i in range(n_met):
        row = met[i]
        if not wanted.any_stage[row] or collected[row] >= counts[row]:
            continue
        n = collected[row] + gain[row]
        if n >= counts[row]:
            weights[row] = 0.0
        elif not missing_only:
            exponent = _exponent(memory[2], wanted.largest, n, counts[row], log_counts[row])
            weights[row] = math.exp(exponent - memory[3])
    _set_rewards(wanted, weights, reward, met, n_met)


@compiled
def _turns(cell, pace, cell_start, cell_row, counts, collected, any_stage, gain):  # type: ignore[no-untyped-def]
    """``Game._turns`` for any of the rows of a cell that was just visited."""
    for place in range(cell_start[cell], cell_start[cell + 1]):
        row = cell_row[place]
        count, times = counts[row], gain[row]
        missing = count - collected[row]
        if any_stage[row] and times - 1 < missing:
            before, now = pace * (times - 1) / count, pace * times / count
            if times >= missing or math.floor(now / NOTABLE) > math.floor(before / NOTABLE):
                return True
    return False


@compiled
def _play_on(  # type: ignore[no-untyped-def]
    key, world, learnt, wanted, weights, workspace, standing, shape, h, s, n_met, revising, pace,
    learning,
):  # fmt: skip
    """Go on with an episode at stage h in state s; its visits are counted nowhere yet.

    Returns (stage, state, rows met, whether what is wanted has changed): where to plan anew because
    of that, or because a step that was learnt at once is news, or because the state is not in the
    plan; or the length of the episode and END. ``pace`` is how fast visits lower an exponent.
    """
    H, S, A = shape
    world_start, world_next = world.start, world.next_state
    probability, stationary = world.probability, world.stationary
    chosen, path, path_next = workspace.chosen, workspace.path, workspace.path_next
    gain, met, kept = workspace.gain, workspace.met, workspace.kept
    cell_start, cell_row = wanted.cell_start, wanted.cell_row
    counts, collected, any_stage = wanted.counts, wanted.collected, wanted.any_stage
    if standing is not None:
        flags, whole = standing.flags, standing.tally[WHOLE] > 0
    while True:
        pair = s * A + chosen[h, s]
        cell = h * S * A + pair
        met_before = n_met
        n_met = _visit(cell, cell_start, cell_row, gain, met, n_met)
        for i in range(met_before, n_met):
            kept[met[i]] = weights[met[i]]
        s = LAST
        if h + 1 < H:
            row = pair if stationary else cell
            number = _uniform(key, 2 + 3 * h)
            s = world_next[_draw(probability, world_start[row], world_start[row + 1], number)]
        path[h], path_next[h] = cell, s
        h += 1
        news = learning and s != LAST and _learn(learnt, standing, h - 1, cell, s)
        if s < 0:
            return h, END, n_met, False
        turned = revising and _turns(
            cell, pace, cell_start, cell_row, counts, collected, any_stage, gain
        )
        if turned or news or (standing is not None and flags[s, h] == 0 and not whole):
            return h, s, n_met, turned


@compiled
def _learn(learnt, standing, h, cell, following):  # type: ignore[no-untyped-def]
    """``Counts.learn``; a standing plan hears of new successors."""
    shape = learnt.visits.shape
    _, S, A = shape
    pair, new = cell - h * S * A, False
    rows, entries, pooled = learnt.rows, learnt.entries, learnt.pooled
    row = pair if pooled else cell
    seen = rows[row].total + 1
    if learnt.borrowing:
        pool_rows, pool_entries = learnt.pool_rows, learnt.pool_entries
        _compare(
            rows[cell], entries, pool_rows[pair], pool_entries, following, learnt.agreement,
            learnt.state_agreement[pair // A],
        )  # fmt: skip
        seen = pool_rows[pair].total + 1
        new = _count_transition(pool_rows[pair], pool_entries, learnt.pool_used, following, S, 1)
        if standing is not None and new and following != END:
            _note_successor(
                standing, standing.shared_head, pool_rows, pool_entries, pair, h, following, shape
            )
    own_new = _count_transition(rows[row], entries, learnt.used, following, S, 1)
    if standing is not None and own_new and following != END:
        head = standing.shared_head if pooled else standing.own_head
        _note_successor(standing, head, rows, entries, row, h, following, shape)
    return (pooled or learnt.borrowing) and (seen <= YOUNG or new or (pooled and own_new))


@compiled
def _count_episode(learnt, standing, path, path_next, path_reward, length, first_new):  # type: ignore[no-untyped-def]
    """``Counts.add``, of which the steps before ``first_new`` are learnt already."""
    A = learnt.visits.shape[2]
    visits, reward_sums = learnt.flat_visits, learnt.reward_sums
    learnt.starts[path[0] // A] += 1
    for h in range(length):
        visits[path[h]] += 1
        reward_sums[path[h]] += path_reward[h]
        if h >= first_new and path_next[h] != LAST:
            _learn(learnt, standing, h, path[h], path_next[h])


@inlined
def _earned(key, h, s, a, rewards):  # type: ignore[no-untyped-def]
    """What a step earns."""
    return 1.0 if _uniform(key, 3 + 3 * h) < rewards[h % len(rewards), s, a] else 0.0


@compiled
def _earn(key, path, path_reward, length, shape, rewards):  # type: ignore[no-untyped-def]
    """What the steps of an episode earn."""
    _, S, A = shape
    for h in range(length):
        pair = path[h] % (S * A)
        path_reward[h] = _earned(key, h, pair // A, pair % A, rewards)


@compiled
def _write_down(workspace, length, shape, record, steps):  # type: ignore[no-untyped-def]
    """The steps of an episode."""
    _, S, A = shape
    for h in range(length):
        pair = workspace.path[h] % (S * A)
        record.state[steps + h] = pair // A
        record.action[steps + h] = pair % A
        record.reward[steps + h] = workspace.path_reward[h]
        record.next_state[steps + h] = workspace.path_next[h]


@compiled
def _tell(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, workspace, standing, majority, missing_only, length, n_met,
    first_new, first_due,
):  # fmt: skip
    """``Game.tell``: the episode on the path, and its gains; returns how many rows it covered.

    Steps from ``first_new`` on are still to be learnt, from ``first_due`` on to be planned for.
    """
    weights, memory, reward = weighing.weights, weighing.memory, weighing.reward
    met, gain, everything = workspace.met, workspace.gain, workspace.everything
    path, path_next = workspace.path, workspace.path_next
    _count_episode(learnt, standing, path, path_next, workspace.path_reward, length, first_new)
    covered = _collect(wanted.counts, wanted.collected, met, n_met, gain)
    if majority is not None:
        _observe_weighted_majority(
            wanted, weights, memory, majority, reward, met, n_met, gain, everything
        )
    elif missing_only:
        _observe_missing_only(wanted, weights, memory, reward, met, n_met)
    else:
        _observe_target_aware(wanted, weights, memory, reward, met, n_met, gain, everything)
    for i in range(n_met):
        gain[met[i]] = 0
    if standing is not None:
        _note_episode(learnt, wanted, weighing, workspace, standing, length, n_met, first_due)
    return covered


@compiled
def refresh(learnt):  # type: ignore[no-untyped-def]
    """Bring the tables to the form that planning reads."""
    _refresh_rows(learnt.rows, learnt.entries, learnt.visits.shape[1])
    _refresh_rows(learnt.pool_rows, learnt.pool_entries, learnt.visits.shape[1])


@compiled
def plan_episode(learnt, stage_reward, workspace, optimism, paper, earliest):  # type: ignore[no-untyped-def]
    """``Game.ask`` for what somebody else plays from a stage on; fills ``workspace.chosen``."""
    _plan(learnt, stage_reward, optimism, paper, workspace, earliest)


@compiled
def has_room(learnt):  # type: ignore[no-untyped-def]
    """Whether any episode can be counted."""
    H = len(learnt.visits)
    if learnt.borrowing and not _has_room(learnt.pool_entries, learnt.pool_used, H):
        return False
    return _has_room(learnt.entries, learnt.used, H)


@compiled
def learn_steps(learnt, workspace, first, last):  # type: ignore[no-untyped-def]
    """``Counts.learn`` of steps on the path; there has to be room for an episode."""
    for h in range(first, last):
        _learn(learnt, None, h, workspace.path[h], workspace.path_next[h])


@compiled
def tell_episode(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, workspace, majority, missing_only, length, first_new
):
    """``Game.tell`` of an episode that somebody else played and wrote on the path.

    Returns whether there was room to count it; if not, nothing has happened.
    """
    if not has_room(learnt):
        return False
    n_met = ZERO
    for h in range(length):
        n_met = _visit(
            workspace.path[h], wanted.cell_start, wanted.cell_row,
            workspace.gain, workspace.met, n_met,
        )  # fmt: skip
    _tell(
        learnt, wanted, weighing, workspace, None, majority, missing_only, length, n_met,
        first_new, ZERO,
    )  # fmt: skip
    return True


@playing
def play_block(  # type: ignore[no-untyped-def]
    most_episodes, first_episode, seed, stream,
    world, learnt, wanted, weighing, workspace, standing, optimism, paper, majority, missing_only,
    learning, record, recording,
):  # fmt: skip
    """Play up to ``most_episodes``; returns (why it ended, episodes played, steps taken).

    ``paper`` is None or the numbers of ``PaperOptimism``, ``majority`` None or a ``Majority``,
    ``standing`` None or a ``Standing`` that saves planning all anew: what is None is left out when
    compiling, so that the usual game does not wait for the other.
    """
    shape = learnt.visits.shape
    S = shape[1]
    revising = wanted.most > 1.0 and majority is None
    memory = weighing.memory
    counts, collected = wanted.counts, wanted.collected
    weights, reward = weighing.weights, weighing.reward
    met, gain = workspace.met, workspace.gain
    if standing is None:
        refresh(learnt)
    elif standing.tally[EPISODE] != first_episode:
        refresh(learnt)
        _set_up(learnt, standing)
    still_open = ZERO
    for row in range(len(counts)):
        if collected[row] < counts[row]:
            still_open += 1
    steps = ZERO
    for played in range(most_episodes):
        if still_open == 0:
            return COVERED, played, steps
        if not has_room(learnt):
            return POOL_FULL, played, steps
        key = _key(seed, stream, first_episode + played)
        s = _draw(world.initial, ZERO, S, _uniform(key, ZERO))
        length, n_met, turned, planned_at = ZERO, ZERO, False, ZERO
        while s != END:
            if turned:
                _lower_weights(wanted, weights, memory, reward, met, n_met, gain, missing_only)
            if standing is None:
                _plan(learnt, weighing.stage_reward, optimism, paper, workspace, length)
            else:
                _keep_plan(
                    learnt, wanted, weighing, workspace, standing, optimism, length, s, n_met,
                    planned_at if learning else length,
                )  # fmt: skip
            planned_at = length
            length, s, n_met, turned = _play_on(
                key, world, learnt, wanted, weights, workspace, standing, shape, length, s, n_met,
                revising, 0.0 if missing_only else memory[2] * wanted.largest, learning,
            )  # fmt: skip
        _earn(key, workspace.path, workspace.path_reward, length, shape, world.rewards)
        if recording:
            _write_down(workspace, length, shape, record, steps)
        record.lengths[played] = length
        steps += length
        for i in range(n_met):
            weights[met[i]] = workspace.kept[met[i]]
        still_open -= _tell(
            learnt, wanted, weighing, workspace, standing, majority, missing_only, length, n_met,
            length if learning else ZERO, planned_at if learning else ZERO,
        )  # fmt: skip
        if standing is not None:
            standing.tally[EPISODE] = first_episode + played + 1
    if still_open == 0:
        return COVERED, most_episodes, steps
    return BUDGET, most_episodes, steps


@compiled
def _set_all_rewards(wanted, weights, reward, everything):  # type: ignore[no-untyped-def]
    _set_rewards(wanted, weights, reward, everything, len(everything))


@counted
def _expect(learnt, n_episodes, chosen, wanted, batch):  # type: ignore[no-untyped-def]
    """``gains``: what an episode of a policy collects on the learnt model."""
    H, S, A = learnt.visits.shape
    rows, entries, pooled = learnt.rows, learnt.entries, learnt.pooled
    cell_start, cell_row = wanted.cell_start, wanted.cell_row
    gains, mass, arriving = batch.gains, batch.mass, batch.arriving_mass
    gains[:] = 0.0
    for s in range(S):
        mass[s] = learnt.starts[s] / max(1, n_episodes)
    for h in range(H):
        arriving[:] = 0.0
        for s in range(S):
            if mass[s] == 0.0:
                continue
            pair = s * A + chosen[h, s]
            cell = h * S * A + pair
            for place in range(cell_start[cell], cell_start[cell + 1]):
                gains[cell_row[place]] += mass[s]
            entry = rows[pair if pooled else cell]
            for place in range(entry.start, entry.start + entry.size):
                known = entries[place]
                if known.successor != END:
                    arriving[known.successor] += mass[s] * (known.count / entry.total)
        mass[:] = arriving


@counted
def _anticipate(wanted, weighing, workspace, batch, majority, missing_only):  # type: ignore[no-untyped-def]
    """``Adversary.anticipate``: the rewards as they would be after the anticipated visits."""
    counts, log_counts, anticipated = wanted.counts, wanted.log_counts, batch.anticipated
    weights, memory = batch.weights, batch.memory
    memory[:] = weighing.memory
    if majority is not None:
        level = majority.level[0]
        threshold = -1.0 if level == 0 else wanted.smallest * 2.0**level
        _weigh_by_majority(
            counts, anticipated, threshold, weights, memory, majority.base, wanted.most
        )
    elif missing_only:
        for row in range(len(counts)):
            weights[row] = 1.0 if anticipated[row] < counts[row] else 0.0
    else:
        _weigh_by_target(counts, log_counts, anticipated, wanted.largest, weights, memory)
    if not weights.any():
        weights[:] = weighing.weights
    _set_all_rewards(wanted, weights, weighing.reward, workspace.everything)


@counted
def _plan_batch(  # type: ignore[no-untyped-def]
    policies, each, n_episodes, learnt, wanted, weighing, workspace, batch,
    optimism, paper, majority, missing_only,
):  # fmt: skip
    """``plan_batch``."""
    batch.anticipated[:] = wanted.collected
    for number in range(policies):
        if number > 0:
            _expect(learnt, n_episodes, batch.policies[number - 1], wanted, batch)
            for row in range(len(batch.gains)):
                batch.anticipated[row] += batch.gains[row] * each
            _anticipate(wanted, weighing, workspace, batch, majority, missing_only)
        _plan(learnt, weighing.stage_reward, optimism, paper, workspace, ZERO)
        batch.policies[number][:] = workspace.chosen


@counted
def _take(rng, left, probability, rest):  # type: ignore[no-untyped-def]
    """How many of those that are left go where the probability, of ``rest``, says."""
    return rng.binomial(left, min(1.0, probability / rest)) if left > 0 else ZERO


@counted
def _draw_visits(rng, episodes, chosen, world, learnt, wanted, batch):  # type: ignore[no-untyped-def]
    """``draw_visits`` and ``Counts.add_visits`` in one; ``gains`` is what the rows collect."""
    H, S, A = learnt.visits.shape
    first_state, first_probability = world.first_state, world.first_probability
    start, next_state, probability = world.start, world.next_state, world.probability
    rows, entries, used, pooled = learnt.rows, learnt.entries, learnt.used, learnt.pooled
    pool_rows, pool_entries, pool_used = learnt.pool_rows, learnt.pool_entries, learnt.pool_used
    visits, reward_sums, borrowing = learnt.flat_visits, learnt.reward_sums, learnt.borrowing
    cell_start, cell_row = wanted.cell_start, wanted.cell_row
    present, arriving, gains = batch.present, batch.arriving, batch.gains
    gains[:] = 0.0
    present[:] = 0
    left, rest = episodes, 1.0
    for i in range(len(first_state)):
        share = first_probability[i]
        taken = left if i + 1 == len(first_state) else _take(rng, left, share, rest)
        present[first_state[i]] += taken
        learnt.starts[first_state[i]] += taken
        left, rest = left - taken, rest - share
    for h in range(H):
        arriving[:] = 0
        for s in range(S):
            n = present[s]
            if n == 0:
                continue
            pair = s * A + chosen[h, s]
            cell = h * S * A + pair
            visits[cell] += n
            for place in range(cell_start[cell], cell_start[cell + 1]):
                gains[cell_row[place]] += n
            mean = world.rewards[h % len(world.rewards), s, chosen[h, s]]
            if mean > 0.0:
                reward_sums[cell] += rng.binomial(n, mean)
            if h + 1 == H:
                continue
            row = pair if world.stationary else cell
            left, rest = n, 1.0
            for place in range(start[row], start[row + 1]):
                share = probability[place]
                taken = left if place + 1 == start[row + 1] else _take(rng, left, share, rest)
                left, rest = left - taken, rest - share
                if taken == 0:
                    continue
                following = next_state[place]
                if following != END:
                    arriving[following] += taken
                if borrowing:
                    _count_transition(pool_rows[pair], pool_entries, pool_used, following, S, taken)
                _count_transition(
                    rows[pair if pooled else cell], entries, used, following, S, taken
                )
        present[:] = arriving


@counted
def _observe_many(wanted, weighing, workspace, batch, majority, missing_only, episodes):  # type: ignore[no-untyped-def]
    """``Adversary.observe_many`` of the gains, which are collected already."""
    counts, collected, gains = wanted.counts, wanted.collected, batch.gains
    weights, memory = weighing.weights, weighing.memory
    mean = 0.0
    for row in range(len(counts)):
        mean += weights[row] * gains[row]
    variance = 0.0
    if memory[0] > 0:
        mean = mean / (memory[0] * wanted.most * episodes)
        variance = episodes * max(0.0, mean * (1.0 - mean))
    if majority is not None:
        reached = _reached_level(counts, collected, wanted.smallest)
        if reached != majority.level[0]:
            majority.level[0] = reached
            memory[1] = 0.0
            majority.base[:] = collected
        else:
            memory[1] += variance
        threshold = -1.0 if reached == 0 else wanted.smallest * 2.0**reached
        _weigh_by_majority(
            counts, collected, threshold, weights, memory, majority.base, wanted.most
        )
    elif missing_only:
        memory[0] = 0.0
        for row in range(len(counts)):
            weights[row] = 1.0 if collected[row] < counts[row] else 0.0
            memory[0] += weights[row]
    else:
        memory[1] += variance
        memory[2] = _rate(len(counts), memory[1], math.sqrt(wanted.most))
        _weigh_by_target(counts, wanted.log_counts, collected, wanted.largest, weights, memory)
    _set_all_rewards(wanted, weights, weighing.reward, workspace.everything)


@compiled
def _is_covered(counts, collected):  # type: ignore[no-untyped-def]
    still_open = 0
    for row in range(len(counts)):
        if collected[row] < counts[row]:
            still_open += 1
    return still_open == 0


@counted
def play_counted(  # type: ignore[no-untyped-def]
    rounds, most_episodes, most_in_all, growth, n_episodes, rng,
    world, learnt, wanted, weighing, workspace, batch, optimism, paper, majority, missing_only,
):  # fmt: skip
    """Play so many rounds by counts; returns (why it ended, episodes played)."""
    counts, collected = wanted.counts, wanted.collected
    played = ZERO
    _set_all_rewards(wanted, weighing.weights, weighing.reward, workspace.everything)
    for _ in range(rounds):
        if _is_covered(counts, collected):
            return COVERED, played
        size = min(most_episodes - played, max(1, np.int64(growth * (n_episodes + played))))
        if size <= 0:
            return BUDGET, played
        if n_episodes + played > most_in_all - size:
            return TOO_MANY, played
        policies = min(len(batch.policies), size)
        each, more = size // policies, size % policies
        _plan_batch(
            policies, each, n_episodes + played, learnt, wanted, weighing, workspace, batch,
            optimism, paper, majority, missing_only,
        )  # fmt: skip
        for number in range(policies):
            episodes = each + (1 if number < more else 0)
            _draw_visits(rng, episodes, batch.policies[number], world, learnt, wanted, batch)
            for row in range(len(collected)):
                collected[row] += batch.gains[row]
            _observe_many(wanted, weighing, workspace, batch, majority, missing_only, episodes)
            played += episodes
            if _is_covered(counts, collected):
                return COVERED, played
    return BUDGET, played


@compiled
def _sum_stages(by_cell, together):  # type: ignore[no-untyped-def]
    """What is counted per cell, of all stages together; returns its sum."""
    together[:] = 0
    total = by_cell[0] - by_cell[0]
    for first in range(0, len(by_cell), len(together)):
        for pair in range(len(together)):
            together[pair] += by_cell[first + pair]
            total += by_cell[first + pair]
    return total


@compiled
def _wonder(  # type: ignore[no-untyped-def]
    reward, sums, visits, constant, cap, curious, anywhere, mean, square, observed, q
):
    """One stage of ``Curiosity.plan``; ``mean`` is None at the last stage."""
    worth, width, spread, clips = curious.worth, curious.width, curious.spread, curious.clips
    slope, learns_rewards = curious.slope, curious.learns_rewards
    for i in range(len(q)):
        n = visits[i]
        value = constant + worth[n] + cap * width[n] + reward[i]
        if learns_rewards:
            value = value + sums[i] / max(n, 1)
        if mean is not None:
            variance = square[i] - mean[i] * mean[i]
            variance = variance if variance > 0.0 else 0.0
            expected = mean[i] if clips or observed[i] > 0.0 else anywhere
            value = value + slope * expected + math.sqrt(spread[n] * variance)
            if clips and observed[i] <= 0.0:
                value = cap
        q[i] = value if value < cap or not clips else cap


@compiled
def _mean_value(values, h, states):  # type: ignore[no-untyped-def]
    """The mean over all states of the values of stage h."""
    total = 0.0
    for s in range(states):
        total += values[h, s]
    return total / states


@compiled
def _plan_curiously(learnt, n_episodes, curious, workspace, earliest):  # type: ignore[no-untyped-def]
    """``Curiosity.plan``: fills ``chosen`` from the stage ``earliest`` on."""
    visits, pooled, rows, entries = learnt.visits, learnt.pooled, learnt.rows, learnt.entries
    pool_rows, pool_entries, borrowing = learnt.pool_rows, learnt.pool_entries, learnt.borrowing
    chosen, values, scratch = workspace.chosen, workspace.values, workspace.scratch
    mean, square, observed, share, q = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    pool_mean, pool_square, unused = scratch[5], scratch[6], scratch[7]
    H, pairs, per_pair = len(visits), len(q), curious.per_pair
    here, sums, ties, t = curious.flat_pair_visits, curious.pair_sums, visits[0], n_episodes
    if per_pair:
        t = _sum_stages(learnt.flat_visits, here)
        _sum_stages(learnt.reward_sums, sums)
        ties = curious.pair_visits
    constant, scale = 0.0, 1.0
    if curious.log_offset >= 0.0:
        constant = scale = math.log(t + curious.log_offset)
    kappa = _borrowed(learnt.agreement)
    for h in range(H - 1, earliest - 1, -1):
        if not per_pair:
            here = learnt.flat_visits[h * pairs : (h + 1) * pairs]
            sums = learnt.reward_sums[h * pairs : (h + 1) * pairs]
            ties = visits[h]
        cap, reward = curious.caps[h] * scale, curious.reward[h]
        if h == H - 1:
            _wonder(reward, sums, here, constant, cap, curious, 0.0, None, None, None, q)
        else:
            first = ZERO if pooled else h * pairs
            _moments(rows, entries, first, values, h + 1, mean, square)
            _observations(rows, first, observed, share, unused, 0.0)
            if borrowing:
                _moments(pool_rows, pool_entries, ZERO, values, h + 1, pool_mean, pool_square)
                _borrow(
                    kappa, learnt.state_agreement, pool_rows, pool_mean, pool_square,
                    mean, square, observed, share, unused, 0.0,
                )  # fmt: skip
            anywhere = _mean_value(values, h + 1, visits.shape[1])
            _wonder(reward, sums, here, constant, cap, curious, anywhere, mean, square, observed, q)
        _act(q, ties, chosen[h], values[h])


@compiled
def _path_of_row(entry, entries, end, n, unions, b, later, never):  # type: ignore[no-untyped-def]
    """``NearestGoal._mean_paths`` of a row, as optimistic as after n observations."""
    loss, root, flat = b / n, 1.0, 1.0
    if unions > 0.0:
        loss, root, flat = math.log(n * unions) / n, 4.0, 28.0
    to_go, without = 0.0, 0.0
    for place in range(entry.start, entry.start + entry.size):
        successor = entries[place].successor
        successor = end if successor == END else successor
        chance = entries[place].count * entry.share
        chance = max(chance - root * math.sqrt(chance * loss) - flat * loss, 0.0)
        to_go += chance * later[successor]
        without += chance * never[successor]
    return to_go, without


@compiled
def _path_after(  # type: ignore[no-untyped-def]
    own, entries, shared, pool_entries, kappa, end, unions, b, later, never
):
    """``NearestGoal._paths_after`` of one pair; ``shared`` is its row of the pool."""
    n = float(own.total)
    lent = min(kappa, shared.total - n) if n < SETTLED * kappa else 0.0
    if lent <= 0.0:
        return _path_of_row(own, entries, end, n, unions, b, later, never)
    n += lent
    to_go, without = _path_of_row(own, entries, end, n, unions, b, later, never)
    others, missed = _path_of_row(shared, pool_entries, end, n, unions, b, later, never)
    trust = lent / n
    return to_go + trust * (others - to_go), without + trust * (missed - without)


@compiled
def _shortest_paths(learnt, goals, unions, b, restart, chosen, values, paths):  # type: ignore[no-untyped-def]
    """``NearestGoal._plan_once``; the answer for the start is in ``values[0]``."""
    H, S, A = learnt.visits.shape
    rows, entries, pooled, visits = learnt.rows, learnt.entries, learnt.pooled, learnt.visits
    pool_rows, pool_entries, borrowing = learnt.pool_rows, learnt.pool_entries, learnt.borrowing
    kappa = _borrowed(learnt.agreement)
    for h in range(H - 1, -1, -1):
        later, never = values[(h + 1) % 2, 0], values[(h + 1) % 2, 1]
        later[S], never[S] = 0.0, 1.0
        for s in range(S):
            best, action = np.inf, 0
            lent = _state_kappa(kappa, learnt.state_agreement, s) if borrowing else 0.0
            for a in range(A):
                pair = s * A + a
                to_go, without = 1.0, 1.0
                if goals[h, pair]:
                    to_go, without = 0.0, 0.0
                elif h + 1 < H:
                    own = rows[pair if pooled else h * S * A + pair]
                    if borrowing:
                        to_go, without = _path_after(
                            own, entries, pool_rows[pair], pool_entries, lent, S, unions, b,
                            later, never,
                        )  # fmt: skip
                    else:
                        n = float(own.total)
                        to_go, without = _path_of_row(own, entries, S, n, unions, b, later, never)
                    to_go = 1.0 + to_go
                paths[0, pair], paths[1, pair] = to_go, without
                length = to_go + without * restart
                fewer = length == best and visits[h, s, a] < visits[h, s, action]
                if length < best or fewer:
                    best, action = length, a
            chosen[h, s] = action
            values[h % 2, 0, s] = paths[0, s * A + action]
            values[h % 2, 1, s] = paths[1, s * A + action]


@compiled
def nearest_goal(  # type: ignore[no-untyped-def]
    learnt, n_episodes, goals, unions, b, most_rounds, close, chosen, values, paths
):
    """``NearestGoal.plan``: fills ``chosen``."""
    restart = 0.0
    for _ in range(most_rounds):
        _shortest_paths(learnt, goals, unions, b, restart, chosen, values, paths)
        steps, missed = 0.0, 0.0
        for s in range(learnt.visits.shape[1]):
            share = learnt.starts[s] / max(1, n_episodes)
            steps += share * values[0, 0, s]
            missed += share * values[0, 1, s]
        length = steps / max(1.0 - missed, close)
        if not length > restart * (1.0 + close):
            return
        restart = length


@compiled
def _plan_to_goals(learnt, n_episodes, goals, chosen):  # type: ignore[no-untyped-def]
    """``CompiledNearestGoal.plan`` for the goals as they are."""
    nearest_goal(
        learnt, n_episodes, goals.by_stage, goals.unions, goals.b, goals.most_rounds, goals.close,
        chosen, goals.values, goals.paths,
    )  # fmt: skip


@compiled
def _set_goal(cell, goals):  # type: ignore[no-untyped-def]
    """A cell is a goal while some row of it lacks visits."""
    lacking = False
    for place in range(goals.cell_start[cell], goals.cell_start[cell + 1]):
        row = goals.cell_row[place]
        lacking = lacking or goals.collected[row] < goals.counts[row]
    goals.by_cell[cell] = lacking


@compiled
def _visit_goal(cell, goals):  # type: ignore[no-untyped-def]
    """Count a visit; whether a row has just been covered that may be visited again on the way."""
    turned = False
    for place in range(goals.cell_start[cell], goals.cell_start[cell + 1]):
        row = goals.cell_row[place]
        lacked = goals.collected[row] < goals.counts[row]
        goals.collected[row] += 1.0
        if lacked and goals.collected[row] >= goals.counts[row]:
            turned = turned or goals.any_stage[row]
            for member in range(goals.row_start[row], goals.row_start[row + 1]):
                _set_goal(goals.row_cell[member], goals)
    return turned


@compiled
def _count_step(learnt, h, cell, following, reward):  # type: ignore[no-untyped-def]
    """What ``Counts.add`` does for a step."""
    learnt.flat_visits[cell] += 1
    learnt.reward_sums[cell] += reward
    if following != LAST:
        _learn(learnt, None, h, cell, following)


@compiled
def _has_doubled(flat_visits, pair, pairs):  # type: ignore[no-untyped-def]
    """Whether the visits of a pair, at all stages, are a power of two."""
    n = ZERO
    for cell in range(pair, len(flat_visits), pairs):
        n += flat_visits[cell]
    return n & (n - 1) == 0


@playing
def play_policy(  # type: ignore[no-untyped-def]
    most_episodes, first_episode, seed, stream, chances, curious, mixed, goals,
    world, learnt, workspace, record, recording,
):  # fmt: skip
    """Play up to so many episodes; returns (why it ended, episodes, steps).

    By ``workspace.chosen``, or by whichever of these is not None: ``chances``, what is planned
    before every episode if ``curious``, a policy that is drawn if ``mixed``, the way to ``goals``.
    """
    shape = learnt.visits.shape
    H, S, A = shape
    chosen, path, path_next = workspace.chosen, workspace.path, workspace.path_next
    steps = ZERO
    for played in range(most_episodes):
        episode = first_episode + played
        if not _has_room(learnt.entries, learnt.used, H):
            return POOL_FULL, played, steps
        if learnt.borrowing and not _has_room(learnt.pool_entries, learnt.pool_used, H):
            return POOL_FULL, played, steps
        if curious is not None:
            _plan_curiously(learnt, episode, curious, workspace, ZERO)
        if mixed is not None:
            number = _uniform(_key(mixed.seed, mixed.stream, episode), ZERO)
            drawn = np.int64(number * len(mixed.tables))
        if goals is not None:
            if _is_covered(goals.counts, goals.collected):
                return COVERED, played, steps
            _plan_to_goals(learnt, episode, goals, chosen)
        key = _key(seed, stream, episode)
        s = _draw(world.initial, ZERO, S, _uniform(key, ZERO))
        learnt.starts[s] += 1
        length = ZERO
        while s >= 0:
            a = chosen[length, s]
            if chances is not None:
                a = _draw(chances[length, s], ZERO, A, _uniform(key, 1 + 3 * length))
            if mixed is not None:
                a = mixed.tables[drawn, length, s]
                if a == ANY:
                    a = _draw(mixed.uniform, ZERO, A, _uniform(key, 1 + 3 * length))
            pair = s * A + a
            cell = length * S * A + pair
            earned, s = _earned(key, length, s, a, world.rewards), LAST
            if length + 1 < H:
                row = pair if world.stationary else cell
                number = _uniform(key, 2 + 3 * length)
                first, last = world.start[row], world.start[row + 1]
                s = world.next_state[_draw(world.probability, first, last, number)]
            path[length], path_next[length], workspace.path_reward[length] = cell, s, earned
            _count_step(learnt, length, cell, s, earned)
            length += 1
            if goals is not None:
                turned = _visit_goal(cell, goals)
                if not turned and goals.replans:
                    turned = _has_doubled(learnt.flat_visits, pair, S * A)
                if turned and s >= 0:
                    _plan_to_goals(learnt, episode + 1, goals, chosen)
            if curious is not None:  # noqa: SIM102 (what is None is left out when compiling)
                if curious.replans and s >= 0 and _has_doubled(learnt.flat_visits, pair, S * A):
                    _plan_curiously(learnt, episode + 1, curious, workspace, length)
        if recording:
            _write_down(workspace, length, shape, record, steps)
        record.lengths[played] = length
        steps += length
    return BUDGET, most_episodes, steps
