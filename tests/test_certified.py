"""The certified preset: whole runs, and their claims checked from the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import covgame as cg
from covgame.engine.engines import SimulatedPolicyEngine
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.certified import CertifiedIdentification
from covgame.runs.resume import resume
from covgame.sources.simulated import SimulatedSource
from covgame.storage.reading import RecordedEpisodes
from covgame.types import Policy
from tests.evidence import allowed_failures, small
from tests.rundb import document_of, set_document
from tests.test_cli import covgame

seeds = st.integers(0, 2**31)


def test_compiled_episodes_of_a_policy_are_the_simulated_ones() -> None:
    world = cg.make("grid:rows=2,columns=3,horizon=5,ends=true").require_model("a test")
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, world.shape.actions, world.shape.hs)
    policy = Policy.deterministic(chosen, world.shape.actions)
    source = SimulatedSource(world, 5)
    for pooled in (False, True):
        compiled, readable = (Counts(world.shape, pooled=pooled) for _ in range(2))
        player = SimulatedPolicyEngine(policy, compiled, source, most=40, record=True)
        while compiled.n_episodes < 100:
            block = player.play(100 - compiled.n_episodes)
            assert len(block) <= 40
        for number in range(100):
            readable.add(source.play(policy, number))
        np.testing.assert_array_equal(compiled.visits, readable.visits)
        np.testing.assert_array_equal(compiled.reward_sums, readable.reward_sums)
        one, other = compiled.kernel(), readable.kernel()
        np.testing.assert_array_equal(one.next_state, other.next_state)
        np.testing.assert_allclose(one.probability, other.probability)


TOY = "garnet:states=4,actions=2,horizon=4"


@pytest.mark.parametrize("play", ["exact", "counts"])
def test_explore_by_default(play: Literal["exact", "counts"]) -> None:
    world = cg.make(TOY).require_model("a test")
    run = cg.explore(TOY, epsilon=0.8, play=play)
    assert run.stopped == "rule"
    assert run.certified_error is not None
    assert run.certified_error <= 0.8
    assert run.n_episodes < 20_000
    reward = np.random.default_rng(0).random(world.shape.hsa)
    values = dp.evaluate(world.transitions, run.model.plan(reward), reward)
    best = dp.backward_induction(world.transitions, reward).values
    assert float(world.initial @ (best[0] - values[0])) <= 0.8


def test_identify_by_default() -> None:
    world = cg.make(TOY).require_model("a test")
    run = cg.identify(TOY, epsilon=0.4)
    values = dp.evaluate(world.transitions, run.policy, world.rewards)
    best = dp.backward_induction(world.transitions, world.rewards).values
    assert float(world.initial @ (best[0] - values[0])) <= 0.4
    assert run.certified_gap is not None
    assert run.certified_gap <= 0.4
    assert run.n_episodes < 20_000


def test_pooling_is_used_where_the_world_is_stationary() -> None:
    river = "riverswim:states=4,horizon=6"
    pooled = cg.explore(river, epsilon=1.5, play="counts")
    apart = cg.explore(river, epsilon=1.5, play="counts", stage_dependent=True)
    assert pooled.counts.pooled
    assert not apart.counts.pooled
    assert pooled.n_episodes < apart.n_episodes / 2


def test_a_certificate_is_checked_from_the_files(tmp_path: Path) -> None:
    for number, (command, epsilon) in enumerate((("explore", 1.0), ("identify", 0.8))):
        out = tmp_path / f"run{number}"
        learn = cg.explore if command == "explore" else cg.identify
        run = learn(TOY, epsilon=epsilon, out=out)
        episodes = RecordedEpisodes(out / "episodes", run.counts.shape)
        counts = episodes.counts(pooled=run.counts.pooled)
        np.testing.assert_array_equal(counts.visits, run.counts.visits)
        np.testing.assert_array_equal(counts.starts, run.counts.starts)
        np.testing.assert_array_equal(counts.reward_sums, run.counts.reward_sums)
        checked = cg.certify(out)
        assert checked.episodes == run.n_episodes
        done = covgame("certify", str(out), "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["valid"] is True


def test_false_certificates_are_found_out(tmp_path: Path) -> None:
    cg.identify(TOY, epsilon=0.8, out=tmp_path / "run")
    honest = document_of(tmp_path / "run", "certificate")
    for change, said in (
        ({"numbers": {**honest["numbers"], "gap": 0.1}}, "does not hold"),
        ({"numbers": {**honest["numbers"], "lower": 3.9}}, "does not hold"),
        ({"numbers": {}}, "does not hold"),
        ({"delta": 1e-9}, "other terms"),
        ({"rewards": {"low": 0.0, "high": 0.05, "return_high": None}}, "other terms"),
        ({"structure": {**honest["structure"], "known_start": [0.0] * 4}}, "contradict"),
        ({"structure": {**honest["structure"], "most_successors": 1}}, "other terms"),
        ({"policy": (2 + np.array(honest["policy"])).tolist()}, "no policy"),
        ({"policy": None}, "no policy"),
        ({"policy": (1 - np.array(honest["policy"])).tolist()}, "certificate"),
        ({"episodes": honest["episodes"] - 1}, "other data"),
        ({"data": "0" * 64}, "other data"),
        ({"claim": "everything"}, "claim"),
        ({"shape": [4, 3, 2]}, "outside"),
    ):
        set_document(tmp_path / "run", "certificate", {**honest, **change})
        with pytest.raises(cg.BadInput, match=said):
            cg.certify(tmp_path / "run")
    done = covgame("certify", str(tmp_path / "run"))
    assert (done.returncode, done.stdout) == (2, "")
    set_document(tmp_path / "run", "certificate", honest)
    shard = next((tmp_path / "run" / "episodes").glob("*.parquet"))
    shard.unlink()
    with pytest.raises(cg.BadInput, match="lacks episodes from 0 on"):
        cg.certify(tmp_path / "run")


def test_coverage_is_certified_too(tmp_path: Path) -> None:
    cg.cover("chain:states=4,horizon=5", "uniform:4", out=tmp_path / "run")
    assert cg.certify(tmp_path / "run").claim == "coverage"
    for shard in (tmp_path / "run" / "episodes").glob("*.parquet"):
        shard.unlink()
    with pytest.raises(cg.BadInput, match="lacks episodes from 0 on"):
        cg.certify(tmp_path / "run")


def test_certified_runs_resume(tmp_path: Path) -> None:
    whole = cg.explore(TOY, epsilon=1.2, out=tmp_path / "whole")
    cg.explore(TOY, epsilon=1.2, out=tmp_path / "parts", max_episodes=777)
    again = cg.resume(tmp_path / "parts", max_episodes=10**9)
    assert isinstance(again, cg.Exploration)
    assert again.n_episodes == whole.n_episodes
    np.testing.assert_array_equal(again.counts.visits, whole.counts.visits)
    assert cg.certify(tmp_path / "parts").episodes == whole.n_episodes


def test_gymnasium_by_its_own_steps(tmp_path: Path) -> None:
    asked = ("gym:FrozenLake-v1", "--horizon", "6", "--epsilon", "0.5", "--return-range", "0,1")
    done = covgame("identify", *asked, "--out", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["certified_gap"] <= 0.5
    assert answer["value_upper"] <= 1.0
    assert covgame("certify", str(tmp_path / "run")).returncode == 0


def test_options_that_do_not_go_together() -> None:
    for wrong in ({"scale": 0.1}, {"prune": True}, {"suprema": "exact"}):
        with pytest.raises(cg.BadInput, match="paper"):
            cg.identify(TOY, epsilon=1.0, **wrong)
    with pytest.raises(cg.BadInput, match="successors"):
        cg.explore(TOY, epsilon=1.0, most_successors=0)


RARE = """
import gymnasium

