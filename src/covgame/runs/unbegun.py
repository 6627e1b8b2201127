"""What an answer says while nothing is known: of a run that has not begun, or cannot be read."""

from __future__ import annotations

from typing import Any

OPEN: dict[str, dict[str, Any]] = {
    "cover": {
        "covered": False,
        **dict.fromkeys(("uncovered", "unreachable", "min_episodes", "min_episodes_is", "ratio")),
    },
    "explore": dict.fromkeys(("certified_error", "phases")),
    "identify": dict.fromkeys(("certified_gap", "value_lower", "value_upper", "policy", "phases")),
}
"""By command: what only its data could tell."""


def why_key(command: str) -> str:
    """What an answer calls the reason why a run has stopped."""
    return "stopped_by" if command in ("explore", "identify") else "stopped"


def interrupted_answer(command: str) -> dict[str, Any]:
    """The answer of a command that was interrupted before there was anything to write down."""
    if command not in OPEN:
        return {why_key(command): "interrupted"}
    nothing: dict[str, Any] = {"failure": None, "failures": [], "run": None}
    return {"episodes": 0, **OPEN[command], why_key(command): "interrupted", **nothing}
