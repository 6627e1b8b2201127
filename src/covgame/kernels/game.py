"""The game in blocks of episodes, compiled: the same episodes as the readable game.

``game/*.py`` and ``sources/simulated.py`` are the specification; every sum here runs in the
same order, so that the results are the same to the last bit (a test compares them). All
functions stand in one module because the compiler's cache does not notice changes elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from covgame.episodes import LAST
from covgame.game.adversary import FADED, RATE, STALE
from covgame.game.counts import SuccessorTable
from covgame.rng import FIRST_FACTOR, INCREMENT, SECOND_FACTOR, UNIT
from covgame.types import END

COVERED, BUDGET, POOL_FULL = 0, 1, 2
"""Why a block ended: all rows covered, episodes played, no room for new successors."""

RANGE_AWARE, PAPER_OPTIMISM = 0, 1
TARGET_AWARE, WEIGHTED_MAJORITY = 0, 1

FIRST_CAPACITY = SuccessorTable.FIRST_CAPACITY
U11, U27, U30, U31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)


@njit(cache=True)
def _mix(bits: Any) -> Any:
    bits = (bits ^ (bits >> U30)) * FIRST_FACTOR
    bits = (bits ^ (bits >> U27)) * SECOND_FACTOR
    return bits ^ (bits >> U31)


@njit(cache=True)
def _key(seed: Any, stream: Any, episode: Any) -> Any:
    key = _mix(np.uint64(0) + INCREMENT + np.uint64(seed))
    key = _mix(key + INCREMENT + np.uint64(stream))
    return _mix(key + INCREMENT + np.uint64(episode))


@njit(cache=True)
def _uniform(key: Any, index: Any) -> Any:
    """Number ``index`` (from 0) of ``rng.uniforms``."""
    return float(_mix(key + np.uint64(index + 1) * INCREMENT) >> U11) * UNIT


@njit(cache=True)
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


@njit(cache=True)
def _plan(visits, table, pooled, reward, optimism, numbers, chosen, values, upper):  # type: ignore[no-untyped-def]
    """``OptimisticPlanner.plan``: fills ``chosen``; ``values`` and ``upper`` are scratch."""
    start, size, total, share, successor, count = table
    H, S, A = reward.shape
    remaining = 0.0
    for s in range(S):
        values[s] = 0.0
    for h in range(H - 1, -1, -1):
        largest = -np.inf
        first_row = 0 if pooled else h * S * A
        for s in range(S):
            best, action, fewest = -np.inf, 0, np.int64(0)
            for a in range(A):
                r = reward[h, s, a]
                largest = max(largest, r)
                q = r
                if h + 1 < H:
                    row = first_row + s * A + a
                    q = _upper_q(
                        r, row, start, size, total, share, successor, count, values, remaining,
                        optimism, numbers,
                    )  # fmt: skip
                seen = visits[h, s, a]
                if q > best or (q == best and seen < fewest):
                    best, action, fewest = q, a, seen
            chosen[h, s] = action
            upper[s] = best
        for s in range(S):
            values[s] = upper[s]
        remaining = remaining + largest


@njit(cache=True, inline="always")
def _upper_q(  # type: ignore[no-untyped-def]
    r, row, start, size, total, share, successor, count, values, remaining, optimism, numbers
):
    """``RangeAwareOptimism.upper_q`` or ``PaperOptimism.upper_q`` of one pair."""
    if total[row] == 0:
        return r + remaining if optimism == RANGE_AWARE else 1.0
    mean, square = 0.0, 0.0
    for place in range(start[row], start[row] + size[row]):
        s = successor[place]
        if s >= 0:
            value = values[s]
            seen = float(count[place])
            mean += seen * value
            square += seen * (value * value)
    one = share[row]
    mean, square = mean * one, square * one
    variance = max(square - mean * mean, 0.0)
    if optimism == RANGE_AWARE:
        b = numbers[0]
        return r + min(remaining, mean + _larger(b * variance * one, b * remaining * one))
    b = 8 * (numbers[1] + numbers[2] * math.log(8 * math.e * (float(total[row]) + 1)))
    return min(1.0, r + mean + _larger(b * variance * one, b * 1.0 * one))


@njit(cache=True, inline="always")
def _larger(squared: Any, plain: Any) -> Any:
    """max{sqrt(squared), plain}, without the root where it is the smaller one."""
    if squared <= plain * plain:
        return plain
    return math.sqrt(squared)


@njit(cache=True)
def _rate(rows: Any, variance: Any) -> Any:
    if variance <= 0:
        return 1.0
    return min(1.0, RATE * math.sqrt(math.log(max(rows, 2)) / variance))


@njit(cache=True)
def _set_reward(cell, reward, weights, cell_start, cell_row):  # type: ignore[no-untyped-def]
    """A cell earns the sum of the weights of its rows."""
    total = 0.0
    for place in range(cell_start[cell], cell_start[cell + 1]):
        total += weights[cell_row[place]]
    reward[cell] = total


@njit(cache=True)
def _set_rewards(reward, weights, cell_start, cell_row):  # type: ignore[no-untyped-def]
    for cell in range(len(reward)):
        _set_reward(cell, reward, weights, cell_start, cell_row)


@njit(cache=True)
def _loss_variance(weights, total, met, n_met, gain, most):  # type: ignore[no-untyped-def]
    if total <= 0:
        return 0.0
    mean, square = 0.0, 0.0
    for i in range(n_met):
        loss = gain[met[i]] / most
        mean += weights[met[i]] * loss
        square += weights[met[i]] * (loss * loss)
    mean, square = mean / total, square / total
    return max(0.0, square - mean * mean)


@njit(cache=True)
def _weigh_by_target(counts, largest_count, collected, weights, memory):  # type: ignore[no-untyped-def]
    """``TargetAware._weigh``; memory is (total, variance, rate, shift)."""
    shift = -np.inf
    for row in range(len(counts)):
        if collected[row] < counts[row]:
            exponent = -(memory[2] * largest_count * collected[row] / counts[row]) - math.log(
                counts[row]
            )
            shift = max(shift, exponent)
    if shift == -np.inf:
        shift = 0.0
    total = 0.0
    for row in range(len(counts)):
        weights[row] = 0.0
        if collected[row] < counts[row]:
            exponent = -(memory[2] * largest_count * collected[row] / counts[row]) - math.log(
                counts[row]
            )
            weights[row] = math.exp(exponent - shift)
        total += weights[row]
    memory[0], memory[3] = total, shift


@njit(cache=True)
def _observe_target_aware(  # type: ignore[no-untyped-def]
    counts, largest_count, collected, weights, memory, met, n_met, gain, most, reward, members
):
    """``TargetAware.observe``; keeps the rewards of cells in step with the weights."""
    row_start, row_cell, cell_start, cell_row = members
    memory[1] += _loss_variance(weights, memory[0], met, n_met, gain, most)
    for i in range(n_met):
        row = met[i]
        weight = 0.0
        if collected[row] < counts[row]:
            exponent = -(memory[2] * largest_count * collected[row] / counts[row]) - math.log(
                counts[row]
            )
            weight = math.exp(exponent - memory[3])
        memory[0] += weight - weights[row]
        weights[row] = weight
    wanted = _rate(len(counts), memory[1])
    if wanted < STALE * memory[2] or memory[0] < FADED:
        memory[2] = wanted
        _weigh_by_target(counts, largest_count, collected, weights, memory)
        _set_rewards(reward, weights, cell_start, cell_row)
        return
    for i in range(n_met):
        for place in range(row_start[met[i]], row_start[met[i] + 1]):
            _set_reward(row_cell[place], reward, weights, cell_start, cell_row)


@njit(cache=True)
def _reached_level(counts, collected, smallest_count):  # type: ignore[no-untyped-def]
    smallest = np.inf
    for row in range(len(counts)):
        if collected[row] < counts[row]:
            smallest = min(smallest, counts[row])
    level = 0
    if smallest == np.inf:
        return level
    while smallest > smallest_count * 2.0 ** (level + 1):
        level += 1
    return level


@njit(cache=True)
def _observe_weighted_majority(  # type: ignore[no-untyped-def]
    counts, smallest_count, collected, weights, memory, base, level, met, n_met, gain, most,
    reward, members,
):  # fmt: skip
    """``WeightedMajority.observe``; ``level`` is an array of one."""
    reached = _reached_level(counts, collected, smallest_count)
    if reached != level[0]:
        level[0] = reached
        memory[1] = 0.0
        for row in range(len(counts)):
            base[row] = collected[row]
    else:
        memory[1] += _loss_variance(weights, memory[0], met, n_met, gain, most)
    threshold = -1.0 if reached == 0 else smallest_count * 2.0**reached
    active = 0
    for row in range(len(counts)):
        if counts[row] > threshold:
            active += 1
    memory[2] = _rate(active, memory[1])
    shift = -np.inf
    for row in range(len(counts)):
        if counts[row] > threshold:
            shift = max(shift, -memory[2] * (collected[row] - base[row]))
    total = 0.0
    for row in range(len(counts)):
        weights[row] = 0.0
        if counts[row] > threshold:
            weights[row] = math.exp(-memory[2] * (collected[row] - base[row]) - shift)
        total += weights[row]
    for row in range(len(counts)):
        weights[row] = weights[row] / total
    memory[0], memory[3] = 1.0, shift
    _set_rewards(reward, weights, members[2], members[3])


@njit(cache=True)
def _count_transition(row, s, start, size, capacity, total, share, successor, count, used):  # type: ignore[no-untyped-def]
    """``SuccessorTable.add``; the caller has seen to it that the pool has room."""
    total[row] += 1
    share[row] = 1.0 / total[row]
    first = start[row]
    for place in range(first, first + size[row]):
        if successor[place] == s:
            count[place] += 1
            return
    if size[row] == capacity[row]:
        room = max(FIRST_CAPACITY, 2 * capacity[row])
        new = used[0]
        for i in range(size[row]):
            successor[new + i] = successor[first + i]
            count[new + i] = count[first + i]
        start[row], capacity[row] = new, room
        used[0] += room
    place = start[row] + size[row]
    successor[place] = s
    count[place] = 1
    size[row] += 1


@njit(cache=True)
def play_block(  # type: ignore[no-untyped-def]
    most_episodes, first_episode, seed, stream,
    initial, world, rewards, world_stationary,
    visits, starts, table, used, pooled,
    counts, collected, largest_count, smallest_count, most, members,
    weights, reward, memory, base, level,
    optimism, numbers, adversary,
    record, out_steps, out_state, out_action, out_reward, out_next,
):  # fmt: skip
    """Play up to ``most_episodes``; returns (why it ended, episodes played, steps recorded)."""
    world_start, world_next, world_probability = world
    start, size, capacity, total, share, successor, count = table
    H, S, A = visits.shape
    chosen = np.zeros((H, S), dtype=np.int64)
    values, upper = np.zeros(S), np.zeros(S)
    met = np.zeros(len(counts), dtype=np.int64)
    gain = np.zeros(len(counts), dtype=np.int64)
    flat_reward = reward.reshape(H * S * A)
    flat_visits = visits.reshape(H * S * A)
    cell_start, cell_row = members[2], members[3]
    still_open = 0
    for row in range(len(counts)):
        if collected[row] < counts[row]:
            still_open += 1
    largest_room = FIRST_CAPACITY
    for row in range(len(capacity)):
        largest_room = max(largest_room, 2 * capacity[row])
    steps = 0
    for played in range(most_episodes):
        if still_open == 0:
            return COVERED, played, steps
        if used[0] + H * largest_room > len(successor):
            return POOL_FULL, played, steps
        _plan(
            visits, (start, size, total, share, successor, count), pooled, reward, optimism,
            numbers, chosen, values, upper,
        )  # fmt: skip
        key = _key(seed, stream, first_episode + played)
        s = _draw(initial, 0, S, _uniform(key, 0))
        starts[s] += 1
        n_met = 0
        length = 0
        for h in range(H):
            a = chosen[h, s]
            pair = s * A + a
            cell = h * S * A + pair
            flat_visits[cell] += 1
            for place in range(cell_start[cell], cell_start[cell + 1]):
                row = cell_row[place]
                if gain[row] == 0:
                    met[n_met] = row
                    n_met += 1
                gain[row] += 1
            following = LAST
            if h + 1 < H:
                world_row = pair if world_stationary else cell
                place = _draw(
                    world_probability, world_start[world_row], world_start[world_row + 1],
                    _uniform(key, 2 + 3 * h),
                )  # fmt: skip
                following = world_next[place]
                row = pair if pooled else cell
                if size[row] == capacity[row]:
                    largest_room = max(largest_room, 4 * capacity[row])
                _count_transition(
                    row, following, start, size, capacity, total, share, successor, count, used
                )
            if record:
                out_state[steps] = s
                out_action[steps] = a
                out_reward[steps] = (
                    1.0 if _uniform(key, 3 + 3 * h) < rewards[h % len(rewards), s, a] else 0.0
                )
                out_next[steps] = following
            steps += 1
            length += 1
            if following == END or following == LAST:
                break
            s = following
        out_steps[played] = length
        for i in range(n_met):
            row = met[i]
            was_open = collected[row] < counts[row]
            collected[row] += gain[row]
            if was_open and collected[row] >= counts[row]:
                still_open -= 1
        if adversary == TARGET_AWARE:
            _observe_target_aware(
                counts, largest_count, collected, weights, memory, met, n_met, gain, most,
                flat_reward, members,
            )  # fmt: skip
        else:
            _observe_weighted_majority(
                counts, smallest_count, collected, weights, memory, base, level, met, n_met,
                gain, most, flat_reward, members,
            )  # fmt: skip
        for i in range(n_met):
            gain[met[i]] = 0
    if still_open == 0:
        return COVERED, most_episodes, steps
    return BUDGET, most_episodes, steps
