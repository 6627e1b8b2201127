"""Tables about state machines: what is seen, which bugs show when, and what a step costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks import _results
from benchmarks.comparison.markdown import table

SYSTEMS = {"CircuitBreaker": "circuit breaker", "Cache": "cache", "Protocol": "protocol"}


def _rows(system: str, method: str) -> list[dict[str, Any]]:
    rows = _results.read("stateful")["rows"]
    return [row for row in rows if (row["system"], row["method"]) == (system, method)]


def _methods() -> list[str]:
    return list(dict.fromkeys(row["method"] for row in _results.read("stateful")["rows"]))


def coverage() -> str:
    """The share of all transitions that was seen, and when all were."""
    once, several = _results.read("stateful")["often"]

    def cell(system: str, method: str) -> str:
        rows = _rows(system, method)
        return ", ".join(_share(rows, often) for often in (once, several))

    heads = [f"{name} ({_rows(key, 'covgame')[0]['every']})" for key, name in SYSTEMS.items()]
    body = [[method, *(cell(system, method) for system in SYSTEMS)] for method in _methods()]
    return table(["", *heads], body)


def _share(rows: list[dict[str, Any]], often: int) -> str:
    """What was seen so often; if that is everything in all runs, after how many steps."""
    steps = [row[f"all {often}"] for row in rows]
    if None not in steps:
        return f"all after {statistics.median(steps):,.0f} steps"
    return f"{statistics.fmean(row[f'enough {often}'] / row['every'] for row in rows):.0%}"


def bugs() -> str:
    """Steps until a bug shows, those in states first."""
    kinds = _results.read("stateful")["bugs"]
    body = [
        [SYSTEMS[one["system"]], one["kind"], one["bug"], *(_until(one, m) for m in _methods())]
        for kind in ("state", "value")
        for one in kinds
        if one["kind"] == kind
    ]
    return table(["system", "in a", "bug", *_methods()], body)


def _until(bug: dict[str, str], method: str) -> str:
    """The median of the steps, where most runs have seen it."""
    rows = _rows(bug["system"], method)
    found = [row["bugs"].get(bug["bug"], float("inf")) for row in rows]
    median = statistics.median(found)
    seen = sum(one < float("inf") for one in found)
    if median == float("inf"):
        return f"- ({seen} of {len(rows)})"
    missed = f" ({seen} of {len(rows)})" if seen < len(rows) else ""
    return f"{median:,.0f}{missed}"


def cost() -> str:
    """Microseconds a step."""

    def cell(system: str, method: str) -> str:
        return f"{statistics.median(row['microseconds'] for row in _rows(system, method)):.0f}"

    body = [[method, *(cell(system, method) for system in SYSTEMS)] for method in _methods()]
    return table(["", *SYSTEMS.values()], body)


TABLES: dict[str, Callable[[], str]] = {
    "stateful_coverage": coverage,
    "stateful_bugs": bugs,
    "stateful_cost": cost,
}
