"""Sealed episodes: Parquet files with one row per step and a fixed number of episodes each.

Where a file ends does not depend on when or how often a run was stopped, so the same seed leaves
the same bytes.
"""

from __future__ import annotations

import io
import os
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from covgame.episodes import Block, Episode
from covgame.errors import BadInput
from covgame.memory import require_bytes
from covgame.storage.files import inside, make_folder, remove, write_whole
from covgame.storage.observations import Keeping
from covgame.types import END

STEPS_PER_SHARD = 500_000
NUMBERED = re.compile(r"part-\d{6,}\.parquet")
RESTORE = "restore it from a copy"
RESTORE_OR_REPEAT = f"{RESTORE}, or play the run again in a new folder"

SCHEMA = pa.schema(
    [
        ("episode", pa.int64()),
        ("stage", pa.int32()),
        ("state", pa.int64()),
        ("action", pa.int32()),
        ("reward", pa.float64()),
        ("next_state", pa.int64()),
        ("terminated", pa.bool_()),
        ("truncated", pa.bool_()),
    ]
)
SEED = pa.field("seed", pa.int64())
OBSERVATION, FINAL_OBSERVATION = "observation", "final_observation"
OBSERVATIONS = (OBSERVATION, FINAL_OBSERVATION)
FURTHER = ("seed", *OBSERVATIONS)
"""Columns that runs have on environments that are played step by step."""

UNSEALED_HEADER = struct.Struct("<qq")
"""The seed of an unsealed episode, and 1 if it terminated, 0 otherwise.

Then follow its columns: state, action, next_state (int64) and reward (float64).
"""
BYTES_PER_UNSEALED_STEP = 4 * 8
NO_SEED = -1

BYTES_PER_STEP = 4 * 64
"""What reading a step takes: its columns, a copy, and what is made of them."""

WRITING = {
    "use_dictionary": ["stage", "state", "action", "reward", "next_state"],
    "column_encoding": {"episode": "DELTA_BINARY_PACKED"},
    "compression": "none",
    "write_page_checksum": True,
}
"""Half the time of the library's defaults, at 2 to 3 bytes a step."""


