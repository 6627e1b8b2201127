"""Dynamic programming: theorems, and enumeration of all policies on small worlds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from covgame.mdp import dp
from covgame.mdp.families import FAMILIES
from covgame.mdp.model import TabularMDP
from tests.worlds import (
    dense_kernel,
    deterministic_policies,
    random_policy,
    small_worlds,
    worlds,
)

seeds = st.integers(0, 2**31)


@given(small_worlds)
def test_backward_induction_is_the_best_of_all_policies(world: TabularMDP) -> None:
    best = max(
        dp.initial_value(world.transitions, dp.evaluate(world.transitions, policy, world.rewards))
        for policy in deterministic_policies(world)
    )
    optimal = dp.backward_induction(world.transitions, world.rewards)
    assert np.isclose(dp.initial_value(world.transitions, optimal.values), best)


@given(worlds())
def test_the_optimal_policy_attains_the_optimal_value(world: TabularMDP) -> None:
    optimal = dp.backward_induction(world.transitions, world.rewards)
    attained = dp.evaluate(world.transitions, optimal.policy, world.rewards)
    np.testing.assert_allclose(attained, optimal.values)


@given(worlds())
def test_bellman_recursion_against_the_dense_form(world: TabularMDP) -> None:
    H, S, _ = world.shape.hsa
    dense = dense_kernel(world)
    following = np.zeros(S + 1)
    values = dp.backward_induction(world.transitions, world.rewards).values
    for h in reversed(range(H)):
        expected = dense[h] @ following if h + 1 < H else 0.0
        following[:S] = (world.rewards[h] + expected).max(axis=1)
        np.testing.assert_allclose(values[h], following[:S])


@given(worlds(), seeds)
def test_value_is_reward_weighted_by_occupancy(world: TabularMDP, seed: int) -> None:
    policy = random_policy(np.random.default_rng(seed), world.shape)
    value = dp.initial_value(
        world.transitions, dp.evaluate(world.transitions, policy, world.rewards)
    )
    occupancy = dp.occupancy(world.transitions, policy)
    assert np.isclose((occupancy * world.rewards).sum(), value)


@given(worlds(), seeds)
def test_occupancy_is_a_distribution_that_only_endings_thin_out(
    world: TabularMDP, seed: int
) -> None:
    policy = random_policy(np.random.default_rng(seed), world.shape)
    mass = dp.occupancy(world.transitions, policy).sum(axis=(1, 2))
    assert np.isclose(mass[0], 1.0)
    assert (np.diff(mass) <= 1e-12).all()


@given(worlds(), seeds)
def test_values_are_monotone_in_the_reward(world: TabularMDP, seed: int) -> None:
    more = world.rewards + np.random.default_rng(seed).random(world.shape.hsa)
    low = dp.backward_induction(world.transitions, world.rewards).values
    high = dp.backward_induction(world.transitions, more).values
    assert (high >= low - 1e-12).all()


@given(small_worlds)
def test_reachability_against_enumeration(world: TabularMDP) -> None:
    best = np.zeros(world.shape.hs)
    for policy in deterministic_policies(world):
        best = np.maximum(best, dp.occupancy(world.transitions, policy).sum(axis=2))
    np.testing.assert_allclose(dp.reachability(world.transitions), best, atol=1e-12)


@given(worlds())
def test_reachable_is_positive_reachability(world: TabularMDP) -> None:
    reach = dp.reachability(world.transitions, np.ones(world.shape.hs, dtype=np.bool_))
    np.testing.assert_array_equal(dp.reachable(world.transitions), reach > 0)


@given(worlds(max_horizon=4, max_states=4))
def test_reachability_in_blocks_is_the_same(world: TabularMDP) -> None:
    whole = dp.reachability(world.transitions)
    block, dp.BLOCK_ENTRIES = dp.BLOCK_ENTRIES, 1
    try:
        np.testing.assert_allclose(dp.reachability(world.transitions), whole, rtol=1e-12)
    finally:
        dp.BLOCK_ENTRIES = block


@given(small_worlds)
def test_hitting_against_enumeration(world: TabularMDP) -> None:
    """P(the path meets s): run the policy on the world in which s keeps what enters it."""
    S = world.shape.states
    best = np.zeros(S)
    dense = dense_kernel(world)
    for policy in deterministic_policies(world):
        for s in range(S):
            best[s] = max(best[s], _meets(dense, world, policy.table, s))
    np.testing.assert_allclose(dp.hitting(world.transitions), best, atol=1e-12)


def _meets(dense: np.ndarray, world: TabularMDP, actions: np.ndarray, target: int) -> float:
    met, mass = 0.0, np.append(world.initial, 0.0)
    for h in range(world.shape.horizon):
        met += mass[target]
        mass[target] = 0.0
        mass = sum(
            (mass[s] * dense[h, s, actions[h, s]] for s in range(world.shape.states)),
            np.zeros(world.shape.states + 1),
        )
    return float(met)


def test_reachability_of_a_stationary_world_equals_the_stage_dependent_recursion() -> None:
    world = FAMILIES["riverswim"].make({"states": "5", "horizon": "7"})
    staged = FAMILIES["riverswim"].make({"states": "5", "horizon": "7"}).transitions
    entries = np.tile(np.arange(len(staged.probability)), 7)
    row = np.repeat(np.arange(10), np.diff(staged.start))
    rows = np.concatenate([row + 10 * h for h in range(7)])
    copied = type(staged).from_entries(
        staged.shape,
        staged.initial,
        rows,
        staged.next_state[entries],
        staged.probability[entries],
        stationary=False,
    )
    np.testing.assert_allclose(dp.reachability(world.transitions), dp.reachability(copied))
