"""Steps as files show them, made into whole episodes and checked on the way.

Every complaint names the file, the row (counted from 0) and the column as the file calls it.
Nothing here holds more than a batch and the episode that is not over yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from covgame.errors import BadInput
from covgame.types import END, BoolArray, FloatArray, IntArray

BATCH = 500_000
"""Steps that are read at a time."""

BYTES = 256 * 2**20
"""And so many bytes of them, where a step has a picture."""

AnyArray = npt.NDArray[Any]
BORDERS = ("episode", "stage", "terminated", "truncated", "done")
"""Columns of which one has to be there: nothing else says where an episode is over."""

COLUMNS = ("state", "action", "reward", "next_state", *BORDERS, "seed")
"""What a table of steps may say."""

NO_SEED = -1
NEVER = 2**62

ALIKE = ("episode", "stage", "reward", "next_state")
"""Columns that all files of a folder have, or none."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of a file as they stand there, under our names."""

    file: str
    first_row: int
    columns: Mapping[str, AnyArray]
    called: Mapping[str, str] = field(default_factory=dict)  # our name -> the file's, if another

    def __len__(self) -> int:
        return len(self.columns["action"])

    def refuse(self, row: int, column: str, what: str) -> NoReturn:
        """Say what is wrong with a row."""
        name = self.called.get(column, column)
        raise BadInput(f"{self.file}, row {self.first_row + row}, column {name}: {what}")

    def refuse_any(self, wrong: BoolArray, column: str, what: str) -> None:
        """Refuse the first wrong row, if there is one; ``{}`` stands for its value."""
        if wrong.any():
            row = int(np.argmax(wrong))
            self.refuse(row, column, what.format(_shown(self.columns[column][row])))


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of whole consecutive episodes.

    At the last step of an episode at most one of ``terminated`` and ``truncated`` holds. Neither
    does where the data stop without saying that the environment ended the episode.
    """

    episode: IntArray  # (steps,), counted from 0 through all batches
    stage: IntArray
    state: IntArray
    action: IntArray
    reward: FloatArray
    next_state: IntArray  # -1 where it is unknown
    terminated: BoolArray
    truncated: BoolArray  # by the environment
    seed: IntArray  # what the environment was reset with; NO_SEED where that is not recorded

    def __len__(self) -> int:
        return len(self.stage)

    def tobytes(self) -> bytes:
        """All that was seen, step by step: the same however steps are divided into batches."""
        numbers = (self.stage, self.state, self.action, self.next_state)
        ends = 2 * self.terminated + self.truncated
        return np.column_stack([*numbers, self.reward.view(np.int64), ends]).tobytes()


def rows_at_once(width: int) -> int:
    """How many rows of so many bytes are read at a time."""
    return max(1, min(BATCH, BYTES // max(1, width)))


# ------------------------------------------------------------------------------ values


def whole_numbers(chunk: Chunk, column: str) -> IntArray:
    """A column as whole numbers, or a complaint about its first row that is none."""
    values = chunk.columns[column]
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        shape = " x ".join(map(str, values.shape[1:]))
        chunk.refuse(0, column, f"it holds {shape} numbers where one is needed")
    if values.dtype.kind in "iub":
        if values.dtype == np.uint64:
            chunk.refuse_any(values > 2**63 - 1, column, "{} is too large")
        return values.astype(np.int64, copy=False)
    if values.dtype.kind == "f":
        values = values.astype(np.float64, copy=False)
        chunk.refuse_any(np.isnan(values), column, "it is empty or not a number")
        wrong = ~np.isfinite(values) | (values != np.floor(values)) | (np.abs(values) > 2**53)
        chunk.refuse_any(wrong, column, "{} is no whole number")
        return values.astype(np.int64)
    return chunk.refuse(0, column, f"{_shown(values[0])} is no whole number")


def real_numbers(chunk: Chunk, column: str) -> FloatArray:
    """A column as finite numbers."""
    values = chunk.columns[column]
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iubf":
        chunk.refuse(0, column, f"{_shown(values[0])} is no number")
    found = values.astype(np.float64, copy=False)
    chunk.refuse_any(~np.isfinite(found), column, "{} is no finite number")
    return found


def truths(chunk: Chunk, column: str) -> BoolArray:
    """A column of true and false, or of 1 and 0."""
    values = chunk.columns[column]
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 1 and values.dtype.kind == "b":
        return values
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        wrong = np.array([not _is_truth(value) for value in values.tolist()])
        chunk.refuse_any(wrong, column, "{} is neither true nor false")
    chunk.refuse_any(~np.isin(values, (0, 1)), column, "{} is neither true nor false")
    return values.astype(np.bool_)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | int | float) and value in (True, False)


def _shown(value: Any) -> str:
    """A value in a sentence."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    text = "nothing" if value is None else " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# ---------------------------------------------------------------------------- episodes


