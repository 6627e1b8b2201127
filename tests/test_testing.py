"""State machines as tests: every transition, failures that are short, sentences that help."""

from __future__ import annotations

import doctest
import inspect
import random
import re
import warnings
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import covgame as cg
import covgame.testing
from covgame.errors import BadInput, PremiseBroken
from covgame.mdp import dp
from covgame.testing import (
    CoverWarning,
    NotCovered,
    Outcome,
    action,
    always,
    check_transitions,
    cover_transitions,
    environment,
)
from covgame.testing.machines import shortest
from covgame.testing.outcome import most_visits

QUIET = hypothesis.settings(
    database=None, deadline=None, phases=(hypothesis.Phase.reuse, hypothesis.Phase.shrink)
)


class Breaker(RuleBasedStateMachine):
    """Opens after three failures in a row; a success after a pause closes it."""

    def __init__(self) -> None:
        super().__init__()
        self.mode, self.failures = "CLOSED", 0

    def covgame_state(self) -> Any:
        return self.mode, self.failures

    @precondition(lambda self: self.mode != "OPEN")
    @rule(load=st.integers(0, 10))
    def succeed(self, load: int) -> None:
        self.mode, self.failures = "CLOSED", 0

    @precondition(lambda self: self.mode != "OPEN")
    @rule()
    def fail(self) -> None:
        self.failures = min(3, self.failures + 1)
        if self.failures == 3 or self.mode == "HALF OPEN":
            self.mode, self.failures = "OPEN", 0

    @rule(long=st.booleans())
    def pause(self, long: bool) -> None:
        if self.mode == "OPEN" and long:
            self.mode = "HALF OPEN"


class Counter:
    """A plain class; fails when it is pushed at three, and once more at five."""

    fails: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.n = 0

    def covgame_state(self) -> int:
        return self.n

    @action
    def up(self) -> None:
        self.n = min(5, self.n + 1)

    @action(when=lambda self: self.n > 0)
    def down(self) -> None:
        self.n -= 1

    @action(when=lambda self: self.n in (3, 5))
    def push(self) -> None:
        if self.n == 3 in self.fails:
            raise ValueError("three")
        if self.n == 5 and 5 in self.fails:
            raise KeyError("five")


def asking(machine: Any, **asked: Any) -> Any:
    """The same machine, asked for something else, without Hypothesis's database."""
    made: Any = type(machine.__name__, (machine,), {"__module__": machine.__module__})
    if issubclass(machine, RuleBasedStateMachine):
        made.TestCase.settings = QUIET
    return cover_transitions(**asked)(made)


@pytest.mark.parametrize("name", covgame.testing.__all__)
def test_public_names_explain_themselves(name: str) -> None:
    """Docstrings with all arguments, and examples that run."""
    public = getattr(covgame.testing, name)
    text = inspect.getdoc(public) or ""
    assert text
    if inspect.isfunction(public):
        listed = re.findall(r"^    (\w+): ", text.partition("Args:\n")[2].split("\n\n")[0], re.M)
        assert listed == list(inspect.signature(public).parameters)
    for example in doctest.DocTestFinder(recurse=False).find(public, name, globs={}):
        assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


def test_every_transition_of_a_state_machine_is_seen_as_often_as_asked() -> None:
    outcome = check_transitions(asking(Breaker, visits=7, budget=100))
    assert outcome.covered
    assert min(one.times for one in outcome.transitions) >= 7
    states = {one.state for one in outcome.transitions}
    assert len(states) == 5
    assert len(outcome.transitions) == len(
        {(one.state, one.rule, one.led_to) for one in outcome.transitions}
    )
    assert sum(runs for _, runs in outcome.rules) == outcome.steps
    assert "all" in outcome.line()
    assert "seed 0" in outcome.line()


def test_the_transitions_are_those_that_there_are() -> None:
    """Counted by hand: five states, and ``pause`` where it is open leads to two."""
    outcome = check_transitions(asking(Breaker, visits=2, budget=100))
    moves = {str(one) for one in outcome.transitions}
    assert "(OPEN, 0) / pause -> (HALF OPEN, 0)" in moves
    assert len(moves) == 4 + 4 + 4 + 2


