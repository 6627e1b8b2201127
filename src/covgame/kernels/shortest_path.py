"""The shortest way to a goal: ``baselines/gosprl.py``."""

from __future__ import annotations

import math

import numpy as np

from covgame.game.counts import SETTLED
from covgame.kernels.jit import compiled, for_python
from covgame.kernels.tables import borrowed, state_kappa
from covgame.types import END


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
    H, S, A = learnt.shape
    rows, entries, pooled, visits = learnt.rows, learnt.entries, learnt.pooled, learnt.visits
    pool_rows, pool_entries, borrowing = learnt.pool_rows, learnt.pool_entries, learnt.borrowing
    kappa = borrowed(learnt.agreement)
    for h in range(H - 1, -1, -1):
        later, never = values[(h + 1) % 2, 0], values[(h + 1) % 2, 1]
        later[S], never[S] = 0.0, 1.0
        for s in range(S):
            best, action = np.inf, 0
            lent = state_kappa(kappa, learnt.state_agreement, s) if borrowing else 0.0
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


@for_python
def nearest_goal(  # type: ignore[no-untyped-def]
    learnt, n_episodes, goals, unions, b, most_rounds, close, chosen, values, paths
):
    """``NearestGoal.plan``: fills ``chosen``."""
    restart = 0.0
    for _ in range(most_rounds):
        _shortest_paths(learnt, goals, unions, b, restart, chosen, values, paths)
        steps, missed = 0.0, 0.0
        for s in range(learnt.shape[1]):
            share = learnt.starts[s] / max(1, n_episodes)
            steps += share * values[0, 0, s]
            missed += share * values[0, 1, s]
        length = steps / max(1.0 - missed, close)
        if not length > restart * (1.0 + close):
            return
        restart = length


@compiled
def plan_to_goals(learnt, n_episodes, goals, chosen):  # type: ignore[no-untyped-def]
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
def visit_goal(cell, goals):  # type: ignore[no-untyped-def]
    """Count a visit; whether a row has just been covered that may be visited again on the way."""
    changed = False
    for place in range(goals.cell_start[cell], goals.cell_start[cell + 1]):
        row = goals.cell_row[place]
        lacked = goals.collected[row] < goals.counts[row]
        goals.collected[row] += 1.0
        if lacked and goals.collected[row] >= goals.counts[row]:
            changed = changed or goals.any_stage[row]
            for member in range(goals.row_start[row], goals.row_start[row + 1]):
                _set_goal(goals.row_cell[member], goals)
    return changed
