"""Counts: visits, successors, and what stages learn from each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covgame as cg
from covgame.episodes import LAST, Episode
from covgame.game.adversary import (
    TargetAware,
)
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import (
    OptimisticPlanner,
    RangeAwareOptimism,
)
from covgame.game.presets import default_game
from covgame.game.successors import SuccessorTable
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.storage.state import counts_arrays
from covgame.types import END, Shape
from tests.blocks import blocks
from tests.worlds import (
    random_policy,
    reachable_target,
    worlds,
)

seeds = st.integers(0, 2**31)


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


# --------------------------------------------------------------------------- by hand


def steps(*path: tuple[int, int, float, int]) -> Episode:
    return Episode.of_steps(list(path))


def test_an_episode_is_counted_step_by_step() -> None:
    """(state, action, reward, next state); the last step of the last stage leads nowhere."""
    counts = Counts(Shape(2, 2, 2), pooled=False)
    counts.add(steps((1, 0, 0.5, 0), (0, 1, 0.25, LAST)))
    counts.add(steps((1, 0, 0.25, END)))
    assert counts.n_episodes == 2
    assert counts.starts.tolist() == [0, 2]
    assert counts.visits.tolist() == [[[0, 0], [2, 0]], [[0, 1], [0, 0]]]
    assert counts.reward_sums.tolist() == [[[0, 0], [0.75, 0]], [[0, 0.25], [0, 0]]]
    assert counts.mean_rewards()[0, 1].tolist() == [0.375, 0]
    assert counts.table.total.tolist() == [0, 0, 2, 0, 0, 0, 0, 0]
    assert counts.table.rows["share"].tolist() == [0, 0, 0.5, 0, 0, 0, 0, 0]
    assert [counts.table.seen(2, successor) for successor in (0, END, 1)] == [1, 1, 0]
    learnt = Counts(Shape(2, 2, 2), pooled=True)
    learnt.learn(2, 0)
    learnt.add(steps((1, 0, 0.5, 0), (0, 1, 0.25, LAST)), 1)  # one step is learnt already
    assert learnt.table.total.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("rule", ["pooled", "apart", "borrowing"])
def test_more_states_change_nothing_that_was_counted(rule: str) -> None:
    """Whoever counts the same episodes in a larger world from the beginning knows the same."""
    path = [steps((1, 0, 0.5, 0), (0, 1, 0.25, 1), (1, 1, 1.0, LAST))] * 3
    path += [steps((0, 0, 0.5, 1), (1, 0, 0.25, END))]
    small, large = (
        Counts(Shape(3, n, 2), pooled=rule == "pooled", borrowing=rule == "borrowing")
        for n in (2, 4)
    )
    for episode in path:
        small.add(episode)
        large.add(episode)
    small.grow(4)
    later = steps((1, 0, 0.5, 3), (3, 1, 0.5, 2), (2, 0, 0.0, LAST))
    for counts in (small, large):
        counts.add(later)
    mine, theirs = counts_arrays(small), counts_arrays(large)
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    assert small.shape == large.shape
    values = np.array([0.5, 0.25, 1.0, 0.125])
    for h in range(3):
        for one, other in zip(small.estimate(h, values), large.estimate(h, values), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(small.successors(h), large.successors(h))


def test_who_shares_stages() -> None:
    assert Counts(Shape(2, 1, 1), pooled=True).shares_stages
    assert Counts(Shape(2, 1, 1), pooled=False, borrowing=True).shares_stages
    assert not Counts(Shape(2, 1, 1), pooled=False).shares_stages
    assert Counts(Shape(2, 1, 1), pooled=True, borrowing=True).pool is None


@pytest.mark.parametrize("borrowing", [True, False])
def test_news_by_hand(borrowing: bool) -> None:
    """The first three steps of a pair, at whichever stage, and each new successor."""
    counts = Counts(Shape(3, 3, 1), pooled=not borrowing, borrowing=borrowing)
    assert [counts.learn(cell, 1) for cell in (0, 3, 0, 3, 0)] == [True, True, True, False, False]
    assert counts.learn(0, 2)
    assert not counts.learn(3, 2)
    assert counts.learn(3, END)


def test_agreement_by_hand() -> None:
    """A step counts as agreed by how likely its own stage and the others had made it."""
    counts = Counts(Shape(3, 2, 1), pooled=False, borrowing=True)
    for cell, successor in ((0, 1), (2, 1), (2, 0)):  # nothing to compare: one side is empty
        counts.learn(cell, successor)
    assert counts.agreement.tolist() == [1.0, 0.5]
    counts.learn(2, 1)  # own: 1 of 2, others: 1 of 1
    assert counts.agreement.tolist() == [1.5, 1.5]
    assert counts.state_agreement.tolist() == [[0.5, 1.0], [0.0, 0.0]]
    assert counts.borrowed == 10.0
    counts.learn(0, 0)  # own: 0 of 1, others: 1 of 3
    assert counts.agreement.tolist() == [1.5, pytest.approx(1.5 + 1 / 3)]


def test_kappa_by_hand() -> None:
    """alpha/(1 - alpha): 1 at a half, 3 at three quarters; in steps of 1/32, at most 10."""
    counts = Counts(Shape(2, 1, 1), pooled=False, borrowing=True)
    for own, others, kappa in (
        (1.0, 0.5, 1.0),
        (4.0, 3.0, 3.0),
        (11.0, 10.0, 10.0),
        (2.0, 3.0, 10),
    ):
        counts.agreement[:] = own, others
        assert counts.borrowed == kappa
    counts.agreement[:] = 1.0, 0.3  # 3/7 = 0.857 / 2: 27.4 of 32
    assert counts.borrowed == 27 / 64
    # a state: 8 steps that agree as all do, and its own
    counts.state_agreement[0] = 4.0, 0.0
    kappa = 27 / 64
    others = 8 * kappa / (1 + kappa)
    assert counts.borrowed_by_state()[0] == pytest.approx(others / (12 - others))


def test_what_is_lent_by_hand() -> None:
    """At most kappa, at most what the others have, nothing to a row of 30 kappa and more."""
    counts = Counts(Shape(2, 1, 1), pooled=False, borrowing=True)
    assert counts.pool is not None
    counts.pool.add(0, 0, 100)
    for observed, lent in ((0.0, 1.0), (29.0, 1.0), (30.0, 0.0), (99.5, 0.0)):
        assert counts.lent(np.array([observed])).tolist() == [lent]
    counts.agreement[:] = 11.0, 10.0
    kappa = counts.borrowed_by_state()[0]
    assert kappa == pytest.approx(10.0)
    assert counts.lent(np.array([95.0])).tolist() == [5.0]
    assert counts.lent(np.array([120.0])).tolist() == [0.0]
    assert Counts(Shape(2, 1, 1), pooled=False).lent(np.ones(1)).tolist() == [0.0]


def test_rows_move_when_they_are_full() -> None:
    """Many successors of many rows: lists double, and none of them loses anything."""
    table = SuccessorTable(3, room=4)
    for turn in range(40):
        table.add(turn % 3, turn, 1 + turn % 2)
    for turn in range(40):
        assert table.seen(turn % 3, turn) == 1 + turn % 2
        assert table.seen((turn + 1) % 3, turn) == 0
    assert table.total.tolist() == [21, 20, 19]
    for turn in reversed(range(40)):
        for _ in range(1 + turn % 2):
            table.remove(turn % 3, turn)
    assert table.total.tolist() == [0, 0, 0]
    assert table.rows["size"].tolist() == [0, 0, 0]
    assert table.rows["share"].tolist() == [0, 0, 0]


def test_counts_are_put_together_by_hand() -> None:
    one, other = (Counts(Shape(2, 2, 1), pooled=False) for _ in range(2))
    one.add(steps((0, 0, 0.5, 1), (1, 0, 0.25, LAST)))
    other.add(steps((1, 0, 0.5, 1), (1, 0, 0.5, LAST)))
    other.add(steps((1, 0, 1.0, END)))
    one.include(other)
    assert one.n_episodes == 3
    assert one.starts.tolist() == [1, 2]
    assert one.visits[:, :, 0].tolist() == [[1, 2], [0, 2]]
    assert one.reward_sums[:, :, 0].tolist() == [[0.5, 1.5], [0, 0.75]]
    assert one.table.total.tolist() == [1, 2, 0, 0]
    learnt = one.kernel()
    np.testing.assert_allclose(learnt.initial, [1 / 3, 2 / 3])
    np.testing.assert_allclose(learnt.stages[0].expect(np.array([0.0, 4.0])), [4.0, 2.0])
    assert Counts(Shape(2, 2, 1), pooled=False).kernel().initial.tolist() == [0.0, 0.0]
    assert not one.learn(0, 1)  # no news for other stages, which are apart
