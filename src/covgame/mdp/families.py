"""Worlds by name: each family is one function from a few parameters to a TabularMDP.

``garnet:states=20,actions=4`` names a world; ``covgame envs`` lists the families. The
functions here draw the numbers; ``Builder`` turns them into a checked model.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np

from covgame.errors import BadInput
from covgame.mdp.model import Names, TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.memory import require_room
from covgame.types import END, FloatArray, IntArray, Shape

Parameter = int | float | bool | str


@dataclass(frozen=True)
class Family:
    """A named family of worlds with its parameters and their defaults."""

    name: str
    build: Callable[..., TabularMDP]
    example: str

    @property
    def summary(self) -> str:
        return inspect.cleandoc(self.build.__doc__ or "").split("\n", 1)[0]

    @property
    def description(self) -> str:
        return inspect.cleandoc(self.build.__doc__ or "")

    @property
    def defaults(self) -> dict[str, Parameter]:
        parameters = inspect.signature(self.build).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    def make(self, given: Mapping[str, str]) -> TabularMDP:
        """Build the world from parameters as text, checked by name and type."""
        types = get_type_hints(self.build)
        values = {}
        for name, text in given.items():
            if name not in self.defaults:
                known = ", ".join(self.defaults)
                raise BadInput(f"{self.name} has no parameter {name!r}; it takes {known}")
            values[name] = _convert(f"{self.name}:{name}", text, types[name])
        return self.build(**values)


FAMILIES: dict[str, Family] = {}


def family(name: str, example: str) -> Callable[[Callable[..., TabularMDP]], Any]:
    """Register a function as the family ``name``."""

    def register(build: Callable[..., TabularMDP]) -> Callable[..., TabularMDP]:
        FAMILIES[name] = Family(name, build, example)
        return build

    return register


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
    shape = _shape(horizon, states, actions)
    _check(1 <= branching <= states, "garnet: branching must lie between 1 and states")
    stored = 1 if stationary else max(1, horizon - 1)
    require_room(shape, stored * shape.pairs * branching, "a garnet")
    rng = _rng(seed)
    successors = _distinct(rng, stored * shape.pairs, states, branching)
    probabilities = rng.dirichlet(np.ones(branching), stored * shape.pairs)
    rewards = rng.random((stored if stationary else horizon, states, actions))
    return _from_table(shape, successors, probabilities, rewards, stationary=stationary)


@family("riverswim", "riverswim:states=8,horizon=20")
def riverswim(states: int = 8, horizon: int = 20) -> TabularMDP:
    """A river: swimming right against the current mostly fails, drifting left never does.

    The swimmer starts at the left bank, where drifting earns 0.005; the right bank earns 1.
    """
    shape = _shape(horizon, states, 2)
    _check(states >= 2, "riverswim: states must be at least 2")
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
    shape = _shape(size, size, 2)
    _check_probability("deepsea: noise", noise)
    require_room(shape, 4 * size, "a sea")
    world = Builder(shape, Names(actions=("left", "right")))
    for column in range(size):
        left, right = max(column - 1, 0), min(column + 1, size - 1)
        world.move(column, 0, _mix({left: 1 - noise}, {right: noise}))
        world.move(column, 1, _mix({right: 1 - noise}, {left: noise}))
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


@family("lock", "lock:horizon=8,actions=4")
def lock(horizon: int = 8, actions: int = 4, slip: float = 0.0, seed: int = 0) -> TabularMDP:
    """A combination lock: one secret action per stage goes on, any other falls for good.

    State 0 is on the way, state 1 has fallen. Going on fails with probability ``slip``; the
    last secret action earns 1.
    """
    shape = _shape(horizon, 2, actions)
    _check_probability("lock: slip", slip)
    require_room(shape, 3 * shape.cells, "a lock")
    world = Builder(shape, Names(states=("on the way", "fallen")))
    secret = _rng(seed).integers(actions, size=horizon).tolist()
    for h in range(horizon):
        for a in range(actions):
            onwards = _mix({0: 1 - slip}, {1: slip}) if a == secret[h] else {1: 1.0}
            world.move(0, a, onwards, stage=h)
            world.move(1, a, {1: 1.0}, stage=h)
    world.earn(0, secret[-1], 1.0, stage=horizon - 1)
    return world.build()


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
    shape = _shape(horizon, rows * columns, 4)
    _check(rows >= 1 and columns >= 1, "grid: rows and columns must be at least 1")
    _check(not rooms or min(rows, columns) >= 5, "grid: rooms need 5 rows and columns at least")
    _check(start in ("corner", "middle"), "grid: start must be corner or middle")
    _check(start == "corner" or not rooms, "grid: with rooms, a wall stands in the middle")
    _check_probability("grid: slip", slip)
    require_room(shape, 16 * shape.states, "a grid")
    walls = _cross_of_walls(rows, columns) if rooms else frozenset()
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    goal = shape.states - 1
    names = Names(actions=("up", "right", "down", "left"), grid=(rows, columns))
    middle = rows // 2 * columns + columns // 2
    world = Builder(shape, names, start=0 if start == "corner" else middle)

    def neighbour(s: int, move: tuple[int, int]) -> int:
        row, column = s // columns + move[0], s % columns + move[1]
        inside = 0 <= row < rows and 0 <= column < columns
        return row * columns + column if inside and (row, column) not in walls else s

    for s in range(shape.states):
        for a, move in enumerate(moves):
            if ends and s == goal:
                world.move(s, a, {END: 1.0})
                continue
            anywhere = _mix(*({neighbour(s, other): slip / 4} for other in moves))
            world.move(s, a, _mix({neighbour(s, move): 1 - slip}, anywhere))
    for a in range(4):
        world.earn(goal, a, 1.0)
    return world.build()


@family("tree", "tree:horizon=4,actions=2")
def tree(horizon: int = 4, actions: int = 2) -> TabularMDP:
    """A deterministic tree: every action leads to a node of its own.

    Node n's children are n*actions + 1, ..., n*actions + actions; rewards are 0.
    """
    _check(horizon >= 1 and actions >= 1, "tree: horizon and actions must be at least 1")
    nodes = sum(actions**h for h in range(horizon if actions == 1 else min(horizon, 63)))
    shape = _shape(horizon, nodes, actions)
    require_room(shape, shape.pairs, "a tree")
    child = np.arange(shape.pairs) + 1
    child[child >= shape.states] = END
    return _from_table(
        shape,
        child[:, None],
        np.ones((shape.pairs, 1)),
        np.zeros((1, shape.states, actions)),
        stationary=True,
    )


@family("bandit", "bandit:contexts=5,actions=3,horizon=6")
def bandit(contexts: int = 5, actions: int = 3, horizon: int = 6, seed: int = 0) -> TabularMDP:
    """A contextual bandit in disguise: what comes next does not depend on the action.

    The next context depends on the context and the stage, and covering in proportion to
    reachability costs exactly ``actions`` episodes (Appendix E.7 of the paper).
    """
    shape = _shape(horizon, contexts, actions)
    stored = max(1, horizon - 1)
    require_room(shape, stored * shape.pairs * contexts, "a bandit")
    rng = _rng(seed)
    drawn = rng.dirichlet(np.ones(contexts), stored * contexts)
    rewards = rng.random((horizon, contexts, actions))
    return _from_table(
        shape,
        np.tile(np.arange(contexts), (stored * shape.pairs, 1)),
        np.repeat(drawn, actions, axis=0),
        rewards,
        stationary=False,
    )


@family("ergodic", "ergodic:states=10,actions=3,horizon=5,alpha=0.5,beta=0.25")
def ergodic(
    states: int = 10,
    actions: int = 3,
    horizon: int = 5,
    alpha: float = 0.5,
    beta: float = 0.25,
    seed: int = 0,
) -> TabularMDP:
    """Worlds that mix: no successor is rarer than (1 - S^(beta-1))/(S-1).

    Then none is likelier than S^(beta-1), so that the paper's cap S^(alpha-1), alpha > beta,
    holds by itself and alpha changes nothing. Covering in proportion to reachability costs at
    most S^beta A H <= S^alpha A H episodes (Appendix E.7 of the paper; see the list of slips).
    """
    shape = _shape(horizon, states, actions)
    _check(states >= 2, "ergodic: states must be at least 2")
    _check(0 < beta < alpha < 1, "ergodic: needs 0 < beta < alpha < 1")
    stored = max(1, horizon - 1)
    require_room(shape, stored * shape.pairs * states, "an ergodic world")
    rng = _rng(seed)
    floor = (1 - states ** (beta - 1)) / (states - 1)
    free = rng.dirichlet(np.full(states, 0.3), stored * shape.pairs)
    return _from_table(
        shape,
        np.tile(np.arange(states), (stored * shape.pairs, 1)),
        floor + (1 - states * floor) * free,
        rng.random((horizon, states, actions)),
        stationary=False,
    )


@family("twobranch", "twobranch:states=20,actions=4,horizon=5,gap=0.5")
def twobranch(
    states: int = 20,
    actions: int = 4,
    horizon: int = 5,
    gap: float = 0.5,
    further: float = 0.0,
    seed: int = 0,
) -> TabularMDP:
    """A small branch worth taking beside a large barren one (the comparison with MOCA).

    Action 0 in state 0 earns ``gap`` and enters a random world of log(S) states, in which the
    A actions come in log(A) kinds (at least 2) and earn up to ``further``. Any other action
    enters a deterministic world of the other states, without reward.
    """
    shape = _shape(horizon, states, actions)
    _check(states >= 4 and actions >= 2, "twobranch: needs at least 4 states and 2 actions")
    _check(0 < gap <= 1, f"twobranch: gap must lie above 0 and at most at 1, not {gap}")
    _check_probability("twobranch: further", further)
    require_room(shape, 2 * shape.pairs, "a two-branch world")
    rng = _rng(seed)
    small = max(1, round(math.log(states)))
    kinds = max(2, round(math.log(actions)))
    barren = range(1 + small, states)
    world = Builder(shape)
    world.move(0, 0, {1: 1.0})
    world.earn(0, 0, gap)
    for a in range(1, actions):
        world.move(0, a, {barren[(a - 1) % len(barren)]: 1.0})
    for s in range(1, 1 + small):
        odds = rng.dirichlet(np.ones(small), kinds)
        means = further * rng.random(kinds)
        for a in range(actions):
            world.move(s, a, {1 + i: float(odds[a % kinds, i]) for i in range(small)})
            world.earn(s, a, float(means[a % kinds]))
    for place, s in enumerate(barren):
        for a in range(actions):
            world.move(s, a, {barren[(place * actions + a) % len(barren)]: 1.0})
    return world.build()


@family("rareprize", "rareprize:chance=0.01")
def rareprize(chance: float = 0.01, sure: float = 0.25) -> TabularMDP:
    """A prize that is hardly ever won beside a smaller one that is sure.

    Action 0 leads to the prize of 1 with probability ``chance`` and to nothing otherwise, action 1
    stays, and staying earns ``sure`` at the second and last stage. PruneDataset takes the rare
    prize for a frequent one (docs/pruning.md).
    """
    _check_probability("rareprize: chance", chance)
    _check_probability("rareprize: sure", sure)
    stay, prize, nothing = 0, 1, 2
    world = Builder(_shape(2, 3, 2))
    world.move(stay, 0, {prize: chance, nothing: 1 - chance}, stage=0)
    world.move(stay, 1, {stay: 1.0}, stage=0)
    for s in (prize, nothing):
        for a in (0, 1):
            world.move(s, a, {s: 1.0}, stage=0)
    for a in (0, 1):
        world.earn(prize, a, 1.0, stage=1)
        world.earn(stay, a, sure, stage=1)
    return world.build()


@family("inventory", "inventory:capacity=10,horizon=12")
def inventory(capacity: int = 10, orders: int = 4, horizon: int = 12) -> TabularMDP:
    """A stock that is replenished and sold; demand changes with the season (the stage).

    The state is the stock, the action how much is ordered. Demand is binomial out of
    ``capacity`` with a mean that swings over the stages; a sale earns its share of capacity.
    """
    shape = _shape(horizon, capacity + 1, orders)
    _check(capacity >= 1, "inventory: capacity must be at least 1")
    require_room(shape, shape.cells * (capacity + 1), "an inventory")
    world = Builder(shape)
    for h in range(horizon):
        season = 0.3 + 0.2 * math.sin(2 * math.pi * h / horizon)
        demand = _binomial(capacity, season)
        for stock in range(capacity + 1):
            for ordered in range(orders):
                full = min(stock + ordered, capacity)
                left = _mix(*({max(full - d, 0): p} for d, p in enumerate(demand)))
                world.move(stock, ordered, left, stage=h)
                sold = sum(p * (full - rest) for rest, p in left.items())
                world.earn(stock, ordered, sold / capacity, stage=h)
    return world.build()


class Builder:
    """Collects moves and rewards cell by cell; a move without a stage holds at every stage."""

    def __init__(self, shape: Shape, names: Names | None = None, start: int = 0) -> None:
        self.shape = shape
        self.names = names or Names()
        self.start = start
        self._moves: list[tuple[int | None, int, int, int, float]] = []
        self._rewards: list[tuple[int | None, int, int, float]] = []

    def move(
        self, state: int, action: int, to: Mapping[int, float], stage: int | None = None
    ) -> None:
        self._moves += [(stage, state, action, successor, p) for successor, p in to.items()]

    def earn(self, state: int, action: int, mean: float, stage: int | None = None) -> None:
        self._rewards.append((stage, state, action, mean))

    def build(self) -> TabularMDP:
        stationary = all(stage is None for stage, *_ in self._moves)
        stages = range(1) if stationary else range(self.shape.horizon)
        entries = [
            ((h * self.shape.states + s) * self.shape.actions + a, successor, p)
            for stage, s, a, successor, p in self._moves
            for h in _stages_of(stage, stages)
        ]
        initial = np.zeros(self.shape.states)
        initial[self.start] = 1.0
        transitions = Transitions.from_entries(
            self.shape,
            initial,
            np.array([row for row, _, _ in entries], dtype=np.int64),
            np.array([successor for _, successor, _ in entries], dtype=np.int64),
            np.array([p for _, _, p in entries], dtype=np.float64),
            stationary=stationary,
        )
        return TabularMDP(transitions, self._stage_rewards(), self.names)

    def _stage_rewards(self) -> FloatArray:
        everywhere = all(stage is None for stage, *_ in self._rewards)
        stages = range(1) if everywhere else range(self.shape.horizon)
        rewards = np.zeros((len(stages), self.shape.states, self.shape.actions))
        for stage, s, a, mean in self._rewards:
            for h in _stages_of(stage, stages):
                rewards[h, s, a] = mean
        return rewards


def _stages_of(stage: int | None, stages: Iterable[int]) -> Iterable[int]:
    return stages if stage is None else (stage,)


def _corridor(name: str, states: int, horizon: int, slip: float, start: int) -> TabularMDP:
    shape = _shape(horizon, states, 2)
    _check(0 <= start < states, f"{name}: start must be one of its {states} states")
    _check_probability(f"{name}: slip", slip)
    require_room(shape, 4 * states, "a chain")
    world = Builder(shape, Names(actions=("left", "right")), start)
    for s in range(states):
        left, right = max(s - 1, 0), min(s + 1, states - 1)
        world.move(s, 0, _mix({left: 1 - slip}, {right: slip}))
        world.move(s, 1, _mix({right: 1 - slip}, {left: slip}))
    world.earn(states - 1, 1, 1.0)
    return world.build()


def _from_table(
    shape: Shape,
    successors: IntArray,
    probabilities: FloatArray,
    stage_rewards: FloatArray,
    *,
    stationary: bool,
) -> TabularMDP:
    """A world from one line of successors per pair, or per pair and stage before the last."""
    row = np.repeat(np.arange(len(successors)), successors.shape[1])
    initial = np.zeros(shape.states)
    initial[0] = 1.0
    transitions = Transitions.from_entries(
        shape,
        initial,
        row,
        successors.ravel().astype(np.int64),
        probabilities.ravel(),
        stationary=stationary,
    )
    return TabularMDP(transitions, stage_rewards)


def _distinct(rng: np.random.Generator, rows: int, states: int, count: int) -> IntArray:
    """``count`` distinct states for each row, uniformly (Floyd's algorithm on all rows)."""
    chosen = np.empty((rows, count), dtype=np.int64)
    for column, last in enumerate(range(states - count, states)):
        drawn = rng.integers(0, last + 1, size=rows)
        taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, drawn)
    return chosen