def test_the_same_seed_runs_the_same_sequences() -> None:
    machine = asking(Breaker, visits=3, budget=100)
    assert check_transitions(machine) == check_transitions(machine)
    assert check_transitions(machine, seed=1) != check_transitions(machine)


def test_a_plain_class_is_covered_as_well() -> None:
    outcome = check_transitions(asking(Counter, visits=4, budget=100))
    assert outcome.covered
    assert len(outcome.transitions) == 6 + 5 + 2
    assert outcome.untried == ()


class Armed(Breaker):
    @rule(amount=st.integers())
    @precondition(lambda self: self.mode == "HALF OPEN")
    def probe(self, amount: int) -> None:
        assert amount < 1000


def test_hypothesis_shrinks_and_prints_what_failed() -> None:
    with pytest.raises(AssertionError) as caught:
        check_transitions(asking(Armed, visits=20, budget=100))
    printed = "\n".join(caught.value.__notes__)
    assert "state.probe(amount=1000)" in printed
    assert printed.count("state.fail()") == 3
    assert printed.count("state.pause(long=True)") == 1


def test_invariants_and_initialize_rules_are_run() -> None:
    class Drifting(RuleBasedStateMachine):
        @initialize(first=st.integers(1, 3))
        def begin(self, first: int) -> None:
            self.n = first

        @rule()
        def up(self) -> None:
            self.n += 1

        @invariant()
        def is_small(self) -> None:
            assert self.n < 9, "too much"

        def covgame_state(self) -> int:
            return self.n

    with pytest.raises(AssertionError, match="too much") as caught:
        check_transitions(asking(Drifting, visits=2, budget=10))
    assert "state.begin(first=" in "\n".join(caught.value.__notes__)


def test_rejected_steps_are_drawn_anew_and_are_no_transitions() -> None:
    class Picky(Breaker):
        @rule(data=st.data())
        def pick(self, data: Any) -> None:
            hypothesis.assume(data.draw(st.integers(0, 3)) == 3)

    outcome = check_transitions(asking(Picky, visits=3, budget=200, steps=12))
    assert outcome.covered
    assert all(one.led_to is not None for one in outcome.transitions)
    assert dict(outcome.rules)["pick"] >= 15


def test_a_run_goes_on_after_a_failure_and_tells_every_bug_once() -> None:
    class Twofold(Counter):
        fails = (3, 5)

    with pytest.raises(BaseExceptionGroup) as caught:
        check_transitions(asking(Twofold, visits=3, budget=200))
    three, five = sorted(caught.value.exceptions, key=lambda one: len(one.__notes__[0]))
    assert isinstance(three, ValueError)
    assert isinstance(five, KeyError)
    up = "state.up()\n"
    assert three.__notes__ == [f"Failing sequence:\nstate = Twofold()\n{3 * up}state.push()"]
    assert five.__notes__ == [f"Failing sequence:\nstate = Twofold()\n{5 * up}state.push()"]


def test_to_stop_at_the_first_failure() -> None:
    class Twofold(Counter):
        fails = (3, 5)

    with pytest.raises(ValueError, match="three"):
        check_transitions(asking(Twofold, visits=3, budget=200, on_failure="stop"))


def test_to_avoid_what_failed_and_cover_the_rest() -> None:
    class Once(Counter):
        fails = (3,)

    outcomes: list[Outcome] = []
    from covgame.testing import checking

    checking.listeners.append(outcomes.append)
    try:
        with pytest.raises(ValueError, match="three") as caught:
            check_transitions(asking(Once, visits=30, budget=200, on_failure="avoid"))
    finally:
        checking.listeners.remove(outcomes.append)
    (outcome,) = outcomes
    assert outcome.covered
    (failed,) = outcome.failures
    assert failed.times == 1
    assert failed.path[-1] == "push"
    assert caught.value.__notes__[0].count("state.up()") == 3
    assert failed.where == "3 / push"


