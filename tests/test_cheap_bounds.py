"""Bounds on phi* that need no program: always true, and close to it after some rounds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import covgame as cg
from covgame import signals
from covgame.cli.main import main
from covgame.errors import OutOfTime, UnreachableTarget
from covgame.flow import cheap_bounds as module
from covgame.flow.cheap_bounds import cheap_bounds, last_look
from covgame.flow.min_flow import dual_bound, flow_policy, min_flow, policy_bound, quick_min_flow
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.planning import number
from covgame.runs.lower_bound import EPISODES_A_ROUND
from covgame.targets.requests import parse_request
from covgame.targets.target import Target
from tests.rundb import result_of
from tests.test_min_flow import some_target
from tests.worlds import min_episodes_by_enumeration, small_worlds, worlds

seeds = st.integers(0, 2**31)
GRID = "grid:rows=4,columns=4,horizon=10"


def known(name: str, target: str) -> tuple[TabularMDP, Target]:
    model = cg.make(name).model
    assert model is not None
    return model, parse_request(target).resolve(model.transitions)


@given(small_worlds, seeds, st.booleans(), st.sampled_from([0, 1, 3, 24]))
def test_phi_lies_between(world: TabularMDP, seed: int, groups: bool, rounds: int) -> None:
    target = some_target(world, seed, groups)
    assume(len(target))
    phi = min_episodes_by_enumeration(world, target)
    found = cheap_bounds(world.transitions, target, rounds)
    assert found.lower <= phi * (1 + 1e-9)
    assert found.upper >= phi * (1 - 1e-9)


@given(worlds(), seeds, st.booleans())
def test_anybody_can_check_both_sides(world: TabularMDP, seed: int, groups: bool) -> None:
    """The prices prove the one by backward induction, the policy the other by a forward pass."""
    target = some_target(world, seed, groups)
    assume(len(target))
    found = cheap_bounds(world.transitions, target, 12)
    proved = dual_bound(world.transitions, target, found.prices)
    assert found.lower == pytest.approx(proved, rel=1e-9)
    assert found.lower <= proved  # rounded to the safe side
    assert policy_bound(world.transitions, target, found.policy) == pytest.approx(found.upper)


@settings(max_examples=25)
@given(worlds(), seeds, st.booleans())
def test_more_rounds_are_never_worse(world: TabularMDP, seed: int, groups: bool) -> None:
    target = some_target(world, seed, groups)
    assume(len(target))
    found = [cheap_bounds(world.transitions, target, rounds) for rounds in (0, 1, 5, 6, 11, 40)]
    lower, upper = [one.lower for one in found], [one.upper for one in found]
    assert lower == sorted(lower)
    assert upper == sorted(upper, reverse=True)


@settings(max_examples=25)
@given(worlds(), seeds, st.integers(-8, 8))
def test_twice_the_target_is_twice_the_bound(world: TabularMDP, seed: int, power: int) -> None:
    target = some_target(world, seed, groups=True)
    assume(len(target))
    scaled = replace(target, counts=target.counts * 2.0**power)
    once, again = (cheap_bounds(world.transitions, one, 16) for one in (target, scaled))
    assert again.lower == pytest.approx(once.lower * 2.0**power, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "target", "phi"),
    [
        ("lock:horizon=6,actions=3", "uniform:5", 5 * (2 * 6 + 2)),
        ("bandit:contexts=4,actions=3,horizon=4", "proportional:100", 300),
        ("tree:horizon=4,actions=2", "uniform:7", 7 * 2**4),
        (GRID, "uniform:5/pair", None),
        ("riverswim:states=5,horizon=10", "uniform:2", None),
        ("garnet:states=6,actions=3,horizon=5", "uniform:3/state", None),
    ],
)
def test_the_limit_is_phi(name: str, target: str, phi: float | None) -> None:
    """By its closed form where there is one; early looks are far off, so that learning counts."""
    model, wanted = known(name, target)
    phi = phi or min_flow(model.transitions, wanted).min_episodes
    found = cheap_bounds(model.transitions, wanted, 768)
    assert phi * 0.985 <= found.lower <= phi
    assert phi * (1 - 1e-9) <= found.upper <= 1.05 * phi


def test_rows_at_one_stage_are_worth_a_look_of_their_own() -> None:
    """On a tree the busiest stage is all there is to it: no round is needed."""
    model, target = known("tree:horizon=4,actions=2", "uniform:7")
    assert cheap_bounds(model.transitions, target, 0).lower == pytest.approx(7 * 2**4)


def test_what_was_played_is_a_policy_to_begin_with() -> None:
    run = cg.cover(GRID, "uniform:5/pair")
    kernel = run.environment.require_model("this").transitions
    visits = run.counts.visits.astype(float)
    played = policy_bound(kernel, run.target, flow_policy(visits))
    assert cheap_bounds(kernel, run.target, 0, visits).upper <= played * (1 + 1e-12)
    assert played < cheap_bounds(kernel, run.target, 0).upper  # chance alone is worse


def test_looks() -> None:
    looks = sorted({last_look(rounds) for rounds in range(200)})
    assert looks == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192]
    assert [last_look(rounds) for rounds in (5, 7, 191, 192)] == [4, 6, 128, 192]


def test_nothing_and_the_impossible() -> None:
    model, target = known(GRID, "uniform:5")
    assert cheap_bounds(model.transitions, target.keep(target.counts < 0)).lower == 0
    cells = np.zeros(model.shape.hsa)
    cells[0, 3, 0] = 1.0  # an episode begins in the corner
    with pytest.raises(UnreachableTarget):
        cheap_bounds(model.transitions, Target.of_cells(cells))


# ---------------------------------------------------------------------------------- its cost


def passes(monkeypatch: pytest.MonkeyPatch, name: str, rounds: int) -> Counter[str]:
    """How many passes over the kernel a bound takes."""
    done: Counter[str] = Counter()

    def counted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            done[what] += 1
            return function(*arguments)

        return call

    model, target = known(name, "uniform:3/pair")
    with monkeypatch.context() as patched:
        for what in ("backward_induction", "occupancy"):
            patched.setattr(dp, what, counted(what, getattr(dp, what)))
        answers = module._Play._answer_prices
        patched.setattr(module._Play, "_answer_prices", counted("round", answers))
        cheap_bounds(model.transitions, target, rounds)
    return done


def test_the_work_depends_on_the_rounds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (
        passes(monkeypatch, f"grid:rows={side},columns={side},horizon={2 * side + 4}", 32)
        for side in (4, 12)
    )
    looks = 1 + len([1, 2, 3, 4, 6, 8, 12, 16, 24, 32])
    assert small == large == {"round": 32, "backward_induction": looks, "occupancy": 33 + 2 * looks}


def only_cheap_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a world in which phi* takes more than a second or two."""
    monkeypatch.setattr("covgame.runs.lower_bound.LARGE", 10)
    monkeypatch.setattr("covgame.flow.min_flow.QUICK_VARIABLES", 10)


