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
    told = [float(paid[0].sum())]
    part.counts.add_visits(CountedVisits(n, np.array([n]), visits, paid, moves, told))
    if part.counts.payments is not None:
        returns = paid.sum() / n  # of every episode
        part.counts.payments.add_returns(np.full(n, returns))
    return part


def exploration(epsilon: float) -> CertifiedExploration:
    return CertifiedExploration(Counts(SHAPE, pooled=False), KNOWN, epsilon, 0.1)


def identification(epsilon: float, **options: Any) -> CertifiedIdentification:
    counts = Counts(SHAPE, pooled=False, paid=True)
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
    """Attempt j pays j(j+1): n KL(returns, law) <= log(j(j+1)/delta) + log of the regret."""
    policy = Policy.deterministic(np.zeros((2, 1), dtype=np.int64), 2)
    for attempt in (1, 2, 3):
        first = Validation(policy, attempt, 100).and_then({-2.0: 1, 3.0: 2}, -2.0, 8.0)
        found = first.and_then({8.0: 1}, -2.0, 8.0)
        assert (found.episodes, found.first_episode) == (4, 100)
        assert dict(found.returns) == {-2.0: 1, 3.0: 2, 8.0: 1}
        threshold = plain.fixed_function_threshold(4, math.log(attempt * (attempt + 1) / 0.05))
        shares, values = np.array([0.25, 0.5, 0.25]), np.array([2.0, -3.0, -8.0])
        expected = -plain.best_of_ball(shares, values, threshold / 4, 2.0)
        assert found.lower(-2.0, 0.05) == pytest.approx(expected)
    # two returns of 1: the law with KL log(2/0.1 8/3)/2 gives the rest to the least, 0
    one = Validation(policy, 1, 0, {1.0: 2}).lower(0.0, 0.1)
    assert one == pytest.approx(math.exp(-math.log(2 / 0.1 * 8 / 3) / 2))
    assert Validation(policy, 1, 0).lower(0.0, 0.1) == -math.inf


def test_returns_are_rounded_down() -> None:
    """Whole numbers stay; others go to one of 2^16 steps from the least return to the most."""
    policy = Policy.deterministic(np.zeros((2, 1), dtype=np.int64), 2)
    found = Validation(policy, 1, 0).and_then({0.3: 1, 1.0: 4, -0.7: 2}, -1.0, 3.0)
    low = [value for value in found.returns if value not in (1.0,)]
    unit = 4 / 2**16
    assert found.returns[1.0] == 4
    for value, rounded in zip(sorted((0.3, -0.7)), sorted(low), strict=True):
        assert 0 <= value - rounded < unit
        assert (rounded + 1) / unit == pytest.approx(round((rounded + 1) / unit))


def test_the_best_of_what_is_proved_is_recommended() -> None:
    counts = Counts(SHAPE, pooled=False, paid=True)
    policy = Policy.deterministic(np.ones((2, 1), dtype=np.int64), 2)
    part = PolicyTask("", policy, 50, Counts(SHAPE, pooled=False, paid=True))
    counts.include(play(part, (0.0, 0.5)).counts)
    without = best_policy(counts, KNOWN, 0.1, Range())
    assert without.validated == -np.inf
    for returned in (0.0, 2.0):
        validation = Validation(policy, 2, 0, {returned: 50})
        found = best_policy(counts, KNOWN, 0.1, Range(), validation)
        assert found.validated == pytest.approx(validation.lower(0.0, 0.025))
        assert found.candidate[0] == max(without.candidate[0], found.validated)
        assert found.gap == pytest.approx(found.upper - found.candidate[0])
    assert found.candidate[0] == found.validated
    empty = best_policy(counts, KNOWN, 0.1, Range(), Validation(policy, 1, 0))
    assert empty.candidate[0] == without.candidate[0]


