"""Runs that survive: whatever breaks one off, its files belong together and it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.players.stepped import SteppedPlayer
from covgame.runs.cover import start
from covgame.runs.opening import load, resume
from covgame.runs.settings import CoverSettings
from covgame.sources.external import ExternalSource
from covgame.storage import episodes as shard_files
from covgame.storage.episodes import recorded_episodes
from tests.rooms import assert_same, files, steps, whatever_is_said
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
    played = recorded_episodes(rooms / "run" / "episodes")
    with np.load(rooms / "run" / "counts.npz") as saved:
        assert answer["episodes"] == int(saved["episodes"]) == played > 0
    again = covgame("resume", "run", "--trust", "--json", cwd=rooms)
    assert again.returncode == 0, again.stderr
    assert "counts.npz" not in again.stderr
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
    assert answer["episodes"] == recorded_episodes(rooms / "run" / "episodes")


# ------------------------------------------------------------- counts are only a cache


def stopped_at(where: str, episodes: int) -> Path:
    run = cg.cover("py:rooms:Rooms", "uniform:12", out=where, max_episodes=episodes)
    assert run.stopped == "budget"
    return Path(where)


def without_counts(run: Path) -> None:
    (run / "counts.npz").unlink()


def with_damaged_counts(run: Path) -> None:
    (run / "counts.npz").write_bytes(b"nothing")


def with_counts_ahead(run: Path) -> None:
    later = stopped_at("later", 60)
    (run / "counts.npz").write_bytes((later / "counts.npz").read_bytes())


def with_counts_behind(run: Path) -> None:
    earlier = stopped_at("earlier", 20)
    (run / "counts.npz").write_bytes((earlier / "counts.npz").read_bytes())


SPOILT = [without_counts, with_damaged_counts, with_counts_ahead, with_counts_behind]


@pytest.mark.parametrize("spoil", SPOILT)
def test_what_is_wrong_with_counts_never_costs_an_episode(
    spoil: Callable[[Path], None], rooms: Path
) -> None:
    cg.cover("py:rooms:Rooms", "uniform:12", out="whole")
    run = stopped_at("run", 40)
    spoil(run)
    with pytest.warns(UserWarning, match="40 episodes in run, so they were counted again"):
        cg.resume(run, max_episodes=10**6, trust=True)
    assert_same(rooms / "whole", run)
    cg.resume(run, trust=True)  # and says nothing any more


@pytest.mark.usefixtures("rooms")
def test_what_the_last_episode_showed_is_still_to_be_covered() -> None:
    run = stopped_at("run", 1)
    assert len(coverage_at(run).target) > 0
    without_counts(run)
    assert len(coverage_at(run).uncovered) > 0
    assert not coverage_at(run).covered


@pytest.mark.parametrize("spoil", SPOILT[:2])
def test_a_finished_run_gets_its_counts_back(spoil: Callable[[Path], None], rooms: Path) -> None:
    for run in (rooms / "whole", rooms / "run"):
        cg.cover("py:rooms:Rooms", "uniform:12", out=run)
    spoil(rooms / "run")
    with pytest.warns(UserWarning, match="counted again"):
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
    (tmp_path / "run" / "counts.npz").unlink()
    again = coverage_at(tmp_path / "run")
    assert again.unreachable == whole.unreachable
    np.testing.assert_array_equal(again.target.rows, whole.target.rows)
    with pytest.warns(UserWarning, match="counted again"):
        run = resume(tmp_path / "run", max_episodes=10**6, trust=True)
    assert (run.n_episodes, run.covered) == (whole.n_episodes, True)
    said = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("whole", "run")]
    assert said[0]["unreachable"] == said[1]["unreachable"]


def test_episodes_that_would_not_come_back_are_kept(rooms: Path) -> None:
    """Every process pays other rewards, so whatever was played again would show."""
    asked = ("cover", "py:rooms:Tired", "--target", "uniform:12", "--out", "run")
    assert covgame(*asked, "--max-episodes", "40", cwd=rooms).returncode == 3
    before = steps(rooms / "run")
    (rooms / "run" / "counts.npz").unlink()
    done = covgame("resume", "run", "--trust", "--json", "--max-episodes", "45", cwd=rooms)
    assert done.returncode == 3
    assert json.loads(done.stdout)["episodes"] == 45
    assert "the 40 episodes in run, so they were counted again" in done.stderr
    after = steps(rooms / "run")
    for name, column in before.items():
        np.testing.assert_array_equal(after[name][: len(column)], column)
    (rooms / "run" / "counts.npz").unlink()
    quiet = covgame("resume", "run", "--trust", "--json", "--quiet", cwd=rooms)
    assert (quiet.returncode, quiet.stderr) == (3, "")
    assert json.loads(quiet.stdout)["episodes"] == 45


FIRST, LAST = "episodes/part-000000.parquet", "episodes/part-000003.parquet"


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize(
    ("missing", "damaged"),
    [
        ([FIRST], []),
        ([FIRST, "counts.npz"], []),
        (["counts.npz"], [FIRST]),
        ([], [LAST]),
        (["counts.npz"], [LAST]),
        (["states.json"], []),
        (["states.json", "counts.npz"], []),
        ([], ["states.json"]),
    ],
)
def test_a_run_waits_for_what_cannot_be_played_again(
    missing: list[str], damaged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is removed, and nobody is told to remove anything."""
    monkeypatch.setattr(shard_files, "STEPS_PER_SHARD", 60)
    run = stopped_at("run", 35)
    whole = files(run)
    for name in missing:
        (run / name).unlink()
    for name in damaged:
        (run / name).write_bytes(b"nothing")
    left = files(run)
    with pytest.raises(cg.BadInput) as refused:
        resume(run, max_episodes=50, trust=True)
    assert "remove" not in str(refused.value)
    assert files(run) == left
    for name, content in whole.items():
        Path(name).write_bytes(content)
    assert resume(run, max_episodes=50, trust=True).n_episodes == 50


