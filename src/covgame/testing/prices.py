"""What one more visit costs, by what a run has learnt."""

from __future__ import annotations

import numpy as np

from covgame.mdp.transitions import Transitions
from covgame.types import FloatArray, IntArray

MOST_ENTRIES = 2_000_000
"""Numbers in memory at once, at most."""


def most_visits(transitions: Transitions, pairs: IntArray) -> FloatArray:
    """For each pair (s*A + a): how often an episode visits it at most, in expectation.

    max_pi E[sum_h 1{(s_h, a_h) = pair}], by backward induction for many pairs side by side.
    """
    width = max(1, MOST_ENTRIES // max(len(transitions.next_state), transitions.shape.pairs, 1))
    parts = [
        _visits(transitions, pairs[first : first + width]) for first in range(0, len(pairs), width)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _visits(transitions: Transitions, pairs: IntArray) -> FloatArray:
    _, states, actions = transitions.shape.hsa
    wanted = np.zeros((states * actions, len(pairs)))
    wanted[pairs, np.arange(len(pairs))] = 1.0
    values = np.zeros((states, len(pairs)))
    for kernel in reversed(transitions.stages):
        best = wanted + kernel.expect(values)
        values = best.reshape(states, actions, -1).max(axis=1)
    visits: FloatArray = transitions.initial @ values
    return visits