def test_how_long_a_validation_may_take() -> None:
    """2 (v + room range/3) level/room^2; two stages that pay a coin of 1/2 have v = 1/2."""
    counts = Counts(SHAPE, pooled=False, paid=True)
    policy = Policy.deterministic(np.ones((2, 1), dtype=np.int64), 2)
    part = PolicyTask("", policy, 400, Counts(SHAPE, pooled=False, paid=True))
    counts.include(play(part, (0.0, 0.5)).counts)
    certificate = best_policy(counts, KNOWN, 0.1, Range())
    expected = 2 * (0.5 + 0.3 * 2 / 3) * 7.0 / 0.3**2
    assert certificate.length_of_validation(0.3, 7.0) == pytest.approx(expected)
    wider = best_policy(counts, KNOWN, 0.1, Range(-1.0, 1.0))
    # a reward of mean 1/2 in [-1, 1] has a second moment of 1 at most, and a variance of 3/4
    assert wider.length_of_validation(0.3, 7.0) == pytest.approx(
        2 * (1.5 + 0.3 * 4 / 3) * 7.0 / 0.3**2
    )


def test_a_policy_is_validated_when_it_looks_good_and_given_up_in_time() -> None:
    """Not before 100 episodes; for 0.7 times those before; the next after 0.3 times more."""
    learner = identification(0.6)
    limits = None
    for _ in range(600):
        ready = learner.active is None and learner._looks_good()
        part = learner.next_task()
        if part is None:
            break
        before = learner.counts.n_episodes
        if part.validates:
            if limits is None:
                assert ready
                assert before >= 100
                certificate, guess, _ = learner._found
                room = 0.6 - (guess.upper - certificate.estimated[0])
                attempt = learner.attempts
                level = math.log(attempt * (attempt + 1) / 0.025) + math.log(1000 * math.pi) / 2
                assert certificate.length_of_validation(room, level) <= 0.35 * before
                limits = before
            assert part.name == f"validation {learner.attempts}"
            assert learner.active is not None
            np.testing.assert_array_equal(part.policy.table, learner.active.policy.table)
            assert learner.active.first_episode == limits
        else:
            assert not ready
        had = learner.active.episodes if learner.active else 0
        assert learner.tell(play(part))
        now = learner.counts.n_episodes
        if part.validates and limits is not None:
            assert learner.best is not None
            if had + part.episodes > 0.7 * limits:
                assert learner.active is None
                assert learner.wait == int(1.3 * now)
                limits = None
            else:
                assert learner.active is not None
                assert learner.active.episodes == had + part.episodes
    assert learner.attempts >= 1
    assert learner.done
    never = identification(0.6, validates=False)
    for _ in range(150):
        other = never.next_task()
        if other is None:
            break
        assert not other.validates
        never.tell(play(other, (0.25, 0.25)))
    assert never.attempts == 0


def test_of_two_validations_the_better_is_kept() -> None:
    learner = identification(0.5)
    first = learner.next_task()
    assert first is not None
    assert learner.conclusion() is None
    learner.tell(play(first))
    policy = Policy.deterministic(np.zeros((2, 1), dtype=np.int64), 2)
    good, bad = (Validation(policy, i, 0, {mean: 50}) for i, mean in ((1, 1.8), (2, 0.2)))
    learner._keep_the_better(good)
    assert learner.best is good
    learner._keep_the_better(bad)
    assert learner.best is good
    worse = good.and_then({0.0: 50}, 0.0, 2.0)
    learner._keep_the_better(worse)  # the same attempt, with more episodes: no choice
    assert learner.best is worse
    third = Validation(policy, 3, 0, {1.98: 500})
    learner._keep_the_better(third)
    assert learner.best is third


def test_what_is_remembered_comes_back() -> None:
    learner = identification(0.2)
    while learner.active is None:
        part = learner.next_task()
        assert part is not None
        learner.tell(play(part, (0.25, 0.25)))
    state = json.loads(json.dumps(learner.state()))
    again = identification(0.2)
    again.counts = learner.counts
    again.restore(state)
    assert json.loads(json.dumps(again.state())) == state
    assert again.bound == learner.bound
    assert again.active is not None
    assert again.active.episodes == learner.active.episodes
    np.testing.assert_array_equal(again.active.policy.table, learner.active.policy.table)
    assert (again.best is None) == (learner.best is None)
    assert (again.attempts, again.wait) == (learner.attempts, learner.wait)
    found = learner.conclusion()
    assert found is not None
    assert found.lower == learner.certificate.candidate[0]
    assert found.upper == learner.upper
    np.testing.assert_array_equal(learner.policy.table, found.policy.table)
