"""Gymnasium's tables become models; what has no table is unknown."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import covgame as cg
from covgame.mdp import dp
from covgame.types import END
from tests.worlds import dense_kernel


def test_frozen_lake_is_its_table() -> None:
    model = cg.make("gym:FrozenLake-v1", horizon=12).require_model("a test")
    assert model.shape.hsa == (12, 16, 4)
    assert model.transitions.stationary
    dense = dense_kernel(model)[0]
    np.testing.assert_allclose(dense[0, 0, [0, 4]], [2 / 3, 1 / 3])
    assert dense[14, 2, END] == pytest.approx(1 / 3)  # the goal ends the episode
    assert model.stage_rewards[0, 14, 2] == pytest.approx(1 / 3)
    assert model.names.grid == (4, 4)


def test_states_entered_by_termination_are_no_cells() -> None:
    model = cg.make("gym:FrozenLake-v1", horizon=20).require_model("a test")
    ever = dp.reachable(model.transitions).any(axis=0)
    description = gymnasium.make("FrozenLake-v1").unwrapped.desc.ravel()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(ever, (description == b"S") | (description == b"F"))


def test_options_reach_the_environment() -> None:
    model = cg.make("gym:FrozenLake-v1?is_slippery=false&map_name=8x8", horizon=20).model
    assert model is not None
    assert model.shape.states == 64
    assert set(np.unique(dense_kernel(model))) == {0.0, 1.0}


@pytest.mark.parametrize("no", ["false", "False", "0"])
def test_false_is_false_however_it_is_written(no: str) -> None:
    model = cg.make(f"gym:FrozenLake-v1?is_slippery={no}", horizon=3).require_model("a test")
    assert set(np.unique(dense_kernel(model))) == {0.0, 1.0}


def test_a_table_that_step_departs_from_is_no_model() -> None:
    assert cg.make("gym:Taxi-v4?fickle_passenger=true", horizon=3).model is None


def test_taxi_starts_anywhere() -> None:
    model = cg.make("gym:Taxi-v4", horizon=3).require_model("a test")
    assert model.shape.hsa == (3, 500, 6)
    assert (model.initial > 0).sum() == 300
    assert "passenger in the taxi" in model.names.describe((0, 97, 5))


def test_cliff_walking_can_be_planned() -> None:
    plan = cg.plan("gym:CliffWalking-v1", "uniform:1/state", horizon=20)
    assert plan.dual_gap <= 1e-6
    assert plan.model.names.grid == (4, 12)
    assert plan.model.names.describe((0, 36, 0)) == "stage 0: row 3, column 0 / up"


def test_the_environments_own_limit_is_the_default_horizon() -> None:
    assert cg.make("gym:FrozenLake-v1").horizon == 100
    with pytest.raises(cg.BadInput, match="100 steps"):
        cg.make("gym:FrozenLake-v1", horizon=101)
    with pytest.raises(cg.BadInput, match="horizon"):
        cg.make("gym:Blackjack-v1")
    with pytest.raises(cg.BadInput, match="from 1 on"):
        cg.make("gym:FrozenLake-v1", horizon=0)


def test_without_a_table_nothing_is_known() -> None:
    environment = cg.make("gym:Blackjack-v1", horizon=10)
    assert not environment.known
    with pytest.raises(cg.UnknownModel, match="Blackjack"):
        cg.plan(environment, "uniform:5")


@pytest.mark.parametrize(
    "name",
    [
        "gym:",
        "gym:Nothing-v1",
        "gym:FrozenLake-v99",
        "gym:FrozenLake-v1?colour=red",
        "gym:FrozenLake-v1?map_name=huge",
        "gym:FrozenLake-v1?is_slippery",
        "gym:FrozenLake-v1?is_slippery=true&is_slippery=false",
        "gym:no_such_module:Env-v0",
    ],
)
def test_nonsense_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(cg.BadInput) as caught:
        cg.make(name, horizon=5)
    assert "\n" not in str(caught.value)
