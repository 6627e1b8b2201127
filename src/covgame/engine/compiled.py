"""The game with planning and bookkeeping in compiled code: the same policies as ``Game``.

Nothing is compiled while this module is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from typing import Any, ClassVar

import numpy as np

from covgame.arrays import of_each_kind
from covgame.episodes import Episode
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
from covgame.types import FloatArray, Policy

LARGE = 20_000
"""With more cells a readable episode may take longer than compiling."""


def is_compiled(game: Game) -> bool:
    """Whether compiled code has the planner and adversary of a game: exactly ours, no subclass."""
    planner = game.planner
    return (
        type(game.adversary) in OURS
        and type(planner) is OptimisticPlanner
        and type(planner.optimism) in (RangeAwareOptimism, PaperOptimism)
    )


def compiled_game(game: Game, *, incremental: bool = True) -> CompiledGame | Game:
    """The compiled game if its planner and adversary are ours, otherwise the game itself."""
    return CompiledGame(game, incremental=incremental) if is_compiled(game) else game


class CompiledGame:
    """Asked and told like ``Game``, which it wraps.

    Until the functions are compiled by another process, the readable game is played; it makes the
    same policies to the last bit. In large worlds, and if ``waits`` is set, this process compiles
    them instead.

    A policy that is asked for is planned in ``Policy.begin`` and ``revise``, for where the episode
    is. ``incremental`` keeps the plan from step to step and plans again only what has changed. The
    players of the paper change everything after every episode, so their plans are not kept.
    """

    waits: ClassVar[bool] = False

    def __init__(self, game: Game, *, incremental: bool = True, waits: bool | None = None) -> None:
        from covgame.kernels import episodes, tables
        from covgame.kernels.jit import Compilation

        if not is_compiled(game):
            raise BadInput("compiled code plays no planner or adversary but ours; play it plainly")
        self.kernel, self.tables_kernel, self.game = episodes, tables, game
        self.optimism, self.paper = np.zeros(5), None
        optimism = game.planner.optimism  # type: ignore[attr-defined]
        if isinstance(optimism, RangeAwareOptimism):
            self.optimism = np.array(astuple(optimism))
        else:
            log_cells = optimism.thresholds.log_cells(optimism.delta)
            states = float(game.target.shape.states)
            self.paper = np.array([optimism.scale, log_cells, states])
        repeats_all = self.paper is not None or isinstance(game.adversary, WeightedMajority)
        self.incremental = incremental and not repeats_all
        self.is_learning = False  # steps are counted, but ``Game.learnt`` lacks them
        self.is_ready = self.waits if waits is None else waits
        self.is_ready = self.is_ready or game.target.shape.cells > LARGE
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
        calls: list[tuple[Any, Sequence[Any]]] = [
            (self.tables_kernel.refresh, [self.learnt]),
            (self.tables_kernel.has_room, [self.learnt]),
            (self.tables_kernel.is_news, [*self.shared, 0, 0]),
            (self.kernel.plan_on, self._to_plan_on(0, 0, changed=False)),
            (self.kernel.ask_for_rows, self._to_ask_for([])),
            (self.kernel.tell_episode, self._to_tell(0)),
        ]
        return calls if self.incremental else [*calls, (self.kernel.plan_all, self._to_plan_all())]

    # ------------------------------------------------------------------ arrays of the game

    def bind(self) -> None:
        """Use the arrays of the game, again after they have grown or were replaced."""
        game, target = self.game, self.game.target
        whole = isinstance(game.adversary, TargetAware)
        counts = target.whole_counts if whole else target.counts
        cell_start, cell_row = target.by_place
        preference = game.preference
        self.wanted = layout.TargetArrays(
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
        self.reward = game.place_rewards(game.state.weights)
        self.workspace = layout.new_workspace(game.counts, len(target), game.deepest)
        self.path, self.path_next = self.workspace.path, self.workspace.path_next
        self.pairs = target.shape.pairs
        self.has_other_weights = False
        self._bind_tables()

    def _bind_tables(self) -> None:
        """Use the successor tables and the numbers of the adversary."""
        game, counts, state = self.game, self.game.counts, self.game.state
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
        # Within an episode weights fall; what the adversary remembers does not change by that.
        self.within = self.weighing._replace(weights=state.weights.copy())
        self.majority = None
        if isinstance(game.adversary, WeightedMajority):
            self.majority = layout.Majority(base=state.base, level=self.level)
        self.episode = np.zeros(3, dtype=np.int64)
        self.episode[layout.LEARNT] = len(game.learnt)
        self.start_plan()
        if self.is_ready:
            self.tables_kernel.refresh(self.learnt)

    def start_plan(self) -> None:
        """Forget the plan that is kept; the next one follows the counts as they are."""
        self.plan_cache: Any = None
        if self.incremental:
            deepest, stages = self.game.deepest, len(self.by_stage)
            self.plan_cache = layout.plan_cache(self.game.counts, deepest, stages)

    def put_back(self) -> None:
        """Store the numbers that compiled code has changed in the game."""
        state = self.game.state
        state.total, state.variance, state.rate, state.shift, _ = self.memory.tolist()
        state.level = int(self.level[0])
        self._put_back_places()

    def _put_back_places(self) -> None:
        """How much of the tables is used."""
        table, pool = self.tables
        table.used, pool.used = int(self.learnt.used[0]), int(self.learnt.pool_used[0])

    def make_room(self) -> None:
        """Enlarge the tables, between episodes."""
        self.put_back()
        for full in filter(len, self.tables):
            full.make_room(len(full.entries) + 1)
        self._bind_tables()

    def _make_room_for_episode(self) -> None:
        has_room: Any = self.tables_kernel.has_room
        while not has_room(self.learnt):
            self.make_room()

    @property
    def missing_only(self) -> bool | None:
        """Whether the adversary is ``MissingOnly``; None if not, so that compiling omits it."""
        return isinstance(self.game.adversary, MissingOnly) or None

    # ------------------------------------------------------------------------------ planning

    def ask(self) -> Policy:
        """``Game.ask``."""
        if not self.poll_compiler():
            return self.game.ask()
        self.game.begin()
        self._restore_weights()
        self._make_room_for_episode()
        cache = self.plan_cache
        if cache is not None and cache.tally[layout.EPISODE] != self.game.counts.n_episodes:
            self.start_plan()  # episodes were counted elsewhere
        if self.game.should_look_again():
            self._look_again()
        return self._policy(self._begin)

    def _begin(self, state: int) -> Policy:
        """The policy for an episode that begins in this state."""
        self._plan_on(0, state)
        return self._policy()

    def plan_all(self, weights: FloatArray) -> Policy:
        """``Game.plan_all``."""
        if not self.poll_compiler():
            return self.game.plan_all(weights)
        self.reward[:] = self.game.place_rewards(weights)
        self.has_other_weights = True
        self._bind_tables()
        plan_all: Any = self.kernel.plan_all
        plan_all(*self._to_plan_all())
        policy = self._policy()
        return replace(policy, table=policy.table.copy())

    def _policy(self, on_start: Callable[[int], Policy | None] | None = None) -> Policy:
        """What compiled code has planned."""
        horizon, _, actions = self.game.target.shape.hsa
        chosen, depth = self.workspace.chosen, int(self.workspace.depth[0])
        if depth == 0:
            return Policy(self.workspace.route[None], actions, on_start, horizon - 1)
        return Policy(chosen[len(chosen) - depth :], actions, on_start, horizon - depth)

    def revise(self, cell: int, successor: int) -> Policy | None:
        """``Game.revise``; steps are learnt together, when there is a reason to plan again."""
        game = self.game
        if not self.is_ready:
            self.is_learning = True
            policy = game.revise(cell, successor)
            self.is_learning = False
            return policy
        stage = len(game.path) + 1
        game.visit(cell)
        self.path[stage - 1], self.path_next[stage - 1] = cell, successor
        if game.look_base is not None:
            rows = list(game.target.rows_of_cell(cell))
            self.within.weights[rows] = game.look_weights(rows)
            self.kernel.ask_for_rows(*self._to_ask_for(rows))
            return self._plan_on(stage, successor)
        changed = game.weights_fell()
        if changed and game.should_look_again():
            self._look_again()
            return self._plan_on(stage, successor)
        # Steps that are not learnt yet were no news, and do not make others news.
        news = game.learns_within and self.tables_kernel.is_news(
            *self.shared, cell % self.pairs, successor
        )
        if not changed and not news and self._is_planned(stage, successor):
            return None
        return self._plan_on(stage, successor, changed=changed)

    def _is_planned(self, h: int, state: int) -> bool:
        """Whether the plan knows what to do in a state at a stage, and looks far enough ahead."""
        cache, workspace, left = self.plan_cache, self.workspace, self.game.target.shape.horizon - h
        depth, deepest = int(workspace.depth[0]), len(workspace.chosen)
        if depth == 0:
            return bool(workspace.route[state] >= 0)
        at = deepest - min(depth, left)
        if depth < min(deepest, left) and workspace.values[at, state] < workspace.enough[0]:
            return False
        return cache is None or bool(cache.flags[state, at] or cache.tally[layout.WHOLE])

    def _plan_on(self, h: int, state: int, *, changed: bool = False) -> Policy:
        """Plan the rest of an episode that is in a state at stage h; learn its steps so far."""
        plan_on: Any = self.kernel.plan_on
        game, first = self.game, len(self.game.learnt)
        self.is_learning = game.learns_within and first < h
        plan_on(*self._to_plan_on(h, state, changed=changed))
        if game.learns_within:
            self._put_back_places()
            game.learnt += zip(game.path[first:h], self.path_next[first:h].tolist(), strict=True)
        self.is_learning = False
        return self._policy()

    def _look_again(self) -> None:
        """``Game.look_again``: other weights for the rest of the episode."""
        self.within.weights[:] = self.game.look_again()
        self._set_rewards(self.within.weights)
        self.has_other_weights = True

    def _restore_weights(self) -> None:
        """The weights and rewards of the adversary, after plans for others."""
        if self.has_other_weights:
            self.within.weights[:] = self.game.state.weights
            self._set_rewards(self.game.state.weights)
            self.has_other_weights = False

    def _set_rewards(self, weights: FloatArray) -> None:
        self.reward[:] = self.game.place_rewards(weights)
        if self.plan_cache is not None:
            self.plan_cache.basis[layout.PLAN_RATE] = np.nan  # all is planned again

    # ------------------------------------------------------------------------------ counting

    def discover(self, state: int) -> None:
        """``Game.discover``."""
        game, rows = self.game, self.game.discover(state)
        if not rows or not self.is_ready:
            return
        self.memory[[layout.TOTAL, layout.ROWS]] = game.state.total, float(game.state.rows)
        if game.allowed is not None:
            self.reward[:, state, ~game.allowed[state]] = -np.inf
        self.within.weights[rows] = game.state.weights[rows]
        self.kernel.ask_for_rows(*self._to_ask_for(rows))

    def tell(self, episode: Episode) -> None:
        """``Game.tell``."""
        if not self.is_ready and (self.game.path or not self.poll_compiler()):
            self.game.tell(episode)
            return
        self._restore_weights()
        cells = list(episode.cells(self.game.target.shape))
        self.path[: len(cells)] = cells
        self.path_next[: len(cells)] = episode.successors
        self.workspace.path_reward[: len(cells)] = episode.reward
        if not self.episode[layout.VISITED]:  # else there was room when it was asked for
            self._make_room_for_episode()
        tell_episode: Any = self.kernel.tell_episode
        tell_episode(*self._to_tell(len(cells)))
        self.put_back()
        self.game.counts.n_episodes += 1
        self.game.begin()

    def abandon(self) -> None:
        """``Game.abandon``; impossible if Ctrl-C came between counting steps and noting it."""
        if self.is_learning:
            raise KeyboardInterrupt
        if self.is_ready:
            self.put_back()
        self.game.abandon()
        if self.is_ready:
            self.bind()

    # ---------------------------------------------------------- arguments of compiled functions

    def _to_plan_all(self) -> Sequence[Any]:
        return self.learnt, self.by_stage, self.workspace, self.optimism, self.paper

    def _to_plan_on(self, h: int, state: int, *, changed: bool) -> Sequence[Any]:
        return (
            self.learnt, self.wanted, self.within, self.workspace, self.plan_cache, self.optimism,
            self.paper, self.missing_only, self.episode, h, state, changed,
            self.game.learns_within,
        )  # fmt: skip

    def _to_ask_for(self, rows: list[int]) -> Sequence[Any]:
        return (
            self.wanted, self.within.weights, self.within.reward, self.plan_cache,
            np.array(rows, dtype=np.int64), self.game.target.shape.actions,
        )  # fmt: skip

    def _to_tell(self, steps: int) -> Sequence[Any]:
        return (
            self.learnt, self.wanted, self.weighing, self.within.weights, self.workspace,
            self.plan_cache, self.majority, self.missing_only, self.episode, steps,
            len(self.game.learnt),
        )  # fmt: skip
