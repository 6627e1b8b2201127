"""Targets over what is seen during a run: rows, groups, transitions, states by their labels.

Each class turns what was counted into the next target. Nothing else decides it, so a run that is
resumed, or whose episodes are counted again, asks for the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from collections.abc import Set as AnySet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covgame.errors import BadInput, Row
from covgame.targets.moves import Moves, PossibleMoves, TransitionCounts, pair_rows
from covgame.targets.requests import Grouped, ListedRow, Uniform
from covgame.targets.target import Target, row_numbers
from covgame.types import ANY, END, BoolArray, BoolHS, FloatArray, IntArray, Shape

Transition = tuple[int, int, int | None]
"""(state, action, next state), None for the end of an episode."""

TRIES = 10
"""While a state of a list has not appeared, every action of all others is tried so often."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen of a world so far."""

    counts: TransitionCounts
    places: BoolHS  # (H, S), or (1, S) for any stage: where some episode was
    allowed: BoolArray | None = None  # (S, A), None: all actions
    left_out: AnySet[tuple[int, ...]] = frozenset()  # rows that are not asked for

    @property
    def pairs(self) -> IntArray:
        """The allowed actions of the states that were seen, as s A + a."""
        anywhere: BoolArray = np.logical_or.reduce(self.places, axis=0)
        allowed = _allowed(self.allowed, self.places.shape[1], self.counts.shape.actions)
        return np.flatnonzero((anywhere[:, None] & allowed).ravel())


