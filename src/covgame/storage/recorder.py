"""Records a run while it is played."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy.typing as npt
import pyarrow as pa

from covgame.episodes import Block, Episode
from covgame.errors import BadInput
from covgame.failures import Failure
from covgame.storage.database import Writer
from covgame.storage.episodes import (
    ShardWriter,
    episodes_per_shard,
    open_shard,
    release_memory,
    unsealed_row,
    unsealed_table,
    write_shard,
)
from covgame.storage.files import discard_drafts, make_folder
from covgame.storage.folder import RunFolder, add_states, save_arrays
from covgame.storage.observations import Keeping, Space

SECONDS_PER_CHECKPOINT = 5.0
SHARE_OF_TIME = 20
"""The state of a game is saved again after at least so many times what saving it took."""

INSERT_EPISODE = "INSERT INTO unsealed VALUES (?, ?, ?, ?)"

ToSave = Callable[[], Mapping[str, npt.NDArray[Any]]]
"""Returns the state of the game."""


class Source(Protocol):
    """What a recorder needs to know of the source of the episodes."""

    @property
    def state_keys(self) -> list[str] | None:
        """The observations by number, if states are discovered."""
        ...

    @property
    def state_labels(self) -> list[str] | None:
        """What they are called."""
        ...

    @property
    def keeps_observations(self) -> bool:
        """Whether episodes come with their observations."""
        ...

    @property
    def observation_space(self) -> Space | None:
        """Of these, as JSON; None if they are text."""
        ...


class Recorder:
    """Saves the state of a game every few seconds, and when the run stops.

    This is all that is recorded of a run that is played by counts: it has no episodes.
    """

    def __init__(self, folder: RunFolder, to_save: ToSave) -> None:
        self.folder, self.to_save = folder, to_save
        self.writer = Writer(folder.database)
        folder.writer = self.writer
        self.next_checkpoint = time.monotonic() + SECONDS_PER_CHECKPOINT
        discard_drafts(folder.place)

    @property
    def room(self) -> int | None:
        """How many episodes the next block may have, None for any number."""
        return None

    def note(self, number: int, episode: Episode) -> None:
        """Record an episode of an environment when it ends."""

    def set_aside(self, failure: Failure) -> None:
        """Record an episode that failed."""

    def add(self, block: Block) -> None:
        """Record a block, and save the state if it is time."""
        del block
        self.writer.process.check()
        if self.is_due:
            self.checkpoint()

    @property
    def is_due(self) -> bool:
        """Whether it is time to save the state."""
        return time.monotonic() > self.next_checkpoint

    def checkpoint(self) -> None:
        """Save the state with whatever was written before; one transaction."""
        began = time.monotonic()
        save_arrays(self.writer, self.to_save())
        self.writer.commit(durable=True)
        took = time.monotonic() - began
        pause = max(SECONDS_PER_CHECKPOINT, SHARE_OF_TIME * took)
        self.next_checkpoint = time.monotonic() + pause

    def close(self, *, whole: bool) -> None:
        """Save everything; the state only if it is ``whole``."""
        if whole:
            self.checkpoint()

    def release(self) -> None:
        """Let other processes write, when the answer is saved as well."""
        self.folder.writer = None
        self.writer.close()


class SimulatedRecorder(Recorder):
    """Records a simulated run: full shards, and now and then the state of the game after them.

    After a kill, the run continues from the last saved state. Episodes that were written after it
    are simulated again, and come out the same.
    """

    def __init__(self, folder: RunFolder, horizon: int, played: int, to_save: ToSave) -> None:
        super().__init__(folder, to_save)
        try:
            discard_drafts(folder.episodes)
            # Forget later episodes, whose shards are about to be removed. There are some if the
            # saved state is damaged, or if another process has continued the run since.
            if self.writer.fetch("SELECT episodes FROM sealed") != [(played,)]:
                self.writer.execute("UPDATE sealed SET episodes=?", (played,))
                self.writer.execute("DELETE FROM result")
                super().checkpoint()
            self.shards = ShardWriter(folder.episodes, horizon, played)
        except BaseException:
            self.release()
            raise

    @property
    def room(self) -> int:
        return self.shards.room

    def add(self, block: Block) -> None:
        self.writer.process.check()
        full = len(block) == self.room
        self.shards.add(block)
        if full and self.is_due:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Seal all episodes, and save the state of the game after them."""
        self.shards.flush()
        self.writer.execute("UPDATE sealed SET episodes=?", (self.shards.n_episodes,))
        super().checkpoint()

    def close(self, *, whole: bool) -> None:
        try:
            super().close(whole=whole)
        finally:
            self.shards.close()


