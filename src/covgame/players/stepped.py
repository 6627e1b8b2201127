"""A game on an environment that is played step by step; its target may grow on the way."""

from __future__ import annotations

import numpy as np

from covgame.episodes import Block, Episode, as_block
from covgame.errors import EnvironmentFailed
from covgame.game.game import Game
from covgame.players.compiled import CompiledGame
from covgame.sources.external import StepSource
from covgame.targets.requests import Uniform
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, BoolHS, IntArray

GROWTH_INTERVAL = 50
"""The target takes up what was newly seen after every 50th part of the episodes so far."""


class SteppedPlayer:
    """Asks the game, plays the environment, tells the game.

    With ``growing`` the target asks for every action of all that was seen so far (or every pair, or
    state); it is taken up again whenever all is covered, so that a game ends only when everything
    seen is.
    """

    def __init__(self, game: Game, source: StepSource, growing: Uniform | None) -> None:
        self.game, self.source, self.growing = game, source, growing
        self.compiled = CompiledGame(game)
        self.taken_up = self._seen() & self._asked_for()
        self.next_growth = game.counts.n_episodes
        self.failure: EnvironmentFailed | KeyboardInterrupt | None = None
        self.left_out: set[tuple[int, ...]] = set()

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if that covers the target.

        If the environment fails, or Ctrl-C breaks it off, the episodes before are returned, and the
        error comes next time.
        """
        if self.failure is not None:
            raise self.failure
        first = self.game.counts.n_episodes
        played: list[Episode] = []
        while len(played) < episodes and not self._covered():
            policy = self.compiled.ask()
            try:
                episode = self.source.play(
                    policy, self.game.counts.n_episodes, self.compiled.revise
                )
            except (EnvironmentFailed, KeyboardInterrupt) as error:
                self.failure = error
                self.compiled.abandon()
                break
            self._tell(episode)
            played.append(episode)
        self._covered()  # so that nobody takes a target for covered that has yet to grow
        return as_block(first, played)

    def replay(self, episode: Episode) -> None:
        """Take an episode that was played before as if it were played now."""
        self._tell(episode)
        self._covered()  # the target grows when it did

    def leave_out(self, rows: IntArray) -> None:
        """Do not ask for these rows any more."""
        self.left_out |= set(map(tuple, rows.tolist()))
        kept = [tuple(row) not in self.left_out for row in self.game.target.rows.tolist()]
        self.game.grow(self.game.target.keep(np.array(kept, dtype=np.bool_)))
        self.compiled.bind()

    def _covered(self) -> bool:
        """Whether all is covered, what was seen last included."""
        if self.game.counts.n_episodes >= self.next_growth or self.game.covered:
            self._grow()
        return self.game.counts.n_episodes > 0 and self.game.covered

    def _tell(self, episode: Episode) -> None:
        room = self.source.shape.states
        if room > self.game.target.shape.states:
            self._rebuild(room)
        self.compiled.tell(episode)

    def _seen(self) -> BoolHS:
        """The (stage, state) that some episode was in."""
        seen: BoolHS = self.game.counts.visits.sum(axis=2) > 0
        return seen

    def _asked_for(self) -> BoolHS:
        """The (stage, state) in the target: a run may be stopped before it takes up what it saw."""
        asked: BoolHS = np.zeros(self.game.counts.shape.hs, dtype=np.bool_)
        stage, state, _ = self.game.target.rows.T
        asked[stage[stage != ANY], state[stage != ANY]] = True
        asked[:, state[stage == ANY]] = True
        return asked

    def _grow(self) -> None:
        """Take up what was newly seen, and what was learnt of forbidden actions."""
        counts = self.game.counts
        self.next_growth = counts.n_episodes + max(1, counts.n_episodes // GROWTH_INTERVAL)
        seen = self._seen()
        taken_up = np.zeros_like(seen)
        taken_up[:, : self.taken_up.shape[1]] = self.taken_up
        more = self.growing is not None and (seen & ~taken_up).any()
        if more or self._mask_changed():
            self.taken_up = seen
            self._rebuild(counts.shape.states)

    def _mask_changed(self) -> bool:
        mine, theirs = self.game.allowed, self.source.allowed
        if theirs is None:
            return False
        return mine is None or mine.shape != theirs.shape or bool((mine != theirs).any())

    def _rebuild(self, states: int) -> None:
        game, target = self.game, self.game.target
        if self.source.allowed is not None:
            allowed = np.ones((states, target.shape.actions), dtype=np.bool_)
            allowed[: len(self.source.allowed)] = self.source.allowed[:states]
            game.allowed = allowed
        grown = target.with_more(states, np.zeros((0, 3), dtype=np.int64), np.zeros(0))
        if self.growing is not None:
            target = self._without_forbidden(target)
            wanted = self.growing.rows(self.taken_up, self._allowed(self.taken_up.shape[1]))
            known = set(map(tuple, target.rows.tolist())) | self.left_out
            new = [row for row in wanted.tolist() if tuple(row) not in known]
            rows = np.array(new, dtype=np.int64).reshape(-1, 3)
            grown = target.with_more(states, rows, np.full(len(rows), float(self.growing.count)))
        game.grow(grown)
        self.compiled.bind()

    def _without_forbidden(self, target: Target) -> Target:
        """Episodes that are counted again do not say what was forbidden; that shows later."""
        _, state, action = target.rows.T
        allowed = self._allowed(target.shape.states)
        return target.keep((action == ANY) | allowed[state, action])

    def _allowed(self, states: int) -> BoolArray:
        if self.game.allowed is None:
            return np.ones((states, self.game.target.shape.actions), dtype=np.bool_)
        return self.game.allowed[:states]
