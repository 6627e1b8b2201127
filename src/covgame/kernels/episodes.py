"""Episodes, one by one and in blocks: ``game/game.py``."""

from __future__ import annotations

from covgame.episodes import LAST
from covgame.game.counts import YOUNG
from covgame.kernels.adversary import (
    collect,
    lower_weights,
    observe_missing_only,
    observe_target_aware,
    observe_weighted_majority,
    set_rewards,
    should_replan,
    visit,
)
from covgame.kernels.draws import draw, episode_key, step_reward, uniform
from covgame.kernels.jit import compiled, for_python, playing, spliced
from covgame.kernels.layout import (
    BUDGET,
    COVERED,
    CURRENT_RATE,
    EPISODE,
    LEARNT,
    MET,
    POOL_FULL,
    SHIFT,
    VISITED,
    WHOLE,
    ZERO,
)
from covgame.kernels.planner import (
    depth_to_try,
    largest_of,
    layer,
    note_depth,
    plan,
    sees_enough,
    take_route,
)
from covgame.kernels.replanner import keep_plan, note_episode, note_rewards, note_successor
from covgame.kernels.tables import compare, count_transition, has_room
from covgame.types import END


@compiled
def learn(learnt, cache, h, cell, following):  # type: ignore[no-untyped-def]
    """``Counts.learn``; a plan that is kept hears of new successors."""
    shape = learnt.shape
    _, S, A = shape
    pair, new = cell - h * S * A, False
    rows, entries, pooled = learnt.rows, learnt.entries, learnt.pooled
    row = pair if pooled else cell
    seen = rows[row].total + 1
    if learnt.borrowing:
        pool_rows, pool_entries = learnt.pool_rows, learnt.pool_entries
        compare(
            rows[cell], entries, pool_rows[pair], pool_entries, following, learnt.agreement,
            learnt.state_agreement[pair // A],
        )  # fmt: skip
        seen = pool_rows[pair].total + 1
        new = count_transition(pool_rows[pair], pool_entries, learnt.pool_used, following, S, 1)
        if cache is not None and new and following != END:
            note_successor(
                cache, cache.shared_head, pool_rows, pool_entries, pair, h, following, shape
            )
    own_new = count_transition(rows[row], entries, learnt.used, following, S, 1)
    if cache is not None and own_new and following != END:
        head = cache.shared_head if pooled else cache.own_head
        note_successor(cache, head, rows, entries, row, h, following, shape)
    return (pooled or learnt.borrowing) and (seen <= YOUNG or new or (pooled and own_new))


@compiled
def _count_episode(learnt, cache, path, path_next, path_reward, length, first_new):  # type: ignore[no-untyped-def]
    """``Counts.add``, of which the steps before ``first_new`` are learnt already."""
    A = learnt.shape[2]
    visits, reward_sums = learnt.flat_visits, learnt.reward_sums
    learnt.starts[path[0] // A] += 1
    for h in range(length):
        place = path[h] % len(visits)
        visits[place] += 1
        reward_sums[place] += path_reward[h]
        if h >= first_new and path_next[h] != LAST:
            learn(learnt, cache, h, path[h], path_next[h])


@compiled
def _earn(key, path, path_reward, length, shape, rewards):  # type: ignore[no-untyped-def]
    """What the steps of an episode earn."""
    _, S, A = shape
    for h in range(length):
        pair = path[h] % (S * A)
        path_reward[h] = step_reward(key, h, pair // A, pair % A, rewards)


@compiled
def write_down(workspace, length, shape, record, steps):  # type: ignore[no-untyped-def]
    """The steps of an episode."""
    _, S, A = shape
    for h in range(length):
        pair = workspace.path[h] % (S * A)
        record.state[steps + h] = pair // A
        record.action[steps + h] = pair % A
        record.reward[steps + h] = workspace.path_reward[h]
        record.next_state[steps + h] = workspace.path_next[h]


@compiled
def _play_on(  # type: ignore[no-untyped-def]
    key, world, learnt, wanted, weights, workspace, cache, shape, h, s, n_met, revising, pace,
    learning,
):  # fmt: skip
    """Go on with an episode at stage h in state s; its visits are counted nowhere yet.

    Returns (stage, state, rows met, whether what is wanted has changed): where to plan anew because
    of that, or because a step that was learnt at once is news, or because the plan does not know
    the state or does not see far enough from there; or the length of the episode and END. ``pace``
    is how fast visits lower an exponent.
    """
    H, S, A = shape
    world_start, world_next = world.start, world.next_state
    probability, stationary = world.probability, world.stationary
    chosen, path, path_next = workspace.chosen, workspace.path, workspace.path_next
    deepest, values = len(chosen), workspace.values
    depth, enough, route = workspace.depth[0], workspace.enough[0], workspace.route
    gain, met, kept = workspace.gain, workspace.met, workspace.kept
    cell_start, cell_row = wanted.cell_start, wanted.cell_row
    counts, collected, any_stage = wanted.counts, wanted.collected, wanted.any_stage
    if cache is not None:
        flags, whole = cache.flags, cache.tally[WHOLE] > 0
    while True:
        action = chosen[layer(h, H, deepest, depth), s] if depth > 0 else route[s]
        pair = s * A + action
        cell = h * S * A + pair
        met_before = n_met
        n_met = visit(cell, cell_start, cell_row, gain, met, n_met)
        for i in range(met_before, n_met):
            kept[met[i]] = weights[met[i]]
        s = LAST
        if h + 1 < H:
            row = pair if stationary else cell
            number = uniform(key, 2 + 3 * h)
            s = world_next[draw(probability, world_start[row], world_start[row + 1], number)]
        path[h], path_next[h] = cell, s
        h += 1
        news = learning and s != LAST and learn(learnt, cache, h - 1, cell, s)
        if s < 0:
            return h, END, n_met, False
        changed = revising and should_replan(
            cell, pace, cell_start, cell_row, counts, collected, any_stage, gain
        )
        if changed or news:
            return h, s, n_met, changed
        if depth == 0:
            if route[s] < 0:
                return h, s, n_met, False
            continue
        if cache is not None and flags[s, layer(h, H, deepest, depth)] == 0 and not whole:
            return h, s, n_met, False
        if not sees_enough(values, depth, enough, H - h, s):
            return h, s, n_met, False


@spliced
def _tell(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, workspace, cache, majority, missing_only, length, n_met,
    first_new, first_due,
):  # fmt: skip
    """``Game.tell``: the episode on the path, and its gains; returns how many rows it covered.

    Steps from ``first_new`` on are still to be learnt, from ``first_due`` on to be planned for.
    """
    weights, memory, reward = weighing.weights, weighing.memory, weighing.reward
    met, gain, everything = workspace.met, workspace.gain, workspace.everything
    path, path_next = workspace.path, workspace.path_next
    _count_episode(learnt, cache, path, path_next, workspace.path_reward, length, first_new)
    covered = collect(wanted.counts, wanted.collected, met, n_met, gain)
    if majority is not None:
        observe_weighted_majority(
            wanted, weights, memory, majority, reward, met, n_met, gain, everything
        )
    elif missing_only is not None:
        observe_missing_only(wanted, weights, memory, reward, met, n_met)
    else:
        observe_target_aware(wanted, weights, memory, reward, met, n_met, gain, everything)
    for i in range(n_met):
        gain[met[i]] = 0
    if cache is not None:
        note_episode(learnt, wanted, weighing, workspace, cache, length, n_met, first_due)
    return covered


@spliced
def _plan_whole(learnt, stage_reward, optimism, paper, workspace, h, s):  # type: ignore[no-untyped-def]
    """Plan all states for an episode that is in state s at stage h: ``Game._plan_from``."""
    horizon, deepest = learnt.shape[0], len(workspace.chosen)
    depth, looking = depth_to_try(deepest, learnt.stage_free), True
    while looking:
        plan(learnt, stage_reward, optimism, paper, workspace, layer(h, horizon, deepest, depth))
        note_depth(workspace, depth, largest_of(stage_reward[0]))
        left = horizon - h
        looking = not sees_enough(workspace.values, depth, workspace.enough[0], left, s)
        looking = looking and not take_route(learnt, stage_reward[0], workspace, depth, left, s)
        depth = min(2 * depth, deepest)


@for_python
def plan_all(learnt, stage_reward, workspace, optimism, paper):  # type: ignore[no-untyped-def]
    """``Game.plan_all``: fills ``workspace.chosen`` for all states and all stages."""
    plan(learnt, stage_reward, optimism, paper, workspace, ZERO)
    workspace.depth[0] = len(workspace.chosen)


@compiled
def _note_path(workspace, wanted, episode, length):  # type: ignore[no-untyped-def]
    """Note the visits of an episode's steps so far; returns how many rows it has met."""
    n_met = episode[MET]
    for h in range(episode[VISITED], length):
        n_met = visit(
            workspace.path[h], wanted.cell_start, wanted.cell_row,
            workspace.gain, workspace.met, n_met,
        )  # fmt: skip
    episode[MET], episode[VISITED] = n_met, length
    return n_met


@for_python
def plan_on(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, workspace, cache, optimism, paper, missing_only, episode, h, s,
    changed, learning,
):  # fmt: skip
    """``Game.ask``, or ``Game.revise`` where the episode on the path is in state s at stage h.

    ``weighing`` holds the weights within the episode, ``changed`` says that they fall now. The
    steps since the last plan are learnt if ``learning``; for that there has to be room. Without a
    ``cache`` everything is planned anew.
    """
    n_met = _note_path(workspace, wanted, episode, h)
    if changed:
        lower_weights(
            wanted, weighing.weights, weighing.memory, weighing.reward, workspace.met, n_met,
            workspace.gain, missing_only,
        )  # fmt: skip
    first_new = h
    if learning:
        first_new = episode[LEARNT]
        for step in range(first_new, h):
            learn(learnt, cache, step, workspace.path[step], workspace.path_next[step])
        episode[LEARNT] = h
    if cache is None:
        _plan_whole(learnt, weighing.stage_reward, optimism, paper, workspace, h, s)
    else:
        keep_plan(learnt, wanted, weighing, workspace, cache, optimism, h, s, n_met, first_new)


@for_python
def ask_for_rows(wanted, weights, reward, cache, rows, actions):  # type: ignore[no-untyped-def]
    """``Game.ask_for``: what these rows earn from now on, and what is due because of that."""
    set_rewards(wanted, weights, reward, rows, len(rows))
    if cache is not None:
        note_rewards(
            rows, len(rows), wanted.row_start, wanted.row_cell, reward, cache.tops, actions,
            cache.flags, cache.due, cache.n_due,
        )  # fmt: skip


@for_python
def tell_episode(  # type: ignore[no-untyped-def]
    learnt, wanted, weighing, within, workspace, cache, majority, missing_only, episode, length,
    first_new,
):  # fmt: skip
    """``Game.tell`` of the episode on the path, for which there has to be room.

    Its steps before ``first_new`` are learnt already; ``within`` are the weights within an episode.
    """
    memory, weights = weighing.memory, weighing.weights
    rate, shift = memory[CURRENT_RATE], memory[SHIFT]
    n_met = _note_path(workspace, wanted, episode, length)
    _tell(
        learnt, wanted, weighing, workspace, cache, majority, missing_only, length, n_met,
        first_new, episode[LEARNT],
    )  # fmt: skip
    if majority is not None or rate != memory[CURRENT_RATE] or shift != memory[SHIFT]:
        for row in range(len(weights)):
            within[row] = weights[row]
    for i in range(n_met):
        within[workspace.met[i]] = weights[workspace.met[i]]
    episode[MET], episode[VISITED], episode[LEARNT] = 0, 0, 0
    if cache is not None:
        cache.tally[EPISODE] += 1


@playing
def play_block(  # type: ignore[no-untyped-def]
    most_episodes, first_episode, seed, stream,
    world, learnt, wanted, weighing, workspace, cache, optimism, paper, majority, missing_only,
    learning, record, recording,
):  # fmt: skip
    """Play up to ``most_episodes``; returns (why it ended, episodes played, steps taken).

    ``paper`` is None or the numbers of ``PaperOptimism``, ``majority`` None or a ``Majority``,
    ``missing_only`` None or True, ``cache`` None or a ``PlanCache`` that saves planning all anew:
    what is None is left out when compiling, so that the usual game does not wait for the other.
    """
    shape = learnt.shape
    S = shape[1]
    revising = wanted.most > 1.0 and majority is None
    memory = weighing.memory
    counts, collected = wanted.counts, wanted.collected
    weights, reward = weighing.weights, weighing.reward
    met, gain = workspace.met, workspace.gain
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
        key = episode_key(seed, stream, first_episode + played)
        s = draw(world.initial, ZERO, S, uniform(key, ZERO))
        length, n_met, changed, planned_at = ZERO, ZERO, False, ZERO
        while s != END:
            if changed:
                lower_weights(wanted, weights, memory, reward, met, n_met, gain, missing_only)
            if cache is None:
                _plan_whole(learnt, weighing.stage_reward, optimism, paper, workspace, length, s)
            else:
                keep_plan(
                    learnt, wanted, weighing, workspace, cache, optimism, length, s, n_met,
                    planned_at if learning else length,
                )  # fmt: skip
            planned_at = length
            pace = 0.0 if missing_only is not None else memory[CURRENT_RATE] * wanted.largest
            length, s, n_met, changed = _play_on(
                key, world, learnt, wanted, weights, workspace, cache, shape, length, s, n_met,
                revising, pace, learning,
            )  # fmt: skip
        _earn(key, workspace.path, workspace.path_reward, length, shape, world.rewards)
        if recording:
            write_down(workspace, length, shape, record, steps)
        record.lengths[played] = length
        steps += length
        for i in range(n_met):
            weights[met[i]] = workspace.kept[met[i]]
        still_open -= _tell(
            learnt, wanted, weighing, workspace, cache, majority, missing_only, length, n_met,
            length if learning else ZERO, planned_at if learning else ZERO,
        )  # fmt: skip
        if cache is not None:
            cache.tally[EPISODE] = first_episode + played + 1
    if still_open == 0:
        return COVERED, most_episodes, steps
    return BUDGET, most_episodes, steps
