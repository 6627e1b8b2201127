"""The paper's PAC algorithms at the paper's constants: what the theorems promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks._worst_case import worst_reward
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import covgame as cg
from covgame.baselines.pedel import deterministic_policies
from covgame.confidence import PaperThresholds
from covgame.engine.engines import COARSE, CountsEngine
from covgame.episodes import Episode
from covgame.flow.min_flow import policy_bound
from covgame.game.counts import Counts
from covgame.game.game import rounds
from covgame.game.presets import paper_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.forecast import forecast_best_policy, forecast_reward_free
from covgame.pac.pce import ProportionalCoverage
from covgame.pac.principle import ImplicitElimination
from covgame.pac.pruning import prune
from covgame.pac.tasks import CoverTask
from covgame.pac.visitations import EstimateVisitations, interval, visitation_task
from covgame.sources.counted import MOST_EPISODES, SortedSuccessors, draw_visits
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import BoolHSA, FloatHSA, Shape
from tests.learning import learn
from tests.worlds import random_policy, random_world, worlds

seeds = st.integers(0, 2**31)


def toy(seed: int, *, states: int = 3, horizon: int = 3, spread_start: bool = False) -> TabularMDP:
    rng = np.random.default_rng(seed)
    return random_world(rng, Shape(horizon, states, 2), ending=0.1, spread_start=spread_start)


def existing(world: TabularMDP) -> BoolHSA:
    reachable = dp.reachable(world.transitions)
    return np.repeat(reachable[:, :, None], world.shape.actions, axis=2)


def value(world: TabularMDP, policy: cg.Policy, reward: FloatHSA | None = None) -> float:
    earned = world.rewards if reward is None else reward
    return dp.initial_value(world.transitions, dp.evaluate(world.transitions, policy, earned))


def best_value(world: TabularMDP) -> float:
    values = dp.backward_induction(world.transitions, world.rewards).values
    return dp.initial_value(world.transitions, values)


# ----------------------------------------------------------------- EstimateVisitations


def test_intervals_by_hand() -> None:
    assert interval(300, 1000, 0.1).lower == pytest.approx(0.15 - 0.00625)
    assert interval(300, 1000, 0.1).upper == pytest.approx(0.625)
    assert interval(0, 1000, 0.1).lower == 0.0
    assert interval(900, 1000, 0.1).upper == 1.0


def check_visitations(world: TabularMDP, found: EstimateVisitations) -> None:
    """Theorem estimate-visitations: the interval, the two inclusions, the factor 36."""
    reach, precision = dp.reachability(world.transitions), found.precision
    assert (found.lower <= reach).all()
    assert (reach <= found.upper).all()
    kept = found.kept()
    assert kept[reach >= precision].all()
    assert (reach[kept] >= precision / 8).all()
    assert (found.upper[kept] <= 36 * reach[kept]).all()


@pytest.mark.parametrize("seed", range(12))
def test_visitations_at_paper_constants(seed: int) -> None:
    """Trillions of episodes a run; ``python3 dev.py bench pac`` does this a thousand times."""
    world = toy(seed, states=2 + seed % 2, horizon=2, spread_start=seed % 3 == 0)
    found = EstimateVisitations(PaperThresholds(world.shape), 0.05, 0.5)
    check_visitations(world, learn(found, world, seed))
    each = found.thresholds.visitation_episodes(0.05, 0.5 / (world.shape.states * 2))
    assert [phase.episodes for phase in found.phases] == [each] * (2 * world.shape.states)
    assert each > 10**11


def test_one_state_alone() -> None:
    world = toy(3)
    thresholds = PaperThresholds(world.shape)
    part = visitation_task(thresholds, 2, 1, 0.1, 0.1)
    player = CountsEngine(part.game, world, 0)
    while not part.over:
        player.play(part.left or 0)
    assert part.played == thresholds.visitation_episodes(0.1, 0.1)
    found = interval(int(part.game.counts.visits[2, 1].sum()), part.played, 0.1)
    assert found.lower <= dp.reachability(world.transitions)[2, 1] <= found.upper


def test_the_regret_of_the_planner_is_within_its_bound() -> None:
    """Regret of UCBVI for the reward 1{(h,s)}, over enough episodes for its bound to say something.

    At the paper's constants that takes 10^13 of them, by counts. The uniform policy would fail.
    """
    world = toy(5)
    thresholds = PaperThresholds(world.shape)
    part = visitation_task(thresholds, 2, 1, 0.1, 0.1)
    player = CountsEngine(part.game, world, 0, COARSE)
    while not part.over:
        player.play(part.left or 0)
    best, episodes = dp.reachability(world.transitions)[2, 1], part.played
    earned = float(part.game.counts.visits[2, 1].sum())
    bound = thresholds.planner_regret(episodes, 0.05)
    allowed = math.sqrt(bound * earned) + bound + 5 * math.sqrt(episodes)  # and chance
    assert best * episodes - earned <= allowed
    reward = np.zeros(world.shape.hsa)
    reward[2, 1] = 1.0
    uniform = value(world, cg.Policy.uniform(world.shape), reward)
    assert (best - uniform) * episodes > 2 * allowed


# ------------------------------------------------------------------------------- PCE


@pytest.fixture(scope="module")
def explored() -> tuple[TabularMDP, ProportionalCoverage]:
    world = toy(1)
    return world, learn(ProportionalCoverage(PaperThresholds(world.shape), 1.5, 0.1), world)


def test_pce_covers_in_proportion(explored: tuple[TabularMDP, ProportionalCoverage]) -> None:
    """Lemma new-RFE-coverage at the end: n >= 2^k sup_pi p^pi on what was kept."""
    world, pce = explored
    check_visitations(world, pce.visitations)
    last = pce.k - 1
    reach = dp.reachability(world.transitions)
    kept = pce.visitations.kept()
    visits = pce.counts.visits.min(axis=2)
    assert (visits[kept] >= 2**last * reach[kept]).all()


def test_pce_stops_when_it_may(explored: tuple[TabularMDP, ProportionalCoverage]) -> None:
    """The rule holds after the last phase and not before; kappa_f is bounded as in the lemma."""
    _, pce = explored
    bounds = [phase.bound for phase in pce.phases if phase.bound is not None]
    assert all(bound > 1.5 for bound in bounds[:-1])
    assert bounds[-1] <= 1.5
    H, t = 3, pce.counts.n_episodes
    beta = pce.thresholds.reward_free(t, 0.1 / 3)
    assert bounds[-1] == pytest.approx(math.sqrt(H * beta * 2.0 ** (4 - len(bounds))))
    assert 2 ** len(bounds) <= 32 * H * beta / 1.5**2
    assert pce.certified_error is not None
    assert pce.certified_error <= 1.5


def test_pce_is_good_for_the_worst_reward(
    explored: tuple[TabularMDP, ProportionalCoverage],
) -> None:
    """Every reward in [0,1], by a linear program for each pair of policies, not a sample."""
    world, pce = explored
    worst = worst_reward(world.transitions, pce.model.transitions)
    assert pce.certified_error is not None
    assert 0 < worst.loss <= pce.certified_error
    rng = np.random.default_rng(0)
    for _ in range(200):  # the search really is the worst case
        reward = rng.random(world.shape.hsa)
        values = dp.backward_induction(world.transitions, reward).values
        best = dp.initial_value(world.transitions, values)
        assert best - value(world, pce.model.plan(reward), reward) <= worst.loss + 1e-9


def test_the_worst_reward_of_a_bad_model_is_found() -> None:
    """A model that knows nothing loses all there is; the truth loses nothing."""
    world = toy(2, horizon=2)
    ignorant = Counts(world.shape, pooled=False).kernel()
    assert worst_reward(world.transitions, ignorant).loss > 0.2
    assert worst_reward(world.transitions, world.transitions).loss == pytest.approx(0, abs=1e-9)


@settings(max_examples=10)
@given(seeds)
def test_values_concentrate_for_all_policies(seed: int) -> None:
    """Theorem new-concentration-RFE with Z = all reachable cells, any deterministic policy."""
    world = toy(seed % 50)
    rng = np.random.default_rng(seed)
    counts = Counts(world.shape, pooled=False)
    for _ in range(6):
        counts.add_visits(
            draw_visits(SortedSuccessors(world), random_policy(rng, world.shape), 10**7, rng)
        )
    seen = counts.visits > 0
    beta = PaperThresholds(world.shape).reward_free(counts.n_episodes, 0.1)
    kernel, reward = counts.kernel(), rng.random(world.shape.hsa)
    bounds = []
    for policy in deterministic_policies(world.transitions):
        occupancy = dp.occupancy(world.transitions, policy)
        if (occupancy[~seen] > 0).any():
            continue
        estimate = dp.initial_value(world.transitions, dp.evaluate(kernel, policy, reward))
        bounds.append(math.sqrt(beta * (occupancy[seen] ** 2 / counts.visits[seen]).sum()))
        assert abs(estimate - value(world, policy, reward)) <= bounds[-1]
    assert min(bounds) < 0.1  # of at most 3: with few visits there would be nothing to violate


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 9)), min_size=1, max_size=4),
    st.floats(0.01, 10),
)
@settings(max_examples=20)
def test_the_quadratic_program_of_the_concentration(
    pairs: list[tuple[float, float]], c: float
) -> None:
    """Lemma qp-concentration: sup{p x : sum b x^2 <= c} = sqrt(c sum p^2/b)."""
    p, b = np.array(pairs).T
    claimed = math.sqrt(c * (p**2 / b).sum())
    found = minimize(
        lambda x: -p @ x,
        np.zeros(len(p)),
        jac=lambda x: -p,
        constraints={"type": "ineq", "fun": lambda x: c - b @ x**2, "jac": lambda x: -2 * b * x},
    )
    assert -found.fun <= claimed * (1 + 1e-4) + 1e-6
    if claimed > 1e-6:
        x = p / b * math.sqrt(c / (p**2 / b).sum())
        assert p @ x == pytest.approx(claimed)


@settings(max_examples=30)
@given(worlds(max_actions=2), seeds)
def test_the_simulation_lemma(world: TabularMDP, seed: int) -> None:
    """V - V_hat = E_hat sum (r - r_hat + (p - p_hat) V) along the policy (Lemma simulation)."""
    rng = np.random.default_rng(seed)
    other = random_world(rng, world.shape, spread_start=False)
    policy = random_policy(rng, world.shape)
    values = dp.evaluate(world.transitions, policy, world.rewards)
    values_hat = dp.evaluate(other.transitions, policy, other.rewards)
    difference = np.array(world.rewards - other.rewards)
    for h in range(world.shape.horizon - 1):
        gap = world.transitions.stages[h].expect(values[h + 1])
        gap = gap - other.transitions.stages[h].expect(values[h + 1])
        difference[h] += gap.reshape(world.shape.states, -1)
    occupancy = dp.occupancy(other.transitions, policy)
    start = other.transitions.initial
    left = start @ values[0] - start @ values_hat[0]
    assert left == pytest.approx((occupancy * difference).sum(), abs=1e-9)


# ------------------------------------------------------------------------- PRINCIPLE


@pytest.mark.parametrize("suprema", ["exact", "relaxed"])
@pytest.mark.parametrize("spread_start", [False, True])
def test_principle_keeps_the_best_policy(suprema: str, spread_start: bool) -> None:
    """After every phase: p_hat^pi* is well covered and earns enough, and n >= 2^k p^pi*."""
    world = toy(4, horizon=2, spread_start=spread_start)
    best = dp.backward_induction(world.transitions, world.rewards).policy
    occupancy = dp.occupancy(world.transitions, best)

    class Watched(ImplicitElimination):
        def tell(self, part: CoverTask, episodes: object = ()) -> bool:
            before = self.k
            super().tell(part, [])
            if self.k == before:
                return False
            k, model = before, self.model
            estimated = dp.occupancy(model.transitions, best)
            assert (self.counts.visits >= 2.0**k * occupancy - 1e-6).all()
            assert (self.counts.visits >= 2.0**k * estimated - 1e-6).all()
            lowest = self._well_covered(k).best_value - 2 * self.width(k, self.counts.n_episodes)
            assert (estimated * model.rewards).sum() >= lowest
            return True

    epsilon = 0.15
    learner = Watched(
        PaperThresholds(world.shape),
        epsilon,
        0.1,
        existing(world),
        random_start=spread_start,
        suprema=suprema,  # type: ignore[arg-type]
    )
    learn(learner, world)
    found = learner.conclusion()
    assert found is not None
    assert value(world, found.policy) >= best_value(world) - epsilon
    assert found.lower <= value(world, found.policy)
    assert best_value(world) <= found.upper
    assert found.gap <= epsilon
    shares = [float(p.notes["share_wanted"]) for p in learner.phases[1:]]
    assert shares[0] == 1.0
    assert shares[-1] < 1.0  # something was eliminated


def test_relaxed_targets_are_larger() -> None:
    """Leaving the caps out only adds to what is asked."""
    world = toy(7, horizon=2)
    thresholds = PaperThresholds(world.shape)
    learner = learn(ImplicitElimination(thresholds, 0.3, 0.1, existing(world)), world)
    covered = learner._well_covered(learner.k - 1)
    lowest = covered.best_value - 0.3
    assert (covered.suprema(lowest) <= covered.bounds(lowest) + 1e-9).all()


def test_elimination_spares_the_barren_branch() -> None:
    """Two branches: what cannot be near-optimal is visited less than uniform coverage would."""
    world = cg.make("twobranch:states=6,actions=2,horizon=3,gap=1").require_model("a test")
    exists = existing(world)
    learner = learn(ImplicitElimination(PaperThresholds(world.shape), 0.1, 0.1, exists), world)
    barren = exists.copy()
    barren[:, :3] = False
    last = learner.k - 1
    share = learner.counts.visits[barren].max() / 2.0**last
    assert share < 0.7
    assert learner.counts.visits[0, 0].min() >= 2.0**last * 0.1
    found = learner.conclusion()
    assert found is not None
    assert value(world, found.policy) >= best_value(world) - 0.1


def test_confidence_that_failed_eliminates_nothing() -> None:
    """With thresholds far too small the caps may leave no policy at all; it goes on."""
    world = toy(9)
    for seed in range(6):
        learner = ImplicitElimination(
            PaperThresholds(world.shape, 1e-8), 0.05, 0.1, existing(world)
        )
        learn(learner, world, seed)
        assert learner.done
        assert learner.policy.table.shape[:2] == world.shape.hs


# ------------------------------------------------------------------- CovGame, Theorem 2


@pytest.mark.parametrize("spread", [0, 4])
def test_covgame_stays_below_the_bound_of_theorem_2(spread: int) -> None:
    """64 m phi* + T_1 where T_1 is the smaller part; the uniform policy would need more.

    A combination lock: who does not plan opens it once in 3^9 episodes.
    """
    world = cg.make("lock:horizon=9,actions=3").require_model("a test")
    exists = existing(world)
    rng = np.random.default_rng(0)
    wanted = np.where(exists, 1e13 * 2.0 ** rng.integers(0, spread + 1, world.shape.hsa), 0.0)
    target = Target.of_cells(wanted)
    game = paper_game(target, delta=0.1)
    player = CountsEngine(game, world, 0)
    while not game.covered:
        player.play(MOST_EPISODES)
    levels = max(1, spread)
    cost = cg.plan(world, target).min_episodes
    bound = PaperThresholds(world.shape).covering_episodes(
        cost, cg.plan(world, Target.of_cells(exists.astype(float))).min_episodes, levels, 0.1
    )
    assert game.counts.n_episodes <= bound
    assert bound <= 70 * levels * cost
    assert policy_bound(world.transitions, target, cg.Policy.uniform(world.shape)) > bound


# -------------------------------------------------------------------------- forecasts


@pytest.mark.parametrize("seed", range(3))
def test_forecasts_are_lower_bounds(seed: int) -> None:
    world = toy(seed)
    thresholds, exists = PaperThresholds(world.shape), existing(world)
    pce = learn(ProportionalCoverage(thresholds, 1.5, 0.1), world, seed)
    for transitions in (world.transitions, None):
        forecast = forecast_reward_free(thresholds, 1.5, 0.1, transitions)
        assert forecast.episodes <= sum(phase.episodes for phase in pce.phases)
        assert forecast.needs[0].episodes == sum(p.episodes for p in pce.visitations.phases)
        phases = int(forecast.needs[2].part.split()[0])
        assert phases <= pce.k - 1
    principle = learn(ImplicitElimination(thresholds, 1.0, 0.1, exists), world, seed)
    for transitions in (world.transitions, None):
        forecast = forecast_best_policy(thresholds, 1.0, 0.1, exists, transitions)
        assert forecast.episodes <= sum(phase.episodes for phase in principle.phases)
        assert forecast.episodes >= 0.05 * principle.counts.n_episodes


# ---------------------------------------------------------------------- PruneDataset


@settings(max_examples=30)
@given(worlds(max_horizon=4, max_states=4), seeds)
def test_pruning_keeps_the_target_with_few_episodes(world: TabularMDP, seed: int) -> None:
    """At most sum c episodes are kept, and every cell that could has its c visits."""
    rng = np.random.default_rng(seed)
    source, policy = SimulatedSource(world, seed), random_policy(rng, world.shape)
    episodes = [source.play(policy, i) for i in range(200)]
    whole = Counts(world.shape, pooled=False)
    for episode in episodes:
        whole.add(episode)
    target = np.minimum(rng.integers(0, 4, world.shape.hsa), whole.visits).astype(np.float64)
    kept = list(prune(episodes, target))
    assert len(kept) <= target.sum()
    after = Counts(world.shape, pooled=False)
    for episode in kept:
        after.add(episode)
    assert (after.visits >= target).all()
    if target.sum() == 0:
        assert kept == []


def test_pruning_by_hand() -> None:
    """The second visit of the left state is not needed, but comes with the first of the right."""
    left, right = (Episode.of_steps([(0, 0, 0.0, s), (s, 0, 0.0, -2)]) for s in (1, 2))
    target = np.zeros((2, 3, 1))
    target[0, 0], target[1, 1], target[1, 2] = 1.0, 1.0, 1.0
    assert list(prune([left, left, left, right, right], target)) == [left, right]


@pytest.mark.parametrize("prune_it", [False, True])
def test_pruning_makes_principle_wrong(prune_it: bool) -> None:
    """The rare prize: pruned, it looks frequent, and the policy returned loses .24 > eps = .2."""
    world = cg.make("rareprize").require_model("a test")
    wrong = 0
    for seed in range(5):
        run = cg.identify(
            world, epsilon=0.2, preset="paper", play="exact", scale=5e-5, prune=prune_it, seed=seed
        )
        wrong += value(world, run.policy) < 0.25 - 0.2
        seen = run.counts.kernel().stages[0]
        believed = float(seen.probability[0])  # of the prize, after action 0
        assert 0.25 < believed < 0.65 if prune_it else believed < 0.03
    assert wrong >= 4 if prune_it else wrong == 0


def test_readable_rounds_play_the_parts_too() -> None:
    """A part is an ordinary game: whoever asks and tells can play it."""
    world = toy(0)
    learner = ImplicitElimination(PaperThresholds(world.shape, 1e-6), 1.0, 0.1, existing(world))
    number = 0
    while (part := learner.next_task()) is not None:
        for _ in rounds(part.game, SimulatedSource(world, number)):
            pass
        learner.tell(part)
        number += 1
    assert learner.done
