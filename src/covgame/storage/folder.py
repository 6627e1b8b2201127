"""The folder of a run: ``run.db``, sealed ``episodes/*.parquet``, and the data it started from."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from covgame.errors import BadInput, StorageFailed
from covgame.failures import Failure
from covgame.jsonfile import check_content, is_file, is_folder, parse_json
from covgame.names import Names
from covgame.storage import database
from covgame.storage.database import RESTORE, Writer
from covgame.storage.files import discard_drafts, inside, make_folder
from covgame.storage.trust import resume_command

FORMAT = f"covgame-run/{database.VERSION}"
DATABASE = database.NAME
EPISODES, GIVEN, REPORT = "episodes", "given", "report.html"
MODEL, TARGET, NAMES, CERTIFICATE = "model", "target", "names", "certificate"
"""Documents in the database."""

BYTES_PER_ROW = 2**28
"""SQLite takes at most 10^9 bytes in one place."""

Arrays = dict[str, npt.NDArray[Any]]


class Size(NamedTuple):
    """How many states and actions there are."""

    states: int | None  # None: they are discovered
    actions: int
    plays: bool  # whether covgame plays the episodes, or a program with its own loop
    possible: int | None  # states at most, where that is known


class RunFolder:
    """Where a run lives. ``run.db`` appears first; from then on the run can be resumed.

    Reading needs no lock and writes nothing, so a run can be read while it is played, after a kill,
    and where its folder is read-only.

    Attributes:
        path: The folder as the user names it.
        place: The same as an absolute path, for environments that change the current folder.
        config: What was asked for, as the table ``config`` has it.
        finished: Whether the run has come to its end.
    """

    def __init__(self, path: Path, config: dict[str, Any], *, finished: bool = False) -> None:
        self.path, self.place = path, path.absolute()
        self.config, self.finished = config, finished
        self.writer: Writer | None = None

    @classmethod
    def create(
        cls,
        path: Path,
        config: Mapping[str, Any],
        documents: Mapping[str, str],
        states: tuple[list[str], list[str] | None] | None = None,
        fill: Callable[[RunFolder], None] | None = None,
    ) -> RunFolder:
        """Make the folder of a new run; ``fill`` writes other files before ``run.db`` appears."""
        _check_is_free(path)
        folder = cls(path, {"format": FORMAT, **config})
        rows: dict[str, list[tuple[Any, ...]]] = {
            "config": [(json.dumps(folder.config, allow_nan=False),)],
            "documents": list(documents.items()),
            "states": _state_rows(*states) if states is not None else [],
        }
        try:
            make_folder(folder.place)
            discard_drafts(folder.place)
            if fill is not None:
                fill(folder)
            database.create(folder.database, rows)
        except StorageFailed as error:
            _check_is_free(path)  # another process may have begun one
            raise BadInput(f"no run can be written to {path}: {error}") from error
        return folder

    @classmethod
    def around(cls, path: str | Path) -> RunFolder | None:
        """The run that ``path`` is or belongs to: ``RUN``, ``RUN/episodes`` or ``RUN/given/00``."""
        if is_file(str(Path(path) / DATABASE)):
            return cls.open(path)
        if not is_folder(str(path)):
            return None
        place = Path(os.path.realpath(path))
        for run in (place.parent, place.parent.parent):
            is_part = place == run / EPISODES or place.parent == run / GIVEN
            if is_part and is_file(str(run / DATABASE)):
                return cls.open(run)
        return None

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open an existing run, or say what is wrong with it."""
        path = Path(path)
        if not is_file(str(path / DATABASE)):
            raise BadInput(f"'{path}' is not a covgame run")
        place = path.absolute() / DATABASE
        database.check(place)
        with database.reading(place) as connection:
            config = _json_of(connection, "SELECT json FROM config", place)
            ended = connection.execute("SELECT state FROM result").fetchone()
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            raise BadInput(f"{path / DATABASE} is damaged: it has no configuration; {RESTORE}")
        return cls(path, config, finished=ended == ("finished",))

    @property
    def database(self) -> Path:
        return self.place / DATABASE

    @property
    def episodes(self) -> Path:
        return inside(self.place, EPISODES)

    @property
    def horizon(self) -> int:
        horizon = self.config.get("horizon")
        if not isinstance(horizon, int) or horizon < 1:
            raise BadInput(f"{self.database} is damaged: its horizon is {horizon!r}")
        return horizon

    # ------------------------------------------------------------------------ writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writer]:
        """The writer of the run: the one that records it, or one for a single transaction."""
        if self.writer is not None:
            yield self.writer
            return
        writer = Writer(self.database)
        try:
            yield writer
        finally:
            writer.close()

    def write_document(self, name: str, text: str) -> None:
        """Replace a document."""
        with self.writing() as writer:
            writer.execute("REPLACE INTO documents VALUES (?, ?)", (name, text))
            writer.commit()

    def remove_document(self, name: str) -> None:
        """Remove a document, if there is one."""
        with self.writing() as writer:
            writer.execute("DELETE FROM documents WHERE name=?", (name,))
            writer.commit()

    def save_result(self, result: Mapping[str, Any], *, finished: bool) -> None:
        """Replace the answer."""
        text = json.dumps(result, allow_nan=False)
        with self.writing() as writer:
            writer.execute("DELETE FROM result")
            state = "finished" if finished else "stopped"
            writer.execute("INSERT INTO result VALUES (?, ?)", (text, state))
            writer.commit(durable=True)
        self.finished = finished

    # ------------------------------------------------------------------------ reading

    def read_document(self, name: str) -> Any:
        """The content of a document, None if there is none."""
        with database.reading(self.database) as connection:
            statement = "SELECT json FROM documents WHERE name=?"
            return _json_of(connection, statement, self.database, (name,))

    def load_result(self) -> dict[str, Any]:
        """The answer that was saved last, empty if there is none."""
        with database.reading(self.database) as connection:
            result = _json_of(connection, "SELECT json FROM result", self.database)
        if not isinstance(result, dict | None):
            raise BadInput(f"{self.database} is damaged: it holds no valid answer; {RESTORE}")
        return result or {}

    def load_states(self) -> tuple[list[str], list[str] | None] | None:
        """(keys, labels) in order, None if states are numbered by the environment."""
        with database.reading(self.database) as connection:
            statement = "SELECT number, key, label FROM states ORDER BY number"
            rows = connection.execute(statement).fetchall()
        if not rows:
            return None
        for place, (number, key, label) in enumerate(rows):
            if number != place or not isinstance(key, str) or not isinstance(label, str | None):
                raise BadInput(f"{self.database} is damaged: it lacks state {place}; {RESTORE}")
        labels = [label for _, _, label in rows]
        return [key for _, key, _ in rows], None if None in labels else labels

    def load_failures(self, recorded: int | None = None) -> list[Failure]:
        """The failures of a run.

        Of those that count as episodes only the ones among the first ``recorded``: an episode that
        was not recorded in time is played again, and fails again.
        """
        with database.reading(self.database) as connection:
            rows = connection.execute("SELECT json FROM failures ORDER BY number").fetchall()
        try:
            found = [Failure.from_dict(json.loads(text)) for (text,) in rows]
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BadInput(f"{self.database} is damaged in its failures; {RESTORE}") from error
        return [
            one
            for one in found
            if recorded is None or one.then == "set aside" or one.episode < recorded
        ]

    def load_size(self) -> Size | None:
        """How many states and actions there are; None if nothing was saved yet."""
        if "size" in self.config:
            from covgame.storage.config import SizeFile

            known = check_content(SizeFile, self.config["size"], self.database)
            return Size(**known.model_dump())
        arrays = self.load_arrays()  # of simulated runs
        if arrays is None:
            return None
        _, states, actions = arrays["visits"].shape
        return Size(states, actions, plays=True, possible=None)

    def load_names(self) -> Names:
        """What states and actions are called, as far as that is known."""
        found, known = self.read_document(NAMES) or {}, self.load_states()
        try:
            states = found.get("states") if known is None else known[1]
            actions, grid, places = (found.get(name) for name in ("actions", "grid", "places"))
            return Names(
                None if states is None else [str(name) for name in states],
                None if actions is None else [str(name) for name in actions],
                None if grid is None else (int(grid[0]), int(grid[1])),
                None if places is None else [str(place) for place in places],
            )
        except (AttributeError, TypeError, ValueError, LookupError) as error:
            raise BadInput(f"{self.database} is damaged in its names; {RESTORE}") from error

    def load_arrays(self) -> Arrays | None:
        """The state of the game as it was saved last, None if nothing was saved."""
        with database.reading(self.database) as connection:
            statement = "SELECT name, dtype, shape, checksum, data FROM arrays ORDER BY number"
            rows = connection.execute(statement).fetchall()
        if not rows:
            return None
        try:
            return _checked_counts(_decode_arrays(rows), self.config.get("horizon"))
        except (ValueError, TypeError, OverflowError) as error:
            raise BadInput(f"{self.database}: the saved state is damaged ({error})") from error


