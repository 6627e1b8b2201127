"""Episodes as Parquet: one row per step, in shards that hold a fixed number of episodes.

Where a shard ends does not depend on when or how often a run was stopped, so the same seed
leaves the same bytes.
"""

from __future__ import annotations

import io
import re
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from covgame.episodes import Block
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.store.folder import write_whole
from covgame.types import END, IntArray, Shape

STEPS_PER_SHARD = 500_000
NUMBERED = re.compile(r"part-\d{6,}\.parquet")
DAMAGED = "remove counts.npz, and resuming plays everything again"

SCHEMA = pa.schema(
    [
        ("episode", pa.int64()),
        ("stage", pa.int32()),
        ("state", pa.int64()),
        ("action", pa.int32()),
        ("reward", pa.float64()),
        ("next_state", pa.int64()),
        ("terminated", pa.bool_()),
    ]
)
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

    def __init__(self, folder: Path, horizon: int, n_episodes: int = 0) -> None:
        self.folder = folder
        self.per_shard = max(1, STEPS_PER_SHARD // horizon)
        self.n_episodes = n_episodes
        self.open_tables: list[pa.Table] = []
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.pending: Future[None] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._take_up()

    def _take_up(self) -> None:
        """Go on after ``n_episodes``: later steps are dropped, they will be played again."""
        whole, left = divmod(self.n_episodes, self.per_shard)
        found = {_number(path): path for path in shards(self.folder)}
        for number in range(whole):
            if number not in found:
                raise BadInput(f"{self.folder} lacks {_name(number)}; {DAMAGED}")
        if left:
            self.open_tables = [self._open_shard(whole, left)]
        for number, path in found.items():
            if number > whole or (number == whole and not left):
                path.unlink()

    def _open_shard(self, number: int, episodes: int) -> pa.Table:
        """What was written of the open shard, as far as it counts."""
        path = self.folder / _name(number)
        try:
            table = pq.read_table(path)
            if not table.schema.equals(SCHEMA):
                raise BadInput(f"{path} has other columns than a run writes; {DAMAGED}")
            table = table.filter(pa.compute.less(table["episode"], self.n_episodes))
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{path} cannot be read; {DAMAGED}") from error
        first = self.n_episodes - episodes
        if np.unique(table["episode"].to_numpy()).tolist() != list(range(first, self.n_episodes)):
            raise BadInput(f"{path} does not hold the episodes it should; {DAMAGED}")
        return table.replace_schema_metadata(None)

    @property
    def room(self) -> int:
        """How many episodes the open shard still takes."""
        return self.per_shard - self.n_episodes % self.per_shard

    def add(self, block: Block) -> bool:
        """Take at most ``room`` episodes; says whether that has filled a shard."""
        if not len(block):
            return False
        self.open_tables.append(as_table(block))
        full = len(block) == self.room
        self.n_episodes += len(block)
        if full:
            self.wait()
            number = (self.n_episodes - 1) // self.per_shard
            self.pending = self.thread.submit(self._write, number, self.open_tables)
            self.open_tables = []
        return full

    def wait(self) -> None:
        """Until every full shard is on disk."""
        if self.pending:
            self.pending.result()
        self.pending = None

    def flush(self) -> None:
        """Write what is there of the open shard; it is written again when it is full."""
        self.wait()
        if self.open_tables:
            self._write(self.n_episodes // self.per_shard, self.open_tables)

    def close(self) -> None:
        """Write everything, and let the thread go."""
        self.flush()
        self.thread.shutdown()

    def _write(self, number: int, tables: list[pa.Table]) -> None:
        buffer = io.BytesIO()
        pq.write_table(pa.concat_tables(tables).combine_chunks(), buffer, **WRITING)
        write_whole(self.folder / _name(number), buffer.getbuffer())


def as_table(block: Block) -> pa.Table:
    """The steps of a block with their episode and stage."""
    first = np.cumsum(block.lengths) - block.lengths
    episode = block.first_episode + np.arange(len(block))
    stage = np.arange(len(block.state)) - np.repeat(first, block.lengths)
    columns: list[npt.NDArray[np.generic]] = [
        np.repeat(episode, block.lengths),
        stage.astype(np.int32),
        block.state,
        block.action.astype(np.int32),
        block.reward,
        np.maximum(block.next_state, -1),
        block.next_state == END,
    ]
    return pa.table(columns, schema=SCHEMA)


def shards(folder: Path) -> list[Path]:
    """The shards of a folder in order."""
    return sorted(path for path in folder.glob("part-*.parquet") if NUMBERED.fullmatch(path.name))


def _name(number: int) -> str:
    return f"part-{number:06d}.parquet"


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("part-"))


def read_visits(folder: Path, shape: Shape) -> IntArray:
    """The visits of every cell, from the files alone."""
    visits = np.zeros(shape.cells, dtype=np.int64)
    for path in sorted(folder.glob("*.parquet")):
        try:
            table = pq.read_table(path, columns=["stage", "state", "action"])
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{path} cannot be read: {error}") from error
        stage, state, action = (table[name].to_numpy() for name in table.column_names)
        cell = (stage.astype(np.int64) * shape.states + state) * shape.actions + action
        visits += np.bincount(cell, minlength=shape.cells)
    return visits.reshape(shape.hsa)


def read_counts(
    folder: Path, shape: Shape, *, pooled: bool, first: int = 0, last: int | None = None
) -> Counts:
    """Everything that a learner counts, from the files alone: episodes ``first`` to ``last`` - 1.

    An episode that something cut short before the last stage is over there for a learner,
    whatever state was shown.
    """
    counts = Counts(shape, pooled=pooled)
    for path in shards(folder):
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{path} cannot be read: {error}") from error
        if table.schema != SCHEMA:
            raise BadInput(f"{path} does not hold the columns of an episode file")
        steps = {name: table[name].to_numpy() for name in table.column_names}
        if first > 0 or last is not None:
            episode = steps["episode"]
            wanted = (episode >= first) & (episode < (np.inf if last is None else last))
            steps = {name: column[wanted] for name, column in steps.items()}
        if len(steps["episode"]):
            _count_steps(counts, steps, path)
    return counts


def _count_steps(counts: Counts, steps: dict[str, Any], path: Path) -> None:
    shape = counts.shape
    stage, state = steps["stage"].astype(np.int64), steps["state"]
    action, successor = steps["action"].astype(np.int64), steps["next_state"].copy()
    inside = (stage >= 0) & (stage < shape.horizon) & (state >= 0) & (state < shape.states)
    inside &= (action >= 0) & (action < shape.actions) & (successor < shape.states)
    if not inside.all():
        raise BadInput(f"{path} holds steps outside the world of this run")
    last = np.append(np.diff(steps["episode"]) != 0, True)
    successor[steps["terminated"] | (last & (stage + 1 < shape.horizon))] = END
    cell = stage * shape.pairs + state * shape.actions + action
    counts.visits += np.bincount(cell, minlength=shape.cells).reshape(shape.hsa)
    earned = np.bincount(cell, steps["reward"], minlength=shape.cells)
    counts.reward_sums += earned.reshape(shape.hsa)
    first = stage == 0
    counts.starts += np.bincount(state[first], minlength=shape.states)
    counts.n_episodes += int(first.sum())
    moves = ~last | (stage + 1 < shape.horizon) | steps["terminated"] | (successor >= 0)
    row = (cell % shape.pairs if counts.pooled else cell)[moves]
    width = shape.states + 1
    pairs, times = np.unique(row * width + successor[moves] + 1, return_counts=True)
    counts.table.add_many(pairs // width, pairs % width - 1, times)
