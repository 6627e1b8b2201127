"""Options that several commands take, and one-sentence errors for all of them."""

from __future__ import annotations

import functools
import tomllib
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
from covgame.config import (
    CoverConfig,
    LearnConfig,
    Option,
    RunConfig,
    choices_of,
    metavar_of,
    option_name,
    options_of,
    types_of,
)
from covgame.errors import BadInput, options_in_messages
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
                options_in_messages(),
                warnings_as_messages(quiet=bool(kwargs.get("quiet"))),
                kept_for_answers(),
                OneProcess() as context.meta[PROCESS],
            ):
                return _unless_interrupted(command, *args, **kwargs)
        except Exception as error:
            if debug or isinstance(error, click.ClickException | click.exceptions.Exit):
                raise
            with options_in_messages():
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
    """ENV, ``--target`` and ``--horizon``: what every game is about."""
    for option in (
        click.option("--horizon", type=int, help="Most steps of an episode, if ENV does not say."),
        click.option("--target", required=required, help=f"What to cover: {TARGETS}."),
        click.argument("env", shell_complete=complete_env),
    ):
        command = option(command)
    return command


def reading_options(command: Command) -> Command:
    """``--states`` and ``--actions``: how observations and actions are read."""
    for option in (
        click.option("--actions", help="For actions that are real numbers: grid:N tries N values."),
        click.option(
            "--states",
            help="What counts as a state: bins:12x8, bins:12[-1.2,0.6]x8[-1,1], round:2, "
            "keys:NAME,..., image:hash, py:MODULE:FUNCTION.",
        ),
    ):
        command = option(command)
    return command


def config_options(
    model: type[RunConfig], *, command: str | None = None, resumed: bool = False
) -> Callable[[Command], Command]:
    """The options that a configuration declares.

    Args:
        model: The configuration.
        command: Leave out options that this command does not have.
        resumed: Only options that may be changed when a run is resumed, without defaults.
    """

    def add(decorated: Command) -> Command:
        for name, field in reversed(options_of(model, command=command, resumable=resumed).items()):
            decorated = config_option(name, field, resumed=resumed)(decorated)
        return decorated

    return add


def config_option(
    name: str, field: Option, *, resumed: bool = False
) -> Callable[[Command], Command]:
    """One option, from its name, type, default and description."""
    default = None if resumed else field.default
    further: dict[str, Any] = {"help": field.description, "metavar": metavar_of(field)}
    kinds = types_of(field)
    if bool in kinds:
        return click.option(option_name(name), is_flag=True, default=default, **further)
    if choices := choices_of(field):
        further["type"] = click.Choice(choices)
    elif metavar_of(field) == "LO,HI":
        further["type"] = IntervalType()
    else:
        further["type"] = next((one for one in (int, float) if one in kinds), str)
    if field.is_required():
        return click.option(option_name(name), required=True, **further)
    shown = default if isinstance(default, bool | None) else True
    return click.option(option_name(name), default=default, show_default=shown, **further)


class IntervalType(click.ParamType[tuple[float, float]]):
    """``LO,HI`` as two numbers."""

    name = "interval"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, float]:
        parts = value.split(",") if isinstance(value, str) else value
        try:
            low, high = map(float, parts)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a range; write LO,HI, two numbers", param, ctx)
        return low, high


def config_file_option(command: Command) -> Command:
    """``--config``: values of options from a TOML file or from a stored run."""
    option = click.option(
        "--config",
        type=click.Path(exists=True, path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_read_config,
        help='Take options from a TOML file (horizon = 12, target = "uniform:5"), or from a run; '
        "options on the command line win.",
    )
    return option(command)


def _read_config(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    """Use the content of the file as defaults."""
    if path is None:
        return
    command = str(context.info_name)
    try:
        if path.is_dir() or path.name == "run.db":
            found = _stored_options(path if path.is_dir() else path.parent, command)
        else:
            found = _toml_options(path)
    except BadInput as error:
        raise click.UsageError(str(error)) from error
    names = {option.name for option in context.command.params} - {"data"}
    for name in found:
        if name not in names | {"from"}:
            raise click.UsageError(f"{path}: covgame {command} has no option {name!r}")
    if "from" in found:
        found["data"] = found.pop("from")
    context.default_map = found


def _stored_options(path: Path, command: str) -> dict[str, Any]:
    """The options that a run was made with."""
    from covgame.storage.folder import RunFolder

    stored = RunFolder.open(path).config
    if stored.get("command") != command:
        raise BadInput(f"{path} is a run of covgame {stored.get('command')}, not of {command}")
    if not stored.get("by_name", True):
        raise BadInput(
            f"{path} was played on {stored.get('environment')}, an object of a program; "
            "play it again from there"
        )
    model = CoverConfig if command == "cover" else LearnConfig
    names = {"horizon", "states", "actions", *options_of(model, command=command)}
    found = {name: value for name, value in stored.items() if name in names and value is not None}
    found["env"] = stored["environment"]
    if "request" in stored:
        found["target"] = stored["request"]
    if stored.get("given"):
        found["from"] = [one["data"] for one in stored["given"]]
    return found


def _toml_options(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read as TOML: {error}") from error
    return {name.replace("-", "_"): value for name, value in content.items()}


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
            "certificates need episodes in starting order, and those of several workers count as "
            "they end; leave --workers out, or use covgame cover"
        )


ONE_WORKER = click.option(
    "--workers",
    type=int,
    default=1,
    show_default=True,
    expose_value=False,
    callback=_one_worker,
    help="Must be 1: certificates need episodes in starting order.",
)


def learning_options(command: Command) -> Command:
    """What ``explore`` and ``identify`` share beside their configuration."""
    for option in (
        ONE_WORKER,
        out_option,
        click.option("--force", is_flag=True, help="Start even if it is unlikely ever to finish."),
        click.option("--horizon", type=int, help="Most steps of an episode, if ENV does not say."),
        click.argument("env", shell_complete=complete_env),
    ):
        command = option(command)
    return command


def out_option(command: Command) -> Command:
    """``--out``."""
    option = click.option(
        "--out", type=OUT, help="The folder of the run; a fresh one in runs/ by default."
    )
    return option(command)


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
