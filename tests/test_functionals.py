"""Complexity functionals against closed forms and slow, obvious oracles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

import covgame as cg
from covgame.baselines.pedel import deterministic_policies
from covgame.flow import functionals as f
from covgame.flow.near_optimal import largest_occupancies, optimal_values
from covgame.flow.pedel import pedel_objective
from covgame.flow.polytope import flow_polytope
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.types import Shape
from tests.worlds import random_world


def world_of(name: str) -> TabularMDP:
    return cg.make(name).require_model("a test")


def arms(means: list[float]) -> TabularMDP:
    """A bandit: one state, one stage."""
    shape = Shape(1, 1, len(means))
    nothing = np.zeros(0, dtype=np.int64)
    transitions = Transitions.from_entries(
        shape, np.ones(1), nothing, nothing, np.zeros(0), stationary=False
    )
    return TabularMDP(transitions, np.array(means).reshape(1, 1, -1))


@pytest.mark.parametrize(("contexts", "actions", "horizon"), [(3, 2, 3), (5, 4, 2), (2, 3, 5)])
def test_a_disguised_bandit_costs_its_actions(contexts: int, actions: int, horizon: int) -> None:
    """C(PCE, eps) = A H^3/eps^2."""
    world = world_of(f"bandit:contexts={contexts},actions={actions},horizon={horizon}")
    assert f.pce(world.transitions, 0.1) == pytest.approx(actions * horizon**3 / 0.01)


def test_an_ergodic_world_is_cheap() -> None:
    """C(PCE, eps) <= S^alpha A H^4/eps^2 (with beta in the place of alpha, see the slips)."""
    world = world_of("ergodic:states=12,actions=3,horizon=4,alpha=0.5,beta=0.25")
    assert f.pce(world.transitions, 0.1) <= 12**0.25 * 3 * 4**4 / 0.01


@pytest.mark.parametrize(("gap", "epsilon"), [(0.5, 0.1), (1.0, 0.01), (0.3, 0.3)])
def test_the_barren_branch_costs_one_over_eps_gap(gap: float, epsilon: float) -> None:
    """sup_pi p^pi/max(eps, Delta(pi))^2 = 1/(eps Delta) in the branch that loses Delta."""
    world = world_of(f"twobranch:states=12,actions=2,horizon=4,gap={gap}")
    optimal = optimal_values(world.transitions, world.rewards)
    found = largest_occupancies(optimal, epsilon) / epsilon**2
    reach = dp.reachability(world.transitions)
    barren = np.zeros(world.shape.hs, dtype=bool)
    barren[1:, 1 + max(1, round(math.log(12))) :] = True
    sure = barren & (reach > 1 - 1e-9)
    assert sure.any()
    np.testing.assert_allclose(found[sure], 1 / (epsilon * gap), rtol=1e-6)


def test_principle_stays_below_the_lemma_on_two_branches() -> None:
    """H^3 cells/(eps Delta) + H^3 cells/eps^2, while MOCA pays at least H^4 cells/eps^2."""
    world = world_of("twobranch:states=12,actions=2,horizon=4,gap=1")
    epsilon, H, S, A = 0.01, 4, 12, 2
    found = f.functionals(world.transitions, world.rewards, epsilon)
    small = max(1, round(math.log(S)))
    cells = f.reachable_cells(world.transitions)
    barren = int(cells[:, 1 + small :].sum())
    assert (
        found.principle <= H**3 * barren / epsilon + H**3 * (int(cells.sum()) - barren) / epsilon**2
    )
    assert found.moca >= H**4 * barren / epsilon**2
    assert found.principle < found.pce
    assert found.principle < found.moca / 10
    assert world.shape.actions == A


def test_moca_and_pedel_of_a_bandit_by_hand() -> None:
    """One stage, one state: gaps .5 .2 0, the best arm's own gap is that of the second, .2."""
    world = arms([0.4, 0.7, 0.9])
    found = f.functionals(world.transitions, world.rewards, 0.1)
    assert found.pce == pytest.approx(3 / 0.01)
    assert found.moca == pytest.approx((1 / 0.25 + 1 / 0.04 + 1 / 0.04) + 2 / 0.01)
    assert found.pedel == pytest.approx(1 / 0.25 + 1 / 0.04 + 1 / 0.04, rel=1e-3)
    assert found.policy_gap == pytest.approx(0.2)
    assert found.value_gap == pytest.approx(0.2)
    # f(g) for an arm with gap d: min(1, g/d)
    assert found.principle == pytest.approx((0.2 + 0.5 + 1.0) / 0.01)


