"""What is collected, and what it makes rows weigh: ``game/adversary.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from covgame.game.adversary import MIN_TOTAL_WEIGHT, RATE, RATE_UPDATE_RATIO, REPLAN_LOG_RATIO
from covgame.kernels.jit import compiled
from covgame.kernels.layout import CURRENT_RATE, ROWS, SHIFT, TOTAL, VARIANCE, ZERO


@compiled
def learning_rate(rows: Any, variance: Any, fastest: Any) -> Any:
    """``adversary.learning_rate``."""
    if variance <= 0:
        return fastest
    return min(fastest, RATE * math.sqrt(math.log(max(rows, 2)) / variance))


@compiled
def _set_reward(cell, weights, cell_start, cell_row, preference, reward):  # type: ignore[no-untyped-def]
    """A cell earns the sum of the weights of its rows: ``Game.place_rewards``."""
    if reward[cell] == -np.inf:
        return  # an action that the environment forbids
    total = 0.0
    for place in range(cell_start[cell], cell_start[cell + 1]):
        total += weights[cell_row[place]]
    if len(preference) > 0:
        total = total * preference[cell % len(preference)]
    reward[cell] = total


@compiled
def set_rewards(wanted, weights, reward, met, n_met):  # type: ignore[no-untyped-def]
    """The rewards of the cells of the first ``n_met`` rows in ``met``."""
    row_start, row_cell = wanted.row_start, wanted.row_cell
    cell_start, cell_row = wanted.cell_start, wanted.cell_row
    for i in range(n_met):
        row = met[i]
        for place in range(row_start[row], row_start[row + 1]):
            _set_reward(row_cell[place], weights, cell_start, cell_row, wanted.preference, reward)


@compiled
def set_all_rewards(wanted, weights, reward, everything):  # type: ignore[no-untyped-def]
    """The rewards of all cells."""
    set_rewards(wanted, weights, reward, everything, len(everything))


@compiled
def visit(cell, cell_start, cell_row, gain, met, n_met):  # type: ignore[no-untyped-def]
    """Count a visit for the rows of a cell; returns how many rows were met so far."""
    at = cell % (len(cell_start) - 1)
    for place in range(cell_start[at], cell_start[at + 1]):
        row = cell_row[place]
        if gain[row] == 0:
            met[n_met] = row
            n_met += 1
        gain[row] += 1
    return n_met


@compiled
def collect(counts, collected, met, n_met, gain):  # type: ignore[no-untyped-def]
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
def is_covered(counts, collected):  # type: ignore[no-untyped-def]
    """Whether no row is open."""
    still_open = 0
    for row in range(len(counts)):
        if collected[row] < counts[row]:
            still_open += 1
    return still_open == 0


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
def weigh_by_target(counts, log_counts, collected, largest, weights, memory):  # type: ignore[no-untyped-def]
    """``TargetAware._weigh``."""
    shift = -np.inf
    for row in range(len(counts)):
        weights[row] = -np.inf
        if collected[row] < counts[row]:
            weights[row] = _exponent(
                memory[CURRENT_RATE], largest, collected[row], counts[row], log_counts[row]
            )
            shift = max(shift, weights[row])
    if shift == -np.inf:
        shift = 0.0
    total = 0.0
    for row in range(len(counts)):
        weights[row] = math.exp(weights[row] - shift)
        total += weights[row]
    memory[TOTAL], memory[SHIFT] = total, shift


@compiled
def observe_target_aware(wanted, weights, memory, reward, met, n_met, gain, everything):  # type: ignore[no-untyped-def]
    """``TargetAware.observe``; keeps the rewards of cells in step with the weights."""
    counts, log_counts, largest = wanted.counts, wanted.log_counts, wanted.largest
    collected = wanted.collected
    memory[VARIANCE] += _loss_variance(weights, memory[TOTAL], met, n_met, gain, wanted.most)
    for i in range(n_met):
        row = met[i]
        weight = 0.0
        if collected[row] < counts[row]:
            exponent = _exponent(
                memory[CURRENT_RATE], largest, collected[row], counts[row], log_counts[row]
            )
            weight = math.exp(exponent - memory[SHIFT])
        memory[TOTAL] += weight - weights[row]
        weights[row] = weight
    rate = learning_rate(memory[ROWS], memory[VARIANCE], math.sqrt(wanted.most))
    if rate < RATE_UPDATE_RATIO * memory[CURRENT_RATE] or memory[TOTAL] < MIN_TOTAL_WEIGHT:
        memory[CURRENT_RATE] = rate
        weigh_by_target(counts, log_counts, collected, largest, weights, memory)
        met, n_met = everything, len(everything)
    set_rewards(wanted, weights, reward, met, n_met)


@compiled
def observe_missing_only(wanted, weights, memory, reward, met, n_met):  # type: ignore[no-untyped-def]
    """``MissingOnly.observe``."""
    counts, collected = wanted.counts, wanted.collected
    for i in range(n_met):
        row = met[i]
        if collected[row] >= counts[row] and weights[row] > 0:
            weights[row] = 0.0
            memory[TOTAL] -= 1.0
    set_rewards(wanted, weights, reward, met, n_met)


@compiled
def reached_level(counts, collected, smallest_count):  # type: ignore[no-untyped-def]
    """``adversary.reached_level``."""
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
def weigh_by_majority(counts, collected, threshold, weights, memory, base, most):  # type: ignore[no-untyped-def]
    """``WeightedMajority._weigh`` on the rows that ask for more than the threshold."""
    active, shift = ZERO, -np.inf
    for row in range(len(counts)):
        if counts[row] > threshold:
            active += 1
    memory[CURRENT_RATE] = learning_rate(active, memory[VARIANCE], 1.0)
    for row in range(len(counts)):
        weights[row] = -np.inf
        if counts[row] > threshold:
            weights[row] = -memory[CURRENT_RATE] * ((collected[row] - base[row]) / most)
            shift = max(shift, weights[row])
    total = 0.0
    for row in range(len(counts)):
        weights[row] = math.exp(weights[row] - shift)
        total += weights[row]
    for row in range(len(counts)):
        weights[row] = weights[row] / total
    memory[TOTAL], memory[SHIFT] = 1.0, shift


@compiled
def observe_weighted_majority(  # type: ignore[no-untyped-def]
    wanted, weights, memory, majority, reward, met, n_met, gain, everything
):
    """``WeightedMajority.observe``."""
    base, level = majority.base, majority.level
    counts, collected = wanted.counts, wanted.collected
    reached = reached_level(counts, collected, wanted.smallest)
    if reached != level[0]:
        level[0] = reached
        memory[VARIANCE] = 0.0
        for row in everything:
            base[row] = collected[row]
    else:
        memory[VARIANCE] += _loss_variance(weights, memory[TOTAL], met, n_met, gain, wanted.most)
    threshold = -1.0 if reached == 0 else wanted.smallest * 2.0**reached
    weigh_by_majority(counts, collected, threshold, weights, memory, base, wanted.most)
    set_rewards(wanted, weights, reward, everything, len(everything))


@compiled
def lower_weights(wanted, weights, memory, reward, met, n_met, gain, missing_only):  # type: ignore[no-untyped-def]
    """``Game.revised_weights``: rows open to all stages weigh less after the episode's visits."""
    counts, log_counts, collected = wanted.counts, wanted.log_counts, wanted.collected
    for i in range(n_met):
        row = met[i]
        if not wanted.any_stage[row] or collected[row] >= counts[row]:
            continue
        n = collected[row] + gain[row]
        if n >= counts[row]:
            weights[row] = 0.0
        elif missing_only is None:
            exponent = _exponent(
                memory[CURRENT_RATE], wanted.largest, n, counts[row], log_counts[row]
            )
            weights[row] = math.exp(exponent - memory[SHIFT])
    set_rewards(wanted, weights, reward, met, n_met)


@compiled
def should_replan(cell, pace, cell_start, cell_row, counts, collected, any_stage, gain):  # type: ignore[no-untyped-def]
    """``Game._should_replan`` for any of the rows of a cell that was just visited."""
    at = cell % (len(cell_start) - 1)
    for place in range(cell_start[at], cell_start[at + 1]):
        row = cell_row[place]
        count, times = counts[row], gain[row]
        missing = count - collected[row]
        if any_stage[row] and times - 1 < missing:
            before, now = pace * (times - 1) / count, pace * times / count
            if times >= missing or math.floor(now / REPLAN_LOG_RATIO) > math.floor(
                before / REPLAN_LOG_RATIO
            ):
                return True
    return False