@dataclass(frozen=True, eq=False)
class Numbered:
    """A chunk whose states and actions are numbers; ``None`` where a column is not there."""

    chunk: Chunk
    state: IntArray
    action: IntArray
    next_state: IntArray | None = None  # -1 where it is unknown


@dataclass
class Assembler:
    """Makes episodes of the rows that come in, in order, and checks that they are some.

    With a ``horizon`` only so many steps of an episode count; ``left_out`` tells how many did not.
    ``truncation_ends`` says what a truncated step means. If it holds, the environment itself cuts
    episodes short, as in own play: no policy gets further. Otherwise the environment is known not
    to do so, the collector stopped, and the step led to the state that it showed.

    A run of covgame itself ended episodes after ``recorded_horizon`` steps, not its environment.

    ``shortest_cut`` is the length of the shortest episode that the environment truncated, and
    ``shortest_unsaid`` that of the shortest one that stops without saying how it went on.
    ``longest_timed`` is the length of the longest episode that may have ended by a time limit.
    """

    horizon: int | None = None
    truncation_ends: bool = True
    recorded_horizon: int | None = None
    n_episodes: int = 0
    left_out: int = 0
    has_rewards: bool = False
    shortest_cut: int = NEVER
    shortest_unsaid: int = NEVER
    longest_timed: int = 0
    _open: list[dict[str, AnyArray]] = field(default_factory=list)  # of the last episode
    _length: int = 0  # steps of the last episode so far
    _before: dict[str, Any] | None = None  # the row before
    _names: set[Any] = field(default_factory=set)  # of episodes that are not numbered
    _columns: set[str] | None = None  # of the file before, as far as all need the same

    def episodes(self, chunks: Iterable[Numbered]) -> Iterator[Steps]:
        """Whole episodes, in batches about as large as the chunks."""
        for one in chunks:
            if len(one.chunk):
                steps = self._add(one)
                if steps is not None:
                    yield steps
        if self._open:
            yield self._finish(self._open)
            self._open = []

    def _add(self, one: Numbered) -> Steps | None:
        rows = self._rows(one)
        begins = np.flatnonzero(rows["stage"] == 0)
        self._length = int(rows["stage"][-1]) + 1
        if self.horizon is not None:  # a step more than counts: it says where the last one led
            near = rows["stage"] <= self.horizon
            rows = {name: column[near] for name, column in rows.items()}
            self.left_out += int((~near).sum())
            begins = np.flatnonzero(rows["stage"] == 0)
        if not len(begins):
            self._open.append(rows)
            return None
        border = int(begins[-1])
        over = [*self._open, {name: column[:border] for name, column in rows.items()}]
        self._open = [{name: column[border:] for name, column in rows.items()}]
        return self._finish(over) if sum(len(part["stage"]) for part in over) else None

    def _rows(self, one: Numbered) -> dict[str, AnyArray]:
        """The rows of a chunk with their stages, checked against each other and the row before."""
        chunk = one.chunk
        self._check_columns(chunk)
        rows: dict[str, AnyArray] = {"state": one.state, "action": one.action}
        self.has_rewards = "reward" in chunk.columns
        rows["reward"] = real_numbers(chunk, "reward") if self.has_rewards else np.zeros(len(chunk))
        rows["terminated"], rows["truncated"] = _ends(chunk)
        rows["says_end"] = rows["truncated"] | _says_end(chunk)
        rows["timed"] = rows["truncated"].copy()
        if "terminated" not in chunk.columns:  # done may mean either
            rows["timed"] |= rows["terminated"]
        seed = chunk.columns.get("seed", np.full(len(chunk), NO_SEED))
        rows["seed"] = seed if seed.dtype == np.int64 else np.full(len(chunk), NO_SEED)
        if one.next_state is not None:
            rows["next_state"] = one.next_state
        before, ended = self._before, rows["terminated"] | rows["truncated"]
        first = self._first_steps(chunk, ended)
        index = np.arange(len(chunk))
        latest = np.maximum.accumulate(np.where(first, index, -1))
        rows["stage"] = np.where(latest >= 0, index - latest, index + self._length)
        self._check_stages(chunk, rows["stage"])
        goes_on = ~first
        over = np.append(False if before is None else before["ended"], ended[:-1])
        if (goes_on & over).any():
            row = int(np.argmax(goes_on & over))
            column = "episode" if "episode" in chunk.columns else "stage"
            chunk.refuse(row, column, "the episode goes on, and the row before has ended it")
        if one.next_state is not None:
            led_to = np.append(-1 if before is None else before["led_to"], one.next_state[:-1])
            wrong = goes_on & (led_to != one.state)
            if wrong.any():
                row = int(np.argmax(wrong))
                chunk.refuse(row, "state", "it is not the next_state of the row before")
        self._before = {
            "ended": bool(ended[-1]),
            "led_to": -1 if one.next_state is None else int(one.next_state[-1]),
            "episode": chunk.columns["episode"][-1] if "episode" in chunk.columns else None,
        }
        return rows

    def _check_columns(self, chunk: Chunk) -> None:
        """What one file says of its steps, the others have to say, too."""
        there = {name for name in ALIKE if name in chunk.columns}
        if self._columns is not None and there != self._columns:
            name = min(there ^ self._columns)
            has, had = ("has a", "none") if name in there else ("has no", "one")
            raise BadInput(
                f"{chunk.file} {has} column {chunk.called.get(name, name)}, and the file before "
                f"has {had}; make them alike, or name them apart"
            )
        self._columns = there

    def _first_steps(self, chunk: Chunk, ended: BoolArray) -> BoolArray:
        """Which rows begin an episode."""
        begin = self._before is None
        if "episode" in chunk.columns:
            return self._by_name(chunk)
        if "stage" in chunk.columns:
            first: BoolArray = whole_numbers(chunk, "stage") == 0
            first[0] |= begin  # whatever it says; the check of stages complains
            return first
        if not any(name in chunk.columns for name in BORDERS):
            raise BadInput(
                f"{chunk.file} has no column episode, stage, terminated, truncated or done, so "
                "nothing says where an episode is over; say which column does: --columns done=..."
            )
        return np.append(begin or (self._before or {})["ended"], ended[:-1])

    def _by_name(self, chunk: Chunk) -> BoolArray:
        """By the names of episodes, each of which may come once; numbers have to go up."""
        column = chunk.columns["episode"]
        _check_names(chunk, column)
        numbers = whole_numbers(chunk, "episode") if column.dtype.kind in "iuf" else column
        before = None if self._before is None else self._before["episode"]
        first: BoolArray = np.append(True, numbers[1:] != numbers[:-1])
        if before is not None:
            first[0] = bool(numbers[0] != before)
        if numbers.dtype.kind == "i":
            if isinstance(before, str | bytes):
                chunk.refuse(0, "episode", "it is numbered, and those before are called by words")
            last = int(numbers[0]) if before is None else int(before)
            down = numbers < np.append(last, numbers[:-1])
            chunk.refuse_any(
                down, "episode", "episode {} comes after a later one; sort by episode and stage"
            )
            return first
        for row in np.flatnonzero(first).tolist():
            name = numbers[row]
            if name in self._names:
                chunk.refuse(row, "episode", f"episode {_shown(name)} comes back; sort by episode")
            self._names.add(name)
        return first

    def _check_stages(self, chunk: Chunk, stage: IntArray) -> None:
        if "stage" not in chunk.columns:
            return
        wrong = whole_numbers(chunk, "stage") != stage
        if wrong.any():
            row = int(np.argmax(wrong))
            said = _shown(chunk.columns["stage"][row])
            chunk.refuse(row, "stage", f"stage {said} stands where {stage[row]} should")

    def _finish(self, parts: list[dict[str, AnyArray]]) -> Steps:
        """Whole episodes, with everything that can be said of their last steps."""
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        stage = rows["stage"]
        following = np.append(stage[1:] > 0, False)
        if "next_state" not in rows:
            rows["next_state"] = np.where(following, np.append(rows["state"][1:], END), END)
        if self.horizon is not None:
            keep = stage < self.horizon
            self.left_out += int((~keep).sum())
            rows = {name: column[keep] for name, column in rows.items()}
            stage = rows["stage"]
        last = np.append(stage[1:] == 0, True)
        rows["truncated"] &= self.truncation_ends
        if self.recorded_horizon is not None:
            rows["truncated"] &= stage + 1 != self.recorded_horizon
            rows["timed"][:] = False
        self.longest_timed = max(self.longest_timed, int(stage[rows["timed"]].max(initial=-1)) + 1)
        goes_on = rows["says_end"] & (rows["next_state"] != END)
        over = rows["terminated"] | rows["truncated"]
        self.shortest_cut = _shortest(self.shortest_cut, stage[rows["truncated"]])
        self.shortest_unsaid = _shortest(self.shortest_unsaid, stage[last & ~over & ~goes_on])
        rows["episode"] = self.n_episodes - 1 + np.cumsum(stage == 0)
        self.n_episodes += int((stage == 0).sum())
        return Steps(**{one.name: rows[one.name] for one in fields(Steps)})


