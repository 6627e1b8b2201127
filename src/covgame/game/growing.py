"""What is asked for of all that was seen: rows, groups, transitions, states by their labels.

Each of these turns what a game has counted into its next target. Nothing else decides that, so that
a run that is resumed, or whose episodes are counted again, asks for the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from covgame.errors import BadInput, Row
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.targets.groups import Grouped
from covgame.targets.moves import PossibleMoves, pair_rows
from covgame.targets.requests import ListedRow, Uniform
from covgame.targets.target import Target, row_numbers
from covgame.types import ANY, END, BoolArray, BoolHS, FloatArray, IntArray, Shape

LeftOut = set[tuple[int, ...]]
Transition = tuple[int, int, int | None]
"""(state, action, next state), None for the end of an episode."""

TRIES = 10
"""While a state of a list has not appeared, every action of all others is tried so often."""


class Growing(Protocol):
    """A target over what is seen on the way."""

    @property
    def stage_free(self) -> bool:
        """Whether whatever is asked for may be visited at any stage."""
        ...

    @property
    def reserves(self) -> bool:
        """Whether rows can be reserved, so that they are asked for once their state is seen.

        Where not, rows are added between two episodes.
        """
        ...

    def reserved(self, shape: Shape) -> Target:
        """The rows of all states that there is room for; those of the first states come first."""
        ...

    def check(self) -> None:
        """Raise ``BadInput`` if it cannot grow, for want of something."""
        ...

    def outdated(self, game: Game) -> bool:
        """Whether counts alone, without news of states, change what is asked for."""
        ...

    def grown(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        """The target for the (stage, state) that were seen."""
        ...

    def resized(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        """The target before anything new is taken up, when memory has to grow."""
        ...

    def soonest(self, game: Game) -> int | None:
        """No sooner than after so many more episodes can it be covered, where that is known."""
        ...

    def uncovered(self, game: Game) -> list[tuple[Row, float]]:
        """What is still missing: (row, visits), most first."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """As a manifest has it."""
        ...


def no_rows(shape: Shape) -> Target:
    """A target that asks for nothing."""
    return Target.of_rows(shape, np.zeros((0, 3), dtype=np.int64), np.zeros(0))


def open_rows(game: Game) -> list[tuple[Row, float]]:
    """The rows of a game's target that lack visits, most first."""
    missing = np.maximum(game.target.counts - game.collected, 0.0)
    order = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
    return list(zip(game.target.as_rows(order), missing[order].tolist(), strict=True))


class _ByStates:
    """What changes only when new states are seen."""

    @property
    def reserves(self) -> bool:
        return False

    def reserved(self, shape: Shape) -> Target:
        return no_rows(shape)

    def check(self) -> None:
        return

    def outdated(self, game: Game) -> bool:
        del game
        return False

    def soonest(self, game: Game) -> int | None:
        del game
        return None

    def uncovered(self, game: Game) -> list[tuple[Row, float]]:
        return open_rows(game)


