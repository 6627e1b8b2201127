"""Policies for somebody else to play: rehearsed, expected, and different where nobody has been."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.game.adversary import TargetAware
from covgame.game.batches import UnderWay
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.game.rehearsal import guessed_kernel, imagined, rehearsed
from covgame.mdp.model import TabularMDP
from covgame.players.compiled import CompiledGame
from covgame.sources.simulated import SimulatedSource
from covgame.types import END, Policy, Shape
from tests.worlds import reachable_target

GRID = "grid:rows=3,columns=3,horizon=15,slip=0"


def known_game(
    env: str, asked: str, episodes: int = 60, *, learns_within: bool = False
) -> tuple[Game, TabularMDP, SimulatedSource]:
    """A game after random episodes: every pair of a small world was seen, not every row is open."""
    model = cg.make(env).require_model("a test")
    target = reachable_target(model, asked)
    counts = Counts(target.shape, pooled=True)
    planner = OptimisticPlanner(RangeAwareOptimism())
    game = Game(target, planner, TargetAware(), counts, learns_within=learns_within)
    source = SimulatedSource(model, 1)
    for number in range(episodes):
        game.tell(source.play(Policy.uniform(target.shape), number))
    return game, model, source


def plan_of(game: Game, *, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(CompiledGame, "waits", True)
    return CompiledGame(game).plan if compiled else UnderWay(game).plan_for


@pytest.mark.parametrize("compiled", [False, True])
def test_where_all_is_known_and_certain_one_plays_what_a_single_process_would(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plans that it would make on its way, made beforehand; without them it does others."""
    game, _, source = known_game(GRID, "uniform:60/pair")
    assert (game.counts.table.total > 0).all()
    differed = 0
    while not game.covered:
        number = game.counts.n_episodes
        weights = game.state.weights
        plan = plan_of(game, compiled=compiled, monkeypatch=monkeypatch)
        kernel = game.counts.kernel()
        policy = rehearsed(imagined(game, weights, game.collected), plan, kernel)
        fixed = source.play(plan(weights), number)
        episode = source.play(game.ask(), number, game.revise)
        handed_out = source.play(policy, number)
        assert handed_out.state.tolist() == episode.state.tolist()
        assert handed_out.action.tolist() == episode.action.tolist()
        differed += fixed.action.tolist() != episode.action.tolist()
        game.tell(episode)
    assert differed > 3


def everything(game: Game) -> list[Any]:
    counts, state = game.counts, game.state
    arrays = [counts.visits, counts.table.total, state.weights, game.collected, counts.starts]
    arrays += counts.table.listed(0, len(counts.table))
    numbers = (state.total, state.variance, state.rate, state.shift, counts.n_episodes)
    return [one.tobytes() for one in arrays] + [numbers, game.path, game.gains, game.learnt]


