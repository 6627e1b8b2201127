"""The table of attacks: on the terminal, in results.json and in docs/surviving.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torture.cases import Tally

RESULTS = Path(__file__).parent / "results.json"
FORMAT = "covgame-torture/1"
HEADS = ("attack", "tried", "survived", "lost", "outcomes")


def as_text(tallies: Sequence[Tally]) -> str:
    """The table for a terminal."""
    rows = [list(HEADS), *(_cells(one.to_dict()) for one in tallies)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def _cells(one: dict[str, Any]) -> list[str]:
    outcomes = sorted(one["outcomes"].items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{times:,} {name}" for name, times in outcomes[:6])
    numbers = [f"{one[name]:,}" for name in ("tried", "survived", "lost_in_all")]
    return [one["attack"], *numbers, shown]


def write_results(path: Path, tally: Tally) -> None:
    """Replace the row of an attack."""
    known = read_results(path) if path.exists() else {}
    known[tally.attack] = tally.to_dict()
    path.write_text(json.dumps({"format": FORMAT, "attacks": known}, indent=1) + "\n")


def read_results(path: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Rows by the names of the attacks."""
    content: dict[str, dict[str, Any]] = json.loads(path.read_text())["attacks"]
    return content


def as_markdown() -> str:
    """The table of docs/surviving.md."""
    from benchmarks.comparison.markdown import table

    rows = []
    for one in read_results().values():
        name, *numbers, outcomes = _cells(one)
        rows.append([f"**{name}**: {one['about']}", *numbers, outcomes])
    return table(HEADS, rows)


TABLES: dict[str, Callable[[], str]] = {"torture": as_markdown}
"""By the names in the markers of a page."""