@dataclass(frozen=True, eq=False)
class SeenRows(_ByStates):
    """Every cell, pair or state that was seen, each as often."""

    request: Uniform

    @property
    def stage_free(self) -> bool:
        return self.request.per != "cell"

    @property
    def reserves(self) -> bool:
        """Not for cells: few are ever entered, compared with those that there is room for."""
        return self.request.per != "cell"

    def reserved(self, shape: Shape) -> Target:
        everywhere = np.ones((1, shape.states), dtype=np.bool_)
        every = np.ones((shape.states, shape.actions), dtype=np.bool_)
        rows = self.request.rows(everywhere, every)
        return Target.of_rows(shape, rows, np.full(len(rows), self.request.count))

    def grown(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        target = _without_forbidden(game)
        wanted = self.request.rows(seen, _allowed(game, seen.shape[1]))
        left_out = np.array(sorted(without), dtype=np.int64).reshape(-1, 3)
        known = row_numbers(target.shape, np.concatenate([target.rows, left_out]))
        rows = wanted[~_are_among(row_numbers(target.shape, wanted), known)]
        return target.with_more(target.shape.states, rows, np.full(len(rows), self.request.count))

    resized = grown

    def to_dict(self) -> dict[str, Any]:
        return vars(self.request)


@dataclass(frozen=True, eq=False)
class SeenGroups(_ByStates):
    """Every value that a function has had on the pairs that were seen.

    Every pair is tried a few times as well, in search of values that have not come up yet.
    """

    groups: Grouped | None  # None: the function was not handed over again
    count: float
    tries: int
    stage_free = True

    def check(self) -> None:
        if self.groups is None:
            raise BadInput(
                "this run's target is a function of state and action, which only the program that "
                "made it has; go on there, by covgame.resume(path, target=covgame.groups(...))"
            )

    def grown(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        del without
        self.check()
        assert self.groups is not None  # noqa: S101 - checked just before
        pairs = _seen_pairs(game, seen)
        shape = game.target.shape
        target = self.groups.on_pairs(shape, pairs, game.target.groups)
        rows = pair_rows(shape.actions, pairs)
        return target.with_more(shape.states, rows, np.full(len(rows), float(self.tries)))

    def resized(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        del seen, without
        return game.target

    def to_dict(self) -> dict[str, Any]:
        return {"count": self.count, "per": "group", "tries": self.tries}


@dataclass(frozen=True, eq=False)
class Moves:
    """How often transitions were seen, sorted by pair and next state."""

    pair: IntArray
    successor: IntArray
    times: IntArray

    @classmethod
    def of(cls, counts: Counts, wanted: PossibleMoves | None = None) -> Moves:
        """All that were seen at any stage; or those that are ``wanted``, seen or not."""
        row, successor, times = counts.table.listed(0, len(counts.table))
        pairs, width = counts.shape.pairs, counts.shape.states + 1
        key, place = np.unique((row % pairs) * width + successor + 1, return_inverse=True)
        total = np.bincount(place, times, minlength=len(key)).astype(np.int64)
        if wanted is not None:
            asked = wanted.pair * width + wanted.successor + 1
            at = np.minimum(np.searchsorted(key, asked), max(len(key) - 1, 0))
            seen = key[at] == asked if len(key) else np.zeros(len(asked), dtype=np.bool_)
            total = np.where(seen, total[at] if len(key) else 0, 0)
            key = asked
        return cls(key // width, key % width - 1, total)

    def missing(self, count: float) -> FloatArray:
        """The visits that each lacks."""
        missing: FloatArray = np.maximum(count - self.times.astype(np.float64), 0.0)
        return missing


@dataclass(frozen=True, eq=False)
class SeenTransitions:
    """Every (state, action, next state), each as often.

    On a known model the transitions that can happen are ``wanted``; elsewhere those that were seen,
    and of every pair at least one. The game is given rows of pairs. A row asks for the visits after
    which its transitions should be there, judged by how often they came so far; whenever it turns
    out otherwise, for more. So the target is covered when and only when the transitions are.
    """

    count: float
    wanted: PossibleMoves | None = None
    last_step: bool = True  # whether the last step of an episode shows its next state

    @property
    def stage_free(self) -> bool:
        return self.last_step

    @property
    def reserves(self) -> bool:
        return False

    def reserved(self, shape: Shape) -> Target:
        return no_rows(shape)

    def check(self) -> None:
        return

    def first(self, shape: Shape) -> Target:
        """The target before the first episode."""
        pairs = np.zeros(0, dtype=np.int64) if self.wanted is None else np.unique(self.wanted.pair)
        empty = replace(no_rows(shape), last_stage=self.last_step)
        return self._asking(empty, Counts(shape, pooled=True), pairs)

    def outdated(self, game: Game) -> bool:
        now = self._asking(game.target, game.counts, _pairs_of(game.target))
        return not np.array_equal(now.counts, game.target.counts)

    def grown(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        del without
        known = _pairs_of(game.target)
        if self.wanted is None:
            fresh = _seen_pairs(game, seen)
            still = known[np.isin(known, fresh)]
            known = np.concatenate([still, fresh[~np.isin(fresh, known)]])
        return self._asking(game.target, game.counts, known)

    def resized(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        del seen, without
        return game.target

    def _asking(self, target: Target, counts: Counts, pairs: IntArray) -> Target:
        """The target with a row for each of these pairs."""
        rows = pair_rows(target.shape.actions, pairs)
        visits = self._visits(counts, pairs)
        if not self.count:
            rows, visits = rows[:0], visits[:0]
        return replace(target, rows=rows, counts=visits)

    def _visits(self, counts: Counts, pairs: IntArray) -> FloatArray:
        """The visits of pairs after which their transitions should have been seen."""
        moves = Moves.of(counts, self.wanted)
        place = _places(moves.pair, pairs)
        mine = place >= 0
        place, times, lacking = place[mine], moves.times[mine], moves.missing(self.count)[mine]
        known = np.bincount(place, minlength=len(pairs))
        visits = counts.visits if self.last_step else counts.visits[:-1]
        came = visits.sum(axis=0).reshape(-1)[pairs].astype(np.float64)
        # Of what has not been seen yet: as if it came with the next visit.
        rate = np.maximum(times, 1) / (came[place] + (times == 0))
        expected = np.where(lacking > 0, self.count / rate, 0.0)
        longest = np.zeros(len(pairs))
        np.maximum.at(longest, place, expected)
        least = came + self._least(place, lacking, known)
        return np.where(least > came, np.maximum(longest, least), self.count * known)

    def _least(self, place: IntArray, lacking: FloatArray, known: IntArray) -> FloatArray:
        """The fewest further visits of each pair that can do: a visit shows one transition."""
        least = np.bincount(place, np.ceil(lacking), minlength=len(known))
        return np.where(known == 0, math.ceil(self.count), least)

    def soonest(self, game: Game) -> int | None:
        """A step shows one transition, and an episode has H steps."""
        return math.ceil(float(self._lacking(game).sum()) / game.target.shape.horizon)

    def uncovered(self, game: Game) -> list[tuple[Row, float]]:
        """Per pair: the fewest visits after which its transitions can all be there."""
        missing = self._lacking(game)
        order = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
        return list(zip(game.target.as_rows(order), missing[order].tolist(), strict=True))

    def _lacking(self, game: Game) -> FloatArray:
        pairs, moves = _pairs_of(game.target), Moves.of(game.counts, self.wanted)
        place = _places(moves.pair, pairs)
        mine = place >= 0
        known = np.bincount(place[mine], minlength=len(pairs))
        return self._least(place[mine], moves.missing(self.count)[mine], known)

    def transitions(self, game: Game) -> list[tuple[Transition, float]]:
        """Every transition that is asked for, and the visits that it lacks, most first."""
        moves, actions = Moves.of(game.counts, self.wanted), game.target.shape.actions
        mine = np.isin(moves.pair, _pairs_of(game.target))
        missing = moves.missing(self.count)
        order = np.argsort(-missing, kind="stable")
        return [
            ((*divmod(pair, actions), None if successor == END else successor), lacks)
            for pair, successor, lacks in zip(
                moves.pair[order][mine[order]].tolist(),
                moves.successor[order][mine[order]].tolist(),
                missing[order][mine[order]].tolist(),
                strict=True,
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"count": self.count, "per": "transition"}


@dataclass(frozen=True, eq=False)
class SeenLabels(_ByStates):
    """Rows whose states are known by label, and wait until a state with that label appears.

    While one waits, every action of all states that were seen is tried ``TRIES`` times.
    """

    rows: tuple[ListedRow, ...]  # states by label, actions by number
    labels: Callable[[], Sequence[str]]  # of the states so far

    @property
    def stage_free(self) -> bool:
        return all(row[0] is None for row in self.rows)

    def waiting(self) -> list[ListedRow]:
        """The rows whose states have not appeared."""
        seen = set(self.labels())
        return [row for row in self.rows if row[1] not in seen]

    def found(self) -> dict[tuple[int, int, int], float]:
        """The other rows, as a target has them."""
        numbers: dict[str, int] = {}
        for number, label in enumerate(self.labels()):
            numbers.setdefault(label, number)
        return {
            (ANY if h is None else h, numbers[str(s)], ANY if a is None else int(a)): count
            for h, s, a, count in self.rows
            if s in numbers
        }

    def grown(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        known = set(np.flatnonzero(np.logical_or.reduce(seen, axis=0)).tolist())
        asked = {row: count for row, count in self.found().items() if row[1] in known}
        if len(asked) < len(self.rows):
            tried = pair_rows(game.target.shape.actions, _seen_pairs(game, seen))
            for row in map(tuple, tried.tolist()):
                asked[row] = max(asked.get(row, 0.0), float(TRIES))
        asked = {row: count for row, count in asked.items() if row not in without}
        rows = np.array(list(asked), dtype=np.int64).reshape(-1, 3)
        return Target.of_rows(game.target.shape, rows, np.array(list(asked.values())))

    def resized(self, game: Game, seen: BoolHS, without: LeftOut) -> Target:
        del seen, without
        return game.target

    def uncovered(self, game: Game) -> list[tuple[Row, float]]:
        """What was listed and lacks visits; what never appeared lacks them all."""
        visits = game.counts.visits
        missing: list[tuple[Row, float]] = []
        for (h, s, a), count in self.found().items():
            if a != ANY and s < visits.shape[1] and not _allowed(game, s + 1)[s, a]:
                continue
            stages = slice(None) if h == ANY else h
            actions = slice(None) if a == ANY else a
            there = visits[stages, s, actions].sum() if s < visits.shape[1] else 0
            row = (None if h == ANY else h, s, None if a == ANY else a)
            missing.append((row, max(0.0, count - float(there))))
        missing += [((h, s, None if a is None else int(a)), n) for h, s, a, n in self.waiting()]
        return sorted((one for one in missing if one[1] > 0), key=lambda one: -one[1])

    def to_dict(self) -> dict[str, Any]:
        return {"count": float(TRIES), "per": "label"}


def _places(values: IntArray, among: IntArray) -> IntArray:
    """Where each value stands in a list without repetitions, -1 where it does not."""
    order = np.argsort(among, kind="stable")
    at = np.minimum(np.searchsorted(among, values, sorter=order), max(len(among) - 1, 0))
    if not len(among):
        return np.full(len(values), -1, dtype=np.int64)
    place: IntArray = np.where(among[order[at]] == values, order[at], -1)
    return place


def _are_among(values: IntArray, others: IntArray) -> BoolArray:
    """Which values are among others; quick where both are nearly in order."""
    if not len(others):
        return np.zeros(len(values), dtype=np.bool_)
    others = np.sort(others, kind="stable")
    found: BoolArray = (
        others[np.minimum(np.searchsorted(others, values), len(others) - 1)] == values
    )
    return found


def _pairs_of(target: Target) -> IntArray:
    """The pairs of a target whose rows are pairs."""
    pairs: IntArray = target.rows[:, 1] * target.shape.actions + target.rows[:, 2]
    return pairs


def _seen_pairs(game: Game, seen: BoolHS) -> IntArray:
    """The allowed actions of the states that were seen."""
    anywhere: BoolArray = np.logical_or.reduce(seen, axis=0)
    return np.flatnonzero((anywhere[:, None] & _allowed(game, seen.shape[1])).ravel())


def _without_forbidden(game: Game) -> Target:
    """Episodes that are counted again do not say what was forbidden; that shows later."""
    _, state, action = game.target.rows.T
    allowed = _allowed(game, game.target.shape.states)
    return game.target.keep((action == ANY) | allowed[state, action])


def _allowed(game: Game, states: int) -> BoolArray:
    if game.allowed is None:
        return np.ones((states, game.target.shape.actions), dtype=np.bool_)
    return game.allowed[:states]
