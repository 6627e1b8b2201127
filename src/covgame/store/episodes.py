"""Episodes as Parquet: one row per step, in shards that hold a fixed number of episodes.

Where a shard ends does not depend on when or how often a run was stopped, so the same seed
leaves the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from covgame.episodes import Block
from covgame.errors import BadInput
from covgame.memory import require_bytes
from covgame.store.files import inside, make_folder, remove, write_whole
from covgame.store.observations import Keeping
from covgame.types import END, BoolArray

Write = Callable[[Path, memoryview], None]
"""Puts a file in its place, whole or not at all."""

STEPS_PER_SHARD = 500_000
NUMBERED = re.compile(r"part-\d{6,}\.parquet")
PLAY_AGAIN = "remove counts.npz, and resuming plays everything again"
RESTORE = "put it back from a copy, because these episodes cannot be played again"

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
OLDER_SCHEMA = SCHEMA.remove(len(SCHEMA) - 1)
"""That of covgame-run/1."""

SEED = pa.field("seed", pa.int64())
OBSERVATION, FINAL_OBSERVATION = "observation", "final_observation"
OBSERVATIONS = (OBSERVATION, FINAL_OBSERVATION)
FURTHER = ("seed", *OBSERVATIONS)
"""Columns that runs have on environments that are played step by step."""

BYTES_PER_STEP = 4 * 64
"""What reading a step takes: its columns, a copy, and what is made of them."""

WRITING = {
    "use_dictionary": ["stage", "state", "action", "reward", "next_state"],
    "column_encoding": {"episode": "DELTA_BINARY_PACKED"},
    "compression": "none",
}
"""Half the time of the library's defaults, at 2 to 3 bytes a step."""


