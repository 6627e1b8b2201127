"""Runs that survive: whatever breaks one off, its files belong together and it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.config import CoverConfig
from covgame.engine.engines import SteppedEngine
from covgame.runs.cover import start
from covgame.runs.resume import load, resume
from covgame.sources.stepped import SteppedSource
from covgame.storage import episodes as shard_files
from tests.rooms import assert_same, files, steps, whatever_is_said
from tests.rundb import (
    arrays_of,
    config_of,
    drop_arrays,
    query,
    sealed_on_disk,
    set_arrays,
    spoil_arrays,
    states_of,
)
from tests.runs import coverage_at, own
from tests.test_cli import covgame

COVER = ("cover", "py:rooms:Rooms", "--target", "uniform:12")


# -------------------------------------------------- environments that break off a run


@pytest.mark.parametrize(
    ("trap", "code", "stopped"),
    [
        ("Ctrl-C twice", 130, "interrupted"),
        pytest.param("told to end twice", 130, "interrupted", marks=pytest.mark.slow),
    ],
)
def test_a_step_that_never_returns_costs_one_episode(
    trap: str, code: int, stopped: str, rooms: Path
) -> None:
    """The answer, the counts, the states and the episodes agree, and resuming is unbroken."""
    assert covgame(*COVER, "--out", "whole", cwd=rooms).returncode == 0
    (rooms / "trap").write_text(trap)
    done = covgame(*COVER, "--out", "run", "--json", cwd=rooms)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    answer = json.loads(done.stdout)
    assert answer["stopped"] == stopped
    played = sealed_on_disk(rooms / "run")
    assert answer["episodes"] == int(arrays_of(rooms / "run")["episodes"]) == played > 0
    again = covgame("resume", "run", "--trust", "--json", cwd=rooms)
    assert again.returncode == 0, again.stderr
    assert "again" not in again.stderr
    assert_same(rooms / "whole", rooms / "run")


@pytest.mark.parametrize("trap", ["exit", "odd"])
def test_a_step_that_fails_once_costs_one_attempt(trap: str, rooms: Path) -> None:
    """It is set aside, and the episode is played again."""
    (rooms / "trap").write_text(trap)
    done = covgame(*COVER, "--out", "run", "--json", cwd=rooms)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    answer = json.loads(done.stdout)
    assert (answer["stopped"], len(answer["failures"])) == ("covered", 1)
    assert answer["failures"][0]["then"] == "set aside"
    assert answer["episodes"] == sealed_on_disk(rooms / "run")


# ----------------------------------------------------- the saved state is only a cache


def stopped_at(where: str, episodes: int) -> Path:
    run = cg.cover("py:rooms:Rooms", "uniform:12", out=where, max_episodes=episodes)
    assert run.stopped == "budget"
    return Path(where)


def with_state_ahead(run: Path) -> None:
    set_arrays(run, arrays_of(stopped_at("later", 60)))


def with_state_behind(run: Path) -> None:
    set_arrays(run, arrays_of(stopped_at("earlier", 20)))


@pytest.mark.parametrize("spoil", [drop_arrays, spoil_arrays, with_state_ahead, with_state_behind])
def test_what_is_wrong_with_the_state_never_costs_an_episode(
    spoil: Callable[[Path], None], rooms: Path
) -> None:
    cg.cover("py:rooms:Rooms", "uniform:12", out="whole")
    run = stopped_at("run", 40)
    spoil(run)
    with whatever_is_said():
        cg.resume(run, max_episodes=10**6, trust=True)
    assert_same(rooms / "whole", run)
    cg.resume(run, trust=True)  # and says nothing any more


def test_a_damaged_state_is_reported(rooms: Path) -> None:
    run = stopped_at("run", 40)
    spoil_arrays(run)
    with pytest.warns(UserWarning, match="so the 40 recorded episodes were counted again"):
        cg.resume(run, max_episodes=41, trust=True)


@pytest.mark.usefixtures("rooms")
def test_what_the_last_episode_showed_is_still_to_be_covered() -> None:
    run = stopped_at("run", 1)
    assert len(coverage_at(run).target) > 0
    drop_arrays(run)
    assert len(coverage_at(run).uncovered) > 0
    assert not coverage_at(run).covered


def test_a_finished_run_gets_its_state_back(rooms: Path) -> None:
    for run in (rooms / "whole", rooms / "run"):
        cg.cover("py:rooms:Rooms", "uniform:12", out=run)
    spoil_arrays(rooms / "run")
    with whatever_is_said():
        assert cg.resume(rooms / "run", trust=True).stopped == "covered"
    assert_same(rooms / "whole", rooms / "run")
    assert load(rooms / "run").stopped == "covered"


SLIPPERY = """
import gymnasium

