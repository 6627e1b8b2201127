"""Episodes of policies and of peers, who have no adversary: ``engine.SimulatedPolicyEngine``."""

from __future__ import annotations

import numpy as np

from covgame.episodes import LAST
from covgame.kernels.adversary import is_covered
from covgame.kernels.curiosity import plan_for_bonus
from covgame.kernels.draws import draw, episode_key, step_reward, uniform
from covgame.kernels.episodes import learn, write_down
from covgame.kernels.jit import compiled, playing
from covgame.kernels.layout import ANY, BUDGET, COVERED, POOL_FULL, ZERO
from covgame.kernels.shortest_path import plan_to_goals, visit_goal
from covgame.kernels.tables import table_has_room


@compiled
def _count_step(learnt, h, cell, following, reward):  # type: ignore[no-untyped-def]
    """What ``Counts.add`` does for a step."""
    learnt.flat_visits[cell] += 1
    learnt.reward_sums[cell] += reward
    if following != LAST:
        learn(learnt, None, h, cell, following)


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
    shape = learnt.shape
    H, S, A = shape
    chosen, path, path_next = workspace.chosen, workspace.path, workspace.path_next
    steps = ZERO
    for played in range(most_episodes):
        episode = first_episode + played
        if not table_has_room(learnt.entries, learnt.used, H):
            return POOL_FULL, played, steps
        if learnt.borrowing and not table_has_room(learnt.pool_entries, learnt.pool_used, H):
            return POOL_FULL, played, steps
        if curious is not None:
            plan_for_bonus(learnt, episode, curious, workspace, ZERO)
        if mixed is not None:
            number = uniform(episode_key(mixed.seed, mixed.stream, episode), ZERO)
            drawn = np.int64(number * len(mixed.tables))
        if goals is not None:
            if is_covered(goals.counts, goals.collected):
                return COVERED, played, steps
            plan_to_goals(learnt, episode, goals, chosen)
        key = episode_key(seed, stream, episode)
        s = draw(world.initial, ZERO, S, uniform(key, ZERO))
        learnt.starts[s] += 1
        length = ZERO
        while s >= 0:
            a = chosen[length, s]
            if chances is not None:
                a = draw(chances[length, s], ZERO, A, uniform(key, 1 + 3 * length))
            if mixed is not None:
                a = mixed.tables[drawn, length, s]
                if a == ANY:
                    a = draw(mixed.uniform, ZERO, A, uniform(key, 1 + 3 * length))
            pair = s * A + a
            cell = length * S * A + pair
            earned, s = step_reward(key, length, s, a, world.rewards), LAST
            if length + 1 < H:
                row = pair if world.stationary else cell
                number = uniform(key, 2 + 3 * length)
                first, last = world.start[row], world.start[row + 1]
                s = world.next_state[draw(world.probability, first, last, number)]
            path[length], path_next[length], workspace.path_reward[length] = cell, s, earned
            _count_step(learnt, length, cell, s, earned)
            length += 1
            if goals is not None:
                changed = visit_goal(cell, goals)
                if not changed and goals.replans:
                    changed = _has_doubled(learnt.flat_visits, pair, S * A)
                if changed and s >= 0:
                    plan_to_goals(learnt, episode + 1, goals, chosen)
            if curious is not None:  # noqa: SIM102 (what is None is left out when compiling)
                if curious.replans and s >= 0 and _has_doubled(learnt.flat_visits, pair, S * A):
                    plan_for_bonus(learnt, episode + 1, curious, workspace, length)
        if recording:
            write_down(workspace, length, shape, record, steps)
        record.lengths[played] = length
        steps += length
    return BUDGET, most_episodes, steps
