"""A run as other libraries see it: its steps in batches, observations and actions with spaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from covgame.errors import BadInput
from covgame.names import Names
from covgame.storage.folder import RunFolder
from covgame.storage.trust import resume_command
from covgame.types import END, BoolArray, IntArray, Shape

Values = npt.NDArray[Any]
Parts = Values | dict[str, Any] | tuple[Any, ...] | list[str]
"""Values of many steps: an array, texts, or the parts of a Dict or Tuple."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Whole episodes, one after the other."""

    table: Any  # an Arrow table with a row per step

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> Values:
        """A column of numbers or truth values."""
        found: Values = self.table[name].to_numpy()
        return found

    @cached_property
    def ends(self) -> IntArray:
        """Where the last step of every episode stands."""
        return np.flatnonzero(self.column("terminated") | self.column("truncated"))

    @cached_property
    def lengths(self) -> IntArray:
        """The steps of every episode."""
        return np.diff(self.ends, prepend=-1)

    @property
    def terminated(self) -> BoolArray:
        """Which episodes a state has ended; time has ended the others."""
        found: BoolArray = self.column("terminated")[self.ends]
        return found

    @property
    def seeds(self) -> IntArray | None:
        """What the environment was reset with, where that was recorded."""
        if "seed" not in self.table.column_names:
            return None
        found: IntArray = self.column("seed")[self.ends]
        return found

    def with_last(self, inside: Values, after: Values) -> Values:
        """Rows of steps, and after those of every episode the row it ended in."""
        joined = np.empty((len(inside) + len(after), *inside.shape[1:]), dtype=inside.dtype)
        last = self.ends + 1 + np.arange(len(after))
        is_last = np.zeros(len(joined), dtype=np.bool_)
        is_last[last] = True
        joined[last], joined[~is_last] = after, inside
        return joined


@dataclass(eq=False)
class Recording:
    """The recorded episodes of a run, and how many of them were read."""

    folder: RunFolder
    shape: Shape
    names: Names
    tables: Callable[[], Iterator[Any]]
    schema: Any  # Arrow's
    kept: dict[str, Any] | None = None  # the space of kept observations
    observation_space: Any = None  # the same as Gymnasium's
    action_space: Any = None  # that of the environment, where it has one
    action_values: Values | None = None  # by number, where the environment takes other values
    episodes: int = 0
    steps: int = 0
    remarks: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: RunFolder) -> Recording:
        """The episodes in a folder, or the sentence that says why there are none."""
        from covgame.storage.reading import RecordedEpisodes, StepTables

        if folder.config.get("play") == "counts" and not folder.episodes.is_dir():
            raise BadInput(
                f"{folder.path} was made by --play counts, so it has no episodes to export"
            )
        steps = StepTables(folder)
        if not steps.n_episodes:
            raise BadInput(f"{folder.path} has no episodes yet: {resume_command(folder)}")
        shape, names = _shape(folder), folder.load_names()
        kept = folder.config.get("observation_space")
        recorded = RecordedEpisodes(steps, shape, names, kept)
        tables = partial(recorded.tables, observations=True)
        newest = next(tables(len(recorded) - 1)).schema
        return cls(folder, shape, names, tables, newest, kept, *_spaces(folder.config))

    @property
    def has_observations(self) -> bool:
        """Whether observations were kept."""
        return "observation" in self.schema.names

    def batches(self) -> Iterator[Batch]:
        """All steps, a batch of whole episodes at a time."""
        for table in self.tables():
            if self.has_observations and "observation" not in table.column_names:
                first = table["episode"][0].as_py()
                raise BadInput(
                    f"{self.folder.episodes} lacks the column observation from episode {first} on"
                )
            batch = Batch(table)
            yield batch
            self.episodes += len(batch.ends)
            self.steps += len(batch)

    def state_labels(self) -> list[str] | None:
        """What every state is called, None if they are just numbered."""
        if self.names.states is None and self.names.grid is None:
            return None
        return [self.names.state(state) for state in range(self.shape.states)]

    def action_labels(self) -> list[str] | None:
        """What every action is called, None if they are just numbered."""
        if self.names.actions is None:
            return None
        return [self.names.action(action) for action in range(self.shape.actions)]

    def observed(self, batch: Batch) -> Parts:
        """What was seen before every step: what was kept, else the number of the state."""
        if not self.has_observations:
            return batch.column("state")
        return self._values(batch.table["observation"])

    def observed_last(self, batch: Batch) -> Parts:
        """What was seen at the end of every episode; one more number where no state was shown."""
        if not self.has_observations:
            state = batch.column("next_state")[batch.ends]
            return np.where(state == END, self.shape.states, state)
        column = batch.table["final_observation"].take(batch.ends)
        if column.null_count and not _is_text(column):
            place = int(np.flatnonzero(column.is_null().to_numpy())[0])
            episode = int(batch.column("episode")[batch.ends[place]])
            raise BadInput(
                f"{self.folder.episodes} lacks the final_observation of episode {episode}"
            )
        if _is_text(column):
            column = column.fill_null("null")
        return self._values(column)

    def _values(self, column: Any) -> Parts:
        from covgame.storage.observations import values_of

        found: Parts = values_of(column, self.kept)
        return found

    def acted(self, batch: Batch) -> Values:
        """The actions, as the environment took them."""
        number = batch.column("action").astype(np.int64)
        return number if self.action_values is None else self.action_values[number]


def _is_text(column: Any) -> bool:
    return str(column.type) in ("string", "large_string")


def _shape(folder: RunFolder) -> Shape:
    """How large the world of a run is, as far as it was seen."""
    size, known = folder.load_size(), folder.load_states()
    if size is None or (size.states is None and known is None):
        raise BadInput(
            f"{folder.path} was stopped before anything was saved; continue it with "
            f"{resume_command(folder)}"
        )
    states = len(known[0]) if known is not None else size.states or 0
    return Shape(folder.horizon, states, size.actions)


def _spaces(manifest: dict[str, Any]) -> tuple[Any, Any, Values | None]:
    """(observation space, action space, action values), as far as the environment has them."""
    described = manifest.get("observation_space"), manifest.get("action_space")
    if described == (None, None):
        return None, None, None
    from covgame.sources.observations import space_from_json

    observations, actions = (
        None if content is None else space_from_json(content) for content in described
    )
    values = manifest.get("action_values")
    if actions is None or actions.dtype is None:  # words, or parts: they have numbers
        return observations, None, None
    if values is None:
        return observations, actions, None
    table = np.array(values, dtype=actions.dtype).reshape(len(values), *actions.shape)
    return observations, actions, table
