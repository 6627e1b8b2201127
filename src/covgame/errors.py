"""What can go wrong, by name. Each error is one sentence for a person, with an exit code."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from covgame.plain import sentence

Row = tuple[int | None, Any, int | None]
"""A cell or group of cells as people write it: (stage, state, action), None for any.

The state is a number; a text in its place names a group, or a state that has not appeared yet.
"""


_shows_options: ContextVar[bool] = ContextVar("shows_options", default=False)


@contextlib.contextmanager
def options_in_messages() -> Iterator[None]:
    """Show the options of the command line in messages, instead of keyword arguments."""
    token = _shows_options.set(True)
    try:
        yield
    finally:
        _shows_options.reset(token)


class CovgameError(Exception):
    """Anything that covgame refuses or fails to do; the message is one sentence.

    Messages are written with the options of the command line. In Python they show the keyword
    arguments instead.
    """

    exit_code = 1

    def __str__(self) -> str:
        text = super().__str__()
        return sentence(text if _shows_options.get() else as_arguments(text))


COMMAND_OR_OPTION = re.compile(
    r"\b(?:covgame|pip install) (?:[^;,()]*[^;,() ])?"  # a command to type, left as it is
    r"|(?<![\w-])--([a-z]+(?:-[a-z]+)*)"
    r"(?: ((?:default|paper|certified|exact|lazy|counts|stop|record|avoid|local|ray)\b"
    r"|(?:bins|grid|round|keys|uniform|proportional):[\w./:]*\w)"
    r"| ([0-9][0-9,.]*(?<![,.])|[A-Z]+(?:,[A-Z]+)?)\b)?"
)
ARGUMENT_NAMES = {"from": "start_from"}


def as_arguments(text: str) -> str:
    """A message with keyword arguments in the place of options: ``play="exact"``."""

    def argument(found: re.Match[str]) -> str:
        option, word, value = found.groups()
        if option is None:
            return found[0]
        name = ARGUMENT_NAMES.get(option, option.replace("-", "_"))
        return f'{name}="{word}"' if word else f"{name}={value}" if value else name

    return COMMAND_OR_OPTION.sub(argument, text)


class CovgameWarning(UserWarning):
    """Something to know about work that goes on; the message is one sentence."""


class BadInput(CovgameError):
    """What was asked for makes no sense; the message says what to change."""

    exit_code = 2


class TooLarge(BadInput):
    """What was asked for does not fit into this machine's memory."""


class UnknownModel(BadInput):
    """The command needs the environment's transition table, and there is none."""


class MissingExtra(BadInput):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f'{purpose} needs an extra: pip install "covgame[{extra}]"')


class UnreachableTarget(BadInput):
    """Required cells that no policy reaches, so no number of episodes covers them."""

    SHOWN = 5

    def __init__(self, cells: Sequence[Row]) -> None:
        self.cells = list(cells)
        shown = ", ".join(describe_row(row) for row in self.cells[: self.SHOWN])
        more = len(self.cells) - self.SHOWN
        tail = f" and {more} more" if more > 0 else ""
        super().__init__(
            f"the target asks for cells that no policy reaches: {shown}{tail}; "
            "leave them out, or drop them with --min-reach"
        )


class EnvironmentFailed(CovgameError):
    """An environment raised an error or showed something impossible; what was played is saved."""

    exit_code = 4


class EpisodeFailed(EnvironmentFailed):
    """An environment failed in one episode, which was set aside and is to be played again."""


class PremiseBroken(EnvironmentFailed):
    """An environment did what somebody relied on it not to do; to try again would not help."""


class StorageFailed(CovgameError):
    """A disk that is full, broken or may not be written to; what was written before is intact."""

    exit_code = 2

    NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
    NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)

    @classmethod
    def at(cls, path: Path, error: OSError) -> StorageFailed:
        """What the system said about a file, with what to do."""
        advice = "check the disk"
        if error.errno in cls.NO_ROOM:
            advice = "make room on the disk"
        elif error.errno in cls.NOT_ALLOWED:
            advice = "make its folder writable"
        return cls(f"{path} cannot be written ({error.strerror or error}): {advice}")


class SolverFailed(CovgameError):
    """The linear-programming solver gave no usable answer: the numbers are out of its range."""

    exit_code = 2


class OutOfTime(CovgameError):
    """Work that was given so many seconds has not ended in them."""


class Infeasible(SolverFailed):
    """A linear program without a solution."""


def describe_row(row: Row) -> str:
    """``(stage 2, state 7, any action)``."""
    stage, state, action = row
    if isinstance(state, str) and stage is None and action is None:
        return f"({state})"
    stage_words = "any stage" if stage is None else f"stage {stage}"
    action_words = "any action" if action is None else f"action {action}"
    return f"({stage_words}, state {state}, {action_words})"
