"""The model file: read, written, and refused with the place of what is wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import covgame as cg
from covgame.mdp.families import FAMILIES
from covgame.mdp.files import load_model, model_content, save_model
from covgame.mdp.model import TabularMDP
from covgame.types import END
from tests.worlds import dense_kernel, worlds

CONTRACT: dict[str, Any] = {
    "format": "covgame-mdp/1",
    "horizon": 3,
    "states": 2,
    "actions": 1,
    "initial": 0,
    "transitions": [
        [0, 0, 0, 1, 0.25],
        [0, 0, 0, 0, 0.75],
        [0, 1, 0, None, 1.0],
        [1, 0, 0, 0, 1.0],
        [1, 1, 0, 1, 1.0],
    ],
    "rewards": [[None, 1, 0, 0.9]],
}


def write(folder: Path, content: object) -> Path:
    path = folder / "model.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def assert_same(one: TabularMDP, other: TabularMDP) -> None:
    assert one.shape == other.shape
    assert one.transitions.stationary == other.transitions.stationary
    assert one.names.states == other.names.states
    assert one.names.actions == other.names.actions
    np.testing.assert_array_equal(one.initial, other.initial)
    np.testing.assert_array_equal(one.rewards, other.rewards)
    np.testing.assert_array_equal(one.transitions.start, other.transitions.start)
    np.testing.assert_array_equal(one.transitions.next_state, other.transitions.next_state)
    np.testing.assert_array_equal(one.transitions.probability, other.transitions.probability)


def test_the_contracts_example(tmp_path: Path) -> None:
    model = load_model(write(tmp_path, CONTRACT))
    assert model.shape.hsa == (3, 2, 1)
    assert not model.transitions.stationary
    dense = dense_kernel(model)
    np.testing.assert_array_equal(dense[0, 0, 0], [0.75, 0.25, 0])
    np.testing.assert_array_equal(dense[0, 1, 0], [0, 0, 1])
    np.testing.assert_array_equal(dense[2], 0)
    np.testing.assert_array_equal(model.rewards[:, 1, 0], 0.9)


@given(worlds())
def test_round_trip_to_the_bit(world: TabularMDP) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        save_model(world, path)
        again = load_model(path)
    assert again.shape == world.shape
    np.testing.assert_array_equal(dense_kernel(again), dense_kernel(world))
    np.testing.assert_array_equal(again.rewards, world.rewards)
    np.testing.assert_array_equal(again.initial, world.initial)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_survives_the_file(tmp_path: Path, name: str) -> None:
    world = FAMILIES[name].make({})
    save_model(world, tmp_path / "model.json")
    assert_same(load_model(tmp_path / "model.json"), world)


def test_rows_without_a_stage_hold_at_every_stage(tmp_path: Path) -> None:
    content = copy.deepcopy(CONTRACT)
    content["transitions"] = [[None, 0, 0, 1, 1.0], [None, 1, 0, None, 1.0]]
    model = load_model(write(tmp_path, content))
    assert model.transitions.stationary
    assert model.transitions.next_state.tolist() == [1, END]
    assert model.with_horizon(50).shape.horizon == 50


def test_mixed_rows_make_a_stage_dependent_model(tmp_path: Path) -> None:
    content = copy.deepcopy(CONTRACT)
    content["transitions"] = [
        [None, 0, 0, 1, 1.0],
        [0, 1, 0, None, 1.0],
        [1, 1, 0, 0, 1.0],
    ]
    content["rewards"] = [[None, 0, 0, 0.5], [2, 1, 0, 1.0]]
    model = load_model(write(tmp_path, content))
    dense = dense_kernel(model)
    np.testing.assert_array_equal(dense[:, 0, 0, 1], 1.0)
    np.testing.assert_array_equal(dense[:, 1, 0, 0], [0, 1, 0])
    np.testing.assert_array_equal(model.rewards[:, :, 0], [[0.5, 0], [0.5, 0], [0.5, 1.0]])
    with pytest.raises(cg.BadInput, match="prolonged"):
        model.with_horizon(4)


def test_one_stage_needs_no_transitions(tmp_path: Path) -> None:
    content = CONTRACT | {"horizon": 1, "transitions": [], "initial": [0.5, 0.5]}
    model = load_model(write(tmp_path, content))
    assert cg.plan(model, "uniform:3").min_episodes == pytest.approx(6)


def change(**changes: Any) -> dict[str, Any]:
    return CONTRACT | changes


def rows(*changes: tuple[int, Any]) -> dict[str, Any]:
    """The example with some transition rows replaced (None: left out)."""
    content = copy.deepcopy(CONTRACT)
    for place, row in changes:
        content["transitions"][place] = row
    content["transitions"] = [row for row in content["transitions"] if row is not None]
    return content


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "JSON object"),
        ("null", "JSON object"),
        (change(format="covgame-mdp/9"), "format"),
        ({key: CONTRACT[key] for key in CONTRACT if key != "initial"}, "initial"),
        (change(reward=[]), "reward"),
        (change(horizon=0), "horizon"),
        (change(horizon=2.0), "horizon"),
        (change(horizon=True), "horizon"),
        (change(states=-1), "states"),
        (change(actions="1"), "actions"),
        (change(initial=2), "initial"),
        (change(initial=-1), "initial"),
        (change(initial=None), "initial"),
        (change(initial=[1.0]), "initial"),
        (change(initial=[0.5, 0.4]), "initial"),
        (change(initial=[1.5, -0.5]), "initial[0]"),
        (change(transitions={}), "transitions"),
        (change(transitions=[]), "missing"),
        (rows((0, [0, 0, 0, 1])), "transitions[0]"),
        (rows((0, [0, 0, 0, 1, 0.25, 1])), "transitions[0]"),
        (rows((0, [0, 0, 0, 1, 0.3])), "sum to 1.05"),
        (rows((0, [0, 0, 0, 1, 0.25 + 1e-7])), "sum to"),
        (rows((0, [0, 0, 0, 1, -0.25])), "transitions[0][4]"),
        (rows((0, [0, 0, 0, 1, 1.25])), "transitions[0][4]"),
        (rows((0, [0, 0, 0, 1, "x"])), "transitions[0][4]"),
        (rows((0, [0, 0, 0, 1, True])), "transitions[0][4]"),
        (rows((0, [0, 0, 0, 1, None])), "transitions[0][4]"),
        (rows((0, [3, 0, 0, 1, 0.25])), "transitions[0]: stage 3"),
        (rows((0, [0, 2, 0, 1, 0.25])), "transitions[0]: state 2"),
        (rows((0, [0, 0, 1, 1, 0.25])), "transitions[0]: action 1"),
        (rows((0, [0, 0, 0, 2, 0.25])), "transitions[0]: next state 2"),
        (rows((0, [0, 0, 0, 0, 0.25])), "transitions[1]: the same row"),
        (rows((0, [None, 0, 0, 1, 0.25])), "for every stage and for one stage"),
        (rows((3, None)), "stage 1, state 0, action 0"),
        (rows((0, [2, 0, 0, 1, 0.5])), "sum to"),
        (change(rewards=[[0, 0, 0, 1.5]]), "rewards[0][3]"),
        (change(rewards=[[0, 0, 0, -0.1]]), "rewards[0][3]"),
        (change(rewards=[[0, 5, 0, 0.1]]), "rewards[0]: state 5"),
        (change(rewards=[[0, 0, 0, 0.1], [0, 0, 0, 0.1]]), "rewards[1]"),
        (change(rewards=[[0, 0, 0, 0.1], [None, 0, 0, 0.1]]), "rewards[0]"),
        (change(state_names=["only one"]), "state names"),
        (json.dumps(CONTRACT).replace("0.25", "NaN"), "NaN"),
        (json.dumps(CONTRACT).replace("0.25", "Infinity"), "Infinity"),
        (json.dumps(CONTRACT).replace("0.25", "1e400"), "transitions[0][4]"),
        (json.dumps(CONTRACT).replace('"states": 2', '"states": 2, "states": 3'), "twice"),
    ],
)
def test_a_malformed_file_names_the_place(tmp_path: Path, content: object, place: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(cg.BadInput) as caught:
        load_model(path)
    assert place in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [{"states": 10**12}, {"horizon": 10**15}, {"actions": 2**60}])
def test_sizes_that_cannot_fit_are_refused_before_allocation(
    tmp_path: Path, size: dict[str, int]
) -> None:
    with pytest.raises(cg.TooLarge, match="GiB"):
        load_model(write(tmp_path, CONTRACT | size))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(cg.BadInput, match="no file"):
        load_model(tmp_path / "missing.json")
    with pytest.raises(cg.BadInput, match="read"):
        load_model(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(cg.BadInput, match="read"):
        load_model(tmp_path / "binary.json")


def test_a_model_with_other_rewards_is_not_written() -> None:
    model = cg.make("gym:CliffWalking-v1", horizon=5).require_model("a test")
    with pytest.raises(cg.BadInput, match=r"\[0, 1\]"):
        model_content(model)
