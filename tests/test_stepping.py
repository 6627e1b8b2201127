"""Environments that are played step by step: users' own, and misbehaving ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.config import CoverConfig
from covgame.engine.compiled import CompiledGame
from covgame.engine.engines import SteppedEngine
from covgame.errors import BadInput, EnvironmentFailed
from covgame.game.counts import Counts
from covgame.game.game import rounds
from covgame.game.presets import default_game
from covgame.runs.cover import start
from covgame.runs.loop import play
from covgame.sources.simulated import SimulatedSource
from covgame.sources.stepped import SteppedSource
from covgame.targets.requests import parse_request
from covgame.types import Policy, Shape
from tests.runs import Corridor, coverage_at, own
from tests.test_cli import covgame

ROOT = Path(__file__).parent.parent


# --------------------------------------------------------------------------- the game


@pytest.mark.parametrize("text", ["uniform:4", "uniform:4/pair", "uniform:4/state"])
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("incremental", [True, False])
def test_the_compiled_game_asks_for_the_same_policies(
    text: str, pooled: bool, incremental: bool
) -> None:
    """Played by somebody else, compiled and readable game stay the same to the last bit."""
    world = cg.make("grid:rows=3,columns=3,horizon=6,ends=true").require_model("a test")
    target = parse_request(text).resolve(world.transitions)
    source = SimulatedSource(world, 4)
    readable, inner = (default_game(target, pooled=pooled) for _ in range(2))
    compiled = CompiledGame(inner, incremental=incremental)
    for number, _ in zip(range(120), rounds(readable, source), strict=False):
        compiled.tell(source.play(compiled.ask(), number, compiled.revise))
        np.testing.assert_array_equal(inner.counts.visits, readable.counts.visits)
        np.testing.assert_array_equal(inner.state.weights, readable.state.weights)
    assert inner.counts.n_episodes == readable.counts.n_episodes


@pytest.mark.parametrize("pooled", [True, False])
def test_what_was_taken_back_is_not_planned_with(pooled: bool) -> None:
    """After an episode that was broken off compiled code plans as the readable game, everywhere."""
    world = cg.make("grid:rows=3,columns=3,horizon=6,ends=true").require_model("a test")
    target = parse_request("uniform:9").resolve(world.transitions)
    source, readable = SimulatedSource(world, 4), default_game(target, pooled=pooled)
    compiled = CompiledGame(default_game(target, pooled=pooled), incremental=False)
    for number in range(60):
        for game in (readable, compiled):
            if number % 9 == 4:
                source.play(game.ask(), 1000 + number, game.revise)
                game.abandon()
        np.testing.assert_array_equal(compiled.ask().begin(0).table, readable.ask().table)
        for game in (readable, compiled):
            game.tell(source.play(game.ask(), number, game.revise))


@pytest.mark.parametrize("pooled", [True, False])
def test_an_episode_that_is_told_again_teaches_the_same(pooled: bool) -> None:
    """Heard step by step, or told as a whole after resuming: the next episodes are the same."""
    world = cg.make("grid:rows=3,columns=3,horizon=6,ends=true").require_model("a test")
    target = parse_request("uniform:9/pair").resolve(world.transitions)
    source = SimulatedSource(world, 4)
    played, told = (CompiledGame(default_game(target, pooled=pooled)) for _ in range(2))
    for number in range(7):
        episode = source.play(played.ask(), number, played.revise)
        for game in (played, told):
            game.tell(episode)
    for number in range(7, 12):
        for game in (played, told):
            game.tell(source.play(game.ask(), number, game.revise))
        np.testing.assert_array_equal(told.game.counts.visits, played.game.counts.visits)


@pytest.mark.parametrize("pooled", [True, False])
def test_growth_keeps_what_was_counted(pooled: bool) -> None:
    world = cg.make("garnet:states=5,actions=2,horizon=4").require_model("a test")
    counts, larger = (Counts(world.shape, pooled=pooled, borrowing=True) for _ in range(2))
    source, policy = SimulatedSource(world, 0), Policy.uniform(world.shape)
    for number in range(30):
        counts.add(source.play(policy, number))
        larger.add(source.play(policy, number))
    larger.grow(9)
    assert larger.shape == Shape(4, 9, 2)
    np.testing.assert_array_equal(larger.visits[:, :5], counts.visits)
    assert larger.visits[:, 5:].sum() == 0
    values = np.random.default_rng(0).random(9)
    for h in range(4):
        for mine, theirs in zip(
            larger.estimate(h, values), counts.estimate(h, values[:5]), strict=True
        ):
            np.testing.assert_array_equal(mine.reshape(9, 2)[:5], theirs.reshape(5, 2))


def test_everything_that_is_seen_gets_covered() -> None:
    run = cg.cover(own(Corridor()), "uniform:3")
    assert run.covered
    seen = run.counts.visits.sum(axis=2) > 0
    assert run.counts.visits[seen].min() >= 3
    assert run.min_episodes is None
    assert run.ratio is None
    assert "states seen" in run.to_text()
    rooms = run.counts.visits.sum(axis=(0, 2))
    assert (rooms > 0).sum() == 4  # the room that ends the episode is no cell


@pytest.mark.parametrize(
    "size", [2, 1000, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 5))]
)
def test_where_a_block_ends_changes_nothing(size: int) -> None:
    """A target may be covered just before it takes up what was newly seen."""
    env = cg.make("gym:Blackjack-v1", horizon=4)
    run = start(env, "uniform:1/pair", CoverConfig(seed=2))
    assert isinstance(run.source, SteppedSource)
    player = SteppedEngine(run.game, run.source, run.growth)
    while not run.done:
        player.play(size)
    seen = run.counts.visits.sum(axis=(0, 2)) > 0
    asked = np.unique(run.target.rows[:, 1])
    np.testing.assert_array_equal(asked, np.flatnonzero(seen))
    assert run.n_episodes == cg.cover(env, "uniform:1/pair", seed=2).n_episodes


@pytest.mark.parametrize("per", ["cell", "pair", "state"])
def test_the_order_of_discovery_does_not_change_what_is_covered(per: Any) -> None:
    """The same world under other names: the same places are covered."""

    def covered(name: Callable[[int], Any]) -> set[tuple[int, str]]:
        run = cg.cover(own(Corridor(name)), cg.uniform(2, per=per))
        keys = run.source.state_keys
        assert run.covered
        assert keys is not None
        places = np.argwhere(run.counts.visits.sum(axis=2) > 0)
        return {(int(h), keys[s].split()[-1].rstrip(')]"')) for h, s in places.tolist()}

    one, other = covered(lambda room: ("room", room)), covered(lambda room: f"door {room}")
    if per == "cell":
        assert one == other
    else:
        assert {room for _, room in one} == {room for _, room in other}


def test_many_states_make_the_arrays_grow() -> None:
    class Wide(Corridor):
        def step(self, action: int) -> Any:
            self.room = 3 * self.room + 1 + action
            return self.room, 0.0, False

    run = cg.cover(own(Wide(), horizon=8), "uniform:1")
    assert run.covered
    assert run.target.shape.states >= 2**7 - 1
    assert (run.counts.visits.sum(axis=2) > 0).sum() == 2**8 - 1


# --------------------------------------------------------------------------- users' own


def test_examples_run_from_the_command_line(tmp_path: Path) -> None:
    for name, target in (
        ("py:examples.vending_machine:machine", "uniform:5/pair"),
        ("py:examples.gym_world:stairs", "uniform:3"),
    ):
        done = covgame(
            "cover",
            name,
            "--target",
            target,
            "--json",
            "--out",
            str(tmp_path / target[8]),
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["covered"] is True
    loop = subprocess.run(
        [sys.executable, "examples/own_loop.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "covered      all 8" in loop.stdout


@pytest.mark.parametrize(
    "text",
    ["nothing", "no.such.module:f", "json:nothing", "json:dumps", "builtins:dict", ":f", "json:"],
)
def test_factories_that_are_none(text: str) -> None:
    with pytest.raises(BadInput, match="py:"):
        cg.make(f"py:{text}", horizon=3)


BROKEN = {
    "raises": "raise ValueError('the motor is\\n hot')",
    "wrong shape": "return 1",
    "no reward": "return (self.n, None, False)",
    "infinite reward": "return (self.n, float('inf'), False)",
    "no state": "return (bytearray(), 0.0, False)",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_environment_that_misbehaves_loses_nothing(kind: str, tmp_path: Path) -> None:
    """Exit 4, one sentence, the same JSON, and the episodes before are there."""
    (tmp_path / "broken.py").write_text(
        "class World:\n"
        " actions, horizon, n = 2, 3, 0\n"
        " def reset(self):\n"
        "  return 0\n"
        " def step(self, action):\n"
        "  self.n += 1\n"
        f"  if self.n >= 31:\n   {BROKEN[kind]}\n"
        "  return (self.n % 3, 0.0, False)\n"
    )
    done = covgame(
        "cover", "py:broken:World", "--target", "uniform:50", "--out", "run", "--json", cwd=tmp_path
    )
    assert done.returncode == 4, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["episodes"], answer["covered"], answer["stopped"]) == (10, False, "failed")
    assert "episode 10" in answer["failure"]
    said = [line for line in done.stderr.splitlines() if "compiling" not in line]  # a cold cache
    assert len(said) == 1
    assert said[0].startswith("covgame: the environment failed")
    steps = pq.read_table(tmp_path / "run" / "episodes")
    assert steps.num_rows == 30
    assert load_from(tmp_path) == 10


def load_from(folder: Path) -> int:
    """Episodes of the run, looked at from where its module can be imported."""
    script = "from covgame.runs.resume import load; print(load('run').n_episodes)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_from_python_a_failure_is_an_error() -> None:
    class Hot(Corridor):
        def step(self, action: int) -> Any:
            raise RuntimeError("hot")

    with pytest.raises(EnvironmentFailed, match="RuntimeError: hot"):
        cg.cover(own(Hot()), "uniform:1")
    run = start(own(Hot()), "uniform:1", CoverConfig())
    for _ in play(run):
        pass
    assert run.stopped == "failed"


def test_load_is_public_enough_to_look_at_a_run(tmp_path: Path) -> None:
    cg.cover("gym:FrozenLake-v1", "uniform:1/pair", horizon=8, out=tmp_path)
    assert coverage_at(tmp_path).covered
