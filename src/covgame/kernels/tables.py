"""Tables of successors, and what stages borrow from each other: ``game/counts.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from covgame.game.counts import AS_ELSEWHERE, BORROWED_STEPS, MOST_BORROWED, YOUNG
from covgame.game.successors import SuccessorTable
from covgame.kernels.jit import compiled, for_python, inlined
from covgame.kernels.layout import LARGEST, OTHERS, OWN, PLACES
from covgame.types import END

FIRST_CAPACITY = SuccessorTable.FIRST_CAPACITY


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
        rows[row].p_first = rows[row].p_second = 0.0  # of what was taken back
        _refresh_row(rows[row], entries, end)


@for_python
def refresh(learnt):  # type: ignore[no-untyped-def]
    """Bring the tables to the form that planning reads."""
    _refresh_rows(learnt.rows, learnt.entries, learnt.shape[1])
    _refresh_rows(learnt.pool_rows, learnt.pool_entries, learnt.shape[1])


@compiled
def times_seen(entry, entries, s):  # type: ignore[no-untyped-def]
    """``SuccessorTable.seen``."""
    for place in range(entry.start, entry.start + entry.size):
        if entries[place].successor == s:
            return entries[place].count
    return 0


@compiled
def count_transition(entry, entries, used, s, end, times):  # type: ignore[no-untyped-def]
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
        new = used[PLACES]
        for i in range(entry.size):
            entries[new + i].successor = entries[entry.start + i].successor
            entries[new + i].count = entries[entry.start + i].count
        entry.start = new
        entry.capacity = room
        used[PLACES] += room
        used[LARGEST] = max(used[LARGEST], room)
    entries[entry.start + entry.size].successor = s
    entries[entry.start + entry.size].count = times
    entry.size += 1
    _refresh_row(entry, entries, end)
    return True


@compiled
def table_has_room(entries, used, horizon):  # type: ignore[no-untyped-def]
    """Whether any episode fits in.

    A row of capacity c that gains m successors moves to places of 2c, 4c, ..., 4c + 4m in all.
    """
    return used[PLACES] + 4 * horizon * (used[LARGEST] + 1) <= len(entries)


@for_python
def has_room(learnt):  # type: ignore[no-untyped-def]
    """Whether any episode can be counted."""
    H = learnt.shape[0]
    if learnt.borrowing and not table_has_room(learnt.pool_entries, learnt.pool_used, H):
        return False
    return table_has_room(learnt.entries, learnt.used, H)


@for_python
def is_news(rows, entries, pair, s):  # type: ignore[no-untyped-def]
    """``Counts._is_news`` of a transition that is about to be counted."""
    return rows[pair].total < YOUNG or times_seen(rows[pair], entries, s) == 0


@compiled
def compare(entry, entries, pool_entry, pool_entries, s, agreement, of_state):  # type: ignore[no-untyped-def]
    """``Counts._compare``."""
    n, n_all = entry.total, pool_entry.total
    if 0 < n < n_all:
        own, everywhere = times_seen(entry, entries, s), times_seen(pool_entry, pool_entries, s)
        agreement[OWN] += own / n
        agreement[OTHERS] += (everywhere - own) / (n_all - n)
        of_state[OWN] += own / n
        of_state[OTHERS] += (everywhere - own) / (n_all - n)


@compiled
def _kappa(own: Any, others: Any) -> Any:
    """``counts._kappa``."""
    if others * (1.0 + MOST_BORROWED) >= own * MOST_BORROWED:
        return MOST_BORROWED
    return others / (own - others)


@compiled
def borrowed(agreement: Any) -> Any:
    """``Counts.borrowed``."""
    kappa = _kappa(agreement[OWN], agreement[OTHERS])
    if kappa == MOST_BORROWED:
        return kappa
    fraction, exponent = math.frexp(kappa)
    return math.ldexp(math.floor(fraction * BORROWED_STEPS + 0.5) / BORROWED_STEPS, exponent)


@compiled
def state_kappa(kappa: Any, state_agreement: Any, s: Any) -> Any:
    """``Counts.borrowed_by_state`` of a state, where ``kappa`` is borrowed in general."""
    others = AS_ELSEWHERE * (kappa / (1.0 + kappa))
    return _kappa(state_agreement[s, OWN] + AS_ELSEWHERE, state_agreement[s, OTHERS] + others)


@inlined
def row_moments(entry, entries, values, h):  # type: ignore[no-untyped-def]
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
def row_largest(entry, entries, values, h):  # type: ignore[no-untyped-def]
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


@inlined
def doubt_share(observed, successors, doubt):  # type: ignore[no-untyped-def]
    """How much of an estimate is doubt: g/(n + g), nothing once two successors were seen."""
    return doubt * (1.0 / (observed + doubt)) if successors == 1 else 0.0
