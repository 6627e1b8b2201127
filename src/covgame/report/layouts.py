"""Where states are drawn: as the grid they form, by two numbers in their names, or as a graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from covgame.report.content import Layout

if TYPE_CHECKING:
    from covgame.mdp.transitions import Transitions
    from covgame.report.state_maps import Seen

WIDEST = 64
"""Grids with more columns or rows are drawn as tiles."""

MOST_NODES = 40
LONGEST_CHAIN = 12
MOST_EDGES = 160

COORDINATES = re.compile(r"[(\[]\s*(-?\d{1,4})\s*,\s*(-?\d{1,4})\s*[)\]]")


def links_in(kernel: Transitions) -> frozenset[tuple[int, int]]:
    """Which states follow which."""
    links: set[tuple[int, int]] = set()
    for stage in kernel.stages[:1] if kernel.stationary else kernel.stages:
        rows = np.repeat(np.arange(len(stage.start) - 1), np.diff(stage.start))
        states = rows // kernel.shape.actions
        links.update(zip(states.tolist(), stage.next_state.tolist(), strict=True))
    return frozenset(link for link in links if link[1] >= 0)


def layout_of(seen: Seen, size: int) -> Layout:
    """The first of grid, plane, graph and tiles that shows these states as they are."""
    if size == 1:
        for kind in (_grid, _plane, _graph):
            found = kind(seen)
            if found is not None:
                return found
    return _tiles(seen, -(-len(seen.states) // size))


def _marks(seen: Seen) -> list[str]:
    """What places are: as their environment says; else where episodes began is known."""
    states, places = seen.states.tolist(), seen.names.places
    if places is not None:
        return [places[state] if state < len(places) else "" for state in states]
    return ["start" if seen.starts[state] else "" for state in states]


def _grid(seen: Seen) -> Layout | None:
    """One that the environment has told us of."""
    grid = seen.names.grid
    if grid is None or max(grid) > WIDEST or len(seen.states) != grid[0] * grid[1]:
        return None
    rows, columns = grid
    places = [divmod(state, columns) for state in range(rows * columns)]
    x, y = [column for _, column in places], [row for row, _ in places]
    return Layout("grid", columns, rows, x, y, _marks(seen), [], "")


def coordinates(labels: Sequence[str]) -> list[tuple[int, int]] | None:
    """The places of names that are two whole numbers, (3, 5); None if others are among them."""
    found = [COORDINATES.fullmatch(label) for label in labels]
    pairs = [(int(one[1]), int(one[2])) for one in found if one is not None]
    if not pairs or len(pairs) < len(found) or len(set(pairs)) < len(pairs):
        return None
    spread = [max(axis) - min(axis) for axis in zip(*pairs, strict=True)]
    return pairs if max(spread) < WIDEST else None


def _plane(seen: Seen) -> Layout | None:
    """States whose names are two whole numbers."""
    if seen.names.states is None:
        return None
    pairs = coordinates([seen.names.state(state) for state in seen.states.tolist()])
    if pairs is None:
        return None
    (left, right), (bottom, top) = ((min(axis), max(axis)) for axis in zip(*pairs, strict=True))
    note = f"First number from {left} on to the right, second from {bottom} on upwards."
    x, y = [x - left for x, _ in pairs], [top - y for _, y in pairs]
    columns, rows = right - left + 1, top - bottom + 1
    return Layout("plane", columns, rows, x, y, _marks(seen), [], note)


def _graph(seen: Seen) -> Layout | None:
    """A few states: by how many steps they are away from the start, with arrows between them."""
    states = seen.states.tolist()
    if not seen.links or len(states) > MOST_NODES:
        return None
    tile = {state: i for i, state in enumerate(states)}
    edges = sorted((tile[a], tile[b]) for a, b in seen.links if a in tile and b in tile)
    first = [tile[state] for state in states if seen.starts[state]]
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
    return Layout("graph", len(layers), tallest, x, y, _marks(seen), drawn, note)


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


def _tiles(seen: Seen, tiles: int) -> Layout:
    """Many states: side by side, in order."""
    columns = max(1, min(tiles, round((tiles * 2.2) ** 0.5), 80))
    x, y = [i % columns for i in range(tiles)], [i // columns for i in range(tiles)]
    marks = _marks(seen) if tiles == len(seen.states) else [""] * tiles
    order = "in the order of their numbers"
    note = f"States side by side, {order}, line by line."
    return Layout("tiles", columns, -(-tiles // columns), x, y, marks, [], note)
