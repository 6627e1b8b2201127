"""The certified preset: what it claims holds as often as it says, and as exactly as it says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import betaln, gammaln, xlogy
from scipy.stats import binom

import covgame as cg
from covgame.game.counts import Counts
from covgame.kernels import confidence as kernel
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.certified import CertifiedIdentification
from covgame.pac.error_bounds import Range, best_policy, reward_free
from covgame.pac.mixtures import ConfidenceSets, Structure
from covgame.pac.worst_case import worst_reward
from covgame.players.by_counts import Urns, draw_visits
from covgame.players.policies import PolicyCompiled
from covgame.runs.opening import resume
from covgame.sources.simulated import SimulatedSource
from covgame.store.episodes import RecordedEpisodes
from covgame.types import FloatArray, Policy, Shape
from tests.test_cli import covgame
from tests.worlds import random_policy, random_world, worlds

seeds = st.integers(0, 2**31)


def allowed_failures(delta: float, runs: int) -> int:
    """So many failures of probability delta are seen but once in ten thousand times."""
    return int(binom.ppf(1 - 1e-4, runs, delta))


def data(world: TabularMDP, episodes: int, seed: int, *, pooled: bool = False) -> Counts:
    """Episodes of random policies."""
    rng = np.random.default_rng(seed)
    counts = Counts(world.shape, pooled=pooled)
    for _ in range(8):
        policy = random_policy(rng, world.shape)
        counts.add_visits(draw_visits(Urns(world), policy, episodes // 8 + 1, rng))
    return counts


def small(
    seed: int, *, states: int = 3, stationary: bool = False, spread_start: bool = False
) -> TabularMDP:
    rng = np.random.default_rng(seed)
    shape = Shape(3, states, 2)
    return random_world(rng, shape, stationary=stationary, ending=0.1, spread_start=spread_start)


# ------------------------------------------------------------------------------ KL balls


def by_duality(p: FloatArray, v: FloatArray, radius: float, beyond: float) -> float:
    """min over nu >= max V of nu - exp(sum p log(nu - V) - radius), by a general minimiser."""
    top = max(float(v.max()), beyond)

    def value(log_gap: float) -> float:
        nu = top + math.exp(log_gap)
        return float(nu - np.exp(p @ np.log(nu - v) - radius))

    found = min(
        minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-11}).fun
        for bounds in ((-30, -5), (-8, 3), (0, 14))
    )
    if beyond > v.max():
        found = min(found, float(beyond - np.exp(p @ np.log(beyond - v) - radius)))
    return float(min(found, top))


@settings(max_examples=1000)
@given(seeds)
def test_the_best_of_a_ball_against_a_general_minimiser(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 7))
    p = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 10.0]))) + 1e-7
    p /= p.sum()
    v = rng.random(size) * rng.choice([1.0, 20.0])
    if rng.random() < 0.3:
        v = np.round(v, 1)  # ties
    radius = 10 ** rng.uniform(-5, 1)
    beyond = float(rng.choice([-np.inf, rng.random() * 2 * v.max()]))
    mine = kernel.best_of_ball(p, v, size, radius, beyond)
    exact = by_duality(p, v, radius, beyond)
    assert mine == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert mine >= exact - 1e-7 * max(1.0, abs(exact))


@pytest.mark.parametrize("seed", range(8))
def test_the_best_of_a_ball_against_a_convex_program(seed: int) -> None:
    """max q V over the ball, unseen successor included, by SLSQP."""
    rng = np.random.default_rng(seed)
    p, v = rng.dirichlet(np.ones(4)), rng.random(5)
    radius = float(rng.choice([0.01, 0.1, 0.5]))

    def room(q: FloatArray) -> float:
        return float(radius - (p * np.log(p / q[:4])).sum())

    found = minimize(
        lambda q: -(q @ v),
        np.append(0.98 * p, 0.02),
        method="SLSQP",
        bounds=[(1e-9, 1)] * 5,
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "ineq", "fun": room},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    mine = kernel.best_of_ball(p, v[:4], 4, radius, v[4])
    assert mine == pytest.approx(-found.fun, abs=2e-5)


def test_the_corners_of_a_ball() -> None:
    one, values = np.ones(1), np.array([0.4])
    assert kernel.best_of_ball(one, values, 1, 0.5, -np.inf) == 0.4  # a single point, closed
    assert kernel.best_of_ball(one, values, 1, np.inf, 0.9) == 0.9  # nothing known
    assert kernel.best_of_ball(one, values, 0, 0.1, 0.9) == 0.9  # nothing seen
    assert kernel.best_of_ball(one, values, 1, 0.0, 0.9) == 0.4  # everything known
    open_ball = kernel.best_of_ball(one, values, 1, 0.5, 1.0)
    assert open_ball == pytest.approx(0.4 + 0.6 * (1 - math.exp(-0.5)))
    same = np.array([0.3, 0.3])
    assert kernel.best_of_ball(np.full(2, 0.5), same, 2, 1.0, 0.3) == pytest.approx(0.3)


# ------------------------------------------------------------------------- thresholds


def test_thresholds_by_hand() -> None:
    """The formulas of docs/certified.md, by scipy's functions."""
    counts = Counts(Shape(2, 3, 1), pooled=False)
    for successor, times in ((0, 5), (2, 2), (-1, 1)):
        counts.table.add(1, successor, times)
    sets = ConfidenceSets(counts, Structure(known_start=np.array([1.0, 0, 0])), 0.1)
    n, seen = 8, np.array([5, 2, 1, 0])
    mixture = gammaln(1) - gammaln(n + 1) + (gammaln(seen + 0.25) - gammaln(0.25)).sum()
    expected = math.log(3 / 0.1) + xlogy(seen, seen / n).sum() - mixture
    assert sets.transitions[1] == pytest.approx(expected)
    assert sets.transitions[0] == np.inf
    fixed = math.log(30) + 0.5 * math.log(math.pi) + gammaln(9) - gammaln(8.5)
    assert sets.fixed_function[1] == pytest.approx(fixed)
    out = np.empty(1)
    kernel.mean_thresholds(np.array([8]), np.array([3.0]), math.log(10), out)
    mixture = betaln(3.5, 5.5) - betaln(0.5, 0.5)
    assert out[0] == pytest.approx(
        math.log(10) + 3 * math.log(3 / 8) + 5 * math.log(5 / 8) - mixture
    )