def test_twins_have_no_gap() -> None:
    found = f.functionals(arms([0.9, 0.9]).transitions, arms([0.9, 0.9]).rewards, 0.1)
    assert found.policy_gap == 0.0
    assert found.value_gap is None


@settings(max_examples=15)
@given(st.integers(0, 2**31), st.floats(0.02, 0.5))
def test_pedel_is_at_most_h_squared_principle(seed: int, epsilon: float) -> None:
    """Lemma PRINCIPLEvsPEDEL."""
    world = random_world(np.random.default_rng(seed), Shape(3, 2, 2), ending=0.0)
    optimal = optimal_values(world.transitions, world.rewards)
    pedel = f.pedel(optimal, epsilon)
    assert pedel is not None
    assert pedel <= 9 * f.principle(optimal, epsilon) * (1 + 1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_pedel_against_a_general_solver(seed: int) -> None:
    """All policies, all occupancies, one convex program by scipy."""
    world = random_world(np.random.default_rng(seed), Shape(2, 2, 2), ending=0.0)
    optimal, least, h = optimal_values(world.transitions, world.rewards), 0.1, 1
    polytope = flow_polytope(world.transitions)
    conserve = np.zeros((polytope.matrix.rows, len(polytope.cells) + 1))
    conserve[polytope.matrix.index, polytope.matrix.column] = polytope.matrix.value
    here = np.flatnonzero(polytope.cells // world.shape.pairs == h)
    rows = []
    for policy in deterministic_policies(world.transitions):
        values = dp.evaluate(world.transitions, policy, world.rewards)
        loss = optimal.best - dp.initial_value(world.transitions, values)
        chance = dp.occupancy(world.transitions, policy).ravel()[polytope.cells[here]]
        rows.append((chance / max(least, loss)) ** 2)
    weighted = np.array(rows)

    def worst(x: np.ndarray) -> float:
        terms = weighted / np.maximum(x[1 + here], 1e-9)
        largest = terms.sum(axis=1)
        top = largest.max()
        return float(top + np.log(np.exp(200 * (largest / top - 1)).sum()) * top / 200)

    even = dp.occupancy(world.transitions, cg.Policy.uniform(world.shape)).ravel()
    found = minimize(
        worst,
        np.concatenate([[1.0], even[polytope.cells]]),
        method="SLSQP",
        bounds=[(1, 1), *[(1e-6, None)] * len(polytope.cells)],
        constraints=LinearConstraint(conserve, 0, 0),
        options={"maxiter": 500},
    )
    exact = float((weighted / found.x[1 + here]).sum(axis=1).max())
    mine = pedel_objective(optimal, h, least)
    assert mine is not None
    assert mine <= exact * (1 + 1e-3)
    assert mine == pytest.approx(exact, rel=0.03)


def test_too_many_policies_to_list() -> None:
    world = world_of("garnet:states=20,actions=4,horizon=6")
    assert f.pedel(optimal_values(world.transitions, world.rewards), 0.1) is None


def test_from_python() -> None:
    found = cg.functionals("bandit:contexts=3,actions=2", epsilon=0.5, horizon=2)
    assert found.pce == pytest.approx(2 * 8 / 0.25)
    with pytest.raises(cg.BadInput, match="epsilon"):
        cg.functionals("bandit", epsilon=0)
