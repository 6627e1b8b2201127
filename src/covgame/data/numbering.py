"""From what files show to numbers: states and actions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from covgame.data.steps import AnyArray, Chunk, Numbered, whole_numbers
from covgame.errors import BadInput, EnvironmentFailed
from covgame.names import Labels, Names, label_of
from covgame.sources.states import CountedStates, DiscoveredStates, States, as_hashable
from covgame.types import END, BoolArray, IntArray

KnownStates = tuple[list[str], list[str] | None]
"""(keys, labels) of the states of a run that found them on its way."""


def number_of_key(states: States, key: str, label: str | None = None) -> int:
    """The number that ``states`` gives to a state of a run, by its key.

    States that are new to it get the next number.
    """
    if isinstance(states, DiscoveredStates):
        return states.number_of_key(key, label)
    try:
        observation = json.loads(key)
    except ValueError:
        observation = key
    return states.index(observation)


@dataclass
class StateNumbers:
    """How states become numbers.

    - ``states`` is left out: they are numbers already; texts and tuples get numbers as they appear.
    - ``states`` is there: it numbers observations. Where they are counted, whole numbers stay as
      they are unless they are ``raw`` observations.
    - ``keys``: the numbers in the file are those of a run with these states.
    """

    states: States | None = None
    keys: KnownStates | None = None
    raw: bool = False
    names: Names = field(default_factory=Names)
    first: int = 0  # the number of the first state in the file, where ``states`` is left out
    limit: int | None = None  # how many states there are, where that is known
    highest: int = -1  # the highest number so far

    def __post_init__(self) -> None:
        self._table: IntArray | None = None
        if self.keys is not None and self.states is not None:
            self._table = _numbers(self.states, *self.keys)
        if self.states is not None and not self.states.discovered:
            self.limit = self.states.size
        elif self.states is None and self.keys is not None:
            self.limit = len(self.keys[0])

    @property
    def size(self) -> int:
        """How many states there are, as far as that is known by now."""
        if self.limit is not None:
            return self.limit
        return self.highest + 1 if self.states is None else self.states.size

    @property
    def labels(self) -> Sequence[str] | None:
        """What they are called."""
        return self.states.labels if self.states is not None else None

    def number(self, chunk: Chunk) -> tuple[IntArray, IntArray | None]:
        """(state, next_state) of all rows."""
        state = chunk.columns["state"]
        following = chunk.columns.get("next_state")
        if self._numbers_already(state):
            if self.states is None and _has_fractions(state):
                self._begin(chunk, state)
            here = self._checked(chunk, "state", whole_numbers(chunk, "state"))
            if following is None:
                return here, None
            there = whole_numbers(chunk, "next_state")
            unseen = there == END if not self.first else np.zeros(len(there), dtype=np.bool_)
            return here, self._checked(chunk, "next_state", there, unseen)
        if self.states is None:
            self._begin(chunk, state)
        return self._discovered(chunk, state, following)

    def _numbers_already(self, state: AnyArray) -> bool:
        plain = state.ndim == 1 or (state.ndim == 2 and state.shape[1] == 1)
        if isinstance(self.states, DiscoveredStates) and self.keys is None:
            return False
        return plain and (state.dtype.kind in "iu" or not self.raw) and state.dtype.kind in "iufb"

    def _checked(
        self, chunk: Chunk, column: str, numbers: IntArray, unseen: BoolArray | None = None
    ) -> IntArray:
        """Numbers of states that exist, in our numbering; -1 where one was not seen."""
        first = self.first
        if self.raw and isinstance(self.states, CountedStates):
            first = self.states.first
        known = len(self._table) if self._table is not None else self.limit
        wrong = numbers < first
        if known is not None:
            wrong = wrong | (numbers >= first + known)
        if unseen is not None:
            wrong = wrong & ~unseen
        last = "" if known is None else f", there are {known:,} ({first} to {first + known - 1})"
        chunk.refuse_any(wrong, column, f"state {{}} does not exist{last}")
        found = numbers - first if first else numbers
        if self._table is not None:
            found = np.append(self._table, END)[found]  # -1 stays -1
        if unseen is not None:
            found = np.where(unseen, END, found)
        self.highest = max(self.highest, int(found.max(initial=-1)))
        return found

    def _begin(self, chunk: Chunk, state: AnyArray) -> None:
        """States by what they are called, or as they appear."""
        if state.dtype.kind == "f":
            what = "real numbers" if state.ndim == 1 else f"{state.shape[1]} real numbers"
            raise BadInput(
                f"{chunk.file}: its states are {what}, which hardly ever repeat; say what counts "
                "as a state: --states bins:10[LO,HI]x..., round:1 or py:module:function"
            )
        self.states = _Called(self.names) if self.names.states else DiscoveredStates()

    def _discovered(
        self, chunk: Chunk, state: AnyArray, following: AnyArray | None
    ) -> tuple[IntArray, IntArray | None]:
        """In the order of appearance, so that it does not matter how many rows come at a time."""
        states = cast("States", self.states)
        if following is None:
            return self._each(chunk, "state", state, states), None
        both = np.empty((2 * len(state), *state.shape[1:]), _common_type(chunk, state, following))
        both[0::2], both[1::2] = state, following
        unseen = _missing(following)
        if unseen.any():
            both[1::2][unseen] = state[unseen]
        numbers = self._each(chunk, "state", both, states, 2)
        return numbers[0::2], np.where(unseen, END, numbers[1::2])

    def _each(
        self, chunk: Chunk, column: str, values: AnyArray, states: States, per_row: int = 1
    ) -> IntArray:
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.dtype.kind == "f":
            missing = np.isnan(values).reshape(len(values), -1).any(axis=1)
            if missing.any():
                row = int(np.argmax(missing)) // per_row
                chunk.refuse(row, column, "it is empty or not a number")
        first, which = _different(values)
        numbers = np.empty(len(first), dtype=np.int64)
        for place in np.argsort(first, kind="stable").tolist():
            row = int(first[place])
            value = values[row].tolist() if values.ndim > 1 else values[row]
            if value is None:
                chunk.refuse(row // per_row, column, "it is empty")
            try:
                numbers[place] = states.index(value)
            except (EnvironmentFailed, BadInput) as error:
                chunk.refuse(row // per_row, column, str(error))
        self.highest = max(self.highest, int(numbers.max(initial=-1)))
        return numbers[which]


def _numbers(states: States, keys: list[str], labels: list[str] | None) -> IntArray:
    """What an environment makes of the states that a run has found, by their numbers there."""
    try:
        found = [
            number_of_key(states, key, None if labels is None else labels[number])
            for number, key in enumerate(keys)
        ]
    except EnvironmentFailed as error:  # it never saw them
        raise BadInput(f"the data are from another environment: {error}") from error
    return np.array(found, dtype=np.int64)


class _Called:
    """States by their labels."""

    discovered = False
    keys = labels = None

    def __init__(self, names: Names) -> None:
        self.size = len(names.states or ())
        self.possible: int | None = self.size
        self._labels = Labels.of(names, self.size, 0)

    def index(self, observation: Any) -> int:
        return self._labels.state(label_of(observation), "the data")

    def again(self, keys: Sequence[str], labels: Sequence[str] | None) -> _Called:
        del keys, labels
        return self


def _common_type(chunk: Chunk, state: AnyArray, following: AnyArray) -> np.dtype[Any]:
    """In which states and next states stand side by side."""
    try:
        if state.shape == following.shape:
            return np.result_type(state, following)
    except TypeError:
        pass
    return chunk.refuse(0, "next_state", "it is of another kind than the states")


def _has_fractions(values: AnyArray) -> bool:
    if values.dtype.kind != "f":
        return False
    return bool((np.isfinite(values) & (values != np.floor(values))).any())


def _different(values: AnyArray) -> tuple[IntArray, IntArray]:
    """(first row of each different value, which of them each row has)."""
    if values.dtype.kind == "O":
        seen: dict[Any, int] = {}
        same = (seen.setdefault(as_hashable(one), len(seen)) for one in values.tolist())
        which = np.fromiter(same, np.int64, len(values))
    elif values.ndim > 1:
        flat = np.ascontiguousarray(values.reshape(len(values), -1))
        flat = flat + 0 if flat.dtype.kind == "f" else flat  # -0.0 is 0.0
        rows = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
        _, which = np.unique(rows, return_inverse=True)
    else:
        _, which = np.unique(values, return_inverse=True)
    first = np.full(int(which.max(initial=-1)) + 1, len(which), dtype=np.int64)
    np.minimum.at(first, which, np.arange(len(which)))
    return first, which


def _missing(following: AnyArray) -> BoolArray:
    """Where no next state is given."""
    if following.dtype.kind == "f":
        parts = np.isnan(following).reshape(len(following), -1)
        missing: BoolArray = np.logical_and.reduce(parts, axis=1)
        return missing
    if following.dtype.kind == "O":
        return np.array([one is None for one in following.tolist()], dtype=np.bool_)
    return np.zeros(len(following), dtype=np.bool_)


@dataclass
class ActionNumbers:
    """How actions become numbers: they are some, or have names."""

    labels: Sequence[str] | None = None  # known beforehand, or found on the way
    first: int = 0  # the number of the first action in the file
    limit: int | None = None
    highest: int = -1

    def __post_init__(self) -> None:
        self._found: dict[str, int] = {}
        if self.limit is None and self.labels is not None:
            self.limit = len(self.labels)

    @property
    def size(self) -> int:
        """How many there are, as far as that is known by now."""
        return self.highest + 1 if self.limit is None else self.limit

    @property
    def names(self) -> Sequence[str] | None:
        """What they are called."""
        return self.labels if self.labels is not None else list(self._found) or None

    def number(self, chunk: Chunk) -> IntArray:
        """The actions of all rows."""
        values = chunk.columns["action"]
        if values.ndim == 1 and values.dtype.kind in "OUS":
            return self._by_label(chunk, values)
        if values.dtype.kind == "f":
            real = values != np.floor(values)
            if values.ndim > 1 or (real & np.isfinite(values)).any():
                chunk.refuse(
                    int(np.argmax(real.reshape(len(values), -1).any(axis=1))),
                    "action",
                    "actions are real numbers, and covgame counts actions of which there are a few",
                )
        numbers = whole_numbers(chunk, "action")
        wrong, last = numbers < self.first, ""
        if self.limit is not None:
            end = self.first + self.limit
            wrong, last = (
                wrong | (numbers >= end),
                f", there are {self.limit} ({self.first} to {end - 1})",
            )
        chunk.refuse_any(wrong, "action", f"action {{}} does not exist{last}")
        found = numbers - self.first if self.first else numbers
        self.highest = max(self.highest, int(found.max(initial=-1)))
        return found

    def _by_label(self, chunk: Chunk, values: AnyArray) -> IntArray:
        first, which = _different(values)
        numbers = np.empty(len(first), dtype=np.int64)
        for place in np.argsort(first, kind="stable").tolist():
            row = int(first[place])
            numbers[place] = self._of_label(chunk, row, values[row])
        self.highest = max(self.highest, int(numbers.max(initial=-1)))
        return numbers[which]

    def _of_label(self, chunk: Chunk, row: int, value: Any) -> int:
        if value is None:
            chunk.refuse(row, "action", "it is empty")
        label = label_of(value)
        if self.labels is None:
            return self._found.setdefault(label, len(self._found))
        try:
            return Labels.of(Names(None, self.labels), 0, len(self.labels)).action(label, "here")
        except BadInput:
            few = ", ".join(map(repr, list(self.labels)[:8]))
            chunk.refuse(row, "action", f"no action is called {label!r}; there are {few}")


def numbered(chunk: Chunk, states: StateNumbers, actions: ActionNumbers) -> Numbered:
    """A chunk whose states and actions are numbers."""
    state, following = states.number(chunk)
    return Numbered(chunk, state, actions.number(chunk), following)
