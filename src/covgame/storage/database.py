"""The database of a run, ``run.db``: SQLite with the tables below and nothing else.

Whatever has to agree changes in one transaction. A process that is killed leaves the last committed
transaction, and readers see one too while another process writes.

One process writes at a time. The writer is always in a write transaction: ``commit`` ends one and
begins the next at once. A second writer that gets in between is told by a token in the table
``writer``, and stops there.

The journal is a write-ahead log on local disks, and a rollback journal on network file systems,
where SQLite's shared memory does not work (docs/decisions/0030-sqlite.md).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from covgame.errors import BadInput, CovgameWarning, StorageFailed
from covgame.signals import OneProcess
from covgame.storage import files

NAME = "run.db"
SIDE_FILES = ("-wal", "-shm", "-journal")
APPLICATION_ID = 0x636F7667
VERSION = 3
"""``user_version`` of the database; 1 and 2 were folders of JSON files."""

SCHEMA = {
    "config": "CREATE TABLE config (json TEXT NOT NULL)",
    "result": "CREATE TABLE result (json TEXT NOT NULL, state TEXT NOT NULL)",
    "documents": "CREATE TABLE documents (name TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID",
    "states": "CREATE TABLE states (number INTEGER PRIMARY KEY, key TEXT NOT NULL, label TEXT)",
    "failures": "CREATE TABLE failures (number INTEGER PRIMARY KEY, json TEXT NOT NULL)",
    "arrays": (
        "CREATE TABLE arrays (number INTEGER PRIMARY KEY, name TEXT NOT NULL, dtype TEXT NOT NULL, "
        "shape TEXT NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL)"
    ),
    "unsealed": (
        "CREATE TABLE unsealed (episode INTEGER PRIMARY KEY, steps BLOB NOT NULL, "
        "observations BLOB, checksum INTEGER NOT NULL)"
    ),
    "sealed": "CREATE TABLE sealed (episodes INTEGER NOT NULL)",
    "writer": "CREATE TABLE writer (token INTEGER NOT NULL, closed INTEGER NOT NULL)",
}

SECONDS_TO_WAIT = 20.0
"""For another process to finish a short transaction."""

SECONDS_TO_TAKE_OVER = 2.0
"""A process that was just killed may take a moment to release its locks."""

COMMITS_PER_CHECKPOINT = 1000
"""The log grows by a few pages with each."""

CONFIRMATIONS = 3
"""A writer that does not answer is gone if the lock was free so many times in a row."""

NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs"),
        *("glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "panfs", "pvfs2"),
        *("smb3", "smbfs"),
    }
)

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
ADVICE = {
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_READONLY: "make its folder writable",
    sqlite3.SQLITE_PERM: "make its folder writable",
    sqlite3.SQLITE_CANTOPEN: "make its folder writable",
}
RESTORE = "restore it from a copy"

_warned = threading.Event()


def create(path: Path, rows: Mapping[str, list[tuple[Any, ...]]]) -> None:
    """Write a new database with these rows by table; it appears whole or not at all."""
    draft = files.draft_of(path)
    try:
        with _WriteErrors(path):
            connection = sqlite3.connect(draft, isolation_level=None)
            with contextlib.closing(connection):
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
                connection.execute("PRAGMA journal_mode=OFF")  # a draft is never recovered
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={VERSION}")
                _begin_draft(connection)
                for statement in SCHEMA.values():
                    connection.execute(statement)
                start: dict[str, list[tuple[Any, ...]]] = {"sealed": [(0,)], "writer": [(0, 1)]}
                for table, content in (start | dict(rows)).items():
                    for row in content:
                        places = ", ".join("?" * len(row))
                        connection.execute(f"INSERT INTO {table} VALUES ({places})", row)  # noqa: S608
                connection.execute("COMMIT")
        files.put_in_place(draft, path, new=True)
    except BaseException:
        files.discard(draft)
        raise


def _begin_draft(connection: sqlite3.Connection) -> None:
    """A file system without locks refuses them even where no other process has the file."""
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("BEGIN IMMEDIATE")
        return
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    connection.execute("BEGIN")


# -------------------------------------------------------------------------------- reading


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads one consistent state of a database, and changes nothing."""
    with _read_errors(path), _readable(path) as connection:
        connection.execute("BEGIN")
        yield connection


