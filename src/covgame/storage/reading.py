"""The episodes of a run, read shard by shard: however many there are, one shard is in memory.

Every reader of a run goes through ``StepTables``, which has the sealed and the unsealed episodes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from covgame.episodes import Episode
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.names import Names
from covgame.storage import database
from covgame.storage.episodes import (
    FINAL_OBSERVATION,
    OBSERVATION,
    OBSERVATIONS,
    RESTORE,
    SCHEMA,
    episode_range,
    read_shard,
    shards,
    unsealed_table,
)
from covgame.storage.folder import RunFolder
from covgame.storage.observations import Space, arrow_type, joined, one_by_one, values_of
from covgame.types import END, BoolArray, IntArray, Shape

PARQUET = ".parquet"

Columns = dict[str, Any]
"""Steps by the names of their columns, as arrays."""


@dataclass(frozen=True)
class _Facts:
    """What a pass over all steps finds beside their number."""

    lowest_reward: float = np.inf
    highest_reward: float = -np.inf
    highest_return: float = -np.inf

    def joined(self, steps: Columns) -> _Facts:
        reward, first = steps["reward"], np.flatnonzero(steps["stage"] == 0)
        returns = np.add.reduceat(reward, first) if len(first) else np.zeros(0)
        return _Facts(
            min(self.lowest_reward, float(reward.min(initial=np.inf))),
            max(self.highest_reward, float(reward.max(initial=-np.inf))),
            max(self.highest_return, float(returns.max(initial=-np.inf))),
        )


class StepTables:
    """The recorded steps of a run: a table per shard, then one of the unsealed episodes.

    Nothing is written, so a run can be read while another process writes to it, and where it is
    read-only. The episodes are those of the moment when it is opened, in every pass.

    Args:
        run: A run, or a folder that holds nothing but shards.
        most: Leave out later episodes than so many.
    """

    def __init__(self, run: RunFolder | Path, most: int | None = None) -> None:
        self.folder = run if isinstance(run, Path) else run.episodes
        self._unsealed: pa.Table | None = None
        sealed: int | None = None
        unsealed: list[Any] = []
        if isinstance(run, RunFolder):
            sealed, unsealed = read_unsealed(run)
        self.paths: list[Path] = []
        self.first: list[int] = []
        on_disk = 0
        for path in shards(self.folder):
            if sealed is not None and on_disk >= sealed:
                break  # written, but not committed
            first, last = episode_range(path)
            if first != on_disk:
                raise BadInput(f"{self.folder} lacks episodes from {on_disk:,} on; {RESTORE}")
            self.paths.append(path)
            self.first.append(first)
            on_disk = last + 1
        if sealed is None:
            sealed = on_disk
        if on_disk < sealed:
            raise BadInput(f"{self.folder} lacks episodes from {on_disk:,} on; {RESTORE}")
        self.n_episodes = self.n_sealed = sealed
        if isinstance(run, RunFolder) and unsealed:
            self._unsealed = unsealed_table(unsealed, run.database)
            self.paths.append(run.database)
            self.first.append(sealed)
            self.n_episodes += len(unsealed)
        if most is not None:
            self.n_episodes = min(self.n_episodes, most)
        self._read: tuple[int, bool, pa.Table] | None = None  # the table that was read last

    def tables(
        self,
        first: int = 0,
        last: int | None = None,
        *,
        observations: bool = False,
        check: Callable[[Path, pa.Table, int], None] | None = None,
    ) -> Iterator[tuple[Path, pa.Table]]:
        """(file, steps) of the episodes ``first`` to ``last`` - 1, a shard at a time.

        ``check`` is called with each file, its whole table, and the episode it has to begin with.
        """
        end = self.n_episodes if last is None else min(last, self.n_episodes)
        if first >= end:
            return
        for number in range(bisect_right(self.first, first) - 1, len(self.paths)):
            if self.first[number] >= end:
                return
            table = self._table(number, observations, check)
            episode = table["episode"].to_numpy()
            begin, stop = np.searchsorted(episode, [first, end]).tolist()
            if begin < stop:
                yield self.paths[number], table.slice(begin, stop - begin)
                first = int(episode[stop - 1]) + 1

    def _table(
        self,
        number: int,
        observations: bool,
        check: Callable[[Path, pa.Table, int], None] | None,
    ) -> pa.Table:
        """A table, read and checked; the last one is kept, because it is often needed again."""
        if self._read is None or self._read[:2] != (number, observations):
            path = self.paths[number]
            if self._unsealed is not None and number == len(self.paths) - 1:
                table = self._unsealed
                if not observations:
                    table = table.drop_columns([n for n in OBSERVATIONS if n in table.column_names])
            else:
                table = read_shard(path, observations=observations)
            end = self.n_episodes if path.suffix != PARQUET else self.n_sealed
            end = min(end, self.n_episodes)
            if len(table) and table["episode"][-1].as_py() >= end:  # sealed since
                table = table.slice(0, int(np.searchsorted(table["episode"].to_numpy(), end)))
            if check is not None:
                check(path, table, self.first[number])
            self._read = number, observations, table
        return self._read[2]


def read_unsealed(run: RunFolder) -> tuple[int, list[tuple[Any, ...]]]:
    """(number of sealed episodes, rows of the others), as they were at one moment."""
    with database.reading(run.database) as connection:
        found = connection.execute("SELECT episodes FROM sealed").fetchone()
        statement = "SELECT * FROM unsealed ORDER BY episode"
        rows = connection.execute(statement).fetchall()
    if found is None or not isinstance(found[0], int) or found[0] < 0:
        raise BadInput(f"{run.database} is damaged: it lacks its number of episodes; {RESTORE}")
    if rows and rows[0][0] != found[0]:
        raise BadInput(f"{run.database} is damaged: it lacks episode {found[0]}; {RESTORE}")
    return found[0], rows


class RecordedEpisodes:
    """All steps of a run, in order, checked to be episodes of a world of this shape."""

    def __init__(
        self,
        run: StepTables | RunFolder | Path,
        shape: Shape,
        names: Names | None = None,
        space: Space | None = None,  # of observations that were kept, as the configuration has it
        *,
        open_ends: bool = False,  # data of others may stop before an episode is over
    ) -> None:
        self._tables = run if isinstance(run, StepTables) else StepTables(run)
        self.folder, self.shape, self.names = self._tables.folder, shape, names or Names()
        self.open_ends = open_ends
        self.space = space

    def __len__(self) -> int:
        return self._tables.n_episodes

    def tables(
        self, first: int = 0, last: int | None = None, *, observations: bool = False
    ) -> Iterator[pa.Table]:
        """The steps of the episodes ``first`` to ``last`` - 1, a shard at a time."""

        def check(path: Path, table: pa.Table, first: int) -> None:
            self._check(path, _columns(table), first)
            self._check_observations(path, table)

        for _, table in self._tables.tables(first, last, observations=observations, check=check):
            yield table

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All steps at once."""
        with_observations = columns is None or any(name in OBSERVATIONS for name in columns)
        tables = [
            table if columns is None else _selected(table, columns)
            for table in self.tables(observations=with_observations)
        ]
        nothing = SCHEMA.empty_table()
        if not tables:
            return nothing if columns is None else _selected(nothing, columns)
        return pa.concat_tables(tables, promote_options="default")

    def steps(self, first: int = 0, last: int | None = None) -> Iterator[Columns]:
        """The same as arrays, without what only few runs have."""
        for table in self.tables(first, last):
            yield _columns(table)

    def recorded(self, *, observations: bool = True) -> Iterator[Episode]:
        """One after the other; no more than a shard of them is in memory."""
        for table in self.tables(observations=observations):
            steps = _columns(table)
            seeds = table["seed"] if "seed" in table.column_names else None
            starts = np.flatnonzero(steps["stage"] == 0)
            stops = np.append(starts[1:], len(table))
            shown = self._observations(table, starts, stops)
            for begin, stop, seen in zip(starts.tolist(), stops.tolist(), shown, strict=False):
                place = slice(begin, stop)
                truncated = bool(steps["truncated"][stop - 1])
                yield Episode(
                    steps["state"][place],
                    steps["action"][place].astype(np.int64),
                    steps["reward"][place],
                    steps["next_state"][place],
                    terminated=bool(steps["terminated"][stop - 1]),
                    cut_short=truncated and stop - begin < self.shape.horizon,
                    seed=None if seeds is None else seeds[begin].as_py(),
                    observations=seen,
                    number=int(steps["episode"][begin]),
                    names=self.names,
                )

    def _observations(
        self, table: pa.Table, starts: IntArray, stops: IntArray
    ) -> Iterator[Sequence[Any] | None]:
        """Those of every episode, with the one that its last step led to."""
        if OBSERVATION not in table.column_names:
            yield from repeat(None, len(starts))
            return
        shown = one_by_one(values_of(table[OBSERVATION], self.space), len(table))
        last = table[FINAL_OBSERVATION].take(stops - 1)
        there = last.is_valid().to_numpy().tolist()
        ended = one_by_one(values_of(last.drop_null(), self.space), sum(there))
        following = 0  # among those that ended in something
        for begin, stop, is_there in zip(starts.tolist(), stops.tolist(), there, strict=True):
            yield joined(shown[begin:stop], ended[following : following + is_there])
            following += is_there

    def __iter__(self) -> Iterator[Episode]:
        return self.recorded(observations=False)

    def _check_observations(self, path: Path, table: pa.Table) -> None:
        """Both columns or none, of the type that their space has, and none missing on the way."""
        columns = [table[name] for name in OBSERVATIONS if name in table.column_names]
        if not columns:
            return
        kind = arrow_type(self.space)
        whole = len(columns) == len(OBSERVATIONS) and not columns[0].null_count
        if not whole or any(column.type != kind for column in columns):
            raise BadInput(f"{path} has other observations than the configuration says; {RESTORE}")

    def _check(self, path: Path, steps: Columns, first: int) -> None:
        """Steps lie in the world, one follows from the other, episodes are numbered from 0."""
        H, S, A = self.shape.hsa
        stage, state, action = (steps[name] for name in ("stage", "state", "action"))
        following, episode = steps["next_state"], steps["episode"]
        for column, wrong, world in (
            ("stage", (stage < 0) | (stage >= H), f"{H} stages"),
            ("state", (state < 0) | (state >= S), f"{S} states"),
            ("next_state", (following < END) | (following >= S), f"{S} states"),
            ("action", (action < 0) | (action >= A), f"{A} actions"),
            ("reward", ~np.isfinite(steps["reward"]), "finite rewards"),
        ):
            _refuse_any(path, column, wrong, steps, f"outside the world of this run ({world})")
        if not len(stage):
            return
        over = steps["terminated"] | steps["truncated"]
        ends, begins = (
            np.append(np.diff(episode) != 0, True),
            np.append(True, np.diff(episode) != 0),
        )
        expected = first + np.cumsum(begins) - 1
        counted = np.arange(len(stage)) - np.flatnonzero(begins)[expected - first]
        chained = np.append(True, state[1:] == following[:-1]) | begins
        for column, wrong in (
            ("episode", episode != expected),
            ("stage", stage != counted),
            ("state", ~chained),
            ("terminated", steps["terminated"] & steps["truncated"]),
            ("truncated", over & ~ends if self.open_ends else over != ends),
        ):
            _refuse_any(path, column, wrong, steps, "so that the steps do not make up episodes")

    # ------------------------------------------------------------------------ what they come to

    @cached_property
    def _facts(self) -> _Facts:
        facts = _Facts()
        for steps in self.steps():
            facts = facts.joined(steps)
        return facts

    def reward_range(self) -> tuple[float, float]:
        """The least and the most that a step has paid."""
        return self._facts.lowest_reward, self._facts.highest_reward

    def highest_return(self) -> float:
        """The most that an episode has paid."""
        return self._facts.highest_return

    def is_cut_short(self, first: int = 0, last: int | None = None) -> bool:
        """Whether one of the episodes ``first`` to ``last`` - 1 was, before the last stage."""
        return any(_cut_short(steps, self.shape).any() for steps in self.steps(first, last))

    def seeds(self) -> IntArray:
        """What the environment was reset with, sorted, each once; empty if it is not recorded."""
        found = [
            table["seed"].to_numpy()[table["stage"].to_numpy() == 0]
            for table in self.tables()
            if "seed" in table.column_names
        ]
        known = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *found]))
        return known[known >= 0]

    def has_ends(self) -> bool:
        """Whether every episode that stops before the last stage says how it went on."""
        last_stage = self.shape.horizon - 1
        for steps in self.steps():
            over = steps["terminated"] | steps["truncated"]
            last = np.append(steps["stage"][1:] == 0, True)
            unsaid = last & ~over & (steps["next_state"] < 0) & (steps["stage"] < last_stage)
            if unsaid.any():
                return False
        return True

    def counts(
        self,
        *,
        pooled: bool,
        stage_free: bool = False,
        paid: bool = False,
        returns: bool = False,
        first: int = 0,
        last: int | None = None,
    ) -> Counts:
        """What a learner counts of the episodes ``first`` to ``last`` - 1."""
        counts = Counts(self.shape, pooled=pooled, stage_free=stage_free, paid=paid)
        if counts.payments is not None and returns:
            counts.payments.returns = {}
        for steps in self.steps(first, last):
            counts.add_steps(steps)
        return counts


def _cut_short(steps: Columns, shape: Shape) -> BoolArray:
    """Steps after which something other than a state ended the episode, before the last stage."""
    cut: BoolArray = steps["truncated"] & (steps["stage"] + 1 < shape.horizon)
    return cut


def _refuse_any(path: Path, column: str, wrong: BoolArray, steps: Columns, why: str) -> None:
    """Name the first row that is wrong, if there is one."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadInput(f"{path}, row {row}, column {column}: {steps[column][row]}, {why}")


def _selected(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    for name in columns:
        if name not in table.column_names:
            known = ", ".join(table.column_names)
            raise BadInput(f"steps have no column {name!r}; there are: {known}")
    return table.select(list(columns))


def _columns(table: pa.Table) -> Columns:
    return {name: table[name].to_numpy() for name in SCHEMA.names}
