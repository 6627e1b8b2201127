"""Sparse kernels against their dense form."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.types import END, Shape
from tests.worlds import dense_kernel, worlds


@given(worlds(), st.integers(0, 1000))
def test_expect_and_push_agree_with_the_dense_kernel(world: TabularMDP, seed: int) -> None:
    rng = np.random.default_rng(seed)
    H, S, A = world.shape.hsa
    dense = dense_kernel(world)
    values, mass = rng.normal(size=S), rng.random(S * A)
    for h in range(H):
        kernel = world.transitions.stages[h]
        p = dense[h].reshape(S * A, S + 1)[:, :S]
        np.testing.assert_allclose(kernel.expect(values), p @ values, atol=1e-12)
        np.testing.assert_allclose(kernel.push(mass), mass @ p, atol=1e-12)


@given(worlds(), st.integers(0, 1000))
def test_expect_and_push_are_adjoint(world: TabularMDP, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel = world.transitions.stages[0]
    values, mass = rng.normal(size=world.shape.states), rng.normal(size=world.shape.pairs)
    np.testing.assert_allclose(mass @ kernel.expect(values), kernel.push(mass) @ values, atol=1e-9)


@given(worlds(), st.integers(0, 1000))
def test_several_value_functions_at_once(world: TabularMDP, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(world.shape.states, 3))
    kernel = world.transitions.stages[0]
    together = kernel.expect(values)
    for column in range(3):
        np.testing.assert_allclose(together[:, column], kernel.expect(values[:, column]))


def test_a_stationary_kernel_is_stored_once() -> None:
    shape = Shape(1000, 2, 1)
    kernel = Transitions.from_entries(
        shape,
        np.array([1.0, 0.0]),
        np.array([0, 1]),
        np.array([1, 0]),
        np.ones(2),
        stationary=True,
    )
    assert len(kernel.probability) == 2
    assert kernel.stages[0] is kernel.stages[999]


def test_entries_of_one_successor_are_added_and_impossible_ones_dropped() -> None:
    kernel = Transitions.from_entries(
        Shape(2, 2, 1),
        np.array([1.0, 0.0]),
        np.array([1, 0, 0, 0, 1]),
        np.array([0, 1, 1, END, 1]),
        np.array([1.0, 0.25, 0.25, 0.5, 0.0]),
        stationary=True,
    )
    assert kernel.start.tolist() == [0, 2, 3]
    assert kernel.next_state.tolist() == [END, 1, 0]
    assert kernel.probability.tolist() == [0.5, 0.5, 1.0]


def test_a_pair_of_which_nothing_is_known_expects_nothing() -> None:
    kernel = Transitions.from_entries(
        Shape(2, 2, 2),
        np.array([1.0, 0.0]),
        np.array([3]),
        np.array([1]),
        np.array([1.0]),
        stationary=True,
    )
    assert kernel.stages[0].expect(np.array([5.0, 7.0])).tolist() == [0, 0, 0, 7]


@given(worlds(max_horizon=4), st.data())
def test_a_shorter_horizon_keeps_the_first_stages(world: TabularMDP, data: st.DataObject) -> None:
    horizon = data.draw(st.integers(1, world.shape.horizon))
    short = world.with_horizon(horizon)
    assert short.shape.horizon == horizon
    np.testing.assert_array_equal(dense_kernel(short), dense_kernel(world)[:horizon])
    np.testing.assert_array_equal(short.rewards, world.rewards[:horizon])
