"""Which actions are allowed: now, as an environment shows it, and ever, as it has shown so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from covgame.errors import EnvironmentFailed
from covgame.types import BoolArray, IntArray


class Masks:
    """Where a mapped state holds several real ones, what it allows may change from visit to visit.

    Asked for is whatever was allowed at some visit; played is what is allowed at this one.
    """

    def __init__(self, actions: int, known: BoolArray | None = None) -> None:
        self.actions = actions
        self.ever = None if known is None else known.copy()  # (S, A), once a mask was shown
        self.now: BoolArray | None = None  # (A,), of the state that the episode is in
        self._shown = set[int]() if known is None else set(range(len(known)))

    def recall(self, ever: BoolArray | None, visited: IntArray) -> None:
        """Take up what was seen before, unless it is known anyway."""
        if self.ever is None and ever is not None:
            self.ever = ever.copy()
            self._shown = set(visited.tolist())

    def show(self, state: int, mask: Any, rows: int) -> None:
        """Hear what a state allows, in a world with room for so many states."""
        self.now = allowed = np.asarray(mask).astype(np.bool_)
        if allowed.shape != (self.actions,) or not allowed.any():
            raise EnvironmentFailed(f"it showed the action mask {mask!r}, which allows nothing")
        if self.ever is None or len(self.ever) < rows:
            grown = np.ones((rows, self.actions), dtype=np.bool_)
            if self.ever is not None:
                grown[: len(self.ever)] = self.ever
            self.ever = grown
        if state in self._shown:
            self.ever[state] |= allowed
        else:
            self.ever[state] = allowed
            self._shown.add(state)

    def here(self, state: int) -> BoolArray | None:
        """What the state that the episode is in allows, as far as anybody knows."""
        if self.now is None and self.ever is not None and state < len(self.ever):
            known: BoolArray = self.ever[state]
            return known
        return self.now

    def permitted(self, action: int | None, state: int) -> int:
        """The action, or the first that is allowed where there is none or it is forbidden."""
        allowed = self.here(state)
        if allowed is None:
            return 0 if action is None else action
        return action if action is not None and allowed[action] else int(allowed.argmax())
