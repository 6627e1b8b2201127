"""Targets that change on the way, on environments whose states show only as one goes.

What was newly seen is asked for, too; rows that cannot be reached often enough are left out. When
all that was seen is covered, a few episodes take a second look: they visit the least visited rows
again, and what they find is covered as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from covgame.episodes import Episode
from covgame.errors import Row
from covgame.game.excluded_actions import coverable_rows, cut_off_rows
from covgame.game.game import Game
from covgame.game.size import check_room
from covgame.targets.discovered import DiscoveredTarget, Seen
from covgame.targets.target import Target
from covgame.types import ANY, END, BoolArray, BoolHS, Shape

INTERVAL = 50
"""The target takes up what was newly seen after every 50th part of the episodes so far."""

FIRST_LOOK = 50

SHORT_RUN_PART, LONG_RUN_PART, FEW_LOOKS = 10, 20, 5
"""The second look takes a 10th of the episodes so far up to 5, or a 20th."""

LEAST_LOOKS_RANDOM = 6
"""But at least so many episodes where transitions have been seen to be random."""

MOST_FOLLOWED = 20_000
"""Up to so many transitions it is found out at once which states can be entered sooner."""

Rare = Callable[[Game], list[tuple[int, float]]]
"""Open rows of a game, by number, that are proved to be reached too rarely, and the bounds."""


def look_episodes(episodes: int, *, is_random: bool) -> int:
    """How many episodes of a second look follow so many others."""
    most = max(FEW_LOOKS, math.ceil(episodes / LONG_RUN_PART))
    least = LEAST_LOOKS_RANDOM if is_random else 1
    return max(least, min(math.ceil(episodes / SHORT_RUN_PART), most))


def next_look(episodes: int) -> int:
    """After how many episodes reachability is bounded next: a sequence that depends on nothing."""
    look = FIRST_LOOK
    while look <= episodes:
        look = math.ceil(1.25 * look)
    return look


@dataclass
class SecondLook:
    """Episodes that look for further states when all that was seen is covered."""

    episodes: int = 0
    in_vain: int = 0  # the last of them, which found nothing to cover
    new_states: int = 0
    new_rows: int = 0  # of the target

    def is_due(self, episodes: int, *, is_random: bool) -> bool:
        """Whether more of them are played after so many episodes in all."""
        return self.in_vain < look_episodes(episodes - self.in_vain, is_random=is_random)

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

    With ``request`` it asks for what that makes of all that was seen so far; what is new is taken
    up now and then, and whenever all is covered, so that a game ends only when everything seen is
    covered. With ``rare`` it leaves out what that names, from time to time. With ``second_look`` it
    is not over before that has found nothing for a while.
    """

    def __init__(
        self,
        request: DiscoveredTarget | None = None,
        rare: Rare | None = None,
        second_look: SecondLook | None = None,
    ) -> None:
        self.request, self.rare, self.second_look = request, rare, second_look
        self.left_out: list[tuple[Row, float]] = []  # and the bounds that say why
        self.avoided: BoolArray | None = None  # (S, A), what nobody wants to try again
        self.cut: list[Row] = []  # what only avoided actions lead to
        self.next_cut = 0
        self.seen: BoolHS | None = None  # (H or 1, S), where some episode was
        self.seen_until = 0  # after so many episodes
        self.rows_taken_up = 0  # rows that were asked for after the last update
        self.given = 0  # episodes of somebody else, which the game was told before it began
        self.begun = False

    def stage_free(self, target: Target) -> bool:
        """Whether a target that is changed so never tells stages apart."""
        asks = target.stage_free if self.request is None else self.request.stage_free
        return asks and not self.needs_stages

    @property
    def needs_stages(self) -> bool:
        """Whether transitions have to be counted by stage.

        Bounds on reachability need that: whether stages behave alike is not known, and a test would
        not look where the game does not go.
        """
        return self.rare is not None

    @property
    def looks_again(self) -> bool:
        """Whether states may be missing when all that was seen is covered."""
        return self.request is not None

    def begin(self, game: Game) -> None:
        """Start from where a game stands, unless it is known how it came there."""
        reserved = None
        if self.request is not None and self.reserves(game):
            reserved = self.request.reserved(game.target.shape)
        if self.begun:
            if reserved is not None and len(reserved) != len(game.target):  # of an older run
                game.grow(reserved)
                self._ask_for_seen(game, self._seen(game))
            return
        self.begun = True
        self.taken_up = self._seen(game) & _asked_for(game)
        self.next_growth = self.looked_at = game.counts.n_episodes
        if reserved is not None:
            game.reserve(reserved)

    def reserves(self, game: Game) -> bool:
        """Whether rows are reserved for states that have not been seen yet."""
        reserves = self.request is not None and self.request.reserves
        return reserves and self.rare is None and game.reserves

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that decides when it changes next."""
        if not self.begun or self.request is None:
            return {}
        numbers = [self.next_growth, self.looked_at, self.rows_taken_up]
        times = np.array(numbers, dtype=np.int64)
        return {"taken_up": self.taken_up, "growth_times": times}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from there; older runs do not say it."""
        if {"taken_up", "growth_times"} <= arrays.keys():
            self.taken_up = arrays["taken_up"].astype(np.bool_)
            self.next_growth, self.looked_at, *rows = arrays["growth_times"].tolist()
            self.rows_taken_up = rows[0] if rows else 0
            self.begun = True

    def avoid(self, avoided: BoolArray) -> None:
        """Ask no more for these actions of states, (S, A), from the next update on."""
        self.avoided, self.next_growth = avoided, 0

    def update(self, game: Game, allowed: BoolArray | None) -> bool:
        """After an episode: whether the target has changed. ``allowed`` is what is known by now."""
        changed = False
        if game.counts.n_episodes >= self.next_growth or game.covered:
            changed = self._take_up(game, allowed)
        changed = self._leave_out_rare(game) or changed
        changed = self._cut_off(game) or changed
        if self.second_look is not None and not game.covered:
            self.second_look.in_vain = 0
        return changed

    def is_over(self, game: Game) -> bool:
        """Whether all that was seen is covered, and a second look has found nothing more."""
        waits = self.request is not None and game.counts.n_episodes == 0
        return game.covered and not waits and not self.is_second_look(game)

    def is_second_look(self, game: Game) -> bool:
        """Whether the next episode looks for further states."""
        known = game.counts.n_episodes
        if self.second_look is None or known == 0 or not game.covered:
            return False
        is_random = bool((game.counts.table.rows["size"] > 1).any())
        return self.second_look.is_due(known - self.given, is_random=is_random)

    def _take_up(self, game: Game, allowed: BoolArray | None) -> bool:
        """Ask for what was newly seen, and mind what was learnt of forbidden actions."""
        counts, request = game.counts, self.request
        seen = self._seen(game)
        is_small = counts.table.used <= MOST_FOLLOWED
        if (is_small or game.covered) and request is not None and request.stage_free:
            seen = seen | _enterable(game, seen)
        known = np.zeros_like(seen)
        known[:, : self.taken_up.shape[1]] = _at_stages(game, self.taken_up)
        new = request is not None and bool((seen & ~known).any())
        changed = new or _differs(game.allowed, allowed)
        if request is not None and self.reserves(game):
            if changed := changed or self.next_growth == 0:
                self._allow(game, counts.shape.states, allowed)
                changed = self._ask_for_seen(game, seen)
        elif changed := changed or (request is not None and request.outdated(game.target, counts)):
            self._allow(game, counts.shape.states, allowed)
            target = game.target
            if request is not None:
                target = request.grown(target, self.seen_in(game, seen))
            if self.avoided is not None:
                target = target.keep(coverable_rows(target, self.avoided))
            game.extend(target)
        if new or changed:
            self.taken_up, rows = seen.copy(), int(game.asked.sum())
            if self.second_look is not None and self.second_look.in_vain:
                found = int(seen.any(axis=0).sum() - known.any(axis=0).sum())
                self.second_look.find(found, max(0, rows - self.rows_taken_up))
            self.rows_taken_up = rows
        soonest = request.soonest(game.target, counts) if request else None
        pause = (counts.n_episodes - self.given) // INTERVAL
        self.next_growth = counts.n_episodes + max(
            1, pause if soonest is None else min(pause, soonest)
        )
        return changed

    def _ask_for_seen(self, game: Game, seen: BoolHS) -> bool:
        """Ask for the reserved rows of states that were seen; whether that changes anything."""
        target = game.target
        _, state, action = target.rows.T
        asked: BoolArray = np.logical_or.reduce(seen, axis=0)[state]
        if game.allowed is not None:
            asked &= (action == ANY) | game.allowed[state, action]
        if self.avoided is not None:
            asked &= coverable_rows(target, self.avoided)
        for row in self.cut:
            asked &= (state != row[1]) | (action != (ANY if row[2] is None else row[2]))
        if np.array_equal(asked, game.asked):
            return False
        game.ask_only_for(asked)
        return True

    def hear(self, game: Game, episode: Episode) -> None:
        """Hear of an episode that was just counted, which saves looking through all counts."""
        if self.seen is None or self.seen_until + 1 != game.counts.n_episodes:
            return
        self.seen = _widened(self.seen, game.counts.shape.states)
        self.seen[np.arange(len(episode.state)) % len(self.seen), episode.state] = True
        self.seen_until += 1

    def _seen(self, game: Game) -> BoolHS:
        """The (stage, state) that some episode was in."""
        if self.seen is None or self.seen_until != game.counts.n_episodes:
            self.seen = _at_stages(game, np.logical_or.reduce(game.counts.visits, axis=2))
            self.seen_until = game.counts.n_episodes
        self.seen = _widened(self.seen, game.counts.shape.states)
        return self.seen

    def make_room(self, game: Game, states: int, allowed: BoolArray | None) -> None:
        """Build the target anew, for so many states."""
        check_room(game, states)
        self._allow(game, states, allowed)
        target = game.target
        if self.request is not None and self.reserves(game):
            horizon, _, actions = target.shape.hsa
            game.reserve(self.request.reserved(Shape(horizon, states, actions)))
            return
        if self.request is not None:
            target = self.request.resized(target, self.seen_in(game, self.taken_up))
        none = np.zeros((0, 3), dtype=np.int64)
        game.extend(target.with_more(states, none, np.zeros(0)))

    def _allow(self, game: Game, states: int, allowed: BoolArray | None) -> None:
        if allowed is not None:
            known = np.ones((states, game.target.shape.actions), dtype=np.bool_)
            known[: len(allowed)] = allowed[:states]
            game.allow(known)

    def seen_in(self, game: Game, places: BoolHS) -> Seen:
        """What was seen in a game, as targets grow with it."""
        return Seen(game.counts, places, game.allowed, self._left_out_rows())

    def _left_out_rows(self) -> set[tuple[int, ...]]:
        return {
            (ANY if h is None else h, int(s), ANY if a is None else a)
            for (h, s, a), _ in self.left_out
        }

    def _leave_out_rare(self, game: Game) -> bool:
        """Drop open rows that, as the data prove, no policy reaches often enough."""
        played = game.counts.n_episodes
        due = played != self.looked_at and played == next_look(played - 1)
        if self.rare is None or not due:
            return False
        self.looked_at = played
        found = self.rare(game)
        if found:
            rows = game.target.as_rows([row for row, _ in found])
            self.left_out += zip(rows, (bound for _, bound in found), strict=True)
            self.drop_left_out(game)
        return bool(found)

    def _cut_off(self, game: Game) -> bool:
        """Drop open rows that only avoided actions lead to; looked at now and then."""
        played = game.counts.n_episodes
        if self.avoided is None or played < self.next_cut or game.allowed is None:
            return False
        self.next_cut = played + max(1, played // INTERVAL)
        found = cut_off_rows(game, game.allowed)
        if found.any():
            self.cut += game.target.as_rows(np.flatnonzero(found))
            if self.reserves(game):
                game.ask_only_for(game.asked & ~found)
            else:
                game.grow(game.target.keep(~found))
        return bool(found.any())

    def drop_left_out(self, game: Game) -> None:
        """Do not ask for the rows that were left out."""
        dropped = self._left_out_rows()
        kept = [tuple(row) not in dropped for row in game.target.rows.tolist()]
        game.grow(game.target.keep(np.array(kept, dtype=np.bool_)))


def _widened(seen: BoolHS, states: int) -> BoolHS:
    """The same with room for more states."""
    more = states - seen.shape[1]
    return np.pad(seen, ((0, 0), (0, more))) if more else seen


def _asked_for(game: Game) -> BoolHS:
    """The (stage, state) in the target: a run may be stopped before it takes up what it saw."""
    return _at_stages(game, np.logical_or.reduce(game.required.support, axis=2))


def _enterable(game: Game, seen: BoolHS) -> BoolHS:
    """States that no episode was in before its time was up, but that it can enter sooner.

    By the transitions that were seen. What can be entered only when an episode is over cannot be
    visited, and is not asked for.
    """
    entered = np.logical_or.reduce(seen, axis=0)
    found = np.zeros_like(seen)
    row, successor, _ = game.counts.transitions()
    if entered[successor[successor != END]].all():
        return found
    move = successor != END
    state, successor = row[move] // game.counts.shape.actions, successor[move]
    state = state % game.counts.shape.states
    within = game.counts.starts > 0
    for _ in range(game.counts.shape.horizon - 1):
        reached = within.copy()
        reached[successor[within[state]]] = True
        if np.array_equal(reached, within):
            break
        within = reached
    found[-1] = within & ~entered
    return found


def _at_stages(game: Game, seen: BoolHS) -> BoolHS:
    """(H, S) as it is, or (1, S) where nobody tells stages apart."""
    if not game.counts.stage_free:
        return seen
    anywhere: BoolHS = np.logical_or.reduce(seen, axis=0, keepdims=True)
    return anywhere


def _differs(mine: BoolArray | None, theirs: BoolArray | None) -> bool:
    if theirs is None:
        return False
    return mine is None or mine.shape != theirs.shape or bool((mine != theirs).any())
