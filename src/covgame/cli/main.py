"""``covgame``: the commands, one file each, imported when they are asked for."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import NoReturn

import click

import covgame
from covgame.cli.messages import INTERRUPTED, complain, leave_interrupted
from covgame.signals import exit_at_once, handled_signals, signal_main_thread

NAMES = (
    "plan",
    "cover",
    "explore",
    "identify",
    "policy",
    "audit",
    "certify",
    "resume",
    "report",
    "export",
    "envs",
)


SECONDS_TO_EXIT = 5.0
SECONDS_TO_RETRY = 0.1


class Commands(Mapping[str, click.Command]):
    """Every command by its name: ``covgame.cli.NAME.NAME``, imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in NAMES:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"covgame.cli.{name}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


WELCOME = """\
covgame covers an episodic environment in close to the fewest episodes possible.

Three commands to try:
  covgame plan grid --target uniform:10/pair    # what it takes to see everything ten times
  covgame cover grid --target uniform:10/pair   # play until everything was seen ten times
  covgame identify riverswim:states=4,horizon=5 --epsilon 1   # find a policy close to the best

Your own environment: covgame cover py:MODULE:FACTORY, or gym:NAME for one of Gymnasium's.
covgame envs lists what there is; covgame --help lists all commands."""


@click.group(
    commands=Commands(),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(covgame.__version__, prog_name="covgame")
@click.pass_context
def main(context: click.Context) -> None:
    """Cover an episodic environment in close to the fewest episodes possible.

    \b
    Examples:
      covgame plan riverswim:states=8 --target uniform:50
      covgame cover riverswim:states=8 --target uniform:50
    """
    if context.invoked_subcommand is None:
        click.echo(WELCOME)


_ended = threading.Event()
"""Set when the command has ended and only Python's exit is left."""


def run() -> None:
    """The entry point of ``covgame``."""
    try:
        code = run_command()
    except Exception:  # asked for by --debug
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    exit_at_once(code)
    # Threads and exit handlers of environments may take some time, but not for ever.
    timer = threading.Timer(SECONDS_TO_EXIT, os._exit, (code,))
    timer.daemon = True
    timer.start()
    sys.exit(code)


def run_command() -> int:
    """Run the command of ``sys.argv``; its exit code."""
    _ended.clear()
    for name in handled_signals():
        signal.signal(name, _interrupt)
    sys.unraisablehook = _interrupt_again
    try:
        _run()
    except KeyboardInterrupt:  # a second signal, while the first one was being answered
        code = INTERRUPTED
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    _ended.set()
    for name in handled_signals():  # the answer is printed; nothing is left to interrupt
        signal.signal(name, signal.SIG_IGN)
    return code


def _interrupt(_signal: int, _frame: object) -> None:
    """SIGTERM and SIGHUP are the same as Ctrl-C."""
    raise KeyboardInterrupt


def _interrupt_again(what: sys.UnraisableHookArgs) -> None:
    """Raise ``KeyboardInterrupt`` once more if it came where Python cannot raise anything."""
    if isinstance(what.exc_value, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_unless_ended, ())
    else:
        sys.__unraisablehook__(what)


def _interrupt_unless_ended() -> None:
    """Interrupt the command after a moment, but not Python's exit, which signals would end."""
    if not _ended.wait(SECONDS_TO_RETRY):
        signal_main_thread(signal.SIGINT)


def _run() -> NoReturn:
    """Turn click's own complaints into one sentence, too."""
    try:
        sys.exit(main(standalone_mode=False))
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "covgame"
        complain(f"{error.format_message().rstrip('.')}; {command} --help says more", 2)
    except click.ClickException as error:
        complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        leave_interrupted()
