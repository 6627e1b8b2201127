"""Plain classes whose methods are actions: state machines without Hypothesis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from random import Random
from types import TracebackType
from typing import Any, NoReturn, TypeVar, overload

from covgame.errors import BadInput
from covgame.testing.machines import Found, StateMap, states_of

ACTION, ALWAYS = "__covgame_action__", "__covgame_always__"

Method = TypeVar("Method", bound=Callable[..., Any])
When = Callable[[Any], bool]

Step = tuple[int, int]
"""An action by its number, and the number of its step in the sequence that it was found in."""


@overload
def action(method: Method) -> Method: ...
@overload
def action(*, when: When | None = None) -> Callable[[Method], Method]: ...
def action(method: Any = None, *, when: When | None = None) -> Any:
    """Say that a method of a plain class is something one can do.

    Args:
        method: The method, if there is nothing else to say. It takes nothing, or one argument: a
            ``random.Random`` that is the same whenever the sequence is run again.
        when: A function of the object: whether the action is allowed now.

    Returns:
        The method.

    Example:
        >>> from covgame.testing import action
        >>> class Door:
        ...     open = False
        ...     @action(when=lambda door: not door.open)
        ...     def push(self):
        ...         self.open = True
    """

    def mark(function: Any) -> Any:
        setattr(function, ACTION, when or _always)
        return function

    return mark if method is None else mark(method)


def always(method: Method) -> Method:
    """Say that a method of a plain class is to be called after every step, to check something.

    Args:
        method: The method, which takes nothing; what it raises is a failure.

    Returns:
        The method.
    """
    setattr(method, ALWAYS, True)
    return method


def _always(_: Any) -> bool:
    return True


def marked(machine: type, mark: str) -> list[str]:
    """The methods of a class with a mark, in the order in which they are written."""
    names = dict.fromkeys(name for one in reversed(machine.__mro__) for name in vars(one))
    return [name for name in names if hasattr(getattr(machine, name, None), mark)]


class PlainSequence:
    """One object, and what is done to it."""

    def __init__(self, machine: PlainMachine, seed: int) -> None:
        self.machine, self.seed = machine, seed
        self.object: Any = None
        self.steps: list[Step] = []

    def start(self) -> None:
        self.object = self.machine.implementation()
        reset = getattr(self.object, "reset", None)
        if callable(reset):
            reset(*([self.seed] if takes_one(reset) else []))
        self._check()

    def allowed(self) -> list[bool]:
        return [bool(when(self.object)) for when in self.machine.whens]

    def run(self, rule: int) -> None:
        self._do((rule, len(self.steps)))

    def again(self, step: Step) -> bool:
        if not self.allowed()[step[0]]:
            return False
        self._do(step)
        return True

    def _do(self, step: Step) -> None:
        """With the random numbers that the step had when it was first run."""
        rule, number = step
        self.steps.append(step)
        method = getattr(self.object, self.machine.rules[rule])
        method(*([Random(f"{self.seed} {number}")] if takes_one(method) else []))
        self._check()

    def _check(self) -> None:
        for name in self.machine.checks:
            getattr(self.object, name)()

    def state(self) -> Any:
        return self.machine.states(self.object)

    def close(self) -> None:
        teardown = getattr(self.object, "teardown", None)
        if callable(teardown):
            teardown()


class PlainMachine:
    """A class with ``@action`` methods; every sequence gets a fresh object, reset if it can be."""

    def __init__(self, machine: type, states: StateMap | None) -> None:
        self.name, self.implementation = machine.__name__, machine
        self.rules: Sequence[str] = marked(machine, ACTION)
        if not self.rules:
            raise BadInput(
                f"{self.name} has nothing to run: derive it from Hypothesis's "
                "RuleBasedStateMachine and give it rules, or decorate methods of it with "
                "covgame.testing.action"
            )
        self.states = states_of(machine, states)
        self.checks = marked(machine, ALWAYS)
        self.whens = [getattr(getattr(machine, name), ACTION) for name in self.rules]

    def begin(self, seed: int, steps: Sequence[Step] = ()) -> PlainSequence:
        del steps
        return PlainSequence(self, seed)

    def rules_of(self, steps: Sequence[Step]) -> tuple[str, ...]:
        return tuple(self.rules[rule] for rule, _ in steps)

    def try_known(self, seed: int) -> None:
        """Nothing is remembered."""

    def hand_back(self, found: Sequence[Found], seed: int) -> NoReturn:
        """Print the sequences as Hypothesis does."""
        __tracebackhide__ = True
        del seed
        errors = [self._explained(one) for one in found]
        if len(errors) == 1:
            raise errors[0]
        raise BaseExceptionGroup(f"{self.name} fails in {len(errors)} ways", errors)

    def _explained(self, found: Found) -> BaseException:
        if not found.is_reproducible:
            found.error.add_note(
                "The same actions once more did not fail: this depends on more than them. "
                f"Actions: {', '.join(found.rules)}"
            )
            return found.error
        lines = [f"state = {self.name}()", *(f"state.{rule}()" for rule in found.rules)]
        found.error.add_note("\n".join(["Failing sequence:", *lines]))
        return found.error.with_traceback(_without_ours(found.error.__traceback__))


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback from where the code under test begins."""
    at = traceback
    while at is not None and at.tb_frame.f_globals.get("__package__") == __package__:
        at = at.tb_next
    return at or traceback


def takes_one(method: Any) -> bool:
    """Whether a method asks for an argument."""
    asked = [
        one
        for one in inspect.signature(method).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    return len(asked) == 1
