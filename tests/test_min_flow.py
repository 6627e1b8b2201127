"""phi*: the theorems of Section 2 and Appendix A, stated as tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

import covgame as cg
from covgame.errors import Infeasible
from covgame.flow import min_flow as min_flow_module
from covgame.flow.highs import Answer, LinearProgram, Method, solve
from covgame.flow.min_flow import ScaledProgram, dual_bound, min_flow, policy_bound
from covgame.flow.polytope import SparseColumns, flow_polytope
from covgame.mdp import dp
from covgame.mdp.families import FAMILIES, Builder
from covgame.mdp.model import TabularMDP
from covgame.targets.requests import parse_request
from covgame.targets.target import Target
from covgame.types import ANY, Policy, Shape
from tests.worlds import (
    min_episodes_by_enumeration,
    random_counts,
    random_groups,
    random_policy,
    small_worlds,
    worlds,
)

seeds = st.integers(0, 2**31)
TIGHT = 1e-7


def some_target(world: TabularMDP, seed: int, groups: bool) -> Target:
    rng = np.random.default_rng(seed)
    if groups:
        return random_groups(rng, world)
    return Target.of_cells(random_counts(rng, world))


@given(small_worlds, seeds, st.booleans())
def test_against_the_cheapest_mixture_of_all_policies(
    world: TabularMDP, seed: int, groups: bool
) -> None:
    target = some_target(world, seed, groups)
    assume(len(target))
    expected = min_episodes_by_enumeration(world, target)
    assert min_flow(world.transitions, target).min_episodes == pytest.approx(expected, rel=1e-6)


@given(worlds(), seeds, st.booleans())
def test_the_two_certified_bounds_meet(world: TabularMDP, seed: int, groups: bool) -> None:
    target = some_target(world, seed, groups)
    result = min_flow(world.transitions, target)
    assert result.lower <= result.upper * (1 + 1e-12)
    assert result.dual_gap <= TIGHT


@given(worlds(), seeds, st.booleans())
def test_any_prices_bound_from_below_and_any_policy_from_above(
    world: TabularMDP, seed: int, groups: bool
) -> None:
    rng = np.random.default_rng(seed)
    target = some_target(world, seed, groups)
    result = min_flow(world.transitions, target)
    prices = rng.exponential(size=len(target))
    assert dual_bound(world.transitions, target, prices) <= result.upper * (1 + 1e-9)
    policy = random_policy(rng, world.shape)
    assert policy_bound(world.transitions, target, policy) >= result.lower * (1 - 1e-9)


@given(worlds(), seeds, st.booleans())
def test_the_flow_policy_realises_its_flow(world: TabularMDP, seed: int, groups: bool) -> None:
    """Proposition distr-min-cover-policy: p^pi = eta / phi*, and the flow meets the target."""
    target = some_target(world, seed, groups)
    result = min_flow(world.transitions, target)
    realised = dp.occupancy(world.transitions, result.policy) * result.min_episodes
    np.testing.assert_allclose(realised, result.flow, atol=1e-9 * max(1, result.min_episodes))
    assert (target.collected(result.flow) >= target.counts * (1 - 1e-9)).all()
    np.testing.assert_allclose(result.policy.table.sum(axis=2), 1.0)
    assert result.flow[0].sum() == pytest.approx(result.min_episodes)


@given(worlds(), seeds, st.booleans())
def test_prices_are_scaled_to_phi(world: TabularMDP, seed: int, groups: bool) -> None:
    target = some_target(world, seed, groups)
    assume(len(target))
    result = min_flow(world.transitions, target)
    assert (result.prices >= 0).all()
    assert target.counts @ result.prices == pytest.approx(result.min_episodes, rel=TIGHT)
    income = dp.backward_induction(world.transitions, target.cell_rewards(result.prices))
    assert dp.initial_value(world.transitions, income.values) == pytest.approx(1.0)


@given(worlds(), seeds, st.data())
def test_a_price_is_a_subgradient(world: TabularMDP, seed: int, data: st.DataObject) -> None:
    """One more required visit costs at least its price; one less saves at most that."""
    target = some_target(world, seed, groups=True)
    assume(len(target))
    result = min_flow(world.transitions, target)
    row = data.draw(st.integers(0, len(target) - 1))
    step = data.draw(st.sampled_from([-0.4, 0.5, 10.0]))
    counts = target.counts.copy()
    counts[row] += step
    assume(counts[row] > 0)
    moved = min_flow(world.transitions, Target(target.shape, target.rows, counts))
    slack = 1e-6 * max(1.0, result.min_episodes)
    assert moved.min_episodes >= result.min_episodes + step * result.prices[row] - slack


@given(worlds(), seeds, st.floats(0.01, 1000))
def test_scaling(world: TabularMDP, seed: int, factor: float) -> None:
    counts = random_counts(np.random.default_rng(seed), world)
    once = min_flow(world.transitions, Target.of_cells(counts)).min_episodes
    scaled = min_flow(world.transitions, Target.of_cells(factor * counts)).min_episodes
    assert scaled == pytest.approx(factor * once, rel=1e-6)


@given(worlds(), seeds)
def test_subadditive_and_monotone(world: TabularMDP, seed: int) -> None:
    """Lemma flow-linear, and phi*(c) <= phi*(c + d)."""
    rng = np.random.default_rng(seed)
    one, other = random_counts(rng, world), random_counts(rng, world)
    cost = [min_flow(world.transitions, Target.of_cells(c)).min_episodes for c in (one, other)]
    both = min_flow(world.transitions, Target.of_cells(one + other)).min_episodes
    assert both <= sum(cost) * (1 + 1e-6)
    assert both >= max(cost) * (1 - 1e-6)


@given(
    st.one_of(
        worlds(max_actions=1).map(lambda w: (w, 2)), worlds(max_horizon=1).map(lambda w: (w, 0))
    ),
    seeds,
)
def test_groups_of_one_cell_are_cells(world_and_open: tuple[TabularMDP, int], seed: int) -> None:
    """With one action an open action changes nothing, with one stage an open stage."""
    world, opened_column = world_and_open
    counts = random_counts(np.random.default_rng(seed), world)
    target = Target.of_cells(counts)
    rows = target.rows.copy()
    rows[:, opened_column] = ANY
    opened = Target(target.shape, rows, target.counts)
    expected = min_flow(world.transitions, target).min_episodes
    assert min_flow(world.transitions, opened).min_episodes == pytest.approx(expected, rel=1e-6)


@given(worlds(), seeds)
def test_asking_for_groups_is_never_dearer_than_for_their_cells(
    world: TabularMDP, seed: int
) -> None:
    """Pairs ask for less than cells whose counts add up to the same; and >= sum c_g / H."""
    counts = random_counts(np.random.default_rng(seed), world)
    per_pair = counts.sum(axis=0)
    rows = np.argwhere(per_pair > 0)
    pairs = Target.of_rows(
        world.shape,
        np.column_stack([np.full(len(rows), ANY), rows]),
        per_pair[per_pair > 0],
    )
    cells = min_flow(world.transitions, Target.of_cells(counts)).min_episodes
    grouped = min_flow(world.transitions, pairs).min_episodes
    assert grouped <= cells * (1 + 1e-6)
    assert grouped >= per_pair.sum() / world.shape.horizon * (1 - 1e-6)


@given(worlds())
def test_unreachable_cells_are_named(world: TabularMDP) -> None:
    reachable = dp.reachable(world.transitions)
    assume(not reachable.all())
    h, s = np.argwhere(~reachable)[0].tolist()
    with pytest.raises(cg.UnreachableTarget) as caught:
        min_flow(world.transitions, cg.cells([(h, s, 0, 1.0)]).resolve(world.transitions))
    assert caught.value.cells == [(h, s, 0)]
    assert f"(stage {h}, state {s}, action 0)" in str(caught.value)


@given(worlds())
def test_no_requirement_costs_nothing(world: TabularMDP) -> None:
    result = min_flow(world.transitions, cg.uniform(0).resolve(world.transitions))
    assert result.min_episodes == 0
    assert result.dual_gap == 0
    assert result.dearest() == []


@pytest.mark.parametrize("states", [2, 5, 9])
@pytest.mark.parametrize("actions", [1, 3, 4])
def test_a_disguised_bandit_costs_its_number_of_actions(states: int, actions: int) -> None:
    plan = cg.plan(f"bandit:contexts={states},actions={actions},horizon=4", "proportional:1")
    assert plan.min_episodes == pytest.approx(actions)


@pytest.mark.parametrize(("horizon", "actions"), [(1, 1), (1, 4), (3, 1), (4, 2), (3, 5)])
def test_a_tree_costs_its_widest_stage(horizon: int, actions: int) -> None:
    plan = cg.plan(f"tree:horizon={horizon},actions={actions}", "uniform:7")
    assert plan.min_episodes == pytest.approx(7 * actions**horizon)
    assert plan.bounds is not None
    assert plan.bounds.stage_max == pytest.approx(plan.min_episodes)


def test_an_unbalanced_tree_costs_its_heaviest_antichain() -> None:
    """10 on one action and 6 on each of the two below the other: 22, where bound (1) says 12."""
    rows = [(0, 0, 0, 10.0), (1, 2, 0, 6.0), (1, 2, 1, 6.0)]
    plan = cg.plan("tree:horizon=2,actions=2", cg.cells(rows))
    assert plan.min_episodes == pytest.approx(22)
    assert plan.bounds is not None
    assert plan.bounds.stage_max == 12


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_an_ergodic_world_is_cheap(beta: float) -> None:
    """Appendix E.7 with the cap that its floor implies, and without the factor H.

    The uniform policy visits a state with at least the floor's probability, and none is
    visited with more than S^(beta-1), so A S^(beta-1)/floor episodes cover all stages at once.
    """
    S, A, H = 8, 3, 4
    plan = cg.plan(
        f"ergodic:states={S},actions={A},horizon={H},alpha=0.95,beta={beta}", "proportional:1"
    )
    floor = (1 - S ** (beta - 1)) / (S - 1)
    assert plan.min_episodes * (1 + 1e-9) >= A
    assert plan.min_episodes <= S**beta * A * H
    assert plan.min_episodes <= A * S ** (beta - 1) / floor


def test_a_coin_that_leads_on_is_paid_for() -> None:
    """From state 0 a single action reaches state 1 with probability 1/4: 20 visits cost 80."""
    shape_text = "lock:horizon=2,actions=1,slip=0.75"
    plan = cg.plan(shape_text, cg.cells([(1, 0, 0, 20.0)]))
    assert plan.min_episodes == pytest.approx(80)
    [(row, price)] = plan.dearest()
    assert row == (1, 0, 0)
    assert price == pytest.approx(4.0)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("target", ["uniform:50", "uniform:5/pair", "uniform:5/state"])
def test_every_family_is_certified(family: str, target: str) -> None:
    assert cg.plan(family, target).dual_gap <= 1e-6


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("target", ["uniform:50", "uniform:5/pair"])
def test_all_methods_agree(method: Method, target: str) -> None:
    world = FAMILIES["garnet"].make({"states": "10", "horizon": "6"})
    wanted = cg.plan(world, target)
    polytope = flow_polytope(world.transitions)
    program = ScaledProgram(wanted.target, polytope, dp.reach_bound(world.transitions))
    *_, answer = program.answers(method)
    assert answer.value * program.unit == pytest.approx(wanted.min_episodes, rel=1e-5)


def test_a_large_program_goes_through_the_other_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = cg.plan("garnet", "uniform:50").min_episodes
    monkeypatch.setattr(min_flow_module, "SMALL", 0)
    assert cg.plan("garnet", "uniform:50").min_episodes == pytest.approx(expected, rel=1e-5)
    monkeypatch.setattr(min_flow_module, "_spreads_slowly", lambda _: True)
    assert cg.plan("garnet", "uniform:50").min_episodes == pytest.approx(expected, rel=1e-5)


def test_the_choice_of_method_looks_at_the_world() -> None:
    def first(name: str, text: str) -> Method:
        transitions = cg.make(name).require_model("a test").transitions
        target = parse_request(text).resolve(transitions)
        reach = dp.reach_bound(transitions)
        program = ScaledProgram(target, flow_polytope(transitions), reach)
        return min_flow_module._methods(transitions, program)[0]

    assert first("riverswim", "uniform:1") is Method.VERTEX
    assert first("grid:rows=30,columns=30,horizon=40", "uniform:1") is Method.INTERIOR
    assert first("grid:rows=30,columns=30,horizon=40,slip=0.1", "uniform:1") is Method.INTERIOR
    assert first("riverswim:states=50,horizon=250", "uniform:1/state") is Method.STAGEWISE
    assert first("garnet:states=900,horizon=6", "uniform:1/pair") is Method.FIRST_ORDER
    assert first("garnet:states=2000,horizon=6", "uniform:1") is Method.FIRST_ORDER


@pytest.mark.parametrize(("large", "small"), [(1e8, 1.0), (1e6, 1e-3), (1e9, 50.0)])
def test_small_groups_beside_large_ones(large: float, small: float) -> None:
    """Below the solver's tolerance, but not below the certificate's."""
    plan = cg.plan("tree:horizon=1,actions=2", cg.cells([(None, 0, 0, large), (None, 0, 1, small)]))
    assert plan.min_episodes == pytest.approx(large + small, rel=1e-6)
    assert plan.min_flow.upper == pytest.approx(large + small, rel=1e-6)
    assert (plan.target.collected(plan.visits) >= plan.target.counts * (1 - 1e-9)).all()


def test_groups_behind_small_probabilities() -> None:
    """State 2 is two steps of probability 1e-7 away, at the last stage: two visits cost 2e14."""
    world = Builder(Shape(3, 3, 2))
    for s in range(2):
        world.move(s, 0, {s: 1 - 1e-7, s + 1: 1e-7})
        world.move(s, 1, {s: 1.0})
    world.move(2, 0, {2: 1.0})
    world.move(2, 1, {2: 1.0})
    plan = cg.plan(world.build(), "uniform:1/pair")
    assert plan.dual_gap <= 1e-5
    assert plan.min_episodes == pytest.approx(2e14, rel=1e-5)


def test_long_horizons_are_quick_enough_to_be_certified() -> None:
    plan = cg.plan("gym:FrozenLake-v1", "uniform:1/pair")
    assert plan.model.shape.horizon == 100
    assert plan.dual_gap <= 1e-5


def test_a_gap_is_never_hidden() -> None:
    """A lower bound that is no number, or above the upper one, is no agreement."""
    good = cg.plan("riverswim", "uniform:5").min_flow
    assert replace(good, lower=float("nan")).dual_gap == np.inf
    assert replace(good, lower=2 * good.upper).dual_gap == pytest.approx(1.0)
    assert replace(good, lower=0.0).dual_gap == pytest.approx(1.0)
    assert replace(good, upper=np.inf).dual_gap == np.inf


def test_one_method_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is not good enough is kept if the other method fails, and improved else."""
    expected = cg.plan("garnet", "uniform:50").min_flow
    monkeypatch.setattr(min_flow_module, "GOOD_GAP", -1.0)
    both = cg.plan("garnet", "uniform:50").min_flow
    assert both.dual_gap <= expected.dual_gap + 1e-15

    def only_vertices(program: LinearProgram, method: Method) -> Answer:
        if method is not Method.VERTEX:
            raise cg.SolverFailed("no")
        return solve(program, method)

    monkeypatch.setattr(min_flow_module, "solve", only_vertices)
    assert cg.plan("garnet", "uniform:50").min_episodes == pytest.approx(expected.upper)


