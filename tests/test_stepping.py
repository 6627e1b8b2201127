"""Environments that are played step by step: Gymnasium's, users' own, and misbehaving ones."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.errors import BadInput, EnvironmentFailed, UnknownModel
from covgame.game.counts import Counts
from covgame.game.game import rounds
from covgame.game.presets import default_game
from covgame.mdp import dp
from covgame.players.compiled import CompiledGame
from covgame.players.stepped import SteppedPlayer
from covgame.runs import cover as covering
from covgame.runs.cover import Settings, load, play_blocks, start
from covgame.sources.environments import Environment
from covgame.sources.external import GymStepper, PlainStepper, StepSource
from covgame.sources.gymnasium_envs import number_states
from covgame.sources.simulated import SimulatedSource
from covgame.sources.states import CountedStates, DiscoveredStates, as_hashable
from covgame.store.episodes import RecordedEpisodes
from covgame.targets.requests import parse_request
from covgame.types import Policy, Shape
from tests.test_cli import covgame

ROOT = Path(__file__).parent.parent


class Corridor:
    """Five rooms in a row, 1 to the right, 0 to the left; the last one ends the episode."""

    actions = 2
    horizon = 8

    def __init__(self, name: Callable[[int], Any] = lambda room: ("room", room)) -> None:
        self.name = name

    def reset(self) -> Any:
        self.room = 0
        return self.name(0)

    def step(self, action: int) -> Any:
        self.room = max(0, self.room + (1 if action else -1))
        return self.name(self.room), 1.0, self.room == 4


def own(world: Any, horizon: int = 8) -> Environment:
    """An environment from an object, without a module."""
    return Environment(
        "a test", horizon, None, opener=lambda: (PlainStepper(world), DiscoveredStates())
    )


# ------------------------------------------------------------------------- observations


def test_observations_become_numbers_in_the_order_of_appearance() -> None:
    states = DiscoveredStates()
    seen = [(1, "a"), 5, np.array([1, 2]), {"b": 1, "a": [2]}, (1, "a"), [1, 2], np.int64(5)]
    assert [states.index(x) for x in seen] == [0, 1, 2, 3, 0, 2, 1]
    again = DiscoveredStates(states.keys)
    assert [again.index(x) for x in seen] == [0, 1, 2, 3, 0, 2, 1]
    assert again.index("new") == 4


SAME: list[list[Any]] = [
    [1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True), np.array(1), np.longdouble(1)],
    [2, Fraction(2), Decimal(2), np.int8(2)],
    [0, -0.0, False, np.uint8(0)],
    [0.5, np.float64(0.5), Fraction(1, 2)],
    [10**17, 1e17],
    [(1, 2.0), [True, 2], np.array([1.0, 2.0])],
    [{"b": 1, "a": (0,)}, {"a": np.zeros(1), "b": True}],
    [(1, b"x"), [1.0, np.bytes_(b"x")]],
    [frozenset({1, "y", (2,)}), {(2.0,), "y", True}],
    [None],
    ["1"],
    [b"1"],
    [math.nan, float("nan")],
    [math.inf],
    [1 + 1j],
    [date(2024, 1, 1), np.datetime64("2024-01-01")],
]
"""Observations in groups of equal ones."""


@pytest.mark.parametrize("group", range(len(SAME)))
def test_what_is_one_state_while_running_is_the_same_one_after_resuming(group: int) -> None:
    for shown in SAME[group]:
        states = DiscoveredStates()
        for number, one in enumerate([*SAME[:group], *SAME[group + 1 :]]):
            assert states.index(one[0]) == number
        first = states.index(shown)
        assert first == len(SAME) - 1
        again = DiscoveredStates(states.keys)
        for equal in SAME[group]:
            assert states.index(equal) == again.index(equal) == first
        assert states.keys == again.keys


def test_keys_that_were_written_otherwise_are_understood() -> None:
    states = DiscoveredStates(["1.0", "[true, 0.5]", '"x"', "1", "bytes: b'x'"])
    shown = [1, (1, 0.5), "x", 1.0, b"x", "new"]
    assert [states.index(observation) for observation in shown] == [0, 1, 2, 0, 4, 5]


def test_counted_states_check_their_range() -> None:
    states = CountedStates(3, first=1)
    assert [states.index(x) for x in (1, np.int64(3))] == [0, 2]
    for wrong in (0, 4, "x", None):
        with pytest.raises(EnvironmentFailed):
            states.index(wrong)


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(EnvironmentFailed, match="hashable"):
        as_hashable(bytearray(b"x"))


def test_what_no_other_process_would_recognise_is_refused() -> None:
    """The text of a plain object is its address in memory."""
    for shown in (object(), (1, object()), Corridor()):
        with pytest.raises(EnvironmentFailed, match="__repr__"):
            as_hashable(shown)


FICKLE = """
class World:
    actions, horizon = 2, 4
    def reset(self, seed):
        self.at, self.odd = 0, seed % 2
        return self.shown()
    def step(self, action):
        self.at += action
        return self.shown(), 0.0, False
    def shown(self):
        return (float if self.odd else int)(self.at)
