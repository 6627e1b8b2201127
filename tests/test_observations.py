"""Observations that are kept: as they were shown, whole, and on disk for good."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow.parquet as pq
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import covgame as cg
from covgame.errors import BadInput, EnvironmentFailed
from covgame.sources.observations import keeper_of, space_from_json, space_to_json
from covgame.storage import observations as stored
from covgame.storage.observations import column_of, one_by_one, values_of
from tests.rooms import assert_same
from tests.rundb import config_of

SHAPES = st.lists(st.integers(1, 3), max_size=2).map(tuple)
DTYPES = st.sampled_from([np.uint8, np.int16, np.int64, np.float16, np.float32, np.float64])
SIMPLE = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 9), start=st.integers(-3, 3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=3)),
    st.builds(spaces.MultiBinary, st.integers(1, 4)),
    st.builds(lambda shape, dtype: spaces.Box(0, 100, shape, dtype), SHAPES, DTYPES),
    st.just(spaces.Box(np.array([-np.inf, 0.1]), np.array([1.0, np.inf]), dtype=np.float64)),
    st.builds(spaces.Text, st.integers(1, 5)),
)
SPACES = st.recursive(
    SIMPLE,
    lambda part: st.one_of(
        st.lists(part, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from(["a", "b.c", "D"]), part).map(spaces.Dict),
    ),
    max_leaves=4,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other)


@settings(max_examples=60, deadline=None)
@given(space=SPACES)
def test_every_space_comes_back_with_its_observations(space: Any) -> None:
    written = json.loads(json.dumps(space_to_json(space), allow_nan=False))
    assert space_from_json(written) == space
    space.seed(1)
    shown = [space.sample() for _ in range(3)]
    column = column_of([keeper_of(written)(one) for one in shown], written)
    back = one_by_one(values_of(column, written), 3)
    assert all(map(same, back, shown))


def kept(path: Path) -> Any:
    return list(cg.load(path).episodes())


def car(path: Path, **further: Any) -> Any:
    return cg.cover(
        "gym:MountainCar-v0", "uniform:9/pair", states="bins:6x4", out=path,
        **{"max_episodes": 12, "keep_observations": True, **further},
    )  # fmt: skip


def test_the_bins_of_what_was_kept_are_the_states_recorded(tmp_path: Path) -> None:
    run = car(tmp_path)
    states = run.source.states
    for episode in kept(tmp_path):
        assert episode.observations.shape == (len(episode) + 1, 2)
        assert episode.observations.dtype == np.float32
        shown = [states.index(one) for one in episode.observations]
        assert shown == [*episode.state, episode.next_state[-1]]
        assert len(np.unique(episode.observations, axis=0)) > 1


def test_a_resumed_run_keeps_on_keeping(tmp_path: Path) -> None:
    car(tmp_path / "whole")
    car(tmp_path / "parts", max_episodes=5)
    cg.resume(tmp_path / "parts", max_episodes=12)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_nothing_is_kept_unless_asked_for(tmp_path: Path) -> None:
    car(tmp_path / "off", keep_observations=False)
    car(tmp_path / "on")
    off, on = (pq.read_table(tmp_path / name / "episodes") for name in ("off", "on"))
    assert off.column_names == [*on.column_names[:-2]]
    assert off.equals(on.select(off.column_names))
    assert "observation_space" not in config_of(tmp_path / "off")
    assert kept(tmp_path / "off")[0].observations is None


def test_frozen_lake(tmp_path: Path) -> None:
    cg.cover(
        "gym:FrozenLake-v1", "uniform:2/state", horizon=6, out=tmp_path, keep_observations=True
    )
    for episode in kept(tmp_path):
        assert [*episode.observations] == [*episode.state, episode.next_state[-1]]


class Pictures(gymnasium.Env[Any, Any]):
    """A picture and a word; the picture is one array that is written over, again and again."""

    observation_space = spaces.Dict(
        {"picture": spaces.Box(0, 255, (8, 8), np.uint8), "word": spaces.Text(5)}
    )
    action_space = spaces.Discrete(2)
    broken_at = 99

    def __init__(self) -> None:
        self.buffer = np.zeros((8, 8), np.uint8)
        self.resets = 0

    def show(self) -> Any:
        self.buffer[:] = self.at
        picture = self.buffer if self.resets < self.broken_at else self.buffer[:3]
        return {"picture": picture, "word": f"at{self.at}"}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.at, self.resets = 0, self.resets + 1
        return self.show(), {}

    def step(self, action: int) -> Any:
        self.at = (self.at + 1 + action) % 4
        return self.show(), 0.0, False, False, {}


def test_pictures_in_a_dictionary_in_bounded_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are copied as they show, and few episodes go to a shard."""
    monkeypatch.setattr(stored, "BYTES_PER_SHARD", 3 * 6 * (64 + stored.BYTES_OF_TEXT))
    env = cg.make(Pictures, 5, states="keys:word")
    cg.cover(env, "uniform:6/pair", out=tmp_path, keep_observations=True)
    for number, shard in enumerate(sorted((tmp_path / "episodes").glob("*"))):
        episodes = pq.read_table(shard)["episode"].to_numpy()
        assert episodes[0] == 3 * number
        assert episodes[-1] <= 3 * number + 2
    for episode in cg.load(tmp_path, env=env).episodes():
        assert episode.observations is not None
        for shown in episode.observations:
            assert shown["picture"].shape == (8, 8)
            assert shown["word"] == f"at{shown['picture'][0, 0]}"


def test_an_observation_of_another_shape_ends_the_run(tmp_path: Path) -> None:
    world = Pictures()
    world.broken_at = 4
    env = cg.make(world, 5, states="keys:word")
    with pytest.raises(EnvironmentFailed, match=r"'picture' of an observation .* shape \(3, 8\)"):
        cg.cover(env, "uniform:60/pair", out=tmp_path, keep_observations=True)
    assert len(set(pq.read_table(tmp_path / "episodes")["episode"].to_pylist())) == 3
    assert EnvironmentFailed.exit_code == 4


class Plain:
    actions, horizon = ["go", "stay"], 3

    def reset(self) -> Any:
        self.at = 0
        return {"room": (0, None)}

    def step(self, action: str) -> Any:
        self.at += action == "go"
        over = self.at == 2
        return None if over else {"room": (self.at, None)}, 0.0, over


def test_plain_objects_are_kept_as_text(tmp_path: Path) -> None:
    run = cg.cover(Plain(), "uniform:2/pair", out=tmp_path, keep_observations=True)
    asked = config_of(tmp_path)
    assert asked["action_values"] == ["go", "stay"]
    assert asked["observation_space"] is None
    for episode in run.episodes():
        assert episode.observations is not None
        assert episode.observations[0] == '{"room": [0, null]}'
        assert len(episode.observations) == len(episode) + 1
        assert (episode.observations[-1] is None) == episode.terminated


def test_a_model_has_no_observations(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no observations"):
        cg.cover("chain", "uniform:1/pair", out=tmp_path, keep_observations=True)
    with pytest.raises(BadInput, match="out="):
        cg.cover(Plain(), "uniform:1/pair", keep_observations=True)


def test_a_driver_keeps_what_it_is_told(tmp_path: Path) -> None:
    with cg.Driver(2, 2, "uniform:1/pair", out=tmp_path, keep_observations=True) as driver:
        episode = driver.ask()
        episode(np.array([1, 2]))
        episode.end(observation=[3])
        driver.tell(episode)
        driver.tell([([5], 1, 0.0)], last=None)
        read = list(driver.save().episodes())
    assert [one.observations for one in read] == [["[1, 2]", "[3]"], ["[5]", None]]