def test_the_better_side_of_each_is_kept() -> None:
    good = cg.plan("riverswim", "uniform:5").min_flow
    worse_above = replace(good, upper=2 * good.upper)
    worse_below = replace(good, lower=good.lower / 2, prices=good.prices / 2)
    for combined in (worse_above.combined(worse_below), worse_below.combined(worse_above)):
        assert (combined.lower, combined.upper) == (good.lower, good.upper)
        np.testing.assert_array_equal(combined.prices, good.prices)


@pytest.mark.parametrize(("horizon", "actions"), [(600, 4), (1100, 2)])
def test_worlds_in_which_random_walks_get_nowhere(horizon: int, actions: int) -> None:
    """The uniform policy's occupancy underflows; phi* = (actions - 1) horizon + 2 does not."""
    plan = cg.plan(f"lock:horizon={horizon},actions={actions}", "uniform:1")
    assert plan.min_episodes == pytest.approx((actions - 1) * horizon + 2)


def test_what_cannot_be_counted_is_an_error_by_name() -> None:
    with pytest.raises(cg.SolverFailed, match="double precision"):
        cg.plan("lock:horizon=340,actions=1,slip=0.9", "uniform:1")


def test_a_failing_solver_is_an_error_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object) -> None:
        raise cg.SolverFailed("no")

    monkeypatch.setattr(ScaledProgram, "answers", give_up)
    with pytest.raises(cg.SolverFailed):
        cg.plan("riverswim", "uniform:5")


