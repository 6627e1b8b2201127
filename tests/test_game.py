"""The game: Algorithm 1's pieces, the players' contracts, and compiled = readable."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covgame as cg
from covgame.episodes import LAST, Episode
from covgame.game.adversary import (
    REPLAN_LOG_RATIO,
    Adversary,
    MissingOnly,
    TargetAware,
    WeightedMajority,
    level_support,
    reached_level,
)
from covgame.game.counts import Counts
from covgame.game.game import Game, rounds
from covgame.game.planner import (
    KnownModelPlanner,
    OptimisticPlanner,
    PaperOptimism,
    Planner,
    RangeAwareOptimism,
)
from covgame.game.presets import default_game, paper_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.players.compiled import blocks
from covgame.rng import uniforms
from covgame.sources.simulated import SimulatedSource
from covgame.store.state import counts_arrays
from covgame.targets.requests import drop_rarely_reached, parse_request
from covgame.targets.target import Target
from covgame.types import ANY, END, FloatArray, Shape
from tests.worlds import dense_kernel, random_counts, random_policy, worlds

seeds = st.integers(0, 2**31)
GAMES: dict[str, Callable[[Target, bool], Game]] = {
    "default": lambda target, pooled: default_game(target, pooled=pooled),
    "paper": lambda target, _: paper_game(target, delta=0.1),
    "paper, range-aware": lambda target, pooled: Game(
        target,
        OptimisticPlanner(RangeAwareOptimism()),
        WeightedMajority(),
        Counts(target.shape, pooled=pooled),
    ),
    "missing only": lambda target, pooled: Game(
        target,
        OptimisticPlanner(RangeAwareOptimism()),
        MissingOnly(),
        Counts(target.shape, pooled=pooled),
    ),
    "default, stages apart": lambda target, _: default_game(target, pooled=False),
}
ADVERSARIES: list[Adversary] = [TargetAware(), WeightedMajority(), MissingOnly()]


def reachable_target(world: TabularMDP, text: str) -> Target:
    wanted = parse_request(text).resolve(world.transitions)
    return drop_rarely_reached(wanted, world.transitions, 0.02).target


# ---------------------------------------------------------------- randomness and episodes


def test_numbers_depend_on_the_key_alone() -> None:
    assert uniforms(1, 0, 5, 10).tolist() == uniforms(1, 0, 5, 20)[:10].tolist()
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**62, 3, 10**15)]
    drawn = {tuple(uniforms(*key, 4)) for key in keys}
    assert len(drawn) == len(keys)


def test_numbers_are_uniform_and_unrelated() -> None:
    table = np.array([uniforms(7, 0, episode, 8) for episode in range(4000)])
    assert 0 <= table.min()  # noqa: SIM300
    assert table.max() < 1
    shares = np.histogram(table, bins=20)[0] / table.size
    np.testing.assert_allclose(shares, 0.05, atol=0.004)
    within = np.corrcoef(table, rowvar=False) - np.eye(8)
    assert np.abs(within).max() < 0.07
    across = np.corrcoef(table[:-1, 0], table[1:, 0])[0, 1]
    assert abs(across) < 0.07


@pytest.mark.parametrize("stationary", [True, False])
def test_simulated_episodes_follow_the_kernel(stationary: bool) -> None:
    """Visits of 4,000 episodes against the exact occupancy, within 5 standard deviations."""
    name = f"garnet:states=4,actions=2,horizon=3,stationary={str(stationary).lower()}"
    world = cg.make(name).require_model("a test")
    policy = random_policy(np.random.default_rng(0), world.shape)
    source = SimulatedSource(world, seed=1)
    counts = Counts(world.shape, pooled=stationary)
    earned = 0.0
    for number in range(4000):
        episode = source.play(policy, number)
        counts.add(episode)
        earned += episode.reward.sum()
    exact = dp.occupancy(world.transitions, policy)
    spread = np.sqrt(exact * (1 - exact) / 4000)
    assert (np.abs(counts.visits / 4000 - exact) <= 5 * spread + 1e-12).all()
    value = dp.initial_value(
        world.transitions, dp.evaluate(world.transitions, policy, world.rewards)
    )
    assert earned / 4000 == pytest.approx(value, abs=5 * math.sqrt(3 / 4000))


@given(worlds(), seeds)
def test_episodes_are_possible_and_end_as_they_should(world: TabularMDP, seed: int) -> None:
    policy = random_policy(np.random.default_rng(seed), world.shape)
    episode = SimulatedSource(world, seed).play(policy, 0)
    dense = dense_kernel(world)
    assert world.initial[episode.state[0]] > 0
    for h, (s, a, following) in enumerate(
        zip(episode.state, episode.action, episode.next_state, strict=True)
    ):
        if following != LAST:
            assert dense[h, s, a, following] > 0
    assert episode.next_state[-1] in (END, LAST)
    assert (episode.next_state[-1] == LAST) == (len(episode) == world.shape.horizon)
    for (_, before), (after, _) in pairwise(
        zip(episode.state.tolist(), episode.next_state.tolist(), strict=True)
    ):
        assert before == after


# ------------------------------------------------------------------------------- counts


@given(worlds(), seeds, st.booleans())
def test_counts_against_a_dictionary(world: TabularMDP, seed: int, pooled: bool) -> None:
    counts = Counts(world.shape, pooled=pooled)
    source, rng = SimulatedSource(world, seed), np.random.default_rng(seed)
    seen: dict[tuple[int, int, int, int], int] = {}
    for number in range(40):
        episode = source.play(random_policy(rng, world.shape), number)
        counts.add(episode)
        for h, (s, a, following) in enumerate(
            zip(
                episode.state.tolist(),
                episode.action.tolist(),
                episode.next_state.tolist(),
                strict=True,
            )
        ):
            if following != LAST:
                key = (0 if pooled else h, s, a, following)
                seen[key] = seen.get(key, 0) + 1
    H, S, A = world.shape.hsa
    expected = np.zeros((H, S, A, S + 1))
    for (h, s, a, following), n in seen.items():
        expected[h, s, a, following] = n
    if pooled:
        expected[:] = expected[0]
    n = expected.sum(axis=3, keepdims=True)
    estimate = np.divide(expected, n, out=np.zeros_like(expected), where=n > 0)
    kernel = counts.kernel()
    values = rng.normal(size=S)
    for h in range(H):
        mean, square, observed = counts.estimate(h, values)
        np.testing.assert_array_equal(observed, n[h].ravel())
        padded = np.append(values, 0.0)
        np.testing.assert_allclose(mean, (estimate[h] @ padded).ravel(), atol=1e-12)
        np.testing.assert_allclose(square, (estimate[h] @ padded**2).ravel(), atol=1e-12)
        np.testing.assert_allclose(kernel.stages[h].expect(values), mean, atol=1e-12)
    assert counts.visits[0].sum() == counts.n_episodes == 40


@given(worlds(), seeds)
def test_borrowing_against_a_dictionary(world: TabularMDP, seed: int) -> None:
    """A row counts as if it had kappa more observations, distributed as those of all stages.

    kappa is measured for all states, and for each of them with the others as 8 steps more.
    """
    H, S, A = world.shape.hsa
    counts = Counts(world.shape, pooled=False, borrowing=True)
    source, rng = SimulatedSource(world, seed), np.random.default_rng(seed)
    seen = np.zeros((H, S, A, S + 1))
    own, others = np.zeros(S), np.zeros(S)
    for number in range(40):
        episode = source.play(random_policy(rng, world.shape), number)
        counts.add(episode)
        for h, (s, a, following) in enumerate(
            zip(episode.state, episode.action, episode.next_state, strict=True)
        ):
            if following == LAST:
                continue
            row, rest = seen[h, s, a], seen[:, s, a].sum(axis=0) - seen[h, s, a]
            if row.sum() and rest.sum():
                own[s] += row[following] / row.sum()
                others[s] += rest[following] / rest.sum()
            row[following] += 1
    agreement = (others.sum() + 0.5) / (own.sum() + 1.0)
    assert counts.borrowed == pytest.approx(kappa_of(agreement), rel=1 / 32)
    in_general = counts.borrowed / (1 + counts.borrowed)
    kappas = [kappa_of(a) for a in (others + 8 * in_general) / (own + 8)]
    np.testing.assert_allclose(counts.borrowed_by_state(), kappas)
    values = np.append(rng.normal(size=S), 0.0)
    for h in range(H):
        mean, square, observed = counts.estimate(h, values[:-1])
        best = np.zeros(S)
        for pair in range(S * A):
            row, everywhere = seen[h, pair // A, pair % A], seen[:, pair // A, pair % A].sum(axis=0)
            n, kappa = row.sum(), kappas[pair // A]
            extra = min(kappa, everywhere.sum() - n) if n < 30 * kappa else 0.0
            assert observed[pair] == pytest.approx(n + extra)
            if n + extra > 0:
                mix = (row + extra * everywhere / max(everywhere.sum(), 1)) / (n + extra)
                assert mean[pair] == pytest.approx(mix @ values, abs=1e-12)
                assert square[pair] == pytest.approx(mix @ values**2, abs=1e-12)
                best[pair // A] = max(best[pair // A], values[mix > 0].max())
                assert counts.successors(h)[pair] == (mix > 0).sum()
        np.testing.assert_array_equal(counts.best_after(h, values[:-1]), best)


def kappa_of(agreement: float) -> float:
    return 10.0 if agreement >= 10 / 11 else agreement / (1 - agreement)


@given(worlds(), seeds, st.booleans())
def test_what_is_unlearnt_was_never_there(world: TabularMDP, seed: int, pooled: bool) -> None:
    """An episode that is broken off leaves the counts as they were, to the last bit."""
    target = reachable_target(world, "uniform:3")
    game, other = (default_game(target, pooled=pooled) for _ in range(2))
    source, rng = SimulatedSource(world, seed), np.random.default_rng(seed)
    for number in range(12):
        source.play(random_policy(rng, world.shape), 100 + number, game.revise)
        game.abandon()
        for player in (game, other):
            player.tell(source.play(player.ask(), number, player.revise))
        for name, mine in counts_arrays(game.counts).items():
            np.testing.assert_array_equal(mine, counts_arrays(other.counts)[name])


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("riverswim:states=6,horizon=10", 9.0, 10.0),
        ("garnet:states=20,actions=4,horizon=10", 0.0, 0.5),
    ],
)
def test_stages_borrow_as_far_as_they_agree(name: str, least: float, most: float) -> None:
    world = cg.make(name).require_model("a test")
    game = default_game(reachable_target(world, "uniform:5"), pooled=False)
    for _ in blocks(game, SimulatedSource(world, 0), size=500, record=False):
        pass
    assert least <= game.counts.borrowed <= most


def test_borrowing_saves_episodes_where_stages_agree() -> None:
    """One visit everywhere, stage by stage, on a stationary world: a third less, at least."""
    world = cg.make("chain:states=8,horizon=14").require_model("a test")
    target = reachable_target(world, "uniform:1")

    def mean(borrowing: bool) -> float:
        taus = []
        for seed in range(30):
            counts = Counts(world.shape, pooled=False, borrowing=borrowing)
            game = Game(target, OptimisticPlanner(RangeAwareOptimism()), TargetAware(), counts)
            for _ in blocks(game, SimulatedSource(world, seed), size=500, record=False):
                pass
            taus.append(game.counts.n_episodes)
        return float(np.mean(taus))

    assert mean(borrowing=True) < 0.67 * mean(borrowing=False)


# ------------------------------------------------------------------------------ planner


@pytest.mark.parametrize("kind", ["paper", "range-aware", "known model"])
@given(worlds(), seeds)
def test_planners_keep_their_contract(kind: str, world: TabularMDP, seed: int) -> None:
    """An action everywhere, the same for the same input, and nothing is changed on the way."""
    planners: dict[str, Planner] = {
        "paper": OptimisticPlanner(PaperOptimism(world.shape, 0.1)),
        "range-aware": OptimisticPlanner(RangeAwareOptimism()),
        "known model": KnownModelPlanner(world.transitions),
    }
    planner = planners[kind]
    counts, reward = sixty_random_episodes(world, seed)
    before, kept = counts.visits.copy(), reward.copy()
    policy = planner.plan(counts, reward)
    assert not policy.is_stochastic
    assert policy.table.shape == world.shape.hs
    assert ((policy.table >= 0) & (policy.table < world.shape.actions)).all()
    np.testing.assert_array_equal(planner.plan(counts, reward).table, policy.table)
    np.testing.assert_array_equal(counts.visits, before)
    np.testing.assert_array_equal(reward, kept)
    nothing = planner.plan(Counts(world.shape, pooled=True), np.zeros(world.shape.hsa))
    assert nothing.table.shape == world.shape.hs


@pytest.mark.parametrize("preset", ["default", "paper", "paper, range-aware", "missing only"])
@pytest.mark.parametrize("name", ["lock:horizon=4,actions=3", "riverswim:states=4,horizon=6"])
def test_no_preset_gives_up_on_a_reachable_cell(name: str, preset: str) -> None:
    """The last door of a lock, the far bank of a river: every cell is found in the end."""
    world = cg.make(name).require_model("a test")
    target = parse_request("uniform:2").resolve(world.transitions)
    game = GAMES[preset](target, world.transitions.stationary)
    for _ in blocks(game, SimulatedSource(world, 5), size=1000, record=False):
        assert game.counts.n_episodes < 200_000
    assert game.covered


def test_an_action_in_doubt_may_do_what_another_one_did() -> None:
    """By hand: what is earned, what may be hoped for, and when hope ends."""
    optimism = RangeAwareOptimism(b=0.0)
    ones = np.ones(4)
    observed = np.array([0.0, 1.0, 2.7, 9.7])
    q = optimism.upper_q(0.5 * ones, 0.2 * ones, 0 * ones, observed, 0.8 * ones, 2.0)
    hope = 0.6 * 0.3 / (np.array([1.0, 2.7, 9.7]) + 0.3)
    np.testing.assert_allclose(q, [0.5 + 0.99 * 2.0, *(0.7 + hope)])
    settled = optimism.upper_q(0.5 * ones, 0.2 * ones, 0 * ones, observed, 0 * ones, 2.0)
    np.testing.assert_allclose(settled[1:], 0.7)


def test_hope_ends_when_an_action_was_seen_to_do_two_things() -> None:
    """Action 0 leads where something is paid. Action 1 led to two other places: it is no match."""
    shape = Shape(2, 4, 2)
    reward = np.zeros(shape.hsa)
    reward[1, 1], reward[0, 0, 1] = 1.0, 0.1
    planner = OptimisticPlanner(RangeAwareOptimism(b=0.0, doubt=100.0))
    counts = Counts(shape, pooled=True)
    for _ in range(3):
        counts.learn(0, 1)
        counts.learn(1, 2)
    assert planner.plan(counts, reward).table[0, 0] == 1  # 0.1 + 100/103 against 1
    counts.learn(1, 3)
    assert planner.plan(counts, reward).table[0, 0] == 0


@given(worlds(max_horizon=4, max_states=4), seeds)
def test_the_papers_optimism_dominates_the_truth(world: TabularMDP, seed: int) -> None:
    """Lemma optimism: with valid beta the planned value is at least V* (reward sums to 1)."""
    counts, reward = sixty_random_episodes(world, seed)
    upper = upper_values(PaperOptimism(world.shape, 0.05), counts, reward)
    truth = dp.backward_induction(world.transitions, reward).values
    assert (upper >= truth - 1e-12).all()


@given(worlds(max_horizon=4, max_states=4), seeds)
def test_range_aware_optimism_with_a_valid_constant_dominates_and_is_tighter(
    world: TabularMDP, seed: int
) -> None:
    counts, reward = sixty_random_episodes(world, seed)
    paper = PaperOptimism(world.shape, 0.05)
    valid = 8 * float(paper.beta(np.array([60.0]))[0])
    upper = upper_values(RangeAwareOptimism(valid, promise=1.0), counts, reward)
    truth = dp.backward_induction(world.transitions, reward).values
    assert (upper >= truth - 1e-12).all()
    assert (upper <= np.flip(np.cumsum(np.flip(reward.max(axis=(1, 2)))))[:, None] + 1e-12).all()


def sixty_random_episodes(world: TabularMDP, seed: int) -> tuple[Counts, np.ndarray]:
    """Counts of random policies, and a random reward that sums to 1."""
    rng = np.random.default_rng(seed)
    reward = rng.dirichlet(np.ones(world.shape.cells)).reshape(world.shape.hsa)
    counts = Counts(world.shape, pooled=False)
    source = SimulatedSource(world, seed)
    for number in range(60):
        counts.add(source.play(random_policy(rng, world.shape), number))
    return counts, reward


def upper_values(
    optimism: PaperOptimism | RangeAwareOptimism, counts: Counts, reward: np.ndarray
) -> np.ndarray:
    """The planner's recursion, kept for all stages."""
    H, S, A = counts.shape.hsa
    values, following, remaining = np.zeros((H, S)), np.zeros(S), 0.0
    for h in reversed(range(H)):
        q = reward[h]
        if h + 1 < H:
            mean, square, observed = counts.estimate(h, following)
            variance = np.maximum(square - mean * mean, 0.0)
            best = np.repeat(counts.best_after(h, following), A)
            q = optimism.upper_q(reward[h].ravel(), mean, variance, observed, best, remaining)
            q = q.reshape(S, A)
        values[h] = following = q.max(axis=1)
        remaining += float(reward[h].max())
    return values