@pytest.mark.parametrize("delta", [0.2, 0.5])
@pytest.mark.parametrize("law", [[0.5, 0.3, 0.2, 0.0], [0.97, 0.01, 0.01, 0.01]])
def test_transitions_stay_inside_at_all_times(law: list[float], delta: float) -> None:
    """The worst time within 300 steps is looked for: a stopping rule that wants to see it fail."""
    runs, failed, true = 300, 0, np.array(law)
    rng = np.random.default_rng(1)
    for _ in range(runs):
        draws = rng.choice(4, size=300, p=true)
        counts = np.cumsum(np.eye(4)[draws], axis=0)
        n = np.arange(1, 301)
        mixture = -gammaln(n + 1) + (gammaln(counts + 0.25) - gammaln(0.25)).sum(axis=1)
        threshold = -math.log(delta) + xlogy(counts, counts / n[:, None]).sum(axis=1) - mixture
        with np.errstate(divide="ignore"):
            spread = xlogy(counts, counts / n[:, None] / np.maximum(true, 1e-300)).sum(axis=1)
        failed += bool((spread > threshold).any())
    assert failed <= allowed_failures(delta, runs)


@pytest.mark.parametrize("delta", [0.2, 0.5])
@pytest.mark.parametrize("kind", ["coin", "uniform", "rare"])
def test_means_stay_inside_at_all_times(kind: str, delta: float) -> None:
    runs, failed = 300, 0
    rng = np.random.default_rng(2)
    mean = {"coin": 0.3, "uniform": 0.5, "rare": 0.02}[kind]
    for _ in range(runs):
        drawn = rng.random(200)
        sample = drawn if kind == "uniform" else (drawn < mean).astype(float)
        visits = np.arange(1, 201)
        sums, thresholds = np.cumsum(sample), np.empty(200)
        kernel.mean_thresholds(visits, sums, -math.log(delta), thresholds)
        low, high = np.empty(200), np.empty(200)
        kernel.mean_bounds(visits, sums, thresholds, low, high)
        failed += bool(((mean < low) | (mean > high)).any())
    assert failed <= allowed_failures(delta, runs)


@pytest.mark.parametrize("delta", [0.2, 0.5])
def test_a_fixed_function_stays_below_at_all_times(delta: float) -> None:
    """The alphabet has fifty letters; the threshold does not know."""
    rng = np.random.default_rng(3)
    true, values = rng.dirichlet(np.full(50, 0.3)), rng.random(50)
    mean, runs, failed = float(true @ values), 150, 0
    for _ in range(runs):
        draws = rng.choice(50, size=120, p=true)
        worst = False
        for n in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 120):
            seen, times = np.unique(draws[:n], return_counts=True)
            threshold = -math.log(delta) + 0.5 * math.log(math.pi)
            threshold += gammaln(n + 1) - gammaln(n + 0.5)
            beyond = np.delete(values, seen).max()
            upper = kernel.best_of_ball(times / n, values[seen], len(seen), threshold / n, beyond)
            worst |= bool(upper < mean)
        failed += worst
    assert failed <= allowed_failures(delta, runs)


