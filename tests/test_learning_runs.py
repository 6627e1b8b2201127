"""``explore``, ``identify`` and ``policy`` as people use them: commands, folders, resuming."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.config import LearnConfig
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.runs import learn as learning
from covgame.runs.loop import play
from covgame.runs.run import create_folder
from covgame.storage.reading import RecordedEpisodes
from covgame.types import Shape
from tests.rundb import arrays_of, config_of, query, result_of, set_arrays, set_config
from tests.test_cli import covgame, interrupted

TOY = "garnet:states=3,actions=2,horizon=3"
EXPLORE = ("explore", TOY, "--epsilon", "1.5", "--preset", "paper")
IDENTIFY = ("identify", TOY, "--epsilon", "1", "--preset", "paper")
STEP_BY_STEP = ("--play", "exact", "--scale", "1e-4")


def answered(*args: str, code: int = 0) -> dict[str, Any]:
    done = covgame(*args, "--json")
    assert done.returncode == code, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def assert_same(one: Path, other: Path) -> None:
    first, second = arrays_of(one), arrays_of(other)
    assert first.keys() == second.keys()
    for name in first.keys() - {"progress"}:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    results = [result_of(path) for path in (one, other)]
    for result in results:
        del result["run"]
    assert results[0] == results[1]


def reward_file(tmp_path: Path, rows: list[Any], form: str = "covgame-reward/1") -> str:
    path = tmp_path / "reward.json"
    path.write_text(json.dumps({"format": form, "rewards": rows}))
    return str(path)


# ------------------------------------------------------------------------------ explore


def test_explore_and_plan_on_it(tmp_path: Path) -> None:
    """The whole way of a user: explore once, then a policy for any reward."""
    run = tmp_path / "run"
    answer = answered(*EXPLORE, "--out", str(run))
    assert answer["stopped_by"] == "rule"
    assert answer["certified_error"] <= 1.5
    assert answer["episodes"] == sum(phase["episodes"] for phase in answer["phases"])
    assert answer["episodes"] > 10**15
    assert answer["play"] == "counts"
    assert not (run / "episodes").exists()
    assert {"visits", "transitions", "reward_sums"} <= arrays_of(run).keys()
    saved = result_of(run)
    assert saved == answer
    planned = answered("policy", str(run), "--reward", reward_file(tmp_path, [[2, 1, 0, 1.0]]))
    world = cg.make(TOY).require_model("a test")
    assert np.array(planned["policy"]).shape == (3, 3)
    reach = dp.reachability(world.transitions)[2, 1]
    assert planned["value"] == pytest.approx(reach, abs=0.01)


def test_explore_from_python() -> None:
    model = cg.explore(TOY, epsilon=1.5, preset="paper").model
    reward = np.zeros(model.shape.hsa)
    reward[1, 2, 0] = 1.0
    policy = model.plan(reward)
    assert not policy.is_stochastic
    assert model.value(policy, reward) == pytest.approx(
        dp.reachability(cg.make(TOY).require_model("a test").transitions)[1, 2], abs=0.01
    )
    assert model.plan(np.ones(3)).table.shape == (3, 3)
    for wrong in (np.ones(4), -np.ones((3, 3, 2)), np.full((3, 2), np.nan)):
        with pytest.raises(cg.BadInput, match="reward"):
            model.plan(wrong)


def test_the_forecast_is_said_before_the_run(tmp_path: Path) -> None:
    done = covgame(*EXPLORE, "--out", str(tmp_path / "run"))
    assert done.returncode == 0
    assert (
        "at least 1.07e+15 episodes on average: visitations of 9 (stage, state) 1.07e+15"
        in done.stderr
    )
    assert "error        at most" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("gym:FrozenLake-v1", "--horizon", "3"), "save its table"),
        (("gym:FrozenLake-v1", "--horizon", "12"), "64-bit"),
        ((TOY, "--play", "exact"), "--play counts"),
        (("garnet:states=20,actions=4,horizon=10",), "64-bit"),
        (("gym:Blackjack-v1", "--horizon", "3"), "--most-states"),
    ],
)
def test_what_cannot_end_is_refused_with_its_number(args: tuple[str, ...], said: str) -> None:
    done = covgame("explore", *args, "--epsilon", "1", "--preset", "paper")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    if "Blackjack" not in args[0]:
        assert "e+" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--epsilon", "0"), "epsilon"),
        (("--epsilon", "nan"), "epsilon"),
        (("--epsilon", "1", "--delta", "1"), "delta"),
        (("--epsilon", "1", "--scale", "-1"), "scale"),
        (("--epsilon", "1", "--seed", "-1"), "seed"),
        (("--epsilon", "1", "--max-episodes", "-5"), "--max-episodes"),
        ((), "--epsilon"),
    ],
)
def test_bad_numbers(args: tuple[str, ...], said: str) -> None:
    for command in ("explore", "identify"):
        done = covgame(command, TOY, "--preset", "paper", *args)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert "Traceback" not in done.stderr


# ----------------------------------------------------------------------------- identify


def test_identify(tmp_path: Path) -> None:
    answer = answered(*IDENTIFY, "--out", str(tmp_path / "run"))
    world = cg.make(TOY).require_model("a test")
    policy = cg.Policy.deterministic(np.array(answer["policy"]), 2)
    values = dp.evaluate(world.transitions, policy, world.rewards)
    best = dp.backward_induction(world.transitions, world.rewards).values
    mine, theirs = (dp.initial_value(world.transitions, v) for v in (values, best))
    assert answer["value_lower"] <= mine <= theirs <= answer["value_upper"]
    assert answer["certified_gap"] == answer["value_upper"] - answer["value_lower"] <= 1
    assert theirs - mine <= answer["certified_gap"]
    assert answer["guarantee"] == "the paper's, with probability 0.9"
    assert answered(*IDENTIFY, "--out", str(tmp_path / "again"))["episodes"] == answer["episodes"]
    assert_same(tmp_path / "run", tmp_path / "again")


def test_on_gymnasium_with_constants_of_ones_own(tmp_path: Path) -> None:
    """Honestly labelled: scaled thresholds prove nothing."""
    args = ("gym:FrozenLake-v1", "--horizon", "4", "--epsilon", "1", "--scale", "1e-7")
    answer = answered("identify", *args, "--preset", "paper", "--out", str(tmp_path / "run"))
    assert answer["guarantee"].startswith("none")
    assert answer["play"] == "exact"
    assert list((tmp_path / "run" / "episodes").glob("*.parquet"))
    assert len(answer["policy"]) == 4
    assert {len(row) for row in answer["policy"]} == {16}


def test_pruning_warns_and_needs_episodes(tmp_path: Path) -> None:
    args = ("identify", "rareprize", "--epsilon", "0.2", "--preset", "paper", "--prune")
    done = covgame(*args, "--scale", "2e-5", "--out", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    assert "biases" in done.stderr
    answer = json.loads(done.stdout)
    assert answer["guarantee"] == "none: the paper's thresholds were scaled by 2e-05"
    assert any("kept" in phase for phase in answer["phases"])
    done = covgame(*args, "--play", "counts")
    assert (done.returncode, done.stdout) == (2, "")


# ---------------------------------------------------------------------- policy, rewards


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learnt") / "run"
    cg.identify(TOY, epsilon=1.0, preset="paper", scale=1e-6, out=path)
    return path


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[0, 0, 0, 1.5]], "less than or equal to 1"),
        ([[0, 0, 0, -0.1]], "greater than or equal to 0"),
        ([[3, 0, 0, 0.5]], "3 stages"),
        ([[0, 3, 0, 0.5]], "3 states"),
        ([[0, 0, 2, 0.5]], "2 actions"),
        ([[0, 0, 0, 0.5], [0, 0, 0, 0.5]], "already"),
        ([[None, 0, 0, 0.5], [0, 0, None, 0.5]], "already"),
        ([[0, 0, 0]], "rewards"),
        ("x", "rewards"),
    ],
)
def test_bad_reward_files(learnt: Path, tmp_path: Path, rows: Any, said: str) -> None:
    done = covgame("policy", str(learnt), "--reward", reward_file(tmp_path, rows))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_rewards_for_every_stage_or_action(learnt: Path, tmp_path: Path) -> None:
    by_null = answered(
        "policy", str(learnt), "--reward", reward_file(tmp_path, [[None, 1, None, 0.5]])
    )
    rows = [[h, 1, a, 0.5] for h in range(3) for a in range(2)]
    assert answered("policy", str(learnt), "--reward", reward_file(tmp_path, rows)) == by_null
    nothing = answered("policy", str(learnt), "--reward", reward_file(tmp_path, []))
    assert nothing["value"] == 0.0
    done = covgame("policy", str(learnt), "--reward", reward_file(tmp_path, []))
    assert "  state 2  action 0" in done.stdout


def test_policy_on_a_run_of_cover(tmp_path: Path) -> None:
    cg.cover("riverswim:states=4,horizon=5", "uniform:20", out=tmp_path / "run")
    planned = answered(
        "policy", str(tmp_path / "run"), "--reward", reward_file(tmp_path, [[4, 3, None, 1.0]])
    )
    assert len(planned["policy"]) == 5
    assert planned["value"] > 0.05
    model = cg.learnt_model(tmp_path / "run")
    assert (model.rewards[:, 3, 1][model.visits[:, 3, 1] > 0] > 0.9).all()  # the river's end pays


def test_policy_without_a_run(tmp_path: Path) -> None:
    file = reward_file(tmp_path, [])
    for wrong in (tmp_path, tmp_path / "none"):
        done = covgame("policy", str(wrong), "--reward", file)
        assert (done.returncode, done.stdout) == (2, "")
        assert "is not a covgame run" in done.stderr


# --------------------------------------------------------------------- budgets, resuming


@pytest.mark.parametrize("command", [pytest.param(EXPLORE, marks=pytest.mark.slow), IDENTIFY])
def test_a_budget_and_going_on_step_by_step(command: tuple[str, ...], tmp_path: Path) -> None:
    """Played one by one, a run in pieces is the same run."""
    scale = ("--play", "exact", "--scale", "1e-9" if command is EXPLORE else "1e-4")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    full = answered(*command, *scale, "--out", str(whole))
    cuts = [full["episodes"] // 7, full["episodes"] // 2]
    first = answered(*command, *scale, "--out", str(parts), "--max-episodes", str(cuts[0]), code=3)
    assert first["stopped_by"] == "budget"
    assert first["episodes"] == cuts[0]
    second = answered("resume", str(parts), "--max-episodes", str(cuts[1]), code=3)
    assert second["episodes"] == cuts[1]
    answered("resume", str(parts), "--max-episodes", str(10**9))
    assert_same(whole, parts)
    for path in (whole, parts):
        episodes = RecordedEpisodes(path / "episodes", Shape(3, 3, 2))
        assert len(episodes) == full["episodes"]  # none twice, none lost
    assert answered("resume", str(parts)) == result_of(parts)


def test_killed_by_counts_and_resumed(tmp_path: Path) -> None:
    """Stopped between two blocks, as after a kill; the rest comes out the same."""
    whole = tmp_path / "whole"
    cg.explore(TOY, epsilon=1.5, preset="paper", out=whole)
    for stop in (3, 40):
        parts = tmp_path / f"parts-{stop}"
        settings = LearnConfig(command="explore", epsilon=1.5, preset="paper")
        run = learning.start(TOY, settings)
        create_folder(run, parts)
        playing = play(run)
        for _ in range(stop):
            next(playing)
        playing.close()
        resumed = cg.resume(parts)
        assert isinstance(resumed, cg.Exploration)
        assert resumed.done
        assert_same(whole, parts)


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    command = (*EXPLORE, "--play", "exact", "--scale", "1e-9", "--json", "--out")
    done = interrupted(signal.SIGINT, 5000, *command, "run", cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    answer = json.loads(done.stdout)
    assert answer["stopped_by"] == "interrupted"
    assert covgame("resume", "run", "--json", cwd=tmp_path).returncode == 0
    assert covgame(*command, "whole", cwd=tmp_path).returncode == 0
    assert_same(tmp_path / "whole", tmp_path / "run")
    whole = result_of(tmp_path / "whole")
    assert 5000 <= answer["episodes"] < whole["episodes"]


def test_runs_that_were_tampered_with(tmp_path: Path) -> None:
    path = tmp_path / "run"
    cg.identify(TOY, epsilon=1.0, preset="paper", scale=1e-6, out=path)
    manifest = config_of(path)
    for key, value in (("epsilon", "x"), ("preset", "best"), ("command", "dance"), ("horizon", 0)):
        set_config(path, **{**manifest, key: value})
        with pytest.raises(cg.BadInput):
            cg.resume(path)
    set_config(path, **manifest)
    saved, whole = arrays_of(path), result_of(path)
    for broken in (
        {**saved, "progress": np.array("{}")},
        {**saved, "visits": saved["visits"][:2]},
        {name: value for name, value in saved.items() if name != "transitions"},
    ):
        set_arrays(path, broken)
        with pytest.raises(cg.BadInput, match="the saved state"):
            cg.load(path)
        with pytest.warns(UserWarning, match="everything is simulated again"):
            assert cg.resume(path).n_episodes == whole["episodes"]


def test_progress_is_told_part_by_part() -> None:
    seen: list[int] = []
    run = cg.identify(
        TOY, epsilon=1.0, preset="paper", scale=1e-5, progress=lambda run: seen.append(run.n_tasks)
    )
    assert seen == sorted(seen)
    assert seen[-1] == len(run.phases) == run.n_tasks
    assert "phase" in run.to_text()
    assert "Identification" in repr(run)


# ---------------------------------------------------------------------------- functionals


def test_functionals_from_the_command_line() -> None:
    alone = answered(
        "plan", "bandit:contexts=3,actions=2,horizon=3", "--functionals", "--epsilon", "0.1"
    )
    assert alone["functionals"]["pce"] == pytest.approx(5400)
    both = answered("plan", TOY, "--target", "uniform:5", "--functionals", "--epsilon", "0.1")
    assert both["min_episodes"] > 0
    assert both["functionals"]["epsilon"] == 0.1
    done = covgame(
        "plan", "garnet:states=20,actions=4,horizon=8", "--functionals", "--epsilon", "0.1"
    )
    assert "too many policies" in done.stdout
    for wrong in (
        ("--functionals",),
        ("--target", "uniform:5", "--epsilon", "1"),
        ("--plot", "x.svg"),
    ):
        assert covgame("plan", TOY, *wrong).returncode == 2


# ---------------------------------------------------------------------------- hard cases


@pytest.mark.parametrize(
    "args",
    [
        ("--epsilon", "1e-300"),
        ("--epsilon", "1", "--scale", "1e300"),
        ("--epsilon", "1", "--delta", "5e-324"),
    ],
)
def test_numbers_beyond_reason_are_refused(args: tuple[str, ...]) -> None:
    done = covgame("explore", TOY, "--preset", "paper", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "internal error" not in done.stderr


def test_counts_never_pass_what_64_bits_hold() -> None:
    """2^62 episodes are a budget: the run stops there, saved and with an answer."""
    run = learning.start(TOY, LearnConfig(command="identify", epsilon=1.0, preset="paper"))
    assert run.budget_left == 2**62
    run.n_before = 2**62 - 5
    assert run.budget_left == 5
    for _ in play(run):
        pass
    assert run.stopped == "budget"
    assert run.n_episodes == 2**62


def test_masks_without_a_table_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    for learn in (cg.explore, cg.identify):
        with pytest.raises(cg.BadInput, match="forbids actions"):
            learn("py:gym_world:stairs", epsilon=1.0, horizon=3)


def test_forbidden_actions_of_a_table_are_never_recommended() -> None:
    """Taxi-like masks: a model with forbidden actions, played by counts and planned on."""
    world = cg.make("chain:states=3,horizon=3").require_model("a test")
    kernel = world.transitions
    allowed = np.ones((3, 2), dtype=np.bool_)
    allowed[0, 0] = False
    row = np.repeat(np.arange(len(kernel.start) - 1), np.diff(kernel.start))
    kept = row != 0
    masked = replace(
        Transitions.from_entries(
            kernel.shape,
            kernel.initial,
            row[kept],
            kernel.next_state[kept],
            kernel.probability[kept],
            stationary=True,
        ),
        allowed=allowed,
    )
    model = replace(world, transitions=masked)
    run = cg.explore(model, epsilon=2.0, play="counts")
    assert run.counts.visits[:, 0, 0].sum() == 0
    reward = np.zeros((3, 3, 2))
    reward[:, 0, 0] = 1.0  # tempting and forbidden
    assert (run.model.plan(reward).table[:, 0] == 1).all()


def test_what_is_not_proved_yet_is_not_promised(tmp_path: Path) -> None:
    answer = answered(*EXPLORE, "--max-episodes", "1000", "--out", str(tmp_path / "run"), code=3)
    assert answer["guarantee"] == "none yet"
    assert answer["certified_error"] is None
    planned = answered("policy", str(tmp_path / "run"), "--reward", reward_file(tmp_path, []))
    assert planned["finished"] is False
    done = covgame("policy", str(tmp_path / "run"), "--reward", reward_file(tmp_path, []))
    assert "nothing is guaranteed" in done.stdout


def test_functionals_where_every_episode_ends_at_once(tmp_path: Path) -> None:
    place = tmp_path / "short.json"
    rows = [[0, 0, a, None, 1.0] for a in (0, 1)]
    place.write_text(
        json.dumps(
            {
                "format": "covgame-mdp/1",
                "horizon": 2,
                "states": 1,
                "actions": 2,
                "initial": 0,
                "transitions": rows,
                "rewards": [[0, 0, 0, 0.5]],
            }
        )
    )
    found = answered("plan", str(place), "--functionals", "--epsilon", "0.1")["functionals"]
    assert found["policy_gap"] == pytest.approx(0.5)
    assert found["pedel"] == pytest.approx(2**4 * 2 / 0.5**2, rel=1e-3)


@pytest.mark.parametrize("command", [EXPLORE, IDENTIFY])
def test_a_proof_takes_one_worker_and_says_why(command: tuple[str, ...], tmp_path: Path) -> None:
    done = covgame(*command, "--workers", "2", "--out", str(tmp_path / "run"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "certificates need episodes in starting order" in done.stderr
    assert not (tmp_path / "run").exists()


class Drift:
    """Four states in a ring."""

    actions, horizon = 2, 4

    def reset(self, seed: int | None = None) -> int:
        self.rng, self.at = np.random.default_rng(seed), 0
        return self.at

    def step(self, action: int) -> tuple[int, float, bool]:
        self.at = (self.at + action + int(self.rng.random() < 0.3)) % 4
        return self.at, 0.0, False


def test_resuming_removes_the_certificate_of_an_earlier_stop(tmp_path: Path) -> None:
    """A run that ends within a round has none, whether or not it was stopped before."""
    cg.explore(Drift, epsilon=0.5, most_states=4, max_episodes=300, out=tmp_path / "whole")
    cg.explore(Drift, epsilon=0.5, most_states=4, max_episodes=201, out=tmp_path / "run")
    assert query(tmp_path / "run", "SELECT name FROM documents") == [("certificate",)]
    cg.resume(tmp_path / "run", env=Drift, max_episodes=300)
    assert query(tmp_path / "run", "SELECT * FROM documents") == []
    assert query(tmp_path / "whole", "SELECT * FROM documents") == []