def test_beta_is_the_papers() -> None:
    """beta(n, delta) = log(2SAH/delta) + S log(8e(n+1)), by hand for S=2, A=3, H=4, n=9."""
    beta = PaperOptimism(Shape(4, 2, 3), 0.1).beta(np.array([9.0]))[0]
    assert beta == pytest.approx(math.log(480) + 2 * math.log(80 * math.e))


def test_ties_go_to_the_less_visited_action() -> None:
    counts = Counts(Shape(1, 1, 3), pooled=False)
    planner = OptimisticPlanner(RangeAwareOptimism())
    order = []
    for _ in range(6):
        action = int(planner.plan(counts, np.ones((1, 1, 3))).table[0, 0])
        order.append(action)
        counts.add(Episode(np.array([0]), np.array([action]), np.zeros(1), np.array([LAST])))
    assert order == [0, 1, 2, 0, 1, 2]


# ---------------------------------------------------------------------------- adversary


def test_levels_of_algorithm_1() -> None:
    """c = 1, 2, 3, 5, 9: X_1 = {3, 5, 9}, X_2 = {5, 9}, X_3 = {9}."""
    counts = np.array([1.0, 2.0, 3.0, 5.0, 9.0])
    target = Target.of_cells(counts.reshape(1, 1, 5))
    assert [level_support(target, k).sum() for k in range(4)] == [5, 3, 2, 1]
    nothing = np.zeros(5)
    assert reached_level(target, nothing) == 0
    assert reached_level(target, np.array([1.0, 1, 0, 0, 0])) == 0
    assert reached_level(target, np.array([1.0, 2, 0, 0, 0])) == 1
    assert reached_level(target, np.array([1.0, 2, 3, 0, 0])) == 2
    assert reached_level(target, np.array([1.0, 2, 0, 5, 0])) == 1
    assert reached_level(target, np.array([1.0, 2, 3, 5, 8])) == 3


