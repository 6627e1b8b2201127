"""What certificates need of data, for every way in (docs/certified.md, section 7).

The world: action 0 ("risky") pays 1 and ends the episode with probability 1/2, action 1 ("safe")
pays 0.7. With four stages the best policy is safe, safe, safe, risky, and earns 3.1.
"""

from __future__ import annotations

import csv
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

import covgame as cg
from covgame import BadInput
from covgame.pac.assumptions import CUT_BY_ENVIRONMENT, ONLY_OUTCOMES

H = 4
BEST = 3.1
ALL = ("episode", "stage", "state", "action", "reward", "next_state", "terminated", "truncated")


class Risky:
    """The world above; ``how`` says how an episode ends."""

    actions, horizon, how = ("risky", "safe"), H, "terminated"

    def reset(self, seed: int | None = None) -> int:
        self.rng = random.Random(seed)
        return 0

    def step(self, action: str) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if action == "safe":
            return 0, 0.7, False, False, {}
        over = self.rng.random() < 0.5
        terminated = over and self.how == "terminated"
        return 0, 1.0, terminated, over and self.how == "truncated", {}


class Truncates(Risky):
    """A watchdog breaks episodes off; nothing terminates them."""

    how = "truncated"


def value_of(policy: list[list[int]]) -> float:
    value = 0.0
    for actions in reversed(policy):
        value = 1.0 + 0.5 * value if actions[0] == 0 else 0.7 + value
    return value


def table(
    path: Path,
    columns: tuple[str, ...],
    *,
    end: str = "terminated",
    episodes: int = 3000,
    steps: int = H,
    seed: int = 0,
) -> Path:
    """Episodes of random actions as a table; ``end`` is the flag of those that end early."""
    rng = random.Random(seed)
    with path.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        for episode in range(episodes):
            for stage in range(steps):
                action = rng.randrange(2)
                over = action == 0 and rng.random() < 0.5
                last = over or stage + 1 == steps
                row: dict[str, Any] = {
                    "episode": episode,
                    "stage": stage,
                    "state": 0,
                    "action": action,
                    "reward": (1.0, 0.7)[action],
                    "next_state": 0,
                    "terminated": int(over and end == "terminated"),
                    "truncated": int(last and not (over and end == "terminated")),
                    "done": int(last),
                }
                rows.writerow([row[name] for name in columns])
                if over:
                    break
    return path


def audited(data: Any, **options: Any) -> Any:
    asked = {"epsilon": 0.6, "most_states": 1, "reward_range": (0, 1), "horizon": H, **options}
    return cg.audit(data, "uniform:1/pair", **asked).certificates


def assert_true(found: Any) -> None:
    """Whether the claims of a certificate about the world above are right."""
    low, high = found.value_lower, found.value_upper
    assert low - 1e-9 <= value_of(found.policy.to_list())
    assert high + 1e-9 >= BEST


# --------------------------------------------------------------------------- completeness


LACKING = [
    ("episode", "state", "action", "reward"),
    ("episode", "state", "action", "reward", "next_state"),
    ("episode", "state", "action", "reward", "terminated"),  # but truncated ones say nothing
    ("episode", "stage", "state", "action", "reward", "next_state", "truncated"),
]


@pytest.mark.parametrize("columns", LACKING, ids=" ".join)
def test_data_that_do_not_say_how_episodes_end_prove_nothing(
    columns: tuple[str, ...], tmp_path: Path
) -> None:
    end = "truncated" if "terminated" in columns else "terminated"
    path = table(tmp_path / "steps.csv", columns, end=end)
    with pytest.raises(BadInput, match="does not say how it ended"):
        audited(path)
    with pytest.raises(BadInput, match="does not say how it ended"):
        cg.identify(Risky, epsilon=0.5, most_states=1, start_from=path)
    with pytest.raises(BadInput, match="does not say how it ended"):
        cg.explore(Risky, epsilon=0.5, most_states=1, start_from=path)
    assert cg.audit(path, "uniform:1/pair").episodes == 3000  # coverage needs no ends
    assert cg.cover(Risky, "uniform:2/pair", start_from=path).covered
    assert audited(path, horizon=1, epsilon=0.3).explore.holds  # nothing follows the first stage


