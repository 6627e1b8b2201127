"""What people call stages, states and actions: their own words, numbers where there are none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AnySet
from dataclasses import dataclass
from enum import Enum
from typing import Any

from covgame.errors import BadInput, Row
from covgame.plain import plain
from covgame.types import Policy

LONGEST = 80
MOST_NAMED = 1000
"""Policies with more entries are not repeated by name."""

PLACES = ("start", "goal", "hole", "wall", "cliff")


@dataclass(frozen=True)
class Names:
    """How a person calls the states and actions, and whether the states form a grid.

    Whatever they are called, what is shown of it is visible characters on one line.
    """

    states: Sequence[str] | None = None
    actions: Sequence[str] | None = None
    grid: tuple[int, int] | None = None  # rows, columns; state = row * columns + column
    places: Sequence[str] | None = None  # what a state is on a map: one of PLACES, or nothing

    @property
    def known(self) -> bool:
        """Whether anything has a name at all."""
        return not (self.states is None and self.actions is None and self.grid is None)

    def describe(self, row: Row) -> str:
        """A cell in words: ``stage 3: row 1, column 1 / right``."""
        stage, state, action = row
        words = self.state(state)
        if action is not None:
            words += f" / {self.action(action)}"
        return words if stage is None else f"stage {stage}: {words}"

    def state(self, state: int | str) -> str:
        """A state by its name, its place in the grid, or its number; a name as it is."""
        if isinstance(state, str):
            return plain(state)
        if self.states is not None and state < len(self.states):
            return plain(self.states[state])
        if self.grid is not None:
            row, column = divmod(state, self.grid[1])
            return f"row {row}, column {column}"
        return f"state {state}"

    def action(self, action: int) -> str:
        """An action by its name or number."""
        if self.actions is not None and action < len(self.actions):
            return plain(self.actions[action])
        return f"action {action}"

    def transition(self, move: tuple[int, int, int | None]) -> str:
        """A step and where it led, None for the end of the episode: ``OPEN / push -> LOCKED``."""
        state, action, successor = move
        led_to = "the end" if successor is None else self.state(successor)
        return f"{self.state(state)} / {self.action(action)} -> {led_to}"

    def row(self, row: Row) -> list[int | str | None]:
        """A row as ``[stage, state, action]``, named where there are names."""
        stage, state, action = row
        return [stage, self.state(state), None if action is None else self.action(action)]

    def named(self, **lists: Iterable[tuple[Row, float]]) -> dict[str, list[list[Any]]]:
        """Lists of rows and numbers in words, each under ``NAME_named``; none without names."""
        if not self.known:
            return {}
        return {
            f"{name}_named": [[*self.row(row), value] for row, value in rows]
            for name, rows in lists.items()
        }

    def named_policy(self, policy: Policy) -> dict[str, Any]:
        """``policy_named``, H rows of S actions by name, and ``state_names``.

        Nothing where there are no names, or too many entries.
        """
        if policy.table.size > MOST_NAMED or not self.known:
            return {}
        answer: dict[str, Any] = {}
        if not policy.is_stochastic and self.actions is not None:
            answer["policy_named"] = [
                [self.action(action) for action in row] for row in policy.table.tolist()
            ]
        if self.states is not None or self.grid is not None:
            answer["state_names"] = [self.state(s) for s in range(policy.table.shape[1])]
        return answer


@dataclass(frozen=True)
class Labels:
    """The numbers of states and actions by what people call them."""

    states: Mapping[str, Sequence[int]]
    actions: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, names: Names, states: int, actions: int) -> Labels:
        """For a world of this size."""
        return cls(
            _numbers([names.state(number) for number in range(states)]),
            _numbers([names.action(number) for number in range(actions)]),
        )

    def state(self, label: str, where: str) -> int:
        """The number of a state; an unknown or ambiguous label is refused."""
        return _number("state", label, self.states, where)

    def action(self, label: str, where: str) -> int:
        """The number of an action."""
        return _number("action", label, self.actions, where)


def _numbers(labels: Sequence[str]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for number, label in enumerate(labels):
        numbers.setdefault(label, []).append(number)
    return numbers


def _number(what: str, label: str, known: Mapping[str, Sequence[int]], where: str) -> int:
    found = known.get(plain(label), ())
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(
            f"{where}: {len(found)} {what}s are called {label!r}; say which by number "
            f"({', '.join(map(str, found[:5]))})"
        )
    raise BadInput(f"{where}: no {what} is called {label!r}; {closest(label, known)}")


def closest(word: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    """What somebody may have meant, as half a sentence."""
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = list(known)[:5]
    more = ", ..." if len(known) > len(shown) else ""
    return f"there are {', '.join(map(repr, shown))}{more}"


def label_of(value: Any) -> str:
    """What a state is called, from what an environment showed."""
    text = words_of(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def words_of(value: Any) -> str:
    """The same, however long it is, in characters that UTF-8 has."""
    return " ".join(_words(value).split()).encode(errors="backslashreplace").decode()


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Enum):
        return value.name
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        value = value.tolist()
    if isinstance(value, list | tuple):
        parts = [_words(part) for part in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_words(part)}" for key, part in value.items())
    if isinstance(value, AnySet):
        return f"{{{', '.join(sorted(_words(part) for part in value))}}}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
