"""Options that several commands take, and one-sentence errors for all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from covgame.cli.messages import (
    DEBUG,
    PROCESS,
    fail,
    kept_for_answers,
    leave_interrupted,
    warnings_as_messages,
)
from covgame.errors import BadInput
from covgame.mdp.families import FAMILIES
from covgame.signals import OneProcess

Command = TypeVar("Command", bound=Callable[..., Any])


class RunPath(click.Path):
    """The folder of a new run; an empty name would be the current folder."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value == "":
            self.fail(
                "it names the folder for the run: give a name, or leave the option out", param, ctx
            )
        return super().convert(value, param, ctx)


OUT = RunPath(file_okay=False, path_type=Path)

TARGETS = (
    "uniform:50, uniform:50/pair, uniform:50/state, uniform:20/transition, proportional:500, "
    "or a file"
)


def _unless_interrupted(command: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Ctrl-C is answered while standard output is still kept for the answer."""
    try:
        return command(*args, **kwargs)
    except KeyboardInterrupt:
        leave_interrupted()


def common_options(command: Command) -> Command:
    """``--json``, ``--quiet`` and ``--debug``, and errors as the contract wants them."""

    @functools.wraps(command)
    def guarded(*args: Any, debug: bool, **kwargs: Any) -> Any:
        context = click.get_current_context()
        context.meta[DEBUG] = debug
        try:
            if context.invoked_subcommand is not None:  # which gives the answer
                return command(*args, **kwargs)
            with (
                warnings_as_messages(quiet=bool(kwargs.get("quiet"))),
                kept_for_answers(),
                OneProcess() as context.meta[PROCESS],
            ):
                return _unless_interrupted(command, *args, **kwargs)
        except Exception as error:
            if debug or isinstance(error, click.ClickException | click.exceptions.Exit):
                raise
            fail(error)

    for option in (
        click.option("--debug", is_flag=True, help="Show the traceback of an error."),
        click.option("--quiet", is_flag=True, help="Print nothing but errors on standard error."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ):
        guarded = option(guarded)
    return guarded  # type: ignore[return-value]


def report_option(command: Command) -> Command:
    """``--report``."""
    option = click.option(
        "--report",
        is_flag=True,
        help="Write report.html into the run's folder, now and every few seconds; the page "
        "reloads itself until the run has ended.",
    )
    return option(command)


def complete_env(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ENV in a shell: the families that match, files if none does."""
    families = [
        CompletionItem(name, help=family.summary)
        for name, family in sorted(FAMILIES.items())
        if name.startswith(incomplete)
    ]
    return families or [CompletionItem(incomplete, type="file")]


def world_and_target(command: Command, *, required: bool = True) -> Command:
    """ENV, ``--target``, ``--horizon`` and ``--min-reach``: what every game is about."""
    for option in (
        click.option(
            "--min-reach",
            type=float,
            default=0.0,
            show_default=True,
            help="Leave out what no policy reaches with at least this probability.",
        ),
        click.option("--horizon", type=int, help="Most steps of an episode, if ENV does not say."),
        click.option("--target", required=required, help=f"What to cover: {TARGETS}."),
        click.argument("env", shell_complete=complete_env),
    ):
        command = option(command)
    return command


def reading_options(command: Command) -> Command:
    """``--states`` and ``--actions``: how an environment is read, and what is kept of that."""
    for option in (
        click.option(
            "--keep-observations",
            is_flag=True,
            help="Record the raw observations as well.",
        ),
        click.option("--actions", help="For actions that are real numbers: grid:N tries N values."),
        click.option(
            "--states",
            help="What counts as a state: bins:12x8, bins:12[-1.2,0.6]x8[-1,1], round:2, "
            "keys:NAME,..., image:hash, py:MODULE:FUNCTION.",
        ),
    ):
        command = option(command)
    return command


def failure_options(command: Command, *, resumed: bool = False) -> Command:
    """``--on-failure``, ``--step-timeout`` and ``--isolate``, for environments that fail."""
    for option in (
        click.option(
            "--isolate",
            is_flag=True,
            default=None if resumed else False,
            help="Run ENV in a worker process, which is replaced when it dies; implied by "
            "--step-timeout.",
        ),
        click.option(
            "--step-timeout",
            type=float,
            metavar="SECONDS",
            help="Time limit of a step. ENV then runs in a worker process, which is replaced "
            "when it hangs or dies.",
        ),
        click.option(
            "--on-failure",
            type=click.Choice(["stop", "record", "avoid"]),
            default=None if resumed else "stop",
            show_default=not resumed,
            help="When ENV fails: try the episode again, three times in all, then stop; or count "
            "the failure as the end of the episode and go on; or also avoid that action there.",
        ),
    ):
        command = option(command)
    return command


def worker_options(command: Command, *, resumed: bool = False) -> Command:
    """``--workers``, ``--engine`` and ``--address``: who plays, and where."""
    for option in (
        click.option(
            "--address",
            metavar="auto|HOST:PORT",
            help="Where a Ray cluster is; without it Ray is started on this machine.",
        ),
        click.option(
            "--engine",
            type=click.Choice(["local", "ray"]),
            default=None if resumed else "local",
            show_default=not resumed,
            help="Workers are processes on this machine, or Ray's actors (an extra).",
        ),
        click.option(
            "--workers",
            type=int,
            default=None if resumed else 1,
            show_default=not resumed,
            help="So many copies of ENV play at once; with several, episodes count as they end and "
            "the same seed need not give the same run.",
        ),
    ):
        command = option(command)
    return command


COLUMNS = (
    "what their columns are called, as OURS=THEIRS: state=s,action=a,done=over; state=x+y makes a "
    "state of two columns."
)


def data_options(command: Command) -> Command:
    """``--from``: data that a run starts from."""
    command = click.option("--columns", help=f"Of tables of --from: {COLUMNS}")(command)
    option = click.option(
        "--from",
        "data",
        multiple=True,
        metavar="DATA",
        help="Start from data already collected (a run, Parquet or CSV files, minari:ID) "
        "and play only what is missing. May be given several times.",
    )
    return option(command)


def _one_worker(_context: click.Context, _option: click.Parameter, workers: int) -> None:
    """Refuse what would spoil a proof, with the reason."""
    if workers != 1:
        raise click.UsageError(
            "a proof is about episodes in the order in which they begin, and those of several "
            "workers count as they end; leave --workers out, or use covgame cover"
        )


ONE_WORKER = click.option(
    "--workers",
    type=int,
    default=1,
    show_default=True,
    expose_value=False,
    callback=_one_worker,
    help="Only one: a proof is about episodes in the order in which they begin.",
)


def learning_options(command: Command) -> Command:
    """What ``explore`` and ``identify`` share."""
    for option in (
        ONE_WORKER,
        click.option(
            "--out",
            type=OUT,
            help="The folder of the run; a fresh one in runs/ if left out.",
        ),
        click.option(
            "--most-states",
            type=int,
            help="An upper bound on the number of states, including those in which episodes end; "
            "needed where states are discovered on the way.",
        ),
        click.option(
            "--most-successors",
            type=int,
            help="No state and action leads to more different states (the end counts as one).",
        ),
        click.option(
            "--stage-dependent",
            is_flag=True,
            help="Learn every stage separately, even if ENV behaves alike at all of them.",
        ),
        click.option("--force", is_flag=True, help="Start even if it is unlikely ever to finish."),
        click.option(
            "--scale",
            type=float,
            default=1.0,
            show_default=True,
            help="Multiply the paper's thresholds; below 1 nothing is guaranteed.",
        ),
        click.option(
            "--max-episodes", type=int, help="Stop after this many episodes (exit code 3)."
        ),
        click.option(
            "--play",
            "how",
            type=click.Choice(["exact", "counts"]),
            help="Play episodes, or draw the visit counts of many at once (simulated worlds only).",
        ),
        click.option(
            "--preset",
            type=click.Choice(["certified", "paper"]),
            default="certified",
            show_default=True,
            help="Which confidence sets and stopping rule.",
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same run."),
        click.option(
            "--delta",
            type=float,
            default=0.1,
            show_default=True,
            help="Probability with which the answer may be wrong.",
        ),
        click.option(
            "--epsilon", type=float, required=True, help="How far from the best it may be."
        ),
        click.option("--horizon", type=int, help="Most steps of an episode, if ENV does not say."),
        click.argument("env", shell_complete=complete_env),
    ):
        command = option(command)
    return command


def as_range(text: str) -> tuple[float, float]:
    """``LO,HI`` as two numbers."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise click.UsageError(f"a range is LO,HI, two numbers, not {text!r}") from None
    return low, high


def parse_columns(text: str | None) -> dict[str, str] | None:
    """``state=s,action=a`` as a dictionary."""
    if text is None:
        return None
    found: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        ours, equals, theirs = (word.strip() for word in part.partition("="))
        if not (equals and ours and theirs):
            raise BadInput(f"--columns {text}: write ours=theirs, such as state=s, not {part!r}")
        if ours in found:
            raise BadInput(f"--columns {text}: {ours} is given twice")
        found[ours] = theirs
    return found
