"""Steps as a CSV file: a row per step, with labels of states and actions."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from covgame.data.recording import Recording
from covgame.data.tables import escape_formulas
from covgame.storage.episodes import open_file
from covgame.types import END

OBSERVATIONS = ("observation", "final_observation")


def write_csv(recording: Recording, draft: Path) -> None:
    """Write all steps into one file, a batch at a time."""
    labels = {
        name: None
        if words is None
        else escape_formulas(
            # Half a character, which Python can hold and no file, is written as its number.
            pa.array([word.encode("utf-8", "backslashreplace").decode("utf-8") for word in words])
        )
        for name, words in (
            ("state", recording.state_labels()),
            ("action", recording.action_labels()),
            ("next_state", recording.state_labels()),
        )
    }
    with contextlib.ExitStack() as opened:
        writer = None
        for batch in recording.batches():
            flat = _flat(batch.table, labels, is_free_text=recording.kept is not None)
            if writer is None:
                file = opened.enter_context(open_file(draft, "w"))
                writer = opened.enter_context(pyarrow.csv.CSVWriter(file, flat.schema))
            writer.write_table(flat)


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
