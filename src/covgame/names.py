"""What people call stages, states and actions: their own words, numbers where there are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AnySet
from dataclasses import dataclass
from enum import Enum
from typing import Any

from covgame.errors import Row

LONGEST = 80


@dataclass(frozen=True)
class Names:
    """How a person calls the states and actions, and whether the states form a grid."""

    states: Sequence[str] | None = None
    actions: Sequence[str] | None = None
    grid: tuple[int, int] | None = None  # rows, columns; state = row * columns + column

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

    def state(self, state: int) -> str:
        """A state by its name, its place in the grid, or its number."""
        if self.states is not None and state < len(self.states):
            return self.states[state]
        if self.grid is not None:
            row, column = divmod(state, self.grid[1])
            return f"row {row}, column {column}"
        return f"state {state}"

    def action(self, action: int) -> str:
        """An action by its name or number."""
        if self.actions is not None and action < len(self.actions):
            return self.actions[action]
        return f"action {action}"

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


def label_of(value: Any) -> str:
    """What a state is called, from what an environment showed."""
    text = " ".join(_words(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


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
