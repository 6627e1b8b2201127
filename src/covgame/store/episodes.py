"""Episodes as Parquet: one row per step, in shards that hold a fixed number of episodes.

Where a shard ends does not depend on when or how often a run was stopped, so the same seed
leaves the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from covgame.episodes import LAST, Block, Episode
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.store.folder import write_whole
from covgame.types import END, BoolArray, Shape

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

    def __init__(
        self, folder: Path, horizon: int, n_episodes: int = 0, *, advice: str = PLAY_AGAIN
    ) -> None:
        self.folder, self.advice = folder, advice
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
                raise BadInput(f"{self.folder} lacks {_name(number)}; {self.advice}")
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
                raise BadInput(f"{path} has other columns than a run writes; {self.advice}")
            table = table.filter(pa.compute.less(table["episode"], self.n_episodes))
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{path} cannot be read; {self.advice}") from error
        first = self.n_episodes - episodes
        if np.unique(table["episode"].to_numpy()).tolist() != list(range(first, self.n_episodes)):
            raise BadInput(f"{path} does not hold the episodes it should; {self.advice}")
        return table.replace_schema_metadata(None)

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
        """Which shard it is, the episodes say: ``add`` may have been broken off half-way."""
        table = pa.concat_tables(tables).combine_chunks()
        number = table["episode"][0].as_py() // self.per_shard
        buffer = io.BytesIO()
        pq.write_table(table, buffer, **WRITING)
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


def recorded_episodes(folder: Path) -> int:
    """How many episodes the shards of a folder hold, by the last of them."""
    found = shards(folder)
    if not found:
        return 0
    try:
        last = pq.read_table(found[-1], columns=["episode"])["episode"][-1].as_py()
    except (OSError, pa.ArrowException, KeyError, IndexError) as error:
        raise BadInput(f"{found[-1]} cannot be read; {RESTORE}") from error
    if not isinstance(last, int):
        raise BadInput(f"{found[-1]} has other columns than a run writes; {RESTORE}")
    return last + 1


def _name(number: int) -> str:
    return f"part-{number:06d}.parquet"


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("part-"))


class RecordedEpisodes:
    """All steps of a run, in order, checked to be episodes of a world of this shape.

    An episode that something cut short before the last stage is over there for a learner,
    whatever state was shown.
    """

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.folder, self.shape = folder, shape
        tables = [SCHEMA.empty_table(), *(self._read(path) for path in shards(folder))]
        table = pa.concat_tables(tables)
        self.steps: dict[str, Any] = {n: table[n].to_numpy() for n in table.column_names}
        self._check()
        first = np.flatnonzero(self.steps["stage"] == 0)
        self.bounds = np.append(first, len(self.steps["stage"]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[Episode]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Episode:
        """An episode as its environment showed it."""
        place = slice(self.bounds[number], self.bounds[number + 1])
        state, action, reward, successor, terminated = (
            self.steps[name][place]
            for name in ("state", "action", "reward", "next_state", "terminated")
        )
        successor = np.where((successor == END) & ~terminated, LAST, successor)
        cut_at = None
        if len(state) < self.shape.horizon and not terminated[-1]:
            cut_at, successor[-1] = int(successor[-1]), END
        return Episode(state, action.astype(np.int64), reward, successor, cut_at)

    def _read(self, path: Path) -> pa.Table:
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{path} cannot be read: {error}") from error
        if table.schema != SCHEMA:
            raise BadInput(f"{path} does not hold the columns of an episode file")
        return table

    def _check(self) -> None:
        """Steps lie in the world, one follows from the other, episodes are numbered from 0."""
        H, S, A = self.shape.hsa
        stage, state, action = (self.steps[name] for name in ("stage", "state", "action"))
        following, episode = self.steps["next_state"], self.steps["episode"]
        inside = (stage >= 0) & (stage < H) & (state >= 0) & (state < S) & (following < S)
        inside &= (action >= 0) & (action < A) & np.isfinite(self.steps["reward"])
        if not inside.all():
            raise BadInput(
                f"{self.folder} holds steps outside the world of this run, which has {H} stages, "
                f"{S} states and {A} actions"
            )
        goes_on = np.diff(episode) == 0
        chained = (np.diff(stage) == 1) & (state[1:] == following[:-1])
        chained &= ~self.steps["terminated"][:-1]
        begins = (np.diff(episode) == 1) & (stage[1:] == 0)
        ordered = np.where(goes_on, chained, begins).all()
        if len(stage) and not (ordered and episode[0] == 0 and stage[0] == 0):
            raise BadInput(f"{self.folder} holds steps that do not make up episodes")

    @property
    def last_steps(self) -> BoolArray:
        last: BoolArray = np.append(np.diff(self.steps["episode"]) != 0, True)
        return last if len(self.steps["episode"]) else np.zeros(0, dtype=np.bool_)

    def reward_range(self) -> tuple[float, float]:
        """The least and the most that a step has paid."""
        reward = self.steps["reward"]
        return float(reward.min(initial=np.inf)), float(reward.max(initial=-np.inf))

    def highest_return(self) -> float:
        """The most that an episode has paid."""
        if not len(self):
            return -np.inf
        return float(np.add.reduceat(self.steps["reward"], self.bounds[:-1]).max())

    def is_cut_short(self, first: int = 0, last: int | None = None) -> bool:
        """Whether one of the episodes ``first`` to ``last`` - 1 was, before the last stage."""
        place = slice(self.bounds[first], self.bounds[len(self) if last is None else last])
        open_end = self.last_steps[place] & ~self.steps["terminated"][place]
        return bool((open_end & (self.steps["stage"][place] + 1 < self.shape.horizon)).any())

    def counts(self, *, pooled: bool, first: int = 0, last: int | None = None) -> Counts:
        """What a learner counts of the episodes ``first`` to ``last`` - 1."""
        shape, counts = self.shape, Counts(self.shape, pooled=pooled)
        place = slice(self.bounds[first], self.bounds[len(self) if last is None else last])
        steps = {name: column[place] for name, column in self.steps.items()}
        stage, state = steps["stage"].astype(np.int64), steps["state"]
        ends = self.last_steps[place]
        successor = steps["next_state"].copy()
        successor[steps["terminated"] | (ends & (stage + 1 < shape.horizon))] = END
        cell = stage * shape.pairs + state * shape.actions + steps["action"]
        counts.visits += np.bincount(cell, minlength=shape.cells).reshape(shape.hsa)
        earned = np.bincount(cell, steps["reward"], minlength=shape.cells)
        counts.reward_sums += earned.reshape(shape.hsa)
        counts.starts += np.bincount(state[stage == 0], minlength=shape.states)
        counts.n_episodes += int((stage == 0).sum())
        moves = (stage + 1 < shape.horizon) | steps["terminated"] | (successor >= 0)
        row = (cell % shape.pairs if pooled else cell)[moves]
        width = shape.states + 1
        pairs, times = np.unique(row * width + successor[moves] + 1, return_counts=True)
        counts.table.add_many(pairs // width, pairs % width - 1, times)
        return counts