class DiscoveredTarget(ABC):
    """A target over what is seen during a run."""

    @property
    @abstractmethod
    def stage_free(self) -> bool:
        """Whether every row may be visited at any stage."""

    @abstractmethod
    def grown(self, target: Target, seen: Seen) -> Target:
        """The next target after ``target``, for what was seen."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """As the configuration of a run stores it."""

    @property
    def reserves(self) -> bool:
        """Whether rows can be reserved, so that they are asked for once their state is seen.

        Otherwise rows are added between two episodes.
        """
        return False

    def reserved(self, shape: Shape) -> Target:
        """The rows of all states that there is room for; those of the first states come first."""
        return no_rows(shape)

    def check(self) -> None:  # noqa: B027 (most need nothing)
        """Raise ``BadInput`` if it lacks something that it needs to grow."""

    def outdated(self, target: Target, counts: TransitionCounts) -> bool:
        """Whether counts alone, without new states, change the target."""
        del target, counts
        return False

    def resized(self, target: Target, seen: Seen) -> Target:
        """The target before anything new is added, when memory has to grow."""
        del seen
        return target

    def soonest(self, target: Target, counts: TransitionCounts) -> int | None:
        """The fewest further episodes after which it can be covered, where that is known."""
        del target, counts
        return None

    def uncovered(
        self,
        target: Target,
        collected: FloatArray,
        counts: TransitionCounts,
        allowed: BoolArray | None = None,
    ) -> list[tuple[Row, float]]:
        """What is still missing: (row, visits), most first."""
        del counts, allowed
        return open_rows(target, collected)


def no_rows(shape: Shape) -> Target:
    """A target that asks for nothing."""
    return Target.of_rows(shape, np.zeros((0, 3), dtype=np.int64), np.zeros(0))


def open_rows(target: Target, collected: FloatArray) -> list[tuple[Row, float]]:
    """The rows of a target that lack visits, most first."""
    missing = np.maximum(target.counts - collected, 0.0)
    order = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
    return list(zip(target.as_rows(order), missing[order].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class SeenRows(DiscoveredTarget):
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

    def grown(self, target: Target, seen: Seen) -> Target:
        shape, actions = target.shape, target.shape.actions
        # Episodes that are counted again do not say what was forbidden; that shows later.
        _, state, action = target.rows.T
        allowed = _allowed(seen.allowed, shape.states, actions)
        target = target.keep((action == ANY) | allowed[state, action])
        wanted = self.request.rows(
            seen.places, _allowed(seen.allowed, seen.places.shape[1], actions)
        )
        left_out = np.array(sorted(seen.left_out), dtype=np.int64).reshape(-1, 3)
        known = row_numbers(shape, np.concatenate([target.rows, left_out]))
        rows = wanted[~_are_among(row_numbers(shape, wanted), known)]
        return target.with_more(shape.states, rows, np.full(len(rows), self.request.count))

    resized = grown

    def to_dict(self) -> dict[str, Any]:
        return vars(self.request)


@dataclass(frozen=True, eq=False)
class SeenGroups(DiscoveredTarget):
    """Every value that a function has had on the pairs that were seen.

    Every pair is tried a few times as well, in search of values that have not come up yet.
    """

    groups: Grouped | None  # None: the function was not passed again
    count: float
    tries: int
    stage_free = True

    def check(self) -> None:
        if self.groups is None:
            raise BadInput(
                "this run's target is a function of state and action, which only the program that "
                "made it has; go on there, by covgame.resume(path, target=covgame.groups(...))"
            )

    def grown(self, target: Target, seen: Seen) -> Target:
        self.check()
        assert self.groups is not None  # noqa: S101 - checked just before
        shape = target.shape
        target = self.groups.on_pairs(shape, seen.pairs, target.groups)
        rows = pair_rows(shape.actions, seen.pairs)
        return target.with_more(shape.states, rows, np.full(len(rows), float(self.tries)))

    def to_dict(self) -> dict[str, Any]:
        return {"count": self.count, "per": "group", "tries": self.tries}


@dataclass(frozen=True, eq=False)
class SeenTransitions(DiscoveredTarget):
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

    def first(self, shape: Shape) -> Target:
        """The target before the first episode."""
        empty = replace(no_rows(shape), last_stage=self.last_step)
        if self.wanted is None or not self.count:
            return empty
        pairs, moves = np.unique(self.wanted.pair, return_counts=True)
        visits = moves.astype(np.float64) * math.ceil(self.count)  # a visit shows one transition
        return replace(empty, rows=pair_rows(shape.actions, pairs), counts=visits)

    def outdated(self, target: Target, counts: TransitionCounts) -> bool:
        now = self._asking(target, counts, _pairs_of(target))
        return not np.array_equal(now.counts, target.counts)

    def grown(self, target: Target, seen: Seen) -> Target:
        known = _pairs_of(target)
        if self.wanted is None:
            fresh = seen.pairs
            still = known[np.isin(known, fresh)]
            known = np.concatenate([still, fresh[~np.isin(fresh, known)]])
        return self._asking(target, seen.counts, known)

    def _asking(self, target: Target, counts: TransitionCounts, pairs: IntArray) -> Target:
        """The target with a row for each of these pairs."""
        rows = pair_rows(target.shape.actions, pairs)
        visits = self._visits(counts, pairs)
        if not self.count:
            rows, visits = rows[:0], visits[:0]
        return replace(target, rows=rows, counts=visits)

    def _visits(self, counts: TransitionCounts, pairs: IntArray) -> FloatArray:
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

    def soonest(self, target: Target, counts: TransitionCounts) -> int | None:
        """A step shows one transition, and an episode has H steps."""
        return math.ceil(float(self._lacking(target, counts).sum()) / target.shape.horizon)

    def uncovered(
        self,
        target: Target,
        collected: FloatArray,
        counts: TransitionCounts,
        allowed: BoolArray | None = None,
    ) -> list[tuple[Row, float]]:
        """Per pair: the fewest visits after which its transitions can all be there."""
        del collected, allowed
        missing = self._lacking(target, counts)
        order = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
        return list(zip(target.as_rows(order), missing[order].tolist(), strict=True))

    def _lacking(self, target: Target, counts: TransitionCounts) -> FloatArray:
        pairs, moves = _pairs_of(target), Moves.of(counts, self.wanted)
        place = _places(moves.pair, pairs)
        mine = place >= 0
        known = np.bincount(place[mine], minlength=len(pairs))
        return self._least(place[mine], moves.missing(self.count)[mine], known)

    def transitions(
        self, target: Target, counts: TransitionCounts
    ) -> list[tuple[Transition, float]]:
        """Every transition that is asked for, and the visits that it lacks, most first."""
        moves, actions = Moves.of(counts, self.wanted), target.shape.actions
        missing = moves.missing(self.count)
        order = np.argsort(-missing, kind="stable")
        order = order[np.isin(moves.pair[order], _pairs_of(target))]
        return [
            ((*divmod(pair, actions), None if successor == END else successor), lacks)
            for pair, successor, lacks in zip(
                moves.pair[order].tolist(),
                moves.successor[order].tolist(),
                missing[order].tolist(),
                strict=True,
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"count": self.count, "per": "transition"}


@dataclass(frozen=True, eq=False)
class SeenLabels(DiscoveredTarget):
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

    def grown(self, target: Target, seen: Seen) -> Target:
        known = set(np.flatnonzero(np.logical_or.reduce(seen.places, axis=0)).tolist())
        asked = {row: count for row, count in self.found().items() if row[1] in known}
        if len(asked) < len(self.rows):
            tried = pair_rows(target.shape.actions, seen.pairs)
            for row in map(tuple, tried.tolist()):
                asked[row] = max(asked.get(row, 0.0), float(TRIES))
        asked = {row: count for row, count in asked.items() if row not in seen.left_out}
        rows = np.array(list(asked), dtype=np.int64).reshape(-1, 3)
        return Target.of_rows(target.shape, rows, np.array(list(asked.values())))

    def uncovered(
        self,
        target: Target,
        collected: FloatArray,
        counts: TransitionCounts,
        allowed: BoolArray | None = None,
    ) -> list[tuple[Row, float]]:
        """What was listed and lacks visits; what never appeared lacks them all."""
        del collected
        visits, actions = counts.visits, target.shape.actions
        missing: list[tuple[Row, float]] = []
        for (h, s, a), count in self.found().items():
            there: IntArray | int = 0
            if s < visits.shape[1]:
                if a != ANY and not _allowed(allowed, s + 1, actions)[s, a]:
                    continue
                stages = slice(None) if h == ANY else h
                there = visits[stages, s, slice(None) if a == ANY else a]
            row = (None if h == ANY else h, s, None if a == ANY else a)
            missing.append((row, max(0.0, count - float(np.sum(there)))))
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


def _allowed(allowed: BoolArray | None, states: int, actions: int) -> BoolArray:
    """(S, A), for so many states; where nothing is forbidden, everything."""
    return np.ones((states, actions), dtype=np.bool_) if allowed is None else allowed[:states]
