"""State machines of Hypothesis: rules, preconditions, bundles, invariants, drawn arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import hypothesis

from covgame.errors import BadInput
from covgame.rng import episode_seed
from covgame.testing import hypothesis_inside as inside
from covgame.testing.machines import Found, GaveUp, StateMap, states_of

REDRAWN = 20
"""How often a step is drawn before the sequence ends there."""

START = -1
"""Stands for the set-up among the rules of a sequence."""

Step = tuple[int, inside.Choices]
"""A rule by its number, and the choices that Hypothesis made for it."""


class HypothesisSequence:
    """One run of a state machine. Arguments are drawn as Hypothesis draws them.

    A step that is rejected (``assume`` was false, a filter found nothing) is drawn anew, on a fresh
    machine that has been brought to the same place.
    """

    def __init__(self, machine: HypothesisMachine, seed: int, first: inside.Choices = ()) -> None:
        self.machine, self.seed = machine, seed
        self.open = inside.OpenRun(machine.machine, seed, first or None)
        self.ran: list[int] = [START]  # the last one may be under way
        self.marks: list[int] = [0]  # choices before each of them

    def start(self) -> None:
        with _giving_up():
            self.open.start()

    @property
    def steps(self) -> list[Step]:
        choices = self.open.choices
        ends = [*self.marks[1:], len(choices)]
        return [
            (rule, choices[begin:end])
            for rule, begin, end in zip(self.ran, self.marks, ends, strict=True)
        ]

    def allowed(self) -> list[bool]:
        return [inside.is_allowed(self.open.machine, rule) for rule in self.machine.all_rules]

    def run(self, rule: int) -> None:
        before = self.open.choices
        self.ran.append(rule)
        self.marks.append(len(before))
        for attempt in range(1, REDRAWN):
            try:
                return self._run(rule)
            except GaveUp:
                self._return_to(before, attempt)
        return self._run(rule)

    def again(self, step: Step) -> bool:
        rule, _ = step
        if rule == START:
            return True
        if not self.allowed()[rule]:
            return False
        self.ran.append(rule)
        self.marks.append(len(self.open.choices))
        self._run(rule)
        return True

    def _run(self, rule: int) -> None:
        if self.open.is_too_long:
            raise GaveUp
        with _giving_up():
            self.open.run(rule)

    def _return_to(self, choices: inside.Choices, attempt: int) -> None:
        """Do the same once more, with other choices from here on."""
        self.open.close()
        done = self.ran[1:-1]
        seed = episode_seed(self.seed, len(done), attempt)
        self.open = inside.OpenRun(self.machine.machine, seed, choices)
        self.start()
        for rule in done:
            self.open.run(rule)

    def state(self) -> Any:
        return self.machine.states(self.open.machine)

    def close(self) -> None:
        self.open.close()


class HypothesisMachine:
    """A class of them."""

    def __init__(self, machine: Any, states: StateMap | None, steps: int) -> None:
        self.name = machine.__name__
        self.all_rules = inside.rules_of(machine)
        if not self.all_rules:
            raise BadInput(
                f"{self.name} has no rules, so that there is nothing to run; decorate methods "
                "of it with hypothesis.stateful.rule"
            )
        self.machine = inside.with_chosen_rules(machine)
        self.states = states_of(machine, states)
        self.rules = [str(rule.function.__name__) for rule in self.all_rules]
        if len(set(self.rules)) < len(self.rules):
            raise BadInput(f"two rules of {self.name} have the same name; rename one")
        self.settings: hypothesis.settings = machine.TestCase.settings
        self.most_steps = steps + len(machine.setup_state().initializers)

    def begin(self, seed: int, steps: Sequence[Step] = ()) -> HypothesisSequence:
        return HypothesisSequence(self, seed, _choices(steps))

    def rules_of(self, steps: Sequence[Step]) -> tuple[str, ...]:
        return tuple(self.rules[rule] for rule, _ in steps if rule != START)

    def try_known(self, seed: int) -> None:
        __tracebackhide__ = True
        if self.settings.database is not None and hypothesis.Phase.reuse in self.settings.phases:
            inside.replay(self.machine, [], self.most_steps, self.settings, seed)

    def hand_back(self, found: Sequence[Found], seed: int) -> NoReturn:
        """Hypothesis runs them again, shrinks them further, and prints what it always prints."""
        __tracebackhide__ = True
        runs = [_choices(one.steps) for one in found]
        inside.replay(self.machine, runs, self.most_steps, self.settings, seed)
        first = min(found, key=lambda one: len(one.rules))
        first.error.add_note(
            "Hypothesis ran the same rules with the same arguments, and nothing failed: this "
            f"depends on more than that. Rules: {', '.join(first.rules)}"
        )
        raise first.error


def _choices(steps: Sequence[Step]) -> inside.Choices:
    return tuple(choice for _, choices in steps for choice in choices)


@contextlib.contextmanager
def _giving_up() -> Iterator[None]:
    """What Hypothesis says by exceptions of its own."""
    try:
        yield
    except inside.GIVES_UP as error:
        raise GaveUp(str(error)) from None