def test_a_short_run_gets_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary may not take longer than the run: its work is counted in episodes."""
    asked: list[int] = []

    def bounds(*arguments: Any) -> Any:
        asked.append(arguments[2])
        return cheap_bounds(*arguments)

    only_cheap_bounds(monkeypatch)
    monkeypatch.setattr("covgame.runs.lower_bound.cheap_bounds", bounds)
    run = cg.cover(GRID, "uniform:3/pair")
    assert run.min_episodes == run.min_episodes  # computed once
    assert asked == [run.n_episodes // EPISODES_A_ROUND]
    assert 0 < asked[0] < module.ROUNDS
    long = cg.cover(GRID, "uniform:500/pair", seed=1)
    assert long.min_episodes
    assert asked[1:] == [module.ROUNDS]


def test_time_limits() -> None:
    with signals.time_limit(3600), signals.time_limit(0), pytest.raises(OutOfTime):
        signals.check()
    with signals.time_limit(0), signals.time_limit(3600), pytest.raises(OutOfTime):
        signals.check()
    signals.check()  # it ends with the block


def test_a_plan_in_less_time_than_it_takes() -> None:
    """The program has 12,000 variables and takes seconds; what is printed is still proved."""
    plan = cg.plan("grid:rows=10,columns=10,horizon=30", "uniform:3/pair", seconds=0.1)
    assert plan.min_episodes_is == "lower bound"
    assert 25 < plan.min_episodes <= 46.4 <= plan.attained
    assert "phi* itself takes more than 0.1 seconds" in plan.to_text()
    assert plan.to_dict()["min_episodes_is"] == "lower bound"


def test_a_plan_in_time() -> None:
    plan = cg.plan(GRID, "uniform:5/pair", seconds=3600)
    exact = cg.plan(GRID, "uniform:5/pair")
    assert plan.min_episodes == pytest.approx(exact.min_episodes)
    assert plan.min_episodes_is == exact.min_episodes_is == "exact"
    assert "agree to" in plan.to_text()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "soon"])
def test_seconds_are_positive(seconds: Any) -> None:
    with pytest.raises(cg.BadInput, match="seconds"):
        cg.plan(GRID, "uniform:5/pair", seconds=seconds)


# ------------------------------------------------------------------------------------- cover


def test_small_worlds_are_solved() -> None:
    run = cg.cover(GRID, "uniform:5/pair")
    assert run.min_episodes == cg.plan(GRID, "uniform:5/pair").min_episodes
    assert (run.min_episodes_is, run.min_episodes_estimate) == ("exact", None)
    assert f"(phi*); this run took {run.ratio:.3f} times as many" in run.to_text()


def test_large_worlds_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = cg.plan(GRID, "uniform:5/pair").min_episodes
    only_cheap_bounds(monkeypatch)
    run = cg.cover(GRID, "uniform:5/pair", out=tmp_path)
    assert run.min_episodes is not None
    assert run.min_episodes_is == "lower bound"
    assert 0.5 * exact < run.min_episodes < exact
    assert run.ratio == run.n_episodes / run.min_episodes
    assert f"at most {run.ratio:.3f} times the minimum" in run.to_text()
    saved = result_of(tmp_path)
    assert saved == run.to_dict()
    assert (saved["min_episodes"], saved["min_episodes_is"]) == (run.min_episodes, "lower bound")
    assert cg.load(tmp_path).to_dict()["min_episodes"] == run.min_episodes


def test_quick_programs_are_solved_in_large_worlds_too() -> None:
    """More than 5,000 cells, and a program of a second or two: the bound is phi*."""
    run = cg.cover("gym:CliffWalking-v1", "uniform:1/pair", horizon=40)
    assert run.is_large
    exact = cg.plan("gym:CliffWalking-v1", "uniform:1/pair", horizon=40)
    assert run.min_episodes_is == "exact"
    assert run.min_episodes == pytest.approx(exact.min_episodes, rel=1e-5)
    assert f"(phi*); this run took {run.ratio:.3f} times as many" in run.to_text()
    assert run.has_exact_bound


def test_the_better_bound_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the quick program comes back with a gap, each side is the better one of the two."""
    exact = cg.plan(GRID, "uniform:5/pair").min_flow
    poor = replace(exact, lower=exact.lower / 10, prices=exact.prices / 10)
    monkeypatch.setattr("covgame.runs.lower_bound.LARGE", 10)
    monkeypatch.setattr("covgame.runs.lower_bound.quick_min_flow", lambda *_: poor)
    run = cg.cover(GRID, "uniform:5/pair")
    assert run.lower_bound is not None
    assert run.min_episodes_is == "lower bound"
    assert exact.lower / 10 < run.lower_bound.episodes < exact.lower
    assert run.lower_bound.attained == exact.upper
    bracket = (
        f"{number(run.lower_bound.episodes)} to {number(exact.upper)} on average (bounds on phi*)"
    )
    assert bracket in run.to_text()
    assert not run.has_exact_bound


