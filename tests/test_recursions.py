"""The recursions behind certificates: compiled = plain, on random worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covgame.game.counts import Counts
from covgame.kernels import confidence as kernel
from covgame.mdp.model import TabularMDP
from covgame.pac.error_bounds import Range, best_policy, reward_free
from covgame.pac.mixtures import ConfidenceSets, Structure
from covgame.types import FloatArray
from tests.evidence import data
from tests.reference import recursions as plain
from tests.worlds import worlds

seeds = st.integers(0, 2**31)
small_worlds = worlds(max_horizon=4, max_states=4)


@st.composite
def evidence(draw: st.DrawFn) -> tuple[TabularMDP, Counts, Structure]:
    """Few or many episodes of a small world, pooled or not, and what is known beforehand."""
    world = draw(small_worlds)
    pooled = world.transitions.stationary and draw(st.booleans())
    counts = data(world, draw(st.sampled_from([0, 40, 3000])), draw(seeds), pooled=pooled)
    allowed = None
    if world.shape.actions > 1 and draw(st.booleans()):
        allowed = np.ones((world.shape.states, world.shape.actions), dtype=np.bool_)
        allowed[0, draw(st.integers(0, world.shape.actions - 1))] = False
    most = draw(st.sampled_from([None, 3, world.shape.states + 1]))
    ends = bool((world.transitions.next_state < 0).any())
    structure = Structure(ends or draw(st.booleans()), most, allowed=allowed)
    return world, counts, structure


Evidence = tuple[TabularMDP, Counts, Structure]


def some_values(rng: np.random.Generator, states: int) -> FloatArray:
    """A function of the successor, the end worth 0; often with ties."""
    values = np.round(rng.random(states) * 3, int(rng.integers(0, 4)))
    return np.append(values, 0.0)


@given(evidence(), st.floats(0.1, 20))
def test_thresholds_of_transitions(found: Evidence, level: float) -> None:
    _, counts, structure = found
    symbols = ConfidenceSets(counts, structure, 0.1).symbols
    out = np.empty(len(counts.table))
    kernel.transition_thresholds(counts.table.rows, counts.table.entries, symbols, level, out)
    H, S, A = counts.shape.hsa
    for h in range(1 if counts.pooled else H):
        for pair in range(S * A):
            row = plain.seen(counts, h, pair // A, pair % A)
            expected = plain.transition_threshold(row, symbols, level)
            assert out[plain.row_of(counts, h, pair // A, pair % A)] == pytest.approx(expected)


@example(1, 1.0, 0.5)
@given(st.integers(0, 2000), st.floats(0, 1), st.floats(0.1, 20))
def test_thresholds_and_intervals_of_means(n: int, mean: float, level: float) -> None:
    visits, sums = np.array([n]), np.array([n * mean])
    threshold, low, high = np.empty((3, 1))
    kernel.mean_thresholds(visits, sums, level, threshold)
    expected = plain.mean_threshold(n, n * mean, level)
    assert threshold[0] == pytest.approx(expected, rel=1e-9)
    kernel.mean_bounds(visits, sums, threshold, low, high)
    least, most = plain.mean_bounds(n, n * mean, expected)
    assert low[0] == pytest.approx(least, abs=1e-9)
    assert high[0] == pytest.approx(most, abs=1e-9)
    # from outside: what is left of the bracket belongs to the interval
    assert low[0] <= least + 1e-15
    assert high[0] >= most - 1e-15


@given(seeds, st.integers(0, 6), st.floats(-5, 1.2), st.booleans())
def test_the_best_of_a_ball(seed: int, size: int, log_radius: float, is_open: bool) -> None:
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(size)) if size else np.zeros(0)
    values = np.round(rng.random(size) * 2 - 1, 2)
    beyond = float(rng.random() * 2 - 1) if is_open or not size else -math.inf
    found = kernel.best_of_ball(chances, values, size, 10**log_radius, beyond)
    expected = plain.best_of_ball(chances, values, 10**log_radius, beyond)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-8)


@given(evidence(), seeds)
def test_the_best_successors(found: Evidence, seed: int) -> None:
    _, counts, structure = found
    H, S, A = counts.shape.hsa
    values = some_values(np.random.default_rng(seed), S)
    sets = ConfidenceSets(counts, structure, 0.1)
    for h in range(H - 1):
        out = np.empty(S * A)
        first = 0 if counts.pooled else h * S * A
        kernel.best_successors(
            counts.table.rows,
            counts.table.entries,
            first,
            sets.transitions,
            values,
            structure.can_end,
            structure.limit,
            out,
        )
        expected = plain.best_successors(counts, h, sets.transitions, values, structure)
        np.testing.assert_allclose(out, expected.ravel(), rtol=1e-7, atol=1e-8)


@given(evidence())
def test_upper_and_lower_values(found: Evidence) -> None:
    """Theorems 4 and 5 as the certificate uses them: its rewards, ends, starts and policies."""
    _, counts, structure = found
    certificate = best_policy(counts, structure, 0.1, Range())
    sets, H = certificate.sets, counts.shape.horizon
    allowed = sets.allowed
    low, high = (np.where(allowed, bound, -np.inf) for bound in certificate.rewards)
    assert not certificate.is_joint  # these counts do not say what transitions paid
    functions = certificate.functions
    assert functions.delta == pytest.approx(0.1 * 3 / 8)
    q, values = plain.upper_values(
        counts, functions.fixed_function, high, Range().ceilings(H), structure
    )
    found_ = certificate.optimism()
    np.testing.assert_allclose(found_.values, q, rtol=1e-7, atol=1e-8)
    top = functions.highest_start(values[0], fixed=True)
    assert found_.upper == pytest.approx(top, rel=1e-7, abs=1e-8)
    careful = np.full(counts.shape.hs, -1, dtype=np.int64)
    for chosen in (careful, certificate.estimated[1].table.copy()):
        actions, values = plain.lower_values(
            counts, sets.transitions, low, Range().floors(H), structure, chosen
        )
        given_, mine = chosen.copy(), np.empty(counts.shape.hs)
        kernel.lower_values(
            counts.table.rows,
            counts.table.entries,
            counts.pooled,
            sets.transitions,
            low,
            Range().floors(H),
            structure.can_end,
            structure.limit,
            given_,
            mine,
        )
        np.testing.assert_allclose(mine, values, rtol=1e-7, atol=1e-8)
        assert (given_[chosen >= 0] == actions[chosen >= 0]).all()
        assert certificate.lower(chosen.copy()) == pytest.approx(sets.lowest_start(mine[0]))


@given(evidence(), seeds)
def test_reachability(found: Evidence, seed: int) -> None:
    _, counts, structure = found
    H, S, _ = counts.shape.hsa
    rng = np.random.default_rng(seed)
    h, s = int(rng.integers(H)), int(rng.integers(S))
    sets = ConfidenceSets(counts, structure, 0.1)
    for upper in (True, False):
        expected = plain.reach_from(
            counts, sets.transitions, structure, sets.allowed, h, s, upper=upper
        )
        mine = sets._chances(h, s, 1.0 if upper else -1.0)
        np.testing.assert_allclose(mine, expected, rtol=1e-7, atol=1e-8)


@given(evidence(), st.sampled_from([0.0, 0.05, 0.7, 4.0]))
def test_the_reward_free_recursion(found: Evidence, theta: float) -> None:
    _, counts, structure = found
    certificate = reward_free(counts, structure, 0.1)
    allowed = certificate.sets.allowed
    values, chosen = np.full(counts.shape.hs, np.nan), np.full(counts.shape.hs, -1)
    kernel.reward_free_error(
        counts.table.rows,
        counts.table.entries,
        counts.pooled,
        certificate.radii,
        certificate.distances,
        theta,
        allowed,
        counts.visits,
        chosen,
        values,
    )
    np.testing.assert_array_equal(certificate._recursion(theta, certificate.radii)[0], values)
    expected, actions = plain.reward_free_error(
        counts, certificate.radii, certificate.distances, theta, allowed
    )
    np.testing.assert_allclose(values, expected, atol=1e-12)
    np.testing.assert_array_equal(chosen, actions)