@pytest.mark.parametrize("columns", [ALL, ("episode", "state", "action", "reward", "done")])
def test_data_that_say_how_episodes_end_prove_what_is_true(
    columns: tuple[str, ...], tmp_path: Path
) -> None:
    for seed in range(3):
        path = table(tmp_path / f"{seed}.csv", columns, seed=seed)
        found = audited(path)
        assert found.identify.holds
        assert_true(found)


def test_an_outcome_that_is_shown_needs_no_end(tmp_path: Path) -> None:
    """The record stops, and says that the episode does not: the last step has led somewhere."""
    path = table(tmp_path / "steps.csv", ALL, episodes=800)
    lines = path.read_text().splitlines()
    (tmp_path / "open.csv").write_text("\n".join([*lines, "800,0,0,1,0.7,0,0,0"]) + "\n")
    assert_true(audited(tmp_path / "open.csv", epsilon=1.5))
    (tmp_path / "lost.csv").write_text("\n".join([*lines, "800,0,0,1,0.7,-1,0,0"]) + "\n")
    with pytest.raises(BadInput, match="does not say how it ended"):
        audited(tmp_path / "lost.csv", epsilon=1.5)


def test_rewards_that_are_not_there_are_not_zero(tmp_path: Path) -> None:
    path = table(tmp_path / "steps.csv", tuple(name for name in ALL if name != "reward"))
    with pytest.raises(BadInput, match="no column reward"):
        cg.identify(Risky, epsilon=0.5, most_states=1, start_from=path)
    run = cg.explore(Risky, epsilon=2.0, most_states=1, start_from=path)
    assert run.certified_error is not None


def test_what_follows_the_last_stage_does_not_select(tmp_path: Path) -> None:
    """Of the last stage only those outcomes are known that ended the episode: none is counted."""
    columns = ("episode", "state", "action", "reward", "terminated", "truncated")
    path = table(tmp_path / "steps.csv", columns, episodes=8000)
    for one in (path, table(tmp_path / "all.csv", ALL, episodes=8000)):
        assert_true(audited(one))
    run = cg.identify(Risky, epsilon=0.3, most_states=1, start_from=path, out=tmp_path / "run")
    assert run.conclusion is not None
    assert run.conclusion.upper >= BEST
    assert run.parting is None  # as it would be if some of these outcomes were counted
    assert cg.certify(tmp_path / "run").claim == "best-policy"


# ---------------------------------------------------------------------- meaning of the end


def test_a_truncation_means_the_same_wherever_it_is_seen(tmp_path: Path) -> None:
    given = cg.cover(Truncates, "uniform:500", out=tmp_path / "given", seed=1)
    alone = cg.identify(Truncates, epsilon=0.6, most_states=1, seed=2)
    told: dict[str, Any] = {"epsilon": 0.6, "most_states": 1, "seed": 2}
    run = cg.identify(Truncates, start_from=tmp_path / "given", out=tmp_path / "run", **told)
    for one in (alone, run):
        assert one.conclusion is not None
        assert one.conclusion.lower <= value_of(one.policy.to_list())
        assert one.conclusion.upper >= BEST
        assert one.parting is not None
    assert run.n_given == given.n_episodes
    assert CUT_BY_ENVIRONMENT in run.assumptions[-1]
    assert cg.certify(tmp_path / "run").assumptions == run.assumptions
    found = audited(tmp_path / "given")
    assert_true(found)
    assert CUT_BY_ENVIRONMENT in found.assumptions[-1]


def test_the_horizon_of_a_run_is_no_end_of_its_environment(tmp_path: Path) -> None:
    """Episodes of two steps, and then of four: the world goes on after the second."""
    cg.cover(cg.make(Risky, 2), "uniform:1500", out=tmp_path / "short", seed=1)
    run = cg.identify(Risky, epsilon=0.5, most_states=1, start_from=tmp_path / "short", seed=2)
    assert run.conclusion is not None
    assert run.conclusion.upper >= BEST
    assert run.parting is None


