"""Gymnasium environments covered: their steps, masks, limits and spaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.config import CoverConfig
from covgame.engine.compiled import CompiledGame
from covgame.errors import BadInput, UnknownModel
from covgame.game.counts import Counts
from covgame.game.presets import configured_game
from covgame.mdp import dp
from covgame.runs.resume import resume
from covgame.sources.simulated import SimulatedSource
from covgame.sources.stepped import SteppedSource
from covgame.storage.reading import RecordedEpisodes
from covgame.targets.requests import parse_request
from covgame.types import Policy
from tests.rooms import assert_same
from tests.runs import Corridor, own

ROOT = Path(__file__).parent.parent


def test_gymnasiums_own_steps_follow_its_table() -> None:
    """Visits of 3,000 episodes of FrozenLake's step against the exact occupancy of its table."""
    env = cg.make("gym:FrozenLake-v1", horizon=10)
    model = env.require_model("a test")
    assert env.opener is not None
    source = SteppedSource(*env.opener(), 10, seed=3)
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
    assert set(columns["next_state"][terminated]) == {5, 7, 11, 12, 15}  # the holes and the goal
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
    game = configured_game(CoverConfig(preset=preset), target, stationary=True)
    game.allowed = allowed
    compiled, source = CompiledGame(game, incremental=False), SimulatedSource(world, 0)
    for number in range(30):
        policy = game.ask()
        assert np.take_along_axis(allowed[None], policy.table[:, :, None], axis=2).all()
        np.testing.assert_array_equal(compiled.ask().begin(0).table, policy.table)
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

    env = cg.make(Pair, 4)
    run = cg.cover(env, "uniform:2")
    assert run.covered
    keys = run.source.state_keys
    assert keys is not None
    assert sorted(keys) == ["[0, 0]", "[1, 0]", "[1, 1]", "[2, 0]", "[2, 1]"]


def test_limits_and_spaces_are_checked() -> None:
    with pytest.raises(BadInput, match="ends its episodes after 100"):
        cg.make("gym:FrozenLake-v1", horizon=101)
    with pytest.raises(BadInput, match="horizon"):
        cg.make("gym:Blackjack-v1")
    with pytest.raises(BadInput, match="bins:10x10x10x10"):
        cg.make("gym:CartPole-v1")


def test_without_a_table_only_what_is_seen_can_be_asked_for() -> None:
    env = cg.make("gym:Blackjack-v1", horizon=5)
    with pytest.raises(UnknownModel):
        cg.cover(env, "proportional:5")
    with pytest.raises(BadInput, match="as they appear"):
        cg.cover(env, cg.cells([(0, 0, 0, 1)]))
    with pytest.raises(BadInput, match="min_reach"):
        cg.cover(env, "uniform:5", min_reach=0.1)
    with pytest.raises(UnknownModel):
        cg.plan(env, "uniform:5")


def test_blackjack_is_covered_and_resumed(tmp_path: Path) -> None:
    env = cg.make("gym:Blackjack-v1", horizon=4)
    whole = cg.cover(env, "uniform:1/state", out=tmp_path / "whole", seed=5)
    assert whole.covered
    cg.cover(env, "uniform:1/state", out=tmp_path / "parts", seed=5, max_episodes=100)
    run = resume(tmp_path / "parts", max_episodes=10**9)
    assert run.n_episodes == whole.n_episodes
    np.testing.assert_array_equal(run.counts.visits, whole.counts.visits)
    assert_same(tmp_path / "parts", tmp_path / "whole")
    recorded = RecordedEpisodes(tmp_path / "whole" / "episodes", whole.target.shape)
    counts = recorded.counts(pooled=whole.counts.pooled)
    np.testing.assert_array_equal(counts.visits, whole.counts.visits)
