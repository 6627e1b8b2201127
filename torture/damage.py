"""Damaged folders of runs: every command refuses them with a sentence, or repairs them."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from torture.cases import Attack, Case, Verdict
from torture.faults import with_fault
from torture.grammar import WEIRD, changed_bytes, changed_json
from torture.invariants import DATABASE, Damaged, is_prefix, read_run
from torture.processes import run
from torture.reading import READERS, complaint
from torture.scenarios import LIMIT, RESUME, RUN, SCENARIOS, SHORT, Scenario, Workspace, new_folder

ATTACKED = (
    *("family-hurried", "counts", "min-reach", "target-file", "from-data", "model-file"),
    *("identify-hurried", "explore-paper", "identify-prune", "lake-hurried", "own-hurried"),
    *("own-kept", "own-from", "bins-hurried", "fragile-hurried", "own-identify"),
)
KILLED = "killed"


def attacked(workspace: Workspace) -> list[Scenario]:
    return [SCENARIOS[name] for name in (SHORT if workspace.short else ATTACKED)]


def prepare(workspace: Workspace) -> None:
    """Play each run to its end, and once more until a kill half-way."""
    workspace.play(attacked(workspace))
    for one in attacked(workspace):
        place = new_folder(workspace.folder / KILLED / one.name)
        events = place / "events"
        run(with_fault(one.command, events=events), place, prepare=one.prepare, limit=LIMIT)
        half = len(events.read_text().splitlines()) * 2 // 3
        shutil.rmtree(place / RUN)
        run(with_fault(one.command, "kill", half), place, prepare=one.prepare, limit=LIMIT)


def judge(case: Case) -> Verdict:
    """Damage a finished or a killed run, read it, and resume it."""
    every, rng = attacked(case.workspace), case.rng
    scenario = every[case.number % len(every)]
    whole = case.workspace.reference(scenario)
    killed = case.workspace.folder / KILLED / scenario.name / RUN
    folder, source = case.folder / RUN, killed if rng.random() < 0.5 else whole
    shutil.copytree(source, folder)
    recorded = read_run(source).steps
    ways = rng.choices(WAYS, k=rng.choice((1, 1, 2)))
    where = [way(rng, folder, case.workspace) for way in ways]
    where = [scenario.name, "killed" if source is killed else "finished", *where]
    name = rng.choice(list(READERS))
    code = 0
    for words in ([*READERS[name], "--json", "--quiet"], RESUME):
        ending = run(words, case.folder, prepare=scenario.prepare, limit=LIMIT)
        code, problem = ending.code, complaint(words, ending)
        if problem is not None:
            return Verdict("other exit", f"{', '.join(where)}; {words[0]}: {problem}")
    if code == scenario.code and not scenario.simulated and set(ways) <= set(ACCIDENTS):
        try:
            kept = read_run(folder).steps
        except Damaged as error:
            return Verdict("believed", f"{', '.join(where)}: resumed, and {error}")
        names = [] if recorded is None else recorded.column_names
        if recorded is not None and not (
            kept is not None and is_prefix(recorded, kept.select(names))
        ):
            return Verdict("believed", f"{', '.join(where)}: resumed, and its episodes changed")
    return Verdict(f"resume {code}")


# ------------------------------------------------------------------------ damaged files


def _any_file(rng: random.Random, folder: Path) -> Path:
    """Mostly a file of the database."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    of_database = [path for path in files if path.name.startswith(DATABASE)]
    return rng.choice(of_database if of_database and rng.random() < 0.5 else files or [folder])


def _change_bytes(rng: random.Random, folder: Path, _: Workspace) -> str:
    path = _any_file(rng, folder)
    path.write_bytes(changed_bytes(rng, path.read_bytes()))
    return f"{path.name} flipped or cut"


def _overwrite(rng: random.Random, folder: Path, _: Workspace) -> str:
    path = _any_file(rng, folder)
    path.write_bytes(rng.randbytes(rng.choice((0, 1, 100, 10_000))))
    return f"{path.name} overwritten"


