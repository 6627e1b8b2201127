"""Stages that are supposed to be alike: tested on the way, taken apart when they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy.stats import binom

import covgame as cg
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.pac.assumptions import SUPPOSED_STAGES
from covgame.pac.certified import Certified
from covgame.pac.error_bounds import Range
from covgame.pac.homogeneity import MOVES_DIFFER, REWARDS_DIFFER, SHARE, TRUNCATED, difference
from covgame.runs.resume import resume
from covgame.sources.simulated import SimulatedSource
from covgame.types import Policy, Shape
from tests.rundb import document_of, set_config, set_document, spoil_arrays
from tests.worlds import random_world


class Hall(gymnasium.Env[int, int]):
    """Three states that anything may follow; how it ends, and what it pays, is up to the kind."""

    observation_space: Any = gymnasium.spaces.Discrete(3)
    action_space: Any = gymnasium.spaces.Discrete(2)
    kind = "plain"

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.time += 1
        state = int(self.np_random.choice(3, p=[[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]][action]))
        reward = 0.1 * state + (0.5 if self.kind == "pays late" and self.time > 2 else 0.0)
        late = self.time >= 3
        return state, reward, self.kind == "ends" and late, self.kind == "truncates" and late, {}


class Truncates(Hall):
    kind = "truncates"


class Ends(Hall):
    kind = "ends"


class PaysLate(Hall):
    kind = "pays late"


def learner(run: Any) -> Certified:
    assert isinstance(run.algorithm, Certified)
    return run.algorithm


def test_episodes_cut_short_take_stages_apart(tmp_path: Path) -> None:
    """Ten stages, of which the environment plays three: pooled, this was 'certified', and wrong."""
    run = cg.explore(Truncates, horizon=10, epsilon=4.0, out=tmp_path / "run")
    assert not run.counts.pooled
    assert run.parting is not None
    assert run.parting.why == TRUNCATED
    assert run.guarantee.endswith("stages apart")
    assert "kept apart since episode 1: episodes are cut short" in run.to_text()
    assert run.to_dict()["parted"] == {"episodes": 1, "why": TRUNCATED}
    assert run.to_dict()["pooled"] is False
    assert SUPPOSED_STAGES not in cg.certify(tmp_path / "run").assumptions
    asked = cg.explore(Truncates, horizon=10, epsilon=4.0, stage_dependent=True)
    assert asked.parting is None
    assert asked.n_episodes < run.n_episodes  # all of delta is there for it


class ThreeSteps(Hall):
    """Action 0 goes on to the next of three states, nearly always; after three steps it is cut."""

    state: int = 0

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.state = 0 if self.time == 0 else self.state
        self.time += 1
        if action == 0 and self.np_random.random() < 0.9:
            self.state = min(2, self.state + 1)
        return self.state, 0.0, False, self.time >= 3, {}


def test_what_is_certified_holds_where_episodes_are_cut_short() -> None:
    """With stages pooled, planning lost more here than was certified."""
    run = cg.explore(ThreeSteps, horizon=10, epsilon=1.5)
    p = np.zeros((3, 2, 3))
    for s in range(3):
        p[s, 0, s], p[s, 1, s] = 0.1, 1.0
        p[s, 0, min(2, s + 1)] += 0.9
    rng = np.random.default_rng(0)
    for _ in range(200):
        reward = rng.random((3, 2)) * (rng.random((3, 2)) < 0.6)
        plan, best, value = run.model.plan(reward).table, np.zeros(3), np.zeros(3)
        for h in (2, 1, 0):
            best = (reward + p @ best).max(axis=1)
            value = (reward + p @ value)[np.arange(3), plan[h]]
        assert run.certified_error is not None
        assert best[0] - value[0] <= run.certified_error <= 1.5


def test_an_end_at_a_certain_stage_is_noticed() -> None:
    run = cg.explore(Ends, horizon=6, epsilon=4.0, max_episodes=400)
    assert run.parting is not None
    assert run.parting.why == MOVES_DIFFER
    assert run.parting.episodes < 200


def test_pay_that_depends_on_the_stage_is_noticed(tmp_path: Path) -> None:
    run = cg.identify(PaysLate, horizon=4, epsilon=0.9, out=tmp_path / "run")
    assert run.parting is not None
    assert run.parting.why == REWARDS_DIFFER
    assert run.certified_gap is not None
    assert run.certified_gap <= 0.9
    cg.certify(tmp_path / "run")


def test_what_is_alike_stays_together(tmp_path: Path) -> None:
    for command in (cg.explore, cg.identify):
        folder = tmp_path / command.__name__
        run = command(Hall, horizon=4, epsilon=1.0, out=folder)
        assert run.counts.pooled
        assert run.parting is None
        assert learner(run).share == (1 - SHARE) * 0.1
        assert SUPPOSED_STAGES in cg.certify(folder).assumptions


def test_models_know_their_stages() -> None:
    run = cg.explore("garnet:states=3,actions=2,horizon=3", epsilon=1.5)
    assert learner(run).stages == "known"
    assert learner(run).share == 0.1


def test_false_alarms_are_as_rare_as_promised() -> None:
    """At a level of 0.2, over all pairs, moves and rewards, and all looks."""
    rng, runs, alarms = np.random.default_rng(5), 120, 0
    for seed in range(runs):
        world = random_world(rng, Shape(4, 3, 2), stationary=True)
        source, apart = SimulatedSource(world, seed), Counts(world.shape, pooled=False)
        policy, alarm = Policy.uniform(world.shape), False
        for episode in range(160):
            apart.add(source.play(policy, episode))
            if episode % 20 == 19:
                alarm |= difference(apart, 4, 0.2 / SHARE, Range()) is not None
        alarms += alarm
    assert alarms <= binom.ppf(0.999, runs, 0.2)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("world", [Ends, Truncates])
def test_taken_apart_or_not_a_run_goes_on_as_it_would_have(
    tmp_path: Path, world: type[Hall], lost: bool
) -> None:
    asked: dict[str, Any] = {"horizon": 4, "epsilon": 2.0}
    whole = cg.identify(world, **asked)
    assert whole.parting is not None
    for stop in (1, whole.parting.episodes + 3, whole.parting.episodes + 30):
        run = tmp_path / f"run-{stop}"
        cg.identify(world, max_episodes=stop, out=run, **asked)
        if lost:
            spoil_arrays(run)
            with pytest.warns(UserWarning, match="counted again"):
                again = resume(run, max_episodes=10**6, env=world)
        else:
            again = resume(run, max_episodes=10**6, env=world)
        found, wanted = again.to_dict(), whole.to_dict()
        assert found["parted"] == wanted["parted"]
        assert found["episodes"] == wanted["episodes"]
        assert found["certified_gap"] == pytest.approx(wanted["certified_gap"])
        cg.certify(run)


def test_what_is_cut_short_is_not_reached_later() -> None:
    """No state is ever reached after three steps, which counts by stage show."""
    target = cg.cells([(1, 0, 0, 20), (5, 0, 0, 5)])
    run = cg.cover(Truncates, target, horizon=6, min_reach=0.2, max_episodes=400)
    assert not run.counts.pooled
    assert [row for row, _ in run.unreachable] == [(5, 0, 0)]
    assert run.covered


def edit_claim(run: Path, **changes: Any) -> None:
    set_document(run, "certificate", {**document_of(run, "certificate"), **changes})


def test_certify_compares_stages_with_what_was_asked(tmp_path: Path) -> None:
    cg.explore(Hall, horizon=3, epsilon=2.0, out=tmp_path / "run")
    set_config(tmp_path / "run", stage_dependent=True)
    with pytest.raises(BadInput, match="pooled is True here and False in"):
        cg.certify(tmp_path / "run")
    set_config(tmp_path / "run", stage_dependent=False)
    edit_claim(tmp_path / "run", stages="parted")
    with pytest.raises(BadInput, match="other terms"):
        cg.certify(tmp_path / "run")
    edit_claim(tmp_path / "run", stages="known", delta=0.1)
    with pytest.raises(BadInput, match="tests its stages"):
        cg.certify(tmp_path / "run")


def test_certify_looks_at_the_stages_itself(tmp_path: Path) -> None:
    """A run that had not noticed, or whose certificate was written by somebody else."""
    for world, why in ((Truncates, TRUNCATED), (Ends, MOVES_DIFFER)):
        folder = tmp_path / world.__name__
        run = cg.explore(world, horizon=4, epsilon=2.0, out=folder)
        algorithm = learner(run)
        from covgame.runs.certificates import data_hash
        from covgame.storage.reading import RecordedEpisodes

        pooled = RecordedEpisodes(folder / "episodes", algorithm.counts.shape).counts(pooled=True)
        claim = {"pooled": True, "stages": "tested", "data": data_hash(pooled)}
        edit_claim(folder, **claim, numbers={"error": 2.0})
        with pytest.raises(BadInput, match=why):
            cg.certify(folder)
