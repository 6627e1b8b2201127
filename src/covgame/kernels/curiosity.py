"""Planning for bonuses that depend on visits: ``baselines/curiosity.py``."""

from __future__ import annotations

import math

from covgame.kernels.jit import compiled
from covgame.kernels.layout import ZERO
from covgame.kernels.planner import act, borrow, moments, observations
from covgame.kernels.tables import borrowed


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
def _bonus_values(  # type: ignore[no-untyped-def]
    reward, sums, visits, constant, cap, curious, anywhere, mean, square, observed, q
):
    """One stage of ``Curiosity.plan``; ``mean`` is None at the last stage."""
    bonus, width, variance_scale, clips = (
        curious.bonus,
        curious.width,
        curious.variance_scale,
        curious.clips,
    )
    slope, learns_rewards = curious.slope, curious.learns_rewards
    for i in range(len(q)):
        n = visits[i]
        value = constant + bonus[n] + cap * width[n] + reward[i]
        if learns_rewards:
            value = value + sums[i] / max(n, 1)
        if mean is not None:
            variance = square[i] - mean[i] * mean[i]
            variance = variance if variance > 0.0 else 0.0
            expected = mean[i] if clips or observed[i] > 0.0 else anywhere
            value = value + slope * expected + math.sqrt(variance_scale[n] * variance)
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
def plan_for_bonus(learnt, n_episodes, curious, workspace, earliest):  # type: ignore[no-untyped-def]
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
    kappa = borrowed(learnt.agreement)
    for h in range(H - 1, earliest - 1, -1):
        if not per_pair:
            here = learnt.flat_visits[h * pairs : (h + 1) * pairs]
            sums = learnt.reward_sums[h * pairs : (h + 1) * pairs]
            ties = visits[h]
        cap, reward = curious.caps[h] * scale, curious.reward[h]
        if h == H - 1:
            _bonus_values(reward, sums, here, constant, cap, curious, 0.0, None, None, None, q)
        else:
            first = ZERO if pooled else h * pairs
            moments(rows, entries, first, values, h + 1, mean, square)
            observations(rows, first, observed, share, unused, 0.0)
            if borrowing:
                moments(pool_rows, pool_entries, ZERO, values, h + 1, pool_mean, pool_square)
                borrow(
                    kappa, learnt.state_agreement, pool_rows, pool_mean, pool_square,
                    mean, square, observed, share, unused, 0.0,
                )  # fmt: skip
            anywhere = _mean_value(values, h + 1, visits.shape[1])
            _bonus_values(
                reward, sums, here, constant, cap, curious, anywhere, mean, square, observed, q
            )
        act(q, ties, chosen[h], values[h])
