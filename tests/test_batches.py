"""Time that bends: batches of policies, and episodes played by their counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import covgame as cg
from covgame.engine.engines import BatchEngine, CountsEngine
from covgame.errors import BadInput, TooLarge
from covgame.game.adversary import MissingOnly, TargetAware, WeightedMajority
from covgame.game.counts import Counts
from covgame.game.game import Game, rounds
from covgame.game.in_flight import plan_batch
from covgame.game.planner import OptimisticPlanner, PaperOptimism
from covgame.game.presets import default_game, paper_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.sources.counted import MOST_EPISODES, SortedSuccessors, draw_visits, split
from covgame.sources.simulated import SimulatedSource
from covgame.types import END, Policy
from tests.reference.by_counts import rounds_by_counts
from tests.rundb import arrays_of
from tests.test_cli import covgame
from tests.worlds import random_policy, reachable_target, worlds

seeds = st.integers(0, 2**31)


# ------------------------------------------------------------------------------ by counts


@given(worlds(), seeds, st.booleans())
def test_counted_visits_add_up(world: TabularMDP, seed: int, stochastic: bool) -> None:
    """What enters a state is what leaves it, and nothing impossible happens."""
    rng = np.random.default_rng(seed)
    policy = random_policy(rng, world.shape)
    if not stochastic:
        policy = Policy.deterministic(policy.probabilities().argmax(axis=2), world.shape.actions)
    seen = draw_visits(SortedSuccessors(world), policy, 10_000, rng)
    H, S, A = world.shape.hsa
    assert seen.starts.sum() == seen.visits[0].sum() == 10_000
    assert (seen.visits[policy.probabilities() == 0] == 0).all()
    cell, successor, times = np.array(seen.moves, dtype=np.int64).reshape(-1, 3).T
    left = np.zeros(world.shape.cells, dtype=np.int64)
    np.add.at(left, cell, times)
    np.testing.assert_array_equal(left.reshape(H, S, A)[:-1], seen.visits[:-1])
    entered = np.zeros((H, S), dtype=np.int64)
    stays = successor != END
    np.add.at(entered, (cell[stays] // (S * A) + 1, successor[stays]), times[stays])
    np.testing.assert_array_equal(entered[1:], seen.visits[1:].sum(axis=2))


@pytest.mark.parametrize("stochastic", [True, False])
@pytest.mark.parametrize(
    "name", ["riverswim:states=4,horizon=5", "grid:rows=2,columns=3,horizon=4,ends=true"]
)
def test_counts_and_trajectories_have_one_distribution(name: str, stochastic: bool) -> None:
    """Chi-square of the visits of each stage, both ways, against the exact occupancy."""
    world = cg.make(name).require_model("a test")
    policy = random_policy(np.random.default_rng(3), world.shape)
    if not stochastic:
        policy = Policy.deterministic(policy.probabilities().argmax(axis=2), world.shape.actions)
    episodes = 4000
    played, source = Counts(world.shape, pooled=False), SimulatedSource(world, 1)
    for number in range(episodes):
        played.add(source.play(policy, number))
    drawn = draw_visits(SortedSuccessors(world), policy, episodes, np.random.default_rng(2))
    exact = dp.occupancy(world.transitions, policy)
    for visits in (played.visits, drawn.visits):
        for h in range(world.shape.horizon):
            over = episodes - visits[h].sum()
            found = np.append(visits[h].ravel(), over)
            expected = episodes * np.append(exact[h].ravel(), 1 - exact[h].sum())
            likely = expected > 5
            rest = expected[~likely].sum()
            statistic = ((found - expected)[likely] ** 2 / expected[likely]).sum()
            if rest > 5:
                statistic += (found[~likely].sum() - rest) ** 2 / rest
            freedom = max(1, likely.sum() - (0 if rest > 5 else 1))
            assert statistic < chi2.ppf(1 - 1e-5, freedom)


def test_the_variance_of_counts_is_the_binomial_one() -> None:
    """Not only the mean: the visits of a cell vary as those of independent episodes do."""
    world = cg.make("riverswim:states=4,horizon=5").require_model("a test")
    policy = random_policy(np.random.default_rng(0), world.shape)
    draws = np.array(
        [
            draw_visits(SortedSuccessors(world), policy, 500, np.random.default_rng(i)).visits
            for i in range(800)
        ]
    )
    exact = dp.occupancy(world.transitions, policy)
    expected = 500 * exact * (1 - exact)
    busy = expected > 10
    np.testing.assert_allclose(draws.var(axis=0)[busy], expected[busy], rtol=0.3)
    assert np.mean(draws.var(axis=0)[busy] / expected[busy]) == pytest.approx(1, abs=0.03)


def test_a_split_adds_up_and_is_fair() -> None:
    for total, chances in (
        (2**60, [0.1, 0.2, 0.7]),
        (2**53 + 1, [0.0, 1 / 3, 1 / 3, 1 / 3]),
        (7, [0.0, 0.0, 1.0]),
    ):
        drawn = split(np.random.default_rng(0), total, np.array(chances))
        assert sum(drawn) == total
        assert all(n == 0 for n, chance in zip(drawn, chances, strict=True) if chance == 0)
        if total > 2**50:
            np.testing.assert_allclose(np.array(drawn) / total, chances, atol=1e-7)


def test_counted_rewards_have_their_mean_and_variance() -> None:
    world = cg.make("garnet:states=4,actions=2,horizon=3").require_model("a test")
    policy = random_policy(np.random.default_rng(0), world.shape)
    sums = [
        draw_visits(SortedSuccessors(world), policy, 200, np.random.default_rng(i)).reward_sums
        for i in range(600)
    ]
    exact = dp.occupancy(world.transitions, policy) * world.rewards
    expected = 200 * exact * (1 - exact)  # a visit that earns is one event
    busy = expected > 1
    assert busy.any()
    np.testing.assert_allclose(np.mean(sums, axis=0)[busy], 200 * exact[busy], rtol=0.1)
    np.testing.assert_allclose(np.var(sums, axis=0)[busy], expected[busy], rtol=0.4)


def test_many_transitions_count_as_one_by_one() -> None:
    world = cg.make("garnet:states=5,actions=2,horizon=4").require_model("a test")
    policy = random_policy(np.random.default_rng(0), world.shape)
    for pooled, borrowing in ((True, False), (False, False), (False, True)):
        many, single = (Counts(world.shape, pooled=pooled, borrowing=borrowing) for _ in range(2))
        for seed in range(3):
            seen = draw_visits(SortedSuccessors(world), policy, 20, np.random.default_rng(seed))
            many.add_visits(seen)
            for cell, successor, times in seen.moves:
                row = cell % world.shape.pairs if pooled else cell
                for _ in range(times):
                    single.table.add(row, successor)
        one, other = many.kernel(), single.kernel()
        np.testing.assert_array_equal(one.next_state, other.next_state)
        np.testing.assert_allclose(one.probability, other.probability)
        assert many.n_episodes == 60


def test_datasets_are_put_together() -> None:
    """Counting two datasets apart and together is the same."""
    world = cg.make("garnet:states=5,actions=2,horizon=4").require_model("a test")
    policy = random_policy(np.random.default_rng(0), world.shape)
    together, first, second = (Counts(world.shape, pooled=False) for _ in range(3))
    for seed, counts in enumerate((first, second)):
        seen = draw_visits(SortedSuccessors(world), policy, 50, np.random.default_rng(seed))
        counts.add_visits(seen)
        together.add_visits(seen)
    first.include(second)
    assert first.n_episodes == together.n_episodes == 100
    np.testing.assert_array_equal(first.visits, together.visits)
    np.testing.assert_array_equal(first.reward_sums, together.reward_sums)
    one, other = first.kernel(), together.kernel()
    np.testing.assert_array_equal(one.next_state, other.next_state)
    np.testing.assert_allclose(one.probability, other.probability)


@pytest.mark.parametrize("kind", ["pooled", "borrowing", "paper", "missing", "groups"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("riverswim:states=4,horizon=5", marks=pytest.mark.slow),
        "garnet:states=5,horizon=4",
    ],
)
def test_compiled_rounds_by_counts_are_the_readable_ones(kind: str, name: str) -> None:
    world = cg.make(name).require_model("a test")
    target = reachable_target(world, "uniform:300/pair" if kind == "groups" else "uniform:300")
    games = []
    for _ in range(2):
        if kind == "paper":
            game = paper_game(target, delta=0.1)
        elif kind == "missing":
            counts = Counts(target.shape, pooled=False)
            planner = OptimisticPlanner(PaperOptimism(target.shape, 0.05))
            game = Game(target, planner, MissingOnly(), counts)
        else:
            game = default_game(target, pooled=kind == "pooled")
        games.append(game)
    readable, compiled = games
    player, steps = CountsEngine(compiled, world, 3), 0
    rounds = rounds_by_counts(readable, world, 3)
    while not compiled.covered and steps < 6:
        player.play(MOST_EPISODES)
        while readable.counts.n_episodes < compiled.counts.n_episodes:
            next(rounds)
        assert readable.counts.n_episodes == compiled.counts.n_episodes
        np.testing.assert_array_equal(readable.counts.visits, compiled.counts.visits)
        np.testing.assert_array_equal(readable.counts.reward_sums, compiled.counts.reward_sums)
        np.testing.assert_array_equal(readable.state.weights, compiled.state.weights)
        steps += 1


@pytest.mark.parametrize("kind", ["default", "paper"])
def test_a_game_by_counts_ends_covered(kind: str) -> None:
    world = cg.make("riverswim:states=4,horizon=5").require_model("a test")
    target = reachable_target(world, "uniform:1000")
    pooled = world.transitions.stationary
    game = (
        default_game(target, pooled=pooled) if kind == "default" else paper_game(target, delta=0.1)
    )
    player = CountsEngine(game, world, 0)
    while not game.covered:
        player.play(MOST_EPISODES)
        assert game.counts.n_episodes < 10**8
    np.testing.assert_array_equal(target.collected(game.counts.visits), game.collected)
    if kind == "default":
        assert game.counts.n_episodes < 1.2 * cg.plan(world, target).min_episodes


def test_more_than_int64_can_hold_is_refused() -> None:
    world = cg.make("riverswim:states=4,horizon=5").require_model("a test")
    game = default_game(reachable_target(world, "uniform:10"), pooled=True)
    game.counts.n_episodes = MOST_EPISODES
    with pytest.raises(TooLarge, match="2\\^62"):
        CountsEngine(game, world, 0).play(MOST_EPISODES)


def test_by_counts_from_the_command_line(tmp_path: Path) -> None:
    asked = ("cover", "riverswim:states=4,horizon=5", "--target", "uniform:1e6", "--play", "counts")
    done = covgame(*asked, "--min-reach", "0.01", "--json", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["covered"] is True
    assert answer["ratio"] < 1.1
    assert not (tmp_path / "run" / "episodes").exists()
    assert arrays_of(tmp_path / "run")["visits"][0].sum() == answer["episodes"]
    assert covgame("resume", str(tmp_path / "run")).returncode == 0
    with pytest.raises(BadInput, match="step by step"):
        cg.cover("gym:FrozenLake-v1", "uniform:5", horizon=5, play="counts")


# -------------------------------------------------------------------------------- batches


def test_a_batch_of_one_is_exact_play() -> None:
    world = cg.make("grid:rows=3,columns=3,horizon=6").require_model("a test")
    target = reachable_target(world, "uniform:3")
    source = SimulatedSource(world, 5)
    exact, batched = (default_game(target, pooled=True) for _ in range(2))
    for _ in rounds(exact, source):
        pass
    player = BatchEngine(batched, source, policies=1, each=1)
    while not batched.covered:
        player.play(10**6)
    assert batched.counts.n_episodes == exact.counts.n_episodes
    np.testing.assert_array_equal(batched.counts.visits, exact.counts.visits)


@pytest.mark.parametrize("adversary", [TargetAware(), WeightedMajority(), MissingOnly()])
def test_to_anticipate_changes_nothing(adversary: Any) -> None:
    world = cg.make("grid:rows=3,columns=3,horizon=6").require_model("a test")
    target = reachable_target(world, "uniform:3")
    state = adversary.start(target)
    before = state.weights.copy()
    imagined = adversary.anticipate(target, state, target.counts * 0.5)
    assert imagined.shape == before.shape
    np.testing.assert_array_equal(state.weights, before)


def test_policies_of_a_batch_differ() -> None:
    """Each goes for what the others leave open."""
    world = cg.make("tree:horizon=4,actions=2").require_model("a test")
    game = default_game(reachable_target(world, "uniform:1"), pooled=True)
    source = SimulatedSource(world, 0)
    for _, _ in zip(rounds(game, source), range(12), strict=False):
        pass
    game = default_game(reachable_target(world, "uniform:100"), pooled=True)
    for number in range(40):
        game.tell(source.play(random_policy(np.random.default_rng(number), world.shape), number))
    batch = plan_batch(game, 8, 10)
    assert len({policy.table.tobytes() for policy in batch}) > 1


def test_lazy_play_covers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a policy is played depends on the clock; here it is once."""
    monkeypatch.setattr("covgame.engine.engines.MOST_EACH", 1)
    run = cg.cover("riverswim:states=5,horizon=8", "uniform:10", min_reach=0.02, play="lazy",
                   out=tmp_path)  # fmt: skip
    assert run.covered
    assert run.ratio is not None
    assert run.ratio < 2
    assert (tmp_path / "episodes").is_dir()
