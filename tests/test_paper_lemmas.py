"""The lemmas behind the algorithms, as properties of random instances (Appendices B to F)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from covgame.confidence import PaperThresholds
from covgame.engine.engines import CountsEngine
from covgame.game.counts import Counts
from covgame.game.presets import paper_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.principle import ImplicitElimination
from covgame.sources.counted import MOST_EPISODES, SortedSuccessors, draw_visits
from covgame.targets.target import Target
from covgame.types import FloatArray, Shape
from tests.learning import learn
from tests.worlds import random_policy, random_world, worlds

seeds = st.integers(0, 2**31)


@st.composite
def two_laws(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, FloatArray]:
    """An empirical law, a law that may have produced it, and a function with values in [0,1]."""
    rng = np.random.default_rng(draw(seeds))
    size = draw(st.integers(2, 6))
    true = rng.dirichlet(np.full(size, draw(st.sampled_from([0.1, 1.0, 10.0])))) + 1e-12
    true = true / true.sum()
    seen = rng.multinomial(draw(st.integers(1, 50)), true)
    return seen / seen.sum(), true, rng.random(size)


def kl(seen: FloatArray, true: FloatArray) -> float:
    some = seen > 0
    return float((seen[some] * np.log(seen[some] / true[some])).sum())


def variance(law: FloatArray, values: FloatArray) -> float:
    return float(law @ values**2 - (law @ values) ** 2)


# -------------------------------------------------------------------- Appendix C (UCBVI)


@given(two_laws())
def test_the_bernstein_like_bound_as_it_holds(
    laws: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """E_q G <= E_hat G + sqrt(2 W Var_hat G) + W (max G - E_hat G), W = KL(p_hat, q)."""
    seen, true, values = laws
    w, mean = kl(seen, true), float(seen @ values)
    bound = mean + math.sqrt(max(0.0, 2 * w * variance(seen, values)))
    assert true @ values <= bound + w * (values.max() - mean) + 1e-9
    # and therefore the paper's bonus, max{sqrt(8 Var w), 8 w}, is large enough
    bonus = max(math.sqrt(max(0.0, 8 * w * variance(seen, values))), 8 * w)
    assert true @ values <= mean + bonus + 1e-9


def test_the_bernstein_like_bound_as_stated_is_false() -> None:
    """p_hat a point mass, KL = 1/2: the gap is 1 - exp(-1/2) = .393, the lemma says 1/3."""
    seen, values = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    true = np.array([math.exp(-0.5), 1 - math.exp(-0.5)])
    w = kl(seen, true)
    assert w == pytest.approx(0.5)
    stated = math.sqrt(2 * variance(seen, values) * w) + 2 * w / 3
    assert abs(true @ values - seen @ values) > stated


@given(two_laws(), seeds)
def test_variance_concentration(laws: tuple[FloatArray, FloatArray, FloatArray], seed: int) -> None:
    """Var_hat(V_bar) <= 4 Var(V) + 4 P|V_bar - V| + 4 KL."""
    seen, true, upper = laws
    values = np.random.default_rng(seed).random(len(upper))
    bound = 4 * variance(true, values) + 4 * float(true @ abs(upper - values))
    assert variance(seen, upper) <= bound + 4 * kl(seen, true) + 1e-9


@settings(max_examples=30)
@given(worlds(), seeds)
def test_the_law_of_total_variance(world: TabularMDP, seed: int) -> None:
    """sum p^pi Var(P, V_{h+1}) <= 4 V for rewards whose sum along a path is at most 1."""
    rng = np.random.default_rng(seed)
    policy = random_policy(rng, world.shape)
    reward = rng.random(world.shape.hsa) / world.shape.horizon
    values = dp.evaluate(world.transitions, policy, reward)
    occupancy = dp.occupancy(world.transitions, policy)
    total = 0.0
    for h in range(world.shape.horizon - 1):
        kernel = world.transitions.stages[h]
        mean = kernel.expect(values[h + 1])
        spread = kernel.expect(values[h + 1] ** 2) - mean**2
        total += float(occupancy[h].ravel() @ spread)
    assert total <= 4 * dp.initial_value(world.transitions, values) + 1e-9


@given(seeds, st.integers(1, 400), st.floats(0.01, 0.9))
def test_truncated_sums_and_the_pigeon_hole(seed: int, episodes: int, delta: float) -> None:
    """Lemmas truncated-sum and pigeon-hole-classic for one cell and any probabilities."""
    rng = np.random.default_rng(seed)
    chance = rng.random(episodes) ** rng.integers(1, 6)
    before = np.cumsum(chance) - chance
    beta = PaperThresholds(Shape(1, 1, 1)).visits(delta)
    assume(beta >= 1)
    assert chance[before < 4 * beta].sum() <= 5 * beta
    assert (chance / np.maximum(before, 1)).sum() <= 4 * math.log(episodes + 1) + 1e-9


# --------------------------------------------------------------------- Appendix B (CovGame)


@settings(max_examples=10, deadline=None)
@given(seeds, st.integers(1, 7))
def test_levels_change_at_most_log_times(seed: int, spread: int) -> None:
    """Lemma cover-bound-m: m <= log2(c_max/c_min), rounded up, at least 1."""
    rng = np.random.default_rng(seed)
    world = random_world(rng, Shape(2, 3, 2), ending=0.0)
    exists = np.repeat(dp.reachable(world.transitions)[:, :, None], 2, axis=2)
    wanted = np.where(exists, 2.0 ** rng.uniform(0, spread, exists.shape), 0.0)
    game = paper_game(Target.of_cells(wanted), delta=0.1)
    player = CountsEngine(game, world, seed % 1000)
    changes, level = 0, game.state.level
    while not game.covered:
        player.play(1)
        changes, level = changes + (game.state.level > level), max(level, game.state.level)
    some = wanted[wanted > 0]
    assert changes + 1 <= max(1, math.ceil(math.log2(some.max() / max(1.0, some.min()))))


# ---------------------------------------------------------------- Appendices D and F (BPI)


@settings(max_examples=15)
@given(seeds)
def test_values_of_stochastic_policies_concentrate(seed: int) -> None:
    """Theorem new-concentration-BPI, both forms, rewards estimated too."""
    rng = np.random.default_rng(seed)
    world = random_world(rng, Shape(3, 3, 2), ending=0.1)
    counts = Counts(world.shape, pooled=False)
    for _ in range(8):
        counts.add_visits(
            draw_visits(SortedSuccessors(world), random_policy(rng, world.shape), 10**9, rng)
        )
    seen = counts.visits > 0
    reachable = np.repeat(dp.reachable(world.transitions)[:, :, None], 2, axis=2)
    assume(seen[reachable].all())
    beta = PaperThresholds(world.shape).best_policy(counts.n_episodes, 0.1)
    kernel, rewards = counts.kernel(), counts.mean_rewards()
    smallest = math.inf
    for _ in range(20):
        policy = random_policy(rng, world.shape)
        true, learnt = (dp.occupancy(p, policy) for p in (world.transitions, kernel))
        gap = abs((learnt * rewards).sum() - (true * world.rewards).sum())
        for occupancy in (true, learnt):
            bound = math.sqrt(beta * (occupancy[seen] ** 2 / counts.visits[seen]).sum())
            assert gap <= bound
            smallest = min(smallest, bound)
    assert smallest < 0.3  # of at most 3: with few visits there would be nothing to violate


def test_bad_policies_are_eliminated_in_time() -> None:
    """Active in phase k means 2^k <= 16 H beta/max(eps, Delta)^2; so is the last phase bounded."""
    world = random_world(np.random.default_rng(2), Shape(2, 3, 2), ending=0.0)
    exists = np.repeat(dp.reachable(world.transitions)[:, :, None], 2, axis=2)
    epsilon = 0.2
    learner = learn(ImplicitElimination(PaperThresholds(world.shape), epsilon, 0.1, exists), world)
    t, last = learner.counts.n_episodes, learner.k - 1
    beta = learner.thresholds.best_policy(t, 0.05)
    assert 2.0**last <= 8 * 2 * beta / epsilon**2
    best = dp.backward_induction(world.transitions, world.rewards).values
    top = dp.initial_value(world.transitions, best)
    covered = learner._well_covered(last)
    lowest = covered.best_value - 2 * learner.width(last, t)
    rng, active = np.random.default_rng(0), 0
    for _ in range(400):
        policy = random_policy(rng, world.shape)
        learnt = dp.occupancy(covered.transitions, policy)
        earns = float((learnt * covered.reward).sum()) >= lowest
        if not (earns and (learnt <= covered.cap).all()):
            continue
        active += 1
        values = dp.evaluate(world.transitions, policy, world.rewards)
        gap = top - dp.initial_value(world.transitions, values)
        assert 2.0**last <= 16 * 2 * beta / max(epsilon, gap) ** 2
    assert 0 < active < 400


def test_a_phase_ends_with_what_it_asked_for() -> None:
    """n^t >= c^k(t) at the end of every phase, with the target that grows with t."""
    world = random_world(np.random.default_rng(3), Shape(2, 3, 2), ending=0.0)
    exists = np.repeat(dp.reachable(world.transitions)[:, :, None], 2, axis=2)
    learner = ImplicitElimination(PaperThresholds(world.shape), 0.2, 0.1, exists)
    number = 0
    while (part := learner.next_task()) is not None:
        player = CountsEngine(part.game, world, number)
        while not part.over:
            player.play(MOST_EPISODES)
        phase = learner.k
        wanted = learner.wanted(learner.counts.n_episodes + part.played)
        learner.tell(part)
        if learner.k > phase:
            assert (learner.counts.visits >= wanted - 1e-6).all()
            number += 1
    assert number == len(learner.phases)