@pytest.mark.parametrize("compiled", [False, True])
def test_to_rehearse_changes_nothing(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    game, _, _ = known_game("riverswim:states=5,horizon=12", "uniform:90/pair", learns_within=True)
    plan = plan_of(game, compiled=compiled, monkeypatch=monkeypatch)
    before, target, state = everything(game), game.target, game.state
    under_way = UnderWay(game, plan)
    policies = [under_way.plan(ticket, 1) for ticket in range(5)]
    assert len({one.table.tobytes() for one in policies}) > 1
    assert everything(game) == before
    assert (game.target is target, game.state is state) == (True, True)


def test_an_imagined_game_revises_in_its_own_unit() -> None:
    """With other visits and weights in any unit, a row weighs what the adversary says."""
    game, _, _ = known_game("riverswim:states=5,horizon=12", "uniform:90/pair")
    collected = game.collected + np.linspace(0, 5, len(game.target))
    weights = 7.0 * TargetAware().anticipate(game.target, game.state, collected)
    found = imagined(game, weights, collected)
    expected = [
        TargetAware().weight_of(game.target, game.state, row, float(n))
        for row, n in enumerate(collected)
    ]
    np.testing.assert_allclose(found.state.weights, expected)
    assert found.collected is collected
    untouched = imagined(game, game.state.weights, game.collected)
    assert untouched.state.weights is game.state.weights


def test_an_action_that_nobody_tried_does_what_the_others_do() -> None:
    counts = Counts(Shape(4, 3, 3), pooled=True)
    for cell, successor, times in ((0, 1, 3), (0, 2, 1), (1, END, 2), (3, 0, 5)):
        for _ in range(times):
            counts.learn(cell, successor)
    counts.starts[0], counts.n_episodes = 2, 2
    kernel = guessed_kernel(counts)
    assert kernel.initial.tolist() == [1.0, 0.0, 0.0]

    def row(number: int) -> dict[int, float]:
        entries = slice(kernel.start[number], kernel.start[number + 1])
        listed = zip(kernel.next_state[entries], kernel.probability[entries], strict=True)
        return {int(successor): float(chance) for successor, chance in listed}

    assert row(0) == {1: 0.75, 2: 0.25}
    assert row(1) == {END: 1.0}
    assert row(2) == {1: 0.375, 2: 0.125, END: 0.5}
    assert row(4) == row(5) == {0: 1.0}
    assert row(6) == row(7) == row(8) == {}  # nobody has been there


def test_who_tries_something_new_is_expected_to_collect_afterwards() -> None:
    """Two episodes under way on a corridor without chance, by hand."""
    model = cg.make("chain:states=4,horizon=4,slip=0").require_model("a test")
    target = reachable_target(model, "uniform:5/pair")
    game = cg.default_game(target, pooled=True)
    right = Policy.deterministic(np.ones((4, 4), dtype=np.int64), 2)
    game.tell(SimulatedSource(model, 0).play(right, 0))
    under_way = UnderWay(game, lambda weights, earliest=0: right)
    under_way.plan(0, 2)
    wanted = target.collected(np.eye(4)[:, :, None] * np.array([0.0, 1.0]))
    np.testing.assert_allclose(under_way.anticipated(), game.collected + 2 * wanted)
    left = Policy.deterministic(np.zeros((4, 4), dtype=np.int64), 2)
    game.counts.unlearn([(3, 2)], ())  # what 1 does in state 1 is not known any more
    guess = UnderWay(game, lambda weights, earliest=0: left, handed_out=False)
    guess.plan(0, 1)
    gained = (guess.anticipated() - game.collected).sum()
    assert gained == pytest.approx(2.0)  # 0 in states 0 and 1, and nothing is known of what follows


def test_what_is_tried_differs_by_ticket_and_stage_and_nothing_else_does() -> None:
    game, _, _ = known_game(GRID, "uniform:60/pair", episodes=2)
    game.allowed = np.ones((9, 4), dtype=np.bool_)
    game.allowed[4, 2] = False
    under_way = UnderWay(game)
    weights = game.state.weights
    plan = under_way.plan_for(weights)
    new = game.counts.visits.sum(axis=0) == 0
    drawn = [under_way._drawn_where_nobody_tried(plan, weights, one).table for one in range(40)]
    assert len({one.tobytes() for one in drawn}) > 1
    for table in drawn:
        for h, state in np.ndindex(plan.table.shape):
            before, after = plan.table[h, state], table[h, state]
            assert new[state, after] if new[state, before] else before == after
            assert game.allowed[state, after]
    seen = np.flatnonzero(new.any(axis=1) & ~new.all(axis=1))
    assert seen.size
    tried = {int(table[h, state]) for table in drawn for h in range(14) for state in seen[:1]}
    assert tried >= set(np.flatnonzero(new[seen[0]] & game.allowed[seen[0]]).tolist())


def test_only_what_earns_the_same_is_as_good() -> None:
    shape = Shape(3, 2, 3)
    target = cg.cells([(None, 0, 0, 4), (None, 0, 2, 4), (None, 1, 1, 4)]).on(shape)
    game = cg.default_game(target, pooled=True)
    under_way = UnderWay(game)
    tables = np.array([under_way.plan(ticket, 1).table for ticket in range(30)])
    assert set(tables[:, :, 0].ravel().tolist()) == {0, 2}
    assert set(tables[:, :, 1].ravel().tolist()) == {1}
