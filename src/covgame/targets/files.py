"""The target file: ``covgame-target/1``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from covgame.jsonfile import check_content, read_json
from covgame.targets.requests import Listed
from covgame.targets.target import Target

Index = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
VisitCount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class TargetFile(BaseModel):
    """What a target file holds, before it is compared with an environment."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["covgame-target/1"]
    cells: list[tuple[Index | None, Index, Index | None, VisitCount]]
    name: str = ""
    description: str = ""


def load_target(path: str | Path) -> Listed:
    """Read a ``covgame-target/1`` file; a malformed one is refused with the place."""
    path = Path(path)
    content = check_content(TargetFile, read_json(path), path)
    return Listed(tuple(content.cells), str(path))


def target_text(target: Target) -> str:
    """A target as the text of a ``covgame-target/1`` file, one row a line."""
    rows = target.as_rows(list(range(len(target))))
    cells = [json.dumps([*row, n]) for row, n in zip(rows, target.counts.tolist(), strict=True)]
    body = ",\n  ".join(cells)
    return f'{{"format": "covgame-target/1",\n "cells": [\n  {body}]}}\n'
