"""Episodes as environments show them and learners count them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from covgame.types import END, FloatArray, IntArray, Shape

LAST = -2
"""Successor of a step after which nothing was observed: the last stage of an episode."""


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode, step by step: what an environment shows."""

    state: IntArray  # (steps,)
    action: IntArray  # (steps,)
    reward: FloatArray  # (steps,)
    next_state: IntArray  # (steps,), END where it was over, LAST where nothing was observed
    ended_in: int | None = None  # the state that was shown when it was over, if any
    cut_short: bool = False  # whether something other than a state ended it before the last stage
    seed: int | None = None  # what its environment was reset with
    observations: Sequence[Any] | None = None  # one more than steps, as they were kept

    @classmethod
    def of_steps(
        cls,
        steps: Sequence[tuple[int, int, float, int]],
        ended_in: int | None = None,
        **further: Any,
    ) -> Episode:
        """From (state, action, reward, next state), one after the other."""
        states, actions, rewards, successors = zip(*steps, strict=True)
        return cls(
            np.array(states, dtype=np.int64),
            np.array(actions, dtype=np.int64),
            np.array(rewards, dtype=np.float64),
            np.array(successors, dtype=np.int64),
            ended_in,
            **further,
        )

    def __len__(self) -> int:
        return len(self.state)

    def cells(self, shape: Shape) -> Iterator[int]:
        """The flat index of every cell on the way."""
        pairs = zip(self.state.tolist(), self.action.tolist(), strict=True)
        for h, (s, a) in enumerate(pairs):
            yield (h * shape.states + s) * shape.actions + a


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive episodes, their steps one after another."""

    first_episode: int
    lengths: IntArray  # (episodes,), steps of each
    state: IntArray  # (steps,), empty if not recorded
    action: IntArray
    reward: FloatArray
    next_state: IntArray  # END or LAST where an episode is over; the state where it was cut short
    _: KW_ONLY
    ended_in: IntArray | None = None  # (episodes,), the states that they terminated in, or END
    seeds: IntArray | None = None  # (episodes,), what environments were reset with
    observations: Sequence[Sequence[Any]] | None = None  # of every episode, one more than steps

    def __len__(self) -> int:
        return len(self.lengths)

    def is_cut_short(self, horizon: int) -> bool:
        """Whether something ended an episode before the last stage that was not a state's doing."""
        last = np.cumsum(self.lengths) - 1
        return bool(((self.lengths < horizon) & (self.next_state[last] >= 0)).any())


NOTHING = np.zeros(0, dtype=np.int64)


def as_block(first: int, episodes: list[Episode]) -> Block:
    """As a record shows them: where an episode was cut short, the state that was shown there."""
    shown = [episode.next_state.copy() for episode in episodes]
    for column, episode in zip(shown, episodes, strict=True):
        if episode.cut_short and episode.ended_in is not None:
            column[-1] = episode.ended_in
    ended = [END if one.cut_short or one.ended_in is None else one.ended_in for one in episodes]
    seeds = [one.seed for one in episodes if one.seed is not None]
    kept = [one.observations for one in episodes if one.observations is not None]
    return Block(
        first,
        np.array([len(episode) for episode in episodes], dtype=np.int64),
        np.concatenate([*(episode.state for episode in episodes), NOTHING]),
        np.concatenate([*(episode.action for episode in episodes), NOTHING]),
        np.concatenate([*(episode.reward for episode in episodes), np.zeros(0)]),
        np.concatenate([*shown, NOTHING]),
        ended_in=np.array(ended, dtype=np.int64),
        seeds=np.array(seeds, dtype=np.int64) if seeds else None,
        observations=kept or None,
    )
