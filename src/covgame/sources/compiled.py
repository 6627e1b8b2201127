"""The fast way to play: blocks of episodes in compiled code, the same ones as ``rounds``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from covgame.episodes import Block
from covgame.game.adversary import (
    MissingOnly,
    TargetAware,
    WeightedMajority,
    most_per_episode,
    smallest_count,
)
from covgame.game.counts import SuccessorTable
from covgame.game.game import Game
from covgame.game.planner import RangeAwareOptimism
from covgame.sources.simulated import STREAM, SimulatedSource
from covgame.types import FloatArray, IntArray


def blocks(
    game: Game, source: SimulatedSource, *, size: int, record: bool = True
) -> Iterator[Block]:
    """Play in blocks of at most ``size`` episodes until the target is covered."""
    player = CompiledPlayer(game, source, most=size, record=record)
    while not game.covered:
        block = player.play(size)
        if len(block):
            yield block


class CompiledPlayer:
    """Plays a game in blocks: hands its arrays to the compiled loop, and takes them back."""

    def __init__(self, game: Game, source: SimulatedSource, *, most: int, record: bool) -> None:
        from covgame.kernels import game as kernel

        self.kernel = kernel
        self.game, self.source, self.most, self.recording = game, source, most, record
        steps = most * game.target.shape.horizon if record else 0
        self.record = kernel.Record(
            np.zeros(most, dtype=np.int64),
            np.zeros(steps, dtype=np.int64),
            np.zeros(steps, dtype=np.int64),
            np.zeros(steps),
            np.zeros(steps, dtype=np.int64),
        )
        model = source.model
        self.world = kernel.World(
            model.initial,
            model.transitions.start,
            model.transitions.next_state,
            model.transitions.probability,
            model.stage_rewards,
            model.transitions.stationary,
        )
        self.wanted = self._wanted()
        self.reward = game.target.cell_rewards(game.state.weights)
        self.workspace = self._workspace()
        self.tables = (game.counts.table, game.counts.pool or SuccessorTable(0))
        self.optimism, self.numbers = self._optimism()
        self.adversary = {
            TargetAware: kernel.TARGET_AWARE,
            WeightedMajority: kernel.WEIGHTED_MAJORITY,
            MissingOnly: kernel.MISSING_ONLY,
        }[type(game.adversary)]

    def _wanted(self) -> Any:
        game, target = self.game, self.game.target
        sizes = np.bincount(target.members.row, minlength=len(target))
        row_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return self.kernel.Wanted(
            target.counts,
            game.collected,
            target.largest_count,
            smallest_count(target),
            most_per_episode(target),
            row_start,
            target.members.cell,
            *target.by_cell,
        )

    def _workspace(self) -> Any:
        shape, rows = self.game.target.shape, np.arange(len(self.game.target))
        return self.kernel.Workspace(
            np.zeros(shape.hs, dtype=np.int64),
            np.zeros((shape.horizon, shape.states + 1)),
            np.zeros((9, shape.pairs)),
            rows,
            np.zeros_like(rows),
            np.zeros_like(rows),
        )

    def _optimism(self) -> tuple[int, FloatArray]:
        optimism = self.game.planner.optimism  # type: ignore[attr-defined]
        if isinstance(optimism, RangeAwareOptimism):
            return self.kernel.RANGE_AWARE, np.array([optimism.b, 0.0, 0.0])
        states = float(self.game.target.shape.states)
        return self.kernel.PAPER_OPTIMISM, np.array([0.0, optimism.log_cells, states])

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if that covers the target or memory has to grow."""
        kernel, counts, state = self.kernel, self.game.counts, self.game.state
        memory = np.array([state.total, state.variance, state.rate, state.shift])
        level = np.array([state.level], dtype=np.int64)
        table, pool = self.tables
        used, pool_used = _used(table), _used(pool)
        learnt = kernel.Learnt(
            counts.visits,
            counts.visits.reshape(-1),
            counts.starts,
            table.rows,
            table.entries,
            used,
            pool.rows,
            pool.entries,
            pool_used,
            counts.agreement,
            counts.pooled,
            counts.pool is not None,
        )
        flat, by_stage = self.reward.reshape(-1), self.reward.reshape(len(self.reward), -1)
        weighing = kernel.Weighing(state.weights, flat, by_stage, memory, state.base, level)
        play_block: Any = kernel.play_block
        why, played, steps = play_block(
            min(episodes, self.most), counts.n_episodes, self.source.seed, STREAM,
            self.world, learnt, self.wanted, weighing, self.workspace,
            self.optimism, self.numbers, self.adversary, self.record, self.recording,
        )  # fmt: skip
        first = counts.n_episodes
        counts.n_episodes += played
        state.total, state.variance, state.rate, state.shift = memory.tolist()
        state.level = int(level[0])
        table.used, pool.used = int(used[0]), int(pool_used[0])
        if why == kernel.POOL_FULL:
            for full in filter(len, self.tables):
                full.make_room(len(full.entries) + 1)
        return self._block(first, played, steps if self.recording else 0)

    def _block(self, first: int, played: int, steps: int) -> Block:
        lengths, state, action, reward, next_state = self.record
        return Block(
            first,
            lengths[:played].copy(),
            state[:steps].copy(),
            action[:steps].copy(),
            reward[:steps].copy(),
            next_state[:steps].copy(),
        )


def _used(table: SuccessorTable) -> IntArray:
    """(places used, largest capacity of a row), as the kernel keeps them."""
    largest = table.rows["capacity"].max(initial=table.FIRST_CAPACITY)
    return np.array([table.used, largest], dtype=np.int64)
