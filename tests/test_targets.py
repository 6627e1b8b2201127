"""Targets: rows with open places, their cells, and how people ask for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covgame as cg
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.targets.requests import parse_request
from covgame.targets.resolve import drop_rarely_reached
from covgame.targets.target import Target
from covgame.types import ANY, Shape
from tests.worlds import (
    dense_kernel,
    deterministic_policies,
    random_counts,
    random_groups,
    small_worlds,
    worlds,
)

seeds = st.integers(0, 2**31)
RIVER = cg.make("riverswim:states=3,horizon=4").require_model("a test")


@given(worlds(), seeds)
def test_members_are_the_cells_that_match(world: TabularMDP, seed: int) -> None:
    target = random_groups(np.random.default_rng(seed), world)
    pairs = set(zip(target.members.row.tolist(), target.members.cell.tolist(), strict=True))
    H, S, A = world.shape.hsa
    expected = {
        (row, (h * S + s) * A + a)
        for row, (stage, state, action) in enumerate(target.rows.tolist())
        for h in range(H)
        for s in range(S)
        for a in range(A)
        if stage in (ANY, h) and state == s and action in (ANY, a)
    }
    assert pairs == expected
    assert len(target.members.row) == len(expected)


@given(worlds(), seeds)
def test_collecting_and_rewarding_are_adjoint(world: TabularMDP, seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = random_groups(rng, world)
    visits, weights = rng.random(world.shape.hsa), rng.random(len(target))
    earned = (target.cell_rewards(weights) * visits).sum()
    assert np.isclose(earned, weights @ target.collected(visits))


@given(worlds(), seeds)
def test_a_target_over_cells_is_the_papers(world: TabularMDP, seed: int) -> None:
    counts = random_counts(np.random.default_rng(seed), world)
    target = Target.of_cells(counts)
    np.testing.assert_array_equal(target.cell_counts(), counts)
    np.testing.assert_array_equal(target.support, counts > 0)
    assert target.per_cell.all()


@given(worlds())
def test_uniform_asks_for_what_can_be_reached(world: TabularMDP) -> None:
    reachable = dp.reachable(world.transitions)
    per_cell = cg.uniform(3).resolve(world.transitions)
    assert len(per_cell) == reachable.sum() * world.shape.actions
    per_pair = cg.uniform(3, per="pair").resolve(world.transitions)
    assert len(per_pair) == reachable.any(axis=0).sum() * world.shape.actions
    per_state = cg.uniform(3, per="state").resolve(world.transitions)
    assert len(per_state) == reachable.any(axis=0).sum()


@given(small_worlds)
def test_proportional_is_count_times_the_best_occupancy(world: TabularMDP) -> None:
    best = np.zeros(world.shape.hsa)
    for policy in deterministic_policies(world):
        best = np.maximum(best, dp.occupancy(world.transitions, policy))
    counts = cg.proportional(500).resolve(world.transitions).cell_counts()
    np.testing.assert_allclose(counts, 500 * best, atol=1e-9)


@given(small_worlds, seeds)
def test_min_reach_drops_exactly_the_rows_that_no_policy_visits_as_often(
    world: TabularMDP, seed: int
) -> None:
    target = random_groups(np.random.default_rng(seed), world)
    left, rows = drop_rarely_reached(target, world.transitions, 0.3)
    dropped = dict(rows)
    for row in target.as_rows(np.arange(len(target))):
        best = max(
            chance_of_visiting(world, policy, row) for policy in deterministic_policies(world)
        )
        assert (row in dropped) == (best < 0.3)
        if row in dropped:
            assert dropped[row] == pytest.approx(best)
    assert len(left) + len(dropped) == len(target)


def chance_of_visiting(
    world: TabularMDP, policy: cg.Policy, row: tuple[int | None, int, int | None]
) -> float:
    """P(an episode of the policy visits a cell of the row), mass leaving when it does."""
    stage, state, action = row
    dense = dense_kernel(world)
    met, mass = 0.0, np.append(world.initial, 0.0)
    for h in range(world.shape.horizon):
        following = np.zeros_like(mass)
        for s in range(world.shape.states):
            a = policy.table[h, s]
            if stage in (None, h) and s == state and action in (None, a):
                met += mass[s]
            else:
                following += mass[s] * dense[h, s, a]
        mass = following
    return float(met)


def test_a_row_stands_once() -> None:
    rows = np.array([[0, 1, 0], [0, 1, 0]])
    with pytest.raises(ValueError, match="twice"):
        Target.of_rows(Shape(2, 2, 2), rows, np.ones(2))


@pytest.mark.parametrize(
    "rows",
    [[(0.5, 0, 0, 1.0)], [(0, 0, 0)], [(0, None, 0, 1.0)], [("0", 0, 0, 1.0)], [3], 7, None,
     [(0, 0, 0, "many")], np.array([["a"]])],
)  # fmt: skip
def test_rows_of_the_wrong_kind_are_refused(rows: Any) -> None:
    with pytest.raises(cg.BadInput):
        cg.cells(rows)


def test_rows_that_ask_for_nothing_ask_for_nothing() -> None:
    target = cg.cells([(0, 0, 0, 0.0), (None, 2, None, 1.5)]).resolve(RIVER.transitions)
    assert target.rows.tolist() == [[ANY, 2, ANY]]
    assert target.as_rows([0]) == [(None, 2, None)]


def test_texts_and_functions_mean_the_same() -> None:
    assert parse_request("uniform:50") == cg.uniform(50)
    assert parse_request("uniform:2.5/pair") == cg.uniform(2.5, per="pair")
    assert parse_request("uniform:50/state") == cg.uniform(50, per="state")
    assert parse_request("proportional:1e3") == cg.proportional(1000)


@pytest.mark.parametrize(
    "text",
    [
        "uniform",
        "uniform:",
        "uniform:abc",
        "uniform:-1",
        "uniform:nan",
        "uniform:inf",
        "uniform:5/stage",
        "uniform:5/",
        "proportional:",
        "proportional:-2",
        "proportional:5/pair",
        "everything",
        "missing.json",
        "",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(cg.BadInput):
        parse_request(text)


def test_a_target_array_must_fit_the_world() -> None:
    with pytest.raises(cg.BadInput, match="shape"):
        cg.cells(np.ones((1, 1, 1))).resolve(RIVER.transitions)
    with pytest.raises(cg.BadInput, match="negative"):
        cg.cells(-np.ones(RIVER.shape.hsa)).resolve(RIVER.transitions)


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content) if not isinstance(content, str) else content)
    return path


def target_file(*cells: object, **others: object) -> dict[str, object]:
    return {"format": "covgame-target/1", "cells": list(cells), **others}


def test_a_target_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", target_file([0, 0, 1, 5], [None, 2, None, 0.5], [1, 1, 0, 0]))
    target = parse_request(str(path)).resolve(RIVER.transitions)
    assert target.rows.tolist() == [[0, 0, 1], [ANY, 2, ANY]]
    assert target.counts.tolist() == [5, 0.5]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", "not valid JSON"),
        ("[1, 2", "not valid JSON"),
        ("[]", "JSON object"),
        ('{"format": "covgame-target/1", "cells": [[0, 0, 0, NaN]]}', "NaN"),
        ('{"format": "covgame-target/1", "format": "x", "cells": []}', "'format' appears twice"),
        ({"cells": []}, "format"),
        ({"format": "covgame-target/2", "cells": []}, "format"),
        (target_file(other=1), "other"),
        (target_file([0, 0, 0]), "cells[0]"),
        (target_file([0, 0, 0, 1], [0, 0, 0, -1]), "cells[1][3]"),
        (target_file([0, 0, 0, True]), "cells[0][3]"),
        (target_file([0, 0, 0, "3"]), "cells[0][3]"),
        (target_file([0, None, 0, 1]), "cells[0][1]"),
        (target_file([0, 0.5, 0, 1]), "cells[0][1]"),
        (target_file([0, -1, 0, 1]), "cells[0][1]"),
        (target_file([4, 0, 0, 1]), "cells[0]: stage 4"),
        (target_file([0, 3, 0, 1]), "cells[0]: state 3"),
        (target_file([0, 0, 2, 1]), "cells[0]: action 2"),
        (target_file([0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 2]), "cells[2]"),
        (target_file([None, 0, 0, 1], [None, 0, 0, 1]), "cells[1]"),
        ('{"format": "covgame-target/1", "cells": [[0, 0, 0, 1e999]]}', "cells[0][3]"),
    ],
)
def test_a_malformed_target_file_names_the_place(
    tmp_path: Path, content: object, place: str
) -> None:
    path = write(tmp_path / "t.json", content)
    with pytest.raises(cg.BadInput) as caught:
        parse_request(str(path)).resolve(RIVER.transitions)
    assert place in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shape_counts() -> None:
    assert (Shape(2, 3, 4).pairs, Shape(2, 3, 4).cells) == (12, 24)


class Ring(gym.Env):
    """Four numbered states without a table: one action steps ahead, the other stays."""

    observation_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = 0
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.state = (self.state + int(action)) % 4
        return self.state, 0.0, False, False, {}


def test_arrays_and_targets_need_numbered_states_but_no_table(tmp_path: Path) -> None:
    counts = np.zeros((3, 4, 2))
    counts[2, 2, 0] = counts[1, 0, 1] = 2.0
    for number, target in enumerate((cg.cells(counts), Target.of_cells(counts))):
        path = tmp_path / str(number)
        run = cg.cover(Ring, target, horizon=3, out=path)
        assert run.covered
        assert run.target.rows.tolist() == [[1, 0, 1], [2, 2, 0]]
        assert cg.certify(path).numbers == {"rows": 2, "visits": 4.0}
    with pytest.raises(cg.BadInput, match="has shape"):
        cg.cover(Ring, cg.cells(np.ones((2, 4, 2))), horizon=3)
    with pytest.raises(cg.BadInput, match="the target is for"):
        cg.cover(Ring, Target.of_cells(np.ones((2, 4, 2))), horizon=3)
    with pytest.raises(cg.UnknownModel):
        cg.cover(Ring, "proportional:3", horizon=3)
