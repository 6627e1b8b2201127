"""Random worlds of every shape for property tests, and slow, obvious oracles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import cast

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog

from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.targets.requests import parse_request
from covgame.targets.resolve import drop_rarely_reached
from covgame.targets.target import Target
from covgame.types import ANY, END, FloatArray, FloatHSA, Policy, Shape


def random_world(
    rng: np.random.Generator,
    shape: Shape,
    *,
    stationary: bool = False,
    ending: float = 0.3,
    spread_start: bool = False,
) -> TabularMDP:
    """A world whose rows have one to three successors, the end of the episode among them."""
    rows = shape.pairs if stationary else shape.cells
    row, successor, probability = [], [], []
    for i in range(rows):
        options = np.arange(shape.states)
        count = int(rng.integers(1, min(3, shape.states) + 1))
        chosen = rng.choice(options, size=count, replace=False)
        if rng.random() < ending:
            chosen[0] = END
        odds = rng.dirichlet(np.ones(count))
        row += [i] * count
        successor += chosen.tolist()
        probability += odds.tolist()
    initial = np.zeros(shape.states)
    if spread_start:
        initial[:] = rng.dirichlet(np.ones(shape.states))
    else:
        initial[int(rng.integers(shape.states))] = 1.0
    transitions = Transitions.from_entries(
        shape,
        initial,
        np.array(row, dtype=np.int64),
        np.array(successor, dtype=np.int64),
        np.array(probability),
        stationary=stationary,
    )
    rewards = rng.random((1 if stationary else shape.horizon, shape.states, shape.actions))
    return TabularMDP(transitions, rewards)


@st.composite
def worlds(
    draw: st.DrawFn, max_horizon: int = 5, max_states: int = 5, max_actions: int = 3
) -> TabularMDP:
    """Worlds of every shape: one state, one action, one stage, endings everywhere or nowhere."""
    shape = Shape(
        draw(st.integers(1, max_horizon)),
        draw(st.integers(1, max_states)),
        draw(st.integers(1, max_actions)),
    )
    return random_world(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        shape,
        stationary=draw(st.booleans()),
        ending=draw(st.sampled_from([0.0, 0.3, 1.0])),
        spread_start=draw(st.booleans()),
    )


small_worlds = worlds(max_horizon=3, max_states=3, max_actions=2)


def random_counts(rng: np.random.Generator, world: TabularMDP) -> FloatHSA:
    """A target on some of the reachable cells, from a fraction of a visit to hundreds."""
    reachable = np.repeat(dp.reachable(world.transitions)[:, :, None], world.shape.actions, 2)
    counts = 10 ** rng.uniform(-1, 2.5, world.shape.hsa)
    return np.where(reachable & (rng.random(world.shape.hsa) < 0.7), counts, 0.0)


def random_groups(rng: np.random.Generator, world: TabularMDP, rows: int = 6) -> Target:
    """A target with open stages and actions, overlapping, every row reachable."""
    reachable = dp.reachable(world.transitions)
    chosen: dict[tuple[int, int, int], float] = {}
    for h, s in rng.permutation(np.argwhere(reachable)).tolist()[:rows]:
        stage = ANY if rng.random() < 0.5 else h
        action = ANY if rng.random() < 0.5 else int(rng.integers(world.shape.actions))
        chosen[stage, s, action] = float(rng.uniform(0.5, 20))
    return Target.of_rows(
        world.shape,
        np.array(list(chosen), dtype=np.int64).reshape(-1, 3),
        np.array(list(chosen.values())),
    )


def deterministic_policies(world: TabularMDP) -> Iterator[Policy]:
    """All of them: A^(S H) many."""
    H, S, A = world.shape.hsa
    for choice in itertools.product(range(A), repeat=S * H):
        yield Policy.deterministic(np.array(choice, dtype=np.int64).reshape(H, S), A)


def random_policy(rng: np.random.Generator, shape: Shape) -> Policy:
    return Policy.stochastic(rng.dirichlet(np.ones(shape.actions), shape.hs))


def min_episodes_by_enumeration(world: TabularMDP, target: Target) -> float:
    """phi* from scratch: the cheapest mixture of all deterministic policies, by scipy."""
    columns = [
        target.collected(dp.occupancy(world.transitions, policy))
        for policy in deterministic_policies(world)
    ]
    collected = np.unique(np.array(columns), axis=0)
    answer = linprog(
        np.ones(len(collected)), A_ub=-collected.T, b_ub=-target.counts, method="highs"
    )
    assert answer.status == 0, answer.message
    return cast("float", answer.fun)


def dense_kernel(world: TabularMDP) -> FloatArray:
    """p[h, s, a, s'] with the end as last successor: the wasteful, obvious form."""
    H, S, A = world.shape.hsa
    dense = np.zeros((H, S, A, S + 1))
    for h, kernel in enumerate(world.transitions.stages):
        for pair in range(S * A):
            for entry in range(kernel.start[pair], kernel.start[pair + 1]):
                dense[h, pair // A, pair % A, kernel.next_state[entry]] += kernel.probability[entry]
    return dense


def reachable_target(world: TabularMDP, text: str) -> Target:
    wanted = parse_request(text).resolve(world.transitions)
    return drop_rarely_reached(wanted, world.transitions, 0.02)[0]
