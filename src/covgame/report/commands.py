"""The command that makes a run again, from what its folder says was asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from covgame.runs.settings import CoverSettings, LearnSettings
from covgame.sources.maps import FUNCTION

if TYPE_CHECKING:
    from covgame.runs.run import Run

PLAIN = (
    *("states", "actions", "epsilon", "delta", "seed", "preset", "play", "max_episodes"),
    *("min_reach", "planner", "adversary", "scale", "suprema", "most_successors", "most_states"),
    *("on_failure", "step_timeout"),
)
RANGES = ("reward_range", "return_range")
SWITCHES = ("stage_dependent", "prune", "keep_observations", "isolate")
ALWAYS = ("epsilon", "seed")


def command_of(run: Run) -> str:
    """What to type to play the run once more; a call of Python where only a program can.

    What is as it is by default is left out, but for the seed.
    """
    asked: dict[str, Any] = {"horizon": run.environment.horizon}
    asked |= {**run.environment.reading.texts(), **run.config()}
    given = [one.name for one in run.given]
    name = str(asked.get("command", "cover"))
    by_name = run.environment.by_name
    if run.folder is not None:  # an environment that is not at hand is none that has a name
        by_name = bool(run.folder.config.get("by_name", True))
    if not by_name:
        return _as_python(name, asked, given)
    words = ["covgame", name, run.environment.name, "--horizon", str(run.environment.horizon)]
    if name == "cover":
        words += ["--target", run.request] if hasattr(run, "request") else []
    usual = _usual(name)
    for key in PLAIN:
        if key in asked and (asked[key] != usual.get(key) or key in ALWAYS):
            words += [_option(key), _text(asked[key])]
    for key in RANGES:
        if asked.get(key) != usual.get(key):
            words += [_option(key), ",".join(_text(end) for end in asked[key])]
    words += [_option(key) for key in SWITCHES if asked.get(key)]
    words += [word for one in given for word in ("--from", one)]
    return shlex.join(words)


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _usual(name: str) -> Mapping[str, Any]:
    """What is meant by a setting that nobody mentions."""
    if name == "cover":
        return vars(CoverSettings())
    return {**vars(LearnSettings("explore", 1.0)), "reward_range": (0.0, 1.0)}


def _value(value: Any) -> str:
    """As it is written in Python; a function by its name."""
    text = str(value)
    return text.removesuffix(FUNCTION).strip() if text.endswith(FUNCTION) else repr(value)


def _as_python(name: str, asked: Mapping[str, Any], given: list[str]) -> str:
    """Where the environment is an object that only the user's program has."""
    usual = {**_usual(name), "command": name}
    parts = ["env"]
    if name == "cover":
        parts.append(repr(str(asked.get("request"))))
    parts += [
        f"{key}={_value(asked[key])}"
        for key in ("horizon", *PLAIN, *RANGES, *SWITCHES)
        if key in asked and (asked[key] != usual.get(key) or key in ALWAYS)
    ]
    if given:
        parts.append(f"start_from={given!r}")
    return f"covgame.{name}({', '.join(parts)})"
