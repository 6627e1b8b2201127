"""A door that is pushed, locked and left alone: names for everything, a chance of failing."""

from __future__ import annotations

import numpy as np

from covgame.episodes import Episode
from covgame.types import END


class Door:
    """CLOSED, OPEN, LOCKED; pushing a locked door breaks it now and then, which is the end."""

    actions = ("push", "lock", "wait")
    horizon = 7

    def reset(self, seed: int) -> str:
        self.rng, self.state = np.random.default_rng(seed), "CLOSED"
        return self.state

    def step(self, action: str) -> tuple[str, float, bool]:
        lucky = self.rng.random() < 0.6
        if action == "push" and lucky:
            self.state = {"CLOSED": "OPEN", "OPEN": "CLOSED"}.get(self.state, "BROKEN")
        if action == "lock" and self.state == "OPEN" and lucky:
            self.state = "LOCKED"
        return self.state, 0.0, self.state == "BROKEN"


Move = tuple[int, int, int]


def moves_of(episodes: list[Episode], actions: int) -> tuple[dict[Move, int], set[tuple[int, int]]]:
    """(how often each transition was seen, every pair of the states that were met): by hand."""
    times: dict[Move, int] = {}
    met: set[int] = set()
    for episode in episodes:
        steps = zip(episode.state, episode.action, episode.successors, strict=True)
        for state, action, successor in steps:
            met.add(int(state))
            if successor >= END:
                move = int(state), int(action), int(successor)
                times[move] = times.get(move, 0) + 1
    return times, {(state, action) for state in met for action in range(actions)}


def transitions_hold(episodes: list[Episode], actions: int, count: float) -> bool:
    """Whether all that was seen was seen so often, and every action was tried where one was."""
    times, pairs = moves_of(episodes, actions)
    tried = {(state, action) for state, action, _ in times}
    return bool(episodes) and pairs <= tried and min(times.values()) >= count