def test_what_takes_longer_is_not_tried() -> None:
    for env, target in [
        ("grid:rows=30,columns=30,horizon=60", "uniform:1/pair"),
        ("garnet:states=500,horizon=10", "uniform:1/pair"),
    ]:
        kernel = cg.make(env).require_model("a test").transitions
        assert quick_min_flow(kernel, parse_request(target).resolve(kernel)) is None


def test_whoever_asks_gets_phi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = cg.plan(GRID, "uniform:5/pair").min_episodes
    only_cheap_bounds(monkeypatch)
    run = cg.cover(GRID, "uniform:5/pair", exact_bound=True, out=tmp_path)
    assert (run.min_episodes, run.min_episodes_is) == (exact, "exact")
    saved = result_of(tmp_path)
    assert (saved["min_episodes"], saved["min_episodes_is"]) == (exact, "exact")
    assert (
        cg.resume(tmp_path).to_dict()["min_episodes_is"] == "exact"
    )  # it is part of what was asked


def test_who_does_not_wait_for_phi_keeps_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    only_cheap_bounds(monkeypatch)
    monkeypatch.setattr("covgame.runs.lower_bound.min_flow", interrupted)
    words = ["cover", GRID, "--target", "uniform:5/pair", "--exact-bound", "--json"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "run")])
    assert done.exit_code == 130
    assert "phi* was not computed" in done.stderr
    answer = json.loads(done.stdout)
    assert (answer["covered"], answer["min_episodes_is"]) == (True, "lower bound")
    monkeypatch.undo()
    again = CliRunner().invoke(main, ["resume", str(tmp_path / "run"), "--json"])
    assert (again.exit_code, json.loads(again.stdout)["min_episodes_is"]) == (0, "exact")


