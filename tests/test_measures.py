"""The chain of bounds, concentrability and coverability."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covgame as cg
from covgame.flow import measures
from covgame.flow.min_flow import min_flow
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.targets.target import Target
from covgame.types import Policy
from tests.worlds import (
    deterministic_policies,
    random_counts,
    random_policy,
    small_worlds,
    worlds,
)

seeds = st.integers(0, 2**31)


@given(worlds(), seeds)
def test_the_chain_of_bounds(world: TabularMDP, seed: int) -> None:
    """eq. cov-bounds: (1) <= phi* <= (2) <= (3)."""
    target = Target.of_cells(random_counts(np.random.default_rng(seed), world))
    bounds = measures.bounds(world.transitions, target)
    assert bounds is not None
    assert bounds.stage_sum is not None
    assert bounds.cell_sum is not None
    phi = min_flow(world.transitions, target).min_episodes
    slack = 1 + 1e-6
    assert bounds.stage_max <= phi * slack
    assert phi <= bounds.stage_sum * slack
    assert bounds.stage_sum <= bounds.cell_sum * slack


@given(worlds(), seeds)
def test_one_stage_alone_costs_its_share_of_the_stage_sum(world: TabularMDP, seed: int) -> None:
    """Lemma bound-flow-refined: at one stage phi* needs only the states' totals."""
    counts = random_counts(np.random.default_rng(seed), world)
    counts[:-1] = 0.0
    target = Target.of_cells(counts)
    phi = min_flow(world.transitions, target).min_episodes
    assert measures.stage_sum(world.transitions, target) == pytest.approx(phi, rel=1e-6)


@given(worlds(), seeds)
def test_one_cell_alone_attains_every_upper_bound(world: TabularMDP, seed: int) -> None:
    reachable = np.argwhere(dp.reachable(world.transitions))
    h, s = reachable[seed % len(reachable)].tolist()
    target = cg.cells([(h, s, 0, 3.0)]).resolve(world.transitions)
    phi = min_flow(world.transitions, target).min_episodes
    assert measures.cell_sum(world.transitions, target) == pytest.approx(phi, rel=1e-6)


def test_upper_bounds_that_take_long_are_left_out_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = cg.plan("riverswim", "uniform:5").bounds
    monkeypatch.setattr(measures, "CHEAP_PROGRAMS", 0)
    monkeypatch.setattr(measures, "CHEAP_RECURSION", 0)
    plan = cg.plan("riverswim", "uniform:5")
    assert plan.bounds is not None
    assert (plan.bounds.stage_sum, plan.bounds.cell_sum) == (None, None)
    assert "--all-bounds" in str(plan)
    assert plan.to_dict()["bounds"]["stage_sum"] is None
    assert cg.plan("riverswim", "uniform:5", all_bounds=True).bounds == whole


def test_group_targets_have_no_chain() -> None:
    assert cg.plan("riverswim", "uniform:5/pair").bounds is None


@given(worlds(), seeds)
def test_phi_of_the_proportional_target_is_the_least_concentrability(
    world: TabularMDP, seed: int
) -> None:
    target = cg.proportional(1).resolve(world.transitions)
    best = min_flow(world.transitions, target)
    other = random_policy(np.random.default_rng(seed), world.shape)
    assert measures.concentrability(world.transitions, other) >= best.lower * (1 - 1e-9)
    attained = measures.concentrability(world.transitions, best.policy)
    assert attained == pytest.approx(best.min_episodes, rel=1e-6)


@given(worlds())
def test_coverability_lies_between_the_actions_and_concentrability(world: TabularMDP) -> None:
    target = cg.proportional(1).resolve(world.transitions)
    coverability = measures.coverability(world.transitions)
    assert coverability >= world.shape.actions * (1 - 1e-12)
    assert coverability <= min_flow(world.transitions, target).upper * (1 + 1e-9)


@given(small_worlds)
def test_coverability_against_enumeration(world: TabularMDP) -> None:
    best = np.zeros(world.shape.hsa)
    for policy in deterministic_policies(world):
        best = np.maximum(best, dp.occupancy(world.transitions, policy))
    expected = best.sum(axis=(1, 2)).max()
    assert measures.coverability(world.transitions) == pytest.approx(expected)


def test_data_that_misses_a_cell_is_infinitely_concentrated() -> None:
    world = cg.make("riverswim").require_model("a test")
    never_right = Policy.deterministic(np.zeros(world.shape.hs, dtype=np.int64), 2)
    assert measures.concentrability(world.transitions, never_right) == np.inf