# ----------------------------------------------------------------------- certificates


@pytest.mark.parametrize("pooled", [False, True])
def test_reachability_is_inside(pooled: bool) -> None:
    runs, failed = 60, 0
    for seed in range(runs):
        world = small(seed, stationary=pooled, spread_start=seed % 2 == 0)
        counts = data(world, 200, seed, pooled=pooled)
        low, high = ConfidenceSets(counts, Structure(), 0.5).reachability()
        reach = dp.reachability(world.transitions)
        failed += bool(((reach < low - 1e-9) | (reach > high + 1e-9)).any())
        assert (low <= high + 1e-9).all()
    assert failed <= allowed_failures(0.5, runs)


@pytest.mark.parametrize("pooled", [False, True])
def test_the_reward_free_error_is_above_the_worst_case(pooled: bool) -> None:
    """The exact worst loss over all rewards, with the true model, against the certified one."""
    runs, failed = 25, 0
    for seed in range(runs):
        world = small(seed, states=2, stationary=pooled)
        counts = data(world, 3000, seed, pooled=pooled)
        certificate = reward_free(counts, Structure(), 0.5)
        loss = worst_reward(world.transitions, counts.kernel()).loss
        failed += loss > certificate.error
        assert certificate.error <= world.shape.horizon
    assert failed <= allowed_failures(0.5, runs)
    assert certificate.error < 2.5


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("episodes", [20, 400])
def test_the_best_policy_is_where_it_is_said_to_be(pooled: bool, episodes: int) -> None:
    runs, failed = 80, 0
    for seed in range(runs):
        world = small(seed, stationary=pooled, spread_start=seed % 2 == 0)
        counts = data(world, episodes, seed, pooled=pooled)
        certificate = best_policy(counts, Structure(), 0.5, Range())
        lower, policy = certificate.candidate
        values = dp.evaluate(world.transitions, policy, world.rewards)
        mine = dp.initial_value(world.transitions, values)
        best = dp.backward_induction(world.transitions, world.rewards).values
        top = dp.initial_value(world.transitions, best)
        failed += mine < lower - 1e-9 or top > certificate.upper + 1e-9
    assert failed <= allowed_failures(0.5, runs)


@settings(max_examples=20)
@given(worlds(max_states=4), seeds)
def test_more_of_the_same_data_proves_more(world: TabularMDP, seed: int) -> None:
    counts = data(world, 80, seed)
    twice = Counts(world.shape, pooled=False)
    twice.include(counts)
    twice.include(counts)
    once, again = (reward_free(c, Structure(), 0.1) for c in (counts, twice))
    assert again.error <= once.error + 1e-9
    gap, smaller = (best_policy(c, Structure(), 0.1, Range()) for c in (counts, twice))
    assert smaller.upper <= gap.upper + 1e-6
    assert smaller.candidate[0] >= gap.candidate[0] - 1e-6


@settings(max_examples=20)
@given(worlds(max_states=4), seeds)
def test_mixing_both_costs_beats_either(world: TabularMDP, seed: int) -> None:
    """At any theta a cell costs the less of its two prices; theta = 0 is total variation alone."""
    certificate = reward_free(data(world, 400, seed), Structure(), 0.1)
    assert certificate.best[0] <= certificate.at(0.0) + 1e-12
    H = world.shape.horizon
    if H > 1:
        radii = certificate.radii
        distances = certificate.distances.copy()
        certificate.distances[:] = 1e9  # only KL
        only = min(certificate.at(theta / (H - 1)) for theta in np.logspace(-3, 1, 20))
        certificate.distances[:] = distances
        assert certificate.best[0] <= only + 1e-6
        assert (distances <= np.sqrt(radii / 2) + 1e-12).all()


def test_known_structure_tightens() -> None:
    world = small(3)
    counts = data(world, 400, 0)
    plain = best_policy(counts, Structure(), 0.1, Range())
    start = Structure(known_start=world.initial)
    assert best_policy(counts, start, 0.1, Range()).gap <= plain.gap + 1e-9
    few = Structure(most_successors=3)
    assert best_policy(counts, few, 0.1, Range()).gap <= plain.gap + 1e-9
    short = Range(return_high=1.0)
    assert best_policy(counts, Structure(), 0.1, short).upper <= 1.0


# ---------------------------------------------------------------------------- playing