def _remove(rng: random.Random, folder: Path, _: Workspace) -> str:
    path = _any_file(rng, folder)
    path.unlink()
    return f"{path.name} removed"


def _swap(rng: random.Random, folder: Path, workspace: Workspace) -> str:
    """A file of another run, or an older one of the same run."""
    path, other = _any_file(rng, folder), rng.choice(attacked(workspace))
    places = (workspace.reference(other), workspace.folder / KILLED / other.name / RUN)
    theirs = rng.choice(places) / path.relative_to(folder)
    if theirs.is_file():
        shutil.copy(theirs, path)
    return f"{path.name} that of {other.name}"


def _replace_by_other_kind(rng: random.Random, folder: Path, _: Workspace) -> str:
    """A folder, a pipe or a link instead of a file."""
    path = _any_file(rng, folder)
    if rng.random() < 0.15 and (folder / "episodes").is_dir():
        shutil.rmtree(folder / "episodes")
        (folder / "episodes").write_bytes(b"")
        return "episodes a file"
    copy = shutil.copy(path, folder.parent / "elsewhere")
    path.unlink()
    kind = rng.choice(("folder", "pipe", "/dev/zero", "nowhere", str(path), copy))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)
    return f"{path.name} replaced by {Path(kind).name}"


def _change_rows(rng: random.Random, folder: Path, _: Workspace) -> str:
    """A shard that can be read and has another value."""
    shards = [path for path in sorted((folder / "episodes").glob("*.parquet")) if path.is_file()]
    if not shards:
        return "nothing"
    path = rng.choice(shards)
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return "nothing"
    place = rng.randrange(8)
    column, field = table.column(place).to_numpy().copy(), table.field(place)
    row = rng.randrange(len(column))
    changed = not column[row] if column.dtype.kind == "b" else column[row] + rng.choice((1, -1, 7))
    column[row] = changed
    pq.write_table(table.set_column(place, field, pa.array(column, field.type)), path)
    return f"{path.name} with another {field.name}"


# ------------------------------------------------------------------------ foreign databases

STATEMENTS = (
    "CREATE VIEW steps AS SELECT * FROM unsealed",
    "CREATE TRIGGER gone AFTER INSERT ON unsealed BEGIN DELETE FROM states; END",
    "CREATE TRIGGER loop AFTER UPDATE ON writer BEGIN DELETE FROM config; END",
    "CREATE INDEX other ON states (key)",
    "CREATE TABLE further (a)",
    "CREATE VIRTUAL TABLE search USING fts5(a)",
    "DROP TABLE unsealed",
    "DROP TABLE config; CREATE VIEW config AS SELECT '{}' AS json",
    "DROP TABLE states; CREATE TABLE states (number, key, label)",
    "DROP TABLE arrays; CREATE TABLE arrays (a)",
    "PRAGMA application_id=0",
    "PRAGMA user_version=99",
    "PRAGMA user_version=2",
    "PRAGMA journal_mode=TRUNCATE",
    "PRAGMA journal_mode=WAL",
    "PRAGMA auto_vacuum=NONE; VACUUM",
    "PRAGMA encoding='UTF-16'; PRAGMA page_size=1024; VACUUM",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql='CREATE TABLE config (json BLOB)' "
    "WHERE name='config'",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage=2 WHERE type='table'",
    "PRAGMA writable_schema=ON; DELETE FROM sqlite_schema",
    "DELETE FROM config",
    "INSERT INTO config SELECT * FROM config",
    "DELETE FROM sealed",
    "UPDATE sealed SET episodes=episodes+1",
    "UPDATE sealed SET episodes=-1",
    "UPDATE sealed SET episodes=1e300",
    "UPDATE sealed SET episodes='many'",
    "INSERT INTO sealed VALUES (3)",
    "DELETE FROM writer",
    "UPDATE writer SET token='x', closed='y'",
    "DELETE FROM states WHERE number=1",
    "UPDATE states SET key=x'ff00' WHERE number=0",
    "UPDATE states SET key=(SELECT max(key) FROM states)",
    "DELETE FROM arrays",
    "UPDATE arrays SET checksum=0",
    "DELETE FROM unsealed WHERE episode=(SELECT min(episode) FROM unsealed)",
    "UPDATE unsealed SET steps=x'00'",
    "UPDATE unsealed SET steps=x''",
    "UPDATE unsealed SET steps='text'",
    "UPDATE unsealed SET steps=zeroblob(length(steps))",
    "UPDATE unsealed SET observations=x'41'",
    "UPDATE unsealed SET checksum='s'",
    "UPDATE result SET state='odd'",
    "DELETE FROM result",
    "INSERT INTO failures VALUES (NULL, '{}')",
    "DELETE FROM documents",
)