def test_random_arguments_of_plain_actions_are_the_same_when_a_sequence_is_shortened() -> None:
    class Dice(Counter):
        @action
        def roll(self, dice: random.Random) -> None:
            if self.n == 4 and dice.random() < 0.3:
                raise ValueError("unlucky")

    with pytest.raises(ValueError, match="unlucky") as caught:
        check_transitions(asking(Dice, visits=20, budget=200))
    assert caught.value.__notes__[0].count("state.up()") == 4
    assert caught.value.__notes__[0].count("state.roll()") == 1


def test_what_is_to_hold_always_is_checked_after_every_action() -> None:
    class Bounded(Counter):
        @always
        def is_small(self) -> None:
            assert self.n < 4

    with pytest.raises(AssertionError) as caught:
        check_transitions(asking(Bounded, visits=2, budget=20))
    assert caught.value.__notes__[0].count("state.up()") == 4


def test_a_failure_that_does_not_come_again_is_told_with_its_rules() -> None:
    class Moody(Counter):
        moods: list[int] = []  # noqa: RUF012

        @action
        def wait(self) -> None:
            self.moods.append(1)
            if len(self.moods) == 40:
                raise OSError("once")

    with pytest.raises(OSError, match="once") as caught:
        check_transitions(asking(Moody, visits=20, budget=50))
    assert "did not fail" in caught.value.__notes__[0]


def test_the_same_of_a_machine_that_hypothesis_runs_again() -> None:
    class Moody(Breaker):
        moods: list[int] = []  # noqa: RUF012

        @rule()
        def sleep(self) -> None:
            self.moods.append(1)
            if len(self.moods) == 30:
                raise OSError("once")

    with pytest.raises(OSError, match="once") as caught:
        check_transitions(asking(Moody, visits=10, budget=50))
    assert "depends on more than that" in caught.value.__notes__[-1]


def test_bugs_that_come_up_at_one_line_are_one_however_they_are_reached() -> None:
    """Of all sequences that fail there the shortest is kept."""

    class Wide(Counter):
        @action
        def shake(self) -> None:
            if self.n >= 2:
                raise ValueError(f"at {self.n}")

    with pytest.raises(ValueError, match="at 2") as caught:
        check_transitions(asking(Wide, visits=5, budget=200))
    assert caught.value.__notes__[0].count("state.up()") == 2


def test_the_budget_ends_a_run_and_says_what_is_missing() -> None:
    with pytest.raises(NotCovered, match=r"(?s)2 sequences are spent.*Missing:\n  .* seen"):
        check_transitions(asking(Counter, visits=50, budget=2))
    with pytest.warns(CoverWarning, match="Missing"):
        outcome = check_transitions(asking(Counter, visits=50, budget=2, when_short="warn"))
    assert not outcome.covered
    assert outcome.stopped == "budget"


def test_a_rule_that_is_never_allowed_is_named() -> None:
    class Late(Counter):
        @action(when=lambda self: self.n == 7)
        def unreachable(self) -> None:
            """Nobody gets here."""

    outcome = check_transitions(asking(Late, visits=2, budget=50))
    assert outcome.never_allowed == ("unreachable",)
    assert outcome.line().endswith("never allowed: unreachable")


def test_states_that_lump_different_ones_together_are_noticed() -> None:
    class Blind(Breaker):
        def covgame_state(self) -> Any:
            return self.mode

    with pytest.warns(CoverWarning, match="what follows CLOSED depends on how one got there"):
        check_transitions(asking(Blind, visits=60, budget=200))


def test_a_dead_end_ends_a_sequence() -> None:
    class OneWay(Counter):
        @action(when=lambda self: self.n < 2)
        def up(self) -> None:
            self.n += 1

        down = push = None  # type: ignore[assignment]

    outcome = check_transitions(asking(OneWay, visits=3, budget=20))
    assert outcome.steps == 2 * outcome.sequences
    assert [str(one) for one in outcome.transitions] == ["0 / up -> 1", "1 / up -> the end"]


