"""State maps: what counts as a state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import covgame as cg
from covgame.errors import BadInput, EnvironmentFailed
from covgame.sources.maps import Bins, image_hash, rounded, state_map
from tests.rundb import config_of
from tests.test_cli import covgame

BOX = spaces.Box(np.array([-1.2, -0.07]), np.array([0.6, 0.07]), dtype=np.float64)


@pytest.mark.parametrize(
    ("text", "observation", "expected"),
    [
        ("bins:12x8", (-1.2, -0.07), (0, 0)),
        ("bins:12x8", (0.6, 0.07), (11, 7)),
        ("bins:12x8", (-0.3, 0.0), (6, 4)),
        ("bins:12x8", (9.0, -9.0), (11, 0)),  # outside belongs to the ends
        ("bins:2", (-0.31, 0.01), (0, 1)),  # one number for all
        ("bins:4[0,4]x2[-1,1]", (2.5, 0.5), (2, 1)),
        ("bins:4x2[-1,1]", (0.6, -0.5), (3, 0)),
    ],
)
def test_bins_by_hand(text: str, observation: Any, expected: tuple[int, ...]) -> None:
    mapped = state_map(text, BOX)
    assert mapped(np.array(observation), None) == expected
    assert state_map(str(Bins.parse(text)), BOX)(np.array(observation), None) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("bins:", "write bins:12x8"),
        ("bins:0", "from 1 to"),
        ("bins:" + "1" * 400, "from 1 to"),
        ("bins:3x3x3", "3 numbers, and an observation has 2"),
        ("bins:3[1,0]x3", "goes from LO to HI"),
        ("bins:3[a,b]x3", "two numbers"),
        ("bins:3[1", "write bins:12x8"),
        ("round:", "write bins:12x8"),
        ("round:x", "write bins:12x8"),
        ("round:²", "write bins:12x8"),
        ("round:" + "1" * 5000, "write bins:12x8"),
        ("image:", "write bins:12x8"),
        ("py:numpy:nothing", "has no 'nothing'"),
        ("py:math:pi", "no function"),
        ("bims:3", "write bins:12x8"),
    ],
)
def test_what_is_no_map(text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        state_map(text, BOX)


def test_bins_need_a_range() -> None:
    space = spaces.Box(-np.inf, np.inf, (2,))
    with pytest.raises(BadInput, match="number 2 of its observations has no finite range"):
        state_map("bins:3[0,1]x3", space)
    assert str(cg.bins(3, 4, ranges=[(0, 1), (-1, 1)])) == "bins:3[0.0,1.0]x4[-1.0,1.0]"
    with pytest.raises(BadInput, match="2 numbers of bins and 1 ranges"):
        cg.bins(3, 4, ranges=[(0, 1)])


def test_rounding_and_hashing() -> None:
    assert rounded({"a": np.array([1.26, -0.04]), "b": ("x", 2.71)}, 1) == {
        "a": [1.3, 0.0],
        "b": ("x", 2.7),
    }
    picture = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
    assert image_hash({"image": picture, "n": 1}) == image_hash({"n": 1, "image": picture.copy()})
    assert image_hash(picture) != image_hash(picture + 1)
    assert image_hash(picture) != image_hash(picture.reshape(3, 10, 10))


class Robot:
    """Shows a dictionary; what it carries is known to itself alone."""

    actions, horizon = 2, 5
    carries = False

    def reset(self) -> dict[str, Any]:
        self.at, self.carries = 0, False
        return self.shown()

    def shown(self) -> dict[str, Any]:
        return {"at": self.at, "noise": np.random.default_rng().random()}

    def step(self, action: int) -> Any:
        self.at = min(2, self.at + action)
        self.carries |= self.at == 2 and not action
        return self.shown(), 0.0, False


def test_parts_of_what_is_shown_and_of_the_environment() -> None:
    assert cg.cover(Robot, "uniform:2/pair", states="keys:at").n_states == 3
    run = cg.cover(Robot, "uniform:2/pair", states="keys:at,carries")
    assert run.n_states == 4
    assert set(run.names.states or ()) == {"(0, False)", "(1, False)", "(2, False)", "(2, True)"}
    with_world = cg.cover(
        Robot, "uniform:2/pair", states=lambda seen, robot: (seen["at"], robot.carries)
    )
    np.testing.assert_array_equal(run.counts.visits, with_world.counts.visits)
    with pytest.raises(EnvironmentFailed, match="nor the environment have 'colour'"):
        cg.cover(Robot, "uniform:2/pair", states="keys:at,colour")


def test_a_map_that_raises_names_the_observation() -> None:
    with pytest.raises(EnvironmentFailed, match="raised KeyError: 'where' on the obs"):
        cg.cover(Robot, "uniform:2/pair", states=lambda seen: seen["where"])


def test_maps_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("cover", "gym:MountainCar-v0", "--target", "uniform:1/pair", "--max-episodes", "4")
    done = covgame(*asked, "--states", "bins:3x3", "--out", "run", cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    again = covgame("resume", "run", "--max-episodes", "6", cwd=tmp_path)
    assert again.returncode in (0, 3), again.stderr
    assert config_of(tmp_path / "run")["states"] == "bins:3x3"
    bad = covgame(*asked, cwd=tmp_path)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "--states bins:10x10" in bad.stderr
    (tmp_path / "mine.py").write_text("def broken(seen):\n    return seen.nothing\n")
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    failed = covgame(*asked, "--states", "py:mine:broken", cwd=tmp_path)
    assert failed.returncode == 4
    assert "AttributeError" in failed.stderr


class Maze:
    """Two rooms with one name; one of them has a door."""

    actions, horizon = ("left", "right", "door"), 4

    def reset(self) -> Any:
        self.at = 0
        return self.shown()

    def shown(self) -> Any:
        return "room", {"action_mask": [self.at > 0, self.at < 1, self.at == 1]}

    def step(self, action: str) -> Any:
        self.at += {"left": -1, "right": 1, "door": 0}[action]
        observation, info = self.shown()
        return observation, 0.0, False, False, info


def test_what_is_allowed_at_some_visit_is_asked_for() -> None:
    """The last mask used to overwrite the others, so that some actions were never asked for."""
    run = cg.cover(Maze, "uniform:3/pair")
    assert run.counts.visits[:, 0].sum(axis=0).min() >= 3
    again = cg.cover(Maze, "uniform:30/pair", max_episodes=500)
    assert again.covered


def test_certificates_on_discovered_states(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="most_states=N"):
        cg.identify(Robot, epsilon=3, states="keys:at")
    asked: dict[str, Any] = {"env": cg.make(Robot, states="keys:at"), "epsilon": 2.5}
    run = cg.identify(**asked, most_states=4, reward_range=(0, 1), out=tmp_path / "run")
    assert run.certified_gap is not None
    assert run.certified_gap <= 2.5
    environment = cg.make(Robot, states="keys:at")
    checked = cg.certify(tmp_path / "run")
    assert "the number of states is at most 4" in checked.assumptions
    assert cg.load(tmp_path / "run", env=environment).n_episodes == run.n_episodes
    with pytest.raises(EnvironmentFailed, match="more states than the 2"):
        cg.identify(**asked, most_states=2, reward_range=(0, 1))
    with pytest.raises(BadInput, match="most_states should"):
        cg.identify(**asked, most_states=0)
