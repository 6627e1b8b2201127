"""Episodes, one by one and many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from covgame.names import Names
from covgame.types import END, BoolArray, FloatArray, IntArray, Shape

UNNAMED = Names()

LAST = -2
"""Successor of a step after which nothing was observed: the last stage of an episode."""


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode, step by step, as it is played, counted, recorded and read."""

    state: IntArray  # (steps,)
    action: IntArray  # (steps,)
    reward: FloatArray  # (steps,)
    next_state: IntArray  # (steps,), also where it ended; the last is negative if none was shown
    _: KW_ONLY
    terminated: bool = False  # whether a state ended it
    cut_short: bool = False  # whether something else ended it before the last stage
    seed: int | None = None  # what its environment was reset with
    observations: Sequence[Any] | None = None  # one more than steps, if they were kept
    number: int = -1  # in the record of its run
    names: Names = field(default=UNNAMED, repr=False)

    @classmethod
    def of_steps(
        cls, steps: Sequence[tuple[int, int, float, int]], *, terminated: bool = False, **more: Any
    ) -> Episode:
        """From (state, action, reward, next state), one after the other.

        The last next state may be ``END``, if the episode terminated and showed no state, or
        ``LAST``, if nothing was observed there.
        """
        states, actions, rewards, successors = zip(*steps, strict=True)
        return cls(
            np.array(states, dtype=np.int64),
            np.array(actions, dtype=np.int64),
            np.array(rewards, dtype=np.float64),
            np.array(successors, dtype=np.int64),
            terminated=terminated or successors[-1] == END,
            **more,
        )

    def __len__(self) -> int:
        return len(self.state)

    @property
    def truncated(self) -> bool:
        """Whether it ended for another reason than a state: the last stage, or a time limit."""
        return not self.terminated

    @property
    def successors(self) -> IntArray:
        """(steps,), ``next_state`` as learners count it.

        The last is ``END`` where the episode was over, also if it was cut short, because it does
        not go on from there whatever the state; and ``LAST`` where nothing was observed.
        """
        over = self.terminated or self.cut_short
        if not over and self.next_state[-1] >= 0:
            return self.next_state
        found = self.next_state.copy()
        found[-1] = END if over else LAST
        return found

    @property
    def states(self) -> list[str]:
        """The labels of the states in which actions were taken."""
        return [self.names.state(state) for state in self.state.tolist()]

    @property
    def actions(self) -> list[str]:
        """The labels of the actions."""
        return [self.names.action(action) for action in self.action.tolist()]

    @property
    def total_reward(self) -> float:
        """The sum of the rewards."""
        return float(self.reward.sum())

    def cells(self, shape: Shape) -> Iterator[int]:
        """The flat index of every cell on the way."""
        pairs = zip(self.state.tolist(), self.action.tolist(), strict=True)
        for h, (s, a) in enumerate(pairs):
            yield (h * shape.states + s) * shape.actions + a


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive episodes, their steps one after another; columns as those of ``Episode``."""

    first_episode: int
    lengths: IntArray  # (episodes,), steps of each
    state: IntArray  # (steps,), empty if not recorded
    action: IntArray
    reward: FloatArray
    next_state: IntArray
    _: KW_ONLY
    terminated: BoolArray | None = None  # (episodes,); None: those whose next state is END
    seeds: IntArray | None = None  # (episodes,), what environments were reset with
    observations: Sequence[Sequence[Any]] | None = None  # of every episode, one more than steps

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def last(self) -> IntArray:
        """(episodes,), where the last step of each is."""
        return np.cumsum(self.lengths) - 1

    @property
    def has_terminated(self) -> BoolArray:
        """(episodes,), whether a state ended each."""
        if self.terminated is not None:
            return self.terminated
        ended: BoolArray = self.next_state[self.last] == END
        return ended

    def is_cut_short(self, horizon: int) -> bool:
        """Whether an episode ended before the last stage that no state ended."""
        return bool(((self.lengths < horizon) & ~self.has_terminated).any())

    def episodes(self) -> Iterator[Episode]:
        """The episodes one by one."""
        first = 0
        for length, terminated in zip(
            self.lengths.tolist(), self.has_terminated.tolist(), strict=True
        ):
            steps = slice(first, first + length)
            yield Episode(
                self.state[steps],
                self.action[steps],
                self.reward[steps],
                self.next_state[steps],
                terminated=terminated,
            )
            first += length


NOTHING = np.zeros(0, dtype=np.int64)


def joined_blocks(first: int, blocks: Sequence[Block]) -> Block:
    """Blocks without seeds and observations that follow each other, as one."""
    if not blocks:
        return as_block(first, [])
    columns = ("lengths", "state", "action", "reward", "next_state")
    parts = [np.concatenate([getattr(one, name) for one in blocks]) for name in columns]
    return Block(first, *parts)


def as_block(first: int, episodes: Sequence[Episode]) -> Block:
    """Episodes as one block."""
    seeds = [one.seed for one in episodes if one.seed is not None]
    kept = [one.observations for one in episodes if one.observations is not None]
    return Block(
        first,
        np.array([len(episode) for episode in episodes], dtype=np.int64),
        np.concatenate([*(episode.state for episode in episodes), NOTHING]),
        np.concatenate([*(episode.action for episode in episodes), NOTHING]),
        np.concatenate([*(episode.reward for episode in episodes), np.zeros(0)]),
        np.concatenate([*(episode.next_state for episode in episodes), NOTHING]),
        terminated=np.array([episode.terminated for episode in episodes], dtype=np.bool_),
        seeds=np.array(seeds, dtype=np.int64) if seeds else None,
        observations=kept or None,
    )
