"""``covgame``: the commands, one file each, imported when they are asked for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import NoReturn

import click

import covgame
from covgame.cli.messages import INTERRUPTED, complain, leave_interrupted
from covgame.cli.supervising import begin, goodbye, supervise
from covgame.interruption import exit_at_once, heeded

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


COMPLETION = "_COVGAME_COMPLETE"
"""Set by a shell that asks how a line may go on."""


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


def _stop(_signal: int, _frame: object) -> None:
    """Being asked to end is the same as Ctrl-C."""
    raise KeyboardInterrupt


def run() -> None:
    """The entry point: the work is done by a process below this one, where there can be one."""
    if COMPLETION not in os.environ:
        supervise()
    for name in heeded():
        signal.signal(name, _stop)
    sys.unraisablehook = _unless_interrupted
    try:
        _attended()
    except KeyboardInterrupt:  # once more, while the first was being answered
        _heed_no_more()
        goodbye(INTERRUPTED)
        exit_at_once(INTERRUPTED)
        sys.exit(INTERRUPTED)


def _attended() -> None:
    """Do the work, and have it known how it ended."""
    try:
        _run()
    except SystemExit as end:
        _heed_no_more()
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        goodbye(code)
        exit_at_once(code)
        raise
    except KeyboardInterrupt:
        raise
    except BaseException:  # asked for by --debug
        goodbye(1)
        raise


def _unless_interrupted(what: sys.UnraisableHookArgs) -> None:
    """Where Python cannot raise anything, Ctrl-C is no news; the process above ends the work."""
    if not isinstance(what.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(what)


def _heed_no_more() -> None:
    """All is saved and said; who asks again to stop gets no other answer."""
    for name in heeded():
        signal.signal(name, signal.SIG_IGN)


def _run() -> NoReturn:
    """Click's own complaints become one sentence, too."""
    try:
        begin()
        sys.exit(main(standalone_mode=False))
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "covgame"
        complain(f"{error.format_message().rstrip('.')}; {command} --help says more", 2)
    except click.ClickException as error:
        complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        leave_interrupted()
