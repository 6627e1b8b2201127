"""Steps as a CSV file: a row per step, with what states and actions are called."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from covgame.data.recording import Recording
from covgame.data.tables import escape_formulas
from covgame.storage.episodes import open_file
from covgame.types import END

VALUES_AT_ONCE = 4_000_000
OBSERVATIONS = ("observation", "final_observation")


def write_csv(recording: Recording, draft: Path) -> None:
    """Write all steps into one file, a slice at a time."""
    labels = {
        name: None
        if words is None
        else escape_formulas(pa.array([_as_utf8(word) for word in words]))
        for name, words in (
            ("state", recording.state_labels()),
            ("action", recording.action_labels()),
            ("next_state", recording.state_labels()),
        )
    }
    with contextlib.ExitStack() as opened:
        writer = None
        for batch in recording.batches():
            for part in _slices(_complete(batch.table, recording.schema)):
                flat = _flat(part, labels, is_free_text=recording.kept is not None)
                if writer is None:
                    file = opened.enter_context(open_file(draft, "w"))
                    writer = opened.enter_context(pyarrow.csv.CSVWriter(file, flat.schema))
                writer.write_table(flat)


def _as_utf8(word: str) -> str:
    """Half a character, which Python can hold and no file, as its number."""
    return word.encode("utf-8", "backslashreplace").decode("utf-8")


def _complete(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """With empty columns for what an older version did not record."""
    columns = [
        table[field.name] if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    """Few rows at a time where a row has many numbers."""
    width = sum(_width(field.type) for field in table.schema)
    rows = max(1, VALUES_AT_ONCE // width)
    for first in range(0, len(table), rows):
        yield table.slice(first, rows)


def _width(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    if pa.types.is_struct(kind):
        return sum(_width(kind.field(i).type) for i in range(kind.num_fields))
    return 1


def _flat(
    table: pa.Table, labels: dict[str, pa.Array | None], *, is_free_text: bool = False
) -> pa.Table:
    """Columns of plain values: labels beside their numbers, arrays and parts spread out.

    Texts in observations are any text if the environment has a space; otherwise they are JSON.
    """
    columns: dict[str, Any] = {}
    for name in table.column_names:
        if name in OBSERVATIONS:
            spread = _spread(name, table[name])
            for part, column in spread.items():
                is_text = is_free_text and pa.types.is_string(column.type)
                columns[part] = escape_formulas(column) if is_text else column
        else:
            columns[name] = table[name]
        words = labels.get(name)
        if words is not None:
            number = table[name]
            known = pc.if_else(pc.equal(number, END), None, number)
            columns[f"{name}_label"] = words.take(known)
    return pa.table(columns)


def _spread(name: str, column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return {f"{name}_{i}": pc.list_element(column, i) for i in range(kind.list_size)}
    if pa.types.is_struct(kind):
        spread: dict[str, pa.ChunkedArray] = {}
        for i in range(kind.num_fields):
            part = kind.field(i).name
            spread |= _spread(f"{name}_{part}", pc.struct_field(column, [i]))
        return spread
    return {name: column}