class Stairs(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        slips = not action or self.np_random.random() < 0.5
        self.at = 0 if slips else min(3, self.at + 1)
        return self.at, 0.0, False, False, {}
"""


def test_what_was_proved_to_be_rare_is_proved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slippery.py").write_text(SLIPPERY)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked: Any = {"env": "py:slippery:Stairs", "target": "uniform:200", "min_reach": 0.4}
    whole = cg.cover(**asked, horizon=4, out=tmp_path / "whole")
    assert whole.unreachable
    cg.cover(**asked, horizon=4, out=tmp_path / "run", max_episodes=whole.n_episodes - 1)
    drop_arrays(tmp_path / "run")
    again = coverage_at(tmp_path / "run")
    assert again.unreachable == whole.unreachable
    np.testing.assert_array_equal(again.target.rows, whole.target.rows)
    run = resume(tmp_path / "run", max_episodes=10**6, trust=True)
    assert (run.n_episodes, run.covered) == (whole.n_episodes, True)
    said = [config_of(tmp_path / name) for name in ("whole", "run")]
    assert said[0]["unreachable"] == said[1]["unreachable"]


def test_episodes_that_would_not_come_back_are_kept(rooms: Path) -> None:
    """Every process pays other rewards, so whatever was played again would show."""
    asked = ("cover", "py:rooms:Tired", "--target", "uniform:12", "--out", "run")
    assert covgame(*asked, "--max-episodes", "40", cwd=rooms).returncode == 3
    before = steps(rooms / "run")
    spoil_arrays(rooms / "run")
    done = covgame("resume", "run", "--trust", "--json", "--max-episodes", "45", cwd=rooms)
    assert done.returncode == 3
    assert json.loads(done.stdout)["episodes"] == 45
    assert "so the 40 recorded episodes were counted again" in done.stderr
    after = steps(rooms / "run")
    for name, column in before.items():
        np.testing.assert_array_equal(after[name][: len(column)], column)
    drop_arrays(rooms / "run")
    quiet = covgame("resume", "run", "--trust", "--json", "--quiet", cwd=rooms)
    assert (quiet.returncode, quiet.stderr) == (3, "")
    assert json.loads(quiet.stdout)["episodes"] == 45


FIRST, LAST = "episodes/part-000000.parquet", "episodes/part-000003.parquet"


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: (run / FIRST).unlink(),
        lambda run: (run / LAST).unlink(),
        lambda run: (run / FIRST).write_bytes(b"nothing"),
        lambda run: (run / LAST).write_bytes(b"nothing"),
        lambda run: query(run, "DELETE FROM states WHERE number=1"),
        lambda run: (run / "run.db").write_bytes(b"nothing"),
    ],
    ids=["no first", "no last", "first", "last", "states", "database"],
)
def test_a_run_waits_for_what_cannot_be_played_again(
    spoil: Callable[[Path], Any], keeps_state: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is changed, and the message does not ask to remove anything."""
    monkeypatch.setattr(shard_files, "STEPS_PER_SHARD", 60)
    run = stopped_at("run", 35)
    if not keeps_state:
        drop_arrays(run)
    whole = files(run)
    spoil(run)
    left = files(run)
    with pytest.raises(cg.BadInput) as refused:
        resume(run, max_episodes=50, trust=True)
    assert "remove" not in str(refused.value)
    assert files(run) == left
    for name, content in whole.items():
        Path(name).write_bytes(content)
    assert resume(run, max_episodes=50, trust=True).n_episodes == 50


def test_states_of_an_episode_that_did_not_count(tmp_path: Path) -> None:
    """They are listed already, so there may be more room for states than in the saved state."""
    asked: Any = {"env": cg.make("gym:Blackjack-v1", horizon=4), "target": "uniform:1/pair"}
    whole = cg.cover(**asked, out=tmp_path / "whole")
    cg.cover(**asked, out=tmp_path / "run", max_episodes=20)
    rows = query(tmp_path / "whole", "SELECT * FROM states")
    assert len(states_of(tmp_path / "run")) < 64 < len(rows)
    for row in rows:
        query(tmp_path / "run", "REPLACE INTO states VALUES (?, ?, ?)", *row)
    again = resume(tmp_path / "run", max_episodes=10**6)  # and nothing is counted again
    assert again.n_episodes == whole.n_episodes
    np.testing.assert_array_equal(again.counts.visits, whole.counts.visits)


def test_masks_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an environment forbids is neither asked for after resuming nor after counting again."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    whole = cg.cover("py:gym_world:stairs", "uniform:6", out=tmp_path / "whole")
    for kept in (True, False):
        run = tmp_path / f"run-{kept}"
        cg.cover("py:gym_world:stairs", "uniform:6", out=run, max_episodes=whole.n_episodes // 2)
        if not kept:
            drop_arrays(run)
        with whatever_is_said():
            again = resume(run, max_episodes=3 * whole.n_episodes, trust=True)
        assert again.covered
        rows = {tuple(row) for row in again.target.rows.tolist()}
        assert rows == {tuple(row) for row in whole.target.rows.tolist()}


def test_what_was_seen_just_before_a_stop_is_asked_for_after_it() -> None:
    """A target takes up what is new now and then; whoever goes on must not take that for done."""

    class House:
        actions, door = 2, False

        def reset(self) -> str:
            return "hall"

        def step(self, action: int) -> Any:
            return "attic" if self.door and action else "hall", 0.0, False

    house = House()
    run = start(own(house, horizon=2), "uniform:300", CoverConfig())
    assert isinstance(run.source, SteppedSource)
    SteppedEngine(run.game, run.source, run.growth).play(201)
    house.door = True
    stopped = SteppedEngine(run.game, run.source, run.growth)
    stopped.play(1)
    while not run.counts.visits[1, 1].any():
        stopped.play(1)
    again = SteppedEngine(run.game, run.source, run.growth)
    while not run.covered:
        again.play(100)
    assert run.counts.visits[1, 1].min() >= 300


LEARNERS: dict[str, tuple[int, Callable[..., Any]]] = {
    "certified": (
        300,
        lambda **asked: cg.identify(
            "gym:FrozenLake-v1", horizon=4, epsilon=0.5, return_range=(0.0, 1.0), **asked
        ),
    ),
    "reward-free": (
        300,
        lambda **asked: cg.explore("gym:FrozenLake-v1", horizon=3, epsilon=2.0, **asked),
    ),
    "the paper's": (
        400,
        lambda **asked: cg.identify(
            "gym:FrozenLake-v1", horizon=3, epsilon=1.0, preset="paper", scale=1e-6, **asked
        ),
    ),
    "pruned": (
        700,
        lambda **asked: cg.identify(
            "gym:FrozenLake-v1",
            horizon=3,
            epsilon=1.0,
            preset="paper",
            scale=1e-6,
            prune=True,
            **asked,
        ),
    ),
}


@pytest.mark.parametrize("kind", LEARNERS)
def test_learners_are_told_their_episodes_again(kind: str, tmp_path: Path) -> None:
    budget, learn = LEARNERS[kind]
    whole = learn(out=tmp_path / "whole", max_episodes=2 * budget)
    assert whole.n_episodes > budget
    learn(out=tmp_path / "run", max_episodes=budget)
    drop_arrays(tmp_path / "run")
    again = load(tmp_path / "run")
    assert again.n_episodes == budget
    cg.resume(tmp_path / "run", max_episodes=2 * budget)
    assert_same(tmp_path / "whole", tmp_path / "run")
