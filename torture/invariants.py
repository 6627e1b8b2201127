"""The judge: what must be true of the folder of a run, read without any code of covgame.

The database is read with sqlite3, the shards with pyarrow, as the contract describes them.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

DATABASE = "run.db"
END = -1
COLUMNS = ("episode", "stage", "state", "action", "reward", "next_state", "terminated", "truncated")
VOLATILE = {"run", "given"}
"""Parts of an answer that say where a run is."""


@dataclass(frozen=True)
class Stored:
    """The content of a run's folder."""

    tables: dict[str, list[tuple[Any, ...]]]
    sealed: int  # episodes in shards, as the database says
    unsealed: int  # episodes in the database
    steps: pa.Table | None  # of both; without observations, if some are unsealed
    arrays: dict[str, npt.NDArray[Any]]

    @property
    def episodes(self) -> int:
        return self.sealed + self.unsealed

    @property
    def config(self) -> dict[str, Any]:
        return dict(json.loads(self.tables["config"][0][0]))

    @property
    def result(self) -> dict[str, Any]:
        rows = self.tables["result"]
        return dict(json.loads(rows[0][0])) if rows else {}

    @property
    def is_finished(self) -> bool:
        return bool(self.tables["result"]) and self.tables["result"][0][1] == "finished"


class Damaged(Exception):
    """A folder that does not hold a consistent run."""


def read_run(folder: Path) -> Stored:
    """Read a run as a kill or a normal end leaves it; a ``Damaged`` if anything disagrees."""
    tables = read_tables(folder / DATABASE)
    sealed, rows = tables["sealed"][0][0], tables["unsealed"]
    if [row[0] for row in rows] != list(range(sealed, sealed + len(rows))):
        raise Damaged(f"the unsealed episodes do not follow the {sealed} sealed ones")
    table = steps_of(folder / "episodes")
    if table is not None:
        table = table.filter(pa.compute.less(table["episode"], sealed))
    found = 0 if table is None else len(set(table["episode"].to_pylist()))
    if found != sealed and not is_by_counts(json.loads(tables["config"][0][0])):
        raise Damaged(f"the shards hold {found} episodes, the database says {sealed}")
    unsealed = [_steps(*row) for row in rows]
    parts = [one for one in (table, *unsealed) if one is not None]
    if unsealed:
        names = unsealed[0].column_names
        parts = [one.select(names) for one in parts]
    steps = pa.concat_tables(parts, promote_options="default") if parts else None
    return Stored(tables, sealed, len(rows), steps, _arrays(tables["arrays"]))