@pytest.mark.parametrize(
    ("machine", "asked", "sentence"),
    [
        (type("Bare", (RuleBasedStateMachine,), {}), {}, "Bare has no rules"),
        (type("Empty", (), {}), {}, "Empty has nothing to run: derive it"),
        (type("Mapless", (Counter,), {"covgame_state": None}), {}, r"covgame_state\(self\)"),
        (Counter, {"visits": 0}, "visits is a whole number from 1 on, not 0"),
        (Counter, {"seconds": -1.0}, "seconds is a number above 0"),
        (Counter, {"on_failure": "ignore"}, "on_failure is 'record' or 'avoid' or 'stop'"),
        (Counter, {"states": "n"}, "states is a function of the machine"),
    ],
)
def test_bad_input_is_answered_with_a_sentence_that_helps(
    machine: Any, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        check_transitions(cover_transitions(**asked)(machine))


class Odd:
    """Cannot be told apart from others."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (lambda _: Odd(), "is a Odd here, by which states cannot be told apart; return numbers"),
        (lambda _: object(), "is a object here, by which states cannot be told apart"),
        (lambda machine: machine.mood, "could not be told: AttributeError"),
    ],
)
def test_states_that_cannot_be_told_apart_are_no_bug_of_the_machine(
    states: Any, sentence: str
) -> None:
    with pytest.raises(PremiseBroken, match=sentence):
        check_transitions(asking(Counter, states=states))


def test_states_that_never_come_back_are_noticed() -> None:
    class Clock(Counter):
        ticks = 0

        def covgame_state(self) -> int:
            Clock.ticks += 1
            return Clock.ticks

    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverWarning)
        with pytest.raises(CoverWarning, match="have covgame_state return less"):
            check_transitions(asking(Clock, visits=1, budget=21))


def test_a_time_budget_ends_a_run_too() -> None:
    """However short it is, something is run; however long, the budget of sequences holds."""
    with pytest.raises(NotCovered, match=r"1e-06 s are spent"):
        check_transitions(asking(Counter, visits=10**6, seconds=1e-6))


def test_a_machine_is_an_environment_like_any_other() -> None:
    run = cg.cover(environment(Counter, steps=20), "uniform:5/pair")
    assert run.covered
    assert sorted(run.names.states or []) == ["0", "1", "2", "3", "4", "5"]


def test_an_outcome_survives_the_journey_between_processes() -> None:
    outcome = check_transitions(asking(Counter, visits=2, budget=50))
    assert Outcome.from_dict(outcome.to_dict()) == outcome


def test_prices_are_the_most_visits_that_any_policy_makes() -> None:
    """One recursion for many pairs agrees with backward induction for each of them."""
    model = cg.make("riverswim:states=4,horizon=6").model
    assert model is not None
    kernel = model.transitions
    found = most_visits(kernel, np.arange(kernel.shape.pairs))
    for pair in range(kernel.shape.pairs):
        reward = np.zeros(kernel.shape.hsa)
        reward.reshape(kernel.shape.horizon, -1)[:, pair] = 1.0
        best = dp.backward_induction(kernel, reward)
        assert found[pair] == pytest.approx(dp.initial_value(kernel, best.values))


def test_what_one_more_visit_costs() -> None:
    """Half the pushes come to nothing, and a push is possible once in a sequence of four."""

    class Coin(Counter):
        @action(when=lambda self: self.n == 3)
        def toss(self, dice: random.Random) -> None:
            self.n = dice.choice([0, 1])

    outcome = check_transitions(asking(Coin, visits=60, budget=2000, steps=4))
    prices = {str(one): one.price for one in outcome.transitions}
    assert prices["3 / toss -> 0"] == pytest.approx(2, rel=0.3)
    assert prices["0 / up -> 1"] == pytest.approx(1 / 2)


def test_sequences_are_shortened_to_what_is_needed() -> None:
    assert shortest(list(range(50)), lambda some: {7, 8, 31} <= set(some)) == [7, 8, 31]
    assert shortest([1, 2, 3], lambda some: False) == [1, 2, 3]


def test_the_page_for_testers_is_in_their_words() -> None:
    page = (Path(__file__).parent.parent / "docs" / "testing.md").read_text()
    for word in ("MDP", "episode", "policy", "kernel", "reinforcement"):
        assert not re.search(rf"\b{word}", page, re.IGNORECASE), word
