"""Dynamic programming on any kernel, true or learnt: written once, used everywhere.

Every function costs a small number of operations per transition and stage, except
``reachability`` and ``hitting``, which solve one problem per state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from covgame.arrays import sum_by_index
from covgame.mdp.transitions import StageKernel, Transitions
from covgame.types import (
    END,
    BoolArray,
    BoolHS,
    FloatArray,
    FloatHS,
    FloatHSA,
    FloatS,
    IntArray,
    Policy,
)

BLOCK_ENTRIES = 2_000_000
"""How many numbers a many-problems-at-once recursion may hold per stage."""


@dataclass(frozen=True, eq=False)
class OptimalPolicy:
    """An optimal policy with its value V*_h(s) at every stage and state."""

    values: FloatHS  # (H, S)
    policy: Policy


def backward_induction(transitions: Transitions, reward: FloatHSA) -> OptimalPolicy:
    """Bellman's recursion: V_h(s) = max_a r_h(s,a) + p_h(s,a) V_{h+1}."""
    chosen = np.empty(transitions.shape.hs, dtype=np.int64)

    def best(h: int, q: FloatArray) -> FloatS:
        chosen[h] = q.argmax(axis=1)
        return np.take_along_axis(q, chosen[h][:, None], axis=1)[:, 0]

    values = _backward(transitions, reward, best)
    return OptimalPolicy(values, Policy.deterministic(chosen, transitions.shape.actions))


def evaluate(transitions: Transitions, policy: Policy, reward: FloatHSA) -> FloatHS:
    """The value V^pi_h(s) of a policy at every stage and state."""
    probabilities = policy.probabilities()
    return _backward(
        transitions, reward, lambda h, q: np.einsum("sa,sa->s", probabilities[policy.row(h)], q)
    )


def initial_value(transitions: Transitions, values: FloatHS) -> float:
    """The expected value of the first state."""
    return float(transitions.initial @ values[0])


def occupancy(transitions: Transitions, policy: Policy) -> FloatHSA:
    """p_h^pi(s,a): how likely an episode of the policy is at (s, a) at stage h."""
    probabilities = policy.probabilities()
    result = np.empty(transitions.shape.hsa)
    arriving = transitions.initial
    for h, kernel in enumerate(transitions.stages):
        result[h] = arriving[:, None] * probabilities[policy.row(h)]
        if h + 1 < transitions.shape.horizon:
            arriving = kernel.push(result[h].ravel())
    return result


def highest_return(transitions: Transitions, reward: FloatHSA) -> float:
    """The most that any path earns, however unlikely it is."""
    shape = transitions.shape
    following = np.zeros(shape.states + 1)  # the last is the end
    for h in reversed(range(shape.horizon)):
        earned = reward[h]
        if h + 1 < shape.horizon:
            kernel, best = transitions.stages[h], np.zeros(shape.pairs)
            row = np.repeat(np.arange(shape.pairs), np.diff(kernel.start))
            np.maximum.at(best, row, following[kernel.next_state])
            earned = earned + best.reshape(shape.states, shape.actions)
        following[:-1] = earned.max(axis=1)
    return float(following[:-1][transitions.initial > 0].max())


def reachable(transitions: Transitions, allowed: BoolArray | None = None) -> BoolHS:
    """Which states some policy can be in at which stage, with whatever small probability.

    ``allowed`` are the actions of states that a policy may take, (S, A), if not all.
    """
    result = np.empty(transitions.shape.hs, dtype=np.bool_)
    result[0] = transitions.initial > 0
    for h, kernel in enumerate(transitions.stages[:-1]):
        from_state = np.repeat(result[h], transitions.shape.actions)
        if allowed is not None:
            from_state &= allowed.reshape(-1)
        entered = kernel.next_state[np.repeat(from_state, np.diff(kernel.start))]
        result[h + 1] = np.bincount(entered + 1, minlength=transitions.shape.states + 1)[1:] > 0
    return result


