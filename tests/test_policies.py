"""Policies on what was learnt: for the environment's own reward, in the user's words."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import covgame as cg
from covgame.cli.main import main
from covgame.cli.policy import policy_lines
from covgame.names import Names
from tests.rundb import drop_result, query, result_of, set_document, set_result


def answered(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def printed(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


class Toll:
    """Every step costs; the bridge costs much, walking round little. Nothing is ever earned."""

    actions = ("bridge", "walk", "wait")
    horizon = 5

    def reset(self, seed: int) -> str:
        self.at = "HERE"
        return self.at

    def step(self, action: str) -> tuple[str, float, bool]:
        cost = {"bridge": -20.0, "walk": -2.0, "wait": -1.0}[action]
        self.at = self.at if action == "wait" else "THERE"
        return self.at, cost, self.at == "THERE"


# ----------------------------------------------------------------------------- the model


def test_own_rewards_may_lie_anywhere() -> None:
    model = cg.cover(Toll, "uniform:20/pair").model
    assert model.shape.hsa == (5, 2, 3)  # in one of its states the episode ends
    policy = model.plan()
    assert policy.table[:3, 0].tolist() == [1, 1, 1]  # before the end, waiting is no dearer
    assert policy.table[4, 0] == 2
    assert model.value(policy) == pytest.approx(-2.0)
    assert model.value(cg.Policy.deterministic(np.zeros((5, 2), int), 3)) == pytest.approx(-20.0)
    with pytest.raises(cg.BadInput, match="between 0 and 1"):
        model.plan(model.own_rewards)


def test_what_was_never_tried_is_not_taken_for_free() -> None:
    """It earns 0 as far as anybody knows, which is more than any reward below 0."""
    for stage_dependent in (False, True):
        run = cg.cover(Toll, cg.uniform(3), max_episodes=1, stage_dependent=stage_dependent, seed=1)
        model = run.model
        policy = model.plan()
        for stage, state in np.argwhere(model.visits.sum(axis=2) > 0).tolist():
            chosen = policy.table[stage, state]
            assert model.visits[:, state, chosen].sum() > 0


def test_a_cell_earns_what_its_pair_has_earned_elsewhere() -> None:
    pooled = cg.cover("chain:states=3,horizon=6", "uniform:3/pair").model
    seen = pooled.visits.sum(axis=0)
    mean = (pooled.rewards * pooled.visits).sum(axis=0) / seen
    never = pooled.visits == 0
    assert never.any()
    np.testing.assert_allclose(pooled.own_rewards[never], np.broadcast_to(mean, never.shape)[never])
    np.testing.assert_array_equal(pooled.own_rewards[~never], pooled.rewards[~never])
    apart = cg.cover("chain:states=3,horizon=6", "uniform:3/pair", stage_dependent=True).model
    assert apart.own_rewards is apart.rewards


def test_forbidden_actions_are_never_planned() -> None:
    model = cg.cover("gym:Taxi-v4", "uniform:1/state", horizon=10, max_episodes=20).model
    assert model.allowed is not None
    policy = model.plan()
    chosen = np.take_along_axis(
        np.broadcast_to(model.allowed, (10, *model.allowed.shape)), policy.table[:, :, None], axis=2
    )
    assert chosen.all()


def test_a_model_without_room_is_the_same_model() -> None:
    for stage_dependent in (False, True):
        run = cg.cover(Rooms, "uniform:5", stage_dependent=stage_dependent)
        whole = cg.LearntModel.of(run.counts)
        assert whole.shape.states == 64
        model = run.model
        assert model.shape.states == run.n_states == 4
        reward = np.linspace(0, 1, 64)
        mine, theirs = model.plan(reward[:4]), whole.plan(reward)
        np.testing.assert_array_equal(mine.table, theirs.table[:, :4])
        assert model.value(mine, reward[:4]) == pytest.approx(whole.value(theirs, reward))
        assert model.first(9) is model


class Rooms:
    """Four rooms in a ring with a slippery floor."""

    actions = ("stay", "go")
    horizon = 5

    def reset(self, seed: int) -> str:
        self.random, self.at = random.Random(seed), 0
        return "room 0"

    def step(self, action: str) -> tuple[str, float, bool]:
        self.at = (self.at + (action == "go" and self.random.random() < 0.8)) % 4
        return f"room {self.at}", float(self.at == 3), False


# ------------------------------------------------------------------------------- in words

NAMED = Names(("HERE", "THERE"), ("walk", "wait"))


def test_one_action_or_one_after_the_other() -> None:
    table = np.array([[0, 1], [0, 0], [1, 1], [1, 1]])
    policy, seen = cg.Policy.deterministic(table, 2), np.ones((4, 2), dtype=np.bool_)
    assert policy_lines(policy, NAMED, seen) == [
        "  HERE   stages 0-1 walk, 2-3 wait",
        "  THERE  stages 0 wait, 1 walk, 2-3 wait",
    ]
    seen[1, 1] = False  # what is done there does not matter
    assert policy_lines(policy, NAMED, seen)[1] == "  THERE  wait"
    seen[:, 1] = False
    assert policy_lines(policy, NAMED, seen) == [
        "  HERE  stages 0-1 walk, 2-3 wait",
        "  (states that were never seen are left out: 1)",
    ]


def test_chances_are_said() -> None:
    table = np.zeros((1, 2, 2))
    table[0] = [[0.25, 0.75], [0.999, 0.001]]
    lines = policy_lines(cg.Policy.stochastic(table), NAMED, np.ones((1, 2), dtype=np.bool_))
    assert lines == ["  HERE   wait (75%) or walk (25%)", "  THERE  walk"]


def test_long_worlds_are_cut_with_a_sentence() -> None:
    table = np.arange(20)[:, None] % 2 + np.zeros((20, 50), dtype=np.int64)
    policy, seen = cg.Policy.deterministic(table, 2), np.ones((20, 50), dtype=np.bool_)
    lines = policy_lines(policy, Names(), seen)
    assert len(lines) == 41
    assert lines[0].endswith("5 action 1, ... (changes in all: 19)")
    assert lines[-1] == "  and 10 more states; --json has them all"


def test_json_names_small_policies_only() -> None:
    policy = cg.Policy.deterministic(np.array([[0, 1]]), 2)
    assert NAMED.named_policy(policy) == {
        "policy_named": [["walk", "wait"]],
        "state_names": ["HERE", "THERE"],
    }
    assert Names(actions=("a", "b")).named_policy(policy) == {"policy_named": [["a", "b"]]}
    assert Names().named_policy(policy) == {}
    large = cg.Policy.deterministic(np.zeros((501, 2), dtype=np.int64), 2)
    assert NAMED.named_policy(large) == {}


# ---------------------------------------------------------------------------- the command


def test_policy_plans_for_the_own_reward_when_none_is_given(tmp_path: Path) -> None:
    cg.cover("gym:CliffWalking-v1", "uniform:3/pair", horizon=15, out=tmp_path / "cliff")
    answer = answered("policy", str(tmp_path / "cliff"))
    assert answer["value"] == pytest.approx(-13.0)  # round the cliff, at 1 a step
    assert np.array(answer["policy"]).shape == (15, 48)
    assert answer["policy_named"][0][36] == "up"
    assert answer["state_names"][36] == "row 3, column 0"
    page = printed("policy", str(tmp_path / "cliff"))
    assert "for the environment's own reward" in page
    assert "value        -13 on the learnt model" in page
    assert "  row 3, column 0   up\n" in page


def test_names_of_ones_own_environment_are_kept_with_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    cg.cover(Rooms(), "uniform:50/pair", out=path)  # an object: nobody else can make it
    page = printed("policy", str(path))
    assert "  room 3  " in page
    assert "stay" in page
    answer = answered("policy", str(path))
    assert answer["state_names"] == ["room 0", "room 1", "room 2", "room 3"]
    assert np.array(answer["policy"]).shape == (5, 4)
    set_document(path, "names", [1])
    assert "is damaged" in printed("policy", str(path), code=2)
    query(path, "DELETE FROM documents WHERE name='names'")
    assert "  room 3  " in printed("policy", str(path))
    assert "action" in printed("policy", str(path))


def test_a_reward_file_is_planned_for_as_before(tmp_path: Path) -> None:
    path, reward = tmp_path / "run", tmp_path / "reward.json"
    cg.cover("riverswim:states=4,horizon=6", "uniform:20/pair", out=path)
    reward.write_text('{"format": "covgame-reward/1", "rewards": [[null, 0, 0, 1.0]]}')
    answer = answered("policy", str(path), "--reward", str(reward))
    assert answer["value"] == pytest.approx(6.0)
    assert [row[0] for row in answer["policy_named"]] == ["left"] * 6
    assert str(reward) in printed("policy", str(path), "--reward", str(reward))


def test_identify_says_where_its_policy_is_and_policy_prints_that_one(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run = cg.identify("riverswim:states=4,horizon=5", epsilon=1.0, out=path)
    assert f"covgame policy {path} prints it" in run.to_text()
    answer = result_of(path)
    assert answer["states"] == 4
    assert answer["policy_named"][0][0] in ("left", "right")
    again = answered("policy", str(path))
    assert again["policy"] == answer["policy"] == run.policy.to_list()
    assert again["value"] == pytest.approx(run.model.value(run.policy))
    assert "the one that identify has found" in printed("policy", str(path))
    content = {**answer, "policy": [[0]]}
    set_result(path, content)
    assert "it holds no valid policy" in printed("policy", str(path), code=2)
    set_result(path, [])
    assert "holds no valid answer" in printed("policy", str(path), code=2)
    drop_result(path)
    assert "own reward" in printed("policy", str(path))


def test_only_states_that_exist_have_a_policy(tmp_path: Path) -> None:
    """Where states are discovered there is room for more than there are."""
    path = tmp_path / "run"
    run = cg.identify(Rooms, epsilon=4.0, most_states=9, max_episodes=300, out=path)
    assert run.policy.table.shape == (5, 4)
    assert run.model.shape.states == run.to_dict()["states"] == 4
    assert "4 states" in run.to_text()
    assert answered("policy", str(path))["policy"] == run.policy.to_list()
    assert "room 3" in printed("policy", str(path))
    run.plot(tmp_path / "policy.svg")
    assert cg.certify(path).claim == "best-policy"


# ------------------------------------------------------------------------ rows in words


def test_json_has_rows_in_words_beside_numbers() -> None:
    run = cg.cover(Rooms, "uniform:50/pair", max_episodes=3)
    answer = run.to_dict()
    assert len(answer["uncovered_named"]) == len(answer["uncovered"])
    (stage, state, action, missing), *_ = answer["uncovered_named"]
    numbers = answer["uncovered"][0]
    assert stage is None
    assert state == f"room {numbers[1]}"
    assert action == Rooms.actions[numbers[2]]
    assert missing == numbers[3]
    assert answer["states"] == run.n_states <= 4
    plan = cg.plan("riverswim", "uniform:1", min_reach=0.1).to_dict()
    assert plan["dearest_named"][0][1].startswith("state ")
    assert plan["dearest_named"][0][2] in ("left", "right")
    assert plan["unreachable_named"][0][3] == plan["unreachable"][0][3]


def test_without_names_there_are_only_numbers() -> None:
    answer = cg.plan("garnet:states=3,actions=2,horizon=3", "uniform:1").to_dict()
    assert not [key for key in answer if key.endswith("_named")]
