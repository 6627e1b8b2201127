"""Planners: optimism, by hand and against the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covgame.episodes import LAST, Episode
from covgame.game.adversary import TargetAware, WeightedMajority
from covgame.game.counts import Counts
from covgame.game.planner import (
    KnownModelPlanner,
    OptimisticPlanner,
    PaperOptimism,
    Planner,
    RangeAwareOptimism,
)
from covgame.game.presets import default_game, paper_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import Shape
from tests.evidence import data
from tests.worlds import (
    random_policy,
    worlds,
)

seeds = st.integers(0, 2**31)


@pytest.mark.parametrize("kind", ["paper", "range-aware", "known model"])
@given(worlds(), seeds)
def test_planners_keep_their_contract(kind: str, world: TabularMDP, seed: int) -> None:
    """An action everywhere, the same for the same input, and nothing is changed on the way."""
    planners: dict[str, Planner] = {
        "paper": OptimisticPlanner(PaperOptimism(world.shape, 0.1)),
        "range-aware": OptimisticPlanner(RangeAwareOptimism()),
        "known model": KnownModelPlanner(world.transitions),
    }
    planner = planners[kind]
    counts, reward = sixty_random_episodes(world, seed)
    before, kept = counts.visits.copy(), reward.copy()
    policy = planner.plan(counts, reward)
    assert not policy.is_stochastic
    assert policy.table.shape == world.shape.hs
    assert ((policy.table >= 0) & (policy.table < world.shape.actions)).all()
    np.testing.assert_array_equal(planner.plan(counts, reward).table, policy.table)
    np.testing.assert_array_equal(counts.visits, before)
    np.testing.assert_array_equal(reward, kept)
    nothing = planner.plan(Counts(world.shape, pooled=True), np.zeros(world.shape.hsa))
    assert nothing.table.shape == world.shape.hs


def test_an_action_in_doubt_may_do_what_another_one_did() -> None:
    """By hand: what is earned, what may be hoped for, and when hope ends."""
    optimism = RangeAwareOptimism(b=0.0)
    ones = np.ones(4)
    observed = np.array([0.0, 1.0, 2.7, 9.7])
    q = optimism.upper_q(0.5 * ones, 0.2 * ones, 0 * ones, observed, 0.8 * ones, 2.0)
    hope = 0.6 * 0.3 / (np.array([1.0, 2.7, 9.7]) + 0.3)
    np.testing.assert_allclose(q, [0.5 + 0.99 * 2.0, *(0.7 + hope)])
    settled = optimism.upper_q(0.5 * ones, 0.2 * ones, 0 * ones, observed, 0 * ones, 2.0)
    np.testing.assert_allclose(settled[1:], 0.7)


def test_hope_ends_when_an_action_was_seen_to_do_two_things() -> None:
    """Action 0 leads where something is paid. Action 1 led to two other places: it is no match."""
    shape = Shape(2, 4, 2)
    reward = np.zeros(shape.hsa)
    reward[1, 1], reward[0, 0, 1] = 1.0, 0.1
    planner = OptimisticPlanner(RangeAwareOptimism(b=0.0, doubt=100.0))
    counts = Counts(shape, pooled=True)
    for _ in range(3):
        counts.learn(0, 1)
        counts.learn(1, 2)
    assert planner.plan(counts, reward).table[0, 0] == 1  # 0.1 + 100/103 against 1
    counts.learn(1, 3)
    assert planner.plan(counts, reward).table[0, 0] == 0


@given(worlds(max_horizon=4, max_states=4), seeds)
def test_the_papers_optimism_dominates_the_truth(world: TabularMDP, seed: int) -> None:
    """Lemma optimism: with valid beta the planned value is at least V* (reward sums to 1).

    After enough visits for the bonus to be far from 1, at which it would be clipped.
    """
    _, reward = sixty_random_episodes(world, seed)
    counts = data(world, 10**8, seed)
    upper = upper_values(PaperOptimism(world.shape, 0.05), counts, reward)
    truth = dp.backward_induction(world.transitions, reward).values
    reachable = dp.reachable(world.transitions)
    assert (upper >= truth - 1e-12)[reachable].all()
    H = world.shape.horizon
    if world.shape.actions * world.shape.states <= 6 and (counts.visits[reachable] > 10**5).all():
        assert (upper - truth)[0][reachable[0]].max() <= 0.1 * (H - 1)


@given(worlds(max_horizon=4, max_states=4), seeds)
def test_range_aware_optimism_with_a_valid_constant_dominates_and_is_tighter(
    world: TabularMDP, seed: int
) -> None:
    counts, reward = sixty_random_episodes(world, seed)
    paper = PaperOptimism(world.shape, 0.05)
    valid = 8 * float(paper.beta(np.array([60.0]))[0])
    optimism = RangeAwareOptimism(valid, promise=1.0, path_bonus=math.inf)
    upper = upper_values(optimism, counts, reward)
    truth = dp.backward_induction(world.transitions, reward).values
    assert (upper >= truth - 1e-12).all()
    assert (upper <= np.flip(np.cumsum(np.flip(reward.max(axis=(1, 2)))))[:, None] + 1e-12).all()


def sixty_random_episodes(world: TabularMDP, seed: int) -> tuple[Counts, np.ndarray]:
    """Counts of random policies, and a random reward that sums to 1."""
    rng = np.random.default_rng(seed)
    reward = rng.dirichlet(np.ones(world.shape.cells)).reshape(world.shape.hsa)
    counts = Counts(world.shape, pooled=False)
    source = SimulatedSource(world, seed)
    for number in range(60):
        counts.add(source.play(random_policy(rng, world.shape), number))
    return counts, reward


def upper_values(
    optimism: PaperOptimism | RangeAwareOptimism, counts: Counts, reward: np.ndarray
) -> np.ndarray:
    """The planner's recursion, kept for all stages."""
    H, S, A = counts.shape.hsa
    values, following, remaining = np.zeros((H, S)), np.zeros(S), 0.0
    for h in reversed(range(H)):
        q = reward[h]
        if h + 1 < H:
            mean, square, observed = counts.estimate(h, following)
            variance = np.maximum(square - mean * mean, 0.0)
            best = np.repeat(counts.best_after(h, following), A)
            q = optimism.upper_q(reward[h].ravel(), mean, variance, observed, best, remaining)
            q = q.reshape(S, A)
        values[h] = following = q.max(axis=1)
        remaining += float(reward[h].max())
    return values


