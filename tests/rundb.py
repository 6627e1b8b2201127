"""Read and change the database of a run, with SQLite alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from covgame.storage.database import Writer
from covgame.storage.episodes import unsealed_row
from covgame.storage.folder import save_arrays
from covgame.storage.recorder import INSERT_EPISODE

Arrays = dict[str, npt.NDArray[Any]]


def query(run: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of a query; a statement that changes something is committed."""
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        return connection.execute(statement, values).fetchall()


def config_of(run: Path) -> dict[str, Any]:
    ((text,),) = query(run, "SELECT json FROM config")
    content: dict[str, Any] = json.loads(text)
    return content


def set_config(run: Path, **changes: Any) -> Path:
    query(run, "UPDATE config SET json=?", json.dumps({**config_of(run), **changes}))
    return run


def result_of(run: Path) -> dict[str, Any]:
    ((text,),) = query(run, "SELECT json FROM result")
    content: dict[str, Any] = json.loads(text)
    return content


def set_result(run: Path, content: Any) -> None:
    query(run, "UPDATE result SET json=?", json.dumps(content))


def drop_result(run: Path) -> None:
    query(run, "DELETE FROM result")


def document_of(run: Path, name: str) -> Any:
    rows = query(run, "SELECT json FROM documents WHERE name=?", name)
    return json.loads(rows[0][0]) if rows else None


def set_document(run: Path, name: str, content: Any) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    query(run, "REPLACE INTO documents VALUES (?, ?)", name, text)


def states_of(run: Path) -> list[str]:
    return [key for (key,) in query(run, "SELECT key FROM states ORDER BY number")]


def arrays_of(run: Path) -> Arrays:
    """The saved state of the game, decoded without our own reader."""
    parts: dict[str, tuple[str, str, bytes]] = {}
    for name, dtype, shape, data in query(
        run, "SELECT name, dtype, shape, data FROM arrays ORDER BY number"
    ):
        parts[name] = (dtype, shape, parts.get(name, ("", "", b""))[2] + data)
    return {
        name: np.frombuffer(data, dtype).reshape(json.loads(shape))
        for name, (dtype, shape, data) in parts.items()
    }


def set_arrays(run: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    writer = Writer(run / "run.db")
    save_arrays(writer, arrays)
    writer.commit()
    writer.close()


def drop_arrays(run: Path) -> None:
    query(run, "DELETE FROM arrays")


def recorded(run: Path) -> int:
    """How many episodes a run has recorded, sealed or not."""
    ((sealed,),) = query(run, "SELECT episodes FROM sealed")
    ((unsealed,),) = query(run, "SELECT count(*) FROM unsealed")
    return int(sealed) + int(unsealed)


def sealed_on_disk(run: Path) -> int:
    """How many episodes the Parquet files of a run hold."""
    files = sorted((run / "episodes").glob("*.parquet"))
    return int(pq.read_table(files[-1])["episode"][-1].as_py()) + 1 if files else 0


def as_killed(run: Path, whole: Any, number: int, sealed: int = 0) -> None:
    """Make a finished run look as if it was killed after ``number`` episodes.

    The first ``sealed`` of them stay in the Parquet files.
    """
    episodes = list(whole.episodes())[:number]
    known = max(int(max(one.state.max(), one.next_state.max())) + 1 for one in episodes)
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        for table in ("result", "arrays"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
        connection.execute("DELETE FROM documents WHERE name='certificate'")
        connection.execute("DELETE FROM states WHERE number>=?", (known,))
        connection.execute("UPDATE sealed SET episodes=?", (sealed,))
        connection.execute("UPDATE writer SET closed=0")
        for one in episodes[sealed:]:
            row = unsealed_row(one.number, one, None)
            connection.execute(INSERT_EPISODE, row)
    if not sealed:
        for file in (run / "episodes").glob("*.parquet"):
            file.unlink()


def spoil_arrays(run: Path) -> None:
    """Damage the saved state."""
    query(run, "UPDATE arrays SET checksum=checksum+1")


def content_of(run: Path) -> dict[str, Any]:
    """Everything that a run has stored, but where it lies and how it was asked for."""
    result = result_of(run)
    del result["run"]
    content: dict[str, Any] = {"result": result, "states": states_of(run)}
    content |= {name: array.tobytes() for name, array in arrays_of(run).items()}
    content["documents"] = query(run, "SELECT * FROM documents ORDER BY name")
    content["failures"] = query(run, "SELECT json FROM failures ORDER BY number")
    for path in run.rglob("*.parquet"):
        content[path.relative_to(run).as_posix()] = path.read_bytes()
    return content
