"""The few types that every room shares: array aliases, the shape of a world, a policy.

An alias such as ``FloatHSA`` names the axes of an array: stages H, states S, actions A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

FloatS = FloatArray
FloatHS = FloatArray
FloatHSA = FloatArray
BoolHS = BoolArray
BoolHSA = BoolArray

END = -1
"""Successor index of the absorbing end of an episode; as an index it means "the last entry"."""

ANY = -1
"""In a target row: every stage, or every action, counted together."""


@dataclass(frozen=True)
class Shape:
    """How large a tabular world is: H stages, S states, A actions."""

    horizon: int
    states: int
    actions: int

    @property
    def pairs(self) -> int:
        """The number of state-action pairs."""
        return self.states * self.actions

    @property
    def cells(self) -> int:
        """The number of cells (h, s, a)."""
        return self.horizon * self.pairs

    @property
    def hs(self) -> tuple[int, int]:
        """(stages, states)."""
        return (self.horizon, self.states)

    @property
    def hsa(self) -> tuple[int, int, int]:
        """(stages, states, actions)."""
        return (self.horizon, self.states, self.actions)


@dataclass(frozen=True, eq=False)
class Policy:
    """What to do at every stage and state.

    ``table`` holds an action per (h, s), or a probability per (h, s, a) if it is stochastic.
    The table may be filled only where episodes have been, so the first state of an episode is
    passed to ``begin`` before the first action. The first row may stand for several stages: the
    first ``lead`` ones, and the one after them.
    """

    table: npt.NDArray[Any]
    actions: int
    on_start: Callable[[int], Policy | None] | None = None
    lead: int = 0

    @classmethod
    def deterministic(cls, chosen: IntArray, actions: int) -> Policy:
        return cls(chosen, actions)

    @classmethod
    def stochastic(cls, probabilities: FloatHSA) -> Policy:
        return cls(probabilities, probabilities.shape[2])

    @classmethod
    def uniform(cls, shape: Shape) -> Policy:
        return cls.stochastic(np.broadcast_to(1.0 / shape.actions, shape.hsa))

    def begin(self, state: int) -> Policy:
        """The policy for an episode that begins in this state."""
        if self.on_start is None or state >= self.table.shape[1]:
            return self
        return self.on_start(state) or self

    def row(self, h: int) -> int:
        """The row of the table for a stage."""
        return h - self.lead if h > self.lead else 0

    @property
    def is_stochastic(self) -> bool:
        """Whether it draws its actions."""
        return self.table.ndim == 3

    def probabilities(self) -> FloatHSA:
        """The probability of each action, row by row, also where it is deterministic."""
        if self.is_stochastic:
            return self.table.astype(np.float64, copy=False)
        chosen: BoolArray = np.equal(self.table[:, :, None], np.arange(self.actions))
        return chosen.astype(np.float64)

    def first(self, states: int) -> Policy:
        """The same without the room for further states."""
        return (
            self if states >= self.table.shape[1] else replace(self, table=self.table[:, :states])
        )

    def to_list(self) -> list[Any]:
        """H rows of S actions, or H x S x A probabilities: the form used in files."""
        rows: list[Any] = self.table.tolist()
        return rows
