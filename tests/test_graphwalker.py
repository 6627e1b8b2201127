"""Models of GraphWalker's: what is read, walked and refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from covgame.errors import BadInput, PremiseBroken
from covgame.sources.expressions import expression, statements
from covgame.sources.graphwalker import GraphWorld, load_graph
from covgame.testing import NotCovered, check_transitions, cover_transitions


def edge(name: str, source: str | None, target: str, **further: Any) -> dict[str, Any]:
    return {"id": name, "name": name, "sourceVertexId": source, "targetVertexId": target, **further}


LOGIN: dict[str, Any] = {
    "name": "login",
    "generator": "random(edge_coverage(100))",
    "startElementId": "e_start",
    "actions": ["tries = 0;", "inside = false;"],
    "vertices": [{"id": name, "name": name} for name in ("v_Prompt", "v_Home", "v_Locked")],
    "edges": [
        {"id": "e_start", "name": "e_start", "targetVertexId": "v_Prompt"},
        edge("e_Valid", "v_Prompt", "v_Home", actions=["tries = 0; inside = true;"]),
        edge("e_Wrong", "v_Prompt", "v_Prompt", guard="tries < 3", actions=["tries++;"]),
        edge("e_Lock", "v_Prompt", "v_Locked", guard="tries == 3 && !inside"),
        edge("e_Out", "v_Home", "v_Prompt", actions=["inside = false;"], weight=0.2),
        edge("e_Unlock", "v_Locked", "v_Prompt", actions=["tries = 0"]),
    ],
}


def written(folder: Path, *models: dict[str, Any]) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps({"name": "models", "models": models}))
    return path


def with_edges(*more: dict[str, Any]) -> dict[str, Any]:
    return {**LOGIN, "edges": [*LOGIN["edges"], *more]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3 - -1", 10),
        ("7 % 4 / 2", 1.5),
        ("x > 1 && x <= 2", True),
        ("x == 3 || name == 'bob'", True),
        ("!(x === 2) ", False),
        ("x != 2 || false", False),
        ('name + "-" + x', "bob-2.0"),
        ("1 < 2 == true;", True),
        ("true == 1", False),
        ("1 / 0", math.inf),
        ("none == null", True),
        ("2 - 1 - 1", 0),
    ],
)
def test_guards_mean_what_they_say(text: str, value: Any) -> None:
    assert expression(text)({"x": 2.0, "name": "bob", "none": None}) == value


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("x = 5;", {"x": 5.0}),
        ("x++; x += 2; y = x * 2", {"x": 5.0, "y": 10.0}),
        ("var y = 1; x--", {"x": 1.0, "y": 1.0}),
        ("x -= 1; x *= 3; x /= 2;", {"x": 1.5}),
        (" ; ", {"x": 2.0}),
    ],
)
def test_actions_change_what_they_say(text: str, after: dict[str, Any]) -> None:
    data = {"x": 2.0}
    for name, value in statements(text):
        data[name] = value(data)
    assert data == after


@pytest.mark.parametrize(
    "text", ["Math.random()", "f(1)", "x ? 1 : 2", "x +", "(x", "x y", "a[0]", "{}", "'open", "1 2"]
)
def test_what_is_not_simple_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(BadInput, match="it knows numbers, texts, variables, arithmetic"):
        expression(text)


@pytest.mark.parametrize("text", ["go()", "1 = 2", "x == 1", "true = 1", "x = 1 y = 2", "x"])
def test_actions_that_are_no_assignments_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="no guard or action that covgame reads"):
        statements(text)


def test_a_model_is_walked_by_name(tmp_path: Path) -> None:
    """Prompt with 0 to 3 wrong tries, home, locked: six states, and every edge where it may be."""
    name, out = f"gw:{written(tmp_path, LOGIN)}", tmp_path / "run"
    begun = cg.cover(name, "uniform:2/pair", horizon=20, max_episodes=1, out=out)
    assert not begun.covered
    with pytest.raises(BadInput, match=r"reads gw:.*if you trust that file"):
        cg.resume(out, max_episodes=100)
    run = cg.resume(out, max_episodes=100, trust=True)
    assert isinstance(run, cg.Coverage)
    assert run.covered
    assert run.n_states == 6
    assert len(run.target) == 4 + 3 + 1 + 1 + 1


def test_every_edge_so_often_and_those_that_cannot_be_taken_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, with_edges(edge("e_Never", "v_Home", "v_Locked", guard="tries > 5")))

    @cover_transitions(visits=3, budget=200)
    class Login:
        covgame_model = path

    with pytest.raises(NotCovered, match=r"(?s)5 of 6 edges 3 times.*never allowed: e_Never"):
        check_transitions(Login)


def test_data_without_end_do_not_keep_a_run_from_its_end(tmp_path: Path) -> None:
    counting = edge("e_Count", "v_Home", "v_Home", actions=["count++"])
    model = {**with_edges(counting), "actions": [*LOGIN["actions"], "count = 0"]}
    path = written(tmp_path, model)

    @cover_transitions(visits=2, budget=200)
    class Login:
        covgame_model = path

    outcome = check_transitions(Login)
    assert outcome.covered
    assert outcome.line().startswith("Login: all 6 edges 2 times")


def test_methods_with_the_names_of_elements_are_called(tmp_path: Path) -> None:
    path = written(tmp_path, LOGIN)

    @cover_transitions(visits=2, budget=100)
    class Login:
        covgame_model = path

        def __init__(self) -> None:
            self.wrong = 0

        def e_Wrong(self) -> None:  # noqa: N802
            self.wrong += 1

        def v_Locked(self) -> None:  # noqa: N802
            assert self.wrong < 3, "locked too late"

    with pytest.raises(AssertionError, match="locked too late") as caught:
        check_transitions(Login)
    assert caught.value.__notes__[0].splitlines()[1:] == [
        "state = Login()", *(3 * ["state.e_Wrong()"]), "state.e_Lock()"
    ]  # fmt: skip


def test_models_are_joined_by_shared_states(tmp_path: Path) -> None:
    first = {
        "name": "A", "startElementId": "a1", "actions": ["x = 1"],
        "vertices": [{"id": "a1", "name": "one"}, {"id": "a2", "name": "two", "sharedState": "S"}],
        "edges": [edge("to_two", "a1", "a2"), edge("back", "a2", "a1")],
    }  # fmt: skip
    second = {
        "name": "B",
        "vertices": [
            {"id": "b1", "name": "deux", "sharedState": "S"}, {"id": "b2", "name": "trois"}
        ],
        "edges": [edge("over", "b1", "b2"), edge("home", "b2", "b1")],
    }  # fmt: skip
    world = GraphWorld(written(tmp_path, first, second))
    assert world.reset()[0] == {"vertex": "one", "A.x": 1}
    world.step("to_two")
    shown, _, over, _, info = world.step("over")
    assert (shown["vertex"], over, info["action_mask"]) == ("trois", False, [0, 0, 0, 1])
    assert world.step("home")[4]["action_mask"] == [0, 1, 1, 0]


def test_blocked_elements_are_left_out_and_equal_names_told_apart(tmp_path: Path) -> None:
    again = {**edge("x1", "v_Home", "v_Prompt"), "name": "e_Out"}
    blocked = edge("e_Blocked", "v_Home", "v_Locked", blocked=True)
    graph = load_graph(written(tmp_path, with_edges(again, blocked)))
    labels = [one.label for one in graph.edges]
    assert {"e_Out (e_Out)", "e_Out (x1)"} <= set(labels)
    assert "e_Blocked" not in labels


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (with_edges(edge("x", "v_Home", "v_Nowhere")), "x is about a vertex 'v_Nowhere'"),
        ({**LOGIN, "edges": LOGIN["edges"][:1]}, "no edge leads from a vertex to another"),
        (
            {**LOGIN, "startElementId": None, "edges": LOGIN["edges"][1:]},
            "no model says where to begin",
        ),
        (with_edges(edge("x", "v_Home", "v_Locked", guard="go()")), "it calls go"),
        ({**LOGIN, "edges": [{"id": "x"}]}, "is no model of GraphWalker's: KeyError"),
    ],
)
def test_models_that_make_no_sense_are_answered_with_a_sentence(
    model: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=sentence):
        load_graph(written(tmp_path, model))


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(BadInput, match="has no list of models"):
        cg.make(f"gw:{tmp_path / 'x.json'}")
    with pytest.raises(BadInput, match="there is no file"):
        cg.make("gw:nowhere.json")


def test_a_variable_without_a_value_is_named(tmp_path: Path) -> None:
    model = with_edges(edge("x", "v_Home", "v_Locked", guard="coins > 1"))
    world = GraphWorld(written(tmp_path, model))
    world.reset()
    with pytest.raises(PremiseBroken, match="is about coins, which has no value yet"):
        world.step("e_Valid")