def _binomial(trials: int, chance: float) -> list[float]:
    """The binomial probabilities, also where the coefficients overflow."""
    d = np.arange(trials + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    log_ways = log_factorial[trials] - log_factorial[d] - log_factorial[trials - d]
    odds = np.exp(log_ways + d * math.log(chance) + (trials - d) * math.log1p(-chance))
    return [float(p) for p in odds / odds.sum()]


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


def _mix(*parts: Mapping[int, float]) -> dict[int, float]:
    """Add up probabilities of the same successor."""
    total: dict[int, float] = {}
    for part in parts:
        for successor, p in part.items():
            total[successor] = total.get(successor, 0.0) + p
    return total


def _shape(horizon: int, states: int, actions: int) -> Shape:
    for name, value in (("horizon", horizon), ("states", states), ("actions", actions)):
        _check(value >= 1, f"{name} must be at least 1")
    return Shape(horizon, states, actions)


def _rng(seed: int) -> np.random.Generator:
    _check(seed >= 0, f"seed must be at least 0, not {seed}")
    return np.random.default_rng(seed)


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise BadInput(message)


def _check_probability(name: str, value: float) -> None:
    _check(0 <= value <= 1, f"{name} must lie between 0 and 1, not {value}")


def _convert(place: str, text: str, kind: type) -> Parameter:
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise BadInput(f"{place} must be true or false, not {text!r}")
    try:
        value: Parameter = kind(text)
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise BadInput(f"{place} must be {noun}, not {text!r}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{place} must be a finite number, not {text!r}")
    return value
