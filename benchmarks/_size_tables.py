"""Tables of how large it may be: cells, states that are found, stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import _results
from benchmarks._formats import in_seconds
from benchmarks.comparison.markdown import table
from benchmarks.size import DENSE, OURS, WHOLE


def _milliseconds(value: float) -> str:
    return f"{value:.2f} ms" if value < 10 else f"{value:,.0f} ms"


def _rows(kind: str) -> list[dict[str, Any]]:
    return [row for row in _results.read("size")["rows"] if row["kind"] == kind]


def simulated() -> str:
    """An episode by the number of cells: ours, everything planned anew, dense arrays."""
    measured: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in _rows("simulated"):
        measured.setdefault((row["world"], row["cells"]), {})[row["method"]] = row
    body = []
    for (kind, cells), methods in measured.items():
        times = [
            _milliseconds(methods[name]["ms"]) if name in methods else "-"
            for name in (OURS, WHOLE, DENSE)
        ]
        body.append([kind, f"{cells:,}", *times, f"{methods[OURS]['mb']:,.0f} MB"])
    return table(["world", "cells", OURS, WHOLE, DENSE, "memory, ours"], body)


def found() -> str:
    """States that show only as one goes."""
    body = [
        [
            f"{row['states']:,}",
            f"{row['stages']:,}",
            f"{row['cells']:,}",
            f"{row['episodes']:,}",
            in_seconds(row["seconds"]),
            _milliseconds(row["ms"]),
            f"{row['mb']:,.0f} MB",
        ]
        for row in _rows("found")
    ]
    heads = [
        "states found",
        "stages",
        "cells",
        "episodes",
        "time",
        "an episode, at the end",
        "memory",
    ]
    return table(heads, body)


def long() -> str:
    """Environments of others with long horizons."""
    body = [
        [
            f"`{row['name']}`",
            f"{row['horizon']:,}",
            f"`{row['target']}`",
            f"{row['states']:,}",
            f"{row['episodes']:,}" + ("" if row["covered"] else ", then stopped"),
            in_seconds(row["seconds"]),
            f"{row['us']:,.0f} us",
            f"{row['mb']:,.0f} MB",
        ]
        for row in _rows("long")
    ]
    heads = ["environment", "stages", "target", "states", "episodes", "time", "a step", "memory"]
    return table(heads, body)


def look_ahead() -> str:
    """Plans of all stages, and plans that look as far as it takes."""
    body = []
    for row in _results.read("look_ahead")["rows"]:
        episodes = (f"{row[how]:,.1f} ± {row[f'error {how}']:.1f}" for how in ("all", "ahead"))
        times = (_milliseconds(row[f"ms {how}"]) for how in ("all", "ahead"))
        sights = row["sights"]
        middle = f"{sights[len(sights) // 2]} ({sights[0]} to {sights[-1]})"
        body.append([f"`{row['env']}`", f"{row['visits']}", *episodes, *times, middle])
    heads = ["world", "visits", "all stages", "as far as it takes"]
    return table([*heads, "time, all", "time, as far", "stages ahead at the end"], body)


def look_ahead_stages() -> str:
    """What a step costs by the number of stages."""
    body = [
        [f"{row['stages']:,}", f"{row['us all']:,.0f} us", f"{row['us ahead']:,.0f} us"]
        for row in _results.read("look_ahead")["stages"]
    ]
    return table(["stages", "plans of all stages", "as far as it takes"], body)


TABLES: dict[str, Callable[[], str]] = {
    "size_simulated": simulated,
    "size_found": found,
    "size_long": long,
    "look_ahead": look_ahead,
    "look_ahead_stages": look_ahead_stages,
}
