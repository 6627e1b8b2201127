"""EstimateVisitations and PCE by hand: every target, share of delta and stopping rule.

Nothing is played here. Counts are written down, and what the algorithms make of them is compared
with numbers worked out from the paper's lines.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks._worst_case import worst_reward

from covgame.baselines.pedel import deterministic_policies
from covgame.confidence import PaperThresholds
from covgame.episodes import LAST, Block, Episode
from covgame.errors import BadInput, TooLarge
from covgame.game.adversary import TargetAware
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.growth import Growth
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.mdp.transitions import Transitions
from covgame.pac.files import load_reward
from covgame.pac.forecast import forecast_best_policy, forecast_reward_free
from covgame.pac.learnt import LearntModel
from covgame.pac.pce import ProportionalCoverage
from covgame.pac.pruning import prune
from covgame.pac.tasks import CoverTask, PhaseReport
from covgame.pac.visitations import EstimateVisitations, visitation_task
from covgame.targets.discovered import SeenRows
from covgame.targets.requests import uniform
from covgame.targets.target import Target
from covgame.types import ANY, FloatArray, Policy, Shape
from tests.two_stages import (
    HERE,
    SHAPE,
    STEP,
    delta_of,
    existing,
    kernel,
    played,
    told,
    visits_of,
)

# ----------------------------------------------------------------- EstimateVisitations


def test_what_is_played_for_one_state() -> None:
    """T(eps_0, delta) episodes for 1{(h,s)}, delta/2 to UCBVI, and never enough."""
    part = visitation_task(HERE, 1, 2, 0.1, 0.04)
    assert part.episodes == HERE.visitation_episodes(0.1, 0.04)
    assert delta_of(part) == pytest.approx(0.02)
    assert part.game.target.rows.tolist() == [[1, 2, ANY]]
    assert part.game.target.counts[0] > part.episodes  # an episode visits it at most once
    assert not part.game.counts.pooled
    assert part.left == part.episodes
    part.game.counts.n_episodes = part.episodes - 1
    assert (part.left, part.over) == (1, False)
    part.game.counts.n_episodes = part.episodes
    assert (part.left, part.over) == (0, True)


def test_every_state_gets_its_share_of_delta_and_its_interval() -> None:
    """delta/(SH) each; n of 128: [n/256 - eps_0/16, n/64 + eps_0/4]; kept from eps_0/8 on."""
    found = EstimateVisitations(PaperThresholds(SHAPE, 1e-9), 0.125, 0.6)
    assert found.delta_each == pytest.approx(0.1)
    assert found.kept().tolist() == [[False] * 3] * 2  # nothing is known yet
    places = []
    for i in range(6):
        part = found.next_task()
        assert part is not None
        assert delta_of(part) == pytest.approx(0.05)
        assert part.episodes == found.thresholds.visitation_episodes(0.125, 0.1)
        places.append(part.game.target.rows[0, :2].tolist())
        visits = np.zeros(SHAPE.hsa)
        visits[i // 3, i % 3, 1] = [30, 6, 128, 0, 5, 64][i]
        found.tell(told(part, visits, 128))
    assert places == [[h, s] for h in range(2) for s in range(3)]
    assert found.next_task() is None
    np.testing.assert_array_equal(256 * found.lower, [[28, 4, 126], [0, 3, 62]])
    np.testing.assert_array_equal(64 * found.upper, [[32, 8, 64], [2, 7, 64]])
    assert found.kept().tolist() == [[True, True, True], [False, False, True]]
    assert found.counts.n_episodes == 6 * 128
    again = EstimateVisitations(found.thresholds, 0.125, 0.6)
    again.restore(found.state())
    np.testing.assert_array_equal(again.lower, found.lower)
    np.testing.assert_array_equal(again.upper, found.upper)
    notes = [phase.notes for phase in found.phases]
    assert [note["lower"] for note in notes] == pytest.approx(found.lower.ravel().tolist())
    assert [phase.episodes for phase in found.phases] == [128] * 6


# ------------------------------------------------------------------------------- PCE


def estimated(pce: ProportionalCoverage) -> FloatArray:
    """As if the visitations had been estimated: upper bounds of all (h, s)."""
    upper = np.array([[1.0, 0.3, 0.2], [0.5, 0.75, 1.0]])
    pce.visitations.upper[:] = upper
    pce.visitations.lower[:] = upper / 4
    pce.visitations.lower[0, 1:] = 0.0
    for i in range(6):
        phase = PhaseReport(f"visits {i}", 1, 1, 0.0)
        pce.phases.append(phase)
        pce.visitations.phases.append(phase)
    return np.where(pce.visitations.kept(), upper, 0.0)


def test_pce_line_by_line() -> None:
    """eps_0 = eps/(4SH^2), delta/3; targets 1 and 2^k W_up; delta/(6(k+1)^2); line 12."""
    pce = ProportionalCoverage(HERE, 0.9, 0.3)
    assert pce.visitations.precision == pytest.approx(0.9 / 48)
    assert pce.visitations.delta_each == pytest.approx(0.1 / 6)
    first = pce.next_task()
    assert first is not None
    assert first.episodes == HERE.visitation_episodes(0.9 / 48, 0.1 / 6)
    upper = estimated(pce)
    assert not pce.done
    assert pce.k == 0
    episodes = 0
    for k in range(4):
        part = pce.next_task()
        assert part is not None
        assert part.name == (f"phase {k}" if k else "burn-in")
        assert part.episodes is None
        assert delta_of(part) == pytest.approx(0.3 / 6 / (k + 1) ** 2 / 2)
        wanted = 2.0**k * upper if k else (upper > 0).astype(float)
        target = np.repeat(wanted[:, :, None], 2, axis=2)
        np.testing.assert_allclose(part.game.target.cell_counts(), target)
        assert part.game.state.weights.sum() == pytest.approx(1.0)
        pce.tell(told(part, np.ceil(target), 50 * (k + 1)))
        episodes += 50 * (k + 1)
        beta = HERE.reward_free(episodes, 0.1)
        assert pce.counts.n_episodes == episodes
        if k == 0:
            assert pce.bound is None
            assert pce.certified_error is None
        else:
            assert pce.bound == pytest.approx(math.sqrt(2 * beta * 2 ** (4 - k)))
            assert pce.certified_error == pytest.approx(2 * math.sqrt(2 * beta / 2**k) + 0.9 / 2)
        assert pce.phases[-1].largest == target.max()
        assert pce.phases[-1].wanted == 8
    assert not pce.done


def test_pce_ends_at_the_first_bound_that_is_small_enough() -> None:
    pce = ProportionalCoverage(PaperThresholds(SHAPE, 1e-3), 3.0, 0.3)
    estimated(pce)
    bounds = []
    while (part := pce.next_task()) is not None:
        pce.tell(told(part, np.ceil(part.game.target.cell_counts()), 100))
        bounds.append(pce.bound)
    assert bounds[0] is None
    assert all(bound > 3.0 for bound in bounds[1:-1] if bound is not None)
    assert bounds[-1] is not None
    assert bounds[-1] <= 3.0
    assert pce.done
    assert len(bounds) > 2


def test_pce_leaves_out_what_is_forbidden_and_goes_on_where_it_was() -> None:
    allowed = np.array([[True, False], [True, True], [True, True]])
    pce = ProportionalCoverage(HERE, 0.9, 0.3, allowed)
    upper = estimated(pce)
    part = pce.next_task()
    assert part is not None
    expected = np.repeat((upper > 0)[:, :, None], 2, axis=2) * allowed
    np.testing.assert_array_equal(part.game.target.cell_counts(), expected)
    pce.tell(told(part, np.ones(SHAPE.hsa), 20))
    again = ProportionalCoverage(HERE, 0.9, 0.3, allowed)
    again.phases, again.counts = pce.phases, pce.counts
    again.restore(pce.state())
    assert again.k == pce.k == 1
    assert again.visitations.done == 6
    one, other = again.next_task(), pce.next_task()
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.game.target.counts, other.game.target.counts)


# -------------------------------------------------------------------- forecasts, models


def test_the_forecast_of_pce_by_hand() -> None:
    """On a known model: exact lengths, phi* of 1 and of the reachability, phases that double."""
    thresholds = PaperThresholds(SHAPE, 1e-3)
    each = thresholds.visitation_episodes(0.5 / 48, 0.3 / 3 / 6)

    def phases(once: float, proportional: float) -> tuple[int, float]:
        for k in range(1, 99):
            t = once + sum(2.0**j for j in range(1, k + 1)) * proportional
            if math.sqrt(2 * thresholds.reward_free(t, 0.1) * 2 ** (4 - k)) <= 0.5:
                return k, t - once
        raise AssertionError

    # Two visits of state 0 and of state 2, at the last stage, need 4 and 8/3 episodes of different
    # actions; in proportion to their chances 1/2 and 3/4 it is 2 and 2. Unknown: two actions.
    for transitions, once, proportional in (
        (kernel(), 2 / 0.5 + 2 / 0.75, 4.0),
        (None, 2.0, 2 * (1 - 3 * 0.5 / 48)),
    ):
        found = forecast_reward_free(thresholds, 0.5, 0.3, transitions)
        assert found.needs[0].episodes == 6 * each
        assert found.needs[1].episodes == pytest.approx(once)
        k, t = phases(once, proportional)
        assert found.needs[2].part == f"{k} phases"
        assert found.needs[2].episodes == pytest.approx(t)
        assert found.episodes == pytest.approx(6 * each + once + t)


def test_the_forecast_of_principle_by_hand() -> None:
    thresholds = PaperThresholds(SHAPE, 1e-5)

    def phases(once: float) -> tuple[int, float]:
        for k in range(1, 99):
            slack = 2 * math.sqrt(2 * thresholds.best_policy(once, 0.1) * 2 ** (1 - k))
            t = max(once, 2**k * min(1.0, slack) * once)
            if math.sqrt(2 ** (2 - k) * 2 * thresholds.best_policy(t, 0.1)) <= 0.3:
                return k, t - once
        raise AssertionError

    for transitions, once in ((kernel(), 2 / 0.5 + 2 / 0.75), (None, 6.0)):
        found = forecast_best_policy(thresholds, 0.3, 0.2, existing(), transitions)
        k, t = phases(once)
        assert found.needs[0].episodes == pytest.approx(once)
        assert found.needs[1].part == f"{k} phases"
        assert found.needs[1].episodes == pytest.approx(t)


def test_plans_on_what_was_learnt() -> None:
    counts = Counts(SHAPE, pooled=False)
    played(counts, visits_of(80), 160, 0.25)
    model = LearntModel.of(counts)
    assert model.value(Policy.uniform(SHAPE), counts.mean_rewards()) == pytest.approx(0.5)
    reward = np.zeros(SHAPE.hsa)
    reward[1, 2, 1], reward[0, 0, 0] = 1.0, 0.5
    assert model.plan(reward).table[0, 0] == 1  # 3/4 against 1/2
    assert model.plan(reward).table[1, 2] == 1
    by_state = np.array([0.0, 0.0, 1.0])
    assert model.plan(by_state).table[0, 0] == 1
    policy = Policy.deterministic(np.array([[1, 0, 0], [0, 0, 0]]), 2)
    assert model.value(policy, by_state) == pytest.approx(0.75)
    assert model.value(policy, reward) == 0.0
    only = LearntModel(
        model.transitions, model.rewards, model.visits, np.array([[True, False]] * 3)
    )
    assert only.plan(reward).table.tolist() == [[0, 0, 0], [0, 0, 0]]
    for wrong in (np.full(SHAPE.hsa, 1.5), np.full(SHAPE.hsa, -0.1), np.full(SHAPE.hsa, np.nan)):
        with pytest.raises(BadInput, match="between 0 and 1"):
            model.plan(wrong)
    with pytest.raises(BadInput, match="shape"):
        model.plan(np.zeros(5))


def test_the_worst_reward_by_hand() -> None:
    """A model that swaps two actions loses all that they differ by, twice.

    One leads to state 2 with chance 3/4, the other never: 3/4 for rewards of the second stage. At
    the first one the worse action may cost another 3/4 before the model would give it up.
    """
    truth = kernel()
    swapped = STEP.reshape(3, 2, 3)[:, ::-1].reshape(6, 3)
    row, successor = np.nonzero(swapped)
    wrong = Transitions.from_entries(
        SHAPE,
        np.array([1.0, 0, 0]),
        np.concatenate([row, row + 6]),
        np.concatenate([successor, successor]),
        np.concatenate([swapped[row, successor]] * 2),
        stationary=False,
    )
    worst = worst_reward(truth, wrong)
    assert worst.loss == pytest.approx(1.5)
    assert worst.reward.shape == SHAPE.hsa
    assert len(list(deterministic_policies(truth))) == 2 ** (1 + 3)
    large = Transitions.from_entries(
        Shape(11, 1, 2),
        np.ones(1),
        np.arange(22),
        np.zeros(22, dtype=np.int64),
        np.ones(22),
        stationary=False,
    )
    with pytest.raises(TooLarge):
        next(deterministic_policies(large))


def test_recorded_blocks_are_taken_apart() -> None:
    one = Episode.of_steps([(0, 1, 0.5, 2), (2, 0, 0.0, -2)])
    two = Episode.of_steps([(0, 0, 0.25, -1)])
    columns = [
        np.concatenate([getattr(e, name) for e in (one, two)])
        for name in ("state", "action", "reward", "next_state")
    ]
    block = Block(0, np.array([2, 1]), *columns)
    for found, expected in zip(block.episodes(), [one, two], strict=True):
        assert found.terminated == expected.terminated
        for name in ("state", "action", "reward", "next_state"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_reward_files(tmp_path: Path) -> None:
    """Rows [h, s, a, r], null for every stage or action; each cell at most once."""
    place = tmp_path / "reward.json"

    def load(*rows: list[Any], **more: Any) -> FloatArray:
        content = {"format": "covgame-reward/1", "rewards": list(rows), **more}
        place.write_text(json.dumps(content))
        return load_reward(place, SHAPE)

    found = load([0, 1, 0, 0.5], [None, 2, 1, 1], [1, 0, None, 0.0], name="a", description="b")
    expected = np.zeros(SHAPE.hsa)
    expected[0, 1, 0], expected[:, 2, 1] = 0.5, 1.0
    np.testing.assert_array_equal(found, expected)
    for rows, said in (
        ([[0, 1, 0, 0.5], [None, 1, 0, 0.5]], "has a reward already"),
        ([[2, 0, 0, 0.5]], "there are 2 stages"),
        ([[0, 3, 0, 0.5]], "there are 3 states"),
        ([[0, 0, 2, 0.5]], "there are 2 actions"),
        ([[0, 0, 0, 1.5]], "1"),
        ([[0, 0, 0, -0.5]], "0"),
        ([[-1, 0, 0, 0.5]], "0"),
    ):
        with pytest.raises(BadInput, match=said):
            load(*rows)
    with pytest.raises(BadInput, match="other"):
        load(other=1)


def test_pce_hears_of_its_visitations() -> None:
    pce = ProportionalCoverage(PaperThresholds(SHAPE, 1e-9), 0.9, 0.3)
    for i in range(6):
        part = pce.next_task()
        assert part is not None
        assert part.game.target.rows[0, :2].tolist() == [i // 3, i % 3]
        visits = np.zeros(SHAPE.hsa)
        visits[i // 3, i % 3, 0] = 64
        assert pce.tell(told(part, visits, 128))
        assert len(pce.phases) == pce.visitations.done == i + 1
    assert (pce.k, pce.counts.n_episodes) == (0, 0)
    np.testing.assert_allclose(pce.visitations.lower, 0.25 - 0.9 / 48 / 16)


def test_a_part_that_waits_for_its_first_episode() -> None:
    """Nothing is asked for yet, but what is seen will be: such a part is not over."""
    counts = Counts(SHAPE, pooled=False)
    planner = OptimisticPlanner(RangeAwareOptimism())
    game = Game(Target.of_cells(np.zeros(SHAPE.hsa)), planner, TargetAware(), counts)
    assert CoverTask("", game).over
    assert CoverTask("", game, growth=Growth()).over
    waiting = CoverTask("", game, growth=Growth(SeenRows(uniform(2))))
    assert not waiting.over
    assert waiting.left is None
    counts.n_episodes = 1
    assert waiting.over


def test_pruning_ends_when_everything_is_there() -> None:
    """The episodes behind that are not even looked at."""
    one = Episode.of_steps([(0, 0, 0.0, 1), (1, 0, 0.0, LAST)])
    target = np.zeros((2, 2, 1))
    target[0, 0], target[1, 1] = 2.0, 1.5
    waiting = iter([one] * 5)
    assert list(prune(waiting, target)) == [one, one]
    assert len(list(waiting)) == 3