def test_compiled_episodes_of_a_policy_are_the_simulated_ones() -> None:
    world = cg.make("grid:rows=2,columns=3,horizon=5,ends=true").require_model("a test")
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, world.shape.actions, world.shape.hs)
    policy = Policy.deterministic(chosen, world.shape.actions)
    source = SimulatedSource(world, 5)
    for pooled in (False, True):
        compiled, readable = (Counts(world.shape, pooled=pooled) for _ in range(2))
        player = PolicyCompiled(policy, compiled, source, most=40, record=True)
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
    place = tmp_path / "run" / "certificate.json"
    honest = json.loads(place.read_text())
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
        place.write_text(json.dumps({**honest, **change}))
        with pytest.raises(cg.BadInput, match=said):
            cg.certify(tmp_path / "run")
    done = covgame("certify", str(tmp_path / "run"))
    assert (done.returncode, done.stdout) == (2, "")
    place.write_text(json.dumps(honest))
    shard = next((tmp_path / "run" / "episodes").glob("*.parquet"))
    shard.unlink()
    with pytest.raises(cg.BadInput, match="other data"):
        cg.certify(tmp_path / "run")


def test_coverage_is_certified_too(tmp_path: Path) -> None:
    cg.cover("chain:states=4,horizon=5", "uniform:4", out=tmp_path / "run")
    assert cg.certify(tmp_path / "run").claim == "coverage"
    for shard in (tmp_path / "run" / "episodes").glob("*.parquet"):
        shard.unlink()
    with pytest.raises(cg.BadInput, match="does not cover"):
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


def test_the_mixture_pays_most_at_the_ends() -> None:
    """max_k of sup l^k (1-l)^(n-k) over its Beta(1/2,1/2) mean is attained at k = 0 (Lemma 3)."""
    for n in range(1, 200):
        k = np.arange(n + 1)
        largest = xlogy(k, k / n) + xlogy(n - k, 1 - k / n)
        ratio = largest - (betaln(k + 0.5, n - k + 0.5) - math.log(math.pi))
        assert ratio.max() <= ratio[0] + 1e-9
        claimed = 0.5 * math.log(math.pi) + gammaln(n + 1) - gammaln(n + 0.5)
        assert ratio[0] == pytest.approx(claimed)


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
    again = resume(tmp_path / "parts", max_episodes=10**6)
    assert again.n_episodes == run.n_episodes
    assert again.unreachable == run.unreachable


def test_identified_policies_are_as_good_as_claimed() -> None:
    """Whole runs at delta = 0.5, validation and stopping rule included."""
    runs, failed, validated = 24, 0, 0
    for seed in range(runs):
        world = small(seed, stationary=seed % 2 == 0)
        run = cg.identify(world, epsilon=0.6, delta=0.5, seed=seed)
        assert isinstance(run.algorithm, CertifiedIdentification)
        validated += run.algorithm.attempts > 0
        found = run.conclusion
        assert found is not None
        values = dp.evaluate(world.transitions, found.policy, world.rewards)
        best = dp.backward_induction(world.transitions, world.rewards).values
        mine, top = (dp.initial_value(world.transitions, v) for v in (values, best))
        failed += mine < found.lower - 1e-9 or top > found.upper + 1e-9
    assert failed <= allowed_failures(0.5, runs)
    assert validated > 0


def test_a_validation_is_checked_episode_by_episode(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = cg.identify("garnet:states=12,actions=3,horizon=6", epsilon=0.9, out=out)
    place = out / "certificate.json"
    honest = json.loads(place.read_text())
    assert honest["validation"] is not None
    assert cg.certify(out).numbers["gap"] == pytest.approx(run.certified_gap)
    other = np.array(honest["policy"])
    other[0] = (other[0] + 1) % 3
    place.write_text(json.dumps({**honest, "policy": other.tolist()}))
    with pytest.raises(cg.BadInput, match="not validated"):
        cg.certify(out)
    # Which episodes validate is not believed but found out: the file may say what it likes.
    elsewhere = {"attempt": 9, "first_episode": 0, "episodes": 7}
    place.write_text(json.dumps({**honest, "validation": elsewhere}))
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


def test_one_function_per_stage_is_paid_for() -> None:
    """Pooled or not, V* of every later stage needs its share of the risk (Lemma 3)."""
    world = small(1, stationary=True)
    apart, pooled = (data(world, 100, 0, pooled=flag) for flag in (False, True))
    level = math.log((3 * 2 * 2 + 1) / 0.1)
    for counts in (apart, pooled):
        sets = ConfidenceSets(counts, Structure(), 0.1)
        n = counts.table.total[counts.table.total > 0][0]
        expected = level + 0.5 * math.log(math.pi) + gammaln(n + 1) - gammaln(n + 0.5)
        assert sets.fixed_function[counts.table.total > 0][0] == pytest.approx(expected)


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
