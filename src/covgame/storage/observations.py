"""Kept observations as Arrow columns, by their space as the configuration has it.

An array is a list of a fixed size, flattened in C order; Tuple and Dict are structs of their parts;
what has no space is text.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from covgame.errors import BadInput
from covgame.types import IntArray

Space = dict[str, Any]

BYTES_PER_SHARD = 64 * 2**20
BYTES_OF_TEXT = 256
"""Text has any length; where a shard ends must not depend on it."""

NOTHING = pa.bool_()
"""For arrays without numbers and structs without parts, which Parquet does not have."""


def arrow_type(space: Space | None) -> pa.DataType:
    """The type of a column of observations.

    Args:
        space: Their space as JSON, None for observations that are kept as text.

    Returns:
        int64 for Discrete, a list of fixed size for arrays, string for text, a struct for parts.

    Raises:
        BadInput: It describes no space.
    """
    try:
        return _type_of(space)
    except (LookupError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        raise BadInput(f"this describes no space of observations: {space}") from error


def _type_of(space: Space | None) -> pa.DataType:
    if space is None or space["type"] == "Text":
        return pa.string()
    if space["type"] == "Discrete":
        return pa.int64()
    if space["type"] in ("Tuple", "Dict"):
        fields = [pa.field(name, _type_of(part)) for name, part in _parts(space)]
        return pa.struct(fields) if fields else NOTHING
    dtype, size = _numbers(space)
    # Parquet calls the elements so; under another name a column would not be what was written.
    return pa.list_(pa.field("element", pa.from_numpy_dtype(dtype)), size) if size else NOTHING


def _parts(space: Space) -> list[tuple[str, Space]]:
    parts = space["spaces"]
    if space["type"] == "Dict":
        return list(parts.items())
    return [(str(number), part) for number, part in enumerate(parts)]


def _numbers(space: Space) -> tuple[np.dtype[Any], int]:
    return np.dtype(space["dtype"]), math.prod(space["shape"])


def bytes_of(space: Space | None) -> int:
    """How much room an observation takes, about."""
    if space is None or space["type"] == "Text":
        return BYTES_OF_TEXT
    if space["type"] == "Discrete":
        return 8
    if space["type"] in ("Tuple", "Dict"):
        return sum(bytes_of(part) for _, part in _parts(space))
    dtype, size = _numbers(space)
    return dtype.itemsize * size


def column_of(kept: Sequence[Any], space: Space | None) -> pa.Array:
    """Kept observations as a column.

    Args:
        kept: What the keeper of the space has made of each.
        space: Their space as JSON, None for text.

    Returns:
        A column with a row for each.
    """
    kind = arrow_type(space)
    if kind == NOTHING:
        return pa.array([True] * len(kept), kind)
    if space is None or space["type"] in ("Text", "Discrete"):
        return pa.array(kept, kind)
    if space["type"] in ("Tuple", "Dict"):
        columns = zip(*kept, strict=True) if kept else [()] * kind.num_fields
        parts = zip(_parts(space), columns, strict=True)
        arrays = [column_of(column, part) for (_, part), column in parts]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))
    numbers = np.frombuffer(b"".join(kept), dtype=_numbers(space)[0])
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), type=kind)


def values_of(column: pa.ChunkedArray | pa.Array, space: Space | None) -> Any:
    """The observations of a column without empty places, all at once.

    Args:
        column: A column as ``column_of`` makes it.
        space: Their space as JSON, None for text.

    Returns:
        An array whose first axis is that of the rows, a dictionary or tuple of such, or a list of
        texts.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if space is None or space["type"] == "Text":
        return column.to_pylist()
    if space["type"] == "Discrete":
        return column.to_numpy(zero_copy_only=False)
    if space["type"] in ("Tuple", "Dict"):
        parts = _parts(space)
        columns = column.flatten() if parts else []
        values = [values_of(one, part) for one, (_, part) in zip(columns, parts, strict=True)]
        if space["type"] == "Tuple":
            return tuple(values)
        return {name: value for (name, _), value in zip(parts, values, strict=True)}
    dtype, size = _numbers(space)
    numbers = column.flatten().to_numpy(zero_copy_only=False) if size else np.zeros(0, dtype)
    return numbers.reshape(len(column), *space["shape"])


def one_by_one(values: Any, number: int) -> Sequence[Any]:
    """What ``values_of`` returns as a sequence of so many observations."""
    if isinstance(values, dict):
        columns = [one_by_one(part, number) for part in values.values()]
        rows = zip(*columns, strict=True) if columns else [()] * number
        return [dict(zip(values, row, strict=True)) for row in rows]
    if isinstance(values, tuple):
        columns = [one_by_one(part, number) for part in values]
        return list(zip(*columns, strict=True)) if columns else [()] * number
    sequence: Sequence[Any] = values
    return sequence


def joined(shown: Sequence[Any], last: Sequence[Any]) -> Sequence[Any]:
    """The observations of an episode with the last one, None if nothing was shown there."""
    if isinstance(shown, np.ndarray) and len(last):
        together: Sequence[Any] = np.concatenate([shown, last])
        return together
    return [*shown, *(last if len(last) else [None])]


@dataclass(frozen=True)
class Keeping:
    """How a run stores its observations."""

    space: Space | None

    def episodes_per_shard(self, horizon: int) -> int:
        """So many that a shard has about 64 MB of them, whatever they show."""
        return max(1, BYTES_PER_SHARD // max(1, bytes_of(self.space) * (horizon + 1)))

    def columns(self, kept: Sequence[Sequence[Any]], last: IntArray) -> tuple[pa.Array, pa.Array]:
        """(what was acted on, what last steps led to) for every step of some episodes."""
        shown = [one for episode in kept for one in episode[:-1]]
        ended = [episode[-1] for episode in kept]
        place = np.full(len(shown), -1)
        there = np.array([one is not None for one in ended], dtype=np.bool_)
        place[last[there]] = np.arange(there.sum())
        final = column_of([one for one in ended if one is not None], self.space)
        return column_of(shown, self.space), final.take(pa.array(place, mask=place < 0))

    def writing(self, schema: pa.Schema, columns: Sequence[str]) -> dict[str, Any]:
        """What Parquet is told of these columns: they are the ones worth compressing."""
        buffer = io.BytesIO()
        pq.write_table(schema.empty_table(), buffer)
        about = pq.read_metadata(buffer).schema
        leaves = [about.column(number) for number in range(len(about))]
        paths = [leaf.path for leaf in leaves if leaf.path.split(".")[0] in columns]
        return {"compression": dict.fromkeys(paths, "zstd")}