class World(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return (2 if self.np_random.random() < 0.001 else int(action)), 0.0, False, False, {}
"""


def test_what_is_proved_to_be_rare_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State 3 does not exist: without --min-reach the run could never end."""
    (tmp_path / "rare_world.py").write_text(RARE)
    monkeypatch.syspath_prepend(str(tmp_path))
    target = cg.cells([(1, 0, 0, 20), (2, 1, 1, 20), (1, 3, 0, 5)])
    asked = {"horizon": 3, "min_reach": 0.05, "seed": 1}
    run = cg.cover("py:rare_world:World", target, out=tmp_path / "run", **asked)  # type: ignore[arg-type]
    assert run.covered
    assert [row for row, _ in run.unreachable] == [(1, 3, 0)]
    assert 0 < run.unreachable[0][1] < 0.05
    assert "proved from the data" in run.to_text()
    parts = cg.cover(
        "py:rare_world:World",
        target,
        out=tmp_path / "parts",
        max_episodes=300,
        **asked,  # type: ignore[arg-type]
    )
    assert not parts.covered
    again = resume(tmp_path / "parts", max_episodes=10**6, trust=True)
    assert again.n_episodes == run.n_episodes
    assert again.unreachable == run.unreachable


def test_identified_policies_are_as_good_as_claimed() -> None:
    """Whole runs at delta = 0.05, validation and stopping rule included: six may fail of 24."""
    runs, failed, validated = 24, 0, 0
    for seed in range(runs):
        world = small(seed, stationary=seed % 2 == 0)
        run = cg.identify(world, epsilon=0.6, delta=0.05, seed=seed)
        assert isinstance(run.algorithm, CertifiedIdentification)
        validated += run.algorithm.attempts > 0
        found = run.conclusion
        assert found is not None
        values = dp.evaluate(world.transitions, found.policy, world.rewards)
        best = dp.backward_induction(world.transitions, world.rewards).values
        mine, top = (dp.initial_value(world.transitions, v) for v in (values, best))
        failed += mine < found.lower - 1e-9 or top > found.upper + 1e-9
    assert failed <= allowed_failures(0.05, runs)
    assert validated > 0


def test_a_validation_is_checked_episode_by_episode(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = cg.identify("garnet:states=12,actions=3,horizon=6", epsilon=0.9, out=out)
    honest = document_of(out, "certificate")
    assert honest["validation"] is not None
    assert cg.certify(out).numbers["gap"] == pytest.approx(run.certified_gap)
    other = np.array(honest["policy"])
    other[0] = (other[0] + 1) % 3
    set_document(out, "certificate", {**honest, "policy": other.tolist()})
    with pytest.raises(cg.BadInput, match="not validated"):
        cg.certify(out)
    # Which episodes validate is not believed but found out: the file may say what it likes.
    elsewhere = {"attempt": 9, "first_episode": 0, "episodes": 7}
    set_document(out, "certificate", {**honest, "validation": elsewhere})
    assert cg.certify(out).numbers["gap"] == pytest.approx(run.certified_gap)
    tampered = pq.read_table(shard := next((out / "episodes").glob("*.parquet")))
    column = tampered["action"].to_numpy().copy()
    column[-1] = (column[-1] + 1) % 3
    pq.write_table(tampered.set_column(3, tampered.schema.field(3), [column]), shard)
    with pytest.raises(cg.BadInput, match="other data"):
        cg.certify(out)


def test_rewards_that_differ_by_stage_are_not_pooled() -> None:
    """Transitions may be stationary where rewards are not: one that is paid at the last stage."""
    kernel = cg.make("chain:states=2,horizon=4").require_model("a test").transitions
    rewards = np.zeros((4, 2, 2))
    rewards[3, :, 1] = 1.0
    rewards[:3, :, 0] = 0.1
    world = TabularMDP(kernel, rewards)
    run = cg.identify(world, epsilon=0.4, delta=0.1)
    assert run.counts.pooled
    found = run.conclusion
    assert found is not None
    values = dp.evaluate(kernel, found.policy, rewards)
    best = dp.backward_induction(kernel, rewards).values
    mine, top = (dp.initial_value(kernel, v) for v in (values, best))
    assert found.lower <= mine <= top <= found.upper


def test_a_run_resumes_in_the_middle_of_a_validation(tmp_path: Path) -> None:
    asked = ("garnet:states=12,actions=3,horizon=6",)
    whole = cg.identify(*asked, epsilon=0.9, out=tmp_path / "whole")
    stop = whole.n_episodes - 150
    cg.identify(*asked, epsilon=0.9, out=tmp_path / "parts", max_episodes=stop)
    again = cg.resume(tmp_path / "parts", max_episodes=10**9)
    assert isinstance(again, cg.Identification)
    assert again.n_episodes == whole.n_episodes
    np.testing.assert_array_equal(again.policy.table, whole.policy.table)
    assert cg.certify(tmp_path / "parts").numbers == cg.certify(tmp_path / "whole").numbers


def test_ranges_of_returns_are_checked() -> None:
    """What a path can earn at most, however unlikely, has to lie in the range that is claimed."""
    river = cg.make("riverswim:states=4,horizon=6").require_model("a test")
    pays = (river.rewards > 0).astype(np.float64)
    assert dp.highest_return(river.transitions, pays) == 6.0
    prize = cg.make("rareprize").require_model("a test")
    assert dp.highest_return(prize.transitions, prize.rewards) == 1.0
    with pytest.raises(cg.BadInput, match="can pay 6"):
        cg.identify(river, epsilon=1.0, return_range=(0, 1))
