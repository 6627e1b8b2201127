"""Worlds with long episodes: corridors, mazes, directed graphs and combination locks."""

from __future__ import annotations

import numpy as np

from covgame.mdp.families import Builder
from covgame.mdp.model import TabularMDP
from covgame.types import Shape


def corridor(states: int, horizon: int, slip: float = 0.0) -> TabularMDP:
    """Left and right; with probability ``slip`` a step goes the other way."""
    moves = [[max(s - 1, 0), min(s + 1, states - 1)] for s in range(states)]
    return _slippery(moves, horizon, slip)


def maze(side: int, horizon: int, slip: float = 0.0, seed: int = 0) -> TabularMDP:
    """A maze without loops on side x side rooms, entered in a corner."""
    rng = np.random.default_rng(seed)
    steps = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    doors, seen, path = set(), {(0, 0)}, [(0, 0)]
    while path:
        y, x = path[-1]
        beside = [(y + dy, x + dx) for dy, dx in steps]
        new = [to for to in beside if min(to) >= 0 and max(to) < side and to not in seen]
        if not new:
            path.pop()
            continue
        to = new[rng.integers(len(new))]
        doors |= {((y, x), to), (to, (y, x))}
        seen.add(to)
        path.append(to)
    moves = []
    for y in range(side):
        for x in range(side):
            beside = [(y + dy, x + dx) for dy, dx in steps]
            moves.append(
                [b[0] * side + b[1] if ((y, x), b) in doors else y * side + x for b in beside]
            )
    return _slippery(moves, horizon, slip)


def digraph(
    states: int, horizon: int, slip: float = 0.0, actions: int = 3, seed: int = 0
) -> TabularMDP:
    """A cycle through all states, and random edges."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(states)
    following = dict(zip(order.tolist(), np.roll(order, -1).tolist(), strict=True))
    moves = [
        rng.permutation([following[s], *rng.integers(states, size=actions - 1)]).tolist()
        for s in range(states)
    ]
    return _slippery(moves, horizon, slip)


def lock(
    states: int, horizon: int, slip: float = 0.0, actions: int = 3, seed: int = 0
) -> TabularMDP:
    """One secret action goes on, with probability 1 - ``slip``; else back to the beginning."""
    rng = np.random.default_rng(seed)
    world = Builder(Shape(horizon, states, actions))
    for s in range(states):
        secret = int(rng.integers(actions))
        for a in range(actions):
            on = {min(s + 1, states - 1): 1 - slip, **({0: slip} if slip else {})}
            world.move(s, a, on if a == secret else {0: 1.0})
    return world.build()


def _slippery(moves: list[list[int]], horizon: int, slip: float) -> TabularMDP:
    """Where each action of each state leads; with probability ``slip`` one of the others does."""
    actions = len(moves[0])
    world = Builder(Shape(horizon, len(moves), actions))
    for s, places in enumerate(moves):
        for a in range(actions):
            chances = dict.fromkeys(places, 0.0)
            for b, to in enumerate(places):
                chances[to] += 1 - slip if a == b else slip / (actions - 1)
            world.move(s, a, {to: chance for to, chance in chances.items() if chance > 0})
    return world.build()