# ------------------------------------------------------------------------- without a model


class Walk:
    """Five rooms in a row; a step fails with probability 0.3. Nobody has a table of it."""

    actions = 2

    def reset(self, seed: int) -> int:
        self.random, self.room = Random(seed), 0
        return self.room

    def step(self, action: int) -> tuple[int, float, bool]:
        if self.random.random() > 0.3:
            self.room = min(max(self.room + (1 if action else -1), 0), 4)
        return self.room, 0.0, False


def table_of_walk() -> dict[str, Any]:
    chances: Counter[tuple[Any, ...]] = Counter()
    for room in range(5):
        for action, step in ((0, -1), (1, 1)):
            chances[None, room, action, room] += 3
            chances[None, room, action, min(max(room + step, 0), 4)] += 7
    return {
        "format": "covgame-mdp/1",
        "horizon": 8,
        "states": 5,
        "actions": 2,
        "initial": 0,
        "transitions": [[*place, tenths / 10] for place, tenths in chances.items()],
    }


def test_an_estimate_where_the_model_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "walk.json").write_text(json.dumps(table_of_walk()))
    phi = cg.plan(tmp_path / "walk.json", "uniform:40/pair").min_episodes
    run = cg.cover(Walk, "uniform:40/pair", horizon=8)
    assert (run.min_episodes, run.min_episodes_is, run.ratio) == (None, None, None)
    assert run.min_episodes_estimate == pytest.approx(phi, rel=0.15)
    assert "an estimate, not a bound" in run.to_text()
    assert run.to_dict()["min_episodes_estimate"] == run.min_episodes_estimate


@pytest.mark.parametrize(("target", "budget"), [("uniform:2/pair", None), ("uniform:40/pair", 10)])
def test_no_estimate_from_little(target: str, budget: int | None) -> None:
    """With few visits it would be off by up to a factor of 2; and before the end there is none."""
    run = cg.cover(Walk, target, horizon=8, max_episodes=budget)
    assert run.min_episodes_estimate is None
    assert "estimate" not in run.to_text()
