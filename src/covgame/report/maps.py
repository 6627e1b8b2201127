"""Maps of states: visits against target by state and stage, and where states are drawn.

States are drawn on the grid they form, by two numbers in their names, as a graph, or side by side.
Where there are very many, several states share a tile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from covgame.arrays import sum_by_index
from covgame.names import Names
from covgame.report.view import Amounts, Layout, StateMap
from covgame.types import BoolArray, FloatArray, IntArray, Policy

if TYPE_CHECKING:
    from covgame.mdp.transitions import Transitions

MOST_TILES = 4_000
"""More states are drawn several to a tile."""

MOST_ENTRIES = 40_000
"""More than so many (stage, tile) are drawn several stages to a position of the slider."""

MOST_CELLS = 20_000
"""Up to so many (stage, tile, action) actions are told apart."""


WIDEST = 64
"""Grids with more columns or rows are drawn as tiles."""

MOST_NODES = 40
LONGEST_CHAIN = 12
MOST_EDGES = 160

COORDINATES = re.compile(r"[(\[]\s*(-?\d{1,4})\s*,\s*(-?\d{1,4})\s*[)\]]")


@dataclass(frozen=True, eq=False)
class MapData:
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


def state_map(data: MapData, note: str = "") -> StateMap | None:
    """The map, None if there are no states to draw."""
    if not len(data.states):
        return None
    tiles = _Tiles(data)
    names, actions = data.names, data.visits.shape[2]
    detailed = tiles.n * actions <= MOST_CELLS and tiles.size == 1
    stage_actions = None
    if detailed and tiles.n_slices * tiles.n * actions <= MOST_CELLS:
        starts = np.arange(0, tiles.horizon, tiles.span)
        stage_actions = numbers(np.add.reduceat(data.visits[:, data.states], starts, axis=0))
    by_stage, asked_by_stage = tiles.by_stage()
    shared = "" if tiles.size == 1 else f"every tile stands for {tiles.size:,} states"
    return StateMap(
        layout_of(data, tiles.size),
        tiles.labels(),
        [names.action(action) for action in range(actions)],
        tiles.stage_labels(),
        asked_by_stage,
        tiles.overall(),
        by_stage,
        tiles.by_action() if detailed else None,
        stage_actions,
        tiles.policy(data.policy) if data.policy is not None and tiles.size == 1 else None,
        "; ".join(part for part in (note, shared) if part),
        named=names.states is not None or names.grid is not None,
    )


class _Tiles:
    """States as tiles and stages as slices, several to one where there are too many."""

    def __init__(self, data: MapData) -> None:
        self.data = data
        self.horizon, room, self.actions = data.visits.shape
        self.size = -(-len(data.states) // MOST_TILES)
        self.n = -(-len(data.states) // self.size)
        self.span = -(-self.horizon // max(1, min(self.horizon, MOST_ENTRIES // self.n)))
        self.n_slices = -(-self.horizon // self.span)
        tile_of = np.full(room, -1, dtype=np.int64)
        tile_of[data.states] = np.arange(len(data.states)) // self.size
        state = data.rows[:, 1]
        drawn = (state >= 0) & (tile_of[np.maximum(state, 0)] >= 0)  # rows of groups are not
        self.rows, self.tile = data.rows[drawn], tile_of[state[drawn]]
        self.counts, self.missing = data.counts[drawn], data.missing[drawn]

    def labels(self) -> list[str]:
        names, states = self.data.names, self.data.states.tolist()
        if self.size == 1:
            return [names.state(state) for state in states]
        parts = [states[i : i + self.size] for i in range(0, len(states), self.size)]
        return [f"{names.state(part[0])} to {names.state(part[-1])}" for part in parts]

    def stage_labels(self) -> list[str]:
        first = range(0, self.horizon, self.span)
        last = (min(stage + self.span, self.horizon) - 1 for stage in first)
        return [str(a) if a == b else f"{a} to {b}" for a, b in zip(first, last, strict=True)]

    def overall(self) -> Amounts:
        visits = self._by_slice().sum(axis=0)
        return self._amounts(visits, self.tile, (self.n,))

    def by_stage(self) -> tuple[Amounts, bool]:
        """(amounts by slice and tile, whether the target names stages)."""
        visits, staged = self._by_slice(), self.rows[:, 0] >= 0
        if not staged.any():
            return Amounts(numbers(visits), [], []), False
        place = self.rows[:, 0] // self.span * self.n + self.tile
        return self._amounts(visits, place, (self.n_slices, self.n), staged), True

    def by_action(self) -> Amounts:
        """At all stages; rows for any action are in none of these."""
        visits = self.data.visits.sum(axis=0)[self.data.states]
        place = self.tile * self.actions + self.rows[:, 2]
        return self._amounts(visits, place, (self.n, self.actions), self.rows[:, 2] >= 0)

    def policy(self, policy: Policy) -> list[list[int]]:
        """The likeliest action in the middle of every slice, where that state was seen."""
        chosen = policy.probabilities().argmax(axis=2)
        known = self.data.visits[:, : chosen.shape[1]].any(axis=2)
        drawn = np.where(known, chosen, -1)[:, self.data.states]
        middle = np.minimum(np.arange(self.n_slices) * self.span + self.span // 2, self.horizon - 1)
        table: list[list[int]] = drawn[middle].tolist()
        return table

    def _by_slice(self) -> FloatArray:
        """(slices, tiles), visits with any action."""
        drawn = self.data.visits.sum(axis=2)[:, self.data.states].astype(np.float64)
        by_tile = np.add.reduceat(drawn, np.arange(0, drawn.shape[1], self.size), axis=1)
        return np.add.reduceat(by_tile, np.arange(0, self.horizon, self.span), axis=0)

    def _amounts(
        self,
        visits: npt.NDArray[Any],
        place: IntArray,
        shape: tuple[int, ...],
        rows: BoolArray | slice = slice(None),
    ) -> Amounts:
        """Visits, and what the rows at these places ask for and lack."""
        wanted, missing = (
            sum_by_index(place[rows], part[rows], int(np.prod(shape))).reshape(shape)
            for part in (self.counts, self.missing)
        )
        return Amounts(numbers(visits), numbers(wanted), numbers(missing))


def numbers(values: npt.NDArray[Any]) -> list[Any]:
    """Nested lists in which whole numbers are written as such, others to four digits."""
    if np.issubdtype(values.dtype, np.integer) or (values == np.round(values)).all():
        whole: list[Any] = values.astype(np.int64).tolist()
        return whole
    digits = 3 - np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    scale = 10.0 ** np.clip(digits, 0, 300)
    rounded: list[Any] = (np.round(values * scale) / scale).tolist()
    return rounded


# ----------------------------------------------------------------------------- layouts


def links_in(kernel: Transitions) -> frozenset[tuple[int, int]]:
    """Which states follow which."""
    links: set[tuple[int, int]] = set()
    for stage in kernel.stages[:1] if kernel.stationary else kernel.stages:
        rows = np.repeat(np.arange(len(stage.start) - 1), np.diff(stage.start))
        states = rows // kernel.shape.actions
        links.update(zip(states.tolist(), stage.next_state.tolist(), strict=True))
    return frozenset(link for link in links if link[1] >= 0)


def layout_of(data: MapData, size: int) -> Layout:
    """The first of grid, plane, graph and tiles that shows these states as they are."""
    if size == 1:
        for kind in (_grid, _plane, _graph):
            found = kind(data)
            if found is not None:
                return found
    return _tiles(data, -(-len(data.states) // size))


def _marks(data: MapData) -> list[str]:
    """What places are: as the environment says, else where episodes began."""
    states, places = data.states.tolist(), data.names.places
    if places is not None:
        return [places[state] if state < len(places) else "" for state in states]
    return ["start" if data.starts[state] else "" for state in states]


def _grid(data: MapData) -> Layout | None:
    """The grid that the environment declares."""
    grid = data.names.grid
    if grid is None or max(grid) > WIDEST or len(data.states) != grid[0] * grid[1]:
        return None
    rows, columns = grid
    places = [divmod(state, columns) for state in range(rows * columns)]
    x, y = [column for _, column in places], [row for row, _ in places]
    return Layout("grid", columns, rows, x, y, _marks(data), [], "")


def coordinates(labels: Sequence[str]) -> list[tuple[int, int]] | None:
    """The places of names that are two whole numbers, (3, 5); None if others are among them."""
    found = [COORDINATES.fullmatch(label) for label in labels]
    pairs = [(int(one[1]), int(one[2])) for one in found if one is not None]
    if not pairs or len(pairs) < len(found) or len(set(pairs)) < len(pairs):
        return None
    spread = [max(axis) - min(axis) for axis in zip(*pairs, strict=True)]
    return pairs if max(spread) < WIDEST else None


def _plane(data: MapData) -> Layout | None:
    """States whose names are two whole numbers."""
    if data.names.states is None:
        return None
    pairs = coordinates([data.names.state(state) for state in data.states.tolist()])
    if pairs is None:
        return None
    (left, right), (bottom, top) = ((min(axis), max(axis)) for axis in zip(*pairs, strict=True))
    note = f"First number from {left} on to the right, second from {bottom} on upwards."
    x, y = [x - left for x, _ in pairs], [top - y for _, y in pairs]
    columns, rows = right - left + 1, top - bottom + 1
    return Layout("plane", columns, rows, x, y, _marks(data), [], note)


def _graph(data: MapData) -> Layout | None:
    """A few states: by how many steps they are away from the start, with arrows between them."""
    states = data.states.tolist()
    if not data.links or len(states) > MOST_NODES:
        return None
    tile = {state: i for i, state in enumerate(states)}
    edges = sorted((tile[a], tile[b]) for a, b in data.links if a in tile and b in tile)
    first = [tile[state] for state in states if data.starts[state]]
    layers = _by_distance(edges, first, len(states))
    tallest = max(map(len, layers))
    if len(layers) > LONGEST_CHAIN or tallest > LONGEST_CHAIN or len(edges) > MOST_EDGES:
        return None
    x, y = [0] * len(states), [0] * len(states)
    for column, layer in enumerate(layers):
        above = (tallest - len(layer)) // 2
        for row, node in enumerate(layer):
            x[node], y[node] = column, above + row
    drawn = [[a, b] for a, b in edges if a != b]
    note = "Left to right by the fewest steps from the start; arrows are steps that were seen."
    return Layout("graph", len(layers), tallest, x, y, _marks(data), drawn, note)


def _by_distance(edges: Iterable[tuple[int, int]], first: list[int], size: int) -> list[list[int]]:
    """Nodes by their distance from the first ones; those without a way stand last."""
    following: dict[int, list[int]] = {}
    for a, b in edges:
        following.setdefault(a, []).append(b)
    layers, seen = [first], set(first)
    while layers[-1]:
        ahead = (b for a in layers[-1] for b in following.get(a, ()))
        fresh = list(dict.fromkeys(b for b in ahead if b not in seen))
        seen.update(fresh)
        layers.append(fresh)
    layers[-1] = [node for node in range(size) if node not in seen]
    return [layer for layer in layers if layer]


def _tiles(data: MapData, tiles: int) -> Layout:
    """Many states: side by side, in order."""
    columns = max(1, min(tiles, round((tiles * 2.2) ** 0.5), 80))
    x, y = [i % columns for i in range(tiles)], [i // columns for i in range(tiles)]
    marks = _marks(data) if tiles == len(data.states) else [""] * tiles
    note = "States side by side, in the order of their numbers, line by line."
    return Layout("tiles", columns, -(-tiles // columns), x, y, marks, [], note)
