"""The recursions behind certificates: in plain Python, and by hand where two stages are enough."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covgame.game.counts import Counts
from covgame.mdp.model import TabularMDP
from covgame.pac.error_bounds import RewardFreeError, reward_free
from covgame.pac.mixtures import Structure
from covgame.types import FloatArray, Shape
from tests.test_certified import data
from tests.worlds import worlds

seeds = st.integers(0, 2**31)


def plain_reward_free(certificate: RewardFreeError, theta: float) -> FloatArray:
    """X_h = min(H-h, min(kappa/theta, (H-h) tv) + p_hat max_b X_{h+1}), h = 1..H; X_H = 0."""
    counts = certificate.counts
    H, S, A = counts.shape.hsa
    kernel, values = counts.kernel(), np.zeros((H, S))
    for stage in range(H - 1, 0, -1):  # counted from 1, as in the formula
        left, h = H - stage, stage - 1
        mean = kernel.stages[h].expect(values[h + 1])
        for s in range(S):
            bounds = []
            for a in range(A):
                row = s * A + a + (0 if counts.pooled else h * S * A)
                cost = left * certificate.distances[row]
                if theta > 0:
                    cost = min(cost, certificate.radii[row] / theta)
                seen = counts.table.total[row] > 0
                bounds.append(min(left, cost + mean[s * A + a]) if seen else left)
            values[h, s] = max(bounds)
    return values


@given(worlds(), seeds, st.booleans(), st.sampled_from([0.0, 0.05, 0.7, 4.0]))
def test_the_reward_free_recursion_is_the_plain_one(
    world: TabularMDP, seed: int, pooled: bool, theta: float
) -> None:
    pooled = pooled and world.transitions.stationary
    counts = data(world, 3000, seed, pooled=pooled)
    certificate = reward_free(counts, Structure(), 0.1)
    values, _ = certificate._recursion(theta)
    np.testing.assert_allclose(values, plain_reward_free(certificate, theta), atol=1e-12)


def two_stages(times: int) -> RewardFreeError:
    """One state that leads to itself, seen so often; two stages, so one transition matters."""
    shape = Shape(2, 1, 1)
    counts = Counts(shape, pooled=False)
    counts.table.add(0, 0, times)
    counts.n_episodes, counts.starts[0] = times, times
    counts.visits[:, 0, 0] = times
    structure = Structure(can_end=True, known_start=np.ones(1))
    return reward_free(counts, structure, 0.1)


@pytest.mark.parametrize("times", [40, 1000, 20_000])
def test_two_stages_by_hand(times: int) -> None:
    """The bound is 2 (theta/8 + min(1, kappa/theta, tv)): one step, whose error costs at most 1."""
    certificate = two_stages(times)
    kappa = float(certificate.radii[0])
    assert kappa == pytest.approx(certificate.sets.transitions[0] / times)
    tv = min(math.sqrt(kappa / 2), math.sqrt(1 - math.exp(-kappa)))
    assert certificate.distances[0] == pytest.approx(tv)
    assert certificate.at(0.0) == pytest.approx(2 * min(1.0, tv))
    for theta in (0.01, 0.5, 3.0):
        expected = 2 * (theta / 8 + min(1.0, kappa / theta, tv))
        assert certificate.at(theta) == pytest.approx(expected)
    # Over theta, theta/8 + kappa/theta is least at sqrt(8 kappa), and is sqrt(kappa/2) there.
    assert certificate.best[0] == pytest.approx(2 * tv, rel=1e-3)


def test_three_stages_cost_more_at_first() -> None:
    """What goes wrong at the first of three stages spoils two steps, at the second one."""
    shape = Shape(3, 1, 1)
    counts = Counts(shape, pooled=True)
    counts.table.add(0, 0, 5000)
    counts.n_episodes, counts.starts[0] = 2500, 2500
    counts.visits[:, 0, 0] = 2500
    certificate = reward_free(counts, Structure(known_start=np.ones(1)), 0.1)
    tv, kappa = float(certificate.distances[0]), float(certificate.radii[0])
    assert certificate.at(0.0) == pytest.approx(2 * (2 * tv + tv))
    theta = 0.4
    assert kappa / theta < tv
    assert certificate.at(theta) == pytest.approx(2 * (theta * 4 / 8 + 2 * kappa / theta))
