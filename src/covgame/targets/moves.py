"""Transitions (state, action, next state) as something to be covered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.errors import BadInput
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import ANY, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PossibleMoves:
    """Every (pair, next state) that can happen, sorted; the end of an episode is a next state."""

    pair: IntArray  # (moves,), s A + a
    successor: IntArray  # (moves,)
    probability: FloatArray  # (moves,), the largest over the stages


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
    """Where episodes have one step and its end is not shown, there is nothing to cover."""
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
