"""What is shown of a run, an audit or a test session, as plain values.

A ``View`` is computed once; ``text`` renders it for terminals and notebooks, ``figures`` as a
picture, and ``html`` as a page. It holds no arrays and refers to no run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from covgame.plain import plain

Tone = Literal["good", "open", "bad", "running"]
Kind = Literal["cover", "explore", "identify", "audit", "tests"]

Facts = Sequence[tuple[str, str]]
"""(label, value) lines; a line without a label continues the one before."""


@dataclass(frozen=True)
class Figure:
    """A headline number."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    name: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Rule:
    """A straight line across a chart, with its label."""

    axis: Literal["x", "y"]
    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A quantity over episodes; if there are no series, the note says why."""

    title: str
    note: str
    x_label: str
    y_label: str
    series: list[Series]
    rules: list[Rule]
    log: bool = False  # both axes
    percent: bool = False  # of the values


@dataclass(frozen=True)
class Layout:
    """Position of each tile, in whole tiles from the upper left corner."""

    kind: Literal["grid", "plane", "graph", "tiles"]
    columns: int
    rows: int
    x: list[int]
    y: list[int]
    marks: list[str]  # by tile: start, goal, hole, wall, cliff, or an empty string
    edges: list[list[int]]  # [from, to], of a graph
    note: str


@dataclass(frozen=True)
class Amounts:
    """Visits by tile: collected, requested and missing."""

    visits: list[Any]
    wanted: list[Any]
    missing: list[Any]


@dataclass(frozen=True)
class StateMap:
    """Visits against target by state, at each stage and in total."""

    layout: Layout
    labels: list[str]
    actions: list[str]
    stages: list[str]  # labels of the positions of the slider
    asked_by_stage: bool  # whether the target names stages
    overall: Amounts  # by tile
    by_stage: Amounts  # by stage, then by tile; wanted and missing are empty if no stage is named
    overall_actions: Amounts | None  # by tile, then by action; None if that is too much
    stage_actions: list[Any] | None  # visits by stage, tile, action
    policy: list[list[int]] | None  # by stage, then by tile: an action, -1 where it is unknown
    note: str = ""
    named: bool = False  # whether the states have labels of their own


@dataclass(frozen=True)
class Table:
    """Rows of text."""

    name: str
    title: str
    note: str
    heads: list[str]
    rows: list[list[str]]
    more: int = 0  # rows that were left out
    empty: str = ""  # text for a table without rows
    numeric: int = 0  # the number of leading columns that hold numbers
    wide: bool = False  # over the whole width of a page


@dataclass(frozen=True)
class View:
    """What is shown: the summary, and on a page also the chart, the map and further tables."""

    kind: Kind
    title: str
    status: str
    tone: Tone
    sentences: list[str]
    figures: list[Figure]
    facts: Facts
    tables: list[Table] = field(default_factory=list)
    chart: Chart | None = None
    state_map: StateMap | None = None
    command: str = ""  # plays the run again
    made_with: str = ""  # versions

    def to_json(self) -> str:
        """The data of the page's script; all characters of its texts are visible."""
        return json.dumps(_visible(asdict(self)), allow_nan=False, separators=(",", ":"))


def kind_of(run: Any) -> Kind:
    """The command that plays such runs."""
    kind: Kind = getattr(run.settings, "command", "cover")
    return kind


def table(
    name: str,
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    most: int,
    note: str = "",
    empty: str = "",
    numeric: int = 1,
    wide: bool = False,
) -> Table:
    """A table of at most ``most`` rows, without columns that are empty in all of them."""
    kept = [c for c in range(len(heads)) if not rows or any(row[c] for row in rows)]
    numeric = sum(c < numeric for c in kept)
    shown = [[row[c] for c in kept] for row in rows[:most]]
    named = [heads[c] for c in kept]
    more, note = len(rows) - len(shown), note if rows else ""
    return Table(name, title, note, named, shown, more, empty, numeric, wide)


def assumed(assumptions: Sequence[str]) -> Facts:
    """What a claim rests on, one line each."""
    return [("" if place else "assumed", one) for place, one in enumerate(assumptions)]


def percent(share: float) -> str:
    """Whole percent; 100% only if it is all, 0% only if it is nothing."""
    if 0 < share < 0.01:
        return "<1%"
    return "99%" if 0.99 <= share < 1 else f"{share:.0%}"


def listed(words: Sequence[str], conjunction: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def sentence(words: str) -> str:
    """With a capital letter and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def versions_in_words(versions: dict[str, Any]) -> str:
    """``covgame 0.2.0, numba ..., numpy ...``."""
    order = sorted(versions, key=lambda name: name != "covgame")
    return ", ".join(f"{name} {versions[name]}" for name in order)


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {name: _visible(part) for name, part in value.items()}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | float):
        return [_visible(part) for part in value]
    return value