def check(path: Path) -> None:
    """Refuse a file that is no database of a run, of another version, or damaged."""
    for name in (path, *(path.with_name(path.name + suffix) for suffix in SIDE_FILES)):
        if name.is_symlink() or (name.exists() and not name.is_file()):
            raise BadInput(f"{name} is no ordinary file; put the file itself there")
    with reading(path) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        found = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
        if application == APPLICATION_ID and version > VERSION:
            raise BadInput(
                f"{path} was written by a newer covgame (format {version}, this one reads "
                f"{VERSION}); upgrade: pip install --upgrade covgame"
            )
        expected = {("table", name, statement) for name, statement in SCHEMA.items()}
        if (application, version) != (APPLICATION_ID, VERSION) or set(found) != expected:
            raise BadInput(f"{path} is no database of a covgame run; {RESTORE}")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise BadInput(f"{path} is damaged ({verdict.splitlines()[0]}); {RESTORE}")
        for table in ("config", "sealed", "writer"):
            (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
            if rows != 1:
                raise BadInput(f"{path} is damaged: {table} has {rows} rows, not 1; {RESTORE}")


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database where it is, or a copy where its folder cannot be written to.

    After a kill, SQLite needs its side files to recover the last transactions.
    """
    try:
        connection = _connect(path, "ro")
    except sqlite3.OperationalError as error:
        if not path.is_file() or _code(error) in DAMAGED:
            raise
        with tempfile.TemporaryDirectory() as folder:
            for suffix in ("", "-wal", "-journal"):
                source = path.with_name(path.name + suffix)
                if source.is_file():
                    shutil.copyfile(source, Path(folder, NAME + suffix))
            with contextlib.closing(_connect(Path(folder, NAME), "rw")) as connection:
                yield connection
        return
    with contextlib.closing(connection):
        yield connection


def _connect(path: Path, mode: str, vfs: str = "") -> sqlite3.Connection:
    """Open a database, and read its schema: none of its views, triggers or functions is run."""
    address = f"{path.absolute().as_uri()}?mode={mode}{'&vfs=' + vfs if vfs else ''}"
    connection = sqlite3.connect(
        address, SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False, uri=True
    )
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        if vfs or sys.platform == "win32" or not _lacks_locks(path.parent, error):
            raise
        return _connect(path, mode, "unix-none")
    return connection


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _lacks_locks(folder: Path, error: sqlite3.DatabaseError) -> bool:
    """Whether a database cannot be opened because its file system has no locks."""
    if _code(error) not in (*BUSY, sqlite3.SQLITE_IOERR):
        return False
    draft = files.draft_of(folder / "locks")
    try:
        with contextlib.closing(sqlite3.connect(draft, 0.0, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        if not _warned.is_set():
            _warned.set()
            warnings.warn(
                f"the file system of {folder} has no locks, so a second process that writes to "
                "the same run goes unnoticed",
                CovgameWarning,
                stacklevel=2,
            )
        return True
    finally:
        files.discard(draft)
    return False


@contextlib.contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        if isinstance(error, sqlite3.Error) and _code(error) in BUSY:
            raise BadInput(f"{path} is in use by another process; try again") from error
        raise BadInput(f"{path} cannot be read ({error}); {RESTORE}") from error
    except UnicodeDecodeError as error:  # in a message of SQLite that cites a damaged schema
        raise BadInput(f"{path} is damaged; {RESTORE}") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from error


class _WriteErrors:
    """Raise what SQLite reports while it writes as ``StorageFailed`` or ``BadInput``.

    Not a generator: it is entered several times an episode.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, sqlite3.Error) or _code(error) == sqlite3.SQLITE_ERROR:
            return  # the latter is a mistake in a statement
        if _code(error) in DAMAGED:
            raise BadInput(f"{self.path} is damaged ({error}); {RESTORE}") from error
        advice = ADVICE.get(_code(error), "check the disk and its free space")
        raise StorageFailed(f"{self.path} cannot be written ({error}): {advice}") from error


# -------------------------------------------------------------------------------- writing


