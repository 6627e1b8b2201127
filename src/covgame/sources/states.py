"""Observation <-> index: fixed where the environment counts its states, growing elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from numbers import Number
from typing import Any, Protocol

import numpy as np

from covgame.errors import EnvironmentFailed
from covgame.names import label_of


class States(Protocol):
    """Gives every observation a number from 0 on."""

    @property
    def size(self) -> int:
        """How many states there are, or have been seen so far."""
        ...

    @property
    def discovered(self) -> bool:
        """Whether numbers are given out as states appear."""
        ...

    @property
    def keys(self) -> list[str] | None:
        """The observations by number, if states are discovered."""
        ...

    @property
    def labels(self) -> list[str] | None:
        """Their labels."""
        ...

    @property
    def possible(self) -> int | None:
        """The most states that there can be, None where that is not known."""
        ...

    def index(self, observation: Any) -> int:
        """The number of an observation."""
        ...

    def again(self, keys: Sequence[str], labels: Sequence[str] | None) -> States:
        """The same where these states were discovered before."""
        ...


class CountedStates:
    """Observations that are whole numbers from ``first`` on, as Gymnasium's Discrete has them."""

    discovered = False
    keys = labels = None

    def __init__(self, size: int, first: int = 0) -> None:
        self.size, self.first = size, first
        self.possible: int | None = size

    def index(self, observation: Any) -> int:
        try:
            state = int(observation) - self.first
        except (TypeError, ValueError):
            state = -1
        if not 0 <= state < self.size:
            raise EnvironmentFailed(
                f"it showed the observation {observation!r}, which is none of its "
                f"{self.size} states"
            )
        return state

    def again(self, keys: Sequence[str], labels: Sequence[str] | None) -> CountedStates:
        del keys, labels
        return self


class DiscoveredStates:
    """Any observation: numbers are given out in the order of appearance.

    Observations with the same key are one state, in this process and in every later one.
    """

    discovered = True

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        possible: int | None = None,
    ) -> None:
        self.possible = possible
        self.keys = list(keys or [])  # the observations by number, as JSON where possible
        self.labels = list(labels if labels is not None else map(label_of_key, self.keys))
        self._by_key: dict[str, int] = {}
        self._by_value: dict[Hashable, int] = {}  # saves writing a key for what is known
        for number, key in enumerate(self.keys):
            self._by_key.setdefault(_rewritten(key), number)

    def again(self, keys: Sequence[str], labels: Sequence[str] | None) -> DiscoveredStates:
        """The same with the states that were found before."""
        return DiscoveredStates(keys, labels, self.possible)

    @property
    def size(self) -> int:
        return len(self.keys)

    def index(self, observation: Any) -> int:
        value = as_hashable(observation)
        known = self._by_value.get(value)
        if known is None:
            known = self._by_value[value] = self._number(key_of(value), observation)
        return known

    def number_of_key(self, key: str, label: str | None = None) -> int:
        """The number of a state by its key; new ones get the next."""
        written = _rewritten(key)
        known = self._by_key.get(written)
        if known is None:
            known = self._by_key[written] = len(self.keys)
            self.keys.append(written)
            self.labels.append(label_of_key(key) if label is None else label)
        return known

    def _number(self, key: str, observation: Any) -> int:
        known = self._by_key.get(key)
        if known is None:
            known = len(self.keys)
            self.keys.append(key)
            self.labels.append(label_of(observation))
            self._by_key[key] = known
        return known


def label_of_key(key: str) -> str:
    """What a state is called, where only its key is known."""
    try:
        return label_of(json.loads(key))
    except ValueError:
        return label_of(key)


@dataclass(frozen=True)
class Words:
    """An observation of a type of its own, by what it says of itself."""

    text: str


ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")


def as_hashable(observation: Any) -> Hashable:
    """Arrays and lists as tuples, dictionaries as sorted pairs, the types of others as words.

    What comes out is equal exactly where the keys are: numbers by their value, whatever their type.
    """
    if isinstance(observation, np.ndarray | np.generic):
        observation = observation.tolist()
    if observation is None or isinstance(observation, int | float | str | bytes | Number):
        return observation
    if isinstance(observation, list | tuple):
        return tuple(as_hashable(part) for part in observation)
    if isinstance(observation, Mapping):
        keys = sorted(observation)
        return tuple((as_hashable(key), as_hashable(observation[key])) for key in keys)
    if isinstance(observation, Set):
        return frozenset(as_hashable(part) for part in observation)
    return _in_words(observation)


def _in_words(observation: Any) -> Words:
    """What an object says of itself, if that is the same in every process."""
    kind = type(observation).__name__
    try:
        hash(observation)
    except TypeError:
        raise EnvironmentFailed(
            f"it showed an observation of type {kind}, which cannot tell "
            "states apart; observations must be hashable"
        ) from None
    text = repr(observation).encode(errors="backslashreplace").decode()
    if ADDRESS.search(text):
        raise EnvironmentFailed(
            f"it showed an observation of type {kind}, which no later process could recognise; "
            "give it a __repr__ that says which state it is"
        )
    return Words(f"{kind}: {text}")


def key_of(value: Hashable) -> str:
    """What ``as_hashable`` returns, as text that is the same in every process."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return f"[{', '.join(key_of(part) for part in value)}]"
    if isinstance(value, frozenset):
        return f"set: [{', '.join(sorted(key_of(part) for part in value))}]"
    if isinstance(value, Words):
        return value.text
    return "null" if value is None else _key_of_number(value)


def _key_of_number(value: Any) -> str:
    """Equal numbers alike: 1.0 and True as 1."""
    for kind in (int, float):
        with suppress(TypeError, ValueError, OverflowError):
            if kind(value) == value:
                return repr(kind(value))
    return f"{type(value).__name__}: {value!r}"


def _rewritten(key: str) -> str:
    """A key as it would be written now: of equal numbers in a file there may be several forms."""
    try:
        return key_of(as_hashable(json.loads(key)))
    except ValueError:  # it is no JSON but words
        return key
