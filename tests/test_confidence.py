"""Thresholds against values worked out by hand, and what follows from their form."""

from __future__ import annotations

import math
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covgame.confidence import PaperThresholds
from covgame.types import Shape

TOY = PaperThresholds(Shape(horizon=3, states=2, actions=4))  # SAH = 24
shapes = st.builds(Shape, st.integers(1, 6), st.integers(1, 9), st.integers(1, 5))
deltas = st.floats(1e-6, 0.9)


def test_by_hand() -> None:
    """Each formula with its numbers written out, at delta = 0.1."""
    assert TOY.transitions(9, 0.1) == pytest.approx(math.log(480) + 2 * math.log(80 * math.e))
    assert TOY.transitions(9, 0.1) == pytest.approx(16.938, abs=1e-3)
    assert TOY.visits(0.1) == pytest.approx(6.17379, abs=1e-5)
    assert TOY.reward_free(99, 0.1) == pytest.approx(36 * math.log(10) + 1296 * math.log(400))
    assert TOY.reward_free(99, 0.1) == pytest.approx(7847.8, abs=0.1)
    assert TOY.rewards(99, 0.1) == pytest.approx(4 * math.log(20) + 48 * math.log(100))
    assert TOY.rewards(99, 0.1) == pytest.approx(233.03, abs=0.01)
    assert TOY.values(99, 0.1) == pytest.approx(36 * math.log(20) + 5184 * math.log(100))
    assert TOY.best_policy(99, 0.1) == pytest.approx(144 * math.log(20) + 20736 * math.log(100))
    assert TOY.best_policy(99, 0.1) == pytest.approx(95924.1, abs=0.1)
    assert TOY.planner_regret(math.e - 1, 0.1) == pytest.approx(65536 * 72 * (math.log(480) + 12))
    assert TOY.adversary_regret() == pytest.approx(16 * math.log(24))


@given(shapes, deltas, st.floats(0, 1e18))
def test_how_they_compare(shape: Shape, delta: float, t: float) -> None:
    """beta^bpi = 4 beta^p >= 4 beta^r, as the proof of the concentration theorem uses."""
    thresholds = PaperThresholds(shape)
    assert thresholds.best_policy(t, delta) == pytest.approx(4 * thresholds.values(t, delta))
    assert thresholds.rewards(t, delta) <= thresholds.values(t, delta) * (1 + 1e-12)


@given(shapes, deltas, st.floats(0, 1e15), st.floats(1, 100))
def test_they_grow_with_t_and_with_confidence(
    shape: Shape, delta: float, t: float, factor: float
) -> None:
    thresholds = PaperThresholds(shape)
    for beta in (
        thresholds.transitions,
        thresholds.reward_free,
        thresholds.rewards,
        thresholds.values,
        thresholds.best_policy,
        thresholds.planner_regret,
    ):
        assert beta(t * factor, delta) >= beta(t, delta)
        assert beta(t, delta / factor) >= beta(t, delta)


@given(shapes, deltas, st.floats(1e-4, 1), st.floats(1e-9, 1))
def test_visitation_episodes_are_the_first_that_suffice(
    shape: Shape, delta: float, precision: float, scale: float
) -> None:
    """T is the infimum: enough at T, not enough just before it."""
    thresholds = PaperThresholds(shape, scale)
    episodes = thresholds.visitation_episodes(precision, delta)

    def holds(t: int) -> bool:
        left = 4 * thresholds.planner_regret(t, delta / 2) + scale * 6 * math.log(4 / delta)
        return left <= precision * t / 4

    assert holds(episodes)
    before = min(episodes - 1, math.floor(episodes * (1 - 1e-9)))
    assert before < 1 or not holds(before)


@given(shapes, deltas, st.floats(0, 1e15))
def test_scaling_scales_everything(shape: Shape, delta: float, t: float) -> None:
    whole, tenth = PaperThresholds(shape), PaperThresholds(shape, 0.1)
    assert tenth.reward_free(t, delta) == pytest.approx(0.1 * whole.reward_free(t, delta))
    assert tenth.best_policy(t, delta) == pytest.approx(0.1 * whole.best_policy(t, delta))
    assert tenth.planner_regret(t, delta) == pytest.approx(0.1 * whole.planner_regret(t, delta))


def test_the_bound_of_theorem_2() -> None:
    """64 m phi* + T_1, and T_1 is the first T that the definition allows."""
    bound = TOY.covering_episodes(cost=1000.0, cost_of_one=20.0, levels=3, delta=0.1)
    first = bound - 64 * 3 * 1000.0
    needed = (
        3 * TOY.planner_regret(first, 0.05)
        + 12 * TOY.adversary_regret()
        + 24 * math.log(4 * first / 0.1)
    )
    assert first / 2 == pytest.approx(3 * 20 * needed + 1, rel=1e-6)


class Quiet(PaperThresholds):
    """With a small regret of the planner: at its true size nothing else shows in a sum with it."""

    def planner_regret(self, episodes: float, delta: float) -> float:
        return self.scale * delta * log(episodes + 1.0)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_the_smaller_terms_of_theorem_2(scale: float) -> None:
    """T/2 >= m phi*(1) (3R^Pi_{delta/2}(T) + 12R^lambda + 24 log(4T/delta)) + 1, the first T."""
    quiet = Quiet(Shape(horizon=3, states=2, actions=4), scale)
    first = quiet.covering_episodes(cost=10.0, cost_of_one=2.5, levels=3, delta=0.1) - 64 * 3 * 10

    def room(t: float) -> float:
        regrets = 3 * 0.05 * log(t + 1) + 12 * 16 * log(24)
        return t / 2 - 3 * 2.5 * scale * (regrets + 24 * log(4 * t / 0.1)) - 1

    assert room(first) >= 0
    assert room(first - 1) < 0


def test_the_smaller_terms_of_the_visitations() -> None:
    """4R^Pi_{delta/2}(T) + 6 log(4/delta) <= eps_0 T/4, the first whole T."""
    quiet = Quiet(Shape(horizon=3, states=2, actions=4), 0.5)
    first = quiet.visitation_episodes(0.01, 0.1)

    def room(t: int) -> float:
        return 0.01 * t / 4 - 0.5 * (4 * 0.05 * log(t + 1) + 6 * log(40))

    assert room(first) >= 0
    assert room(first - 1) < 0
    assert Quiet(Shape(1, 1, 1), 1e-9).visitation_episodes(1.0, 0.5) == 1
