"""``@cover_transitions``: the options of a test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from covgame.errors import BadInput
from covgame.testing.machines import StateMap

MARK = "__covgame__"
"""The attribute of a class that holds its options; pytest's plugin looks for it."""

OnFailure = Literal["record", "avoid", "stop"]
WhenShort = Literal["fail", "warn"]

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class TestOptions:
    """How often to see every transition, and what that may cost."""

    __test__ = False  # pytest does not collect it

    visits: int = 20
    budget: int = 1000  # sequences
    steps: int = 50  # of a sequence, at most
    seconds: float | None = None
    seed: int = 0
    states: StateMap | None = None
    on_failure: OnFailure = "record"
    when_short: WhenShort = "fail"

    def __post_init__(self) -> None:
        for name, least in (("visits", 1), ("budget", 1), ("steps", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadInput(f"{name} is a whole number from {least} on, not {value!r}")
        if self.seconds is not None and not (0 < self.seconds < math.inf):
            raise BadInput(f"seconds is a number above 0, not {self.seconds!r}")
        if self.states is not None and not callable(self.states):
            raise BadInput(f"states is a function of the machine, not {self.states!r}")
        for name, kinds in (("on_failure", OnFailure), ("when_short", WhenShort)):
            if getattr(self, name) not in get_args(kinds):
                choice = " or ".join(map(repr, get_args(kinds)))
                raise BadInput(f"{name} is {choice}, not {getattr(self, name)!r}")


def cover_transitions(
    visits: int = 20,
    *,
    budget: int = 1000,
    steps: int = 50,
    seconds: float | None = None,
    seed: int = 0,
    states: StateMap | None = None,
    on_failure: OnFailure = "record",
    when_short: WhenShort = "fail",
) -> Callable[[Class], Class]:
    """Make a state machine a test: every transition is to be seen ``visits`` times.

    A transition is a state, a rule that is run there, and the state after it. What counts as a
    state is said by the machine's method ``covgame_state(self)``, or by ``states``.

    Args:
        visits: How often every transition that shows itself is to be seen.
        budget: Sequences to run at most.
        steps: Rules of a sequence at most.
        seconds: Time that may pass; what was begun is finished.
        seed: Same seed, same sequences.
        states: A function from the machine to what counts as its state, instead of the method.
        on_failure: ``"record"`` takes a failure for the end of its sequence and goes on, so that a
            run ends with all failures; ``"avoid"`` as well, and does not run that rule in that
            state again; ``"stop"`` ends at the first.
        when_short: What to do when the budget is spent and visits are missing: ``"fail"`` or
            ``"warn"``.

    Returns:
        A decorator for a ``RuleBasedStateMachine`` of Hypothesis, or for a plain class with
        ``@action`` methods. pytest collects what it decorates as one test;
        ``covgame.testing.check_transitions`` runs it without pytest.

    Raises:
        BadInput: A number that makes no sense.

    Example:
        >>> from covgame.testing import action, check_transitions, cover_transitions
        >>> @cover_transitions(visits=5)
        ... class Turnstile:
        ...     locked = True
        ...     def covgame_state(self):
        ...         return "LOCKED" if self.locked else "OPEN"
        ...     @action
        ...     def insert_coin(self):
        ...         self.locked = False
        ...     @action
        ...     def push(self):
        ...         self.locked = True
        >>> check_transitions(Turnstile).covered
        True
    """
    options = TestOptions(visits, budget, steps, seconds, seed, states, on_failure, when_short)

    def mark(machine: Class) -> Class:
        if not isinstance(machine, type):
            raise BadInput(
                f"@cover_transitions decorates a class, not {machine!r}; of a state machine of "
                "Hypothesis the machine itself, not its TestCase"
            )
        setattr(machine, MARK, options)
        return machine

    return mark


def options_of(machine: Any) -> TestOptions:
    """The options of a class, or the defaults."""
    options = getattr(machine, MARK, None)
    return options if isinstance(options, TestOptions) else TestOptions()
