"""Corridors walked left or right, and a lock that is opened stage by stage."""

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
from covgame.mdp.model import Names, TabularMDP
from covgame.memory import require_room


@family("riverswim", "riverswim:states=8,horizon=20")
def riverswim(states: int = 8, horizon: int = 20) -> TabularMDP:
    """A river: swimming right against the current mostly fails, drifting left never does.

    The swimmer starts at the left bank, where drifting earns 0.005; the right bank earns 1.
    """
    shape = shape_of(horizon, states, 2)
    check(states >= 2, "riverswim: states must be at least 2")
    require_room(shape, 4 * states, "a river")
    world = Builder(shape, Names(actions=("left", "right")))
    last = states - 1
    for s in range(states):
        world.move(s, 0, {max(s - 1, 0): 1.0})
        if s == 0:
            world.move(s, 1, {0: 0.4, 1: 0.6})
        elif s == last:
            world.move(s, 1, {last - 1: 0.4, last: 0.6})
        else:
            world.move(s, 1, {s - 1: 0.05, s: 0.6, s + 1: 0.35})
    world.earn(0, 0, 0.005)
    world.earn(last, 1, 1.0)
    return world.build()


@family("deepsea", "deepsea:size=10,noise=0.1")
def deepsea(size: int = 10, noise: float = 0.0) -> TabularMDP:
    """A sea of size x size: each stage sinks one row, and only always-right finds the treasure.

    States are columns (the row is the stage). With probability ``noise`` the diver moves the
    other way. Left earns 0.01/size, right in the last column at the bottom 1.
    """
    shape = shape_of(size, size, 2)
    check_probability("deepsea: noise", noise)
    require_room(shape, 4 * size, "a sea")
    world = Builder(shape, Names(actions=("left", "right")))
    for column in range(size):
        left, right = max(column - 1, 0), min(column + 1, size - 1)
        world.move(column, 0, mix({left: 1 - noise}, {right: noise}))
        world.move(column, 1, mix({right: 1 - noise}, {left: noise}))
        world.earn(column, 0, 0.01 / size)
    world.earn(size - 1, 1, 1.0, stage=size - 1)
    return world.build()


@family("chain", "chain:states=10,horizon=20,slip=0.1")
def chain(states: int = 10, horizon: int = 20, slip: float = 0.1, start: int = 0) -> TabularMDP:
    """A corridor walked left or right; with probability ``slip`` the step goes the other way.

    Going right at the right end earns 1. ``start`` is the first state.
    """
    return _corridor("chain", states, horizon, slip, start)


@family("doublechain", "doublechain:length=15,horizon=20,slip=0.1")
def doublechain(length: int = 15, horizon: int = 20, slip: float = 0.1) -> TabularMDP:
    """Two corridors that start in the middle: a chain of ``length`` states from its centre."""
    return _corridor("doublechain", length, horizon, slip, length // 2)


def _corridor(name: str, states: int, horizon: int, slip: float, start: int) -> TabularMDP:
    shape = shape_of(horizon, states, 2)
    check(0 <= start < states, f"{name}: start must be one of its {states} states")
    check_probability(f"{name}: slip", slip)
    require_room(shape, 4 * states, "a chain")
    world = Builder(shape, Names(actions=("left", "right")), start)
    for s in range(states):
        left, right = max(s - 1, 0), min(s + 1, states - 1)
        world.move(s, 0, mix({left: 1 - slip}, {right: slip}))
        world.move(s, 1, mix({right: 1 - slip}, {left: slip}))
    world.earn(states - 1, 1, 1.0)
    return world.build()


@family("lock", "lock:horizon=8,actions=4")
def lock(horizon: int = 8, actions: int = 4, slip: float = 0.0, seed: int = 0) -> TabularMDP:
    """A combination lock: one secret action per stage goes on, any other falls for good.

    State 0 is on the way, state 1 has fallen. Going on fails with probability ``slip``; the
    last secret action earns 1.
    """
    shape = shape_of(horizon, 2, actions)
    check_probability("lock: slip", slip)
    require_room(shape, 3 * shape.cells, "a lock")
    world = Builder(shape, Names(states=("on the way", "fallen")))
    secret = generator(seed).integers(actions, size=horizon).tolist()
    for h in range(horizon):
        for a in range(actions):
            onwards = mix({0: 1 - slip}, {1: slip}) if a == secret[h] else {1: 1.0}
            world.move(0, a, onwards, stage=h)
            world.move(1, a, {1: 1.0}, stage=h)
    world.earn(0, secret[-1], 1.0, stage=horizon - 1)
    return world.build()
