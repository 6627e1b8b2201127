"""The target file: ``covgame-target/1``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from covgame.jsonfile import check_content, read_json
from covgame.targets.requests import Listed, ListedGroup
from covgame.targets.target import Target

Index = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
Label = Annotated[str, Field(strict=True, min_length=1)]
Called = Annotated[
    Annotated[Index, Tag("one")] | Annotated[Label, Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, str) else "one"),
]
"""A state or an action, by number or by label."""
VisitCount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class GroupFile(BaseModel):
    """Pairs (state, action) that are counted together."""

    model_config = ConfigDict(extra="forbid")

    name: Label
    count: VisitCount
    pairs: list[tuple[Called, Called]]


class TargetFile(BaseModel):
    """What a target file holds, before it is compared with an environment."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["covgame-target/1"]
    cells: list[tuple[Index | None, Called, Called | None, VisitCount]]
    groups: list[GroupFile] = []
    name: str = ""
    description: str = ""


def load_target(path: str | Path) -> Listed:
    """Read a ``covgame-target/1`` file; a malformed one is refused with the place."""
    path = Path(path)
    return listed_from(read_json(path), path)


def listed_from(found: Any, path: Path) -> Listed:
    """The rows of a target file with this content, which comes from ``path``."""
    content = check_content(TargetFile, found, path)
    groups = tuple(ListedGroup(one.name, one.count, tuple(one.pairs)) for one in content.groups)
    return Listed(tuple(content.cells), str(path), groups)


def target_text(target: Target) -> str:
    """A target as the text of a ``covgame-target/1`` file, one row a line."""
    single = (~target.of_group).nonzero()[0]
    rows, counts = target.as_rows(single), target.counts[single].tolist()
    cells = [[*row, n] for row, n in zip(rows, counts, strict=True)]
    return _text(cells, _groups(target))


def listed_text(listed: Listed) -> str:
    """The same of rows whose states are still to be found."""
    return _text([list(row) for row in listed.rows], [])


def _groups(target: Target) -> list[dict[str, Any]]:
    if target.groups is None:
        return []
    pairs: dict[str, list[list[int]]] = {name: [] for name in target.groups.names}
    for number, pair in zip(target.groups.group.tolist(), target.groups.pair.tolist(), strict=True):
        pairs[target.groups.names[number]].append(list(divmod(pair, target.shape.actions)))
    asked = target.of_group.nonzero()[0]
    names = [str(name) for _, name, _ in target.as_rows(asked)]
    return [
        {"name": name, "count": count, "pairs": pairs[name]}
        for name, count in zip(names, target.counts[asked].tolist(), strict=True)
    ]


def _text(cells: Sequence[Sequence[Any]], groups: Sequence[dict[str, Any]]) -> str:
    content = ['"format": "covgame-target/1"', f'"cells": [\n  {_lines(cells)}]']
    if groups:
        content.append(f'"groups": [\n  {_lines(groups)}]')
    body = ",\n ".join(content)
    return f"{{{body}}}\n"


def _lines(items: Sequence[Any]) -> str:
    """One item a line; rows of numbers, of which there may be millions, are written at once."""
    together = json.dumps(items)[1:-1]
    if '"' not in together:
        return together.replace("], [", "],\n  [")
    return ",\n  ".join(json.dumps(item) for item in items)
