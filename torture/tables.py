"""What was tried and what survived: on the terminal, in results.json, in docs/surviving.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torture.cases import Tally

RESULTS = Path(__file__).parent / "results.json"
FORMAT = "covgame-torture/1"


def as_text(tallies: Sequence[Tally]) -> str:
    """The table for people at a terminal."""
    heads = ["attack", "tried", "survived", "lost", "what became of them"]
    rows = [
        [
            one.attack,
            f"{one.tried:,}",
            f"{one.survived:,}",
            str(one.lost_in_all),
            ", ".join(f"{name} {times:,}" for name, times in one.outcomes.most_common(6)),
        ]
        for one in tallies
    ]
    widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [heads, *rows]
    ]
    return "\n".join(lines)


def write_results(path: Path, tallies: Sequence[Tally]) -> None:
    """Attacks that were not carried out this time keep what they have."""
    known = read_results(path) if path.exists() else {}
    known |= {one.attack: one.to_dict() for one in tallies}
    path.write_text(json.dumps({"format": FORMAT, "attacks": known}, indent=1) + "\n")


def read_results(path: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Attacks by name."""
    content: dict[str, dict[str, Any]] = json.loads(path.read_text())["attacks"]
    return content
