"""The certified preset by hand: how long rounds are, when policies are validated or given up."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from covgame.game.counts import CountedVisits, Counts
from covgame.pac.certified import CertifiedExploration, CertifiedIdentification
from covgame.pac.error_bounds import Range, Validation, best_policy
from covgame.pac.mixtures import Structure
from covgame.pac.tasks import PolicyTask
from covgame.types import Policy, Shape
from tests.reference import recursions as plain

SHAPE = Shape(2, 1, 2)
KNOWN = Structure(can_end=False, known_start=np.ones(1))


def play(part: PolicyTask, payments: tuple[float, float] = (0.5, 0.5)) -> PolicyTask:
    """One state that leads to itself; the two actions pay so much, for sure."""
    visits, n = np.zeros(SHAPE.hsa, dtype=np.int64), part.episodes
    for h in range(2):
        visits[h, 0, part.policy.table[h, 0]] = n
    moves = [(int(part.policy.table[0, 0]), 0, n)]
    paid = visits * np.array(payments)
    part.counts.add_visits(CountedVisits(n, np.array([n]), visits, paid, moves))
    return part


def exploration(epsilon: float) -> CertifiedExploration:
    return CertifiedExploration(Counts(SHAPE, pooled=False), KNOWN, epsilon, 0.1)


def identification(epsilon: float, **options: Any) -> CertifiedIdentification:
    counts = Counts(SHAPE, pooled=False)
    return CertifiedIdentification(counts, KNOWN, epsilon, 0.1, Range(), **options)


def test_a_round_takes_a_fiftieth_of_the_episodes_so_far() -> None:
    learner = exploration(1e-9)
    assert not learner.needs_episodes
    assert learner.certified_error is None
    assert not learner.done
    sizes, seen = [], 0
    for number in range(400):
        part = learner.next_task()
        assert part is not None
        assert part.name == f"round {number + 1}"
        assert part.episodes == max(1, math.floor(0.02 * seen))
        assert not part.counts.pooled
        assert (part.left, part.over) == (part.episodes, False)
        assert learner.tell(play(part))
        assert (part.left, part.over) == (0, True)
        seen += part.episodes
        sizes.append(part.episodes)
        assert learner.counts.n_episodes == seen
    assert sizes[:101] == [1] * 100 + [2]
    # noted at 1, then whenever the episodes have grown by a quarter
    noted = np.cumsum([phase.episodes for phase in learner.phases]).tolist()
    expected, last = [], 0
    for total in np.cumsum(sizes).tolist():
        if total >= 1.25 * last:
            expected.append(total)
            last = total
    assert noted == expected
    assert learner.phases[-1].name.startswith("until round ")
    assert learner.phases[-1].bound == pytest.approx(1.0, abs=1.0)
    again = exploration(1e-9)
    again.restore(learner.state())
    assert (again.rounds, again.noted) == (400, last)


def test_exploration_ends_with_its_bound() -> None:
    """Both actions of the first stage are played in turn until the bound is small enough."""
    learner = exploration(0.6)
    while (part := learner.next_task()) is not None:
        expected = learner.certificate.policy(learner.proved).table
        np.testing.assert_array_equal(part.policy.table, expected)
        learner.tell(play(part))
    assert learner.done
    assert learner.bound <= 0.6
    assert learner.certified_error == learner.bound
    first = learner.counts.visits[0, 0]
    assert abs(first[0] - first[1]) <= 0.05 * first.sum() + 1
    assert learner.phases[-1].bound == learner.bound
    assert learner.phases[-1].wanted == 4


def test_the_joint_budget_is_tried_once_it_may_be_enough() -> None:
    """From 8 epsilon on; how it is used is looked for anew when episodes have grown by 5/4."""
    learner = exploration(0.2)
    searched: list[int] = []
    while (part := learner.next_task()) is not None:
        learner.tell(play(part))
        alone = learner.certificate.bound()
        episodes = learner.counts.n_episodes
        if alone.error > 8 * 0.2:
            assert learner.penalty is None
            assert learner.proved == alone
            continue
        if not searched or episodes >= 1.25 * searched[-1]:
            searched.append(episodes)
        assert learner.searched == searched[-1]
        joint = learner.certificate.bound(learner.penalty)
        assert learner.proved == min(alone, joint, key=lambda bound: bound.error)
        assert learner.bound == min(2.0, learner.proved.error)
        again = exploration(0.2)
        again.counts = learner.counts
        again.restore(json.loads(json.dumps(learner.state())))
        assert (again.penalty, again.searched) == (learner.penalty, learner.searched)
        assert again.proved == learner.proved
    assert len(searched) > 3


def test_validations_by_hand() -> None:
    """Attempt j pays j(j+1): the level is log(j(j+1)/delta), returns are scaled into [0, 1]."""
    policy = Policy.deterministic(np.zeros((2, 1), dtype=np.int64), 2)
    for attempt in (1, 2, 3):
        first = Validation(policy, attempt, 100).and_then(3, 12.0)
        found = first.and_then(1, 0.0)
        assert (found.episodes, found.total, found.first_episode) == (4, 12.0, 100)
        threshold = plain.mean_threshold(4, 2.0, math.log(attempt * (attempt + 1) / 0.05))
        low, _ = plain.mean_bounds(4, 2.0, threshold)
        # returns between -2 and 8: 12 in 4 episodes are (12 + 8)/10 = 2 of 4
        assert found.lower(-2.0, 8.0, 0.05) == pytest.approx(-2 + 10 * low)
    one = Validation(policy, 1, 0, 2, 2.0).lower(0.0, 1.0, 0.1)
    assert one == pytest.approx(math.exp(-math.log(2 / 0.1 * 8 / 3) / 2))


def test_the_best_of_what_is_proved_is_recommended() -> None:
    counts = Counts(SHAPE, pooled=False)
    policy = Policy.deterministic(np.ones((2, 1), dtype=np.int64), 2)
    part = PolicyTask("", policy, 50, Counts(SHAPE, pooled=False))
    counts.include(play(part, (0.0, 0.5)).counts)
    without = best_policy(counts, KNOWN, 0.1, Range())
    assert without.validated == -np.inf
    for total in (0.0, 100.0):
        validation = Validation(policy, 2, 0, 50, total)
        found = best_policy(counts, KNOWN, 0.1, Range(), validation)
        assert found.validated == pytest.approx(validation.lower(0.0, 2.0, 0.025))
        assert found.candidate[0] == max(without.candidate[0], found.validated)
        assert found.gap == pytest.approx(found.upper - found.candidate[0])
    assert found.candidate[0] == found.validated
    empty = best_policy(counts, KNOWN, 0.1, Range(), Validation(policy, 1, 0))
    assert empty.candidate[0] == without.candidate[0]


def test_a_policy_is_validated_when_it_looks_good_and_given_up_in_time() -> None:
    """Not before 100 episodes; for half as many as before; the next after half as many more."""
    learner = identification(0.6)
    limits = None
    for _ in range(600):
        part = learner.next_task()
        if part is None:
            break
        before = learner.counts.n_episodes
        if part.validates:
            if limits is None:
                assert before >= 100
                certificate = learner.certificate
                assert certificate.upper - certificate.estimated[0] <= 0.75 * 0.6
                limits = before
            assert part.name == f"validation {learner.attempts}"
            assert learner.active is not None
            np.testing.assert_array_equal(part.policy.table, learner.active.policy.table)
            assert learner.active.first_episode == limits
        elif before >= learner.wait and learner.validates:
            certificate = learner.certificate
            assert certificate.upper - certificate.estimated[0] > 0.75 * 0.6
        had = learner.active.episodes if learner.active else 0
        assert learner.tell(play(part))
        now = learner.counts.n_episodes
        if part.validates and limits is not None:
            assert learner.best is not None
            if had + part.episodes > 0.5 * limits:
                assert learner.active is None
                assert learner.wait == int(1.5 * now)
                limits = None
            else:
                assert learner.active is not None
                assert learner.active.episodes == had + part.episodes
    assert learner.attempts == 2  # the first one was given up
    assert learner.done
    never = identification(0.6, validates=False)
    for _ in range(150):
        part = never.next_task()
        if part is None:
            break
        assert not part.validates
        never.tell(play(part, (0.25, 0.25)))
    assert never.attempts == 0


def test_of_two_validations_the_better_is_kept() -> None:
    learner = identification(0.5)
    first = learner.next_task()
    assert first is not None
    assert learner.conclusion() is None
    learner.tell(play(first))
    policy = Policy.deterministic(np.zeros((2, 1), dtype=np.int64), 2)
    good, bad = (Validation(policy, i, 0, 50, total) for i, total in ((1, 90.0), (2, 10.0)))
    learner._keep_the_better(good)
    assert learner.best is good
    learner._keep_the_better(bad)
    assert learner.best is good
    worse = good.and_then(50, 0.0)
    learner._keep_the_better(worse)  # the same attempt, with more episodes: no choice
    assert learner.best is worse
    third = Validation(policy, 3, 0, 500, 990.0)
    learner._keep_the_better(third)
    assert learner.best is third


def test_what_is_remembered_comes_back() -> None:
    learner = identification(0.6)
    while learner.active is None:
        part = learner.next_task()
        assert part is not None
        learner.tell(play(part, (0.25, 0.25)))
    state = learner.state()
    again = identification(0.6)
    again.counts = learner.counts
    again.restore(state)
    assert again.state() == state
    assert again.active is not None
    assert again.active.episodes == learner.active.episodes
    np.testing.assert_array_equal(again.active.policy.table, learner.active.policy.table)
    assert (again.best is None) == (learner.best is None)
    assert (again.attempts, again.wait) == (1, 100)
    found = learner.conclusion()
    assert found is not None
    assert found.lower == learner.certificate.candidate[0]
    assert found.upper == learner.certificate.upper
    np.testing.assert_array_equal(learner.policy.table, found.policy.table)
