"""Tables of steps that Arrow reads: Parquet, CSV, Feather; a file, or a folder of shards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from covgame.data import steps
from covgame.data.steps import BORDERS, COLUMNS, AnyArray, Chunk
from covgame.errors import BadInput
from covgame.names import closest
from covgame.storage.episodes import SCHEMA, open_file
from covgame.storage.folder import GIVEN, RunFolder
from covgame.storage.reading import StepTables
from covgame.storage.trust import resume_command

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv",
    ".feather": "feather", ".arrow": "feather", ".ipc": "feather",
}  # fmt: skip
CSV_BLOCK = 2**24
SPLIT = "+"
"""Between columns that make up a state together."""


@dataclass(frozen=True)
class TableReader:
    """The rows of files, one after another, a batch at a time."""

    files: Sequence[Path]
    columns: Mapping[str, str] = field(default_factory=dict)  # ours -> theirs
    raw = False

    def chunks(self) -> Iterator[Chunk]:
        """All rows, under our names."""
        for path in self.files:
            row = 0
            try:
                with _opened(path) as table:
                    called = self._called(path, table.names)
                    wanted = {part for name in called.values() for part in name.split(SPLIT)}
                    for batch in table.batches([name for name in table.names if name in wanted]):
                        if batch.num_rows:
                            yield _chunk(path, row, batch, called)
                        row += batch.num_rows
            except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
                raise BadInput(f"{path} cannot be read: {_first_line(error)}") from error

    def _called(self, path: Path, there: Sequence[str]) -> dict[str, str]:
        """Our name -> the file's, of every column that is there and means something to us."""
        called: dict[str, str] = {}
        for ours, theirs in self.columns.items():
            for part in theirs.split(SPLIT):
                if part not in there:
                    raise BadInput(
                        f"{path} has no column {part!r}, which --columns names for {ours}; "
                        f"{closest(part, list(there))}"
                    )
            called[ours] = theirs
        for ours in COLUMNS:
            if ours not in called and ours in there and not self._replaced(ours):
                called[ours] = ours
        for ours in ("state", "action"):
            if ours not in called:
                raise BadInput(
                    f"{path} has no column {ours}; say --columns {ours}=NAME. It has "
                    f"{', '.join(there)}"
                )
        if not any(name in called for name in BORDERS):
            raise BadInput(
                f"{path} has no column episode, stage, terminated, truncated or done, so nothing "
                "says where an episode is over; say --columns episode=NAME or done=NAME. It has "
                f"{', '.join(there)}"
            )
        _check_single(path, there, called)
        return called

    def _replaced(self, ours: str) -> bool:
        """With columns for ``state``, a ``next_state`` column of another kind is not used."""
        return ours == "next_state" and "state" in self.columns


@dataclass(frozen=True)
class RunReader:
    """The steps of a run, unsealed episodes included."""

    steps: StepTables
    raw = False

    @classmethod
    def of(cls, folder: RunFolder, path: Path) -> RunReader:
        """The episodes of a run, or those of the data at ``path`` that it was started from."""
        is_given = Path(os.path.realpath(path)).parent.name == GIVEN
        found = StepTables(path if is_given else folder)
        if not found.n_episodes:
            why = f"{path} holds no episodes yet: {resume_command(folder)}"
            if folder.config.get("play") == "counts":
                why = (
                    f"{path} holds no episodes; a run of --play counts keeps none, play it with "
                    "--play exact"
                )
            raise BadInput(why)
        return cls(found)

    def chunks(self) -> Iterator[Chunk]:
        """All rows; every run has the same columns, and some have seeds."""
        for path, table in self.steps.tables():
            called = {name: name for name in (*SCHEMA.names, "seed") if name in table.column_names}
            yield Chunk(str(path), 0, {name: table[name].to_numpy() for name in called}, called)


def _check_single(path: Path, there: Sequence[str], called: Mapping[str, str]) -> None:
    for part in (part for theirs in called.values() for part in theirs.split(SPLIT)):
        if there.count(part) > 1:
            raise BadInput(f"{path} has several columns {part}; leave one of them")


def _chunk(path: Path, row: int, batch: Any, called: Mapping[str, str]) -> Chunk:
    columns: dict[str, AnyArray] = {}
    for ours, theirs in called.items():
        parts = [_array(batch.column(batch.schema.get_field_index(p))) for p in theirs.split(SPLIT)]
        columns[ours] = parts[0] if len(parts) == 1 else _together(parts)
    return Chunk(str(path), row, columns, dict(called))


