"""Arrays that are handed to compiled code: tuples of them, and what their places mean.

Nothing here is compiled, so that tuples can be made before the compiler is imported. H stages, S
states, A actions; G rows of a target.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from covgame.game.counts import Counts
from covgame.game.successors import SuccessorTable
from covgame.types import END, IntArray

COVERED, BUDGET, POOL_FULL, TOO_MANY = 0, 1, 2, 3
"""Why a block ended: all rows covered, episodes played, no room for new successors or numbers."""

TOTAL, VARIANCE, CURRENT_RATE, SHIFT, ROWS = 0, 1, 2, 3, 4
"""What ``AdversaryState`` calls total, variance, rate, shift and rows."""

PLAN_RATE, PLAN_SHIFT, PLAN_KAPPA = 0, 1, 2
"""What a plan was made with, and everything changes with: see ``PlanCache.basis``."""

PLACES, LARGEST = 0, 1
"""Of a table of successors: places used, and the largest capacity of a row."""

BONUS, DOUBT, PROMISE, PATH_BONUS, VISIT_BONUS = 0, 1, 2, 3, 4
"""The numbers of ``RangeAwareOptimism``."""

SCALE, LOG_CELLS, STATES = 0, 1, 2
"""The numbers of ``PaperOptimism``."""

OWN, OTHERS = 0, 1
"""Of an agreement between stages: what its own stage, and others, gave to what happened."""

KNOWN, DUE, LEANS = np.uint8(1), np.uint8(2), np.uint8(4)
"""Flags of a state at a stage: can be entered, is to be planned anew, needs shared rows."""

SEARCHED, QUEUE, CAME_BY, ROUTE = 0, 1, 2, 3
"""Rows of ``Workspace.search``: the last search that found a state, the states in that order, the
pair before each, the states of the route."""

EPISODE, LINKS, PLANNED, UNFOLLOWED, HEAVY, WHOLE = 0, 1, 2, 3, 4, 5
"""Tallies: the episode that is next, links, states planned, known ones not followed yet, plans in
a row in which much was due, plans still to be made as a whole."""

MET, VISITED, LEARNT = 0, 1, 2
"""Of an episode that somebody else plays: rows met, steps whose visits are noted, steps learnt."""

ANY = -1
"""In a table of actions: all of them are as good."""

ZERO = np.int64(0)


class World(NamedTuple):
    """The model that episodes are drawn from."""

    initial: Any  # (S,)
    start: Any  # (rows + 1,), row i owns the places start[i]:start[i + 1]
    next_state: Any  # (places,)
    probability: Any  # (places,)
    rewards: Any  # (H or 1, S, A)
    stationary: Any  # whether there is a row per pair, not per cell


class SortedSuccessors(NamedTuple):
    """The model that visits are drawn from: ``sources.counted.SortedSuccessors``."""

    first_state: Any  # (first states,)
    first_probability: Any  # (first states,)
    start: Any  # the rest as in ``World``
    next_state: Any
    probability: Any
    rewards: Any
    stationary: Any


class CountArrays(NamedTuple):
    """``Counts``: the table and, where stages borrow, the pool."""

    shape: Any  # (3,) numbers: H, S, A
    visits: Any  # (H or 1, S, A)
    flat_visits: Any  # (H * S * A,) or (S * A,), the same memory
    reward_sums: Any  # the same
    starts: Any  # (S,)
    rows: Any  # (S * A,) if pooled, else (H * S * A,), of ``counts.ROW``
    entries: Any  # (places,), of ``counts.ENTRY``
    used: Any  # (2,), by PLACES and LARGEST
    pool_rows: Any  # (S * A,), or empty
    pool_entries: Any  # (places,)
    pool_used: Any  # (2,)
    agreement: Any  # (2,), by OWN and OTHERS
    state_agreement: Any  # (S, 2)
    pooled: Any
    borrowing: Any
    stage_free: Any


class TargetArrays(NamedTuple):
    """A target, what of it is collected, and which cells belong to which rows."""

    counts: Any  # (G,)
    log_counts: Any  # (G,)
    collected: Any  # (G,)
    any_stage: Any  # (G,), rows that can be visited several times in an episode
    largest: Any  # the largest count, over ``most``
    smallest: Any  # the smallest count
    most: Any  # what an episode can collect of a row
    row_start: Any  # (G + 1,)
    row_cell: Any  # (members,), the places of row i from row_start[i] on
    cell_start: Any  # (places + 1,); places are cells, or pairs if the target is free of stages
    cell_row: Any  # (members,), the rows of place i from cell_start[i] on
    preference: Any  # (S * A,), ``Game.preference``, or empty


class WeightArrays(NamedTuple):
    """``AdversaryState``, and what places earn by it: ``Target.places``."""

    weights: Any  # (G,)
    reward: Any  # (H * S * A,), or (S * A,) if the target is free of stages
    stage_reward: Any  # (H or 1, S * A), the same memory
    memory: Any  # (5,), by TOTAL, VARIANCE, CURRENT_RATE, SHIFT and ROWS


class Majority(NamedTuple):
    """What only ``WeightedMajority`` remembers."""

    base: Any  # (G,)
    level: Any  # (1,)


class Workspace(NamedTuple):
    """Arrays that a block writes on; made outside, because the compiler takes long over that."""

    chosen: Any  # (K, S), for the last K stages of an episode: see ``layer``
    values: Any  # (K, S + 1), the last column 0: the value of the end
    depth: Any  # (1,), how many of the K stages the plan looks ahead
    enough: Any  # (1,), the value from which on that is far enough: ``Game.sees_enough``
    route: Any  # (S,) or empty, the actions of a route, -1 elsewhere; followed if ``depth`` is 0
    search: Any  # (4, S) or empty, by SEARCHED, QUEUE, CAME_BY and ROUTE
    searches: Any  # (2,), how many there were, and the states of the route
    scratch: Any  # (9, S * A)
    tried: Any  # (S, A), ``Counts.tried`` where it is the same at all stages, or empty
    everything: Any  # (G,), all rows of the target
    met: Any  # (G,)
    gain: Any  # (G,), all 0
    kept: Any  # (G,), weights of rows that the episode has covered
    path: Any  # (H,), cells of the episode
    path_next: Any  # (H,), their successors
    path_reward: Any  # (H,), and what they earned


class PlanCache(NamedTuple):
    """The plan as it stands, for ``replan``: who can be entered, what is due, who leans on whom.

    H are here the stages that a plan may look ahead, ``Game.deepest``. Where a plan depends only on
    the stages that are left, a state that was seen is known at all of them.

    A link says that a state has been seen to lead to another one: at one stage (``own_head``, where
    stages are apart), or at whichever stage (``shared_head``, where rows are pooled or borrowed).
    """

    flags: Any  # (S, H), of KNOWN, DUE and LEANS
    known: Any  # (H, S), states that an episode can be in at a stage, by what was seen
    n_known: Any  # (H,)
    n_followed: Any  # (H,), of how many of them the successors are known, too
    due: Any  # (H, S), states to be planned anew
    n_due: Any  # (H,)
    tops: Any  # (H or 1, 2 * S * A), rewards behind their tournament: [h, 1] is the largest
    remaining: Any  # (H,), what any path earns after a stage, when it was planned
    basis: Any  # (3,), by PLAN_RATE, PLAN_SHIFT and PLAN_KAPPA
    own_head: Any  # (H * S,) or empty, the last link of a successor, -1 if there is none
    shared_head: Any  # (S,) or empty
    links: Any  # (L, 2), state and next link
    tally: Any  # (6,), by EPISODE, LINKS, PLANNED, UNFOLLOWED, HEAVY and WHOLE
    everywhere: Any  # whether a state that is known is known at all stages


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
    memory: Any  # (5,)


class Curious(NamedTuple):
    """``baselines.curiosity.Curiosity``, its functions of visits listed."""

    bonus: Any  # (visits,)
    width: Any  # (visits,)
    variance_scale: Any  # (visits,)
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

    counts: Any  # (G,), these as in ``TargetArrays``
    collected: Any
    any_stage: Any
    row_start: Any
    row_cell: Any
    cell_start: Any
    cell_row: Any
    by_stage: Any  # (H, S * A), whether a cell is a goal
    by_cell: Any  # (H * S * A,), the same memory
    values: Any  # (2, 2, S + 1)
    paths: Any  # (2, S * A)
    unions: Any  # SAH/delta, negative for the practical form
    b: Any
    most_rounds: Any
    close: Any
    replans: Any


class Record(NamedTuple):
    """Where the steps of a block are written."""

    lengths: Any  # (episodes,)
    state: Any  # (steps,)
    action: Any  # (steps,)
    reward: Any  # (steps,)
    next_state: Any  # (steps,)


def count_arrays(counts: Counts) -> CountArrays:
    """Counts as compiled code takes them."""
    table, pool = counts.table, counts.pool or SuccessorTable(0)
    return CountArrays(
        shape=counts.shape.hsa,
        visits=counts.visits,
        flat_visits=counts.visits.reshape(-1),
        reward_sums=counts.reward_sums.reshape(-1),
        starts=counts.starts,
        rows=table.rows,
        entries=table.entries,
        used=_used(table),
        pool_rows=pool.rows,
        pool_entries=pool.entries,
        pool_used=_used(pool),
        agreement=counts.agreement,
        state_agreement=counts.state_agreement,
        pooled=counts.pooled,
        borrowing=counts.pool is not None,
        stage_free=counts.stage_free,
    )


def _used(table: SuccessorTable) -> IntArray:
    """(places used, largest capacity of a row), as compiled code keeps them."""
    largest = table.rows["capacity"].max(initial=table.FIRST_CAPACITY)
    return np.array([table.used, largest], dtype=np.int64)


def plan_cache(counts: Counts, deepest: int, stages: int) -> PlanCache:
    """A plan that follows the counts: what was seen is linked, nothing is planned yet.

    It may look ``deepest`` stages ahead. Rewards are told apart by so many ``stages``, all or one.
    """
    H, S, pairs = deepest, counts.shape.states, counts.shape.pairs
    entries = len(counts.table.entries) + (len(counts.pool.entries) if counts.pool else 0)
    cache = PlanCache(
        flags=np.zeros((S, H), dtype=np.uint8),
        known=np.zeros((H, S), dtype=np.int32),
        n_known=np.zeros(H, dtype=np.int64),
        n_followed=np.zeros(H, dtype=np.int64),
        due=np.zeros((H, S), dtype=np.int32),
        n_due=np.zeros(H, dtype=np.int64),
        tops=np.zeros((stages, 2 * pairs)),
        remaining=np.zeros(H),
        basis=np.full(3, np.nan),
        own_head=np.full(0 if counts.pooled else H * S, -1, dtype=np.int32),
        shared_head=np.full(S if counts.shares_stages else 0, -1, dtype=np.int32),
        links=np.zeros((entries, 2), dtype=np.int32),
        tally=np.zeros(6, dtype=np.int64),
        everywhere=counts.stage_free,
    )
    cache.tally[EPISODE] = counts.n_episodes
    _link_rows(cache, counts.table, counts, apart=not counts.pooled)
    if counts.pool is not None:
        _link_rows(cache, counts.pool, counts, apart=False)
    if counts.stage_free:
        _, successor, _ = counts.table.listed(0, len(counts.table))
        seen = np.union1d(np.flatnonzero(counts.starts), successor[successor != END])
        stages_known = slice(None)
        cache.n_followed[:] = len(seen)
    else:
        seen, stages_known = np.flatnonzero(counts.starts), slice(1)
        cache.tally[UNFOLLOWED] = len(seen)
    cache.flags[seen, stages_known] = KNOWN | LEANS | DUE
    cache.known[stages_known, : len(seen)] = cache.due[stages_known, : len(seen)] = seen
    cache.n_known[stages_known] = cache.n_due[stages_known] = len(seen)
    return cache


def _link_rows(cache: PlanCache, table: SuccessorTable, counts: Counts, *, apart: bool) -> None:
    """One link for each state and successor of a table; ``apart``: and for each stage."""
    H, S, A = counts.shape.hsa
    row, successor, _ = table.listed(0, len(table))
    linked = successor != END
    if apart:  # data of others may show what came after the last stage
        linked &= row // (S * A) < H - 1
    row, successor = row[linked], successor[linked]
    stage = row // (S * A)
    at = (stage + 1) * S + successor if apart else successor
    at, state = np.divmod(np.unique(at * S + row // A - stage * S), S)
    number = cache.tally[LINKS] + np.arange(len(at))
    cache.links[number, 0] = state
    cache.links[number, 1] = np.where(np.append(True, at[1:] != at[:-1])[: len(at)], -1, number - 1)
    (cache.own_head if apart else cache.shared_head)[at] = number  # the last one of each
    cache.tally[LINKS] += len(at)


def new_workspace(counts: Counts, rows: int = 0, deepest: int | None = None) -> Workspace:
    """Room to play episodes of a target with so many rows, planned ``deepest`` stages ahead."""
    (horizon, states, actions), stage_free = counts.shape.hsa, counts.stage_free
    everything, stages = np.arange(rows), deepest or horizon
    return Workspace(
        chosen=np.zeros((stages, states), dtype=np.int64),
        values=np.zeros((stages, states + 1)),
        depth=np.full(1, stages, dtype=np.int64),
        enough=np.zeros(1),
        route=np.full(states if stage_free else 0, -1, dtype=np.int64),
        search=np.zeros((4, states if stage_free else 0), dtype=np.int64),
        searches=np.zeros(2, dtype=np.int64),
        scratch=np.zeros((9, states * actions)),
        tried=np.zeros((states, actions) if stage_free else (0, 0), dtype=np.int64),
        everything=everything,
        met=np.zeros_like(everything),
        gain=np.zeros_like(everything),
        kept=np.zeros(rows),
        path=np.zeros(horizon, dtype=np.int64),
        path_next=np.zeros(horizon, dtype=np.int64),
        path_reward=np.zeros(horizon),
    )


def new_record(episodes: int, steps: int) -> Record:
    """Room for so many episodes and steps."""
    return Record(
        lengths=np.zeros(episodes, dtype=np.int64),
        state=np.zeros(steps, dtype=np.int64),
        action=np.zeros(steps, dtype=np.int64),
        reward=np.zeros(steps),
        next_state=np.zeros(steps, dtype=np.int64),
    )


def row_starts(row: IntArray, rows: int) -> IntArray:
    """Where each row's members begin, from the rows of all members in order: (rows + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
