"""What commands say: sentences on standard error, JSON on standard output, exit codes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn, TextIO

import click

from covgame.errors import CovgameError, CovgameWarning
from covgame.plain import plain_page
from covgame.plain import sentence as one_line

INTERRUPTED = 130
DEBUG = "covgame.debug"
"""Whether tracebacks are wanted."""

ANSWERS = "covgame.answers"
"""Where answers go while standard output is kept for them."""

ANSWERED = "covgame.answered"
"""Whether the command has given its answer."""


Answer = dict[str, Any]

PROCESS = "covgame.process"
"""The process of the command: children that foreign code has forked give no answers."""


def fail(error: Exception) -> NoReturn:
    """Say what went wrong in one sentence on standard error, and exit with its code."""
    if isinstance(error, BrokenPipeError):
        # The reader of our output has closed it; also keep the interpreter quiet when it flushes.
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
    """Print one line on standard error, if it is open, and exit."""
    with contextlib.suppress(OSError):
        click.echo(f"covgame: {one_line(sentence)}", err=True)
    sys.exit(code)


def leave_interrupted() -> NoReturn:
    """End a command that was interrupted before it had an answer."""
    say("interrupted")
    context = click.get_current_context(silent=True)
    if "--json" in sys.argv and (context is None or not context.meta.get(ANSWERED)):
        with contextlib.suppress(OSError):
            print_json(interrupted_answer(sys.argv[1]))
    sys.exit(INTERRUPTED)


OPEN: dict[str, dict[str, Any]] = {
    "cover": {
        "covered": False,
        **dict.fromkeys(("uncovered", "unreachable", "min_episodes", "min_episodes_is", "ratio")),
    },
    "explore": dict.fromkeys(("certified_error", "phases")),
    "identify": dict.fromkeys(("certified_gap", "value_lower", "value_upper", "policy", "phases")),
}
"""By command: what its answer says as long as there are no data."""


def interrupted_answer(command: str, episodes: int | None = 0, run: str | None = None) -> Answer:
    """The JSON answer of a command that was interrupted before its run was opened.

    Args:
        command: ``"cover"``, ``"explore"`` and so on.
        episodes: Of the run; None if it has not been read.
        run: The folder of the run, if there is one.
    """
    why = "stopped_by" if command in ("explore", "identify") else "stopped"
    if command not in OPEN:
        return {why: "interrupted"}
    rest: Answer = {"failure": None, "failures": [], "run": run}
    return {"episodes": episodes, **OPEN[command], why: "interrupted", **rest}


def answer_with(text: str) -> None:
    """What a command was asked for, on standard output."""
    context = click.get_current_context(silent=True)
    if context and PROCESS in context.meta:
        context.meta[PROCESS].check()
    click.echo(text, file=context.meta.get(ANSWERS) if context else None)
    if context:
        context.meta[ANSWERED] = True


@contextlib.contextmanager
def kept_for_answers() -> Iterator[None]:
    """While foreign code runs, standard output is kept for the answer.

    Whatever an environment prints, by ``print`` or on file descriptor 1, goes to standard error.
    It stays so until the process ends: what compiled code has printed comes out only then.
    """
    kept = _set_apart()
    if kept is None:
        yield
        return
    with os.fdopen(kept, "w", encoding="utf-8", errors="backslashreplace") as answers:
        click.get_current_context().meta[ANSWERS] = answers
        yield


def _set_apart() -> int | None:
    """Standard output under another number; None if there is none, or it is no file."""
    try:
        sys.stdout.flush()
        kept = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return kept


def say(sentence: str) -> None:
    """Print a message on standard error, if it is open."""
    with contextlib.suppress(OSError):
        click.echo(f"covgame: {one_line(sentence)}", err=True)


def say_lines(text: str) -> None:
    """Several lines on standard error, such as a traceback."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True, nl=False)


def say_unless(quiet: bool, sentence: str | None) -> None:
    """Print a message, if there is one and the command is not quiet."""
    if sentence and not quiet:
        say(sentence)


class LogMessages(logging.Handler):
    """Prints what the library logs, such as that it is compiling, as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        say(record.getMessage())


@contextlib.contextmanager
def warnings_as_messages(*, quiet: bool) -> Iterator[None]:
    """While a command works, print our own warnings and log records as messages."""
    logger, handler = logging.getLogger("covgame"), LogMessages()
    level = logger.level
    with warnings.catch_warnings(), contextlib.ExitStack() as log:
        if not quiet:
            logger.setLevel(logging.INFO)
            logger.addHandler(handler)
            log.callback(logger.setLevel, level)
            log.callback(logger.removeHandler, handler)
        as_python_does = warnings.showwarning

        def show_warning(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, CovgameWarning):
                say_unless(quiet, str(message))
            else:
                as_python_does(message, category, filename, lineno, file, line)

        warnings.showwarning = show_warning
        yield


def show(page: str) -> None:
    """What a command found, for people, on standard output."""
    answer_with(plain_page(page))


def print_json(answer: Answer) -> None:
    """The one JSON object of ``--json``."""
    answer_with(json.dumps(answer, allow_nan=False))
