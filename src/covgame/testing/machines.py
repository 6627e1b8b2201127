"""Interfaces of state machines, and how a failing sequence is shortened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NoReturn, Protocol, TypeVar

from covgame.errors import BadInput

STATE_METHOD = "covgame_state"

StateMap = Callable[[Any], Any]
"""From a machine to what counts as its state."""

Place = tuple[str, str, int]
"""Where an error came up: its type, the file and the line. Errors at one place are one bug."""

Item = TypeVar("Item")

MOST_TRIES = 2_000
SMALL = 6


class GaveUp(Exception):
    """The rest of a sequence is not wanted: ``assume`` was false, or a filter found nothing."""


class OpenSequence(Protocol):
    """A sequence of rules that is run one by one."""

    def start(self) -> None:
        """Set up; raises what that raises, or ``GaveUp``."""
        ...

    @property
    def steps(self) -> list[Any]:
        """What was run so far, as ``again`` takes it; the last one may have failed."""
        ...

    def allowed(self) -> list[bool]:
        """Which rules may be run now."""
        ...

    def run(self, rule: int) -> None:
        """Run one; raises what the system under test raises, or ``GaveUp``."""
        ...

    def again(self, step: Any) -> bool:
        """Run a step of this or another sequence as it was run there, if it is allowed."""
        ...

    def state(self) -> Any:
        """What counts as the state now."""
        ...

    def close(self) -> None:
        """Tear down."""
        ...


@dataclass(frozen=True)
class Found:
    """A sequence that fails."""

    rules: tuple[str, ...]  # the last one failed; none at all: it failed before the first
    where: str  # the state and the rule
    times: int  # sequences that failed at this place
    seed: int
    error: BaseException
    steps: Sequence[Any]  # what it takes to do the same again
    is_reproducible: bool = True


class Machine(Protocol):
    """A class of machines."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def rules(self) -> Sequence[str]:
        """The names of its rules."""
        ...

    def begin(self, seed: int, steps: Sequence[Any] = ()) -> OpenSequence:
        """A sequence on a fresh machine, not started yet; ``steps`` will be run again."""
        ...

    def rules_of(self, steps: Sequence[Any]) -> tuple[str, ...]:
        """The names of the rules that are run in these steps."""
        ...

    def try_known(self, seed: int) -> None:
        """Run what has failed before and is remembered; raises if it still does."""
        ...

    def hand_back(self, found: Sequence[Found], seed: int) -> NoReturn:
        """Raise the errors of failing sequences, with the rules that lead to them."""
        ...


def states_of(machine: type, states: StateMap | None) -> StateMap:
    """What counts as a state: the function that was handed over, or the machine's own method."""
    found: StateMap | None = states or getattr(machine, STATE_METHOD, None)
    if not callable(found):
        raise BadInput(
            f"{machine.__name__} does not say what counts as a state; give it a method "
            f"{STATE_METHOD}(self) that returns the few things that matter, such as "
            "(self.status, self.failures > 0)"
        )
    return found


def place_of(error: BaseException) -> Place:
    """The last line that was run."""
    at: TracebackType | None = error.__traceback__
    if at is None:
        return type(error).__qualname__, "", 0
    while at.tb_next is not None:
        at = at.tb_next
    return type(error).__qualname__, at.tb_frame.f_code.co_filename, at.tb_lineno


def shortened(machine: Machine, found: Found) -> Found:
    """The same failure with the steps that it needs."""
    place = place_of(found.error)
    failing: list[tuple[list[Any], BaseException]] = []

    def fails(steps: list[Any]) -> bool:
        sequence = machine.begin(found.seed, steps)
        error = _error_of(sequence, steps)
        if error is None or place_of(error) != place:
            return False
        failing[:] = [(sequence.steps, error)]
        return True

    shortest(list(found.steps), fails)
    if not failing:
        return replace(found, is_reproducible=False)
    ((steps, error),) = failing
    return replace(found, rules=machine.rules_of(steps), steps=steps, error=error)


def _error_of(sequence: OpenSequence, steps: Sequence[Any]) -> BaseException | None:
    """What these steps raise."""
    try:
        sequence.start()
        for step in steps:
            if not sequence.again(step):
                break
        sequence.close()
    except KeyboardInterrupt:
        raise
    except GaveUp:
        return None
    except BaseException as error:
        close_after_failure(sequence)
        return error
    return None


def close_after_failure(sequence: OpenSequence) -> None:
    """Tear down; what goes wrong now is a consequence of the failure."""
    try:
        sequence.close()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: S110
        pass


def shortest(items: list[Item], fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Leave out pieces, large ones first, as long as the rest fails.

    In the end no piece of up to ``SMALL`` neighbours is too much, unless that took too many tries.
    Nothing is left out if ``items`` do not fail themselves.
    """
    tries, before = 0, None
    if not fails(items):
        return items
    while items != before and tries < MOST_TRIES:
        before = items
        halves = [len(items) >> k for k in range(1, 30) if len(items) >> k > SMALL]
        for size in (*halves, *range(min(SMALL, len(items)), 0, -1)):
            first = 0
            while first + size <= len(items) and tries < MOST_TRIES:
                without = items[:first] + items[first + size :]
                tries += 1
                if fails(without):
                    items = without
                else:
                    first += 1
    return items