def test_beta_is_the_papers() -> None:
    """beta(n, delta) = log(2SAH/delta) + S log(8e(n+1)), by hand for S=2, A=3, H=4, n=9."""
    beta = PaperOptimism(Shape(4, 2, 3), 0.1).beta(np.array([9.0]))[0]
    assert beta == pytest.approx(math.log(480) + 2 * math.log(80 * math.e))


def test_ties_go_to_the_less_visited_action() -> None:
    counts = Counts(Shape(1, 1, 3), pooled=False)
    planner = OptimisticPlanner(RangeAwareOptimism())
    order = []
    for _ in range(6):
        action = int(planner.plan(counts, np.ones((1, 1, 3))).table[0, 0])
        order.append(action)
        counts.add(Episode(np.array([0]), np.array([action]), np.zeros(1), np.array([LAST])))
    assert order == [0, 1, 2, 0, 1, 2]


# --------------------------------------------------------------------------- by hand


def test_the_papers_bonus_by_hand() -> None:
    """max{sqrt(8 Var beta/n), 8 beta/n} where neither part is cut off: 10^5 visits and more."""
    optimism = PaperOptimism(Shape(2, 1, 1), 0.1)
    for n, variance in ((1e5, 0.0), (1e5, 0.2), (1e4, 1e-4)):
        beta = math.log(40) + math.log(8 * math.e * (n + 1))
        bonus = max(math.sqrt(8 * variance * beta / n), 8 * beta / n)
        assert bonus < 0.05
        one = np.ones(1)
        found = optimism.upper_q(0.1 * one, 0.3 * one, variance * one, n * one, 0 * one, 9.0)
        assert found[0] == pytest.approx(0.4 + bonus)
    assert math.sqrt(8 * 0.2 * beta / 1e5) > 8 * beta / 1e5  # both parts were the larger one
    half = PaperOptimism(Shape(2, 1, 1), 0.1, scale=0.5)
    found = half.upper_q(0.1 * one, 0.3 * one, 0 * one, 1e4 * one, 0 * one, 9.0)
    assert found[0] == pytest.approx(0.4 + 4 * beta / 1e4)


