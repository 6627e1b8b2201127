"""The fast way to play: blocks of episodes in compiled code, the same ones as ``rounds``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from typing import Any, ClassVar

import numpy as np

from covgame.arrays import of_each_kind
from covgame.episodes import Block, Episode, as_block
from covgame.errors import BadInput
from covgame.game.adversary import (
    OURS,
    MissingOnly,
    TargetAware,
    WeightedMajority,
    smallest_count,
)
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, PaperOptimism, RangeAwareOptimism
from covgame.game.successors import SuccessorTable
from covgame.kernels import layout
from covgame.mdp.model import TabularMDP
from covgame.players.plain import PlainGame
from covgame.sources.simulated import STREAM, SimulatedSource
from covgame.types import FloatArray, Policy

LARGE = 20_000
"""With more cells a readable episode may take longer than compiling."""

SECONDS_PER_POLL = 0.1
"""How often to check for compiled code while readable episodes are played."""


def blocks(
    game: Game, source: SimulatedSource, *, size: int, record: bool = True
) -> Iterator[Block]:
    """Play in blocks of at most ``size`` episodes until the target is covered."""
    player = WaitingPlayer(game, source, most=size, record=record)
    while not game.covered:
        block = player.play(size)
        if len(block):
            yield block


class CompiledGame:
    """A game whose planning and bookkeeping run in compiled code; ask and tell are the same.

    While another process compiles it, the readable game is played, which is the same to the last
    bit. If ``waits`` is set, and in large worlds, this process compiles it instead.
    """

    waits: ClassVar[bool] = False

    def __init__(self, game: Game) -> None:
        from covgame.kernels import episodes, tables
        from covgame.kernels.jit import Compilation

        if not is_compiled(game):
            raise BadInput("compiled code plays no planner or adversary but ours; play it plainly")
        self.kernel, self.tables_kernel, self.game = episodes, tables, game
        self.optimism, self.paper = self._optimism()
        self.amid_learning = False
        self.is_ready = self.waits or game.target.shape.cells > LARGE
        self.bind()
        if not self.is_ready:
            self.compilation = Compilation(self._calls())
            self.poll_compiler()

    def poll_compiler(self) -> bool:
        """Switch to compiled code if it is ready, and return whether it is; between episodes."""
        if not self.is_ready and self.compilation.is_over():
            self.is_ready = True
            self.bind()
        return self.is_ready

    def _calls(self) -> list[tuple[Any, Sequence[Any]]]:
        """The compiled functions that will be called, with arguments of the same types."""
        return [
            (self.tables_kernel.refresh, [self.learnt]),
            (self.tables_kernel.is_news, [*self.shared, 0, 0]),
            (self.kernel.plan_episode, self._to_plan(0, 0)),
            (self.kernel.tell_episode, self._to_tell(0)),
        ]

    def bind(self) -> None:
        """Take up the arrays of the game; again when they have grown or were replaced."""
        game = self.game
        self.wanted = self._wanted()
        self.reward = game.place_rewards(game.state.weights)
        self.workspace = layout.new_workspace(game.counts, len(game.target), game.deepest)
        self.path, self.path_next = self.workspace.path, self.workspace.path_next
        self.pairs = game.target.shape.pairs
        self.revised = False
        self._take_up_tables()

    def _take_up_tables(self) -> None:
        """Hand the tables and the adversary's memory to compiled code, as arrays."""
        counts, state = self.game.counts, self.game.state
        self.tables = (counts.table, counts.pool or SuccessorTable(0))
        self.memory = np.array(
            [state.total, state.variance, state.rate, state.shift, float(state.rows)]
        )
        self.level = np.array([state.level], dtype=np.int64)
        self.learnt = layout.count_arrays(counts)
        shared = counts.pool or counts.table
        self.shared = (shared.rows, shared.entries)  # what all stages have seen of a pair
        self.by_stage = self.reward.reshape(len(self.reward), -1)
        self.weighing = layout.WeightArrays(
            weights=state.weights,
            reward=self.reward.reshape(-1),
            stage_reward=self.by_stage,
            memory=self.memory,
        )
        self.majority = None
        if isinstance(self.game.adversary, WeightedMajority):
            self.majority = layout.Majority(base=state.base, level=self.level)
        if self.is_ready:
            self.tables_kernel.refresh(self.learnt)

    def _new_plan(self) -> Any:
        """A plan that follows the counts as they are; None where everything changes anyway."""
        if self.paper is not None or self.majority is not None:
            return None
        return layout.plan_cache(self.game.counts, self.game.deepest, len(self.by_stage))

    def _put_back(self) -> None:
        """What are numbers in Python, after compiled code has changed them."""
        state = self.game.state
        state.total, state.variance, state.rate, state.shift, _ = self.memory.tolist()
        state.level = int(self.level[0])
        self._put_back_places()

    def _put_back_places(self) -> None:
        """How much of the tables is used: whoever binds anew within an episode needs it."""
        table, pool = self.tables
        table.used, pool.used = int(self.learnt.used[0]), int(self.learnt.pool_used[0])

    def ask(self) -> Policy:
        """The policy to play next."""
        if not self.poll_compiler():
            return self.game.ask()
        self.game.begin()
        self._weigh_as_told()
        return self._plan(0, 0)

    def _plan(self, first_new: int, earliest: int) -> Policy:
        """A plan from a stage on, when the steps of the path before it are learnt."""
        plan_episode: Any = self.kernel.plan_episode
        if not plan_episode(*self._to_plan(first_new, earliest)) and not earliest:
            self._make_room()  # for the steps of the episode that begins now
        return self._as_policy()

    def _as_policy(self, on_start: Callable[[int], Policy | None] | None = None) -> Policy:
        """What compiled code has planned."""
        horizon, _, actions = self.game.target.shape.hsa
        chosen, depth = self.workspace.chosen, int(self.workspace.depth[0])
        if depth == 0:
            return Policy(self.workspace.route[None], actions, on_start, horizon - 1)
        return Policy(chosen[len(chosen) - depth :], actions, on_start, horizon - depth)

    def _to_plan(self, first_new: int, earliest: int) -> Sequence[Any]:
        known = (self.learnt, self.by_stage, self.workspace, self.optimism, self.paper)
        return *known, first_new, earliest

    def plan(self, weights: FloatArray) -> Policy:
        """The policy for rows that weigh so much, on what is counted now."""
        if not self.poll_compiler():
            return self.game.planner.plan(self.game.counts, self.game.cell_rewards(weights))
        self.reward[:] = self.game.place_rewards(weights)
        self.revised = True
        self._take_up_tables()
        policy = self._plan(0, 0)
        return replace(policy, table=policy.table.copy())

    def revise(self, cell: int, successor: int) -> Policy | None:
        """``Game.revise``; steps are learnt together, when there is a reason to plan again."""
        if not self.is_ready:
            return self._revise_readably(cell, successor)
        game, step = self.game, len(self.game.path)
        game.visit(cell)
        self.path[step], self.path_next[step] = cell, successor
        news = game.learns_within and self._is_news(cell, successor)
        weights = game.revised_weights()
        if weights is not None:
            self.reward[:] = game.place_rewards(weights)
            self.revised = True
        elif not news:
            return None
        return self._learn_and_plan() if game.learns_within else self._plan(step + 1, step + 1)

    def _revise_readably(self, cell: int, successor: int) -> Policy | None:
        self.amid_learning = True
        policy = self.game.revise(cell, successor)
        self.amid_learning = False
        return policy

    def discover(self, state: int) -> None:
        """Ask for the rows that are reserved for a state, also within an episode."""
        if rows := self.game.reserved_rows(state):
            self.game.ask_for(rows)
            adversary = self.game.state
            self.memory[[layout.TOTAL, layout.ROWS]] = adversary.total, float(adversary.rows)
            self._reward_rows(state, rows)

    def _reward_rows(self, state: int, rows: list[int]) -> None:
        """Have the rows of a state pay from now on."""
        del state, rows
        self.revised = True

    def _is_news(self, cell: int, successor: int) -> bool:
        """Whether a step is news, as ``Counts.learn`` says.

        Steps that were not learnt yet were none, and what was none does not make others news.
        """
        is_news: Any = self.tables_kernel.is_news
        news: bool = is_news(*self.shared, cell % self.pairs, successor)
        return news

    def _learn_and_plan(self) -> Policy:
        """Count the steps of the episode so far, and plan its rest."""
        game, path_next = self.game, self.workspace.path_next
        first, last = len(game.learnt), len(game.path)
        self.amid_learning = True
        policy = self._plan(first, last)
        self._put_back_places()
        game.learnt += zip(game.path[first:], path_next[first:last].tolist(), strict=True)
        self.amid_learning = False
        return policy

    def abandon(self) -> None:
        """``Game.abandon``; impossible if Ctrl-C came between counting steps and noting it."""
        if self.amid_learning:
            raise KeyboardInterrupt
        if not self.is_ready:
            self.game.abandon()
            return
        self._put_back()
        self.game.abandon()
        self.bind()

    def tell(self, episode: Episode) -> None:
        """``Game.tell``."""
        if not self.is_ready and (self.game.path or not self.poll_compiler()):
            self.game.tell(episode)
            return
        self._weigh_as_told()
        cells = list(episode.cells(self.game.target.shape))
        self.workspace.path[: len(cells)] = cells
        self.workspace.path_next[: len(cells)] = episode.successors
        self.workspace.path_reward[: len(cells)] = episode.reward
        while not self._count(len(cells)):
            self._make_room()
        self._put_back()
        self.game.counts.n_episodes += 1
        self.game.begin()

    def _weigh_as_told(self) -> None:
        """Rewards as the adversary has them, after plans for other weights."""
        if self.revised:
            self.reward[:] = self.game.place_rewards(self.game.state.weights)
            self.revised = False

    def _count(self, steps: int) -> bool:
        """Count the episode on the path, unless there is no room."""
        tell_episode: Any = self.kernel.tell_episode
        counted: bool = tell_episode(*self._to_tell(steps))
        return counted

    def _to_tell(self, steps: int) -> Sequence[Any]:
        return (
            self.learnt, self.wanted, self.weighing, self.workspace, self.majority,
            self._missing_only, steps, len(self.game.learnt),
        )  # fmt: skip

    def _make_room(self) -> None:
        self._put_back()
        for full in filter(len, self.tables):
            full.make_room(len(full.entries) + 1)
        self._take_up_tables()

    @property
    def _missing_only(self) -> bool | None:
        return isinstance(self.game.adversary, MissingOnly) or None  # None: left out when compiling

    def _wanted(self) -> layout.TargetArrays:
        game, target = self.game, self.game.target
        whole = isinstance(game.adversary, TargetAware)
        counts = target.whole_counts if whole else target.counts
        cell_start, cell_row = target.by_place
        preference = game.preference
        return layout.TargetArrays(
            counts=counts,
            log_counts=of_each_kind(math.log, counts),
            collected=game.collected,
            any_stage=target.any_stage,
            largest=float(counts.max(initial=0.0)) / target.most_per_episode,
            smallest=smallest_count(target),
            most=target.most_per_episode,
            row_start=layout.row_starts(target.places.row, len(target)),
            row_cell=target.places.cell,
            cell_start=cell_start,
            cell_row=cell_row,
            preference=np.zeros(0) if preference is None else preference.reshape(-1),
        )

    def _optimism(self) -> tuple[FloatArray, FloatArray | None]:
        """(the numbers of the range-aware optimism, those of the paper's or None)."""
        optimism = self.game.planner.optimism  # type: ignore[attr-defined]
        if isinstance(optimism, RangeAwareOptimism):
            return np.array(astuple(optimism)), None
        log_cells = optimism.thresholds.log_cells(optimism.delta)
        states = float(self.game.target.shape.states)
        return np.zeros(5), np.array([optimism.scale, log_cells, states])


