"""How often each row of a kernel led where: short lists in one pool of memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from covgame.arrays import sum_by_index
from covgame.types import END, FloatArray, IntArray

ROW = np.dtype(
    [
        ("total", np.int64),
        ("share", np.float64),  # 1/total, so that planning need not divide
        ("start", np.int64),
        ("size", np.int64),
        ("capacity", np.int64),
        # The first two successors and their probabilities, kept by compiled code: most rows
        # have no more, and a row is then one line of the processor's cache.
        ("first", np.uint32),
        ("second", np.uint32),
        ("p_first", np.float64),
        ("p_second", np.float64),
    ],
    align=True,
)
ENTRY = np.dtype([("successor", np.int64), ("count", np.int64)], align=True)


class SuccessorTable:
    """How often each row led where: short lists in one pool of memory.

    Row i owns ``capacity`` entries from ``start`` on, of which ``size`` are used. A full row
    moves to the end with twice the room, so memory follows what was seen. The arrays are plain,
    so that compiled code and files can share them.
    """

    FIRST_CAPACITY = 2

    def __init__(self, rows: int, room: int = 64) -> None:
        self.rows = np.zeros(rows, dtype=ROW)
        self.entries = np.zeros(room, dtype=ENTRY)
        self.used = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total(self) -> IntArray:
        """The transitions out of each row."""
        total: IntArray = self.rows["total"]
        return total

    def add(self, row: int, successor: int, times: int = 1) -> None:
        """Count a transition."""
        entry = self.rows[row]
        entry["total"] += times
        entry["share"] = 1.0 / entry["total"]
        known = self._known(row)
        seen = np.flatnonzero(known["successor"] == successor)
        if len(seen):
            known["count"][seen[0]] += times
            return
        if entry["size"] == entry["capacity"]:
            self._move(row)
        self.entries[entry["start"] + entry["size"]] = (successor, times)
        entry["size"] += 1

    def remove(self, row: int, successor: int) -> None:
        """Take back the transition that was counted last of all that led there."""
        entry, known = self.rows[row], self._known(row)
        entry["total"] -= 1
        entry["share"] = 1.0 / entry["total"] if entry["total"] else 0.0
        place = int(np.flatnonzero(known["successor"] == successor)[0])
        known["count"][place] -= 1
        if known["count"][place] == 0:  # then it was the newest successor
            entry["size"] -= 1

    def add_many(self, row: IntArray, successor: IntArray, times: IntArray) -> None:
        """Count many transitions, each (row, successor) once in the list."""
        new = self._places(row, successor) < 0
        for i in np.flatnonzero(new).tolist():
            self.add(int(row[i]), int(successor[i]), int(times[i]))  # this may move its row
        row, successor, times = row[~new], successor[~new], times[~new]
        self.entries["count"][self._places(row, successor)] += times
        np.add.at(self.rows["total"], row, times)
        changed = np.unique(row)
        self.rows["share"][changed] = 1.0 / self.rows["total"][changed]

    def _places(self, row: IntArray, successor: IntArray) -> IntArray:
        """Where the transitions are listed, -1 where they are not yet."""
        place = np.full(len(row), -1, dtype=np.int64)
        start, size = self.rows["start"][row], self.rows["size"][row]
        for within in range(int(size.max(initial=0))):
            here = np.minimum(start + within, len(self.entries) - 1)
            hit = (within < size) & (self.entries["successor"][here] == successor)
            place[hit] = here[hit]
        return place

    def _known(self, row: int) -> npt.NDArray[np.void]:
        """The entries of a row."""
        entry = self.rows[row]
        return self.entries[entry["start"] : entry["start"] + entry["size"]]

    def _move(self, row: int) -> None:
        """Give a full row twice the room at the end of the pool."""
        entry, known = self.rows[row], self._known(row).copy()
        capacity = max(self.FIRST_CAPACITY, 2 * int(entry["capacity"]))
        self.make_room(capacity)
        self.entries[self.used : self.used + len(known)] = known
        entry["start"], entry["capacity"] = self.used, capacity
        self.used += capacity

    def make_room(self, places: int) -> None:
        """See to it that the pool has so many free places."""
        while self.used + places > len(self.entries):
            self.entries = np.concatenate([self.entries, np.zeros_like(self.entries)])

    def lay_out(self, stages: int, before: int, after: int) -> None:
        """Give every stage room for more rows."""
        rows = np.zeros((stages, after), dtype=ROW)
        rows[:, :before] = self.rows.reshape(stages, before)
        self.rows = rows.reshape(-1)

    def seen(self, row: int, successor: int) -> int:
        """How often the row led to this successor."""
        known = self._known(row)
        return int(known["count"][known["successor"] == successor].sum())

    def most_frequent(self, row: int) -> int | None:
        """The most frequent successor of a row, the smallest one if several are.

        None if there is none, or if episodes mostly end there.
        """
        known = self._known(row)
        if not len(known):
            return None
        successor = int(known["successor"][known["count"] == known["count"].max()].min())
        return None if successor == END else successor

    def listed(self, first: int, last: int) -> tuple[IntArray, IntArray, IntArray]:
        """(row counted from ``first``, successor, count) of a range of rows, in order."""
        size = self.rows["size"][first:last]
        row = np.repeat(np.arange(last - first), size)
        within = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        known = self.entries[np.repeat(self.rows["start"][first:last], size) + within]
        return row, known["successor"], known["count"]

    def moments(self, first: int, last: int, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean of V and of V squared over the successors of rows; 0 where there are none."""
        row, successor, count = self.listed(first, last)
        value = np.append(values, 0.0)[successor]
        part = count * self.rows["share"][first:last][row] * value
        mean = sum_by_index(row, part, last - first)
        return mean, sum_by_index(row, part * value, last - first)

    def largest(self, first: int, last: int, values: FloatArray) -> FloatArray:
        """The largest V among the successors of rows; 0 where there are none."""
        row, successor, _ = self.listed(first, last)
        best = np.zeros(last - first)
        np.maximum.at(best, row, np.append(values, 0.0)[successor])
        return best
