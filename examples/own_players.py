"""Planners, adversaries and peers of one's own, in the place of ours.

covgame cover chain --target uniform:5/pair --planner py:examples.own_players:LeastTried
covgame cover chain --target uniform:5/pair --adversary py:examples.own_players:HardestFirst
covgame cover chain --target uniform:5/pair --planner py:examples.own_players:Habits
python3 dev.py bench peers --method py:examples.own_players:LeastTried --only 'cover|lock|*'
"""

from __future__ import annotations

from typing import Any

import numpy as np

import covgame as cg


class LeastTried:
    """A planner: whatever was tried least here and now, whatever it is worth."""

    def plan(self, counts: cg.Counts, reward: np.ndarray[Any, Any]) -> cg.Policy:
        """``reward`` is (H, S, A), -inf for what is forbidden."""
        tried = np.where(np.isneginf(reward), np.inf, counts.visits)
        return cg.Policy.deterministic(tried.argmin(axis=2), counts.shape.actions)


class HardestFirst:
    """An adversary: all weight on the row that lacks most, and a note of how often it changed."""

    def start(self, target: cg.Target) -> cg.AdversaryState:
        """All rows weigh the same before anything is seen."""
        state = cg.AdversaryState(np.ones(len(target)), float(len(target)))
        state.memory["changes"] = np.array(0)
        return state

    def observe(
        self,
        target: cg.Target,
        state: cg.AdversaryState,
        gains: dict[int, int],
        collected: np.ndarray[Any, Any],
    ) -> None:
        """``gains`` says what the episode has collected, ``collected`` what all have.

        Where states show only as one goes, the target is empty at first, and grows.
        """
        missing = np.maximum(target.counts - collected, 0.0)
        if not missing.any():
            return
        before = int(state.weights.argmax())
        state.weights = np.where(missing > 0, 1e-3, 0.0)
        state.weights[missing.argmax()] = 1.0
        state.memory["changes"] += int(state.weights.argmax()) != before


class Habits:
    """A peer: it has no idea of the target, and plays a random policy for an episode."""

    def ask(self, counts: cg.Counts) -> cg.Policy:
        """Asked before every episode, it answers from what was counted."""
        rng = np.random.default_rng(counts.n_episodes)
        actions = rng.integers(counts.shape.actions, size=counts.shape.hs)
        return cg.Policy.deterministic(actions, counts.shape.actions)
