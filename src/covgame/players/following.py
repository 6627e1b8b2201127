"""A game that somebody else plays step by step, and whose plan is kept from step to step.

The same policies as ``CompiledGame`` wherever an episode can be; only what has changed is planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covgame.game.game import Game
from covgame.kernels import layout
from covgame.players.compiled import CompiledGame, is_compiled
from covgame.players.plain import PlainGame
from covgame.types import FloatArray, Policy


class FollowingGame(CompiledGame):
    """``CompiledGame`` whose policies say what to do where episodes have been seen to lead.

    A state in which an episode is for the first time at a stage is planned as it is entered:
    ``Policy.begin`` and ``revise`` hear of it. The players of the paper, which change everything
    after every episode, are planned as before.
    """

    def _take_up_tables(self) -> None:
        super()._take_up_tables()
        self.episode = np.zeros(3, dtype=np.int64)
        self.episode[layout.LEARNT] = len(self.game.learnt)
        self.plan_cache = self._new_plan()
        # Within an episode weights fall; what the adversary remembers does not change by that.
        self.within = self.weighing._replace(weights=self.game.state.weights.copy())

    def _calls(self) -> list[tuple[Any, Sequence[Any]]]:
        if self.plan_cache is None:
            return super()._calls()
        return [
            (self.tables_kernel.refresh, [self.learnt]),
            (self.tables_kernel.has_room, [self.learnt]),
            (self.tables_kernel.is_news, [*self.shared, 0, 0]),
            (self.kernel.plan_on, self._to_plan_on(0, 0, changed=False)),
            (self.kernel.ask_for_rows, self._to_ask_for([])),
            (self.kernel.tell_followed, self._to_tell_followed(0)),
        ]

    def ask(self) -> Policy:
        """The policy to play next."""
        if not self.poll_compiler() or self.plan_cache is None:
            return super().ask()
        self.game.begin()
        self._see_to_room()
        if self.plan_cache.tally[layout.EPISODE] != self.game.counts.n_episodes:
            self.plan_cache = self._new_plan()  # somebody else has counted something
        if self.game.should_look_again():
            self._look_again()
        return self._as_policy(self._begin)

    def _look_again(self) -> None:
        """``Game.look_again``: other weights for the rest of the episode."""
        self.within.weights[:] = self.game.look_again()
        self._reweigh(self.within.weights)

    def _reweigh(self, weights: FloatArray) -> None:
        """Have all rewards, and all that is planned with them, follow other weights."""
        self.reward[:] = self.game.place_rewards(weights)
        self.revised = not self.revised
        if self.plan_cache is not None:
            self.plan_cache.basis[layout.PLAN_RATE] = np.nan

    def _weigh_as_told(self) -> None:
        if self.revised and self.plan_cache is not None:
            self.within.weights[:] = self.game.state.weights
            self._reweigh(self.game.state.weights)
        super()._weigh_as_told()

    def _begin(self, state: int) -> Policy:
        """The policy for an episode that begins in this state."""
        self._plan_on(0, state)
        return self._as_policy()

    def _is_planned(self, h: int, state: int) -> bool:
        """Whether the plan knows what to do in a state at a stage, and looks far enough ahead."""
        cache, workspace, left = self.plan_cache, self.workspace, self.game.target.shape.horizon - h
        depth, deepest = int(workspace.depth[0]), len(workspace.chosen)
        if depth == 0:
            return bool(workspace.route[state] >= 0)
        at = deepest - min(depth, left)
        if depth < min(deepest, left) and workspace.values[at, state] < workspace.enough[0]:
            return False
        return bool(cache.flags[state, at]) or bool(cache.tally[layout.WHOLE])

    def revise(self, cell: int, successor: int) -> Policy | None:
        """``Game.revise``; steps are learnt together, when there is a reason to plan again."""
        if not self.is_ready or self.plan_cache is None:
            return super().revise(cell, successor)
        game, step = self.game, len(self.game.path)
        game.visit(cell)
        self.path[step], self.path_next[step] = cell, successor
        if game.look_base is not None:
            rows = list(game.target.rows_of_cell(cell))
            self.within.weights[rows] = game.look_weights(rows)
            self.kernel.ask_for_rows(*self._to_ask_for(rows))
            self._plan_on(step + 1, successor)
            return self._as_policy()
        changed = game.weights_fell()
        if changed and game.should_look_again():
            self._look_again()
            self._plan_on(step + 1, successor)
            return self._as_policy()
        news = game.learns_within and self._is_news(cell, successor)
        if not changed and not news and self._is_planned(step + 1, successor):
            return None
        self._plan_on(step + 1, successor, changed=changed)
        return self._as_policy()

    def _plan_on(self, h: int, state: int, *, changed: bool = False) -> None:
        """Plan the rest of an episode; what it has shown so far is learnt, where that helps."""
        plan_on: Any = self.kernel.plan_on
        game, first = self.game, len(self.game.learnt)
        self.amid_learning = game.learns_within and first < h
        plan_on(*self._to_plan_on(h, state, changed=changed))
        if game.learns_within:
            self._put_back_places()
            game.learnt += zip(game.path[first:h], self.path_next[first:h].tolist(), strict=True)
        self.amid_learning = False

    def _to_plan_on(self, h: int, state: int, *, changed: bool) -> Sequence[Any]:
        return (
            self.learnt, self.wanted, self.within, self.workspace, self.plan_cache, self.optimism,
            self._missing_only, self.episode, h, state, changed, self.game.learns_within,
        )  # fmt: skip

    def _reward_rows(self, state: int, rows: list[int]) -> None:
        if not self.is_ready or self.plan_cache is None:
            super()._reward_rows(state, rows)
            return
        game, ask_for_rows = self.game, self.kernel.ask_for_rows
        if game.allowed is not None:
            self.reward[:, state, ~game.allowed[state]] = -np.inf
        self.within.weights[rows] = game.state.weights[rows]
        ask_for_rows(*self._to_ask_for(rows))

    def _to_ask_for(self, rows: list[int]) -> Sequence[Any]:
        return (
            self.wanted, self.within.weights, self.within.reward, self.plan_cache,
            np.array(rows, dtype=np.int64), self.game.target.shape.actions,
        )  # fmt: skip

    def _see_to_room(self) -> None:
        """Before an episode that may show anything."""
        has_room: Any = self.tables_kernel.has_room
        while not has_room(self.learnt):
            self._make_room()

    def _count(self, steps: int) -> bool:
        if self.plan_cache is None:
            return super()._count(steps)
        if not self.episode[layout.VISITED]:  # else there was room when it was asked for
            self._see_to_room()
        tell_followed: Any = self.kernel.tell_followed
        tell_followed(*self._to_tell_followed(steps))
        return True

    def _to_tell_followed(self, steps: int) -> Sequence[Any]:
        return (
            self.learnt, self.wanted, self.weighing, self.within.weights, self.workspace,
            self.plan_cache, self._missing_only, self.episode, steps, len(self.game.learnt),
        )  # fmt: skip


def following_game(game: Game) -> FollowingGame | PlainGame:
    """The game to ask and tell, step by step: compiled, if that can be."""
    return FollowingGame(game) if is_compiled(game) else PlainGame(game)
