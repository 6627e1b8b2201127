"""``covgame``: the commands, one file each, imported when they are asked for."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module

import click

from covgame.cli.messages import INTERRUPTED, complain

NAMES = (
    "plan",
    "cover",
    "explore",
    "identify",
    "policy",
    "certify",
    "resume",
    "bench",
    "envs",
)


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


@click.group(commands=Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="covgame", prog_name="covgame")
def main() -> None:
    """Cover an episodic environment in close to the fewest episodes possible.

    \b
    Examples:
      covgame plan riverswim:states=8 --target uniform:50
      covgame cover riverswim:states=8 --target uniform:50
    """


def _stop(_signal: int, _frame: object) -> None:
    """Being asked to end is the same as Ctrl-C."""
    raise KeyboardInterrupt


def run() -> None:
    """The entry point: click's own complaints become one sentence, too."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        sys.exit(main(standalone_mode=False))
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "covgame"
        complain(f"{error.format_message().rstrip('.')}; {command} --help says more", 2)
    except click.ClickException as error:
        complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted", INTERRUPTED)
