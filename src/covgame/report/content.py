"""What the page of a run shows: plain values, for a script to draw and a test to read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from covgame.plain import plain

Tone = Literal["good", "open", "bad", "running"]
Kind = Literal["cover", "explore", "identify", "audit"]


@dataclass(frozen=True)
class Figure:
    """A number that sums something up."""

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
    """A straight line across a chart, with what it stands for."""

    axis: Literal["x", "y"]
    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Something over episodes; empty series say why in the note."""

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
    """Where tiles stand: squares at whole places, from the upper left corner."""

    kind: Literal["grid", "plane", "graph", "tiles"]
    columns: int
    rows: int
    x: list[int]
    y: list[int]
    marks: list[str]  # by tile: start, goal, hole, wall, cliff, or nothing
    edges: list[list[int]]  # [from, to], of a graph
    note: str


@dataclass(frozen=True)
class Amounts:
    """Visits of tiles, those that were asked for, and those that are missing."""

    visits: list[Any]
    wanted: list[Any]
    missing: list[Any]


@dataclass(frozen=True)
class StateMap:
    """Visits against target, state by state, at every stage and at all of them."""

    layout: Layout
    labels: list[str]
    actions: list[str]
    stages: list[str]  # what the positions of the slider are called
    asked_by_stage: bool  # whether anything is asked of a stage by itself
    overall: Amounts  # by tile
    by_stage: Amounts  # by stage, then by tile; wanted and missing empty if nothing is asked there
    overall_actions: Amounts | None  # by tile, then by action; None where that is too much
    stage_actions: list[Any] | None  # visits by stage, tile, action
    policy: list[list[int]] | None  # by stage, then by tile: an action, -1 where nothing is known
    note: str = ""


@dataclass(frozen=True)
class Listing:
    """A table."""

    name: str
    title: str
    note: str
    heads: list[str]
    rows: list[list[str]]
    more: int = 0  # that are left out
    empty: str = ""  # what to say if there are none
    numeric: int = 0  # so many first columns hold numbers
    wide: bool = False  # over the whole width


@dataclass(frozen=True)
class PageData:
    """The whole page."""

    kind: Kind
    title: str
    status: str
    tone: Tone
    sentences: list[str]
    figures: list[Figure]
    chart: Chart | None
    state_map: StateMap | None
    listings: list[Listing]
    facts: list[list[str]]  # label, value
    command: str
    made_with: str

    def to_json(self) -> str:
        """As the page's script reads it; every character of its texts is visible."""
        return json.dumps(_visible(asdict(self)), allow_nan=False, separators=(",", ":"))


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {name: _visible(part) for name, part in value.items()}
    if isinstance(value, list) and value and not isinstance(value[0], int | float):
        return [_visible(part) for part in value]
    return value
