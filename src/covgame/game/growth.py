"""Targets that change on the way, on environments whose states show only as one goes.

What was newly seen is asked for, too; rows that nobody can reach often enough are left out. When
all that was seen is covered, a few episodes are left to chance: what they find is covered as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from covgame.errors import Row
from covgame.game.game import Game
from covgame.targets.requests import Uniform
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, BoolHS, IntArray

INTERVAL = 50
"""The target takes up what was newly seen after every 50th part of the episodes so far."""

FIRST_LOOK = 50

CHANCE_SHARE = 0.05
LEAST_BY_CHANCE = 5
"""When all is covered, this share of the episodes so far is left to chance, at least so many."""

Rare = Callable[[Game], list[tuple[int, float]]]
"""Open rows of a game, by number, that are proved to be reached too rarely, and the bounds."""


def next_look(episodes: int) -> int:
    """After how many episodes reachability is bounded next: a sequence that depends on nothing."""
    look = FIRST_LOOK
    while look <= episodes:
        look = math.ceil(1.25 * look)
    return look


@dataclass
class ByChance:
    """Episodes of uniformly random actions, played where all that was seen is covered."""

    episodes: int = 0
    in_vain: int = 0  # the last of them, which found nothing to cover
    new_states: int = 0
    new_rows: int = 0  # of the target

    def is_due(self, episodes: int) -> bool:
        """Whether more of them are played after so many episodes in all."""
        share = math.ceil(CHANCE_SHARE * (episodes - self.in_vain))
        return self.in_vain < max(LEAST_BY_CHANCE, share)

    def play(self) -> None:
        """Hear of one more."""
        self.episodes += 1
        self.in_vain += 1

    def find(self, states: int, rows: int) -> None:
        """Hear what the last one has found."""
        self.new_states += states
        self.new_rows += rows
        if rows:
            self.in_vain = 0


class Growth:
    """How the target of a game changes.

    With ``request`` it asks for every action of all that was seen so far (or every pair, or state);
    what is new is taken up now and then, and whenever all is covered, so that a game ends only when
    everything seen is covered. With ``rare`` it leaves out what that names, from time to time. With
    ``by_chance`` it is not over before chance has had its share.
    """

    def __init__(
        self,
        request: Uniform | None = None,
        rare: Rare | None = None,
        by_chance: ByChance | None = None,
    ) -> None:
        self.request, self.rare, self.by_chance = request, rare, by_chance
        self.left_out: list[tuple[Row, float]] = []  # and the bounds that say why
        self.cut_short = False  # whether an episode was, before the last stage

    def begin(self, game: Game) -> None:
        """Start from where a game stands."""
        self.taken_up = _seen(game) & _asked_for(game)
        self.next_growth = self.looked_at = game.counts.n_episodes

    def update(self, game: Game, allowed: BoolArray | None) -> bool:
        """After an episode: whether the target has changed. ``allowed`` is what is known by now."""
        changed = False
        if game.counts.n_episodes >= self.next_growth or game.covered:
            changed = self._take_up(game, allowed)
        changed = self._leave_out_rare(game) or changed
        if self.by_chance is not None and not game.covered:
            self.by_chance.in_vain = 0
        return changed

    def is_over(self, game: Game) -> bool:
        """Whether all that was seen is covered, and chance has found nothing more for a while."""
        waits = self.request is not None and game.counts.n_episodes == 0
        return game.covered and not waits and not self.leaves_to_chance(game)

    def leaves_to_chance(self, game: Game) -> bool:
        """Whether the next episode is one of random actions."""
        played = game.counts.n_episodes
        due = self.by_chance is not None and self.by_chance.is_due(played)
        return due and played > 0 and game.covered

    def _take_up(self, game: Game, allowed: BoolArray | None) -> bool:
        """Ask for what was newly seen, and mind what was learnt of forbidden actions."""
        counts = game.counts
        self.next_growth = counts.n_episodes + max(1, counts.n_episodes // INTERVAL)
        seen = _seen(game)
        known = np.zeros_like(seen)
        known[:, : self.taken_up.shape[1]] = self.taken_up
        more = self.request is not None and bool((seen & ~known).any())
        if not (more or _differs(game.allowed, allowed)):
            return False
        self.taken_up, rows = seen, len(game.target)
        self.make_room(game, counts.shape.states, allowed)
        if self.by_chance is not None and self.by_chance.in_vain:
            found = int(seen.any(axis=0).sum() - known.any(axis=0).sum())
            self.by_chance.find(found, max(0, len(game.target) - rows))
        return True

    def make_room(self, game: Game, states: int, allowed: BoolArray | None) -> None:
        """Build the target anew, for so many states."""
        target = game.target
        if allowed is not None:
            known = np.ones((states, target.shape.actions), dtype=np.bool_)
            known[: len(allowed)] = allowed[:states]
            game.allow(known)
        rows: IntArray = np.zeros((0, 3), dtype=np.int64)
        count = 0.0
        if self.request is not None:
            target, count = _without_forbidden(game), float(self.request.count)
            rows = self._new_rows(game, target, self.request)
        game.grow(target.with_more(states, rows, np.full(len(rows), count)))

    def _new_rows(self, game: Game, target: Target, request: Uniform) -> IntArray:
        """What is asked for and not yet in the target."""
        wanted = request.rows(self.taken_up, _allowed(game, self.taken_up.shape[1]))
        known = set(map(tuple, target.rows.tolist())) | self._left_out_rows()
        new = [row for row in wanted.tolist() if tuple(row) not in known]
        return np.array(new, dtype=np.int64).reshape(-1, 3)

    def _left_out_rows(self) -> set[tuple[int, ...]]:
        return {tuple(ANY if i is None else i for i in row) for row, _ in self.left_out}

    def _leave_out_rare(self, game: Game) -> bool:
        """Drop open rows that, as the data prove, no policy reaches often enough."""
        played = game.counts.n_episodes
        due = played != self.looked_at and played == next_look(played - 1)
        if self.rare is None or not due or self.proves_nothing(game):
            return False
        self.looked_at = played
        found = self.rare(game)
        if found:
            rows = game.target.as_rows([row for row, _ in found])
            self.left_out += zip(rows, (bound for _, bound in found), strict=True)
            self.drop_left_out(game)
        return bool(found)

    def proves_nothing(self, game: Game) -> bool:
        """Whether bounds would rest on pooled stages that are seen not to be alike."""
        return self.cut_short and game.counts.pooled

    def drop_left_out(self, game: Game) -> None:
        """Do not ask for the rows that were left out."""
        dropped = self._left_out_rows()
        kept = [tuple(row) not in dropped for row in game.target.rows.tolist()]
        game.grow(game.target.keep(np.array(kept, dtype=np.bool_)))


def _seen(game: Game) -> BoolHS:
    """The (stage, state) that some episode was in."""
    seen: BoolHS = game.counts.visits.sum(axis=2) > 0
    return seen


def _asked_for(game: Game) -> BoolHS:
    """The (stage, state) in the target: a run may be stopped before it takes up what it saw."""
    asked: BoolHS = np.zeros(game.counts.shape.hs, dtype=np.bool_)
    stage, state, _ = game.target.rows.T
    asked[stage[stage != ANY], state[stage != ANY]] = True
    asked[:, state[stage == ANY]] = True
    return asked


def _differs(mine: BoolArray | None, theirs: BoolArray | None) -> bool:
    if theirs is None:
        return False
    return mine is None or mine.shape != theirs.shape or bool((mine != theirs).any())


def _without_forbidden(game: Game) -> Target:
    """Episodes that are counted again do not say what was forbidden; that shows later."""
    _, state, action = game.target.rows.T
    allowed = _allowed(game, game.target.shape.states)
    return game.target.keep((action == ANY) | allowed[state, action])


def _allowed(game: Game, states: int) -> BoolArray:
    if game.allowed is None:
        return np.ones((states, game.target.shape.actions), dtype=np.bool_)
    return game.allowed[:states]