def read_tables(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The tables of a database, read from a copy: opening it may move its log into it."""
    with tempfile.TemporaryDirectory() as place:
        for suffix in ("", "-wal", "-journal"):
            if path.with_name(path.name + suffix).exists():
                shutil.copy(path.with_name(path.name + suffix), place)
        try:
            with closing(sqlite3.connect(Path(place, path.name))) as connection:
                verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
                if verdict != "ok":
                    raise Damaged(f"{path.name}: {verdict}")
                names = connection.execute("SELECT name FROM sqlite_schema WHERE type='table'")
                return {
                    name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()  # noqa: S608
                    for (name,) in names.fetchall()
                }
        except sqlite3.Error as error:
            raise Damaged(f"{path.name}: {error}") from error


def steps_of(folder: Path) -> pa.Table | None:
    """The rows of all shards in order, None if there are none."""
    try:
        tables = [
            pq.read_table(path, page_checksum_verification=True)
            for path in sorted(folder.glob("part-*.parquet"))
        ]
    except (OSError, pa.ArrowException) as error:
        raise Damaged(f"a shard cannot be read: {error!r:.120}") from error
    return pa.concat_tables(tables, promote_options="default") if tables else None


def is_by_counts(config: dict[str, Any]) -> bool:
    """Whether a run has no episodes."""
    paper = config["preset"] == "paper" and config["command"] != "cover"
    return bool(config["play"] == "counts" or (paper and config["play"] != "exact"))


def _steps(number: int, steps: bytes, _observations: bytes | None, _checksum: int) -> pa.Table:
    """The steps of an unsealed episode, in the columns of a shard."""
    seed, ended, *_ = numbers = np.frombuffer(steps, "<i8").copy()
    state, action, following, rewards = numbers[2:].reshape(4, -1)
    rewards, length = rewards.view("<f8"), len(state)
    terminated, truncated = np.zeros(length, bool), np.zeros(length, bool)
    terminated[-1] = ended
    truncated[-1] = not terminated[-1]
    following[-1] = max(END, following[-1])
    stage = np.arange(length, dtype=np.int32)
    columns = [np.full(length, number), stage, state, action.astype(np.int32), rewards, following]
    table = pa.table([*columns, terminated, truncated], names=list(COLUMNS))
    return table if seed < 0 else table.append_column("seed", [[seed] * length])


def _arrays(rows: list[tuple[Any, ...]]) -> dict[str, npt.NDArray[Any]]:
    arrays = {}
    for _, name, dtype, shape, _, data in rows:  # all of them are small: one row each
        arrays[name] = np.frombuffer(data, dtype).reshape(json.loads(shape))
    return arrays


def interrupted_problems(folder: Path) -> list[str]:
    """What is wrong with a run that was killed at any instant."""
    if not (folder / DATABASE).exists():
        return []
    try:
        stored = read_run(folder)
    except Damaged as error:
        return [str(error)]
    return [*_bad_rows(stored)]


def problems(folder: Path) -> list[str]:
    """What is wrong with a run that has ended, or was stopped by anything but a kill."""
    try:
        return [*_disagreements(folder, read_run(folder))]
    except Damaged as error:
        return [str(error)]


def _disagreements(folder: Path, stored: Stored) -> Iterator[str]:
    yield from _bad_rows(stored)
    if stored.unsealed:
        yield f"{stored.unsealed} episodes are not sealed"
    drafts = [path.name for path in folder.rglob("*.draft")]
    if drafts:
        yield f"{drafts[0]} is left"
    config, result, arrays = stored.config, stored.result, stored.arrays
    if not result or not arrays:
        yield "it has no answer or no state"
        return
    played = int(result["episodes"])
    # The counts of exploration as published are those of its last phase.
    is_last_phase = config["command"] == "explore" and config["preset"] == "paper"
    counted = int(arrays["episodes"]) + int(arrays.get("part_episodes", 0))
    given = sum(one["episodes"] for one in config["given"])
    if counted != played + given and not is_last_phase:
        yield f"the state is of {counted} episodes, the answer of {played} beside {given} given"
    if not is_by_counts(config) and stored.episodes != played:
        yield f"there are {stored.episodes} episodes, the answer says {played}"
    if stored.steps is not None and not is_last_phase:
        visits = arrays["visits"] + arrays.get("part_visits", 0)
        found = np.zeros_like(visits)
        places = sorted((folder / "given").glob("[0-9]*"))
        for steps in (stored.steps, *(steps_of(place) for place in places)):
            if steps is not None:
                cells = [steps[name].to_numpy() for name in ("stage", "state", "action")]
                np.add.at(found, tuple(cells), 1)
        if not np.array_equal(found, visits):
            yield f"{int(np.abs(found - visits).sum())} visits are not those of the rows"


def _bad_rows(stored: Stored) -> Iterator[str]:
    """Episodes are numbered without a gap, and each has exactly one end, in known states."""
    if stored.steps is None or not len(stored.steps):
        return
    columns = {name: stored.steps[name].to_numpy() for name in COLUMNS}
    episode, stage = columns["episode"], columns["stage"]
    first, last = np.append(True, np.diff(episode) != 0), np.append(np.diff(episode) != 0, True)
    if not np.array_equal(episode, np.cumsum(first) - 1):
        yield "the numbers of episodes are not 0, 1, 2, ..."
    if not np.array_equal(stage, np.arange(len(stage)) - np.flatnonzero(first)[episode]):
        yield "stages do not count up from 0 in every episode"
    if stage.max() >= stored.config["horizon"]:
        yield f"there is a stage {stage.max()}, and the horizon is {stored.config['horizon']}"
    ends = columns["terminated"].astype(int) + columns["truncated"]
    if not np.array_equal(ends, last):
        yield "not exactly the last step of every episode is either terminated or truncated"
    if not np.array_equal(columns["next_state"][~last], columns["state"][~first]):
        yield "a step does not begin where the one before it led to"
    known = len(stored.tables["states"])
    most = max(columns["state"].max(), columns["next_state"].max())
    if known and most >= known:
        yield f"a row has state {most}, and {known} states are known"


def differences(folder: Path, whole: Path, *, exact: bool, same_bytes: bool) -> list[str]:
    """How a run that was interrupted and resumed differs from the unbroken one."""
    found = problems(folder)
    if found:
        return found
    mine, theirs = read_run(folder), read_run(whole)
    names = sorted((mine.result.keys() | theirs.result.keys()) - VOLATILE)
    for name in names if exact else ("covered", "stopped"):
        values = [one.result.get(name) for one in (mine, theirs)]
        if values[0] != values[1]:
            found.append(f"the answer: {name} is {values[0]!r:.60}, not {values[1]!r:.60}")
    if not exact:
        return found
    if not _equal_tables(mine.steps, theirs.steps):
        found.append("the episodes are not those of the unbroken run")
    contents = [_comparable(one) for one in (mine, theirs)]
    names = sorted(contents[0].keys() | contents[1].keys())
    found += [f"{name} differs" for name in names if contents[0].get(name) != contents[1].get(name)]
    if same_bytes and shard_bytes(folder) != shard_bytes(whole):
        found.append("the shards have other bytes")
    return found


def _comparable(stored: Stored) -> dict[str, object]:
    """Tables and arrays that are the same in equal runs."""
    names = ("config", "documents", "states", "sealed")
    tables: dict[str, object] = {f"the table {name}": stored.tables[name] for name in names}
    tables["the table failures"] = [json.loads(row[-1]) for row in stored.tables["failures"]]
    arrays = stored.arrays.items()
    return tables | {f"the array {name}": (one.shape, one.tobytes()) for name, one in arrays}


def shard_bytes(folder: Path) -> dict[str, bytes]:
    """The content of every sealed file."""
    return {path.name: path.read_bytes() for path in (folder / "episodes").glob("*.parquet")}


def is_prefix(steps: pa.Table | None, whole: pa.Table | None) -> bool:
    """Whether these are the first episodes of the unbroken run."""
    if steps is None or not len(steps):
        return True
    if whole is None or not set(steps.column_names) <= set(whole.column_names):
        return False
    end = steps["episode"][-1].as_py()
    first = whole.filter(pa.compute.less_equal(whole["episode"], end))
    return _equal_tables(steps, first.select(steps.column_names))


def _equal_tables(one: pa.Table | None, other: pa.Table | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.combine_chunks().equals(other.combine_chunks()))