def _array(column: Any) -> AnyArray:
    """An Arrow column; lists of equal length become rows of an array."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    listed = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
    if (listed or pa.types.is_large_list(kind)) and not column.null_count:
        flat = column.flatten().to_numpy(zero_copy_only=False)
        if len(column) and len(flat) % len(column) == 0 and _even(column):
            return np.asarray(flat).reshape(len(column), -1)
    found: AnyArray = column.to_numpy(zero_copy_only=False)
    return found


def _even(column: Any) -> bool:
    if pa.types.is_fixed_size_list(column.type):
        return True
    lengths = np.diff(column.offsets.to_numpy())
    return bool((lengths == lengths[0]).all())


def _together(parts: list[AnyArray]) -> AnyArray:
    """Several columns as one, row by row."""
    if all(part.ndim == 1 and part.dtype.kind in "iufb" for part in parts):
        return np.column_stack(parts)
    rows = list(zip(*(part.tolist() for part in parts), strict=True))
    together = np.empty(len(rows), dtype=object)
    together[:] = rows
    return together


@dataclass(frozen=True)
class _Table:
    """An open file: its columns, and batches of some of them."""

    names: Sequence[str]
    batches: Callable[[list[str]], Iterable[Any]]


@contextmanager
def _opened(path: Path) -> Iterator[_Table]:
    kind = SUFFIXES.get(path.suffix.lower())
    if kind == "parquet":
        with open_file(path) as opened, pq.ParquetFile(opened) as file:
            yield _Table(
                file.schema_arrow.names,
                lambda wanted: file.iter_batches(
                    batch_size=steps.rows_at_once(_width(file.metadata)), columns=wanted
                ),
            )
    elif kind == "csv":
        parse = pa.csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        options = pa.csv.ReadOptions(block_size=CSV_BLOCK)
        with (
            open_file(path) as opened,
            pa.csv.open_csv(opened, read_options=options, parse_options=parse) as reader,
        ):
            yield _Table(reader.schema.names, lambda _: map(_unescape_formulas, reader))
    elif kind == "feather":
        with pa.memory_map(os.fsencode(path)) as source, pa.ipc.open_file(source) as file:
            numbers = range(file.num_record_batches)
            yield _Table(file.schema.names, lambda _: (file.get_batch(i) for i in numbers))
    else:
        raise BadInput(f"{path} is no table that covgame reads: {', '.join(SUFFIXES)}")


FORMULA = r"'*[=+\-@\t\r\n]"
"""How texts begin that spreadsheets take for formulas, and those that we have escaped."""


def escape_formulas(texts: Any) -> Any:
    """Arrow texts for a CSV file, with a single quote before those that are taken for formulas."""
    is_formula = pc.match_substring_regex(texts, f"^{FORMULA}")
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)


def _unescape_formulas(batch: Any) -> Any:
    """The rows of a CSV file without the quotes of ``escape_formulas``."""
    for number, column in enumerate(batch.columns):
        if pa.types.is_string(column.type):
            texts = pc.replace_substring_regex(column, f"^'({FORMULA})", r"\1")
            batch = batch.set_column(number, batch.schema.field(number), texts)
    return batch


def _width(about: Any) -> int:
    """Bytes of a row, as the footer of a Parquet file says."""
    groups = (about.row_group(number) for number in range(about.num_row_groups))
    return int(sum(one.total_byte_size for one in groups)) // max(1, int(about.num_rows))


def whole_table(folder: Path, wanted: Sequence[str]) -> dict[str, AnyArray]:
    """Some columns of the tables of a folder that is small enough, such as one episode's."""
    parts: list[Any] = []
    for path in files_in(folder):
        try:
            with _opened(path) as table:
                for name in wanted:
                    if name not in table.names:
                        raise BadInput(f"{path} has no column {name}")
                parts += list(table.batches(list(wanted)))
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            raise BadInput(f"{path} cannot be read: {_first_line(error)}") from error
    if not parts:
        raise BadInput(f"{folder} holds no table")
    arrays = {name: [_array(part.column(name)) for part in parts] for name in wanted}
    return {name: np.concatenate(array) for name, array in arrays.items()}


def files_in(folder: Path) -> list[Path]:
    """The tables of a folder, by name."""
    found = sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
    kinds = {SUFFIXES[path.suffix.lower()] for path in found}
    if len(kinds) > 1:
        raise BadInput(f"{folder} holds tables of several kinds ({', '.join(sorted(kinds))})")
    return found


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