class CompiledPlayer(CompiledGame):
    """Plays a game on a simulated model in blocks of episodes.

    ``incremental=False`` plans everything anew before each episode; the episodes are the same.
    """

    def __init__(
        self,
        game: Game,
        source: SimulatedSource,
        *,
        most: int,
        record: bool,
        incremental: bool = True,
    ) -> None:
        self.incremental = incremental
        self.source, self.most, self.recording = source, most, record
        steps = most * game.target.shape.horizon if record else 0
        self.record = layout.new_record(most, steps)
        self.world = world_arrays(source.model)
        super().__init__(game)

    def _calls(self) -> list[tuple[Any, Sequence[Any]]]:
        return [
            (self.tables_kernel.refresh, [self.learnt]),
            (self.kernel.play_block, self._to_play(0)),
        ]

    def _take_up_tables(self) -> None:
        super()._take_up_tables()
        self._follow_counts()

    def _follow_counts(self) -> None:
        """Start from the counts as they are: somebody else may have changed them."""
        if self.is_ready:
            self.tables_kernel.refresh(self.learnt)
        self.plan_cache: Any = self._new_plan() if self.incremental else None

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if that covers the target or memory has to grow."""
        if not self.poll_compiler():
            return self._play_readably(min(episodes, self.most))
        counts = self.game.counts
        if self.plan_cache is None or self.plan_cache.tally[layout.EPISODE] != counts.n_episodes:
            self._follow_counts()
        play_block: Any = self.kernel.play_block
        why, played, steps = play_block(*self._to_play(min(episodes, self.most)))
        self._put_back()
        if why == layout.POOL_FULL:
            self._make_room()
        first = counts.n_episodes
        counts.n_episodes += played
        return recorded_block(self.record, first, played, steps if self.recording else 0)

    def _to_play(self, episodes: int) -> Sequence[Any]:
        return (
            episodes, self.game.counts.n_episodes, self.source.seed, STREAM,
            self.world, self.learnt, self.wanted, self.weighing, self.workspace, self.plan_cache,
            self.optimism, self.paper, self.majority, self._missing_only,
            self.game.learns_within, self.record, self.recording,
        )  # fmt: skip

    def _play_readably(self, episodes: int) -> Block:
        """The same episodes as compiled code plays, fewer if they take long."""
        game, first = self.game, self.game.counts.n_episodes
        played: list[Episode] = []
        until = time.monotonic() + SECONDS_PER_POLL
        while not game.covered and len(played) < episodes and time.monotonic() < until:
            episode = self.source.play(game.ask(), game.counts.n_episodes, game.revise)
            played.append(game.tell(episode).episode)
        return as_block(first, played)


class WaitingPlayer(CompiledPlayer):
    """Compiles in this process: for measuring time, and for comparing with the readable game."""

    waits = True


def recorded_block(record: layout.Record, first: int, played: int, steps: int) -> Block:
    """What compiled code has written on a record."""
    lengths, state, action, reward, next_state = record
    return Block(
        first,
        lengths[:played].copy(),
        state[:steps].copy(),
        action[:steps].copy(),
        reward[:steps].copy(),
        next_state[:steps].copy(),
    )


def world_arrays(model: TabularMDP) -> layout.World:
    """A model as compiled code takes it."""
    return layout.World(
        initial=model.initial,
        start=model.transitions.start,
        next_state=model.transitions.next_state,
        probability=model.transitions.probability,
        rewards=model.stage_rewards,
        stationary=model.transitions.stationary,
    )


def is_compiled(game: Game) -> bool:
    """Whether compiled code knows the game's planner and adversary: exactly ours, no subclass."""
    planner = game.planner
    return (
        type(game.adversary) in OURS
        and type(planner) is OptimisticPlanner
        and type(planner.optimism) in (RangeAwareOptimism, PaperOptimism)
    )


def inner_game(game: Game) -> CompiledGame | PlainGame:
    """The game to ask and tell: compiled, if that can be."""
    return CompiledGame(game) if is_compiled(game) else PlainGame(game)
