"""What families are built with: moves and rewards cell by cell, or tables; checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from covgame.errors import BadInput
from covgame.mdp.model import Names, TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.types import FloatArray, IntArray, Shape


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


def from_table(
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


def mix(*parts: Mapping[int, float]) -> dict[int, float]:
    """Add up probabilities of the same successor."""
    total: dict[int, float] = {}
    for part in parts:
        for successor, p in part.items():
            total[successor] = total.get(successor, 0.0) + p
    return total


def shape_of(horizon: int, states: int, actions: int) -> Shape:
    """A shape of at least one stage, state and action."""
    for name, value in (("horizon", horizon), ("states", states), ("actions", actions)):
        check(value >= 1, f"{name} must be at least 1")
    return Shape(horizon, states, actions)


def generator(seed: int) -> np.random.Generator:
    """The randomness of a world, from its seed."""
    check(seed >= 0, f"seed must be at least 0, not {seed}")
    return np.random.default_rng(seed)


def check(holds: bool, message: str) -> None:
    """Refuse a parameter, saying what it must be."""
    if not holds:
        raise BadInput(message)


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability."""
    check(0 <= value <= 1, f"{name} must lie between 0 and 1, not {value}")
