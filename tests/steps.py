"""Small datasets for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from covgame.data.dataset import Dataset

Columns = dict[str, Any]


def episodes_of(lengths: list[int], seed: int = 0, states: int = 5, actions: int = 3) -> Columns:
    """Random episodes in our columns; every second one terminates."""
    rng = np.random.default_rng(seed)
    columns: Columns = {name: [] for name in ORDER}
    for number, length in enumerate(lengths):
        path = rng.integers(states, size=length + 1)
        for stage in range(length):
            last = stage == length - 1
            columns["episode"].append(number)
            columns["stage"].append(stage)
            columns["state"].append(int(path[stage]))
            columns["action"].append(int(rng.integers(actions)))
            columns["reward"].append(float(rng.random()))
            columns["next_state"].append(int(path[stage + 1]))
            columns["terminated"].append(last and number % 2 == 0)
            columns["truncated"].append(last and number % 2 == 1)
    return columns


ORDER = ("episode", "stage", "state", "action", "reward", "next_state", "terminated", "truncated")
SMALL = episodes_of([3, 4, 2, 4])


def write(path: Path, columns: Columns) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def without(columns: Columns, *names: str) -> Columns:
    return {name: column for name, column in columns.items() if name not in names}


def changed(column: str, row: int, value: Any, columns: Columns = SMALL) -> Columns:
    again = {name: list(values) for name, values in columns.items()}
    again[column][row] = value
    return again


def together(data: Dataset) -> dict[str, list[Any]]:
    parts = list(data.batches())
    return {name: np.concatenate([getattr(p, name) for p in parts]).tolist() for name in ORDER}
