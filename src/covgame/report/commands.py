"""The command that makes a run again, from what its folder says was asked."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from covgame.config import option_name, options_of
from covgame.sources.maps import FUNCTION

if TYPE_CHECKING:
    from covgame.runs.run import Run

ALWAYS = ("epsilon", "seed")
"""Shown even if they are as by default."""


def command_of(run: Run) -> str:
    """What to type to play the run once more; a call of Python where only a program can.

    Options with their default values are left out, except the seed and epsilon.
    """
    config = run.config()
    name = str(config.get("command", "cover"))
    options = _options(run)
    given = [one.name for one in run.given]
    by_name = run.environment.by_name
    if run.folder is not None:  # an environment that is not at hand is none that has a name
        by_name = bool(run.folder.config.get("by_name", True))
    if not by_name:
        parts = ["env"] + ([repr(str(config["request"]))] if "request" in config else [])
        parts += [f"{key}={_value(value)}" for key, value in options.items()]
        parts += [f"start_from={given!r}"] if given else []
        return f"covgame.{name}({', '.join(parts)})"
    words = ["covgame", name, run.environment.name]
    words += ["--target", str(config["request"])] if "request" in config else []
    for key, value in options.items():
        words.append(option_name(key))
        if isinstance(value, tuple | list):
            words.append(",".join(map(_text, value)))
        elif value is not True:
            words.append(_text(value))
    words += [word for one in given for word in ("--from", one)]
    return shlex.join(words)


def _options(run: Run) -> dict[str, Any]:
    """What was asked for, by name."""
    config = run.config()
    options: dict[str, Any] = {"horizon": run.environment.horizon}
    options |= {key: text for key, text in run.environment.spec.texts().items() if text}
    for name, field in options_of(type(run.settings)).items():
        if name in ALWAYS or config[name] != field.default:
            options[name] = config[name]
    return options


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _value(value: Any) -> str:
    """As it is written in Python; a function by its name."""
    text = str(value)
    return text.removesuffix(FUNCTION).strip() if text.endswith(FUNCTION) else repr(value)
