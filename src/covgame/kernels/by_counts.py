"""Rounds that are played by their visits alone: ``engine.CountsEngine``."""

from __future__ import annotations

import math

import numpy as np

from covgame.kernels.adversary import (
    is_covered,
    learning_rate,
    reached_level,
    set_all_rewards,
    weigh_by_majority,
    weigh_by_target,
)
from covgame.kernels.jit import counted
from covgame.kernels.layout import (
    BUDGET,
    COVERED,
    CURRENT_RATE,
    ROWS,
    TOO_MANY,
    TOTAL,
    VARIANCE,
    ZERO,
)
from covgame.kernels.planner import plan
from covgame.kernels.tables import count_transition
from covgame.types import END


@counted
def _expect(learnt, n_episodes, chosen, wanted, batch):  # type: ignore[no-untyped-def]
    """``gains``: what an episode of a policy collects on the learnt model."""
    H, S, A = learnt.shape
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
            at = cell % (len(cell_start) - 1)
            for place in range(cell_start[at], cell_start[at + 1]):
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
        weigh_by_majority(
            counts, anticipated, threshold, weights, memory, majority.base, wanted.most
        )
    elif missing_only is not None:
        for row in range(len(counts)):
            weights[row] = 1.0 if anticipated[row] < counts[row] else 0.0
    else:
        weigh_by_target(counts, log_counts, anticipated, wanted.largest, weights, memory)
    if not weights.any():
        weights[:] = weighing.weights
    set_all_rewards(wanted, weights, weighing.reward, workspace.everything)


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
        plan(learnt, weighing.stage_reward, optimism, paper, workspace, ZERO)
        batch.policies[number][:] = workspace.chosen


@counted
def _take(rng, left, probability, rest):  # type: ignore[no-untyped-def]
    """How many of those that are left go where the probability, of ``rest``, says."""
    return rng.binomial(left, min(1.0, probability / rest)) if left > 0 else ZERO


@counted
def _draw_visits(rng, episodes, chosen, world, learnt, wanted, batch):  # type: ignore[no-untyped-def]
    """``draw_visits`` and ``Counts.add_visits`` in one; ``gains`` is what the rows collect."""
    H, S, A = learnt.shape
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
            at = cell % (len(cell_start) - 1)
            for place in range(cell_start[at], cell_start[at + 1]):
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
                    count_transition(pool_rows[pair], pool_entries, pool_used, following, S, taken)
                count_transition(rows[pair if pooled else cell], entries, used, following, S, taken)
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
    if memory[TOTAL] > 0:
        mean = mean / (memory[TOTAL] * wanted.most * episodes)
        variance = episodes * max(0.0, mean * (1.0 - mean))
    if majority is not None:
        reached = reached_level(counts, collected, wanted.smallest)
        if reached != majority.level[0]:
            majority.level[0] = reached
            memory[VARIANCE] = 0.0
            majority.base[:] = collected
        else:
            memory[VARIANCE] += variance
        threshold = -1.0 if reached == 0 else wanted.smallest * 2.0**reached
        weigh_by_majority(counts, collected, threshold, weights, memory, majority.base, wanted.most)
    elif missing_only is not None:
        memory[TOTAL] = 0.0
        for row in range(len(counts)):
            weights[row] = 1.0 if collected[row] < counts[row] else 0.0
            memory[TOTAL] += weights[row]
    else:
        memory[VARIANCE] += variance
        memory[CURRENT_RATE] = learning_rate(memory[ROWS], memory[VARIANCE], math.sqrt(wanted.most))
        weigh_by_target(counts, wanted.log_counts, collected, wanted.largest, weights, memory)
    set_all_rewards(wanted, weights, weighing.reward, workspace.everything)


@counted
def play_counted(  # type: ignore[no-untyped-def]
    rounds, most_episodes, most_in_all, growth, n_episodes, rng,
    world, learnt, wanted, weighing, workspace, batch, optimism, paper, majority, missing_only,
):  # fmt: skip
    """Play so many rounds by counts; returns (why it ended, episodes played)."""
    counts, collected = wanted.counts, wanted.collected
    played = ZERO
    set_all_rewards(wanted, weighing.weights, weighing.reward, workspace.everything)
    for _ in range(rounds):
        if is_covered(counts, collected):
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
            if is_covered(counts, collected):
                return COVERED, played
    return BUDGET, played
