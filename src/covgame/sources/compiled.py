"""The fast way to play: blocks of episodes in compiled code, the same ones as ``rounds``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from covgame.episodes import Block
from covgame.errors import BadInput
from covgame.game.adversary import (
    MissingOnly,
    TargetAware,
    WeightedMajority,
    smallest_count,
)
from covgame.game.counts import SuccessorTable
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, PaperOptimism, RangeAwareOptimism
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

        _check_is_compiled(game)
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
        self.b, self.paper = self._optimism()

    def _wanted(self) -> Any:
        game, target = self.game, self.game.target
        sizes = np.bincount(target.members.row, minlength=len(target))
        row_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return self.kernel.Wanted(
            target.counts,
            np.array([math.log(count) for count in target.counts.tolist()]),
            game.collected,
            target.any_stage,
            target.largest_count / target.most_per_episode,
            smallest_count(target),
            target.most_per_episode,
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
            np.zeros(len(rows)),
            np.zeros(shape.horizon, dtype=np.int64),
            np.zeros(shape.horizon, dtype=np.int64),
        )

    def _optimism(self) -> tuple[float, FloatArray | None]:
        """(b of the range-aware optimism, or the numbers of the paper's)."""
        optimism = self.game.planner.optimism  # type: ignore[attr-defined]
        if isinstance(optimism, RangeAwareOptimism):
            return optimism.b, None
        return 0.0, np.array([optimism.log_cells, float(self.game.target.shape.states)])

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
        weighing = kernel.Weighing(state.weights, flat, by_stage, memory)
        adversary = self.game.adversary
        majority = None
        if isinstance(adversary, WeightedMajority):
            majority = kernel.Majority(state.base, level)
        play_block: Any = kernel.play_block
        why, played, steps = play_block(
            min(episodes, self.most), counts.n_episodes, self.source.seed, STREAM,
            self.world, learnt, self.wanted, weighing, self.workspace,
            self.b, self.paper, majority, isinstance(adversary, MissingOnly),
            self.record, self.recording,
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


def _check_is_compiled(game: Game) -> None:
    """Players of one's own are played by ``rounds``: compiled code knows only ours."""
    known = isinstance(game.adversary, TargetAware | WeightedMajority | MissingOnly)
    if not known or not isinstance(game.planner, OptimisticPlanner):
        raise BadInput("this game has players of its own; play it with covgame.game.game.rounds")
    if not isinstance(game.planner.optimism, RangeAwareOptimism | PaperOptimism):
        raise BadInput(
            "this game has an optimism of its own; play it with covgame.game.game.rounds"
        )


def _used(table: SuccessorTable) -> IntArray:
    """(places used, largest capacity of a row), as the kernel keeps them."""
    largest = table.rows["capacity"].max(initial=table.FIRST_CAPACITY)
    return np.array([table.used, largest], dtype=np.int64)
