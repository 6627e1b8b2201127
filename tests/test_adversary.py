"""Adversaries: levels, weights and rates, by hand and on hostile sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covgame.game.adversary import (
    RATE,
    REPLAN_LOG_RATIO,
    Adversary,
    AdversaryState,
    MissingOnly,
    TargetAware,
    WeightedMajority,
    learning_rate,
    level_support,
    loss_variance,
    mean_loss_variance,
    reached_level,
)
from covgame.game.counts import Counts
from covgame.game.game import Game, rounds
from covgame.game.planner import (
    OptimisticPlanner,
    RangeAwareOptimism,
)
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import ANY, FloatArray, Shape
from tests.worlds import (
    random_counts,
    worlds,
)

seeds = st.integers(0, 2**31)


ADVERSARIES: list[Adversary] = [TargetAware(), WeightedMajority(), MissingOnly()]


def test_levels_of_algorithm_1() -> None:
    """c = 1, 2, 3, 5, 9: X_1 = {3, 5, 9}, X_2 = {5, 9}, X_3 = {9}."""
    counts = np.array([1.0, 2.0, 3.0, 5.0, 9.0])
    target = Target.of_cells(counts.reshape(1, 1, 5))
    assert [level_support(target, k).sum() for k in range(4)] == [5, 3, 2, 1]
    nothing = np.zeros(5)
    assert reached_level(target, nothing) == 0
    assert reached_level(target, np.array([1.0, 1, 0, 0, 0])) == 0
    assert reached_level(target, np.array([1.0, 2, 0, 0, 0])) == 1
    assert reached_level(target, np.array([1.0, 2, 3, 0, 0])) == 2
    assert reached_level(target, np.array([1.0, 2, 0, 5, 0])) == 1
    assert reached_level(target, np.array([1.0, 2, 3, 5, 8])) == 3


def test_levels_are_counted_from_the_smallest_count() -> None:
    """c = 3, 7, 13: c_min = 3, X_1 = {7, 13}, X_2 = {13}."""
    target = Target.of_cells(np.array([3.0, 7.0, 13.0]).reshape(1, 1, 3))
    assert [level_support(target, k).sum() for k in range(4)] == [3, 2, 1, 0]
    assert reached_level(target, np.array([3.0, 0.0, 0.0])) == 1
    assert reached_level(target, np.array([3.0, 7.0, 0.0])) == 2
    assert reached_level(target, np.array([3.0, 7.0, 13.0])) == 0  # all is covered


def test_counts_below_one_do_not_shift_the_levels() -> None:
    target = Target.of_cells(np.array([0.1, 0.4, 1.5, 5.0]).reshape(1, 1, 4))
    assert level_support(target, 1).tolist() == [False, False, False, True]


def test_a_change_of_level_restarts_the_forecaster() -> None:
    target = Target.of_cells(np.array([1.0, 4.0, 16.0]).reshape(1, 1, 3))
    adversary = WeightedMajority()
    state = adversary.start(target)
    np.testing.assert_allclose(state.weights, 1 / 3)
    adversary.observe(target, state, {1: 1}, np.array([0.0, 1.0, 0.0]))
    assert state.level == 0
    assert state.variance > 0
    assert state.weights[1] < state.weights[0]
    adversary.observe(target, state, {0: 1}, np.array([1.0, 1.0, 0.0]))
    assert (state.level, state.variance) == (1, 0.0)
    np.testing.assert_allclose(state.weights, [0, 0.5, 0.5])


@pytest.mark.parametrize("adversary", ADVERSARIES)
@given(worlds(), seeds)
def test_adversaries_keep_their_contract(
    adversary: Adversary, world: TabularMDP, seed: int
) -> None:
    """Weights are finite, not negative, add up to ``total``, and some open row has one."""
    target = Target.of_cells(random_counts(np.random.default_rng(seed), world))
    if not len(target):
        return
    counts = Counts(world.shape, pooled=False)
    game = Game(target, OptimisticPlanner(RangeAwareOptimism()), adversary, counts)
    for number, round_ in enumerate(rounds(game, SimulatedSource(world, seed))):
        weights = game.state.weights
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(game.state.total, rel=1e-6)
        if round_.covered or number > 60:
            break
        assert weights[game.collected < target.counts].max() > 0


def test_weights_do_not_underflow() -> None:
    """c = 1000 and one row that lags far behind: exp(-1000) is nothing without a shift."""
    target = Target.of_cells(np.array([1000.0, 1000.0, 5.0]).reshape(1, 1, 3))
    adversary = TargetAware()
    state = adversary.start(target)
    collected = np.zeros(3)
    for _ in range(999):
        collected += [1, 1, 0]
        adversary.observe(target, state, {0: 1, 1: 1}, collected)
    assert state.weights[2] > 0
    collected[2] = 5
    adversary.observe(target, state, {2: 5}, collected)
    assert state.weights[:2].min() > 0


@given(seeds, st.integers(2, 12), st.sampled_from(["random", "greedy", "switching"]))
def test_the_forecasters_regret(seed: int, rows: int, kind: str) -> None:
    """Regret <= sqrt(R L) + R with R = 16 log N, on hostile sequences of losses."""
    rng = np.random.default_rng(seed)
    target = Target.of_cells(np.full((1, 1, rows), 1e9))
    adversary = WeightedMajority()
    state = adversary.start(target)
    collected, paid = np.zeros(rows), 0.0
    for t in range(300):
        if kind == "random":
            losses = (rng.random(rows) < rng.random()).astype(float)
        elif kind == "greedy":
            losses = (state.weights >= np.median(state.weights)).astype(float)
        else:
            losses = (np.arange(rows) % 2 == (t // 50) % 2).astype(float)
        paid += float(state.weights @ losses)
        collected = collected + losses
        adversary.observe(
            target, state, dict.fromkeys(np.flatnonzero(losses).tolist(), 1), collected
        )
    bound = 16 * math.log(max(rows, 2))
    assert paid - collected.min() <= math.sqrt(bound * paid) + bound


def after_visit(game: Game, cell: int) -> FloatArray | None:
    """The weights after one more step of an episode."""
    game.visit(cell)
    return game.revised_weights()


def test_a_group_loses_weight_within_an_episode() -> None:
    """Visit by visit, by the weights that it would have after the episode."""
    shape = Shape(9, 2, 1)
    target = Target(shape, np.array([[ANY, 0, 0], [ANY, 1, 0]]), np.array([6.0, 6.0]))
    counts = Counts(shape, pooled=True)
    game = Game(target, OptimisticPlanner(RangeAwareOptimism()), TargetAware(), counts)
    assert game.state.rate == 3.0  # sqrt(H)
    cells = [2 * h for h in range(6)]  # state 0 at every stage
    revised = {n: after_visit(game, cell) for n, cell in enumerate(cells, 1)}
    for n, weights in revised.items():
        # The exponent falls by 3 c_max/9 n/c = n/3, and is looked at every 0.35.
        if (
            math.floor(n / 3 / REPLAN_LOG_RATIO) == math.floor((n - 1) / 3 / REPLAN_LOG_RATIO)
            and n < 6
        ):
            assert weights is None
        else:
            assert weights is not None
            expected = math.exp(-n / 3) if n < 6 else 0.0
            np.testing.assert_allclose(weights, [expected, 1.0])
    assert revised[1] is None
    assert revised[2] is not None
    missing = Game(target, OptimisticPlanner(RangeAwareOptimism()), MissingOnly(), counts)
    assert all(after_visit(missing, cell) is None for cell in cells[:5])
    last = after_visit(missing, cells[5])
    assert last is not None
    np.testing.assert_array_equal(last, [0.0, 1.0])


def test_weights_count_whole_visits() -> None:
    """1.2 visits are two: after the first one as much is missing as of a target of 2."""
    shape = Shape(1, 2, 1)
    rows = np.array([[0, 0, 0], [0, 1, 0]])
    weights = []
    for counts in ([1.2, 9.5], [2.0, 10.0]):
        target, adversary = Target(shape, rows, np.array(counts)), TargetAware()
        state = adversary.start(target)
        adversary.observe(target, state, {0: 1}, np.array([1.0, 0.0]))
        weights.append(state.weights)
    np.testing.assert_array_equal(weights[0], weights[1])
    assert weights[0][0] > 0


def test_a_target_that_gets_its_first_groups_starts_fast() -> None:
    shape = Shape(4, 2, 1)
    adversary = TargetAware()
    state = adversary.start(Target(shape, np.zeros((0, 3), dtype=np.int64), np.zeros(0)))
    target = Target(shape, np.array([[ANY, 0, 0]]), np.array([3.0]))
    adversary.extend(target, state, np.zeros(1))
    assert state.rate == 2.0


# --------------------------------------------------------------------------- by hand


def test_the_forecaster_by_hand() -> None:
    """Two rounds: xi = min(1, C sqrt(ln N/V)), V the sum of m(1-m), lambda ~ exp(-xi visits)."""
    rows = 4
    target = Target.of_cells(np.full((1, 1, rows), 1e9))
    adversary, collected = WeightedMajority(), np.zeros(rows)
    state = adversary.start(target)
    assert (state.rate, state.variance, state.total) == (1.0, 0.0, 1.0)
    np.testing.assert_allclose(state.weights, 1 / 4)
    constant = math.sqrt(2 * (math.sqrt(2) - 1) / (math.e - 2))
    variance, rates = 0.0, []
    for t in range(120):
        row = t % 2
        mass = float(state.weights[row])
        variance += mass * (1 - mass)
        collected[row] += 1
        adversary.observe(target, state, {row: 1}, collected)
        rate = min(1.0, constant * math.sqrt(math.log(4) / variance))
        weights = np.exp(-rate * collected)
        assert state.variance == pytest.approx(variance)
        assert state.rate == pytest.approx(rate)
        np.testing.assert_allclose(state.weights, weights / weights.sum())
        rates.append(rate)
    assert rates[:2] == [1.0, 1.0]


def test_the_rate_falls_below_one() -> None:
    """C = 1.0739...; with N = 2 and V = 2 it is C sqrt(ln 2/2)."""
    constant = math.sqrt(0.8284271247 / 0.7182818285)
    assert learning_rate(2, 2.0) == pytest.approx(constant * math.sqrt(math.log(2) / 2), rel=1e-6)
    assert learning_rate(1, 2.0) == learning_rate(2, 2.0)  # of one row: as of two
    assert learning_rate(3, 2.0) == pytest.approx(constant * math.sqrt(math.log(3) / 2), rel=1e-6)
    assert learning_rate(2, 0.0) == 1.0
    assert learning_rate(2, 0.0, 3.0) == 3.0
    assert learning_rate(10**9, 0.1, 3.0) == 3.0
    assert learning_rate(10**9, 0.1) == 1.0


def test_losses_of_many_episodes_by_hand() -> None:
    """Of K episodes the mean loss m counts K m(1-m); groups are scaled by the most of a path."""
    shape = Shape(2, 2, 1)
    target = Target(shape, np.array([[ANY, 0, 0], [ANY, 1, 0]]), np.array([50.0, 50.0]))
    state = AdversaryState(np.array([1.0, 3.0]), 4.0)
    # 10 episodes: 6 and 14 visits of at most 20; m = (1/4) 6/20 + (3/4) 14/20 = 0.6
    found = mean_loss_variance(target, state, np.array([6.0, 14.0]), 10)
    assert found == pytest.approx(10 * 0.6 * 0.4)
    assert mean_loss_variance(target, state, np.zeros(2), 0) == 0.0
    # One episode, twice in state 1: loss 1 with weight 3/4
    assert loss_variance(target, state, {1: 2}) == pytest.approx(0.75 * 0.25)
    # once in each: losses 1/2 and 1/2 do not vary; once in one of them they do
    assert loss_variance(target, state, {0: 1, 1: 1}) == pytest.approx(0.0)
    assert loss_variance(target, state, {0: 1}) == pytest.approx(1 / 4 * 1 / 4 - (1 / 8) ** 2)
    assert loss_variance(target, AdversaryState(np.zeros(2), 0.0), {0: 1}) == 0.0
    assert mean_loss_variance(target, AdversaryState(np.zeros(2), 0.0), np.ones(2), 1) == 0.0


def test_many_episodes_move_the_forecaster_by_hand() -> None:
    target = Target.of_cells(np.array([2.0, 40.0, 40.0]).reshape(1, 1, 3))
    adversary = WeightedMajority()
    state = adversary.start(target)
    gains = np.array([0.0, 12.0, 3.0])
    adversary.observe_many(target, state, gains, 15, gains)
    mean = 15 / 3 / 15
    rate = min(1.0, RATE * math.sqrt(math.log(3) / (15 * mean * (1 - mean))))
    assert rate < 1
    assert state.rate == pytest.approx(rate)
    weights = np.exp(-rate * gains)
    np.testing.assert_allclose(state.weights, weights / weights.sum())
    # the row with 2 is covered: X_k holds those above c_min 2^k = 2 8 and 16, restarted
    collected = np.array([2.0, 12.0, 3.0])
    adversary.observe_many(target, state, np.array([2.0, 0.0, 0.0]), 2, collected)
    assert (state.level, state.variance, state.rate) == (4, 0.0, 1.0)
    np.testing.assert_allclose(state.weights, [0, 0.5, 0.5])
    np.testing.assert_array_equal(state.base, collected)
    imagined = adversary.anticipate(target, state, collected + np.array([0, 1.0, 0]))
    np.testing.assert_allclose(imagined[1] / imagined[2], math.exp(-1))
    np.testing.assert_allclose(state.weights, [0, 0.5, 0.5])
    adversary.extend(target, state, collected)
    assert (state.level, state.variance) == (4, 0.0)


def test_the_target_aware_adversary_by_hand() -> None:
    """(1/c) exp(-xi c_max n/c), scaled to a largest one of 1, then kept up row by row."""
    target = Target.of_cells(np.array([2.0, 8.0, 4.0]).reshape(1, 1, 3))
    counts = np.array([2.0, 8.0, 4.0])
    adversary, collected = TargetAware(), np.zeros(3)
    state = adversary.start(target)
    np.testing.assert_allclose(state.weights, 2 / counts)
    assert state.rate == 1.0
    assert state.total == pytest.approx(1.75)
    shift = state.shift
    assert shift == pytest.approx(-math.log(2))
    variance = 0.0
    for row in (1, 2, 1):
        share = float(state.weights[row]) / state.total
        variance += share * (1 - share)
        collected[row] += 1
        adversary.observe(target, state, {row: 1}, collected)
        assert state.variance == pytest.approx(variance)
        expected = np.exp(-state.rate * 8 * collected / counts) / counts * 2
        np.testing.assert_allclose(state.weights, expected)
        assert state.total == pytest.approx(expected.sum())
        assert adversary.weight_of(target, state, row, 1.0) == pytest.approx(
            2 / counts[row] * math.exp(-state.rate * 8 / counts[row])
        )
    assert adversary.weight_of(target, state, 0, 2.0) == 0.0
    assert adversary.weight_of(target, state, 0, 1.5) > 0.0
    adversary.observe(target, state, {0: 1}, np.array([2.0, 2.0, 1.0]))
    assert state.weights[0] == 0.0


def test_the_target_aware_rate_moves_in_steps() -> None:
    """It follows the rule when that has fallen below 0.97 of it, all weights anew."""
    target = Target.of_cells(np.array([1e6, 1e6]).reshape(1, 1, 2))
    adversary, collected = TargetAware(), np.zeros(2)
    state = adversary.start(target)
    changes = 0
    for t in range(60):
        before = state.rate
        collected[t % 2] += 1
        adversary.observe(target, state, {t % 2: 1}, collected)
        wanted = learning_rate(2, state.variance)
        if wanted < 0.97 * before:
            assert state.rate == wanted
            assert state.weights.max() == 1.0
            changes += 1
        else:
            assert state.rate == before
    assert 2 < changes < 40
    rate = state.rate
    adversary.extend(target, state, collected)
    assert state.rate == min(rate, learning_rate(2, state.variance))
    gains = np.array([30.0, 10.0])
    adversary.observe_many(target, state, gains, 40, collected + gains)
    assert state.rate == learning_rate(2, state.variance)
    assert adversary.anticipate(target, state, np.array([1e6, 0.0])).tolist() == [0.0, 1.0]


def test_faded_weights_are_computed_anew() -> None:
    """What is left when the heaviest rows are covered would be rounding errors of their sum."""
    target = Target.of_cells(np.array([2.0, 4000.0]).reshape(1, 1, 2))
    adversary = TargetAware()
    state = adversary.start(target)
    assert state.weights[1] == pytest.approx(2 / 4000)
    adversary.observe(target, state, {0: 2}, np.array([2.0, 0.0]))
    assert state.weights.tolist() == [0.0, 1.0]
    assert state.total == 1.0


def test_missing_only_by_hand() -> None:
    target = Target.of_cells(np.array([2.0, 1.0]).reshape(1, 1, 2))
    adversary, collected = MissingOnly(), np.zeros(2)
    state = adversary.start(target)
    assert (state.weights.tolist(), state.total) == ([1.0, 1.0], 2.0)
    assert (state.rate, state.variance, state.shift, state.level) == (1.0, 0.0, 0.0, 0)
    for gain, weights in ((0, [1, 1]), (0, [0, 1]), (0, [0, 1]), (1, [0, 0])):
        collected[gain] += 1
        adversary.observe(target, state, {gain: 1}, collected)
        assert (state.weights.tolist(), state.total) == (weights, sum(weights))
    assert adversary.weight_of(target, state, 0, 1.0) == 1.0
    assert adversary.weight_of(target, state, 0, 2.0) == 0.0
    assert adversary.anticipate(target, state, np.array([1.0, 1.0])).tolist() == [1.0, 0.0]
    adversary.observe_many(target, state, np.zeros(2), 3, np.array([1.0, 1.0]))
    assert (state.weights.tolist(), state.total) == ([1.0, 0.0], 1.0)
