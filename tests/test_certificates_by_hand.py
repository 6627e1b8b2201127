"""Bounds and thresholds of certificates by hand: a row, two successors, one or two stages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from covgame.game.counts import Counts
from covgame.pac.error_bounds import THETAS, Range, RewardFreeError, best_policy, reward_free
from covgame.pac.mixtures import ConfidenceSets, Structure
from covgame.types import BoolArray, FloatArray, Shape
from tests.reference import recursions as plain

LEVEL = math.log(10)


# ------------------------------------------------------------------------ thresholds by hand


def one_row(successors: dict[int, int], *, states: int = 2, horizon: int = 2) -> Counts:
    """State 0 of a world with one action, whose first stage has led to these successors."""
    counts = Counts(Shape(horizon, states, 1), pooled=False)
    for successor, times in successors.items():
        counts.table.add(0, successor, times)
    counts.n_episodes = counts.starts[0] = counts.visits[0, 0, 0] = sum(successors.values())
    return counts


def certain(states: int) -> FloatArray:
    first = np.zeros(states)
    first[0] = 1.0
    return first


def test_a_row_with_two_successors() -> None:
    """Seen twice and once, K = 2: Q = 1/2 3/4 1/6 = 1/16, likeliest (2/3)^2 1/3 = 4/27."""
    expected = math.log(10 * 4 / 27 * 16)
    assert plain.transition_threshold({0: 2, 1: 1}, 2, LEVEL) == pytest.approx(expected)
    # with the end among the symbols K = 3: Q = 1/3 2/3 1/9 = 2/81, in any order
    expected = math.log(10 * 4 / 27 * 81 / 2)
    assert plain.transition_threshold({0: 2, -1: 1}, 3, LEVEL) == pytest.approx(expected)
    assert plain.transition_threshold({1: 1, 0: 2}, 3, LEVEL) == pytest.approx(expected)
    # a single successor: 1 over 1/2 3/4 5/6 7/8
    expected = math.log(10 / (1 / 2 * 3 / 4 * 5 / 6 * 7 / 8))
    assert plain.transition_threshold({0: 4}, 2, LEVEL) == pytest.approx(expected)
    assert plain.transition_threshold({}, 2, LEVEL) == math.inf


@pytest.mark.parametrize(
    ("pooled", "known", "rows", "functions"),
    [(False, True, 18, 24), (False, False, 19, 25), (True, True, 6, 24), (True, False, 7, 25)],
)
def test_unions(pooled: bool, known: bool, rows: int, functions: int) -> None:
    """H = 4, S = 3, A = 2: 18 of 24 cells lead somewhere, 6 pairs; a start is one more."""
    counts = Counts(Shape(4, 3, 2), pooled=pooled)
    counts.table.add(1, 0, 2)
    counts.table.add(1, 2, 1)
    structure = Structure(can_end=False, known_start=certain(3) if known else None)
    sets = ConfidenceSets(counts, structure, 0.05)
    # K = 3: Q = 1/3 2/3 1/9 = 2/81
    assert sets.transitions[1] == pytest.approx(math.log(rows / 0.05 * 4 / 27 * 81 / 2))
    # sqrt(pi) Gamma(4)/Gamma(7/2) = 6/(15/8) = 16/5
    assert sets.fixed_function[1] == pytest.approx(math.log(functions / 0.05 * 16 / 5))
    assert sets.transitions[0] == sets.fixed_function[0] == math.inf


def test_one_stage_needs_no_union() -> None:
    """H = 1: nothing follows, but the logarithm of 0 rows must not be taken."""
    sets = ConfidenceSets(
        Counts(Shape(1, 2, 2), pooled=False), Structure(known_start=certain(2)), 1
    )
    assert sets.n_rows == 1
    assert sets._level == 0.0
    assert sets.level_of_functions == pytest.approx(math.log(4))  # r of every cell
    unknown = ConfidenceSets(Counts(Shape(1, 2, 2), pooled=False), Structure(), 1)
    assert unknown.n_rows == 1
    assert unknown.level_of_functions == pytest.approx(math.log(5))


def test_symbols() -> None:
    counts = Counts(Shape(2, 3, 1), pooled=False)
    assert ConfidenceSets(counts, Structure(can_end=True), 0.1).symbols == 4
    assert ConfidenceSets(counts, Structure(can_end=False), 0.1).symbols == 3


def test_thresholds_of_means_by_hand() -> None:
    """B(3/2, 3/2)/pi = 1/8 and B(1/2, 5/2)/pi = 3/8; the likeliest is 1/4, and 1."""
    assert plain.mean_threshold(2, 1.0, LEVEL) == pytest.approx(math.log(10 / 4 * 8))
    assert plain.mean_threshold(2, 0.0, LEVEL) == pytest.approx(math.log(10 * 8 / 3))
    assert plain.mean_threshold(2, 2.0, LEVEL) == pytest.approx(math.log(10 * 8 / 3))
    assert plain.mean_threshold(0, 0.0, LEVEL) == math.inf


def test_intervals_of_means_by_hand() -> None:
    """kl(0, q) = -log(1-q); kl(1/2, q) = -log(4q(1-q))/2."""
    low, high = plain.mean_bounds(4, 0.0, 3.0)
    assert low == 0.0
    assert high == pytest.approx(1 - math.exp(-3 / 4))
    low, high = plain.mean_bounds(4, 4.0, 3.0)
    assert low == pytest.approx(math.exp(-3 / 4))
    assert high == 1.0
    half = math.sqrt(1 - math.exp(-2 * 3 / 4)) / 2
    assert plain.mean_bounds(4, 2.0, 3.0) == pytest.approx((0.5 - half, 0.5 + half))
    assert plain.mean_bounds(0, 0.0, math.inf) == (0.0, 1.0)


def test_thresholds_of_a_fixed_function_by_hand() -> None:
    """sqrt(pi) Gamma(n+1)/Gamma(n+1/2) is 2, 8/3, 16/5 for one, two, three visits."""
    for n, ratio in ((1, 2), (2, 8 / 3), (3, 16 / 5)):
        assert plain.fixed_function_threshold(n, LEVEL) == pytest.approx(math.log(10 * ratio))
        counts = one_row({0: n})
        sets = ConfidenceSets(counts, Structure(known_start=certain(2)), 0.1)  # 4 functions
        assert sets.fixed_function[0] == pytest.approx(math.log(40 * ratio))
    assert plain.fixed_function_threshold(0, LEVEL) == math.inf


def test_balls_by_hand() -> None:
    """Two successors of equal chance: 1/2 + sqrt(1 - exp(-2 radius))/2 of the better one."""
    half = np.full(2, 0.5)
    share = (1 + math.sqrt(1 - math.exp(-2 * 0.3))) / 2
    values = np.array([2.0, 5.0])
    assert plain.best_of_ball(half, values, 0.3, -math.inf) == pytest.approx(2 + 3 * share)
    # One successor, and an unseen better one: it gets what KL leaves it, 1 - exp(-radius).
    one = plain.best_of_ball(np.ones(1), np.array([1.0]), 0.3, 3.0)
    assert one == pytest.approx(1 + 2 * (1 - math.exp(-0.3)))
    assert plain.best_of_ball(np.ones(1), np.array([1.0]), 0.3, -math.inf) == 1.0
    assert plain.best_of_ball(np.zeros(0), np.zeros(0), 0.3, 0.7) == 0.7
    assert plain.best_of_ball(half, values, 0.0, -math.inf) == pytest.approx(3.5)


@pytest.mark.parametrize("fixed", [True, False])
def test_first_states_by_hand(fixed: bool) -> None:
    """Twice in one state, once in another, of two: the row of the start is like any other."""
    counts = Counts(Shape(1, 2, 1), pooled=False)
    counts.n_episodes, counts.starts[:] = 3, (2, 1)
    sets = ConfidenceSets(counts, Structure(), 0.1)
    threshold = math.log(30 * 16 / 5) if fixed else math.log(10 * 4 / 27 * 16)
    values = np.array([0.0, 1.0])
    expected = plain.best_of_ball(np.array([2 / 3, 1 / 3]), values, threshold / 3, -math.inf)
    assert sets.highest_start(values, fixed=fixed) == pytest.approx(expected)
    # kl(1/3, found) = radius: the ball of two points is an interval
    assert plain.kl_of_coins(1 / 3, expected) == pytest.approx(threshold / 3)
    if not fixed:
        lowest = sets.lowest_start(values)
        assert lowest < 1 / 3
        assert plain.kl_of_coins(1 / 3, lowest) == pytest.approx(threshold / 3)


def test_first_states_that_were_not_seen_count() -> None:
    counts = Counts(Shape(1, 3, 1), pooled=False)
    counts.n_episodes, counts.starts[:] = 4, (4, 0, 0)
    sets = ConfidenceSets(counts, Structure(), 0.1)
    # one symbol of three, four times: 1/3 4/6 7/9 10/12
    radius = math.log(10 / (1 / 3 * 4 / 6 * 7 / 9 * 10 / 12)) / 4
    values = np.array([0.2, 0.1, 0.7])
    expected = 0.2 + 0.5 * (1 - math.exp(-radius))
    assert sets.highest_start(values, fixed=False) == pytest.approx(expected)
    known = ConfidenceSets(counts, Structure(known_start=np.array([0.5, 0.5, 0.0])), 0.1)
    assert known.highest_start(values, fixed=False) == pytest.approx(0.15)
    assert known.lowest_start(values) == pytest.approx(0.15)
    nothing = ConfidenceSets(Counts(Shape(1, 3, 1), pooled=False), Structure(), 0.1)
    assert nothing.highest_start(values, fixed=True) == 0.7
    assert nothing.lowest_start(values) == 0.1


# ------------------------------------------------------------------------ values by hand


def test_two_stages_from_above_and_below() -> None:
    """One transition, seen three times to state 0; the worst and best are that it misses it."""
    counts = one_row({0: 3})
    structure = Structure(can_end=False, known_start=certain(2))
    reward = np.array([[[0.1], [0.2]], [[0.3], [0.8]]])
    thresholds = np.array([0.6, math.inf, math.inf, math.inf])
    away = 1 - math.exp(-0.6 / 3)
    q, values = plain.upper_values(counts, thresholds, reward, np.array([9.0, 9.0]), structure)
    assert values[0, 0] == pytest.approx(0.1 + 0.3 + 0.5 * away)
    assert values[0, 1] == pytest.approx(0.2 + 0.8)  # nothing seen: the best of all
    np.testing.assert_allclose(q[1], reward[1])
    low = [0.0, 0.0]
    nobody = np.full((2, 2), -1)
    mirrored = reward[:, ::-1]
    _, values = plain.lower_values(counts, thresholds, mirrored, np.array(low), structure, nobody)
    assert values[0, 0] == pytest.approx(0.2 + 0.8 - 0.5 * away)
    assert values[0, 1] == pytest.approx(0.1 + 0.3)  # nothing seen: the worst of all
    # ends of the range
    _, values = plain.upper_values(counts, thresholds, reward, np.array([0.25, 0.5]), structure)
    np.testing.assert_allclose(values, [[0.25, 0.25], [0.3, 0.5]])
    _, values = plain.lower_values(
        counts, thresholds, mirrored, np.array([1.5, 0.5]), structure, nobody
    )
    np.testing.assert_allclose(values, [[1.5, 1.5], [0.8, 0.5]])


def test_where_episodes_can_end_the_end_is_a_successor() -> None:
    """It is worth nothing: the worst case from below, no help from above."""
    counts = one_row({0: 3}, states=1)
    reward = np.array([[[0.0]], [[0.5]]])
    thresholds = np.array([0.6, math.inf])
    stays = math.exp(-0.6 / 3)
    nobody = np.full((2, 1), -1)
    for can_end, least in ((True, 0.5 * stays), (False, 0.5)):
        structure = Structure(can_end=can_end, known_start=np.ones(1))
        _, values = plain.lower_values(counts, thresholds, reward, np.zeros(2), structure, nobody)
        assert values[0, 0] == pytest.approx(least)
        _, values = plain.upper_values(counts, thresholds, reward, np.full(2, 9.0), structure)
        assert values[0, 0] == pytest.approx(0.5)
    closed = Structure(can_end=True, most_successors=1, known_start=np.ones(1))
    _, values = plain.lower_values(counts, thresholds, reward, np.zeros(2), closed, nobody)
    assert values[0, 0] == pytest.approx(0.5)


def test_reachability_by_hand() -> None:
    """Three visits of state 1 after state 0, of state 2 never."""
    counts = one_row({1: 3}, states=3)
    sets = ConfidenceSets(counts, Structure(can_end=False, known_start=certain(3)), 0.1)
    # K = 3, three rows lead somewhere: Q = 1/3 4/6 7/9
    away = 1 - math.exp(-math.log(3 / 0.1 / (1 / 3 * 4 / 6 * 7 / 9)) / 3)
    low, high = sets.reachability()
    np.testing.assert_allclose(low, np.array([[1, 0, 0], [0, 1 - away, 0]]), atol=1e-9)
    np.testing.assert_allclose(high, np.array([[1, 0, 0], [away, 1, away]]), atol=1e-9)
    for most, others in ((1, 0.0), (2, away)):  # successors that a row can have
        closed = Structure(can_end=False, most_successors=most, known_start=certain(3))
        _, high = ConfidenceSets(counts, closed, 0.1).reachability()
        np.testing.assert_allclose(high[1], np.array([others, 1, others]), atol=1e-9)
    rows = np.array([[1, 1, 0], [1, 2, -1], [-1, 0, 0], [0, 2, 0]])
    np.testing.assert_allclose(sets.reach_of_rows(rows), np.array([1, away, 1, 0]), atol=1e-9)


def test_the_gap_of_one_stage_by_hand() -> None:
    """Two actions, one state, rewards in [-1, 3]: an eighth of delta, and two of its functions."""
    counts = Counts(Shape(1, 1, 2), pooled=False, paid=True)
    counts.n_episodes = counts.starts[0] = 6
    counts.visits[0, 0], counts.reward_sums[0, 0] = (4, 2), (4 * 3.0, 2 * -1.0)
    structure = Structure(known_start=np.ones(1))
    certificate = best_policy(counts, structure, 0.8, Range(-1.0, 3.0))
    assert certificate.functions.delta == pytest.approx(0.1)
    assert certificate.sets.delta == pytest.approx(0.15)
    # sqrt(pi) Gamma(3)/Gamma(5/2) = 8/3; all of the reward was -1, an unseen one has kl to spare
    high = 1 - math.exp(-math.log(2 / 0.1 * 8 / 3) / 2)
    plain_values = certificate.optimism().values[0, 0]
    np.testing.assert_allclose(plain_values, [3, -1 + 4 * high], atol=1e-9)
    assert certificate.optimism().upper == pytest.approx(3.0)
    # B(1/2, 4 + 1/2)/pi = 35/128
    low = math.exp(-math.log(2 / 0.15 * 128 / 35) / 4)
    np.testing.assert_allclose(certificate.rewards[0][0, 0], [-1 + 4 * low, -1], atol=1e-9)
    assert certificate.candidate[0] == pytest.approx(-1 + 4 * low)
    assert certificate.upper == pytest.approx(3.0)
    assert certificate.gap == pytest.approx(4 - 4 * low)
    assert certificate.estimated[0] == pytest.approx(3.0)
    assert certificate.policy(certificate.best).table.tolist() == [[0]]


def test_what_may_be_earned() -> None:
    assert Range(0.0, 2.0).ceilings(3).tolist() == [6, 4, 2]
    assert Range(0.0, 2.0, return_high=3.0).ceilings(3).tolist() == [3, 3, 2]
    assert Range(-1.0, 2.0, return_high=3.0).ceilings(3).tolist() == [6, 4, 2]
    assert Range(-2.0, -1.0).ceilings(3).tolist() == [0, 0, 0]  # an episode may end
    assert Range(-2.0, -1.0).floors(3).tolist() == [-6, -4, -2]
    assert Range(1.0, 2.0).floors(3).tolist() == [0, 0, 0]


# ------------------------------------------------------------------------ reward-free error


def two_stages(times: int) -> RewardFreeError:
    """One state that leads to itself, seen so often; two stages, so one transition matters."""
    counts = one_row({0: times}, states=1)
    structure = Structure(can_end=True, known_start=np.ones(1))
    return reward_free(counts, structure, 0.2)  # a half is for sets of rows


@pytest.mark.parametrize("times", [1, 2, 40, 1000, 20_000])
def test_two_stages_by_hand(times: int) -> None:
    """The bound is 2 (theta/8 + min(1, kappa/theta, tv)): one step, whose error costs at most 1."""
    certificate = two_stages(times)
    kappa = float(certificate.radii[0])
    row = plain.transition_threshold({0: times}, 2, LEVEL)
    assert kappa == pytest.approx(row / times)
    tv = min(math.sqrt(kappa / 2), math.sqrt(1 - math.exp(-kappa)))
    assert certificate.distances[0] == pytest.approx(tv)
    assert certificate.at(0.0) == pytest.approx(2 * min(1.0, tv))
    for theta in (0.01, 0.5, 3.0):
        expected = 2 * (theta / 8 + min(1.0, kappa / theta, tv))
        assert certificate.at(theta) == pytest.approx(expected)
    # Over theta, theta/8 + kappa/theta is least at sqrt(8 kappa), and is sqrt(kappa/2) there.
    assert certificate.bound().error == pytest.approx(2 * tv, rel=1e-3)


def test_three_stages_cost_more_at_first() -> None:
    """What goes wrong at the first of three stages spoils two steps, at the second one."""
    counts = Counts(Shape(3, 1, 1), pooled=True)
    counts.table.add(0, 0, 5000)
    counts.n_episodes, counts.starts[0] = 2500, 2500
    counts.visits[:, 0, 0] = 2500
    certificate = reward_free(counts, Structure(known_start=np.ones(1)), 0.1)
    tv, kappa = float(certificate.distances[0]), float(certificate.radii[0])
    assert certificate.at(0.0) == pytest.approx(2 * (2 * tv + tv))
    theta = 0.4
    assert kappa / theta < tv
    assert certificate.at(theta) == pytest.approx(2 * (theta * 4 / 8 + 2 * kappa / theta))


def test_the_best_theta_is_between_what_was_tried() -> None:
    """Twenty stages, one row: theta 19^2/8 + sum min(kappa/theta, left tv), at its minimum."""
    counts = Counts(Shape(20, 1, 1), pooled=True)
    counts.table.add(0, 0, 10**8)
    counts.n_episodes = counts.starts[0] = 5 * 10**6
    certificate = reward_free(counts, Structure(known_start=np.ones(1)), 0.1)
    kappa, tv = float(certificate.radii[0]), float(certificate.distances[0])

    def bound(theta: float) -> float:
        steps = sum(min(kappa / theta, left * tv) for left in range(1, 20))
        return 2 * (theta * 19**2 / 8 + steps)

    found = minimize_scalar(bound, bounds=(1e-6, 1e-2), method="bounded", options={"xatol": 1e-9})
    error, theta, _ = certificate.bound()
    assert error == pytest.approx(found.fun, rel=1e-6)
    assert error < min(bound(t / 19) for t in THETAS[1:]) * (1 - 1e-6)
    assert theta == pytest.approx(found.x, rel=1e-2)
    assert certificate.error == certificate.best.error == error  # one row gains nothing jointly


def test_nobody_loses_more_than_everything() -> None:
    nothing = reward_free(Counts(Shape(3, 2, 2), pooled=False), Structure(), 0.1)
    assert nothing.error == 3.0
    assert nothing.best.error == pytest.approx(4.0)  # twice what is left after the first step
    once = reward_free(Counts(Shape(1, 2, 2), pooled=False), Structure(), 0.1)
    assert once.error == 0.0
    assert once.best == (0.0, 0.0, None)


def test_the_policy_that_is_known_least_goes_where_little_is_known() -> None:
    """Action 0 was seen often, action 1 seldom; among equals, the one visited less."""
    counts = Counts(Shape(2, 1, 3), pooled=False)
    for action, times in enumerate((500, 3, 500)):
        counts.table.add(action, 0, times)
        counts.visits[0, 0, action] = times
    counts.visits[1, 0] = (5, 9, 4)
    counts.n_episodes = counts.starts[0] = 1003
    structure = Structure(known_start=np.ones(1))
    assert reward_free(counts, structure, 0.1).worst_policy.table.tolist() == [[1], [2]]
    forbidden: BoolArray = np.array([[True, False, False]])
    only = Structure(known_start=np.ones(1), allowed=forbidden)
    assert reward_free(counts, only, 0.1).worst_policy.table.tolist() == [[0], [0]]
    counts.visits[1, 0] = (0, 9, 4)
    last = Structure(known_start=np.ones(1), allowed=np.array([[False, True, False]]))
    assert reward_free(counts, last, 0.1).worst_policy.table.tolist() == [[1], [1]]
