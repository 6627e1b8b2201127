"""The fast way to play: blocks of episodes in compiled code, the same ones as ``rounds``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from covgame.game.adversary import TargetAware, most_per_episode, smallest_count
from covgame.game.game import Game
from covgame.game.planner import RangeAwareOptimism
from covgame.sources.simulated import STREAM, SimulatedSource
from covgame.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive episodes, their steps one after another."""

    first_episode: int
    lengths: IntArray  # (episodes,), steps of each
    state: IntArray  # (steps,), empty if not recorded
    action: IntArray
    reward: FloatArray
    next_state: IntArray  # END or LAST where an episode is over
    covered: bool

    def __len__(self) -> int:
        return len(self.lengths)


def blocks(
    game: Game, source: SimulatedSource, *, size: int, record: bool = True
) -> Iterator[Block]:
    """Play in blocks of at most ``size`` episodes until the target is covered."""
    player = _BlockPlayer(game, source, size, record)
    while not game.covered:
        block = player.play()
        if len(block):
            yield block


class _BlockPlayer:
    """Hands the arrays of a game and a model to the compiled loop, and takes them back."""

    def __init__(self, game: Game, source: SimulatedSource, size: int, record: bool) -> None:
        self.game, self.source, self.size, self.record = game, source, size, record
        steps = size * game.target.shape.horizon if record else 0
        self.out_lengths = np.zeros(size, dtype=np.int64)
        self.out = tuple(np.zeros(steps, dtype=np.int64) for _ in range(3))
        self.out_reward = np.zeros(steps)
        self.reward = game.target.cell_rewards(game.state.weights)
        row = game.target.members.row
        sizes = np.bincount(row, minlength=len(game.target))
        row_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.members = (row_start, game.target.members.cell, *game.target.by_cell)
        self.optimism, self.numbers = self._optimism()

    def _optimism(self) -> tuple[int, FloatArray]:
        from covgame.kernels import game as kernel

        optimism = self.game.planner.optimism  # type: ignore[attr-defined]
        if isinstance(optimism, RangeAwareOptimism):
            return kernel.RANGE_AWARE, np.array([optimism.b, 0.0, 0.0])
        states = float(self.game.target.shape.states)
        return kernel.PAPER_OPTIMISM, np.array([0.0, optimism.log_cells, states])

    def play(self) -> Block:
        from covgame.kernels import game as kernel

        game, model = self.game, self.source.model
        counts, target, state, table = game.counts, game.target, game.state, game.counts.table
        memory = np.array([state.total, state.variance, state.rate, state.shift])
        level = np.array([state.level], dtype=np.int64)
        used = np.array([table.used], dtype=np.int64)
        aware = isinstance(game.adversary, TargetAware)
        play_block: Any = kernel.play_block
        why, played, steps = play_block(
            self.size, counts.n_episodes, self.source.seed, STREAM,
            model.initial,
            (model.transitions.start, model.transitions.next_state, model.transitions.probability),
            model.stage_rewards, model.transitions.stationary,
            counts.visits, counts.starts,
            (table.start, table.size, table.capacity, table.total, table.share,
             table.successor, table.count),
            used, counts.pooled,
            target.counts, game.collected, target.largest_count, smallest_count(target),
            most_per_episode(target), self.members,
            state.weights, self.reward, memory, state.base, level,
            self.optimism, self.numbers,
            kernel.TARGET_AWARE if aware else kernel.WEIGHTED_MAJORITY,
            self.record, self.out_lengths, *self.out[:2], self.out_reward, self.out[2],
        )  # fmt: skip
        first = counts.n_episodes
        counts.n_episodes += played
        table.used = int(used[0])
        state.total, state.variance, state.rate, state.shift = memory.tolist()
        state.level = int(level[0])
        if why == kernel.POOL_FULL:
            table.make_room(len(table.successor))
        return self._block(first, played, steps if self.record else 0)

    def _block(self, first: int, played: int, steps: int) -> Block:
        state, action, following = (column[:steps].copy() for column in self.out)
        return Block(
            first,
            self.out_lengths[:played].copy(),
            state,
            action,
            self.out_reward[:steps].copy(),
            following,
            self.game.covered,
        )
