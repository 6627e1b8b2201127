"""What all commands share: options, one-sentence errors with their exit codes, JSON."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from covgame.errors import CovgameError

Command = TypeVar("Command", bound=Callable[..., Any])

INTERRUPTED = 130


def common_options(command: Command) -> Command:
    """``--json``, ``--quiet`` and ``--debug``, and errors as the contract wants them."""

    @functools.wraps(command)
    def guarded(*args: Any, debug: bool, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except Exception as error:
            if debug or isinstance(error, click.ClickException | click.exceptions.Exit):
                raise
            fail(error)

    for option in (
        click.option("--debug", is_flag=True, help="Show the traceback of an error."),
        click.option("--quiet", is_flag=True, help="No messages on standard error."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output."),
    ):
        guarded = option(guarded)
    return guarded  # type: ignore[return-value]


def as_range(text: str) -> tuple[float, float]:
    """``LO,HI`` as two numbers."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise click.UsageError(f"a range is LO,HI, two numbers, not {text!r}") from None
    return low, high


def fail(error: Exception) -> NoReturn:
    """Say what went wrong in one sentence on standard error, and exit with its code."""
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has gone; leave quietly, also when the interpreter flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    if isinstance(error, CovgameError):
        complain(str(error), error.exit_code)
    if isinstance(error, MemoryError):
        complain("this does not fit into memory; ask for something smaller", 2)
    if isinstance(error, OSError):
        complain(f"the output cannot be written: {error}", 1)
    complain(
        f"an internal error, {type(error).__name__}: {error}; "
        "run again with --debug and report what it shows",
        1,
    )


def complain(sentence: str, code: int) -> NoReturn:
    """One line on standard error, if anybody listens there, and the exit code."""
    with contextlib.suppress(OSError):
        click.echo(f"covgame: {' '.join(sentence.split())}", err=True)
    sys.exit(code)


def say(sentence: str) -> None:
    """A message on standard error, if anybody listens there."""
    with contextlib.suppress(OSError):
        click.echo(f"covgame: {sentence}", err=True)


def say_unless(quiet: bool, sentence: str | None) -> None:
    """The same, if there is something to say and somebody wants to hear it."""
    if sentence and not quiet:
        say(sentence)


def print_json(answer: dict[str, Any]) -> None:
    """The one JSON object of ``--json``."""
    click.echo(json.dumps(answer, allow_nan=False))