class EpisodeWriter:
    """Collects blocks of episodes and writes a shard whenever one is full.

    Full shards are written by a thread of their own, one at a time, while the game goes on.
    """

    def __init__(
        self,
        folder: Path,
        horizon: int,
        n_episodes: int = 0,
        *,
        advice: str = PLAY_AGAIN,
        keeping: Keeping | None = None,  # how observations are stored, if they are
        write: Write = write_whole,
    ) -> None:
        self.folder, self.advice, self.keeping = folder, advice, keeping
        self.write = write
        self.per_shard = max(1, STEPS_PER_SHARD // horizon)
        if keeping is not None:
            self.per_shard = min(self.per_shard, keeping.episodes_per_shard(horizon))
        self.n_episodes = n_episodes
        self.open_tables: list[pa.Table] = []
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.pending: Future[None] | None = None
        make_folder(folder)
        self._take_up()

    def _take_up(self) -> None:
        """Go on after ``n_episodes``: later steps are dropped, they will be played again."""
        whole, left = divmod(self.n_episodes, self.per_shard)
        found = {_number(path): path for path in shards(self.folder)}
        for number in range(whole):
            if number not in found:
                raise BadInput(f"{self.folder} lacks {_name(number)}; {self.advice}")
        if left:
            self.open_tables = [self._open_shard(whole, left)]
        for number, path in found.items():
            if number > whole or (number == whole and not left):
                remove(path)

    def _open_shard(self, number: int, episodes: int) -> pa.Table:
        """What was written of the open shard, as far as it counts."""
        path = self.folder / _name(number)
        table = read_shard(path, self.advice)
        table = table.filter(pc.less(table["episode"], self.n_episodes))
        first = self.n_episodes - episodes
        if np.unique(table["episode"].to_numpy()).tolist() != list(range(first, self.n_episodes)):
            raise BadInput(f"{path} does not hold the episodes it should; {self.advice}")
        return table

    @property
    def room(self) -> int:
        """How many episodes the open shard still takes."""
        return self.per_shard - self.n_episodes % self.per_shard

    def add(self, block: Block) -> None:
        """Take at most ``room`` episodes, and have a shard written if that has filled it."""
        if len(block):
            self.append(as_table(block, self.keeping), len(block))

    def append(self, table: pa.Table, episodes: int) -> None:
        """The same with the steps of so many episodes as a table."""
        self.open_tables.append(table)
        full = episodes == self.room
        self.n_episodes += episodes
        if full:
            self.wait()
            self.pending = self.thread.submit(self._write, self.open_tables)
            self.open_tables = []

    def wait(self) -> None:
        """Until every full shard is on disk."""
        if self.pending:
            self.pending.result()
        self.pending = None

    def flush(self) -> None:
        """Write what is there of the open shard; it is written again when it is full."""
        if self.open_tables:
            self.wait()
            self.pending = self.thread.submit(self._write, self.open_tables)
        self.wait()

    def close(self) -> None:
        """Let the thread go."""
        self.thread.shutdown()

    def _write(self, tables: list[pa.Table]) -> None:
        """Put a shard in its place, and keep nothing of what that took.

        Arrow's allocator holds on to tens of megabytes in scattered pieces, of which the system
        makes huge pages by and by: left alone, a run takes more memory for an hour or longer.
        """
        self._put(tables)
        pa.default_memory_pool().release_unused()  # now that no copy is left

    def _put(self, tables: list[pa.Table]) -> None:
        """Which shard it is, the episodes say: ``add`` may have been broken off half-way."""
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        number = table["episode"][0].as_py() // self.per_shard
        further = self.keeping.writing(table.schema, OBSERVATIONS) if self.keeping else {}
        write_shard(self.folder, number, table, further, self.write)


def as_table(block: Block, keeping: Keeping | None = None) -> pa.Table:
    """The steps of a block with their episode and stage, and what is kept beside them."""
    last = np.cumsum(block.lengths) - 1
    episode = block.first_episode + np.arange(len(block))
    stage = np.arange(len(block.state)) - np.repeat(last + 1 - block.lengths, block.lengths)
    terminated = block.next_state == END
    truncated = np.zeros(len(block.state), dtype=np.bool_)
    truncated[last] = ~terminated[last]
    next_state = np.maximum(block.next_state, END)
    if block.ended_in is not None:
        next_state[last] = np.where(terminated[last], block.ended_in, next_state[last])
    columns: list[npt.NDArray[np.generic]] = [
        np.repeat(episode, block.lengths),
        stage.astype(np.int32),
        block.state,
        block.action.astype(np.int32),
        block.reward,
        next_state,
        terminated,
        truncated,
    ]
    table = pa.table(columns, schema=SCHEMA)
    if block.seeds is not None:
        table = table.append_column(SEED, pa.array(np.repeat(block.seeds, block.lengths)))
    if keeping is not None and block.observations is not None:
        kept = keeping.columns(block.observations, last)
        for name, column in zip(OBSERVATIONS, kept, strict=True):
            table = table.append_column(name, column)
    return table


def write_shard(
    folder: Path,
    number: int,
    table: pa.Table,
    further: Mapping[str, Any] | None = None,
    write: Write = write_whole,
) -> None:
    """A table of steps as a file, whole or not at all; ``further`` is what Parquet is told."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **WRITING | dict(further or {}))
    write(folder / _name(number), buffer.getbuffer())


def table_of_columns(columns: Mapping[str, npt.NDArray[np.generic]]) -> pa.Table:
    """Steps by the names of their columns, with their seeds where some are recorded."""
    kinds = {field.name: field.type.to_pandas_dtype() for field in SCHEMA}
    table = pa.table([columns[name].astype(kind) for name, kind in kinds.items()], schema=SCHEMA)
    seeds: npt.NDArray[np.int64] = columns["seed"].astype(np.int64)
    if (seeds >= 0).any():
        table = table.append_column(SEED, pa.array(seeds))
    return table


def read_shard(path: Path, advice: str = RESTORE, *, observations: bool = True) -> pa.Table:
    """The steps of a shard in the columns of today, whichever version has written it."""
    try:
        with pq.ParquetFile(path) as file:
            _check_rows(path, file.metadata)
            wanted = [
                name for name in file.schema_arrow.names if observations or name not in OBSERVATIONS
            ]
            table = file.read(wanted).replace_schema_metadata(None)
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"{path} cannot be read; {advice}") from error
    if table.schema.equals(OLDER_SCHEMA):
        table = table.append_column("truncated", pa.array(_open_ends(table)))
    try:
        return checked_columns(table)
    except ValueError as error:
        raise BadInput(f"{path} {error}; {advice}") from error


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


def _open_ends(table: pa.Table) -> BoolArray:
    """Last steps of episodes that did not terminate."""
    last = np.append(np.diff(table["episode"].to_numpy()) != 0, True)[: len(table)]
    open_end: BoolArray = last & ~table["terminated"].to_numpy()
    return open_end


def shards(folder: Path) -> list[Path]:
    """The shards of a folder in order."""
    found = sorted(path for path in folder.glob("part-*.parquet") if NUMBERED.fullmatch(path.name))
    return [inside(folder, path.name) for path in found]


def recorded_episodes(folder: Path) -> int:
    """How many episodes the shards of a folder hold, by the last of them."""
    found = shards(folder)
    if not found:
        return 0
    try:
        with pq.ParquetFile(found[-1]) as file:
            _check_rows(found[-1], file.metadata)
            last = file.read(["episode"])["episode"][-1].as_py()
    except (OSError, pa.ArrowException, KeyError, IndexError) as error:
        raise BadInput(f"{found[-1]} cannot be read; {RESTORE}") from error
    if not isinstance(last, int):
        raise BadInput(f"{found[-1]} has other columns than a run writes; {RESTORE}")
    return last + 1


def _name(number: int) -> str:
    return f"part-{number:06d}.parquet"


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("part-"))
