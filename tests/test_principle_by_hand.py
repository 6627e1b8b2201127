"""PRINCIPLE by hand: every target, width, share of delta and stopping rule; nothing is played."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from covgame.confidence import PaperThresholds
from covgame.flow.active import WellCovered
from covgame.mdp import dp
from covgame.pac.principle import ImplicitElimination
from covgame.pac.tasks import PhaseReport
from covgame.types import Shape
from tests.two_stages import (
    CELLS,
    SHAPE,
    delta_of,
    existing,
    played,
    told,
    visits_of,
)

# ------------------------------------------------------------------------- PRINCIPLE


def learner(scale: float = 1.0, **options: Any) -> ImplicitElimination:
    return ImplicitElimination(PaperThresholds(SHAPE, scale), 0.5, 0.2, existing(), **options)


def test_widths_and_slacks_of_principle() -> None:
    """width = sqrt(H beta^bpi(t, delta/2) 2^-k), the slack of line 9 is 2 sqrt(... 2^(1-k))."""
    principle = learner()
    beta = 16 * 4 * math.log(2 / 0.1) + 96 * 6 * 8 * math.log(1 + 99)
    assert principle.width(3, 99) == pytest.approx(math.sqrt(2 * beta / 8))
    principle.phases = [PhaseReport("", 1, 1, 1.0)] * 3
    assert principle._slack(99) == pytest.approx(2 * math.sqrt(2 * beta * 2 ** (1 - 3)))
    principle.counts.n_episodes = 99
    assert principle.bound_after(3) == pytest.approx(math.sqrt(2 ** (2 - 3) * 2 * beta))
    assert principle.bound_after(0) is None
    assert principle._most_kept() == CELLS * 8
    lifted = learner(random_start=True)
    beta = 16 * 9 * math.log(2 / 0.1) + 96 * 6 * 27 * math.log(1 + 99)
    assert lifted.width(3, 99) == pytest.approx(math.sqrt(3 * beta / 8))


def test_the_first_phases_of_principle() -> None:
    """1 on what exists, then 2^k min(sup rho + slack, 1), less what is there; delta/(4(k+1)^2)."""
    principle = learner()
    exists, total = existing(), 0
    for k in range(3):
        part = principle.next_task()
        assert part is not None
        assert principle.next_task() is part
        assert part.name == (f"phase {k}" if k else "burn-in")
        assert delta_of(part) == pytest.approx(0.2 / 4 / (k + 1) ** 2 / 2)
        wanted = 2.0**k * exists  # the slack is more than 1
        assert principle.largest is None
        missing = np.maximum(wanted - principle.counts.visits, 0)
        np.testing.assert_allclose(part.game.target.cell_counts(), missing)
        assert principle.tell(told(part, np.ceil(missing), 30))
        total += 30
        assert principle.counts.n_episodes == total
        phase = principle.phases[-1]
        assert phase.largest == 2.0**k
        assert phase.notes.get("share_wanted", 1.0) == 1.0
        if k:
            assert phase.bound == pytest.approx(2 * principle.width(k, total))
    again = learner()
    again.counts, again.phases = principle.counts, principle.phases
    principle.next_task()
    again.restore(principle.state())
    assert again.task is not None
    assert principle.task is not None
    np.testing.assert_array_equal(again.task.game.target.counts, principle.task.game.target.counts)


def test_a_phase_goes_on_while_its_target_grows() -> None:
    """The slack grows with t: a part that has what it asked for at first may have to go on."""
    principle = learner(1e-5)
    principle.phases = [PhaseReport("", 1, 1, 1.0, None)] * 9
    played(principle.counts, visits_of(64), 128, 0.5)
    slack = principle._slack(128)
    assert slack < 1
    part = principle.next_task()
    assert part is not None
    assert principle.largest is not None
    wanted = 2**9 * np.minimum(principle.largest + slack, 1.0)
    missing = np.where(existing(), np.maximum(wanted - principle.counts.visits, 0), 0)
    np.testing.assert_allclose(part.game.target.cell_counts(), missing)
    assert not principle.tell(told(part, np.floor(missing * 0.9), 4000))
    later = np.minimum(principle.largest + principle._slack(4128), 1.0)
    missing = np.where(existing(), np.maximum(2**9 * later - principle.counts.visits, 0), 0)
    np.testing.assert_allclose(part.game.target.cell_counts(), missing)
    assert principle.counts.n_episodes == 128
    played(part.game.counts, np.ceil(missing), 1)
    assert principle.tell(part)
    assert principle.counts.n_episodes == 4129


@pytest.mark.parametrize("suprema", ["exact", "relaxed"])
@pytest.mark.parametrize("unit", [1.0, 4.0])
def test_what_can_still_be_optimal(suprema: Any, unit: float) -> None:
    """Omega^(k-1): V >= sup - 2 width, caps n/2^(k-1); rewards are divided by their range."""
    principle = learner(4e-6, suprema=suprema, reward_range=(0.0, unit))
    principle.phases = [PhaseReport("", 1, 1, 1.0, None)] * 10
    played(principle.counts, visits_of(800), 1600)
    principle.counts.reward_sums[0, 0, 0] = 0.75 * unit * 800
    principle.counts.reward_sums[1, 2, 1] = 0.25 * unit * 300
    part = principle.next_task()
    assert part is not None
    model = principle.model
    covered = WellCovered(model.transitions, model.rewards / unit, principle.counts.visits / 2.0**9)
    lowest = covered.best_value - 2 * principle.width(9, 1600)
    expected = covered.suprema(lowest) if suprema == "exact" else covered.bounds(lowest)
    assert 0 < principle._slack(1600) < 0.5
    enough = 1 - principle._slack(1600)
    found = principle.largest
    assert found is not None
    if suprema == "exact":
        np.testing.assert_allclose(
            np.minimum(found, enough), np.minimum(expected, enough), atol=1e-6
        )
        assert (expected[0, 0, 1] < 0.5) == (found[0, 0, 1] < 0.5)
    else:
        np.testing.assert_allclose(found, expected)
    # Half the width, or twice it, would be another set.
    for factor in (1, 4):
        other = covered.best_value - factor * principle.width(9, 1600)
        away = covered.suprema(other) if suprema == "exact" else covered.bounds(other)
        assert np.abs(np.minimum(away, enough) - np.minimum(found, enough)).max() > 0.01


def test_the_first_phase_leaves_nothing_out() -> None:
    """Omega^0 holds all distributions: sup rho is the reachability, whatever they earn."""
    principle = learner(1e-7)
    principle.phases = [PhaseReport("", 1, 1, 1.0, None)]
    played(principle.counts, visits_of(80), 160)
    principle.counts.reward_sums[0, 0, 0] = 80.0
    principle.next_task()
    assert principle.largest is not None
    reach = dp.reachability(principle.model.transitions)
    np.testing.assert_allclose(principle.largest, np.repeat(reach[:, :, None], 2, axis=2))


def test_the_conclusion_by_hand() -> None:
    """lower: sqrt(beta sum rho^2/n) below the best well covered value; upper: a width above."""
    for lifted in (False, True):
        principle = learner(1e-5, random_start=lifted, reward_range=(0.0, 2.0))
        assert principle.conclusion() is None
        principle.phases = [PhaseReport("", 1, 1, 1.0, None)]
        assert principle.conclusion() is None
        principle.phases = [PhaseReport("", 1, 1, 1.0, None)] * 3
        played(principle.counts, visits_of(80), 160)
        principle.counts.reward_sums[0, 0, 0] = 80.0  # 1 of 2
        found = principle.conclusion()
        assert found is not None
        shape = Shape(3, 3, 2) if lifted else SHAPE
        beta = PaperThresholds(shape, 1e-5).best_policy(160, 0.1)
        rho = dp.occupancy(principle.model.transitions, found.policy)
        spread = (rho**2 / np.maximum(principle.counts.visits, 1)).sum()
        spread += 1 / 160 if lifted else 0
        width = math.sqrt(shape.horizon * beta / 4)
        assert found.policy.table[0, 0] == 0
        assert found.lower == pytest.approx(2 * (0.5 - math.sqrt(beta * spread)))
        assert found.upper == pytest.approx(min(4.0, 2 * (0.5 + width)))
        assert found.gap == pytest.approx(found.upper - found.lower)
    wide = learner(1.0, reward_range=(-1.0, 1.0))
    wide.counts, wide.phases = principle.counts, principle.phases
    ends = wide.conclusion()
    assert ends is not None
    assert (ends.lower, ends.upper) == (-2.0, 2.0)


def test_pruned_phases_know_beforehand_how_many_remain() -> None:
    """As published: beta^bpi(t_(k-1) + SAH 2^k), and the whole target from new episodes."""
    principle = learner(1e-3, pruned=True)
    assert principle.needs_episodes
    principle.phases = [PhaseReport("", 1, 1, 1.0, None)] * 4
    played(principle.counts, visits_of(80), 160)
    slack = 2 * math.sqrt(2) * principle.width(4, 160 + CELLS * 16)
    largest = np.full(SHAPE.hsa, 0.25)
    principle.largest = largest
    expected = np.where(existing(), 16 * np.minimum(largest + slack, 1.0), 0.0)
    np.testing.assert_allclose(principle.wanted(7), expected)
    np.testing.assert_allclose(principle._missing(7), expected)
