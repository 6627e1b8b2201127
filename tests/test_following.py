"""A game that others step keeps its plan, and asks for what planning everything would ask for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covgame as cg
from covgame.engine.compiled import CompiledGame
from covgame.engine.engines import CompiledSimulation
from covgame.game.game import Game
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import parse_request
from covgame.targets.target import Target
from tests.test_incremental import GAMES, NAMED, MakeGame, assert_same_memory, play
from tests.worlds import random_counts, random_groups, worlds


def assert_follows(make: MakeGame, target: Target, world: TabularMDP, episodes: int) -> None:
    """Asked and told step by step, some episodes broken off: what a full planner plays."""
    source, followed, reference = SimulatedSource(world, 3), make(target), make(target)
    following = CompiledGame(followed)
    player = CompiledSimulation(reference, source, 100, record=False, incremental=False)
    while not followed.covered and followed.counts.n_episodes < episodes:
        number = followed.counts.n_episodes
        if number % 23 == 7:
            source.play(following.ask(), 10_000 + number, following.revise)
            following.abandon()
        following.tell(source.play(following.ask(), number, following.revise))
        if followed.counts.n_episodes % 40 == 0:
            catch_up(player, followed)
    catch_up(player, followed)
    assert reference.covered == followed.covered


def catch_up(player: CompiledSimulation, followed: Game) -> None:
    missing = followed.counts.n_episodes - player.game.counts.n_episodes
    if missing:
        play(player, missing)
    np.testing.assert_array_equal(followed.collected, player.game.collected)
    assert_same_memory(followed, player.game)


@pytest.mark.parametrize("kind", GAMES)
@given(world=worlds(max_horizon=6, max_states=7), seed=st.integers(0, 2**31), groups=st.booleans())
@settings(max_examples=12, deadline=None)
def test_random_worlds(kind: str, world: TabularMDP, seed: int, groups: bool) -> None:
    """Pooled, apart and borrowing; several first states, ends, overlapping groups."""
    rng = np.random.default_rng(seed)
    target = random_groups(rng, world) if groups else Target.of_cells(random_counts(rng, world))
    if len(target):
        assert_follows(GAMES[kind], target, world, 120)


@pytest.mark.parametrize("kind", ["target-aware, pooled", "target-aware, borrowing"])
@pytest.mark.parametrize("text", ["uniform:6", "uniform:5/pair"])
@pytest.mark.parametrize("name", NAMED)
def test_named_worlds(name: str, text: str, kind: str) -> None:
    """Long enough for rates to change and for plans to be made as a whole."""
    world = cg.make(name).require_model("a test")
    target = parse_request(text).resolve(world.transitions)
    assert_follows(GAMES[kind], target, world, 250)