class ShardWriter:
    """Collects blocks of simulated episodes and writes a shard whenever one is full.

    Full shards are written by a thread, one at a time, while the game continues.
    """

    def __init__(self, folder: Path, horizon: int, n_episodes: int = 0) -> None:
        self.folder = folder
        self.per_shard = episodes_per_shard(horizon)
        self.n_episodes = n_episodes
        self.open_tables: list[pa.Table] = []
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.pending: Future[None] | None = None
        make_folder(folder)
        self._continue_after()

    def _continue_after(self) -> None:
        """Continue after ``n_episodes``; steps of later episodes will be simulated again."""
        whole, left = divmod(self.n_episodes, self.per_shard)
        found = {_number(path): path for path in shards(self.folder)}
        for number in range(whole + (left > 0)):
            if number not in found:
                raise BadInput(f"{self.folder} lacks {_name(number)}; {RESTORE_OR_REPEAT}")
        if left:
            table = open_shard(self.folder, whole, self.n_episodes - left, self.n_episodes)
            self.open_tables = [table]
        for number, path in found.items():
            if number > whole or (number == whole and not left):
                remove(path)

    @property
    def room(self) -> int:
        """How many episodes the open shard still takes."""
        return self.per_shard - self.n_episodes % self.per_shard

    def add(self, block: Block) -> None:
        """Take at most ``room`` episodes, and have a shard written if that has filled it."""
        if not len(block):
            return
        self.open_tables.append(as_table(block))
        full = len(block) == self.room
        self.n_episodes += len(block)
        if full:
            self.wait()
            self.pending = self.thread.submit(self._write, self.open_tables)
            self.open_tables = []

    def wait(self) -> None:
        """Wait until every full shard is on disk."""
        if self.pending:
            self.pending.result()
        self.pending = None

    def flush(self) -> None:
        """Write what there is of the open shard; it is written again when it is full."""
        self.wait()
        if self.open_tables:
            self._write(self.open_tables)

    def close(self) -> None:
        """Stop the thread."""
        self.thread.shutdown()

    def _write(self, tables: list[pa.Table]) -> None:
        self._write_shard(tables)
        release_memory()

    def _write_shard(self, tables: list[pa.Table]) -> None:
        # The episodes say which shard it is: ``add`` may have been interrupted half-way.
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        write_shard(self.folder, table["episode"][0].as_py() // self.per_shard, table)


def episodes_per_shard(horizon: int, keeping: Keeping | None = None) -> int:
    """How many episodes a full shard holds."""
    number = max(1, STEPS_PER_SHARD // horizon)
    return number if keeping is None else min(number, keeping.episodes_per_shard(horizon))


def open_shard(folder: Path, number: int, first: int, end: int) -> pa.Table:
    """The steps of the episodes ``first`` to ``end`` - 1, which a shard begins with."""
    path = folder / _name(number)
    table = read_shard(path)
    table = table.filter(pc.less(table["episode"], end))
    if np.unique(table["episode"].to_numpy()).tolist() != list(range(first, end)):
        raise BadInput(f"{path} does not hold the episodes {first} to {end - 1}; {RESTORE}")
    return table


def as_table(block: Block) -> pa.Table:
    """The steps of a block with their episode and stage."""
    last = block.last
    episode = block.first_episode + np.arange(len(block))
    stage = np.arange(len(block.state)) - np.repeat(last + 1 - block.lengths, block.lengths)
    terminated = np.zeros(len(block.state), dtype=np.bool_)
    terminated[last] = block.has_terminated
    truncated = np.zeros(len(block.state), dtype=np.bool_)
    truncated[last] = ~terminated[last]
    columns: list[npt.NDArray[np.generic]] = [
        np.repeat(episode, block.lengths),
        stage.astype(np.int32),
        block.state,
        block.action.astype(np.int32),
        block.reward,
        np.maximum(block.next_state, END),
        terminated,
        truncated,
    ]
    table = pa.table(columns, schema=SCHEMA)
    if block.seeds is not None:
        table = table.append_column(SEED, pa.array(np.repeat(block.seeds, block.lengths)))
    return table


def write_shard(folder: Path, number: int, table: pa.Table, keeping: Keeping | None = None) -> None:
    """Write a table of steps as a file, whole or not at all."""
    further = keeping.writing(table.schema, OBSERVATIONS) if keeping else {}
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **WRITING | further)
    write_whole(folder / _name(number), buffer.getbuffer())


def release_memory() -> None:
    """Return what Arrow's allocator has kept of written tables, tens of megabytes, to the system.

    Call it when no reference to the table is left.
    """
    pa.default_memory_pool().release_unused()


def table_of_columns(columns: Mapping[str, npt.NDArray[np.generic]]) -> pa.Table:
    """Steps by the names of their columns, with their seeds where some are recorded."""
    kinds = {field.name: field.type.to_pandas_dtype() for field in SCHEMA}
    table = pa.table([columns[name].astype(kind) for name, kind in kinds.items()], schema=SCHEMA)
    seeds: npt.NDArray[np.int64] = columns["seed"].astype(np.int64)
    if (seeds >= 0).any():
        table = table.append_column(SEED, pa.array(seeds))
    return table


def open_file(path: Path, mode: Literal["r", "w"] = "r") -> pa.OSFile:
    """Open a file for Arrow, which refuses names that are not UTF-8 as text."""
    return pa.OSFile(os.fsencode(path), mode)


def read_shard(path: Path, *, observations: bool = True) -> pa.Table:
    """The steps of a shard; its pages are compared with their checksums."""
    try:
        with open_file(path) as opened:
            file = pq.ParquetFile(opened, page_checksum_verification=True)
            _check_rows(path, file.metadata)
            wanted = [
                name for name in file.schema_arrow.names if observations or name not in OBSERVATIONS
            ]
            table = file.read(wanted).replace_schema_metadata(None)
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"{path} cannot be read; {RESTORE}") from error
    try:
        return checked_columns(table)
    except ValueError as error:
        raise BadInput(f"{path} {error}; {RESTORE}") from error


def checked_columns(table: pa.Table) -> pa.Table:
    """The same table; a ``ValueError`` if a run does not write such columns."""
    has_columns = table.select(range(min(len(SCHEMA), table.num_columns))).schema.equals(SCHEMA)
    if not has_columns or not set(table.column_names[len(SCHEMA) :]) <= set(FURTHER):
        raise ValueError("has other columns than a run writes")
    empty = [name for name in SCHEMA.names if table[name].null_count]
    if empty:
        raise ValueError(f"has empty places in the column {empty[0]}")
    return table


