"""Visits against target for every state and stage, coarser where there are very many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from covgame.arrays import sum_by_index
from covgame.names import Names
from covgame.report.content import Amounts, StateMap
from covgame.report.layouts import layout_of
from covgame.types import FloatArray, IntArray, Policy

MOST_TILES = 4_000
"""More states are drawn several to a tile."""

MOST_ENTRIES = 40_000
"""More than so many (stage, tile) are drawn several stages to a position of the slider."""

MOST_CELLS = 20_000
"""Up to so many (stage, tile, action) actions are told apart."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What there is to draw: visits, and rows of a target with what they lack."""

    names: Names
    visits: IntArray  # (H, S, A)
    states: IntArray  # those that are drawn, by number
    rows: IntArray  # (G, 3), as in a target
    counts: FloatArray  # (G,), visits that the rows ask for
    missing: FloatArray  # (G,)
    starts: IntArray  # (S,), how many episodes began there
    links: frozenset[tuple[int, int]] = frozenset()  # (state, next state) that were seen
    policy: Policy | None = None


def state_map(seen: Seen, note: str = "") -> StateMap | None:
    """The map, None if there are no states to draw."""
    n_states = len(seen.states)
    if not n_states:
        return None
    tiles = _Tiles(seen)
    by_stage, asked_by_stage = tiles.by_stage()
    actions = seen.visits.shape[2]
    detailed = tiles.n * actions <= MOST_CELLS and tiles.size == 1
    in_full = detailed and tiles.n_slices * tiles.n * actions <= MOST_CELLS
    return StateMap(
        layout_of(seen, tiles.size),
        tiles.labels(),
        [seen.names.action(action) for action in range(actions)],
        tiles.stage_names(),
        asked_by_stage,
        tiles.overall(),
        by_stage,
        tiles.by_action() if detailed else None,
        tiles.visits_in_full() if in_full else None,
        tiles.policy() if seen.policy is not None and tiles.size == 1 else None,
        "; ".join(part for part in (note, tiles.note()) if part),
    )


class _Tiles:
    """States and stages, put together where there are too many."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.horizon, room, _ = seen.visits.shape
        self.size = -(-len(seen.states) // MOST_TILES)
        self.tile_of = np.full(room, -1, dtype=np.int64)
        self.tile_of[seen.states] = np.arange(len(seen.states)) // self.size
        self.n = -(-len(seen.states) // self.size)
        self.span = -(-self.horizon // max(1, min(self.horizon, MOST_ENTRIES // self.n)))
        self.n_slices = -(-self.horizon // self.span)
        state = seen.rows[:, 1]
        plain = (state >= 0) & (self.tile_of[np.maximum(state, 0)] >= 0)
        self.rows, self.counts = seen.rows[plain], seen.counts[plain]
        self.missing, self.tile = seen.missing[plain], self.tile_of[self.rows[:, 1]]

    def labels(self) -> list[str]:
        names, states = self.seen.names, self.seen.states.tolist()
        if self.size == 1:
            return [names.state(state) for state in states]
        parts = [states[i : i + self.size] for i in range(0, len(states), self.size)]
        return [f"{names.state(part[0])} to {names.state(part[-1])}" for part in parts]

    def stage_names(self) -> list[str]:
        first = range(0, self.horizon, self.span)
        last = (min(stage + self.span, self.horizon) - 1 for stage in first)
        return [str(a) if a == b else f"{a} to {b}" for a, b in zip(first, last, strict=True)]

    def note(self) -> str:
        if self.size == 1:
            return ""
        return f"every tile stands for {self.size:,} states"

    def _summed(self, visits: npt.NDArray[Any]) -> FloatArray:
        """(stages, states) as (slices, tiles)."""
        drawn = visits[:, self.seen.states].astype(np.float64)
        by_tile = np.add.reduceat(drawn, np.arange(0, drawn.shape[1], self.size), axis=1)
        return np.add.reduceat(by_tile, np.arange(0, self.horizon, self.span), axis=0)

    def overall(self) -> Amounts:
        visits = self._summed(self.seen.visits.sum(axis=2)).sum(axis=0)
        wanted, missing = (sum_by_index(self.tile, part, self.n) for part in self._asked())
        return Amounts(numbers(visits), numbers(wanted), numbers(missing))

    def by_stage(self) -> tuple[Amounts, bool]:
        """(amounts by slice and tile, whether a stage is asked for by itself)."""
        visits = numbers(self._summed(self.seen.visits.sum(axis=2)))
        staged = self.rows[:, 0] >= 0
        if not staged.any():
            return Amounts(visits, [], []), False
        place = self.rows[staged, 0] // self.span * self.n + self.tile[staged]
        wanted, missing = (
            sum_by_index(place, part[staged], self.n_slices * self.n).reshape(-1, self.n)
            for part in self._asked()
        )
        return Amounts(visits, numbers(wanted), numbers(missing)), True

    def by_action(self) -> Amounts:
        """At all stages; rows that leave the action open are in none of these."""
        actions = self.seen.visits.shape[2]
        visits = self.seen.visits.sum(axis=0)[self.seen.states]
        named = self.rows[:, 2] >= 0
        place = self.tile[named] * actions + self.rows[named, 2]
        wanted, missing = (
            sum_by_index(place, part[named], self.n * actions).reshape(self.n, actions)
            for part in self._asked()
        )
        return Amounts(numbers(visits), numbers(wanted), numbers(missing))

    def visits_in_full(self) -> list[Any]:
        drawn = self.seen.visits[:, self.seen.states]
        return numbers(np.add.reduceat(drawn, np.arange(0, self.horizon, self.span), axis=0))

    def policy(self) -> list[list[int]]:
        """The likeliest action in the middle of every slice, where that state was seen."""
        if self.seen.policy is None:
            return []
        chosen = self.seen.policy.probabilities().argmax(axis=2)
        known = self.seen.visits[:, : chosen.shape[1]].any(axis=2)
        drawn = np.where(known, chosen, -1)[:, self.seen.states]
        middle = np.minimum(np.arange(self.n_slices) * self.span + self.span // 2, self.horizon - 1)
        table: list[list[int]] = drawn[middle].tolist()
        return table

    def _asked(self) -> tuple[FloatArray, FloatArray]:
        return self.counts, self.missing


def numbers(values: npt.NDArray[Any]) -> list[Any]:
    """Nested lists in which whole numbers are written as such, others to four digits."""
    if np.issubdtype(values.dtype, np.integer) or (values == np.round(values)).all():
        whole: list[Any] = values.astype(np.int64).tolist()
        return whole
    digits = 3 - np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    scale = 10.0 ** np.clip(digits, 0, 300)
    rounded: list[Any] = (np.round(values * scale) / scale).tolist()
    return rounded
