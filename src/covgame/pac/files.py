"""The reward file: ``covgame-reward/1``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from covgame.errors import BadInput, describe_row
from covgame.jsonfile import check_content, read_json
from covgame.names import Labels, Names
from covgame.targets.files import Called
from covgame.targets.requests import check_exists, numbered
from covgame.types import FloatHSA, Shape

Index = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
Reward = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class RewardFile(BaseModel):
    """What a reward file holds, before it is compared with a model."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["covgame-reward/1"]
    rewards: list[tuple[Index | None, Called, Called | None, Reward]]
    name: str = ""
    description: str = ""


RewardRow = tuple[int | None, int | str, int | str | None, float]
"""(stage or None, state, action or None, reward); states and actions by number or label."""

NamesLater = Callable[[], Names]
"""Called where there are labels: what a run's states are called may take a while to find out."""


def load_reward(path: str | Path, shape: Shape, names: NamesLater = Names) -> FloatHSA:
    """The array of a file; absent cells earn 0, null means every stage or action."""
    path = Path(path)
    content = check_content(RewardFile, read_json(path), path)
    return reward_array(content.rewards, shape, names, str(path))


def reward_array(
    rows: Sequence[RewardRow], shape: Shape, names: NamesLater = Names, source: str = "the reward"
) -> FloatHSA:
    """Rows [h, s, a, r] as an array."""
    by_label = any(isinstance(value, str) for _, s, a, _ in rows for value in (s, a))
    labels = Labels.of(names(), shape.states, shape.actions) if by_label else Labels({}, {})
    reward = np.full(shape.hsa, np.nan)
    for number, (h, s, a, r) in enumerate(rows):
        where = f"{source}: rewards[{number}]"
        row = check_exists((h, *numbered(labels, (s, a), where)), shape, where)
        place = tuple(slice(None) if index is None else index for index in row)
        if not np.isnan(reward[place]).all():
            raise BadInput(f"{where}: {describe_row(row)} has a reward already")
        reward[place] = r
    return np.where(np.isnan(reward), 0.0, reward)
