"""Numbers of discovered states in two processes that number them independently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from covgame.episodes import Episode
from covgame.failures import Failure
from covgame.sources.states import DiscoveredStates, States
from covgame.workers.messages import NewStates


class Numbering:
    """Translates the state numbers of another process.

    Each process numbers states as it meets them, and announces the keys of new ones with its next
    message. Where the environment counts its states, both have the same numbers.
    """

    def __init__(self, states: States) -> None:
        self.states = states if isinstance(states, DiscoveredStates) else None
        self.announced = 0
        self.mine = np.zeros(0, dtype=np.int64)  # by the number of the other process

    def announce(self) -> NewStates:
        """The states that were numbered here since the last call."""
        if self.states is None:
            return NewStates()
        first, self.announced = self.announced, self.states.size
        return NewStates(self.states.keys[first:], self.states.labels[first:])

    def take(self, new: NewStates) -> None:
        """Number the states that the other process announces."""
        if self.states is not None and new.keys:
            named = zip(new.keys, new.labels, strict=True)
            numbers = [self.states.number_of_key(key, label) for key, label in named]
            self.mine = np.append(self.mine, np.array(numbers, dtype=np.int64))

    def agree(self) -> None:
        """Both processes have the same numbers so far."""
        if self.states is not None:
            self.announced, self.mine = self.states.size, np.arange(self.states.size)

    def of(self, states: Any) -> Any:
        """The numbers here of states of the other process; negative numbers are no states."""
        if self.states is None:
            return states
        return np.where(states >= 0, self.mine[np.maximum(states, 0)], states)

    def of_episode(self, episode: Episode) -> Episode:
        """An episode of the other process."""
        ended = episode.ended_in
        return replace(
            episode,
            state=self.of(episode.state),
            next_state=self.of(episode.next_state),
            ended_in=None if ended is None else int(self.of(ended)),
        )

    def of_failure(self, failure: Failure) -> Failure:
        """A failure in the other process."""
        path = tuple((int(self.of(state)), action) for state, action in failure.path)
        return replace(failure, path=path)