def _execute(rng: random.Random, folder: Path, _: Workspace) -> str:
    """Change the schema or the content of the database."""
    statement = rng.choice(STATEMENTS)
    with suppress(sqlite3.Error, ValueError), closing(_opened(folder)) as connection:
        connection.executescript(statement)
    return statement[:60]


def _change_json(rng: random.Random, folder: Path, _: Workspace) -> str:
    """Odd values in the configuration, the answer, a document or a failure."""
    name = rng.choice(("config", "config", "config", "result", "documents", "failures"))
    with suppress(sqlite3.Error, ValueError), closing(_opened(folder)) as connection:
        rows = connection.execute(f"SELECT json FROM {name}").fetchall()  # noqa: S608
        if rows:
            (before,) = rng.choice(rows)
            after: object = changed_json(rng, json.loads(before)).encode(errors="replace").decode()
            after = rng.choice((b"\xff", 3, after)) if rng.random() < 0.1 else after
            update = f"UPDATE {name} SET json=? WHERE json=?"  # noqa: S608
            connection.execute(update, (after, before))
    return f"odd values in {name}"


def _change_array(rng: random.Random, folder: Path, _: Workspace) -> str:
    """An array with a valid checksum and something else in it."""
    name = "none"
    with suppress(sqlite3.Error, ValueError, TypeError), closing(_opened(folder)) as connection:
        query = "SELECT number, name, dtype, shape, data FROM arrays ORDER BY number"
        rows = connection.execute(query).fetchall()
        if rows:
            number, name, dtype, shape, data = rng.choice(rows)
            array = np.frombuffer(data, dtype).reshape(json.loads(shape))
            changes: tuple[Callable[[], object], ...] = (
                lambda: array.reshape(-1)[: array.size // 2],
                lambda: np.zeros((0,) * max(1, array.ndim)),
                lambda: array + np.asarray(rng.choice((1, -1, 2**40))),
                lambda: array * np.nan,
                lambda: np.array([rng.choice(("x", "\udcff"))]),
            )
            other = np.asarray(rng.choice(changes)())
            values = [other.dtype.str, json.dumps(other.shape), zlib.crc32(other.tobytes())]
            statement = "UPDATE arrays SET dtype=?, shape=?, checksum=?, data=? WHERE number=?"
            connection.execute(statement, (*values, other.tobytes(), number))
            if rng.random() < 0.2:
                odd = json.dumps(rng.choice(WEIRD[:16]))
                connection.execute("UPDATE arrays SET shape=? WHERE number=?", (odd, number))
    return f"odd array {name}"


def _opened(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / DATABASE, isolation_level=None)


Way = Callable[[random.Random, Path, Workspace], str]
ACCIDENTS: tuple[Way, ...] = (_change_bytes, _overwrite, _remove)
"""What a disk or a careless user does. The rest are forgeries, which need only be survived."""

WAYS: tuple[Way, ...] = (
    *(_change_bytes, _change_bytes, _change_bytes, _overwrite, _remove, _swap, _swap),
    *(_replace_by_other_kind, _change_rows, _execute, _execute, _execute, _execute),
    *(_change_json, _change_json, _change_array),
)

DAMAGE = Attack(
    "damage",
    "files of finished and killed runs flipped, cut, removed, swapped, replaced; foreign "
    "databases with views, triggers, other schemas and types; then read and resumed",
    judge,
    lambda workspace: 12 if workspace.short else 1500,
    prepare,
)