def test_counts_below_one_do_not_shift_the_levels() -> None:
    target = Target.of_cells(np.array([0.1, 0.4, 1.5, 5.0]).reshape(1, 1, 4))
    assert level_support(target, 1).tolist() == [False, False, False, True]


def test_a_change_of_level_restarts_the_forecaster() -> None:
    target = Target.of_cells(np.array([1.0, 4.0, 16.0]).reshape(1, 1, 3))
    adversary = WeightedMajority()
    state = adversary.start(target)
    np.testing.assert_allclose(state.weights, 1 / 3)
    adversary.observe(target, state, {1: 1}, np.array([0.0, 1.0, 0.0]))
    assert state.level == 0
    assert state.variance > 0
    assert state.weights[1] < state.weights[0]
    adversary.observe(target, state, {0: 1}, np.array([1.0, 1.0, 0.0]))
    assert (state.level, state.variance) == (1, 0.0)
    np.testing.assert_allclose(state.weights, [0, 0.5, 0.5])


@pytest.mark.parametrize("adversary", ADVERSARIES)
@given(worlds(), seeds)
def test_adversaries_keep_their_contract(
    adversary: Adversary, world: TabularMDP, seed: int
) -> None:
    """Weights are finite, not negative, add up to ``total``, and some open row has one."""
    target = Target.of_cells(random_counts(np.random.default_rng(seed), world))
    if not len(target):
        return
    counts = Counts(world.shape, pooled=False)
    game = Game(target, OptimisticPlanner(RangeAwareOptimism()), adversary, counts)
    for number, round_ in enumerate(rounds(game, SimulatedSource(world, seed))):
        weights = game.state.weights
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(game.state.total, rel=1e-6)
        if round_.covered or number > 60:
            break
        assert weights[game.collected < target.counts].max() > 0