def test_an_infeasible_program_is_an_error_by_name() -> None:
    matrix = SparseColumns(1, np.array([0, 1]), np.array([0]), np.array([1.0]))
    program = LinearProgram(np.ones(1), np.ones(1), matrix, np.zeros(1), np.zeros(1))
    with pytest.raises(Infeasible, match="has no solution"):
        solve(program, Method.VERTEX)


def test_against_scipy_on_the_program_as_the_paper_writes_it() -> None:
    """eq. min_flow_problem in dense matrices, unscaled, all cells, solved by scipy."""
    world = FAMILIES["garnet"].make({"states": "6", "actions": "3", "horizon": "4"})
    target = cg.uniform(5).resolve(world.transitions)
    H, S, A = world.shape.hsa
    conserve = np.zeros((H * S, H * S * A))
    for h in range(H):
        for s in range(S):
            for a in range(A):
                cell = (h * S + s) * A + a
                conserve[h * S + s, cell] = 1.0
                kernel = world.transitions.stages[h]
                for entry in range(*kernel.start[s * A + a : s * A + a + 2]):
                    if h + 1 < H:
                        row = (h + 1) * S + kernel.next_state[entry]
                        conserve[row, cell] -= kernel.probability[entry]
    keep = np.flatnonzero(np.arange(H * S) != int(world.initial.argmax()))
    cost = np.zeros(H * S * A)
    cost[:A] = 1.0
    answer = linprog(
        cost,
        A_eq=conserve[keep],
        b_eq=np.zeros(len(keep)),
        bounds=[(c, None) for c in target.cell_counts().ravel()],
    )
    assert min_flow(world.transitions, target).min_episodes == pytest.approx(answer.fun, rel=1e-7)


def test_a_uniform_policy_is_a_policy_bound() -> None:
    world = FAMILIES["bandit"].make({})
    target = cg.proportional(1).resolve(world.transitions)
    bound = policy_bound(world.transitions, target, Policy.uniform(world.shape))
    assert bound == pytest.approx(world.shape.actions)
