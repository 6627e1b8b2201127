"""The game: episodes, blocks, and compiled = readable."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covgame as cg
from covgame.engine.compiled import CompiledGame
from covgame.episodes import LAST
from covgame.game.adversary import (
    Adversary,
    MissingOnly,
    TargetAware,
    WeightedMajority,
)
from covgame.game.counts import Counts
from covgame.game.game import Game, rounds
from covgame.game.planner import (
    KnownModelPlanner,
    OptimisticPlanner,
    RangeAwareOptimism,
)
from covgame.game.presets import default_game, paper_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.rng import uniforms
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import parse_request
from covgame.targets.target import Target
from covgame.types import END, Shape
from tests.blocks import blocks
from tests.worlds import (
    dense_kernel,
    random_policy,
    reachable_target,
    worlds,
)

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
        CompiledGame(game)
