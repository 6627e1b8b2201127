"""State machines of Hypothesis: rules, preconditions, bundles, invariants, drawn arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import hypothesis

from covgame.errors import BadInput
from covgame.rng import episode_seed
from covgame.testing import hypothesis_inside as inside
from covgame.testing.machines import Found, GaveUp, StateMap

REDRAWN = 20
"""How often a step is drawn before the sequence ends there."""


class HypothesisSequence:
    """One run of a state machine. Arguments are drawn as Hypothesis draws them.

    A step that is rejected (``assume`` was false, a filter found nothing) is drawn anew, on a fresh
    machine that has been brought to the same place.
    """

    def __init__(self, machine: HypothesisMachine, seed: int) -> None:
        self.machine, self.seed = machine, seed
        self.open = inside.OpenRun(machine.machine, seed)
        self.ran: list[int] = []

    def start(self) -> None:
        with _giving_up():
            self.open.start()

    @property
    def evidence(self) -> inside.Choices:
        """All choices that were made."""
        return self.open.choices

    def allowed(self) -> list[bool]:
        return [inside.is_allowed(self.open.machine, rule) for rule in self.machine.all_rules]

    def run(self, rule: int) -> None:
        for attempt in range(1, REDRAWN):
            before = self.open.choices
            try:
                return self._run(rule)
            except GaveUp:
                self._return_to(before, attempt)
        return self._run(rule)

    def _run(self, rule: int) -> None:
        if self.open.is_too_long:
            raise GaveUp
        with _giving_up():
            self.open.run(rule)
        self.ran.append(rule)

    def _return_to(self, choices: inside.Choices, attempt: int) -> None:
        """Do the same once more, with other choices from here on."""
        self.open.close()
        seed = episode_seed(self.seed, len(self.ran), attempt)
        self.open = inside.OpenRun(self.machine.machine, seed, choices)
        self.start()
        for rule in self.ran:
            self.open.run(rule)

    def state(self) -> Any:
        return self.machine.states(self.open.machine)

    def close(self) -> None:
        self.open.close()


class HypothesisMachine:
    """A class of them."""

    def __init__(self, machine: Any, states: StateMap, steps: int) -> None:
        self.name = machine.__name__
        self.machine = inside.with_chosen_rules(machine)
        self.states = states
        self.all_rules = inside.rules_of(machine)
        self.rules = [str(rule.function.__name__) for rule in self.all_rules]
        if len(set(self.rules)) < len(self.rules):
            raise BadInput(f"two rules of {self.name} have the same name; rename one")
        self.settings: hypothesis.settings = machine.TestCase.settings
        self.steps = steps + len(machine.setup_state().initializers)

    def begin(self, seed: int) -> HypothesisSequence:
        return HypothesisSequence(self, seed)

    def try_known(self, seed: int) -> None:
        __tracebackhide__ = True
        if self.settings.database is not None and hypothesis.Phase.reuse in self.settings.phases:
            inside.replay(self.machine, [], self.steps, self.settings, seed)

    def hand_back(self, found: Sequence[Found], seed: int) -> NoReturn:
        """Hypothesis runs them again, shrinks them, and prints what it always prints."""
        __tracebackhide__ = True
        inside.replay(
            self.machine, [one.evidence for one in found], self.steps, self.settings, seed
        )
        first = min(found, key=lambda one: len(one.rules))
        first.error.add_note(
            "Hypothesis ran the same rules with the same arguments, and nothing failed: this "
            f"depends on more than that. Rules: {', '.join(first.rules)}"
        )
        raise first.error


def check_has_rules(machine: Any) -> None:
    """There is something to run."""
    if not inside.rules_of(machine):
        raise BadInput(
            f"{machine.__name__} has no rules, so that there is nothing to run; decorate methods "
            "of it with hypothesis.stateful.rule"
        )


@contextlib.contextmanager
def _giving_up() -> Iterator[None]:
    """What Hypothesis says by exceptions of its own."""
    try:
        yield
    except inside.GIVES_UP as error:
        raise GaveUp(str(error)) from None