def reachability(transitions: Transitions, wanted: BoolHS | None = None) -> FloatHS:
    """W_h(s) = max_pi p_h^pi(s) for all (h, s), or 0 where not ``wanted``.

    A stationary kernel needs one recursion for all stages (only the number of steps left
    matters), another one a recursion per stage.
    """
    if wanted is None:
        wanted = reachable(transitions)
    result = np.zeros(transitions.shape.hs)
    if transitions.stationary:
        for targets in _blocks(np.flatnonzero(wanted.any(axis=0)), transitions):
            chance = _indicators(targets, transitions)
            for h in range(transitions.shape.horizon):
                result[h, targets] = transitions.initial @ chance
                chance = _best_action(transitions.stages[0], chance)
        return np.where(wanted, result, 0.0)
    for h in range(transitions.shape.horizon):
        for targets in _blocks(np.flatnonzero(wanted[h]), transitions):
            chance = _indicators(targets, transitions)
            for kernel in reversed(transitions.stages[:h]):
                chance = _best_action(kernel, chance)
            result[h, targets] = transitions.initial @ chance
    return result


def reach_bound(transitions: Transitions) -> FloatHS:
    """An upper bound on ``reachability`` by one forward pass; positive where it is positive.

    It lets each state be left by the best action for each successor: U_{h+1}(s') =
    min(1, sum_s U_h(s) max_a p_h(s'|s,a)).
    """
    shape = transitions.shape
    result = np.zeros(shape.hs)
    result[0] = transitions.initial
    moves: tuple[IntArray, IntArray, FloatArray] | None = None
    for h, kernel in enumerate(transitions.stages[:-1]):
        if moves is None or not transitions.stationary:
            moves = _likeliest_moves(kernel, shape.actions)
        state, successor, probability = moves
        arriving = sum_by_index(successor, probability * result[h, state], shape.states)
        result[h + 1] = np.minimum(arriving, 1.0)
    return result


def _likeliest_moves(kernel: StageKernel, actions: int) -> tuple[IntArray, IntArray, FloatArray]:
    """(s, s', max_a p(s'|s,a)) for all states and successors."""
    pair = np.repeat(np.arange(len(kernel.start) - 1), np.diff(kernel.start))
    goes_on = kernel.next_state != END
    key = (pair // actions * kernel.states + kernel.next_state)[goes_on]
    move, first = np.unique(key, return_inverse=True)
    best = np.zeros(len(move))
    np.maximum.at(best, first, kernel.probability[goes_on])
    state, successor = np.divmod(move, kernel.states)
    return state, successor, best


def hitting(transitions: Transitions) -> FloatS:
    """max_pi P(the episode is in s at some stage), for every state s."""
    result = np.zeros(transitions.shape.states)
    for targets in _blocks(np.arange(transitions.shape.states), transitions):
        there = _indicators(targets, transitions)
        chance = there
        for kernel in reversed(transitions.stages[:-1]):
            chance = np.maximum(there, _best_action(kernel, chance))
        result[targets] = transitions.initial @ chance
    return result


def _backward(
    transitions: Transitions,
    reward: FloatHSA,
    choose: Callable[[int, FloatArray], FloatS],
) -> FloatHS:
    """The one backward recursion: ``choose`` turns Q_h into V_h."""
    shape = transitions.shape
    values = np.empty(shape.hs)
    following = np.zeros(shape.states)
    for h in reversed(range(shape.horizon)):
        q = reward[h]
        if h + 1 < shape.horizon:
            q = q + transitions.stages[h].expect(following).reshape(shape.states, shape.actions)
        values[h] = following = choose(h, q)
    return values


def _best_action(kernel: StageKernel, values: FloatArray) -> FloatArray:
    """max_a p V for several value functions at once, (S, k) to (S, k)."""
    expected = kernel.expect(values)
    best: FloatArray = expected.reshape(kernel.states, -1, values.shape[1]).max(axis=1)
    return best


def _indicators(targets: IntArray, transitions: Transitions) -> FloatArray:
    """A column per target state, 1 at that state."""
    columns = np.zeros((transitions.shape.states, len(targets)))
    columns[targets, np.arange(len(targets))] = 1.0
    return columns


def _blocks(targets: IntArray, transitions: Transitions) -> Iterator[IntArray]:
    """Target states in blocks small enough to solve side by side."""
    entries = max(len(kernel.next_state) for kernel in transitions.stages)
    width = max(1, BLOCK_ENTRIES // max(1, entries, transitions.shape.states))
    for first in range(0, len(targets), width):
        yield targets[first : first + width]