def _check_rows(path: Path, about: Any) -> None:
    """A file of a few bytes can say to hold any number of rows, and even have them."""
    rows = about.num_rows
    require_bytes(rows * BYTES_PER_STEP, f"{path}, which says to hold {rows:,} steps,")


def shards(folder: Path) -> list[Path]:
    """The shards of a folder in order."""
    found = sorted(path for path in folder.glob("part-*.parquet") if NUMBERED.fullmatch(path.name))
    for path in found:
        if not inside(folder, path.name).is_file():
            raise BadInput(f"{path} is no ordinary file; {RESTORE}")
    return found


# ------------------------------------------------------------------------------- unsealed


def unsealed_row(number: int, episode: Episode, keeping: Keeping | None) -> tuple[Any, ...]:
    """An episode as a row of the table ``unsealed``."""
    observations = None
    if keeping is not None and episode.observations is not None:
        last = np.array([len(episode) - 1])
        kept = keeping.columns([episode.observations], last)
        sink = pa.BufferOutputStream()
        table = pa.table(list(kept), names=list(OBSERVATIONS))
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        observations = sink.getvalue().to_pybytes()
    seed = NO_SEED if episode.seed is None else episode.seed
    columns = episode.state, episode.action, episode.next_state, episode.reward
    header = UNSEALED_HEADER.pack(seed, episode.terminated)
    steps = b"".join((header, *(one.data for one in columns)))
    return number, steps, observations, _checksum(number, steps, observations)


def _checksum(number: int, steps: bytes, observations: bytes | None) -> int:
    """SQLite does not notice changed bytes in the columns of a row."""
    return zlib.crc32(observations or b"", zlib.crc32(steps, number))


def unsealed_table(rows: Sequence[tuple[Any, ...]], path: Path) -> pa.Table:
    """Consecutive rows of the table ``unsealed`` as a table of steps."""
    try:
        return checked_columns(_unsealed_table(rows))
    except (ValueError, TypeError, IndexError, OverflowError, pa.ArrowException) as error:
        raise BadInput(f"{path} is damaged in its episodes ({error}); {RESTORE}") from error


def _unsealed_table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    first = rows[0][0]
    kept = []
    for expected, (number, steps, observations, checksum) in enumerate(rows, first):
        if number != expected or len(steps) < UNSEALED_HEADER.size + BYTES_PER_UNSEALED_STEP:
            raise ValueError(f"episode {number} is out of order or empty")
        if checksum != _checksum(number, steps, observations):
            raise ValueError(f"episode {number} has another checksum")
        if observations is not None:
            kept.append(pa.ipc.open_stream(observations).read_all())
    sizes = np.array([len(steps) for _, steps, _, _ in rows])
    lengths, rest = np.divmod(sizes - UNSEALED_HEADER.size, BYTES_PER_UNSEALED_STEP)
    if rest.any():
        raise ValueError("columns of different lengths")
    numbers = np.frombuffer(b"".join([steps for _, steps, _, _ in rows]), "<i8")
    begin = np.cumsum(sizes // 8) - sizes // 8
    # A column of an episode begins 2 numbers and the columns before it after the episode does.
    stage = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    state, action, next_state, reward = (
        numbers[np.repeat(begin + 2 + place * lengths, lengths) + stage] for place in range(4)
    )
    seeds = numbers[begin]
    block = Block(
        first,
        lengths,
        state,
        action,
        reward.view("<f8"),
        next_state,
        terminated=numbers[begin + 1] != 0,
        seeds=None if (seeds == NO_SEED).any() else seeds,
    )
    table = as_table(block)
    if kept:
        together = pa.concat_tables(kept)
        for name in OBSERVATIONS:
            table = table.append_column(name, together[name].combine_chunks())
    return table


def episode_range(path: Path) -> tuple[int, int]:
    """The numbers of the first and the last episode of a shard, as its footer says."""
    try:
        with open_file(path) as file:
            about = pq.read_metadata(file)
        column = about.schema.names.index("episode")
        groups = [about.row_group(i).column(column).statistics for i in range(about.num_row_groups)]
        known = [one for one in groups if one is not None and one.has_min_max]
        return int(min(one.min for one in known)), int(max(one.max for one in known))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise BadInput(f"{path} cannot be read; {RESTORE}") from error


def _name(number: int) -> str:
    return f"part-{number:06d}.parquet"


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("part-"))
