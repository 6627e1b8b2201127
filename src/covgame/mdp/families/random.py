"""Worlds drawn at random: garnets and directed graphs."""

from __future__ import annotations

import numpy as np

from covgame.mdp.families.building import (
    check,
    check_probability,
    from_table,
    generator,
    shape_of,
)
from covgame.mdp.families.registry import family
from covgame.mdp.model import TabularMDP
from covgame.memory import require_room
from covgame.types import IntArray


@family("garnet", "garnet:states=20,actions=4,horizon=10,branching=3")
def garnet(
    states: int = 20,
    actions: int = 4,
    horizon: int = 10,
    branching: int = 3,
    stationary: bool = False,
    seed: int = 0,
) -> TabularMDP:
    """Random worlds: each pair has a few successors, drawn anew at every stage.

    Successors are distinct and uniform, their probabilities uniform on the simplex, the mean
    rewards uniform on [0, 1]. ``stationary=true`` draws one kernel for all stages.
    """
    shape = shape_of(horizon, states, actions)
    check(1 <= branching <= states, "garnet: branching must lie between 1 and states")
    stored = 1 if stationary else max(1, horizon - 1)
    require_room(shape, stored * shape.pairs * branching, "a garnet")
    rng = generator(seed)
    successors = _distinct(rng, stored * shape.pairs, states, branching)
    probabilities = rng.dirichlet(np.ones(branching), stored * shape.pairs)
    rewards = rng.random((stored if stationary else horizon, states, actions))
    return from_table(shape, successors, probabilities, rewards, stationary=stationary)


@family("digraph", "digraph:nodes=20,actions=3,horizon=20,slip=0.1")
def digraph(
    nodes: int = 20, actions: int = 3, horizon: int = 20, slip: float = 0.0, seed: int = 0
) -> TabularMDP:
    """A random directed graph: each action of a node leads to another one.

    A random cycle through all nodes is a part of it, so every node can be reached from every
    other. The other edges are uniform and distinct. With probability ``slip`` a random action of
    the node is taken instead. The last node of the cycle earns 1.
    """
    shape = shape_of(horizon, nodes, actions)
    check(actions <= nodes - 1, "digraph: actions must be fewer than nodes")
    check_probability("digraph: slip", slip)
    require_room(shape, shape.pairs * actions, "a directed graph")
    rng = generator(seed)
    order = np.append(0, 1 + rng.permutation(nodes - 1))  # episodes start in node 0
    following = np.empty(nodes, dtype=np.int64)
    following[order] = np.roll(order, -1)
    edges = np.empty((nodes, actions), dtype=np.int64)
    for node in range(nodes):
        others = np.setdiff1d(np.arange(nodes), [node, following[node]])
        drawn = rng.choice(others, actions - 1, replace=False)
        edges[node] = rng.permutation(np.append(drawn, following[node]))
    rewards = np.zeros((1, nodes, actions))
    rewards[0, order[-1]] = 1.0
    if not slip:
        successors, probabilities = edges.reshape(-1, 1), np.ones((shape.pairs, 1))
    else:
        successors = np.repeat(edges, actions, axis=0)
        probabilities = np.tile((1 - slip) * np.eye(actions) + slip / actions, (nodes, 1))
    return from_table(shape, successors, probabilities, rewards, stationary=True)


def _distinct(rng: np.random.Generator, rows: int, states: int, count: int) -> IntArray:
    """``count`` distinct states for each row, uniformly (Floyd's algorithm on all rows)."""
    chosen = np.empty((rows, count), dtype=np.int64)
    for column, last in enumerate(range(states - count, states)):
        drawn = rng.integers(0, last + 1, size=rows)
        taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, drawn)
    return chosen
