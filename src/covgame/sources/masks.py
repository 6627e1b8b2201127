"""Action masks: what is allowed at this visit of a state, and what was allowed at any so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from covgame.errors import EnvironmentFailed
from covgame.types import BoolArray, IntArray


class Masks:
    """The actions that states allow.

    A mapped state may stand for several real ones, so its mask may change from visit to visit. The
    target includes what was allowed at some visit; an episode plays what is allowed at this one.
    """

    def __init__(
        self, actions: int, known: BoolArray | None = None, *, notes_changes: bool = False
    ) -> None:
        self.actions, self.notes_changes = actions, notes_changes
        self.changes: list[tuple[int, BoolArray]] = []  # masks that added to what is known
        self.ever = None if known is None else known.copy()  # (S, A), once a mask was shown
        self.now: BoolArray | None = None  # (A,), of the state that the episode is in
        self.avoided: dict[int, set[int]] = {}  # actions excluded after failures, by state
        self._shown = set[int]() if known is None else set(range(len(known)))

    def recall(self, ever: BoolArray | None, visited: IntArray) -> None:
        """Restore the masks of a saved run, unless they are known anyway."""
        if self.ever is None and ever is not None:
            self.ever = ever.copy()
            self._shown = set(visited.tolist())

    def clear(self) -> None:
        """Forget the mask shown last: another state may not show one."""
        self.now = None

    def show(self, state: int, mask: Any, rows: int) -> None:
        """Take in the mask of a state; ``rows`` is the room for states."""
        allowed = np.asarray(mask).astype(np.bool_)
        if allowed.shape != (self.actions,) or not allowed.any():
            raise EnvironmentFailed(f"it showed the action mask {mask!r}, which allows nothing")
        ever = self.room_for(rows)
        if self.notes_changes and (state not in self._shown or (allowed & ~ever[state]).any()):
            self.changes.append((state, allowed))
        self.now = allowed = self._without_avoided(state, allowed)
        if state in self._shown:
            ever[state] |= allowed
        else:
            ever[state] = allowed
            self._shown.add(state)

    def take_changes(self) -> list[tuple[int, BoolArray]]:
        """(State, mask) of the masks that added to what is known since the last call."""
        changes, self.changes = self.changes, []
        return changes

    def has_shown(self, state: int) -> bool:
        """Whether the mask of a state is known."""
        return state in self._shown

    @property
    def n_avoided(self) -> int:
        """Number of excluded actions, over all states."""
        return sum(map(len, self.avoided.values()))

    def as_array(self, rows: int) -> BoolArray:
        """(S, A), the excluded actions."""
        avoided = np.zeros((rows, self.actions), dtype=np.bool_)
        for state, actions in self.avoided.items():
            avoided[state, list(actions)] = True
        return avoided

    def avoid(self, state: int, action: int, rows: int) -> bool:
        """Exclude an action from now on; False if it is the last that the state has."""
        ever = self.room_for(rows)
        if not (np.flatnonzero(ever[state]) != action).any():
            return False
        ever[state, action] = False
        self.avoided.setdefault(state, set()).add(action)
        return True

    def room_for(self, rows: int) -> BoolArray:
        """(S, A), what is allowed, with room for so many states."""
        if self.ever is None or len(self.ever) < rows:
            grown = np.ones((rows, self.actions), dtype=np.bool_)
            if self.ever is not None:
                grown[: len(self.ever)] = self.ever
            self.ever = grown
        return self.ever

    def _without_avoided(self, state: int, allowed: BoolArray) -> BoolArray:
        """The mask without excluded actions, if that leaves any."""
        if state not in self.avoided:
            return allowed
        left = allowed.copy()
        left[list(self.avoided[state])] = False
        return left if left.any() else allowed

    def here(self, state: int) -> BoolArray | None:
        """The mask of the state that the episode is in, None if it is not known."""
        if self.now is None and self.ever is not None and state < len(self.ever):
            known: BoolArray = self.ever[state]
            return known
        return self.now

    def permitted(self, action: int | None, state: int) -> int:
        """The action if there is one and it is allowed, else the first allowed one."""
        allowed = self.here(state)
        if allowed is None:
            return 0 if action is None else action
        return action if action is not None and allowed[action] else int(allowed.argmax())
