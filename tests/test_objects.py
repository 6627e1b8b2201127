"""Environments as one has them: objects, classes, functions, names with arguments."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import covgame as cg
from covgame.errors import BadInput
from tests.runs import Corridor, coverage_at
from tests.test_cli import covgame


class Turnstile:
    """Actions by their names, states by theirs."""

    actions = ("insert coin", "push")
    horizon = 6

    def __init__(self, start: str = "LOCKED") -> None:
        self.start = start

    def reset(self) -> str:
        self.state = self.start
        return self.state

    def step(self, action: str) -> tuple[str, float, bool]:
        self.state = "OPEN" if action == "insert coin" else "LOCKED"
        return self.state, 0.0, False


class Shown(gymnasium.Env[Any, Any]):
    """Whatever space: always the same two observations, in turn."""

    def __init__(self, space: Any, actions: Any = None) -> None:
        self.observation_space = space
        self.action_space = actions or spaces.Discrete(2)
        space.seed(3)
        self.shown = [space.sample(), space.sample()]
        self.taken: list[Any] = []

    def reset(self, **_: Any) -> Any:
        self.at = 0
        return self.shown[0], {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.taken.append(action)
        self.at += 1
        return self.shown[self.at % 2], 0.0, False, False, {}


def factory() -> Turnstile:
    return Turnstile("OPEN")


@pytest.mark.parametrize("env", [Turnstile, Turnstile(), lambda: Turnstile("OPEN"), factory])
def test_objects_classes_and_functions(env: Any) -> None:
    run = cg.cover(env, "uniform:3/pair")
    assert run.covered
    assert set(run.names.states or ()) == {"LOCKED", "OPEN"}
    assert run.names.describe((None, 0, 1)).endswith("/ push")


def test_a_gymnasium_environment_in_hand_is_what_it_is_by_name() -> None:
    by_name = cg.cover("gym:FrozenLake-v1", "uniform:2/pair", horizon=20)
    in_hand = cg.cover(gymnasium.make("FrozenLake-v1"), "uniform:2/pair", horizon=20)
    assert in_hand.environment.known
    np.testing.assert_array_equal(by_name.counts.visits, in_hand.counts.visits)
    plan = cg.plan(gymnasium.make("FrozenLake-v1"), "uniform:2/pair", horizon=20)
    assert plan.min_episodes == by_name.min_episodes
    run = cg.explore(gymnasium.make("FrozenLake-v1"), epsilon=3, horizon=3)
    assert run.certified_error is not None
    assert cg.make(gymnasium.make("FrozenLake-v1"), horizon=4).horizon == 4


def test_a_wrapper_that_changes_what_it_does_hides_the_table() -> None:
    class Backwards(gymnasium.ActionWrapper):
        def action(self, action: Any) -> Any:
            return (action + 2) % 4

    assert cg.make(gymnasium.make("FrozenLake-v1")).known
    assert not cg.make(Backwards(gymnasium.make("FrozenLake-v1"))).known


def test_what_was_handed_over_goes_on_where_it_is_handed_over_again(tmp_path: Path) -> None:
    whole = cg.cover(Turnstile(), "uniform:30", out=tmp_path / "whole")
    cg.cover(Turnstile(), "uniform:30", out=tmp_path / "run", max_episodes=9)
    with pytest.raises(BadInput, match="env="):
        cg.resume(tmp_path / "run")
    done = covgame("resume", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "covgame.resume(path, env=...)" in done.stderr
    with pytest.raises(BadInput, match="episodes of 6 steps"):
        cg.resume(tmp_path / "run", env=cg.make(Turnstile(), horizon=5))
    again = cg.resume(tmp_path / "run", env=Turnstile(), max_episodes=10**6)
    np.testing.assert_array_equal(again.counts.visits, whole.counts.visits)


def test_a_class_that_can_be_imported_is_found_by_any_process(tmp_path: Path) -> None:
    cg.cover(Corridor, "uniform:30/pair", out=tmp_path, max_episodes=5)
    assert coverage_at(tmp_path).environment.name == "py:tests.runs:Corridor"
    assert cg.resume(tmp_path, max_episodes=10**6, trust=True).covered


def test_functions_as_state_maps_are_handed_over_again(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"env": Corridor, "target": "uniform:30/pair"}
    cg.cover(**asked, states=lambda seen: seen[1] // 2, out=tmp_path, max_episodes=5)
    with pytest.raises(BadInput, match="hand it over"):
        cg.resume(tmp_path, env=Corridor)
    again = cg.make(Corridor, states=lambda seen: seen[1] // 2)
    assert cg.resume(tmp_path, env=again, max_episodes=10**6).covered


def test_arguments_go_to_the_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "class Ring:\n"
        "    actions, horizon = 1, 4\n"
        "    def __init__(self, n=3, name='x'): self.n, self.name = n, name\n"
        "    def reset(self): self.at = 0; return self.name, 0\n"
        "    def step(self, _):\n"
        "        self.at = (self.at + 1) % self.n\n"
        "        return (self.name, self.at), 0.0, False\n"
        "thing = Ring(2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert cg.cover("py:mine:Ring?n=2&name=y", "uniform:1").n_states == 2
    assert cg.cover("py:mine:Ring?n=5", "uniform:1").n_states == 5
    assert cg.cover("py:mine:thing", "uniform:1").n_states == 2
    with pytest.raises(BadInput, match="calling it raised TypeError"):
        cg.make("py:mine:Ring?m=2")
    with pytest.raises(BadInput, match="name=value"):
        cg.make("py:mine:Ring?m")


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (5, "not int"),
        (object(), "not object"),
        ("FrozenLake-v1", "gym:FrozenLake-v1"),
        ("FrozenLake-v1?map_name=8x8", "gym:FrozenLake-v1"),
        (lambda: 3, "no reset"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (type("Still", (), {"reset": lambda s: 0, "step": lambda s, a: 0}), "needs actions"),
    ],
)
def test_what_is_no_environment(env: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        cg.make(env, horizon=3)


class Colour(Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("actions", "labels"),
    [(3, None), (["a", "b"], ("a", "b")), (Colour, ("RED", "BLUE")), ([4, 7], ("4", "7"))],
)
def test_actions_are_a_number_or_a_list(actions: Any, labels: Any) -> None:
    class World(Turnstile):
        def step(self, action: Any) -> Any:
            assert action in (range(3) if labels is None else list(actions))
            return "x", 0.0, False

    World.actions = actions
    run = cg.cover(World, "uniform:1")
    assert run.names.actions == labels


@pytest.mark.parametrize("actions", [0, True, "left", None, ["a", "a"], [], 2.5, 20_000])
def test_other_actions_are_refused(actions: Any) -> None:
    class World(Turnstile):
        pass

    World.actions = actions
    with pytest.raises(BadInput, match="actions"):
        cg.make(World)


def test_a_seed_goes_to_whatever_reset_asks_for() -> None:
    class World(Turnstile):
        seen: ClassVar[list[Any]] = []

        def reset(self, which: int) -> str:  # type: ignore[override]
            self.seen.append(which)
            return super().reset()

    class Keywords(World):
        def reset(self, **options: Any) -> str:  # type: ignore[override]
            return super().reset(options["seed"])

    for kind in (World, Keywords):
        kind.seen = []
        cg.cover(kind, "uniform:2")
        assert len(set(kind.seen)) == len(kind.seen) > 1


FINITE = {
    "Discrete": spaces.Discrete(5, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([3, 4]),
    "MultiBinary": spaces.MultiBinary(3),
    "Tuple": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
    "Dict": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 9, (2,), dtype=np.int8)}),
    "integer Box": spaces.Box(0, 3, (2, 2), dtype=np.int64),
    "Text": spaces.Text(4),
}


@pytest.mark.parametrize("kind", FINITE)
def test_finite_spaces_are_states_as_they_are(kind: str) -> None:
    run = cg.cover(Shown(FINITE[kind]), "uniform:2/pair", horizon=5)
    assert run.covered
    assert run.counts.visits.any(axis=(0, 2)).sum() == 2


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        (spaces.Box(-1, 1, (2,)), 'states="bins:10x10"'),
        (spaces.Box(-1, 1, (9,)), 'states="bins:4"'),
        (spaces.Box(0, 255, (20, 20, 3), dtype=np.uint8), "image:hash"),
        (spaces.Dict({"eye": spaces.Box(-1, 1, (1,))}), "'eye' of its observations"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (1,)))), "part 1 of"),
        (spaces.Sequence(spaces.Discrete(2)), "py:module:function"),
    ],
)
def test_others_say_what_to_do(space: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        cg.make(Shown(space), horizon=5)


@pytest.mark.parametrize(
    ("space", "grid", "number", "label"),
    [
        (spaces.Discrete(3, start=5), None, 3, None),
        (spaces.MultiDiscrete([2, 3], start=[1, 1]), None, 6, "1, 1"),
        (spaces.MultiBinary(3), None, 8, "0, 0, 0"),
        (spaces.Box(-2, 2, (1,)), "grid:5", 5, "-2"),
        (spaces.Box(np.array([0, -1]), np.array([1, 1]), dtype=np.float64), "grid:3", 9, "0, -1"),
    ],
)
def test_actions_of_all_kinds(space: Any, grid: str | None, number: int, label: Any) -> None:
    world = Shown(spaces.Discrete(5), space)
    run = cg.cover(world, "uniform:1", horizon=2, actions=grid)
    assert run.target.shape.actions == number
    assert len(world.taken) >= number
    assert (run.names.action(0) == label) == (label is not None)


@pytest.mark.parametrize(
    ("space", "grid", "sentence"),
    [
        (spaces.Box(-1, 1, (2,)), None, 'actions="grid:5"'),
        (spaces.Box(-1, 1, (2,)), "grid:1", "at least 2"),
        (spaces.Box(-1, 1, (2,)), "mesh:3", "write grid:N"),
        (spaces.Box(-np.inf, 1, (1,)), "grid:3", "no finite range"),
        (spaces.Box(-1, 1, (9,)), "grid:9", "combinations"),
        (spaces.MultiBinary(20), None, "combinations"),
        (spaces.Text(3), None, "covgame plays Discrete"),
    ],
)
def test_actions_that_cannot_be_tried(space: Any, grid: str | None, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        cg.make(Shown(spaces.Discrete(5), space), horizon=2, actions=grid)


def test_models_have_their_states_already() -> None:
    for env in ("riverswim", cg.make("riverswim").require_model("a test")):
        with pytest.raises(BadInput, match="already"):
            cg.make(env, states="round:1")


class Spaced:
    """Says what it shows and takes as Gymnasium does, and is none of its environments."""

    observation_space, action_space = spaces.Discrete(3), spaces.Discrete(2)
    horizon = 4

    def reset(self) -> int:
        self.at = 0
        return self.at

    def step(self, action: int) -> tuple[int, float, bool]:
        self.at = min(2, self.at + action)
        return self.at, 0.0, False


@pytest.mark.parametrize("workers", [1, 2])
def test_an_object_may_have_spaces_and_be_no_gymnasium_environment(workers: int) -> None:
    run = cg.cover(Spaced, "uniform:2/pair", workers=workers)
    assert run.covered
    assert run.counts.visits.shape == (4, 3, 2)
