"""What was earned with each transition, and the returns of whole episodes."""

from __future__ import annotations

import numpy as np

from covgame.arrays import sum_by_index
from covgame.types import FloatArray, IntArray

_SHIFT = 32
"""A transition is one number: its row times 2^32, plus its successor plus 1."""


class Payments:
    """Sums of rewards by (row, successor), where rows are those of a ``SuccessorTable``.

    ``returns`` counts the returns of whole episodes, where that is wanted.
    """

    def __init__(self) -> None:
        self.keys = np.zeros(0, dtype=np.int64)
        self.sums = np.zeros(0)
        self.returns: dict[float, int] | None = None

    def add(self, row: IntArray, successor: IntArray, reward: FloatArray) -> None:
        """Add what was paid on the way from rows to successors."""
        found, place = np.unique((row << _SHIFT) + successor + 1, return_inverse=True)
        paid = sum_by_index(place.reshape(-1), reward, len(found))
        if not np.isin(found, self.keys).all():
            keys = np.union1d(self.keys, found)
            sums = np.zeros(len(keys))
            sums[np.searchsorted(keys, self.keys)] = self.sums
            self.keys, self.sums = keys, sums
        self.sums[np.searchsorted(self.keys, found)] += paid

    def add_returns(self, returns: FloatArray) -> None:
        """Count the returns of whole episodes, if they are wanted."""
        if self.returns is None:
            return
        for value, times in zip(*np.unique(returns, return_counts=True), strict=True):
            self.returns[float(value)] = self.returns.get(float(value), 0) + int(times)

    def of(self, row: IntArray, successor: IntArray) -> FloatArray:
        """What was paid in all on the way from rows to successors; 0 where nothing is known."""
        if not len(self.keys):
            return np.zeros(len(row))
        key = (row << _SHIFT) + successor + 1
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[place] == key, self.sums[place], 0.0)

    def listed(self) -> tuple[IntArray, IntArray, FloatArray]:
        """(row, successor, sum) of all transitions."""
        return self.keys >> _SHIFT, (self.keys & (2**_SHIFT - 1)) - 1, self.sums