def test_the_time_limit_of_a_collector_may_not_be_the_environments(tmp_path: Path) -> None:
    for columns in (ALL, ("episode", "state", "action", "reward", "done")):
        path = table(tmp_path / "steps.csv", columns, steps=2)
        with pytest.raises(BadInput, match="use horizon=2"):
            audited(path)
        with pytest.raises(BadInput, match="use horizon=2"):
            cg.identify(Risky, epsilon=0.5, most_states=1, start_from=path)
        assert audited(path, horizon=2).identify.holds


def test_a_model_is_known_not_to_cut_episodes_short(tmp_path: Path) -> None:
    """A collector that stops early, on a model: its last step has still shown a state."""
    env = "riverswim:states=3,horizon=4"
    columns = ("episode,state,action,next_state,reward,terminated,truncated", *(
        f"{episode},{s},{a},{s2},0,0,{int(stage == 1)}"
        for episode in range(40)
        for stage, (s, a, s2) in enumerate([(0, 1, 1), (1, 0, 0)])
    ))  # fmt: skip
    (tmp_path / "steps.csv").write_text("\n".join(columns) + "\n")
    run = cg.explore(env, epsilon=3.0, start_from=tmp_path / "steps.csv")
    assert run.counts.table.seen(1 * 2 + 0, -1) == 0  # no transition to the end
    assert run.parting is None


# --------------------------------------------------------------------------- independence


class Coin:
    """One step: the coin pays 1 half of the time, depending on the seed alone."""

    actions, horizon = ("coin", "sure"), 1

    def reset(self, seed: int) -> int:
        self.rng = random.Random(seed)
        return 0

    def step(self, action: str) -> tuple[int, float, bool]:
        return 0, float(self.rng.random() < 0.5) if action == "coin" else 0.2, True


@pytest.mark.parametrize(("command", "env"), [(cg.identify, Coin), (cg.explore, Risky)])
def test_a_run_does_not_repeat_the_draws_of_what_it_starts_from(
    command: Any, env: Any, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"epsilon": 0.01, "most_states": 1, "max_episodes": 15}
    nights: list[Path] = []
    for night in range(4):
        out = tmp_path / str(night)
        command(env, start_from=list(nights) or None, out=out, **asked)
        nights.append(out)
    alone = tmp_path / "alone"  # from the last night only, which had started from the others
    command(env, start_from=nights[-1], out=alone, **asked)
    seeds = [one.seed for path in (*nights, alone) for one in cg.load(path).episodes()]
    assert len(set(seeds)) == len(seeds) == 5 * 15


@pytest.mark.parametrize("env", [Coin, "riverswim:states=3,horizon=3"])
def test_data_that_repeat_each_other_are_refused(env: Any, tmp_path: Path) -> None:
    known: dict[str, Any] = {} if isinstance(env, str) else {"most_states": 1}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        cg.cover(env, "uniform:20" if name == "a" else "uniform:30", out=tmp_path / name, seed=seed)
    both = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(BadInput, match="same seeds"):
        cg.explore(env, epsilon=1.0, start_from=both, **known)
    with pytest.raises(BadInput, match="same seeds"):
        cg.audit(both, "uniform:1", epsilon=1.0, **known)
    assert cg.audit(both, "uniform:1").covered  # visits are visits
    run = cg.explore(
        env, epsilon=3.0, start_from=[both[0], tmp_path / "c"], out=tmp_path / "run", **known
    )
    assert run.n_given > 0
    with pytest.raises(BadInput, match="same seeds"):  # the copies of a run are its data
        cg.explore(env, epsilon=1.0, start_from=[both[0], tmp_path / "run/given/00"], **known)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with pytest.raises(BadInput, match="same seeds"):
        cg.explore(env, epsilon=1.0, start_from=[both[0], tmp_path / "copy"], **known)


# ---------------------------------------------------------------------------------- order


