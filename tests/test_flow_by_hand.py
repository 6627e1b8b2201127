"""What covering costs, by hand: bounds for any prices and any policy, and the chain around phi*."""

from __future__ import annotations

import numpy as np
import pytest

from covgame.flow import measures
from covgame.flow.measures import bounds
from covgame.flow.min_flow import certify, dual_bound, flow_policy, min_flow, policy_bound
from covgame.targets.target import Target
from covgame.types import Policy
from tests.two_stages import SHAPE, kernel


def target(counts: dict[tuple[int, int, int], float]) -> Target:
    cells = np.zeros(SHAPE.hsa)
    for cell, count in counts.items():
        cells[cell] = count
    return Target.of_cells(cells)


WANTED = target({(1, 0, 0): 2.0, (1, 2, 1): 3.0})
"""Of state 0 with chance 1/2 after action 0, of state 2 with 3/4 after action 1."""


def test_prices_prove_a_lower_bound() -> None:
    """<c, y>/V*(y): 2/(1/2) and 3/(3/4) alone, 8 with the best prices, nothing for none."""
    for prices, bound in (
        ([1.0, 0.0], 4.0),
        ([0.0, 5.0], 4.0),
        ([3.0, 2.0], 8.0),
        ([1.0, 1.0], 5 / 0.75),
        ([0.0, 0.0], 0.0),
    ):
        assert dual_bound(kernel(), WANTED, np.array(prices)) == pytest.approx(bound)


def test_policies_prove_an_upper_bound() -> None:
    """max c/p: who takes both actions alike needs 8 and 8, and each state has its action."""
    chosen = np.full((*SHAPE.hs, 2), 0.5)
    chosen[1, 0], chosen[1, 2] = [1.0, 0.0], [0.0, 1.0]
    assert policy_bound(kernel(), WANTED, Policy.stochastic(chosen)) == pytest.approx(8.0)
    chosen[0, 0] = [0.75, 0.25]
    assert policy_bound(kernel(), WANTED, Policy.stochastic(chosen)) == pytest.approx(16.0)
    assert policy_bound(kernel(), WANTED, Policy.uniform(SHAPE)) == pytest.approx(16.0)


def test_both_sides_meet() -> None:
    found = min_flow(kernel(), WANTED)
    assert found.lower == pytest.approx(8.0)
    assert found.upper == pytest.approx(8.0)
    np.testing.assert_allclose(found.prices, [2.0, 4 / 3])
    assert found.min_episodes == found.lower
    assert [row for row, _ in found.dearest(1)] == [(1, 0, 0)]
    assert [price for _, price in found.dearest()] == pytest.approx([2.0, 4 / 3])
    np.testing.assert_allclose(found.flow[0, 0], [4.0, 4.0])
    assert found.dual_gap == pytest.approx(0.0, abs=1e-9)
    nothing = min_flow(kernel(), target({}))
    assert (nothing.lower, nothing.upper, nothing.dual_gap) == (0.0, 0.0, 0.0)


def test_what_a_bad_proposal_proves() -> None:
    """Any flow and any prices prove something, and two of them the better sides of each."""
    natural = np.zeros(SHAPE.hsa)
    natural[0, 0] = 0.5
    natural[1] = [[0.125, 0.125], [0.1875, 0.1875], [0.1875, 0.1875]]
    flow = np.zeros(SHAPE.hsa)
    flow[0, 0], flow[1, 0, 0], flow[1, 2, 1] = [3.0, 1.0], 1.0, 1.0
    one = certify(kernel(), WANTED, flow, np.array([1.0, 0.0]), natural)
    assert one.lower == pytest.approx(4.0)
    assert one.lower <= 8.0 <= one.upper
    np.testing.assert_allclose(one.prices, [2.0, 0.0])
    np.testing.assert_allclose(WANTED.collected(one.flow) / WANTED.counts, [2, 1], rtol=0.6)
    other = certify(kernel(), WANTED, natural, np.array([3.0, 2.0]), natural)
    assert other.lower == pytest.approx(8.0)
    both = one.combined(other)
    assert (both.lower, both.upper) == (other.lower, min(one.upper, other.upper))
    assert one.dual_gap == pytest.approx((one.upper - 4.0) / one.upper)
    nothing = certify(kernel(), WANTED, flow, np.zeros(2), natural)
    assert nothing.lower == 0.0


def test_a_flow_is_a_policy() -> None:
    flow = np.zeros(SHAPE.hsa)
    flow[0, 0] = [3.0, 1.0]
    chances = flow_policy(flow).probabilities()
    assert chances[0, 0].tolist() == [0.75, 0.25]
    assert chances[1, 2].tolist() == [0.5, 0.5]


def test_the_chain_of_bounds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage at a time, state by state, cell by cell; left out where that would take long."""
    wanted = target({(0, 0, 0): 5.0, (1, 0, 0): 2.0, (1, 0, 1): 1.0, (1, 2, 1): 3.0})
    found = bounds(kernel(), wanted)
    assert found is not None
    assert found.stage_max == 6.0
    assert found.stage_sum == pytest.approx(5 + 3 / 0.5 + 3 / 0.75)
    assert found.cell_sum == pytest.approx(5 + 3 / 0.5 + 3 / 0.75)
    # Cells of stages that can be reached: 2, then 6 more: 2 + (2 + 6); moves: 7 (3/2 - 1/2)...
    assert measures._variables_of_stage_programs(kernel()) == 2 + 8
    moves = sum(len(stage.next_state) for stage in kernel().stages)
    assert measures._products_of_reachability(kernel()) == moves * 3 * 2 / 2
    monkeypatch.setattr(measures, "CHEAP_PROGRAMS", 9)
    monkeypatch.setattr(measures, "CHEAP_RECURSION", moves * 3 - 1)
    short = bounds(kernel(), wanted)
    assert short is not None
    assert (short.stage_sum, short.cell_sum) == (None, None)
    whole = bounds(kernel(), wanted, at_any_price=True)
    assert whole is not None
    assert whole.stage_sum == pytest.approx(15.0)
    monkeypatch.setattr(measures, "CHEAP_PROGRAMS", 10)
    monkeypatch.setattr(measures, "CHEAP_RECURSION", moves * 3)
    assert bounds(kernel(), wanted) == whole
