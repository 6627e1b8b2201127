"""The configuration of a run: what to play and how, declared once.

The options of the commands, the keyword arguments of ``cover``, ``explore`` and ``identify``, the
configuration that is stored with a run and the command on its page are generated from these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from covgame.errors import BadInput
from covgame.failures import OnFailure

Option = FieldInfo
"""An option: type, default, limits and description."""

LARGEST_SEED = 2**63 - 1
MAX_WORKERS = 10_000
MAX_SECONDS = 1_000_000


def _whole(value: Any) -> Any:
    """Take NumPy's integers for integers, and no truth value or text."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError("should be a whole number")
    return int(value)


def _real(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("should be a number")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Real = Annotated[float, BeforeValidator(_real), Field(allow_inf_nan=False)]
Positive = Annotated[Real, Field(ge=1e-30, le=1e30)]
Interval = Annotated[tuple[Real, Real], Field(strict=False)]  # a list in JSON

RESUMABLE: dict[str, Any] = {"resumable": True}
"""Marks what may be changed when a run is resumed."""


class RunConfig(BaseModel):
    """What all runs are configured with."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    COMMANDS: ClassVar[tuple[str, ...]]

    seed: Whole = Field(
        default=0, ge=0, le=LARGEST_SEED, description="Same seed, same run, if there is one worker."
    )
    delta: Real = Field(
        default=0.1,
        ge=1e-100,
        lt=1,
        description="Probability with which bounds and guarantees may fail.",
    )
    max_episodes: Whole | None = Field(
        default=None,
        ge=0,
        description="Stop after this many episodes (exit code 3), counted from the first one.",
        json_schema_extra=RESUMABLE,
    )
    stage_dependent: bool = Field(
        default=False,
        description="Learn every stage separately, even if ENV behaves alike at all of them.",
    )
    keep_observations: bool = Field(
        default=False, description="Record the raw observations as well."
    )
    on_failure: OnFailure = Field(
        default="stop",
        description="When ENV fails: stop tries the episode again, three times in all, then stops; "
        "record counts the failure as the end of the episode and goes on; avoid also avoids that "
        "action in that state.",
        json_schema_extra=RESUMABLE,
    )
    step_timeout: Real | None = Field(
        default=None,
        ge=1e-3,
        le=MAX_SECONDS,
        description="Seconds that a step may take. ENV then runs in a worker process, which is "
        "replaced when it hangs or dies.",
        json_schema_extra={"metavar": "SECONDS", **RESUMABLE},
    )
    isolate: bool = Field(
        default=False,
        description="Run ENV in a worker process, which is replaced when it dies; implied by "
        "--step-timeout.",
        json_schema_extra=RESUMABLE,
    )

    def __init__(self, **options: Any) -> None:
        known = type(self).model_fields
        if unknown := [name for name in options if name not in known]:
            names = ", ".join(sorted(options_of(type(self))))
            raise TypeError(f"unexpected keyword argument {unknown[0]!r}; the options are {names}")
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise BadInput(_sentence(error)) from None

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """A copy with other values, validated; only what may be changed on resuming is accepted."""
        for name in changes:
            if name not in options_of(type(self), resumable=True):
                raise BadInput(f"{option_name(name)} cannot be changed when a run is resumed")
        return type(self)(**{**dict(self), **changes})


class CoverConfig(RunConfig):
    """How to cover a target.

    ``cover`` accepts all of these as keyword arguments, and ``covgame cover`` as options.
    """

    COMMANDS = ("cover",)

    preset: Literal["default", "paper"] = Field(
        default="default", description="As we recommend, or Algorithm 1 of the paper to the letter."
    )
    play: Literal["exact", "lazy", "counts"] = Field(
        default="exact",
        description="Plan before every episode; plan in batches; or draw visit counts instead of "
        "episodes (simulated environments only; no episode is recorded).",
    )
    min_reach: Real = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Skip what no policy reaches with at least this probability.",
    )
    planner: Any = Field(
        default=None,
        description="py:MODULE:NAME, a planner (or peer) of your own instead of ours; in Python "
        "also an object.",
    )
    adversary: Any = Field(
        default=None,
        description="py:MODULE:NAME, an adversary of your own instead of ours; likewise.",
    )
    exact_bound: bool = Field(
        default=False,
        description="Compute phi*, the fewest episodes possible on average, also where that takes "
        "longer than a second or two.",
    )
    workers: Whole = Field(
        default=1,
        ge=1,
        le=MAX_WORKERS,
        description="So many copies of ENV play at once; with several, episodes count as they end "
        "and the same seed need not give the same run.",
        json_schema_extra=RESUMABLE,
    )
    engine: Literal["local", "ray"] = Field(
        default="local",
        description="Workers are processes on this machine, or Ray's actors (an extra).",
        json_schema_extra=RESUMABLE,
    )
    address: str | None = Field(
        default=None,
        description="Where a Ray cluster is; without it Ray is started on this machine.",
        json_schema_extra={"metavar": "auto|HOST:PORT", **RESUMABLE},
    )

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.address is not None and self.engine != "ray":
            raise BadInput("--address is where a Ray cluster is; add --engine ray")
        if self.plays_in_team and self.play != "exact":
            raise BadInput(
                f"--play {self.play} cannot be combined with --workers; workers plan by themselves"
            )
        if self.on_failure == "avoid" and self.play == "lazy":
            raise BadInput("--on-failure avoid plans again after every failure; use --play exact")
        return self

    @property
    def plays_in_team(self) -> bool:
        """Whether workers play the episodes."""
        return self.workers > 1 or self.engine == "ray"

    @property
    def has_custom_players(self) -> bool:
        """Whether the planner or the adversary is the user's own."""
        return self.planner is not None or self.adversary is not None


IDENTIFY_ONLY: dict[str, Any] = {"command": "identify"}
"""Marks options that only ``identify`` has."""


class LearnConfig(RunConfig):
    """How to explore or to identify a policy.

    ``explore`` and ``identify`` accept all of these as keyword arguments, and the commands as
    options; ``suprema``, ``prune``, ``reward_range`` and ``return_range`` are for ``identify``.
    """

    COMMANDS = ("explore", "identify")

    command: Literal["explore", "identify"] = Field(json_schema_extra={"hidden": True})
    epsilon: Positive = Field(description="How far from the best it may be.")
    preset: Literal["certified", "paper"] = Field(
        default="certified", description="Which confidence sets and stopping rule."
    )
    play: Literal["exact", "counts"] | None = Field(
        default=None,
        description="Play episodes, or draw the visit counts of many at once (simulated "
        "environments only); by default counts for the paper's algorithms on simulated ones.",
    )
    scale: Positive = Field(
        default=1.0, description="Multiply the paper's thresholds; below 1 nothing is guaranteed."
    )
    most_successors: Whole | None = Field(
        default=None,
        ge=1,
        description="No state and action leads to more different states (the end counts as one).",
    )
    most_states: Whole | None = Field(
        default=None,
        ge=1,
        description="An upper bound on the number of states, including those in which episodes "
        "end; needed where states are discovered.",
    )
    suprema: Literal["exact", "relaxed"] | None = Field(
        default=None,
        description="exact: one linear program per cell; relaxed: a faster bound. The default "
        "depends on the size.",
        json_schema_extra=IDENTIFY_ONLY,
    )
    prune: bool = Field(
        default=False,
        description="The published form, with PruneDataset: it biases the estimates and can be "
        "wrong.",
        json_schema_extra=IDENTIFY_ONLY,
    )
    reward_range: Interval = Field(
        default=(0.0, 1.0),
        description="What the environment may pay in a step.",
        json_schema_extra={"metavar": "LO,HI", **IDENTIFY_ONLY},
    )
    return_range: Interval | None = Field(
        default=None,
        description="A known range of the sum of an episode's rewards; a narrow one helps.",
        json_schema_extra={"metavar": "LO,HI", **IDENTIFY_ONLY},
    )

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.command == "explore":
            for name in (
                options_of(LearnConfig).keys() - options_of(LearnConfig, command="explore").keys()
            ):
                if getattr(self, name) != LearnConfig.model_fields[name].default:
                    raise BadInput(f"{option_name(name)} is for identify, not for explore")
        for name, interval in (("reward", self.reward_range), ("return", self.return_range)):
            if interval is not None and not interval[0] < interval[1]:
                low, high = interval
                raise BadInput(f"--{name}-range is LO,HI with LO below HI, not {low:g},{high:g}")
        if self.on_failure == "avoid":
            raise BadInput(
                f"a guarantee is about all actions, so {self.command} cannot avoid any; use "
                "--on-failure record, which takes a failure for the end of an episode"
            )
        if self.preset == "certified" and (self.scale != 1 or self.prune or self.suprema):
            raise BadInput("--scale, --suprema and --prune belong to --preset paper")
        if self.preset == "paper" and self.most_states is not None:
            raise BadInput("--most-states belongs to --preset certified")
        if self.prune and self.play == "counts":
            raise BadInput(
                "--prune looks at episodes, and --play counts has none; use --play exact"
            )
        return self


def options_of(
    model: type[RunConfig], *, command: str | None = None, resumable: bool = False
) -> dict[str, Option]:
    """The options that a model declares, by name.

    Args:
        model: The configuration of a command.
        command: Leave out options that this command does not have.
        resumable: Only those that may be changed when a run is resumed.
    """
    found = {}
    for name, field in model.model_fields.items():
        about = _about(field)
        if about.get("hidden") or (resumable and not about.get("resumable")):
            continue
        if command is None or about.get("command", command) == command:
            found[name] = field
    return found


def metavar_of(field: Option) -> str | None:
    """What stands for the value in a help text, None for the usual."""
    found = _about(field).get("metavar")
    return None if found is None else str(found)


def types_of(field: Option) -> list[Any]:
    """The types that an option may have: the members of a union, without annotations."""
    found, left = [], [field.annotation]
    while left:
        kind = left.pop()
        origin = get_origin(kind)
        if origin is Annotated:
            left.append(get_args(kind)[0])
        elif origin in (Union, UnionType):
            left += get_args(kind)
        else:
            found.append(kind)
    return found


def choices_of(field: Option) -> tuple[str, ...]:
    """The words that an option may be; empty if it is no choice."""
    found = [get_args(kind) for kind in types_of(field) if get_origin(kind) is Literal]
    return found[0] if found else ()


def option_name(name: str) -> str:
    """The option for a keyword argument: ``--step-timeout`` for ``step_timeout``."""
    return f"--{name.replace('_', '-')}"


def _about(field: Option) -> Mapping[str, Any]:
    extra = field.json_schema_extra
    return extra if isinstance(extra, dict) else {}


def _sentence(error: ValidationError) -> str:
    """What is wrong with the first option that is wrong."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    if first["type"] == "missing":
        return f"{option_name(name)} is missing"
    message = first["msg"].removeprefix("Value error, ").replace("Input should", "should", 1)
    return f"{option_name(name)} {message}, not {first['input']!r}"


def _document(model: type[RunConfig]) -> None:
    """Append the list of options to the docstring of a model."""
    lines = [
        f"    {name}: {field.description}" for name, field in sorted(options_of(model).items())
    ]
    model.__doc__ = f"{model.__doc__}\n    Args:\n    " + "\n    ".join(lines) + "\n"


_document(CoverConfig)
_document(LearnConfig)
