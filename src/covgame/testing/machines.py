"""What a machine is here, whoever wrote it: rules that may be run, and a state that people name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Protocol

STATE_METHOD = "covgame_state"

StateMap = Callable[[Any], Any]
"""From a machine to what counts as its state."""

Place = tuple[str, str, int]
"""Where an error came up: its type, the file and the line. Errors at one place are one bug."""


class GaveUp(Exception):
    """The rest of a sequence is not wanted: ``assume`` was false, or a filter found nothing."""


class OpenSequence(Protocol):
    """A sequence of rules that is run one by one."""

    def start(self) -> None:
        """Set up; raises what that raises, or ``GaveUp``."""
        ...

    @property
    def evidence(self) -> Any:
        """What it takes to do the same again."""
        ...

    def allowed(self) -> list[bool]:
        """Which rules may be run now."""
        ...

    def run(self, rule: int) -> None:
        """Run one; raises what the system under test raises, or ``GaveUp``."""
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
    seed: int
    error: BaseException
    evidence: Any


class Machine(Protocol):
    """A class of machines."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def rules(self) -> Sequence[str]:
        """The names of its rules."""
        ...

    def begin(self, seed: int) -> OpenSequence:
        """A sequence on a fresh machine, not started yet."""
        ...

    def try_known(self, seed: int) -> None:
        """Run what has failed before and is remembered; raises if it still does."""
        ...

    def hand_back(self, found: Sequence[Found], seed: int) -> NoReturn:
        """Make failing sequences short, and raise their errors with what leads to them."""
        ...


def place_of(error: BaseException) -> Place:
    """The last line that was run."""
    at: TracebackType | None = error.__traceback__
    if at is None:
        return type(error).__qualname__, "", 0
    while at.tb_next is not None:
        at = at.tb_next
    return type(error).__qualname__, at.tb_frame.f_code.co_filename, at.tb_lineno
