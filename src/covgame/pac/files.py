"""The reward file: ``covgame-reward/1``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from covgame.errors import BadInput, describe_row
from covgame.jsonfile import check_content, read_json
from covgame.types import FloatHSA, Shape

Index = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
Reward = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class RewardFile(BaseModel):
    """What a reward file holds, before it is compared with a model."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["covgame-reward/1"]
    rewards: list[tuple[Index | None, Index, Index | None, Reward]]
    name: str = ""
    description: str = ""


def load_reward(path: str | Path, shape: Shape) -> FloatHSA:
    """Rows [h, s, a, r] as an array; absent cells earn 0, null means every stage or action."""
    path = Path(path)
    content = check_content(RewardFile, read_json(path), path)
    reward = np.full(shape.hsa, np.nan)
    for h, s, a, r in content.rewards:
        _check_exists((h, s, a), shape, path)
        place = (slice(None) if h is None else h, s, slice(None) if a is None else a)
        if not np.isnan(reward[place]).all():
            raise BadInput(f"{path}: {describe_row((h, s, a))} has a reward already")
        reward[place] = r
    return np.where(np.isnan(reward), 0.0, reward)


def _check_exists(row: tuple[int | None, int, int | None], shape: Shape, path: Path) -> None:
    sizes = zip(row, shape.hsa, ("stages", "states", "actions"), strict=True)
    for index, size, what in sizes:
        if index is not None and index >= size:
            raise BadInput(
                f"{path}: {describe_row(row)} does not exist; there are {size} {what}, from 0"
            )
