"""What commands say: sentences on standard error, JSON on standard output, exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, NoReturn

import click

from covgame.errors import CovgameError
from covgame.plain import plain_page
from covgame.plain import sentence as one_line

INTERRUPTED = 130


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
        complain(f"the output cannot be written: {error}", 2)
    complain(
        f"an internal error, {type(error).__name__}: {error}; "
        "run again with --debug and report what it shows",
        1,
    )


def complain(sentence: str, code: int) -> NoReturn:
    """One line on standard error, if anybody listens there, and the exit code."""
    with contextlib.suppress(OSError):
        click.echo(f"covgame: {one_line(sentence)}", err=True)
    sys.exit(code)


def say(sentence: str) -> None:
    """A message on standard error, if anybody listens there."""
    with contextlib.suppress(OSError):
        click.echo(f"covgame: {one_line(sentence)}", err=True)


def say_unless(quiet: bool, sentence: str | None) -> None:
    """The same, if there is something to say and somebody wants to hear it."""
    if sentence and not quiet:
        say(sentence)


def show(page: str) -> None:
    """What a command found, for people, on standard output."""
    click.echo(plain_page(page))


def print_json(answer: dict[str, Any]) -> None:
    """The one JSON object of ``--json``."""
    click.echo(json.dumps(answer, allow_nan=False))
