"""Value iteration for the explorer of ``baselines/nearest_untried.py``."""

from __future__ import annotations

import numpy as np

from covgame.kernels.jit import for_python
from covgame.kernels.shortest_path import _path_after, _path_of_row
from covgame.kernels.tables import borrowed, state_kappa


@for_python
def expected_steps(  # type: ignore[no-untyped-def]
    learnt, goals, stage_free, first, state, restart, close, values
):
    """(the action of a state at stage ``first``, the place of the values of that stage).

    Minimizes steps to go + restart times the probability to end without a goal. Both are left in
    ``values[place]``. If nothing depends on the stage, it ends as soon as the values settle.
    """
    H, S, A = learnt.shape
    rows, entries, pool_rows, pool_entries = (
        learnt.rows,
        learnt.entries,
        learnt.pool_rows,
        learnt.pool_entries,
    )
    kappa = borrowed(learnt.agreement)
    values[:, 1, S] = 1.0
    chosen, place = 0, 0
    for h in range(H - 1, first - 1, -1):
        place = h % 2
        later, never = values[1 - place, 0], values[1 - place, 1]
        stage = 0 if stage_free or len(goals) == 1 else h
        change = 0.0
        for s in range(S):
            best, fewest, action, steps, missed = np.inf, 0, 0, 0.0, 0.0
            lent = state_kappa(kappa, learnt.state_agreement, s) if learnt.borrowing else 0.0
            for a in range(A):
                pair = s * A + a
                own = rows[pair if learnt.pooled else h * S * A + pair]
                to_go, without = 1.0, 1.0
                if goals[stage, pair]:
                    to_go, without = 0.0, 0.0
                elif h + 1 < H:
                    if learnt.borrowing and (own.total > 0 or min(lent, pool_rows[pair].total) > 0):
                        to_go, without = _path_after(
                            own, entries, pool_rows[pair], pool_entries, lent, S, -1.0, 0.0,
                            later, never,
                        )  # fmt: skip
                        to_go += 1.0
                    elif own.total > 0:
                        n = float(own.total)
                        to_go, without = _path_of_row(own, entries, S, n, -1.0, 0.0, later, never)
                        to_go += 1.0
                length = to_go + without * restart
                if length < best or (length == best and own.total < fewest):
                    best, fewest, action = length, own.total, a
                    steps, missed = to_go, without
            change = max(change, abs(steps - later[s]), abs(missed - never[s]))
            values[place, 0, s], values[place, 1, s] = steps, missed
            if s == state:
                chosen = action
        if stage_free and h + 1 < H and change < close:
            break
    return chosen, place
