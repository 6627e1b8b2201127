"""Walks on a grid, open or with rooms, and in mazes."""

from __future__ import annotations

from covgame.mdp.families.building import (
    Builder,
    check,
    check_probability,
    generator,
    mix,
    shape_of,
)
from covgame.mdp.families.registry import family
from covgame.mdp.model import TabularMDP
from covgame.memory import require_room
from covgame.names import Names
from covgame.types import END

DIRECTIONS = ("up", "right", "down", "left")
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


@family("grid", "grid:rows=5,columns=5,horizon=12,slip=0.1")
def grid(
    rows: int = 5,
    columns: int = 5,
    horizon: int = 12,
    slip: float = 0.1,
    rooms: bool = False,
    ends: bool = False,
    start: str = "corner",
) -> TabularMDP:
    """A walk on a grid from the upper left corner; the lower right corner earns 1.

    With probability ``slip`` the step goes in a random direction. ``rooms=true`` puts up a
    cross of walls with four doors; ``ends=true`` ends the episode at the goal; ``start=middle``
    starts in the middle.
    """
    shape = shape_of(horizon, rows * columns, 4)
    check(rows >= 1 and columns >= 1, "grid: rows and columns must be at least 1")
    check(not rooms or min(rows, columns) >= 5, "grid: rooms need 5 rows and columns at least")
    check(start in ("corner", "middle"), "grid: start must be corner or middle")
    check(start == "corner" or not rooms, "grid: with rooms, a wall stands in the middle")
    check_probability("grid: slip", slip)
    require_room(shape, 16 * shape.states, "a grid")
    walls = _cross_of_walls(rows, columns) if rooms else frozenset()
    goal = shape.states - 1
    first = 0 if start == "corner" else rows // 2 * columns + columns // 2
    places = ["wall" if divmod(s, columns) in walls else "" for s in range(shape.states)]
    places[goal], places[first] = "goal", "start"
    names = Names(None, DIRECTIONS, (rows, columns), places)
    world = Builder(shape, names, start=first)

    def neighbour(s: int, move: tuple[int, int]) -> int:
        row, column = s // columns + move[0], s % columns + move[1]
        inside = 0 <= row < rows and 0 <= column < columns
        return row * columns + column if inside and (row, column) not in walls else s

    for s in range(shape.states):
        for a, move in enumerate(MOVES):
            if ends and s == goal:
                world.move(s, a, {END: 1.0})
                continue
            anywhere = mix(*({neighbour(s, other): slip / 4} for other in MOVES))
            world.move(s, a, mix({neighbour(s, move): 1 - slip}, anywhere))
    for a in range(4):
        world.earn(goal, a, 1.0)
    return world.build()


def _cross_of_walls(rows: int, columns: int) -> frozenset[tuple[int, int]]:
    """Two walls that cross in the middle, with a door in each of their four arms."""
    middle, centre = rows // 2, columns // 2
    wall = {(middle, c) for c in range(columns)} | {(r, centre) for r in range(rows)}
    doors = {
        (middle, centre // 2),
        (middle, (centre + columns) // 2),
        (middle // 2, centre),
        ((middle + rows) // 2, centre),
    }
    return frozenset(wall - doors - {(0, 0), (rows - 1, columns - 1)})


@family("maze", "maze:rows=5,columns=5,horizon=30,slip=0.05")
def maze(
    rows: int = 5, columns: int = 5, horizon: int = 30, slip: float = 0.0, seed: int = 0
) -> TabularMDP:
    """A maze of corridors: between any two cells there is exactly one way without turning back.

    Drawn by a random depth-first walk from the upper left corner, where episodes start; the lower
    right corner earns 1. A step against a wall stays. With probability ``slip`` the step goes in a
    random direction.
    """
    shape = shape_of(horizon, rows * columns, 4)
    check(rows >= 1 and columns >= 1, "maze: rows and columns must be at least 1")
    check_probability("maze: slip", slip)
    require_room(shape, 16 * shape.states, "a maze")
    rng, passages, seen, stack = generator(seed), dict[tuple[int, int], int](), {0}, [0]
    while stack:
        s = stack[-1]
        choices = []
        for a, (down, right) in enumerate(MOVES):
            row, column = s // columns + down, s % columns + right
            if 0 <= row < rows and 0 <= column < columns and row * columns + column not in seen:
                choices.append((a, row * columns + column))
        if not choices:
            stack.pop()
            continue
        a, neighbour = choices[int(rng.integers(len(choices)))]
        passages[s, a], passages[neighbour, (a + 2) % 4] = neighbour, s
        seen.add(neighbour)
        stack.append(neighbour)
    goal = shape.states - 1
    places = [""] * shape.states
    places[goal], places[0] = "goal", "start"
    world = Builder(shape, Names(None, DIRECTIONS, (rows, columns), places))
    for s in range(shape.states):
        anywhere = mix(*({passages.get((s, a), s): slip / 4} for a in range(4)))
        for a in range(4):
            world.move(s, a, mix({passages.get((s, a), s): 1 - slip}, anywhere))
    for a in range(4):
        world.earn(goal, a, 1.0)
    return world.build()
