"""How far a game is, by hand; and batches that know what they will collect."""

from __future__ import annotations

import numpy as np
import pytest

from covgame.episodes import LAST, Episode
from covgame.game import progress as module
from covgame.game.adversary import TargetAware
from covgame.game.batches import plan_batch
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.game.progress import progress_of
from covgame.targets.target import Target
from covgame.types import Policy, Shape

SHAPE = Shape(2, 3, 2)


def game(wanted: dict[tuple[int, int, int], float]) -> Game:
    cells = np.zeros(SHAPE.hsa)
    for cell, count in wanted.items():
        cells[cell] = count
    counts = Counts(SHAPE, pooled=False)
    planner = OptimisticPlanner(RangeAwareOptimism())
    return Game(Target.of_cells(cells), planner, TargetAware(), counts)


def seen(played: Game, action: int, state: int, times: int) -> None:
    for _ in range(times):
        steps = [(0, action, 0.0, state), (state, 0, 0.0, LAST)]
        played.tell(Episode.of_steps(steps))


WANTED = {(0, 0, 0): 4.0, (1, 1, 0): 6.0, (1, 2, 0): 2.0, (1, 2, 1): 8.0}


def test_before_the_first_episode_nothing_is_known() -> None:
    view = progress_of(game(WANTED))
    assert (view.n_episodes, view.share_covered, view.rows_open, view.rows) == (0, 0.0, 4, 4)
    assert view.episodes_left is None
    assert view.rows_unseen == 4
    assert len(view.hardest) == 3
    assert view.hardest[0][1] == 8.0  # the most visits


def test_what_is_left_on_the_learnt_model() -> None:
    """Action 0 has led to either state twice of four times, action 1 was never tried."""
    played = game(WANTED)
    seen(played, 0, 1, 2)
    seen(played, 0, 2, 2)
    view = progress_of(played, most=2)
    # Covered: 4 of 4, 2 of 6, 2 of 2, 0 of 8.
    assert view.n_episodes == 4
    assert view.share_covered == pytest.approx(8 / 20)
    assert (view.rows_open, view.rows, view.rows_unseen) == (2, 4, 0)
    assert view.episodes_left == pytest.approx(16.0)  # 8 visits of state 2, half of the episodes
    assert [row for row, _ in view.hardest] == [(1, 2, 1), (1, 1, 0)]
    assert [missing for _, missing in view.hardest] == [8.0, 4.0]


def test_what_was_never_seen_is_out_of_reach() -> None:
    played = game(WANTED)
    seen(played, 0, 1, 6)
    view = progress_of(played)
    assert (view.rows_open, view.rows_unseen) == (2, 2)
    assert view.episodes_left is None
    seen(played, 1, 2, 1)
    view = progress_of(played)
    assert view.rows_unseen == 0
    assert view.episodes_left == pytest.approx(9.0)  # 1 and 8 visits of state 2, by action 1
    for _ in range(9):
        played.tell(Episode.of_steps([(0, 1, 0.0, 2), (2, 1, 0.0, LAST)]))
    seen(played, 1, 2, 1)
    view = progress_of(played)
    assert played.covered
    assert (view.share_covered, view.rows_open, view.episodes_left) == (1.0, 0, 0.0)
    assert view.hardest == []


def test_large_worlds_are_bounded_and_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    played = game({(1, 1, 0): 6.0, (1, 2, 0): 2.0})
    seen(played, 0, 1, 2)
    seen(played, 0, 2, 1)
    exact = progress_of(played).episodes_left
    monkeypatch.setattr(module, "LARGE", SHAPE.cells)
    assert progress_of(played).episodes_left == exact
    monkeypatch.setattr(module, "LARGE", SHAPE.cells - 1)
    bounded = progress_of(played).episodes_left
    assert exact is not None
    assert bounded is not None
    assert 0 < bounded <= exact + 1e-9
    assert bounded != exact


def test_nothing_asked_for_is_covered() -> None:
    assert progress_of(game({})).share_covered == 1.0


def test_a_batch_goes_elsewhere_when_enough_is_anticipated() -> None:
    """Two actions lead to two states: as many policies for each as it needs."""
    played = game({(1, 1, 0): 40.0, (1, 2, 0): 40.0})
    seen(played, 0, 1, 5)
    seen(played, 1, 2, 5)
    for each, first in ((35, [0, 1, 0, 0]), (7, None)):
        batch = plan_batch(played, 4, each)
        chosen = [int(policy.table[0, 0]) for policy in batch]
        np.testing.assert_array_equal(batch[0].table, played.ask().table)
        if first is not None:
            assert chosen == first  # all is anticipated after two: then as without
        else:
            assert chosen == [0, 1, 0, 1]
    asked: list[np.ndarray] = []

    def plan(weights: np.ndarray, earliest: int = 0) -> Policy:
        assert earliest == 0
        asked.append(weights.copy())
        return played.ask()

    plan_batch(played, 3, 3, plan)
    expected = [played.collected + np.array([3.0 * i, 0.0]) for i in range(3)]
    for weights, collected in zip(asked, expected, strict=True):
        np.testing.assert_allclose(
            weights, TargetAware().anticipate(played.target, played.state, collected)
        )
    assert len(plan_batch(played, 1, 3)) == 1
