"""Where states are drawn, and how much of them, however many there are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.names import Names
from covgame.report.html import page_html
from covgame.report.maps import MOST_TILES, MapData, layout_of, numbers, state_map
from tests.pages import data_in, shell


def seen(names: Names, states: int, **changes: Any) -> MapData:
    room = np.zeros((2, states, 2), dtype=np.int64)
    rows, nothing = np.zeros((0, 3), dtype=np.int64), np.zeros(0)
    starts = (np.arange(states) == 0).astype(np.int64)
    known = MapData(names, room, np.arange(states), rows, nothing, nothing, starts)
    return MapData(**(vars(known) | changes))


def test_frozen_lake_is_drawn_as_its_map() -> None:
    lake = cg.make("gym:FrozenLake-v1", horizon=4)
    assert lake.model is not None
    drawn = layout_of(seen(lake.model.names, 16), 1)
    letters = {"start": "S", "hole": "H", "goal": "G", "": "F"}
    found = ["".join(letters[mark] for mark in drawn.marks[i : i + 4]) for i in range(0, 16, 4)]
    assert found == ["SFFF", "FHFH", "FFFH", "HFFG"]
    assert (drawn.kind, drawn.columns, drawn.rows) == ("grid", 4, 4)
    assert list(zip(drawn.x, drawn.y, strict=True))[6] == (2, 1)


def test_the_cliff_and_walls_are_drawn() -> None:
    cliff = cg.make("gym:CliffWalking-v1", horizon=4).model
    rooms = cg.make("grid:rows=5,columns=5,rooms=true,horizon=4").model
    assert cliff is not None
    assert rooms is not None
    assert list(cliff.names.places or ())[36:] == ["start", *["cliff"] * 10, "goal"]
    assert [s for s, place in enumerate(rooms.names.places or ()) if place == "wall"] == (
        [s for s in (2, 7, 10, 11, 12, 13, 14, 17, 22) if s not in (7, 17, 11, 13)]
    )


def test_names_that_are_two_numbers_make_a_plane() -> None:
    drawn = layout_of(seen(Names(["(3, 5)", "(4, 5)", "(3, 7)"]), 3), 1)
    assert (drawn.kind, drawn.columns, drawn.rows) == ("plane", 2, 3)
    assert (drawn.x, drawn.y) == ([0, 1, 0], [2, 2, 0])  # the second number upwards
    for other in (["(3, 5)", "(3, 5)", "x"], ["(3, 5)", "(3, 5)", "(1, 1)"], ["(0, 0)"] * 3):
        assert layout_of(seen(Names(other), 3), 1).kind == "tiles"


def test_few_states_make_a_graph_by_their_distance() -> None:
    links = frozenset({(0, 1), (1, 2), (2, 0), (1, 1), (0, 3)})
    drawn = layout_of(seen(Names(), 5, links=links), 1)
    assert drawn.kind == "graph"
    assert drawn.x == [0, 1, 2, 1, 3]  # the last one has no way to it
    assert sorted(drawn.edges) == [[0, 1], [0, 3], [1, 2], [2, 0]]
    places = set(zip(drawn.x, drawn.y, strict=True))
    assert len(places) == 5


def test_many_states_are_tiles_each_in_a_place_of_its_own() -> None:
    drawn = layout_of(seen(Names(), 1000), 1)
    assert drawn.kind == "tiles"
    assert len(set(zip(drawn.x, drawn.y, strict=True))) == 1000
    assert drawn.columns * (drawn.rows - 1) < 1000 <= drawn.columns * drawn.rows


# ------------------------------------------------------------------------ large ones


@pytest.mark.parametrize(
    "shape", [(10, 2500, 4), (1000, 25, 4), (1, 1000, 100), (25, 1000, 4), (2, 50_000, 1)]
)
def test_a_page_of_100_000_cells_stays_below_a_megabyte(shape: tuple[int, int, int]) -> None:
    """At worst: labels, visits and targets that nothing compresses."""
    rng = np.random.default_rng(0)
    states = shape[1]
    labels = ["".join(chr(33 + c) for c in row) for row in rng.integers(0, 90, (states, 40))]
    visits = rng.integers(0, 100_000, shape)
    rows = np.argwhere(visits >= 0)
    wanted = rng.integers(1, 100_000, len(rows)).astype(np.float64)
    lacking = np.maximum(wanted - visits.ravel(), 0)
    world = seen(Names(labels), states, visits=visits, rows=rows, counts=wanted, missing=lacking)
    drawn = state_map(world)
    assert drawn is not None
    assert len(drawn.labels) <= MOST_TILES
    assert sum(drawn.overall.visits) == visits.sum()
    assert np.sum(drawn.by_stage.visits) == visits.sum()
    assert np.sum(drawn.by_stage.missing) == lacking.sum()
    text = page_html(shell(drawn))
    assert len(text.encode()) < 1_000_000
    assert data_in(text)["state_map"]["labels"] == drawn.labels


def test_numbers_are_whole_where_they_can_be() -> None:
    assert numbers(np.array([1.0, 2e9])) == [1, 2_000_000_000]
    assert numbers(np.array([0.123456, 12345.678, 0.0])) == [0.1235, 12346.0, 0.0]
    assert json.dumps(numbers(np.array([3.0]))) == "[3]"
