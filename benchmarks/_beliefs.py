"""Worlds whose labels are shuffled, and what a learner gets to know of every place in them.

What ``learner_limit`` computes with: the prior over worlds, and the notes that a learner may
hold of a place (what is missing there and what is believed of its labels), numbered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import ANY, END, BoolArray, FloatArray, IntArray

DIGITS = 12
"""Beliefs that agree to so many digits are one."""

Row = tuple[tuple[int, float], ...]
"""Where a pair leads: (successor, probability)."""

Labels = tuple[int, ...]
"""What the labels of a place do: the number of a row for each."""

Belief = tuple[tuple[Labels, float], ...]
"""What the labels of a place may do, with probabilities, in order."""

Missing = tuple[tuple[int, ...], ...]
"""Visits that are missing, label by label, for every row of the target that counts them."""


class Prior:
    """Worlds that are alike but for the labels of their actions, all equally probable.

    A place is a state, or a stage and a state where the kernel depends on the stage: what has one
    row per action. ``shuffled`` are the places whose labels are unknown, all if not given.
    """

    def __init__(self, base: Transitions, shuffled: Sequence[int] | None = None) -> None:
        self.base = base
        places = (len(base.start) - 1) // base.shape.actions
        self.rows = [self._rows(place) for place in range(places)]
        self.shuffled = range(places) if shuffled is None else shuffled

    def place(self, h: int, s: int) -> int:
        """Where the labels of a state at a stage are looked up."""
        return s if self.base.stationary else h * self.base.shape.states + s

    def _rows(self, place: int) -> tuple[Row, ...]:
        actions, start = self.base.shape.actions, self.base.start
        found = []
        for row in range(place * actions, (place + 1) * actions):
            entries = slice(start[row], start[row + 1])
            successors = self.base.next_state[entries].tolist()
            probabilities = self.base.probability[entries].round(DIGITS).tolist()
            found.append(tuple(zip(successors, probabilities, strict=True)))
        return tuple(found)

    def labelled(self, place: int, order: Sequence[int]) -> Labels:
        """What the labels do if label i is the action order[i]; equal rows are not told apart."""
        rows = self.rows[place]
        return tuple(rows.index(rows[action]) for action in order)

    def belief(self, place: int) -> Belief:
        """What is believed of a place at first."""
        actions = range(self.base.shape.actions)
        orders = itertools.permutations(actions) if place in self.shuffled else [tuple(actions)]
        chances: dict[Labels, float] = {}
        for order in orders:
            labels = self.labelled(place, order)
            chances[labels] = chances.get(labels, 0.0) + 1.0
        return normalised(chances)

    def draw(self, rng: np.random.Generator) -> World:
        """One of the worlds."""
        actions = self.base.shape.actions
        orders = [
            rng.permutation(actions) if place in self.shuffled else np.arange(actions)
            for place in range(len(self.rows))
        ]
        entries = [
            (place * actions + label, *entry)
            for place, order in enumerate(orders)
            for label, action in enumerate(order)
            for entry in self.rows[place][action]
        ]
        row, successor, probability = (np.array(column) for column in zip(*entries, strict=True))
        transitions = Transitions.from_entries(
            self.base.shape, self.base.initial, row, successor, probability.astype(np.float64),
            stationary=self.base.stationary,
        )  # fmt: skip
        labels = [self.labelled(place, order.tolist()) for place, order in enumerate(orders)]
        return World(transitions, labels)


@dataclass(frozen=True, eq=False)
class World:
    """A world of a prior, and what its labels do."""

    transitions: Transitions
    labels: list[Labels]  # of every place

    @property
    def model(self) -> TabularMDP:
        """As others play it; nobody looks at rewards."""
        _, S, A = self.transitions.shape.hsa
        return TabularMDP(self.transitions, np.zeros((1, S, A)))


def normalised(chances: dict[Labels, float]) -> Belief:
    """The belief with these odds; what is impossible is left out."""
    total = sum(chances.values())
    return tuple(
        sorted((labels, round(chance / total, DIGITS)) for labels, chance in chances.items())
    )


@dataclass(frozen=True, order=True)
class Note:
    """What a learner has noted of a place."""

    missing: Missing
    belief: Belief
    doubts: int = 0  # observations of labels that were in doubt

    @property
    def complete(self) -> bool:
        return not any(map(any, self.missing))

    def visited(self, label: int, counted: Sequence[bool]) -> Note:
        """With a visit counted for some rows of the target."""
        missing = list(self.missing)
        missing[label] = tuple(
            max(0, left - 1) if here else left
            for left, here in zip(missing[label], counted, strict=True)
        )
        return Note(tuple(missing), self.belief, self.doubts)

    def relabelled(self, order: Sequence[int]) -> Note:
        """With what was label order[i] as label i."""
        missing = tuple(self.missing[label] for label in order)
        belief = sorted((tuple(does[label] for label in order), p) for does, p in self.belief)
        return Note(missing, tuple(belief), self.doubts)


@cache
def ordered(note: Note) -> tuple[Note, tuple[int, ...]]:
    """The least of all relabelled notes, one for all that are alike, and its order."""
    orders = itertools.permutations(range(len(note.missing)))
    return min((note.relabelled(order), order) for order in orders)


Outcome = tuple[float, int, Note]
"""What a step may lead to: a probability, a successor, and the note after it."""


@dataclass(frozen=True, eq=False)
class Place:
    """A place, as the target counts it and the learner gets to know it."""

    rows: tuple[Row, ...]
    stages: tuple[int, ...]  # of the target's rows here, ANY among them
    start: Note
    told_after: int

    def outcomes(self, note: Note, label: int, h: int, *, last: bool) -> list[Outcome]:
        """All that may follow on choosing a label at stage h; the last step shows no successor."""
        note = note.visited(label, [stage in (ANY, h) for stage in self.stages])
        if last:
            return [(1.0, END, note)]
        if len({labels[label] for labels, _ in note.belief}) == 1:
            row = self.rows[note.belief[0][0][label]]
            return [(p, successor, note) for successor, p in row]
        return list(self._lessons(note, label))

    def _lessons(self, note: Note, label: int) -> Iterator[Outcome]:
        """What a step of a label in doubt shows."""
        odds: dict[int, dict[Labels, float]] = {}
        for labels, before in note.belief:
            for successor, p in self.rows[labels[label]]:
                odds.setdefault(successor, {})[labels] = before * p
        for successor, chances in odds.items():
            chance, belief = sum(chances.values()), normalised(chances)
            doubts = note.doubts + 1
            if doubts < self.told_after and len(belief) > 1:
                yield chance, successor, Note(note.missing, belief, doubts)
                continue
            for labels, p in belief:
                yield chance * p, successor, Note(note.missing, ((labels, 1.0),), self.told_after)


@dataclass(frozen=True, eq=False)
class Moves:
    """What visits of a place at one stage do, by (number of the note, label, outcome)."""

    chance: FloatArray
    successor: IntArray
    note: IntArray  # numbers of the notes afterwards


class Notebook:
    """All notes that a learner may come to hold of a place, numbered, the first one first.

    Which label is which does not matter for what is still to do, so notes that differ by a
    renaming are one; ``ordered`` says how its labels are to be named.
    """

    def __init__(self, place: Place, stages: Sequence[int], horizon: int) -> None:
        self.place = place
        self.numbers = {ordered(place.start)[0]: 0}
        self.tells = False  # whether the learner is ever told what it could not know
        found: dict[int, list[list[list[tuple[float, int, int]]]]] = {h: [] for h in stages}
        notes = list(self.numbers)
        for note in notes:  # which grows on the way
            for h in stages:
                last = h + 1 == horizon
                options = []
                for label in range(len(note.missing)):
                    outcomes = place.outcomes(note, label, h, last=last)
                    self.tells |= len({successor for _, successor, _ in outcomes}) < len(outcomes)
                    options.append([(p, to, self._number(n, notes)) for p, to, n in outcomes])
                found[h].append(options)
        self.notes = notes
        self.moves = {h: _as_arrays(options) for h, options in found.items()}

    def __len__(self) -> int:
        return len(self.notes)

    def _number(self, note: Note, notes: list[Note]) -> int:
        alike, _ = ordered(note)
        if alike not in self.numbers:
            self.numbers[alike] = len(notes)
            notes.append(alike)
        return self.numbers[alike]

    @cached_property
    def levels(self) -> IntArray:
        """What grows with every change of a note: visits collected and doubts removed."""
        left = [sum(map(sum, note.missing)) for note in self.notes]
        return np.array(
            [
                left[0] - missing + note.doubts
                for missing, note in zip(left, self.notes, strict=True)
            ]
        )

    @cached_property
    def complete(self) -> BoolArray:
        """The notes with which nothing is missing."""
        return np.array([note.complete for note in self.notes])


def place_of(prior: Prior, target: Target, place: int, told_after: int) -> Place:
    """A place with the rows of the target that name it."""
    _, S, A = prior.base.shape.hsa
    missing = {
        (stage, action): math.ceil(count)
        for (stage, state, action), count in zip(
            target.rows.tolist(), target.counts.tolist(), strict=True
        )
        if state == place % S and (prior.base.stationary or stage in (ANY, place // S))
    }
    stages = sorted({stage for stage, _ in missing})
    if any(action == ANY for _, action in missing):
        raise ValueError("a target for any action asks for no label in particular")
    if ANY in stages and not prior.base.stationary:
        raise ValueError("a target for any stage belongs to several places of this world")
    left = tuple(tuple(missing.get((h, label), 0) for h in stages) for label in range(A))
    return Place(prior.rows[place], tuple(stages), Note(left, prior.belief(place)), told_after)


def _as_arrays(found: list[list[list[tuple[float, int, int]]]]) -> Moves:
    """Lists of outcomes filled up with impossible ones."""
    most = max(len(outcomes) for options in found for outcomes in options)
    padded = np.array(
        [
            [outcomes + [(0.0, END, 0)] * (most - len(outcomes)) for outcomes in options]
            for options in found
        ]
    )
    return Moves(padded[..., 0], padded[..., 1].astype(np.int64), padded[..., 2].astype(np.int64))