def save_arrays(writer: Writer, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Replace the state of the game."""
    writer.execute("DELETE FROM arrays")
    for name, array in arrays.items():
        about = (name, array.dtype.str, json.dumps(array.shape))
        data = memoryview(np.ascontiguousarray(array).tobytes())
        for first in range(0, max(1, len(data)), BYTES_PER_ROW):
            part = data[first : first + BYTES_PER_ROW]
            values = (*about, zlib.crc32(part), part)
            writer.execute("INSERT INTO arrays VALUES (NULL, ?, ?, ?, ?, ?)", values)


def _decode_arrays(rows: Iterable[tuple[Any, ...]]) -> Arrays:
    parts: dict[str, list[bytes]] = {}
    kinds: dict[str, tuple[str, str]] = {}
    for name, dtype, shape, checksum, data in rows:
        if not isinstance(data, bytes) or zlib.crc32(data) != checksum:
            raise ValueError(f"{name} has another checksum")
        parts.setdefault(name, []).append(data)
        kinds[name] = (dtype, shape)
    arrays: Arrays = {}
    for name, (dtype, shape) in kinds.items():
        kind, sizes, data = np.dtype(dtype), json.loads(shape), b"".join(parts[name])
        if kind.kind not in "biufU" or math.prod(sizes) * kind.itemsize != len(data):
            raise ValueError(f"{name} has another size")
        arrays[name] = np.frombuffer(data, kind).reshape(sizes).copy()
    return arrays


def _checked_counts(arrays: Arrays, horizon: Any) -> Arrays:
    visits = arrays.get("visits")
    if visits is None or visits.ndim != 3 or visits.dtype.kind not in "iu":
        raise ValueError("it has no visits")
    stages, states, actions = visits.shape
    summed_over = arrays.get("horizon", np.array(stages))  # if visits are summed over stages
    if summed_over.shape != () or stages not in (1, horizon) or int(summed_over) != horizon:
        raise ValueError(f"it has {stages} stages, and the configuration {horizon}")
    if states and not actions:
        raise ValueError("it has no actions")
    return arrays


def _json_of(
    connection: sqlite3.Connection, statement: str, path: Path, values: Sequence[Any] = ()
) -> Any:
    found = connection.execute(statement, values).fetchone()
    if found is None:
        return None
    if not isinstance(found[0], str):
        raise BadInput(f"{path} is damaged: it holds no valid JSON; {RESTORE}")
    return parse_json(found[0], path)


def _state_rows(
    keys: Sequence[str], labels: Sequence[str] | None
) -> list[tuple[int, str, str | None]]:
    found = labels if labels is not None else [None] * len(keys)
    return list(zip(range(len(keys)), keys, found, strict=True))


def add_states(
    writer: Writer, first: int, keys: Sequence[str], labels: Sequence[str] | None
) -> None:
    """Add the states from number ``first`` on; the ones before are in the database."""
    for number in range(first, len(keys)):
        label = labels[number] if labels else None
        writer.execute("INSERT INTO states VALUES (?, ?, ?)", (number, keys[number], label))


def names_text(names: Names) -> str:
    """What states and actions are called, as JSON."""
    states, actions, grid = (
        None if part is None else list(part) for part in (names.states, names.actions, names.grid)
    )
    content = {"format": "covgame-names/1", "states": states, "actions": actions, "grid": grid}
    if names.places is not None:
        content["places"] = list(names.places)
    return json.dumps(content)


def fresh_folder(environment: str, parent: Path = Path("runs")) -> Path:
    """``runs/<environment>-<n>``, the first n that is free; made at once, so that it is ours."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", environment.partition("?")[0]).strip("-")[:40] or "run"
    number = 1
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            path = parent / f"{name}-{number}"
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
            else:
                return path
    except OSError as error:
        raise BadInput(f"no folder can be made in {parent}: {error}; say --out") from error


def _check_is_free(path: Path) -> None:
    if (path / DATABASE).exists():
        raise BadInput(
            f"{path} holds a run already; continue it with {_how_to_resume(path)}, "
            "or choose another --out"
        )
    if path.exists() and not path.is_dir():
        raise BadInput(f"{path} is a file; --out names a folder")
    for name in (EPISODES, GIVEN):
        if (path / name).is_symlink():
            raise BadInput(f"{path / name} is a link; choose another --out")
    if (path / EPISODES).is_dir() and any((path / EPISODES).glob("*.parquet")):
        raise BadInput(f"{path / EPISODES} holds episodes of another run; choose another --out")


def _how_to_resume(path: Path) -> str:
    with contextlib.suppress(BadInput):
        return resume_command(RunFolder.open(path))
    return f"covgame resume {path}"