"""


def test_a_run_that_shows_equal_numbers_in_several_forms_is_unbroken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fickle.py").write_text(FICKLE)
    monkeypatch.syspath_prepend(str(tmp_path))
    cg.cover("py:fickle:World", "uniform:5", out=tmp_path / "whole")
    for stop in (1, 2, 3, 20):
        out = tmp_path / f"parts-{stop}"
        cg.cover("py:fickle:World", "uniform:5", out=out, max_episodes=stop)
        assert covering.resume(out, max_episodes=2000).covered
        for name in ("states.json", "counts.npz", "episodes/part-000000.parquet"):
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


# --------------------------------------------------------------------------- the game


@pytest.mark.parametrize("text", ["uniform:4", "uniform:4/pair", "uniform:4/state"])
@pytest.mark.parametrize("pooled", [True, False])
def test_the_compiled_game_asks_for_the_same_policies(text: str, pooled: bool) -> None:
    """Played by somebody else, compiled and readable game stay the same to the last bit."""
    world = cg.make("grid:rows=3,columns=3,horizon=6,ends=true").require_model("a test")
    target = parse_request(text).resolve(world.transitions)
    source = SimulatedSource(world, 4)
    readable, inner = (default_game(target, pooled=pooled) for _ in range(2))
    compiled = CompiledGame(inner)
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
    compiled = CompiledGame(default_game(target, pooled=pooled))
    for number in range(60):
        for game in (readable, compiled):
            if number % 9 == 4:
                source.play(game.ask(), 1000 + number, game.revise)
                game.abandon()
        np.testing.assert_array_equal(compiled.ask().table, readable.ask().table)
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
    assert told.heard == played.heard == CompiledGame(told.game).heard
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


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_where_a_block_ends_changes_nothing(size: int) -> None:
    """A target may be covered just before it takes up what was newly seen."""
    env = cg.make("gym:Blackjack-v1", horizon=4)
    run = start(env, "uniform:1/pair", Settings(seed=2))
    assert isinstance(run.source, StepSource)
    player = SteppedPlayer(run.game, run.source, run.growing)
    while not run.covered:
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


# --------------------------------------------------------------------------- gymnasium


def test_gymnasiums_own_steps_follow_its_table() -> None:
    """Visits of 3,000 episodes of FrozenLake's step against the exact occupancy of its table."""
    env = cg.make("gym:FrozenLake-v1", horizon=10)
    model = env.require_model("a test")
    assert env.opener is not None
    source = StepSource(*env.opener(), 10, seed=3)
    rng = np.random.default_rng(1)
    policy = Policy.stochastic(rng.dirichlet(np.ones(4), size=(10, 16)))
    counts = Counts(model.shape, pooled=True)
    for number in range(3000):
        counts.add(source.play(policy, number))
    exact = dp.occupancy(model.transitions, policy)
    spread = np.sqrt(exact * (1 - exact) / 3000)
    assert (np.abs(counts.visits / 3000 - exact) <= 5 * spread + 1e-9).all()


def test_frozen_lake_near_its_lower_bound() -> None:
    env = cg.make("gym:FrozenLake-v1", horizon=15)
    runs = [cg.cover(env, "uniform:10", seed=seed, min_reach=0.02) for seed in range(3)]
    assert all(run.covered for run in runs)
    assert np.mean([run.ratio for run in runs if run.ratio]) < 1.15


def test_terminated_episodes_and_last_steps(tmp_path: Path) -> None:
    """A hole ends the episode; the state after the last stage is written, but is no cell."""
    cg.cover("gym:FrozenLake-v1", "uniform:2/state", horizon=6, out=tmp_path)
    table = pq.read_table(tmp_path / "episodes")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    last = np.append(columns["stage"][1:] == 0, True)
    terminated = columns["terminated"]
    assert terminated.any()
    assert (columns["next_state"][terminated] == -1).all()
    assert (terminated <= last).all()
    cut = last & ~terminated
    assert (columns["stage"][cut] == 5).all()
    assert (columns["next_state"][cut] >= 0).all()