def _check_names(chunk: Chunk, column: AnyArray) -> None:
    """Episodes are called by one number or word each."""
    if column.ndim > 1:
        chunk.refuse(0, "episode", f"{_shown(column[0])} is no name of an episode")
    if column.dtype.kind == "O":
        nested = np.array([isinstance(one, np.ndarray | list | dict) for one in column.tolist()])
        chunk.refuse_any(nested, "episode", "{} is no name of an episode")
        nothing = np.array([one is None for one in column.tolist()])
        chunk.refuse_any(nothing, "episode", "it is empty")


def _shortest(known: int, stages: IntArray) -> int:
    """The length of the shortest episode so far, where more of them end at these stages."""
    return min(known, int(stages.min(initial=NEVER - 1)) + 1)


def _says_end(chunk: Chunk) -> bool:
    """Whether a row that marks no end says that the episode was not over."""
    return "done" in chunk.columns or {"terminated", "truncated"} <= chunk.columns.keys()


def _ends(chunk: Chunk) -> tuple[BoolArray, BoolArray]:
    """(terminated, truncated); what is only ``done`` has terminated unless it was truncated."""
    nowhere = np.zeros(len(chunk), dtype=np.bool_)
    terminated, truncated, done = (
        truths(chunk, name) if name in chunk.columns else nowhere
        for name in ("terminated", "truncated", "done")
    )
    if "terminated" in chunk.columns:
        truncated = truncated | (done & ~terminated)
    else:
        terminated = done & ~truncated
    return terminated, truncated & ~terminated