def test_states_of_an_episode_that_did_not_count(tmp_path: Path) -> None:
    """They are listed already, so there may be more room for states than in the counts."""
    asked: Any = {"env": cg.make("gym:Blackjack-v1", horizon=4), "target": "uniform:1/pair"}
    whole = cg.cover(**asked, out=tmp_path / "whole")
    cg.cover(**asked, out=tmp_path / "run", max_episodes=20)
    content, saved = (
        json.loads((tmp_path / run / "states.json").read_text()) for run in ("whole", "run")
    )
    assert len(saved["states"]) < 64 < len(content["states"])
    (tmp_path / "run" / "states.json").write_text(json.dumps(content))
    (tmp_path / "run" / "checksums.json").unlink()
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
            (run / "counts.npz").unlink()
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
    run = start(own(house, horizon=2), "uniform:300", CoverSettings())
    assert isinstance(run.source, ExternalSource)
    SteppedPlayer(run.game, run.source, run.growth).play(201)
    house.door = True
    stopped = SteppedPlayer(run.game, run.source, run.growth)
    stopped.play(1)
    while not run.counts.visits[1, 1].any():
        stopped.play(1)
    again = SteppedPlayer(run.game, run.source, run.growth)
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
    (tmp_path / "run" / "counts.npz").unlink()
    again = load(tmp_path / "run")
    assert again.n_episodes == budget
    with pytest.warns(UserWarning, match="counted again"):
        cg.resume(tmp_path / "run", max_episodes=2 * budget)
    assert_same(tmp_path / "whole", tmp_path / "run")


def test_an_answer_that_is_replaced_is_never_called_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the answer was saved, and a kill while it is saved again, as interrupted."""
    run = cg.cover("chain:states=3,horizon=4", "uniform:2", out=tmp_path / "run")
    folder = run.folder
    assert folder is not None
    write = type(folder).write

    def killed_after(self: Any, name: str, content: Any) -> None:
        write(self, name, content)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(folder), "write", killed_after)
        with pytest.raises(KeyboardInterrupt):
            folder.save_result({**run.answer(), "stopped": "interrupted"}, "stopped")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "stopped"
    assert cg.resume(tmp_path / "run").stopped == "covered"