def test_taxis_masks_are_respected() -> None:
    env = cg.make("gym:Taxi-v4", horizon=8)
    model = env.require_model("a test")
    allowed = model.transitions.allowed
    assert allowed is not None
    run = cg.cover(env, "uniform:1/pair", max_episodes=60)
    assert run.counts.visits.sum(axis=0)[~allowed].sum() == 0
    assert run.counts.visits.sum() == 60 * 8
    asked = run.target.rows
    assert allowed[asked[:, 1], asked[:, 2]].all()
    state, action = np.argwhere(~allowed)[0].tolist()
    with pytest.raises(cg.UnreachableTarget):
        cg.plan(env, cg.cells([(None, state, action, 1)]))


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_what_is_forbidden_is_never_planned(preset: Any) -> None:
    """Neither by the readable nor by the compiled game, tried or not."""
    world = cg.make("chain:states=4,horizon=5").require_model("a test")
    target = parse_request("uniform:3").resolve(world.transitions)
    allowed = np.array([[True, True], [False, True], [True, True], [True, False]])
    game = Settings(preset=preset).new_game(target, stationary=True)
    game.allowed = allowed
    compiled, source = CompiledGame(game), SimulatedSource(world, 0)
    for number in range(30):
        policy = game.ask()
        assert np.take_along_axis(allowed[None], policy.table[:, :, None], axis=2).all()
        np.testing.assert_array_equal(compiled.ask().table, policy.table)
        compiled.tell(source.play(policy, number))


def test_truncation_is_no_termination_and_no_stall(tmp_path: Path) -> None:
    """What lies behind a cut cannot be had, so nobody waits for it; the record shows the cut."""

    class Cut(Corridor):
        def step(self, action: int) -> Any:
            observation, reward, _ = super().step(action)
            return observation, reward, False, self.room >= 2, {}

    run = cg.cover(own(Cut()), "uniform:2", out=tmp_path, max_episodes=2000)
    assert run.covered
    table = pq.read_table(tmp_path / "episodes")
    assert not table["terminated"].to_numpy().any()
    assert (table["next_state"].to_numpy() >= 0).all()
    assert (run.counts.visits.sum(axis=(0, 2)) > 0).sum() == 2


def test_observations_of_several_numbers() -> None:
    """MultiDiscrete: numbered as they appear, like a Tuple of Discrete."""
    import gymnasium

    class Pair(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.MultiDiscrete([3, 2])
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            self.at = np.array([0, 0])
            return self.at.copy(), {}

        def step(self, action: int) -> Any:
            self.at = np.array([min(2, self.at[0] + 1), action])
            return self.at.copy(), 0.0, False, False, {}

    env = Environment("a test", 4, None, opener=lambda: (GymStepper(Pair()), number_states(Pair())))
    run = cg.cover(env, "uniform:2")
    assert run.covered
    keys = run.source.state_keys
    assert keys is not None
    assert sorted(keys) == ["[0, 0]", "[1, 0]", "[1, 1]", "[2, 0]", "[2, 1]"]


def test_limits_and_spaces_are_checked() -> None:
    with pytest.raises(BadInput, match="ends its episodes after 100"):
        cg.make("gym:FrozenLake-v1", horizon=101)
    with pytest.raises(BadInput, match="--horizon"):
        cg.make("gym:Blackjack-v1")
    with pytest.raises(BadInput, match="finitely many states"):
        cg.make("gym:CartPole-v1")


def test_without_a_table_only_what_is_seen_can_be_asked_for() -> None:
    env = cg.make("gym:Blackjack-v1", horizon=5)
    with pytest.raises(UnknownModel):
        cg.cover(env, "proportional:5")
    with pytest.raises(UnknownModel):
        cg.cover(env, cg.cells([(0, 0, 0, 1)]))
    with pytest.raises(BadInput, match="min-reach"):
        cg.cover(env, "uniform:5", min_reach=0.1)
    with pytest.raises(UnknownModel):
        cg.plan(env, "uniform:5")


def test_blackjack_is_covered_and_resumed(tmp_path: Path) -> None:
    env = cg.make("gym:Blackjack-v1", horizon=4)
    whole = cg.cover(env, "uniform:1/state", out=tmp_path / "whole", seed=5)
    assert whole.covered
    cg.cover(env, "uniform:1/state", out=tmp_path / "parts", seed=5, max_episodes=100)
    run = covering.resume(tmp_path / "parts", max_episodes=10**9)
    assert run.n_episodes == whole.n_episodes
    np.testing.assert_array_equal(run.counts.visits, whole.counts.visits)
    for name in ("states.json", "counts.npz", "episodes/part-000000.parquet"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    recorded = RecordedEpisodes(tmp_path / "whole" / "episodes", whole.target.shape)
    counts = recorded.counts(pooled=whole.counts.pooled)
    np.testing.assert_array_equal(counts.visits, whole.counts.visits)


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
    assert loop.stdout.startswith("covered in")


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
        f"  if self.n == 31:\n   {BROKEN[kind]}\n"
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
    script = "from covgame.runs.cover import load; print(load('run').n_episodes)"
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
    run = start(own(Hot()), "uniform:1", Settings())
    for _ in play_blocks(run):
        pass
    assert run.stopped == "failed"


def test_load_is_public_enough_to_look_at_a_run(tmp_path: Path) -> None:
    cg.cover("gym:FrozenLake-v1", "uniform:1/pair", horizon=8, out=tmp_path)
    assert load(tmp_path).covered
