"""Certificates: what counts prove holds as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._worst_case import worst_reward
from hypothesis import given, settings
from hypothesis import strategies as st

from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.error_bounds import Range, best_policy, reward_free
from covgame.pac.mixtures import ConfidenceSets, Structure
from tests.evidence import allowed_failures, data, small
from tests.worlds import worlds

seeds = st.integers(0, 2**31)


@pytest.mark.parametrize("pooled", [False, True])
def test_reachability_is_inside(pooled: bool) -> None:
    runs, failed = 60, 0
    for seed in range(runs):
        world = small(seed, stationary=pooled, spread_start=seed % 2 == 0)
        counts = data(world, 200, seed, pooled=pooled)
        low, high = ConfidenceSets(counts, Structure(), 0.05).reachability()
        reach = dp.reachability(world.transitions)
        failed += bool(((reach < low - 1e-9) | (reach > high + 1e-9)).any())
        assert (low <= high + 1e-9).all()
    assert failed <= allowed_failures(0.05, runs)


@pytest.mark.parametrize("pooled", [False, True])
def test_the_reward_free_error_is_above_the_worst_case(pooled: bool) -> None:
    """The exact worst loss over all rewards, with the true model, against the certified one."""
    runs, failed = 25, 0
    for seed in range(runs):
        world = small(seed, states=2, stationary=pooled)
        counts = data(world, 3000, seed, pooled=pooled)
        certificate = reward_free(counts, Structure(), 0.02)
        loss = worst_reward(world.transitions, counts.kernel()).loss
        failed += loss > certificate.error
        assert certificate.error <= world.shape.horizon
    assert failed <= allowed_failures(0.02, runs)
    assert certificate.error < 2.5


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("episodes", [20, 400])
def test_the_best_policy_is_where_it_is_said_to_be(pooled: bool, episodes: int) -> None:
    runs, failed = 80, 0
    for seed in range(runs):
        world = small(seed, stationary=pooled, spread_start=seed % 2 == 0)
        counts = data(world, episodes, seed, pooled=pooled)
        certificate = best_policy(counts, Structure(), 0.05, Range())
        lower, policy = certificate.candidate
        values = dp.evaluate(world.transitions, policy, world.rewards)
        mine = dp.initial_value(world.transitions, values)
        best = dp.backward_induction(world.transitions, world.rewards).values
        top = dp.initial_value(world.transitions, best)
        failed += mine < lower - 1e-9 or top > certificate.upper + 1e-9
    assert failed <= allowed_failures(0.05, runs)


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
    assert certificate.bound().error <= certificate.at(0.0) + 1e-12
    H = world.shape.horizon
    if H > 1:
        radii = certificate.radii
        distances = certificate.distances.copy()
        certificate.distances[:] = 1e9  # only KL
        only = min(certificate.at(theta / (H - 1)) for theta in np.logspace(-3, 1, 20))
        certificate.distances[:] = distances
        assert certificate.bound().error <= only + 1e-6
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