def test_the_papers_optimism_clips_at_one_and_forbids() -> None:
    optimism = PaperOptimism(Shape(2, 1, 1), 0.1)
    reward = np.array([0.1, 0.1, -np.inf, 0.9])
    observed = np.array([0.0, 1.0, 1e6, 1e9])
    mean, nothing = np.full(4, 0.3), np.zeros(4)
    found = optimism.upper_q(reward, mean, nothing, observed, nothing, 9.0)
    assert found.tolist() == [1.0, 1.0, -np.inf, 1.0]


def test_range_aware_optimism_by_hand() -> None:
    """r + min(R, mean + max{sqrt(b Var/n), b R/n, g/(n+g) (B - mean)}), and promise R at n = 0."""
    optimism = RangeAwareOptimism(b=0.5, doubt=0.3, promise=0.9)
    observed = np.array([4.0, 4.0, 1.0, 1.0, 0.0])
    variance = np.array([0.18, 0.0, 0.0, 0.0, 0.0])
    best = np.array([0.0, 0.0, 2.8, 0.0, 0.0])
    ones = np.ones(5)
    found = optimism.upper_q(0.25 * ones, 0.2 * ones, variance, observed, best, 0.8)
    hope = 0.3 / 1.3 * 2.6
    expected = [0.2 + 0.15, 0.2 + 0.5 * 0.8 / 4, 0.2 + hope, 0.2 + 0.4, 0.9 * 0.8]
    np.testing.assert_allclose(found, 0.25 + np.minimum(0.8, expected))
    certain = RangeAwareOptimism(b=0.5, doubt=0.0)
    found = certain.upper_q(0.25 * ones, 0.2 * ones, variance, observed, best, 0.8)
    np.testing.assert_allclose(found[2], 0.25 + 0.6)
    clipped = optimism.upper_q(0.25 * ones, 0.7 * ones, variance, observed, best, 0.8)
    np.testing.assert_allclose(clipped[:4], 0.25 + np.array([0.8, 0.8, 0.8, 0.8]))


def test_what_a_plan_adds_up_by_hand() -> None:
    """Three stages, two actions: rewards of later stages, and all that is left where n = 0."""
    shape = Shape(3, 1, 2)
    counts = Counts(shape, pooled=False)
    for _ in range(4):
        counts.learn(0, 0)  # action 0 at the first stage leads on
    reward = np.zeros(shape.hsa)
    reward[0, 0] = [0.0, 0.125]
    reward[1, 0] = [0.25, 0.5]
    reward[2, 0] = [0.5, 0.25]
    planner = OptimisticPlanner(RangeAwareOptimism(b=0.0, doubt=0.0, promise=0.75))
    # Stage 1: nothing seen, 1/2 + 3/4 * 1/2 = 7/8. Stage 0: 7/8 against 1/8 + 3/4 * 1.
    table = planner.plan(counts, reward).table
    assert table[1:, 0].tolist() == [1, 0]
    assert table[0, 0] == 0  # 7/8 either way: the first
    reward[0, 0, 1] = 0.126
    assert planner.plan(counts, reward).table[0, 0] == 1


def test_presets_hand_over_their_share_of_delta() -> None:
    """Algorithm 1: delta/2 to the planner, scaled thresholds, nothing pooled."""
    target = Target.of_cells(np.ones((2, 1, 1)))
    game = paper_game(target, delta=0.1, scale=0.25)
    optimism = game.planner.optimism  # type: ignore[attr-defined]
    assert (optimism.delta, optimism.scale) == (0.05, 0.25)
    assert isinstance(game.adversary, WeightedMajority)
    assert not game.counts.shares_stages
    ours = default_game(target, pooled=False)
    assert ours.counts.pool is not None
    assert ours.planner == OptimisticPlanner(RangeAwareOptimism(0.03, 0.3, 0.99))
    assert isinstance(ours.adversary, TargetAware)
    assert default_game(target, pooled=True).counts.pooled
