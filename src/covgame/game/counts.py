"""Counts: all that a learner remembers of the episodes it has seen."""

from __future__ import annotations

import numpy as np

from covgame.arrays import sum_by_index
from covgame.episodes import LAST, Episode
from covgame.mdp.transitions import Transitions
from covgame.types import FloatArray, IntArray, Shape


class SuccessorTable:
    """How often each row led where: short lists in one pool of memory.

    Row i owns ``capacity[i]`` places from ``start[i]`` on, of which ``size[i]`` are used. A full
    row moves to the end of the pool with twice the room, so memory follows what was seen. The
    arrays are plain, so that compiled code and files can share them.
    """

    FIRST_CAPACITY = 2

    def __init__(self, rows: int, room: int = 64) -> None:
        self.start = np.zeros(rows, dtype=np.int64)
        self.size = np.zeros(rows, dtype=np.int64)
        self.capacity = np.zeros(rows, dtype=np.int64)
        self.total = np.zeros(rows, dtype=np.int64)
        self.share = np.zeros(rows)  # 1/total, so that planning need not divide
        self.successor = np.zeros(room, dtype=np.int64)
        self.count = np.zeros(room, dtype=np.int64)
        self.used = 0

    def add(self, row: int, successor: int) -> None:
        """Count one transition."""
        self.total[row] += 1
        self.share[row] = 1.0 / self.total[row]
        first, size = self.start[row], self.size[row]
        for place in range(first, first + size):
            if self.successor[place] == successor:
                self.count[place] += 1
                return
        if size == self.capacity[row]:
            self._move(row)
        place = self.start[row] + size
        self.successor[place] = successor
        self.count[place] = 1
        self.size[row] += 1

    def _move(self, row: int) -> None:
        """Give a full row twice the room at the end of the pool."""
        capacity = max(self.FIRST_CAPACITY, 2 * int(self.capacity[row]))
        self.make_room(capacity)
        old, new, size = self.start[row], self.used, self.size[row]
        self.successor[new : new + size] = self.successor[old : old + size]
        self.count[new : new + size] = self.count[old : old + size]
        self.start[row], self.capacity[row] = new, capacity
        self.used += capacity

    def make_room(self, places: int) -> None:
        """See to it that the pool has so many free places."""
        while self.used + places > len(self.successor):
            self.successor = np.concatenate([self.successor, np.zeros_like(self.successor)])
            self.count = np.concatenate([self.count, np.zeros_like(self.count)])

    def entries(self, first: int, last: int) -> tuple[IntArray, IntArray, IntArray]:
        """(row counted from ``first``, successor, count) of a range of rows, in order."""
        size = self.size[first:last]
        row = np.repeat(np.arange(last - first), size)
        within = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        place = np.repeat(self.start[first:last], size) + within
        return row, self.successor[place], self.count[place]


class Counts:
    """Visits of every cell, and transitions of every row of a kernel.

    ``pooled`` counts keep one row per pair for all stages, for environments that are
    stationary; otherwise a row per cell. Visits are always per stage. That is all there is to
    pooling: whoever asks for ``moments`` or ``kernel`` does not see the difference.
    """

    def __init__(self, shape: Shape, *, pooled: bool) -> None:
        self.shape = shape
        self.pooled = pooled
        self.visits = np.zeros(shape.hsa, dtype=np.int64)
        self.starts = np.zeros(shape.states, dtype=np.int64)
        self.n_episodes = 0
        self.table = SuccessorTable(shape.pairs if pooled else shape.cells)

    def add(self, episode: Episode) -> None:
        """Count one episode."""
        self.n_episodes += 1
        self.starts[episode.state[0]] += 1
        visits = self.visits.reshape(-1)
        for cell, successor in zip(
            episode.cells(self.shape), episode.next_state.tolist(), strict=True
        ):
            visits[cell] += 1
            if successor != LAST:
                row = cell % self.shape.pairs if self.pooled else cell
                self.table.add(row, successor)

    def _rows(self, h: int) -> tuple[int, int]:
        first = 0 if self.pooled else h * self.shape.pairs
        return first, first + self.shape.pairs

    def observed(self, h: int) -> FloatArray:
        """n: the transitions out of each (s, a) at stage h (pooled: at any stage)."""
        first, last = self._rows(h)
        return self.table.total[first:last].astype(np.float64)

    def moments(self, h: int, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean of V and of V squared over the observed successors; 0 where there are none.

        Sums run in the order in which successors were first seen, here and in compiled code.
        """
        row, successor, count = self.table.entries(*self._rows(h))
        seen = np.append(values, 0.0)[successor]
        share = 1.0 / np.maximum(self.observed(h), 1.0)
        mean = sum_by_index(row, count * seen, self.shape.pairs) * share
        square = sum_by_index(row, count * (seen * seen), self.shape.pairs) * share
        return mean, square

    def kernel(self) -> Transitions:
        """The maximum-likelihood estimate; rows never seen are empty."""
        row, successor, count = self.table.entries(0, len(self.table.total))
        return Transitions.from_entries(
            self.shape,
            self.starts / max(1, self.n_episodes),
            row,
            successor,
            count / self.table.total[row],
            stationary=self.pooled,
        )
