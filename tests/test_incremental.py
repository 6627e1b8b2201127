"""Planning only where something has changed gives the episodes of planning everything anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covgame as cg
from covgame.engine.engines import CompiledSimulation
from covgame.episodes import Block
from covgame.game.adversary import MissingOnly, TargetAware
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.game.presets import default_game, paper_game
from covgame.kernels import layout, replanner
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import parse_request
from covgame.targets.target import Target
from tests.worlds import random_counts, random_groups, worlds

MakeGame = Callable[[Target], Game]


def game_with(adversary: TargetAware | MissingOnly, rule: str) -> MakeGame:
    return lambda target: Game(
        target,
        OptimisticPlanner(RangeAwareOptimism()),
        adversary,
        Counts(target.shape, pooled=rule == "pooled", borrowing=rule == "borrowing"),
    )


ADVERSARIES: dict[str, TargetAware | MissingOnly] = {
    "target-aware": TargetAware(),
    "missing only": MissingOnly(),
}
GAMES: dict[str, MakeGame] = {
    f"{name}, {rule}": game_with(adversary, rule)
    for name, adversary in ADVERSARIES.items()
    for rule in ("pooled", "apart", "borrowing")
}


def player_of(game: Game, world: TabularMDP, *, incremental: bool, most: int) -> CompiledSimulation:
    source = SimulatedSource(world, seed=3)
    return CompiledSimulation(game, source, most, record=True, incremental=incremental)


def assert_same_episodes(one: Block, other: Block) -> None:
    np.testing.assert_array_equal(one.lengths, other.lengths)
    np.testing.assert_array_equal(one.state, other.state)
    np.testing.assert_array_equal(one.action, other.action)
    np.testing.assert_array_equal(one.next_state, other.next_state)


def assert_same_memory(one: Game, other: Game) -> None:
    np.testing.assert_array_equal(one.counts.visits, other.counts.visits)
    np.testing.assert_array_equal(one.counts.agreement, other.counts.agreement)
    np.testing.assert_array_equal(one.state.weights, other.state.weights)
    assert one.state.total == other.state.total
    assert one.state.variance == other.state.variance


def play(player: CompiledSimulation, episodes: int) -> Block:
    """So many episodes in one block, or until all is covered, whatever memory had to grow."""
    game = player.game
    wanted, parts = game.counts.n_episodes + episodes, []
    while game.counts.n_episodes < wanted and not game.covered:
        parts.append(player.play(wanted - game.counts.n_episodes))
    columns = ("lengths", "state", "action", "reward", "next_state")
    whole = [np.concatenate([getattr(part, name) for part in parts]) for name in columns]
    return Block(parts[0].first_episode, *whole)


def assert_plays_the_same(
    make: MakeGame, target: Target, world: TabularMDP, sizes: list[int], most: int
) -> None:
    """The same blocks by both planners; and at last the same plan wherever one can be."""
    full, kept = make(target), make(target)
    planning_all = player_of(full, world, incremental=False, most=max(sizes))
    keeping = player_of(kept, world, incremental=True, most=max(sizes))
    assert keeping.plan_cache is not None
    while not full.covered and full.counts.n_episodes < most:
        size = sizes[full.counts.n_episodes % len(sizes)]
        assert_same_episodes(play(planning_all, size), play(keeping, size))
        assert_same_memory(full, kept)
    assert full.covered == kept.covered


@pytest.mark.parametrize("kind", GAMES)
@given(
    world=worlds(max_horizon=6, max_states=7),
    seed=st.integers(0, 2**31),
    groups=st.booleans(),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_random_worlds_are_played_the_same(
    kind: str, world: TabularMDP, seed: int, groups: bool, sizes: list[int]
) -> None:
    """Pooled, apart and borrowing; ends, several first states, overlapping groups, odd blocks."""
    rng = np.random.default_rng(seed)
    target = random_groups(rng, world) if groups else Target.of_cells(random_counts(rng, world))
    if len(target):
        assert_plays_the_same(GAMES[kind], target, world, sizes, 300)


NAMED = [
    "grid:rows=4,columns=4,horizon=9,ends=true",
    "garnet:states=12,actions=3,horizon=7,branching=2,stationary=true",
    "garnet:states=12,actions=2,horizon=7",
    "doublechain:length=11,horizon=12",
    "inventory:capacity=5,horizon=8",
    "tree:horizon=4,actions=2",
]


@pytest.mark.parametrize("kind", GAMES)
@pytest.mark.parametrize("text", ["uniform:6", "uniform:5/pair", "proportional:60"])
@pytest.mark.parametrize("name", NAMED)
def test_named_worlds_are_played_the_same(name: str, text: str, kind: str) -> None:
    """Long enough for rates to change, rows to be covered and most of the plan to be due."""
    world = cg.make(name).require_model("a test")
    target = parse_request(text).resolve(world.transitions)
    assert_plays_the_same(GAMES[kind], target, world, [137, 1, 61], 900)


@pytest.mark.parametrize("pooled", [True, False])
def test_plans_agree_wherever_an_episode_can_be(pooled: bool) -> None:
    """After every block: known states have the action and the value of a plan from scratch."""
    world = cg.make("grid:rows=6,columns=6,horizon=10").require_model("a test")
    target = parse_request("uniform:4").resolve(world.transitions)
    kept, fresh = (default_game(target, pooled=pooled) for _ in range(2))
    player = player_of(kept, world, incremental=True, most=20)
    scratch = player_of(fresh, world, incremental=False, most=20)
    for _ in range(15):
        play(player, 13)
        play(scratch, 13)
        scratch.ask().begin(0)
        replan(player)
        known = (player.plan_cache.flags.T & layout.KNOWN) > 0
        assert known.any()
        np.testing.assert_array_equal(
            player.workspace.chosen[known], scratch.workspace.chosen[known]
        )
        values = player.workspace.values[:, :-1], scratch.workspace.values[:, :-1]
        np.testing.assert_array_equal(values[0][known], values[1][known])


def replan(player: CompiledSimulation) -> None:
    """Bring a kept plan up to date without playing."""
    replanner.replan(
        player.learnt, player.by_stage, player.optimism, player.workspace, player.plan_cache,
        player.memory, 0,
    )  # fmt: skip


def test_forbidden_actions_stay_forbidden() -> None:
    world = cg.make("garnet:states=9,actions=3,horizon=6,stationary=true").require_model("a test")
    allowed = np.ones((9, 3), dtype=np.bool_)
    allowed[::2, 1] = False
    wanted = np.where(allowed, 4.0, 0.0) * np.ones(world.shape.hsa)
    target = Target.of_cells(np.where(wanted > 0, wanted, 0.0))

    def make(target: Target) -> Game:
        game = default_game(target, pooled=True)
        game.allowed = allowed
        return game

    assert_plays_the_same(make, target, world, [50, 3], 600)


def test_an_episode_told_from_outside_is_not_missed() -> None:
    """Between blocks somebody asks, plays and tells: what was kept is not the plan any more."""
    world = cg.make("doublechain:length=9,horizon=8").require_model("a test")
    target = parse_request("uniform:30").resolve(world.transitions)
    games = [default_game(target, pooled=True) for _ in range(2)]
    players = [
        player_of(game, world, incremental=incremental, most=40)
        for game, incremental in zip(games, (False, True), strict=True)
    ]
    for _ in range(8):
        assert_same_episodes(play(players[0], 11), play(players[1], 11))
        for player in players:
            number = player.game.counts.n_episodes
            player.tell(player.source.play(player.ask(), number, player.revise))
    assert_same_memory(*games)


def test_where_much_is_due_plans_are_made_as_a_whole_and_kept_again() -> None:
    """A small settled garnet: most values change with every episode."""
    world = cg.make(
        "garnet:states=20,actions=2,horizon=12,branching=2,stationary=true"
    ).require_model("a test")
    target = parse_request("uniform:3000").resolve(world.transitions)
    player = player_of(default_game(target, pooled=True), world, incremental=True, most=1)
    whole = []
    for _ in range(1500):
        player.play(1)
        whole.append(player.plan_cache.tally[layout.WHOLE] > 0)
    assert any(whole)
    assert not all(whole[-replanner.WHOLE_PLANS - 10 :])


@pytest.mark.parametrize("pooled", [True, False])
def test_a_large_world_is_not_planned_all_anew(pooled: bool) -> None:
    """100,000 cells, of which an episode changes a few hundred."""
    world = cg.make(
        "garnet:states=2500,actions=2,horizon=20,branching=2,stationary=true"
    ).require_model("a test")
    target = parse_request("uniform:5").resolve(world.transitions)
    game = default_game(target, pooled=pooled)
    player = player_of(game, world, incremental=True, most=100)
    play(player, 100)
    planned = episodes = 0
    while episodes < 50:
        cache = player.plan_cache
        before, played = int(cache.tally[layout.PLANNED]), len(play(player, 1))
        if player.plan_cache is cache:  # or it was made anew, because tables had to grow
            planned += int(cache.tally[layout.PLANNED]) - before
            episodes += played
    assert 0 < planned / (episodes * cache.flags.size) < 0.2


def test_the_papers_players_plan_everything() -> None:
    """Their weights, or their bonuses, change everywhere with every episode."""
    world = cg.make("chain:states=5,horizon=6").require_model("a test")
    target = parse_request("uniform:3").resolve(world.transitions)
    player = player_of(paper_game(target, delta=0.1), world, incremental=True, most=10)
    assert player.plan_cache is None
