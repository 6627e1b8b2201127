"""An episode played beforehand on what was learnt, for policies that cannot change on their way.

One process plans anew while an episode is played, as rows get their visits (``Game.revise``).
Whoever hands a policy to somebody else cannot, and goes through the episode in thought instead: at
every stage the policy does what the plan would be by then.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Protocol

import numpy as np

from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.mdp.transitions import StageKernel, Transitions
from covgame.types import END, FloatArray, IntArray, Policy

MOST_REHEARSED = 5_000_000
"""Stages times states of a policy, a byte each, which is sent with every job."""


class PlanFor(Protocol):
    """From the weights of rows to a policy."""

    def __call__(self, weights: FloatArray, earliest: int = 0) -> Policy:
        """Whoever asks for less looks only at what it does from stage ``earliest`` on."""
        ...


def revises(game: Game) -> bool:
    """Whether one process would plan anew on its way, as rows get their visits.

    What was rehearsed has a row for every stage, which is too much to hand out of a large world.
    """
    horizon, states, _ = game.target.shape.hsa
    small = horizon * states <= MOST_REHEARSED
    return small and game.revising is not None and game.target.most_per_episode > 1


def imagined(game: Game, weights: FloatArray, collected: FloatArray) -> Game:
    """The game as if so much were collected: to be rehearsed with, the real one stays as it is.

    ``weights`` may be in any unit; here they are in the one in which the adversary revises them.
    """
    stand_in = copy(game)
    stand_in.collected = collected
    heaviest, adversary = int(weights.argmax()), game.revising
    if adversary is not None and weights is not game.state.weights:
        n = float(collected[heaviest])
        unit = adversary.weight_of(game.target, game.state, heaviest, n)
        weights = weights * (unit / weights[heaviest])
    stand_in.state = replace(game.state, weights=weights)
    stand_in.begin()
    return stand_in


def rehearsed(game: Game, plan: PlanFor, kernel: Transitions) -> Policy:
    """What an imagined game would do at every stage, if all went the most likely way.

    Nothing is learnt from it. Off that way a stage has the same plan, which knows what an episode
    will have collected by then if it went about as expected.
    """
    shape = game.target.shape
    policy = plan(game.state.weights)
    if policy.is_stochastic or not game.counts.n_episodes:
        return policy
    rows: list[IntArray] = []
    state = int(kernel.initial.argmax())
    for h in range(shape.horizon):
        rows.append(policy.table[policy.row(h)])
        if state != END and h + 1 < shape.horizon:
            pair = state * shape.actions + int(rows[h][state])
            state = _likeliest(kernel.stages[h], pair)
            if state != END:
                game.visit(h * shape.pairs + pair)
                policy = _revised(game, plan, policy, h + 1)
    return Policy.deterministic(np.array(rows), policy.actions)


def _revised(game: Game, plan: PlanFor, policy: Policy, h: int) -> Policy:
    """What to do from stage h on: as before, if nothing has changed that matters."""
    weights = game.revised_weights()
    if weights is None or not weights.any():
        return policy
    revised = plan(weights, h)
    return policy if revised.is_stochastic else revised  # somebody's own planner may do either


def _likeliest(stage: StageKernel, row: int) -> int:
    """The most likely successor of a row, the first of several; ``END`` if none is known."""
    entries = slice(stage.start[row], stage.start[row + 1])
    chances = stage.probability[entries]
    return int(stage.next_state[entries][chances.argmax()]) if chances.size else END


def guessed_kernel(counts: Counts) -> Transitions:
    """What was learnt, and a guess: who tries something new gets where one gets from that state.

    An action that nobody has tried is taken to do what the others of its state do, each with the
    same chance. With rows that are merely empty an episode would end there, and whatever it
    will collect afterwards would come as a surprise.
    """
    table, actions = counts.table, counts.shape.actions
    tried = (table.total > 0).reshape(-1, actions).sum(axis=1)
    new = np.flatnonzero((table.total == 0) & (np.repeat(tried, actions) > 0))
    if not new.size:
        return counts.kernel()
    row, successor, count = table.listed(0, len(table))
    chance = count / table.total[row]
    size = np.bincount(row // actions, minlength=len(tried))  # entries of each state, in a row
    first, state = np.cumsum(size) - size, new // actions
    many = size[state]
    lent = np.repeat(first[state] - (np.cumsum(many) - many), many) + np.arange(many.sum())
    return Transitions.from_entries(
        counts.shape,
        counts.starts / max(1, counts.n_episodes),
        np.concatenate([row, np.repeat(new, many)]),
        np.concatenate([successor, successor[lent]]),
        np.concatenate([chance, chance[lent] / np.repeat(tried[state], many)]),
        stationary=counts.pooled,
    )