def test_weights_do_not_underflow() -> None:
    """c = 1000 and one row that lags far behind: exp(-1000) is nothing without a shift."""
    target = Target.of_cells(np.array([1000.0, 1000.0, 5.0]).reshape(1, 1, 3))
    adversary = TargetAware()
    state = adversary.start(target)
    collected = np.zeros(3)
    for _ in range(999):
        collected += [1, 1, 0]
        adversary.observe(target, state, {0: 1, 1: 1}, collected)
    assert state.weights[2] > 0
    collected[2] = 5
    adversary.observe(target, state, {2: 5}, collected)
    assert state.weights[:2].min() > 0


@given(seeds, st.integers(2, 12), st.sampled_from(["random", "greedy", "switching"]))
def test_the_forecasters_regret(seed: int, rows: int, kind: str) -> None:
    """Regret <= sqrt(R L) + R with R = 16 log N, on hostile sequences of losses."""
    rng = np.random.default_rng(seed)
    target = Target.of_cells(np.full((1, 1, rows), 1e9))
    adversary = WeightedMajority()
    state = adversary.start(target)
    collected, paid = np.zeros(rows), 0.0
    for t in range(300):
        if kind == "random":
            losses = (rng.random(rows) < rng.random()).astype(float)
        elif kind == "greedy":
            losses = (state.weights >= np.median(state.weights)).astype(float)
        else:
            losses = (np.arange(rows) % 2 == (t // 50) % 2).astype(float)
        paid += float(state.weights @ losses)
        collected = collected + losses
        adversary.observe(
            target, state, dict.fromkeys(np.flatnonzero(losses).tolist(), 1), collected
        )
    bound = 16 * math.log(max(rows, 2))
    assert paid - collected.min() <= math.sqrt(bound * paid) + bound


# --------------------------------------------------------------------------------- game


WORLDS = ["riverswim:states=5,horizon=8", "grid:rows=3,columns=3,horizon=6,ends=true",
          "garnet:states=6,actions=3,horizon=5", "tree:horizon=3,actions=2"]  # fmt: skip


@pytest.mark.parametrize("kind", GAMES)
@pytest.mark.parametrize("text", ["uniform:3", "uniform:3/pair", "proportional:40"])
@pytest.mark.parametrize("name", WORLDS)
def test_compiled_blocks_are_the_readable_episodes(name: str, text: str, kind: str) -> None:
    world = cg.make(name).require_model("a test")
    target = reachable_target(world, text)
    most, source = 150, SimulatedSource(world, seed=11)
    readable = GAMES[kind](target, world.transitions.stationary)
    played = [r.episode for r, _ in zip(rounds(readable, source), range(most), strict=False)]
    compiled = GAMES[kind](target, world.transitions.stationary)
    number = 0
    for block in blocks(compiled, source, size=37):
        first = 0
        for length in block.lengths.tolist():
            if number == len(played):
                break
            steps, episode = slice(first, first + length), played[number]
            np.testing.assert_array_equal(block.state[steps], episode.state)
            np.testing.assert_array_equal(block.action[steps], episode.action)
            np.testing.assert_array_equal(block.reward[steps], episode.reward)
            np.testing.assert_array_equal(block.next_state[steps], episode.next_state)
            first, number = first + length, number + 1
        if number == len(played):
            break
    assert number == len(played)


@pytest.mark.parametrize("pooled", [True, False])
def test_compiled_state_is_the_readable_state(pooled: bool) -> None:
    """After the same episodes everything that is remembered is the same, to the last bit."""
    world = cg.make("riverswim:states=5,horizon=8").require_model("a test")
    target = reachable_target(world, "uniform:4")
    source = SimulatedSource(world, seed=2)
    readable, compiled = (default_game(target, pooled=pooled) for _ in range(2))
    for _ in rounds(readable, source):
        pass
    for _ in blocks(compiled, source, size=10_000, record=False):
        pass
    assert readable.covered
    assert compiled.covered
    np.testing.assert_array_equal(compiled.counts.visits, readable.counts.visits)
    np.testing.assert_array_equal(compiled.collected, readable.collected)
    np.testing.assert_array_equal(compiled.state.weights, readable.state.weights)
    assert compiled.state.variance == readable.state.variance
    assert compiled.state.total == readable.state.total
    assert compiled.counts.n_episodes == readable.counts.n_episodes
    one, other = compiled.counts.kernel(), readable.counts.kernel()
    np.testing.assert_array_equal(one.next_state, other.next_state)
    np.testing.assert_array_equal(one.probability, other.probability)


@pytest.mark.parametrize("adversary", [TargetAware(), MissingOnly()])
def test_compiled_groups_beside_cells_are_the_readable_ones(adversary: Adversary) -> None:
    """Pairs lose weight within an episode, cells do not; both in one target."""
    world = cg.make("riverswim:states=5,horizon=8").require_model("a test")
    pairs = [(None, s, a, 6.0) for s in range(5) for a in range(2)]
    target = cg.cells([*pairs, (2, 0, 1, 9.0), (3, 1, 0, 4.0)]).resolve(world.transitions)
    source = SimulatedSource(world, seed=5)

    def game() -> Game:
        counts = Counts(world.shape, pooled=True)
        return Game(target, OptimisticPlanner(RangeAwareOptimism()), adversary, counts)

    readable, compiled = game(), game()
    for _ in rounds(readable, source):
        pass
    for _ in blocks(compiled, source, size=1000, record=False):
        pass
    np.testing.assert_array_equal(compiled.counts.visits, readable.counts.visits)
    np.testing.assert_array_equal(compiled.state.weights, readable.state.weights)
    assert compiled.state.variance == readable.state.variance


def test_a_step_is_learnt_at_once_where_stages_share() -> None:
    """A corridor of three: what the first step shows decides the second one."""
    world = cg.make("chain:states=3,horizon=3,slip=0").require_model("a test")
    target = parse_request("uniform:1/pair").resolve(world.transitions)
    game = default_game(target, pooled=True)
    assert game.learns_within
    game.ask()
    assert game.revise(1, 1) is not None  # (stage 0, state 0, right) leads to 1: news
    assert game.counts.table.seen(1, 1) == 1
    assert game.learnt == [(1, 1)]
    apart = Game(target, game.planner, TargetAware(), Counts(target.shape, pooled=False))
    apart.ask()
    assert not apart.learns_within
    assert apart.counts.table.total.sum() == 0


def test_news_is_what_is_new_or_hardly_seen() -> None:
    counts = Counts(Shape(3, 3, 1), pooled=True)
    assert [counts.learn(0, 1) for _ in range(5)] == [True, True, True, False, False]
    assert counts.learn(0, 2)
    assert not counts.learn(0, 2)
    assert not Counts(Shape(3, 3, 1), pooled=False).learn(0, 1)


@pytest.mark.parametrize(
    ("name", "target", "most"),
    [
        ("doublechain:length=31,horizon=20,slip=0.05", "uniform:1/pair", 14.0),
        ("lock:slip=0.1", "uniform:1", 60.0),
    ],
)
def test_the_first_visit_comes_early(name: str, target: str, most: float) -> None:
    """Episodes, mean of 40 runs: 12 and 47; without what is tested above 20 and 150."""
    world = cg.make(name).require_model("a test")
    taus = []
    for seed in range(40):
        game = default_game(reachable_target(world, target), pooled=world.transitions.stationary)
        for _ in blocks(game, SimulatedSource(world, seed), size=500, record=False):
            pass
        taus.append(game.counts.n_episodes)
    assert np.mean(taus) < most
    assert max(taus) < 4 * np.median(taus)


def after_visit(game: Game, cell: int) -> FloatArray | None:
    """The weights after one more step of an episode."""
    game.visit(cell)
    return game.revised_weights()


def test_a_group_loses_weight_within_an_episode() -> None:
    """Visit by visit, by the weights that it would have after the episode."""
    shape = Shape(9, 2, 1)
    target = Target(shape, np.array([[ANY, 0, 0], [ANY, 1, 0]]), np.array([6.0, 6.0]))
    counts = Counts(shape, pooled=True)
    game = Game(target, OptimisticPlanner(RangeAwareOptimism()), TargetAware(), counts)
    assert game.state.rate == 3.0  # sqrt(H)
    cells = [2 * h for h in range(6)]  # state 0 at every stage
    revised = {n: after_visit(game, cell) for n, cell in enumerate(cells, 1)}
    for n, weights in revised.items():
        # The exponent falls by 3 c_max/9 n/c = n/3, and is looked at every 0.35.
        if (
            math.floor(n / 3 / REPLAN_LOG_RATIO) == math.floor((n - 1) / 3 / REPLAN_LOG_RATIO)
            and n < 6
        ):
            assert weights is None
        else:
            assert weights is not None
            expected = math.exp(-n / 3) if n < 6 else 0.0
            np.testing.assert_allclose(weights, [expected, 1.0])
    assert revised[1] is None
    assert revised[2] is not None
    missing = Game(target, OptimisticPlanner(RangeAwareOptimism()), MissingOnly(), counts)
    assert all(after_visit(missing, cell) is None for cell in cells[:5])
    last = after_visit(missing, cells[5])
    assert last is not None
    np.testing.assert_array_equal(last, [0.0, 1.0])


def test_weights_count_whole_visits() -> None:
    """1.2 visits are two: after the first one as much is missing as of a target of 2."""
    shape = Shape(1, 2, 1)
    rows = np.array([[0, 0, 0], [0, 1, 0]])
    weights = []
    for counts in ([1.2, 9.5], [2.0, 10.0]):
        target, adversary = Target(shape, rows, np.array(counts)), TargetAware()
        state = adversary.start(target)
        adversary.observe(target, state, {0: 1}, np.array([1.0, 0.0]))
        weights.append(state.weights)
    np.testing.assert_array_equal(weights[0], weights[1])
    assert weights[0][0] > 0


def test_a_target_that_gets_its_first_groups_starts_fast() -> None:
    shape = Shape(4, 2, 1)
    adversary = TargetAware()
    state = adversary.start(Target(shape, np.zeros((0, 3), dtype=np.int64), np.zeros(0)))
    target = Target(shape, np.array([[ANY, 0, 0]]), np.array([3.0]))
    adversary.extend(target, state, np.zeros(1))
    assert state.rate == 2.0


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_size_of_blocks_changes_nothing(size: int) -> None:
    world = cg.make("garnet:states=6,actions=3,horizon=5").require_model("a test")
    target = reachable_target(world, "uniform:3")
    game = default_game(target, pooled=False)
    states = [b.state for b in blocks(game, SimulatedSource(world, 0), size=size)]
    again = default_game(target, pooled=False)
    whole = [b.state for b in blocks(again, SimulatedSource(world, 0), size=10_000)]
    np.testing.assert_array_equal(np.concatenate(states), np.concatenate(whole))


@pytest.mark.parametrize("name", WORLDS)
def test_a_covered_game_has_what_was_asked(name: str) -> None:
    world = cg.make(name).require_model("a test")
    target = reachable_target(world, "uniform:5/pair")
    game = default_game(target, pooled=world.transitions.stationary)
    for _ in blocks(game, SimulatedSource(world, 3), size=100, record=False):
        assert game.counts.n_episodes < 5000
    assert (target.collected(game.counts.visits) >= target.counts).all()
    np.testing.assert_array_equal(target.collected(game.counts.visits), game.collected)


def test_the_mean_number_of_episodes_respects_the_lower_bound() -> None:
    """E[tau] >= phi*: the mean of 60 runs, less four standard errors, is no proof against it."""
    world = cg.make("deepsea:size=5,noise=0.2").require_model("a test")
    target = reachable_target(world, "uniform:4")
    taus = []
    for seed in range(60):
        game = default_game(target, pooled=True)
        for _ in blocks(game, SimulatedSource(world, seed), size=500, record=False):
            pass
        taus.append(game.counts.n_episodes)
    phi = cg.plan(world, target).min_episodes
    error = np.std(taus) / math.sqrt(len(taus))
    assert np.mean(taus) + 4 * error >= phi
    assert np.mean(taus) <= 1.3 * phi


def test_the_known_model_variant_plays() -> None:
    world = cg.make("riverswim:states=4,horizon=6").require_model("a test")
    target = reachable_target(world, "uniform:3")
    counts = Counts(world.shape, pooled=True)
    game = Game(target, KnownModelPlanner(world.transitions), TargetAware(), counts)
    last = None
    for last in rounds(game, SimulatedSource(world, 0)):
        assert last.n_episodes < 2000
    assert last is not None
    assert last.covered


def test_players_of_ones_own_are_not_mistaken_for_ours() -> None:
    world = cg.make("chain:states=4,horizon=5").require_model("a test")
    target = reachable_target(world, "uniform:2")
    counts = Counts(world.shape, pooled=True)
    game = Game(target, KnownModelPlanner(world.transitions), TargetAware(), counts)
    with pytest.raises(cg.BadInput, match="play it plainly"):
        next(blocks(game, SimulatedSource(world, 0), size=1))
