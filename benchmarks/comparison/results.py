"""The tidy file: one row per measurement, Parquet; a journal while a benchmark runs.

Columns: kind, env, target, method, seed, measure, at, value. ``at`` is where on an axis the value
was measured (episodes, cells, a state) and null where there is none.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison.experiments import Experiment
from covgame.errors import BadInput

RESULTS = "results.parquet"
JOURNAL = "journal.jsonl"
COLUMNS = ("kind", "env", "target", "method", "seed", "measure", "at", "value")


@dataclass(frozen=True)
class Row:
    """One measurement of an experiment."""

    measure: str
    value: float
    at: float | None = None
    target: str = ""


@dataclass(frozen=True)
class Result:
    """One measurement, with all that it was about."""

    kind: str
    env: str
    target: str
    method: str
    seed: int
    measure: str
    at: float | None
    value: float
    experiment: str  # its key


class Journal:
    """What is done so far, a line per experiment: whatever happens, at most one is lost."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self.folder = folder

    def read(self) -> dict[str, list[Result]]:
        """The results by experiment; a torn last line is as if it was never written."""
        done: dict[str, list[Result]] = {}
        if not self.path.exists():
            return done
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                content = json.loads(line)
                done[content["experiment"]] = [Result(**row) for row in content["rows"]]
            except (ValueError, KeyError, TypeError):
                continue
        return done

    def add(self, experiment: Experiment, rows: Iterable[Row]) -> list[Result]:
        """Write down one experiment."""
        results = [_result(experiment, row) for row in rows]
        line = json.dumps({"experiment": experiment.key, "rows": [vars(r) for r in results]})
        with self.path.open("a", encoding="utf-8") as file:
            if file.tell() and not _ends_with_newline(self.path):
                file.write("\n")
            file.write(line + "\n")
        return results


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, io.SEEK_END)
        return file.read(1) == b"\n"


def _result(experiment: Experiment, row: Row) -> Result:
    value, at = float(row.value), None if row.at is None else float(row.at)
    if not math.isfinite(value):
        raise BadInput(f"{experiment.key} measured {value}")
    return Result(
        experiment.kind, experiment.env, row.target, experiment.method, experiment.seed,
        row.measure, at, value, experiment.key,
    )  # fmt: skip


def write_results(path: Path, results: Iterable[Result]) -> None:
    """One Parquet file, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    listed = list(results)
    columns = (*COLUMNS, "experiment")
    table = pa.table({name: [getattr(result, name) for result in listed] for name in columns})
    unfinished = path.with_suffix(".tmp")
    pq.write_table(table, unfinished, compression="zstd")
    os.replace(unfinished, path)


def read_results(path: Path) -> list[Result]:
    """A file that ``write_results`` wrote."""
    import pyarrow.parquet as pq

    if path.is_dir():
        path = path / RESULTS
    if not path.exists():
        raise BadInput(f"{path} does not exist; bench peers writes it")
    try:
        table = pq.read_table(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is no file of results: {error}") from error
    missing = {*COLUMNS, "experiment"} - set(table.column_names)
    if missing:
        raise BadInput(f"{path} is no file of results: it lacks {', '.join(sorted(missing))}")
    return [Result(**row) for row in _rows(table)]


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    yield from table.select([*COLUMNS, "experiment"]).to_pylist()