class EpisodeRecorder(Recorder):
    """Records episodes of an environment one by one, each in a transaction of its own.

    A kill therefore costs at most the episode being played. Full shards are sealed as Parquet
    files, and so are all other episodes when the run stops.
    """

    def __init__(
        self, folder: RunFolder, horizon: int, played: int, source: Source, to_save: ToSave
    ) -> None:
        super().__init__(folder, to_save)
        self.source = source
        try:
            self.keeping = Keeping(source.observation_space) if source.keeps_observations else None
            self.per_shard = episodes_per_shard(horizon, self.keeping)
            discard_drafts(folder.episodes)
            make_folder(folder.episodes)
            self._count()
            if self.n_recorded != played:
                raise BadInput(
                    f"{folder.path} has changed since it was opened; wait until the other process "
                    "ends, and resume again"
                )
        except BaseException:
            self.release()
            raise

    def note(self, number: int, episode: Episode) -> None:
        """Record an episode with the states discovered in it."""
        row = unsealed_row(number, episode, self.keeping)
        try:
            self._add_states()
            self.writer.execute(INSERT_EPISODE, row)
            self.writer.commit()
        except BaseException:
            self._rollback()
            raise
        self.n_recorded = number + 1

    def _rollback(self) -> None:
        self.writer.rollback()
        self._count()

    def _count(self) -> None:
        """Read how many states and episodes the database has."""
        ((self.n_named,),) = self.writer.fetch("SELECT count(*) FROM states")
        ((self.n_sealed,),) = self.writer.fetch("SELECT episodes FROM sealed")
        ((unsealed,),) = self.writer.fetch("SELECT count(*) FROM unsealed")
        self.n_recorded = int(self.n_sealed + unsealed)

    def _add_states(self) -> None:
        keys = self.source.state_keys
        if keys is not None and len(keys) > self.n_named:
            n_states = len(keys)
            add_states(self.writer, self.n_named, keys, self.source.state_labels)
            self.n_named = n_states

    def set_aside(self, failure: Failure) -> None:
        """Record an episode that failed; one that counts is committed with the episode."""
        self._add_states()
        text = json.dumps(failure.to_dict())
        self.writer.execute("INSERT INTO failures VALUES (NULL, ?)", (text,))
        if failure.then == "set aside":
            self.writer.commit(durable=True)

    @property
    def room(self) -> int:
        return self.per_shard - self.n_recorded % self.per_shard

    def add(self, block: Block) -> None:
        """Seal a shard if the episodes of a block, which are recorded already, have filled it."""
        del block
        if self.n_recorded - self.n_sealed // self.per_shard * self.per_shard >= self.per_shard:
            self.seal()
        if self.is_due:
            self.checkpoint()

    def seal(self) -> None:
        """Move all unsealed episodes to Parquet files."""
        self._seal()
        release_memory()

    def _seal(self) -> None:
        statement = "SELECT * FROM unsealed ORDER BY episode"
        rows = self.writer.fetch(statement)
        while rows:
            shard, before = divmod(self.n_sealed, self.per_shard)
            part = rows[: self.per_shard - before]
            tables = [unsealed_table(part, self.folder.database)]
            if before:
                first = self.n_sealed - before
                tables.insert(0, open_shard(self.folder.episodes, shard, first, self.n_sealed))
            table = pa.concat_tables(tables, promote_options="default").combine_chunks()
            write_shard(self.folder.episodes, shard, table, self.keeping)
            self.n_sealed += len(part)
            self.writer.execute("UPDATE sealed SET episodes=?", (self.n_sealed,))
            self.writer.execute("DELETE FROM unsealed WHERE episode<?", (self.n_sealed,))
            self.writer.commit(durable=True)
            rows = rows[len(part) :]

    def checkpoint(self) -> None:
        self._add_states()
        super().checkpoint()

    def close(self, *, whole: bool) -> None:
        self._rollback()
        self.seal()
        super().close(whole=whole)
