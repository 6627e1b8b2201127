"""Transitions (state, action, next state) as a target: which can happen, which were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from covgame.errors import BadInput
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import ANY, FloatArray, IntArray, Shape


class TransitionCounts(Protocol):
    """What was counted so far; ``covgame.game.counts.Counts`` is one."""

    shape: Shape
    visits: IntArray  # (H, S, A), or (1, S, A) if stages are added up

    def transitions(self) -> tuple[IntArray, IntArray, IntArray]:
        """(row, next state, times); a row is a cell, or a pair if stages are pooled."""
        ...


@dataclass(frozen=True, eq=False)
class PossibleMoves:
    """Every (pair, next state) that can happen, sorted; the end of an episode is a next state."""

    pair: IntArray  # (moves,), s A + a
    successor: IntArray  # (moves,)
    probability: FloatArray  # (moves,), the largest over the stages

    def of_pairs(self, pairs: IntArray) -> PossibleMoves:
        """Those of some pairs only."""
        kept = np.isin(self.pair, pairs)
        return PossibleMoves(self.pair[kept], self.successor[kept], self.probability[kept])


@dataclass(frozen=True, eq=False)
class Moves:
    """How often transitions were seen, sorted by pair and next state."""

    pair: IntArray  # (moves,), s A + a
    successor: IntArray  # (moves,)
    times: IntArray  # (moves,)

    @classmethod
    def of(cls, counts: TransitionCounts, wanted: PossibleMoves | None = None) -> Moves:
        """All that were seen at any stage; or those that are ``wanted``, seen or not."""
        row, successor, times = counts.transitions()
        pairs, width = counts.shape.pairs, counts.shape.states + 1
        key, place = np.unique((row % pairs) * width + successor + 1, return_inverse=True)
        total = np.bincount(place, times, minlength=len(key)).astype(np.int64)
        if wanted is not None:
            asked = wanted.pair * width + wanted.successor + 1
            at = np.minimum(np.searchsorted(key, asked), max(len(key) - 1, 0))
            seen = key[at] == asked if len(key) else np.zeros(len(asked), dtype=np.bool_)
            total = np.where(seen, total[at] if len(key) else 0, 0)
            key = asked
        return cls(key // width, key % width - 1, total)

    def missing(self, count: float) -> FloatArray:
        """The visits that each lacks."""
        missing: FloatArray = np.maximum(count - self.times.astype(np.float64), 0.0)
        return missing


def possible_moves(transitions: Transitions, *, last_step: bool = False) -> PossibleMoves:
    """What a kernel allows, from pairs that can be reached before the last stage.

    With ``last_step`` the step at the last stage shows its next state as well, as it does where an
    environment is played step by step.
    """
    shape = transitions.shape
    check_has_moves(shape.horizon, last_step=last_step)
    reachable = dp.reachable(transitions)
    pair, successor, probability = [], [], []
    for h in range(shape.horizon if last_step else shape.horizon - 1):
        kernel = transitions.stages[h]
        row = np.repeat(np.arange(shape.pairs), np.diff(kernel.start))
        here = reachable[h][row // shape.actions]
        pair.append(row[here])
        successor.append(kernel.next_state[here])
        probability.append(kernel.probability[here])
    key, place = np.unique(
        np.concatenate(pair) * (shape.states + 1) + np.concatenate(successor) + 1,
        return_inverse=True,
    )
    largest = np.zeros(len(key))
    np.maximum.at(largest, place, np.concatenate(probability))
    return PossibleMoves(key // (shape.states + 1), key % (shape.states + 1) - 1, largest)


def check_has_moves(horizon: int, *, last_step: bool) -> None:
    """Episodes of one step whose next state is not shown have no transitions."""
    if horizon == 1 and not last_step:
        raise BadInput("episodes of one step show no transitions; ask for uniform:N/pair")


def moves_target(
    transitions: Transitions, moves: PossibleMoves, count: float, *, last_step: bool
) -> Target:
    """The visits of pairs that it takes on average until each move was seen ``count`` times.

    A move of probability p takes count/p visits of its pair (Wald), so that the rarest decides;
    where p depends on the stage its largest value gives a lower bound.
    """
    pairs, place = np.unique(moves.pair, return_inverse=True)
    rarest = np.ones(len(pairs))
    np.minimum.at(rarest, place, moves.probability)
    rows = pair_rows(transitions.shape.actions, pairs)
    target = Target.of_rows(transitions.shape, rows, count / rarest)
    return Target(target.shape, target.rows, target.counts, last_stage=last_step)


def pair_rows(actions: int, pairs: IntArray) -> IntArray:
    """Rows of a target, each a pair at any stage."""
    state, action = np.divmod(pairs, actions)
    return np.column_stack([np.full(len(pairs), ANY), state, action]).astype(np.int64)