def test_data_of_workers_lack_what_was_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "coin_world.py").write_text(
        "import random\n\n\nclass Coin:\n    actions, horizon = 2, 2\n\n"
        "    def reset(self, seed=None):\n        self.rng = random.Random(seed)\n"
        "        return 0\n\n    def step(self, action):\n"
        "        return int(self.rng.random() < 0.5), 0.0, False\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = "py:coin_world:Coin"
    cg.cover(env, "uniform:3/pair", workers=2, out=tmp_path / "run")
    with pytest.raises(BadInput, match="2 workers"):
        cg.explore(env, epsilon=1.0, most_states=2, start_from=tmp_path / "run")
    with pytest.raises(BadInput, match="2 workers"):
        cg.audit(tmp_path / "run", "uniform:1", epsilon=1.0, most_states=2)
    with pytest.raises(BadInput, match="one worker"):
        cg.cover(env, "uniform:3/pair", workers=2, min_reach=0.1)


# --------------------------------------------------------------------------------- states


def test_datasets_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    class Three:
        observation_space, action_space, horizon = Discrete(3), Discrete(2), 4

        def reset(self, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            self.rng = random.Random(seed)
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return self.rng.randrange(2) if action else 0, 0.5, False, False, {}

    cg.cover(Three, "uniform:3/pair", out=tmp_path / "a")
    rows = [f"{e},{h},{5 if h else 0},1,0.5,5,0,{int(h == 3)}" for e in range(3) for h in range(4)]
    (tmp_path / "b.csv").write_text("\n".join([",".join(ALL), *rows]) + "\n")
    with pytest.raises(BadInput, match=r"has 3 states and .* has 6"):
        cg.audit([tmp_path / "a", tmp_path / "b.csv"], "uniform:1/pair", epsilon=4.0)
    with pytest.raises(BadInput, match=r"has 3 states and .* has 6"):
        cg.audit([tmp_path / "b.csv", tmp_path / "a"], "uniform:1/pair")


def test_discovered_states_may_not_be_all(tmp_path: Path) -> None:
    cg.cover(Risky, "uniform:5/pair", out=tmp_path / "run")
    with pytest.raises(BadInput, match="most_states"):
        cg.audit(tmp_path / "run", "uniform:1/pair", epsilon=1.0)


# ------------------------------------------------------------------------------- failures


class Flaky:
    """'risky' pays 1 with probability 0.3; otherwise it pays 0, or fails as often."""

    actions, horizon = ("risky", "sure"), 1

    def reset(self, seed: int) -> int:
        self.rng = random.Random(seed)
        return 0

    def step(self, action: str) -> tuple[int, float, bool]:
        draw = self.rng.random()
        if action == "sure":
            return 0, 0.35, True
        if 0.3 <= draw < 0.65:
            raise RuntimeError("diverged")
        return 0, float(draw < 0.3), True


def test_failures_count_as_outcomes_or_are_listed(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"epsilon": 0.2, "most_states": 1, "max_episodes": 1000}
    run = cg.identify(Flaky, on_failure="record", out=tmp_path / "recorded", **asked)
    assert run.conclusion is not None
    assert run.conclusion.upper >= 0.35
    assert not any("fail" in one for one in run.assumptions)
    cg.certify(tmp_path / "recorded")
    try:
        cg.identify(Flaky, out=tmp_path / "stopped", seed=3, **asked)
    except cg.EnvironmentFailed:
        for _ in range(100):
            try:
                cg.resume(tmp_path / "stopped", env=Flaky)
                break
            except cg.EnvironmentFailed:
                continue
    stopped = cg.load(tmp_path / "stopped", env=Flaky)
    failed = sum(one.then == "set aside" for one in stopped.failures)
    assert failed > 50
    assert f"{failed} failed attempts were set aside" in stopped.to_dict()["assumptions"][-1]
    assert cg.certify(tmp_path / "stopped").assumptions == stopped.to_dict()["assumptions"]
    assert str(failed) in stopped.to_text()
    found = cg.audit(
        tmp_path / "stopped", "uniform:1", epsilon=1.0, most_states=1, reward_range=(0, 1)
    ).certificates
    assert found is not None
    assert f"{failed} failed attempts were set aside" in found.assumptions[-1]


def test_a_recorded_failure_pays_no_less_than_the_range_allows(tmp_path: Path) -> None:
    class Dear(Flaky):
        def step(self, action: str) -> tuple[int, float, bool]:
            state, reward, over = super().step(action)
            return state, 0.5 + reward / 2, over

    run = cg.identify(
        Dear, epsilon=0.3, most_states=1, reward_range=(0.5, 1), on_failure="record",
        max_episodes=200, out=tmp_path / "run",
    )  # fmt: skip
    assert len(run.failures)
    assert min(run.steps(["reward"])["reward"].to_pylist()) == 0.5
    cg.certify(tmp_path / "run")


# --------------------------------------------------------------------------------- stages


class Window:
    """'jump' falls into state 1 for good, but at stage 3 it leads to state 2."""

    observation_space, action_space, horizon = Discrete(3), Discrete(2), 8

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.state, self.stage = 0, 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if self.state == 0 and action == 1:
            self.state = 2 if self.stage == 3 else 1
        self.stage += 1
        return self.state, 0.0, False, False, {}


@pytest.mark.parametrize("seed", range(3))
def test_what_can_be_reached_is_not_dropped_as_unreachable(seed: int, tmp_path: Path) -> None:
    target = cg.cells([(None, 2, 0, 5)])
    asked: dict[str, Any] = {"min_reach": 0.2, "seed": seed, "max_episodes": 3000}
    run = cg.cover(Window, target, out=tmp_path / "run", **asked)
    assert run.unreachable == []
    assert run.covered
    again = cg.cover(Window, target, start_from=tmp_path / "run", **asked)
    assert again.unreachable == []
    table = tmp_path / "lost.csv"
    table.write_text("episode,state,action\n0,0,0\n0,0,0\n")
    with pytest.raises(BadInput, match="does not say how it ended"):
        cg.cover(Window, target, start_from=table, **asked)


def test_stages_are_assumed_to_be_alike_and_it_is_said(tmp_path: Path) -> None:
    run = cg.explore(Window, epsilon=4.0, max_episodes=200, out=tmp_path / "run")
    if run.counts.pooled:
        assert any("--stage-dependent" in one for one in run.assumptions)
    apart = cg.explore(Window, epsilon=4.0, max_episodes=200, stage_dependent=True)
    assert not any("stage-dependent" in one for one in apart.assumptions)
    assert not apart.counts.pooled


# -------------------------------------------------------------------------- other ways in


def test_given_data_are_listed_and_survive_resuming(tmp_path: Path) -> None:
    path = table(tmp_path / "steps.csv", ALL, episodes=200)
    asked: dict[str, Any] = {"epsilon": 1.0, "most_states": 1, "start_from": path, "seed": 4}
    whole = cg.identify(Risky, out=tmp_path / "whole", **asked)
    cg.identify(Risky, out=tmp_path / "parts", max_episodes=3, **asked)
    again = cg.resume(tmp_path / "parts", max_episodes=10**6, env=Risky)
    assert again.n_episodes == whole.n_episodes
    assert (again.counts.visits == whole.counts.visits).all()
    assert ONLY_OUTCOMES in whole.assumptions[-1]
    assert cg.certify(tmp_path / "parts").assumptions == whole.assumptions


def test_forbidden_and_avoided_actions(tmp_path: Path) -> None:
    class Masked(Risky):
        def reset(self, seed: int | None = None) -> Any:
            super().reset(seed)
            return 0, {"action_mask": np.array([0, 1])}

    with pytest.raises(BadInput, match="forbids actions"):
        cg.explore(Masked, epsilon=1.0, most_states=1)
    with pytest.raises(BadInput, match="cannot avoid"):
        cg.explore(Risky, epsilon=1.0, most_states=1, on_failure="avoid")
    path = table(tmp_path / "steps.csv", ALL, episodes=2)
    with pytest.raises(BadInput, match='play="counts"'):
        cg.explore("chain:states=2", epsilon=1.0, play="counts", start_from=path)


def test_minari_data_say_how_episodes_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    run = cg.cover(Truncates, "uniform:400", out=tmp_path / "run", seed=1)
    cg.export(run, to="minari", out="risky/truncates-v0")
    found = cg.audit(
        "minari:risky/truncates-v0", "uniform:1", epsilon=0.6, most_states=1, reward_range=(0, 1)
    ).certificates
    assert_true(found)
    assert found is not None
    assert CUT_BY_ENVIRONMENT in found.assumptions[-1]
