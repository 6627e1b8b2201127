"""Observation <-> index: fixed where the environment counts its states, growing elsewhere."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, Protocol

import numpy as np

from covgame.errors import EnvironmentFailed


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

    def index(self, observation: Any) -> int:
        """The number of an observation."""
        ...


class CountedStates:
    """Observations that are whole numbers from ``first`` on, as Gymnasium's Discrete has them."""

    discovered = False

    def __init__(self, size: int, first: int = 0) -> None:
        self.size, self.first = size, first

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


class DiscoveredStates:
    """Any observation: numbers are given out in the order of appearance."""

    discovered = True

    def __init__(self, keys: list[str] | None = None) -> None:
        self._by_key = {key: i for i, key in enumerate(keys or [])}
        self._by_value: dict[Hashable, int] = {}

    @property
    def size(self) -> int:
        return len(self._by_key)

    @property
    def keys(self) -> list[str]:
        """The observations in words, by number: JSON where possible."""
        return list(self._by_key)

    def index(self, observation: Any) -> int:
        value = as_hashable(observation)
        known = self._by_value.get(value)
        if known is None:
            known = self._by_key.setdefault(key_of(value), len(self._by_key))
            self._by_value[value] = known
        return known


def as_hashable(observation: Any) -> Hashable:
    """Arrays and lists as tuples, NumPy's numbers as Python's, dictionaries as sorted pairs."""
    if isinstance(observation, int | str | float | bytes):
        return observation
    if isinstance(observation, np.generic):
        value: Hashable = observation.item()
        return value
    if isinstance(observation, np.ndarray):
        return as_hashable(observation.tolist())
    if isinstance(observation, list | tuple):
        return tuple(as_hashable(part) for part in observation)
    if isinstance(observation, Mapping):
        return tuple((key, as_hashable(observation[key])) for key in sorted(observation))
    try:
        hash(observation)
    except TypeError:
        raise EnvironmentFailed(
            f"it showed an observation of type {type(observation).__name__}, which cannot tell "
            "states apart; observations must be hashable"
        ) from None
    return observation  # type: ignore[no-any-return]


def key_of(value: Hashable) -> str:
    """An observation as text that is the same in every process."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return f"{type(value).__name__}: {value!r}"
