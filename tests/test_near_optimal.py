"""The largest occupancies of near-optimal policies, with caps and without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from covgame.errors import Infeasible
from covgame.flow.active import WellCovered
from covgame.flow.near_optimal import largest_occupancies, optimal_values
from covgame.flow.polytope import flow_polytope
from covgame.mdp import dp
from covgame.mdp.families import FAMILIES
from covgame.mdp.model import TabularMDP
from covgame.types import FloatHSA, Policy
from tests.worlds import random_policy, worlds

slacks = st.one_of(st.just(0.0), st.floats(1e-6, 3.0))


def by_linprog(world: TabularMDP, value: float, cap: FloatHSA | None = None) -> FloatHSA:
    """The programs as the paper writes them, solved one by one by scipy."""
    polytope = flow_polytope(world.transitions)
    n = len(polytope.cells)
    conserve = np.zeros((polytope.matrix.rows, n + 1))
    conserve[polytope.matrix.index, polytope.matrix.column] = polytope.matrix.value
    earned = np.concatenate([[0.0], world.rewards.ravel()[polytope.cells]])
    caps = np.full(n, np.inf) if cap is None else cap.ravel()[polytope.cells]
    result = np.zeros(world.shape.cells)
    for i, cell in enumerate(polytope.cells):
        cost = np.zeros(n + 1)
        cost[1 + i] = -1.0
        found = linprog(
            cost,
            A_ub=-earned[None, :],
            b_ub=[-value + 1e-10],
            A_eq=conserve,
            b_eq=np.zeros(len(conserve)),
            bounds=[(1, 1), *((0, c) for c in caps)],
        )
        assert found.status == 0, found.message
        result[cell] = -found.fun
    return result.reshape(world.shape.hsa)


@settings(max_examples=25)
@given(worlds(), slacks)
def test_hulls_and_linear_programs_agree(world: TabularMDP, slack: float) -> None:
    optimal = optimal_values(world.transitions, world.rewards)
    found = largest_occupancies(optimal, slack)
    np.testing.assert_allclose(found, by_linprog(world, optimal.best - slack), atol=1e-6)


@settings(max_examples=50)
@given(worlds(), st.integers(0, 2**31))
def test_no_policy_does_better(world: TabularMDP, seed: int) -> None:
    """Any policy whose loss is below the slack visits a cell at most so often."""
    policy = random_policy(np.random.default_rng(seed), world.shape)
    optimal = optimal_values(world.transitions, world.rewards)
    values = dp.evaluate(world.transitions, policy, world.rewards)
    loss = optimal.best - dp.initial_value(world.transitions, values)
    found = largest_occupancies(optimal, loss)
    assert (dp.occupancy(world.transitions, policy) <= found + 1e-9).all()


@settings(max_examples=25)
@given(worlds(), st.floats(1e-3, 1.0), st.floats(1.0, 3.0))
def test_concave_and_rising_in_the_slack(world: TabularMDP, slack: float, factor: float) -> None:
    """f(g) rises and f(g)/g falls: why one program a cell gives PRINCIPLE's supremum."""
    optimal = optimal_values(world.transitions, world.rewards)
    few, many = (largest_occupancies(optimal, g) for g in (slack, factor * slack))
    assert (few <= many + 1e-8).all()
    assert (many <= factor * few + 1e-8).all()
    assert (many <= dp.reachability(world.transitions)[:, :, None] + 1e-9).all()


@settings(max_examples=15)
@given(worlds(), st.integers(0, 2**31), st.floats(0.01, 1.0))
def test_caps_by_warm_starts_and_one_by_one(world: TabularMDP, seed: int, slack: float) -> None:
    """Caps around the occupancy of some policy: the same suprema, below the relaxed ones."""
    rng = np.random.default_rng(seed)
    some = dp.occupancy(world.transitions, random_policy(rng, world.shape))
    best = dp.backward_induction(world.transitions, world.rewards).policy
    some = 0.5 * some + 0.5 * dp.occupancy(world.transitions, best)
    cap = some * rng.uniform(1.0, 2.0, some.shape)
    covered = WellCovered(world.transitions, world.rewards, cap)
    value = covered.best_value - slack
    exact = covered.suprema(value)
    np.testing.assert_allclose(exact, by_linprog(world, value, cap), atol=1e-6)
    assert (exact <= covered.bounds(value) + 1e-8).all()


@settings(max_examples=15)
@given(worlds(), st.floats(0.1, 0.9))
def test_what_is_enough_may_be_cut_off(world: TabularMDP, enough: float) -> None:
    cap = np.full(world.shape.hsa, 0.9)
    covered = WellCovered(world.transitions, world.rewards, cap)
    try:
        value = covered.best_value - 0.2
    except Infeasible:
        return  # a first state that has to be left by one action
    whole, cut = covered.suprema(value), covered.suprema(value, enough)
    np.testing.assert_allclose(np.minimum(whole, enough), np.minimum(cut, enough), atol=1e-7)


def test_the_best_well_covered_policy_keeps_to_its_caps() -> None:
    world = FAMILIES["garnet"].make({"states": "4", "actions": "2", "horizon": "3"})
    even = dp.occupancy(world.transitions, Policy.uniform(world.shape))
    covered = WellCovered(world.transitions, world.rewards, 1.2 * even)
    policy, occupancy = covered.best
    assert policy.is_stochastic
    assert (occupancy <= 1.2 * even + 1e-9).all()
    free = WellCovered(world.transitions, world.rewards, np.ones(world.shape.hsa))
    assert not free.best[0].is_stochastic
    assert covered.best_value < free.best_value == pytest.approx(free.optimal.best)


def test_nothing_is_well_covered_without_data() -> None:
    world = FAMILIES["garnet"].make({"states": "4", "actions": "2", "horizon": "3"})
    covered = WellCovered(world.transitions, world.rewards, np.zeros(world.shape.hsa))
    with pytest.raises(Infeasible):
        _ = covered.best