class Writer:
    """The one process that writes to a database, from opening until ``close``.

    Statements between two calls of ``commit`` are one transaction.

    Args:
        path: A database that ``check`` accepts.

    Raises:
        BadInput: Another process writes to it, or it cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._errors = _WriteErrors(path)
        self.process = OneProcess()
        self.token = secrets.randbits(62) + 1
        self._connection: sqlite3.Connection | None = None
        self._guard: sqlite3.Connection | None = None
        self._open_read: sqlite3.Cursor | None = None
        self._commits = 0
        try:
            with self._errors:
                self._connection = _connect(path, "rw")
                self._run = self._connection.execute
                self._take_over()
                self._has_log = not is_on_network(path)
                self._run("COMMIT")
                self._run(f"PRAGMA journal_mode={'WAL' if self._has_log else 'TRUNCATE'}")
                self._run("PRAGMA synchronous=NORMAL")
                self._run("PRAGMA wal_autocheckpoint=0")
                self._begin()
        except StorageFailed as error:
            self._disconnect()
            raise BadInput(
                f"{path.parent} cannot be written to: {error}, or make a copy"
            ) from error
        except BaseException:
            self._disconnect()
            raise

    def _take_over(self) -> None:
        """Become the writer; the transaction that says so is still to be committed."""
        self._run("PRAGMA busy_timeout=0")
        until, free = time.monotonic() + SECONDS_TO_TAKE_OVER, 0
        while True:
            try:
                self._run("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if _code(error) not in BUSY:
                    raise
                free = 0
                if time.monotonic() > until:
                    raise BadInput(
                        f"another process is writing to {self.path.parent}; wait until it ends, "
                        "then resume"
                    ) from error
            else:
                free += 1
                if self._run("SELECT closed FROM writer").fetchone() == (1,):
                    break
                if free == CONFIRMATIONS:
                    break
                self._run("ROLLBACK")
            time.sleep(0.02)
        self._run(f"PRAGMA busy_timeout={int(1000 * SECONDS_TO_WAIT)}")
        self._run("UPDATE writer SET token=?, closed=0", (self.token,))

    def _begin(self) -> None:
        """Begin the next transaction, unless another writer has begun one in between.

        With a write-ahead log, a query is kept open from one transaction to the next. SQLite then
        keeps its read lock, which takes half the system calls of a commit, and refuses to begin if
        another process has written since.
        """
        try:
            self._run("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if _code(error) not in BUSY:
                raise
            raise self._lost() from error
        if self._open_read is not None:
            return
        if self._run("SELECT token FROM writer").fetchone() != (self.token,):
            self._run("ROLLBACK")
            raise self._lost()
        if self._has_log:
            self._open_read = self._run("SELECT token FROM writer")

    def _end_read(self) -> None:
        if self._open_read is not None:
            self._open_read.close()
            self._open_read = None

    def _lost(self) -> StorageFailed:
        return StorageFailed(
            f"another process has taken over {self.path.parent}; what was played before is saved"
        )

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        """Run a statement; it takes effect with the next ``commit``."""
        with self._errors:
            self._run(statement, values)

    def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query, what is not committed yet included."""
        with self._errors:
            return self._run(statement).fetchall()

    def commit(self, *, durable: bool = False) -> None:
        """End a transaction. If it is ``durable``, it also survives a power cut from now on."""
        self.process.check()
        files.at("commit", self.path)
        with self._errors:
            try:
                self._run("COMMIT")
                self._commits += 1
                if durable or self._commits % COMMITS_PER_CHECKPOINT == 0:
                    self._checkpoint()
                self._begin()
            except BaseException:
                self._rollback()
                self._begin_again()
                raise
        files.at("after commit", self.path)

    def _checkpoint(self) -> None:
        """Move the log into the database, which may take a while, and synchronise both.

        Meanwhile another connection holds the lock: otherwise a second process could take over.
        """
        if not self._has_log:
            return
        self._end_read()
        if self._guard is None:
            self._guard = _connect(self.path, "rw")
        self._guard.execute("BEGIN IMMEDIATE")
        try:
            self._run("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            self._guard.rollback()

    def _begin_again(self) -> None:
        if self._connection is not None and not self._connection.in_transaction:
            self._begin()

    def rollback(self) -> None:
        """Undo the statements since the last ``commit``."""
        with self._errors:
            self._rollback()
            self._begin_again()

    def _rollback(self) -> None:
        self._end_read()
        if self._connection is not None and self._connection.in_transaction:
            self._connection.rollback()

    def close(self) -> None:
        """Release the database; what was not committed is undone.

        The log is moved into the database and removed, unless another process still reads it.
        """
        if self._connection is None:
            return
        try:
            with contextlib.suppress(sqlite3.Error):
                self._rollback()
                self._close_guard()
                self._connection.execute("PRAGMA busy_timeout=0")
                changed = "UPDATE writer SET closed=1 WHERE token=?"
                self._connection.execute(changed, (self.token,))
                self._connection.executescript("PRAGMA incremental_vacuum")
                self._connection.execute("PRAGMA journal_mode=DELETE")
        finally:
            self._disconnect()

    def _close_guard(self) -> None:
        if self._guard is not None:
            guard, self._guard = self._guard, None
            guard.close()

    def _disconnect(self) -> None:
        self._close_guard()
        self._end_read()
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def __del__(self) -> None:
        if self._connection is not None and self.process.pid == os.getpid():
            self.close()


def is_on_network(path: Path) -> bool:
    """Whether a file lies on a network file system, as far as the system tells."""
    if sys.platform == "win32":
        return str(path.absolute()).startswith("\\\\")
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    kinds = {}
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(" ")
        kinds[place.replace("\\040", " ")] = kind
    found = path.resolve()
    return next(
        (kinds[str(one)] in NETWORK_FILE_SYSTEMS for one in found.parents if str(one) in kinds),
        False,
    )
