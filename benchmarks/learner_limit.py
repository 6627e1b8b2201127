"""How few episodes can do for somebody who has to learn: the Bayes optimum on tiny worlds.

    python3 dev.py bench learner_limit [--quick] [--seeds N]

The learner here knows the map and not the labels: at every state, or at every stage and state if
the world changes with the stage, the actions are shuffled anew, all ways alike. What a step shows
changes the belief about the labels of that place alone, so that the belief is one factor a place,
and the least mean number of episodes over all learners is a dynamic program over what is collected
and believed at every place, the stage and the state. Nobody who knows less does better.

The optimum is exact where a label that was seen once is known. Where steps slip, the learner is
told the labels of a place after a few observations there: a present, so a lower bound.

Beside it on worlds drawn from that prior: the default game, and those who know the model.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from benchmarks import _results
from benchmarks.known_limit import (
    CAP,
    PLAYERS,
    TOLERANCE,
    TOO_LONG,
    Remainder,
)
from covgame.bench.measures import priced, world
from covgame.game.game import rounds
from covgame.game.presets import default_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.players.peers import GamesPlayer, episodes_to_cover
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import ANY, END, BoolArray, FloatArray, IntArray

SURE = 3
"""With up to 4 actions that never slip there is no doubt left after so many observations."""

GARNET = "garnet:states=6,actions=2,horizon=6,branching=1,stationary=true"
WORLDS = [  # world, target, after how many observations the labels of a place are told
    ("chain:states=3,horizon=4,slip=0", "uniform:1/pair", SURE),
    ("chain:states=5,horizon=6,slip=0", "uniform:1/pair", SURE),
    ("chain:states=5,horizon=6,slip=0,start=2", "uniform:1/pair", SURE),
    ("chain:states=6,horizon=8,slip=0", "uniform:1/pair", SURE),
    ("chain:states=6,horizon=8,slip=0,start=3", "uniform:1/pair", SURE),
    ("chain:states=4,horizon=6,slip=0", "uniform:2/pair", SURE),
    ("grid:rows=1,columns=3,horizon=4,slip=0", "uniform:1/pair", SURE),
    ("grid:rows=2,columns=2,horizon=4,slip=0", "uniform:1/pair", SURE),
    (f"{GARNET},seed=2", "uniform:1/pair", SURE),
    (f"{GARNET},seed=5", "uniform:1/pair", SURE),
    ("lock:horizon=4,actions=2", "uniform:1", SURE),
    ("lock:horizon=4,actions=3", "uniform:1", SURE),
    ("deepsea:size=3", "uniform:1", SURE),
    ("chain:states=3,horizon=4,slip=0.1", "uniform:1/pair", 6),
    ("chain:states=4,horizon=6,slip=0.1", "uniform:1/pair", 4),
    ("chain:states=4,horizon=6,slip=0.1,start=2", "uniform:1/pair", 4),
    ("riverswim:states=3,horizon=6", "uniform:1/pair", 7),
    ("riverswim:states=4,horizon=8", "uniform:1/pair", 5),
    ("riverswim:states=5,horizon=10", "uniform:1/pair", 3),
    ("riverswim:states=3,horizon=6", "uniform:2/pair", 6),
    ("lock:horizon=3,actions=2,slip=0.2", "uniform:1", 7),
    ("lock:horizon=3,actions=3,slip=0.2", "uniform:1", 8),
    ("deepsea:size=3,noise=0.1", "uniform:1", 6),
]
QUICK = ["chain:states=3,horizon=4,slip=0", "lock:horizon=3,actions=2,slip=0.2"]

MOST_VALUES = 100_000_000
"""The optimum is computed for at most so many (stage, state, what is known)."""

STREAM = 7
"""Of the random numbers that draw the worlds."""

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


class LearnerLimit:
    """The least mean number of episodes over all learners, and how it is attained.

    What is known is numbered, a digit per place. As in ``known_limit.exact_optimum`` an episode
    that starts with it is a decision problem over (stage, state, what is known); what is known only
    grows, and v = 1 + min, where an episode may teach nothing, is solved by Newton's method.
    """

    def __init__(self, prior: Prior, target: Target, told_after: int = SURE) -> None:
        self.prior, self.target = prior, target
        H, S, _ = prior.base.shape.hsa
        self.horizon, self.end = H, S  # the end of an episode is one more state
        self.reachable = dp.reachable(prior.base)
        self.notebooks = {
            place: Notebook(_place(prior, target, place, told_after), stages, H)
            for place, stages in self._stages_of_places().items()
        }
        sizes = [len(notebook) for notebook in self.notebooks.values()]
        self.size = math.prod(sizes)
        if self.size * (H + 1) * (S + 1) > MOST_VALUES:
            raise ValueError(f"{self.size:,} states of what is known are too many")
        units = np.cumprod([1, *sizes])[:-1].tolist()
        self.units: dict[int, int] = dict(zip(self.notebooks, units, strict=True))
        self.values = np.zeros((H + 1, S + 1, self.size))  # to go in the episode and after it
        self.choices = np.zeros((H, S, self.size), dtype=np.int8)
        self._solve()

    @property
    def mean(self) -> float:
        """The least mean number of episodes; below it if the learner is told something."""
        return float(self.values[self.horizon, self.end, 0])

    @property
    def exact(self) -> bool:
        """Whether the learner is never told what it could not know."""
        return not any(notebook.tells for notebook in self.notebooks.values())

    def _stages_of_places(self) -> dict[int, list[int]]:
        stages: dict[int, list[int]] = {}
        for h, s in np.argwhere(self.reachable).tolist():
            stages.setdefault(self.prior.place(h, s), []).append(h)
        return stages

    def _digits(self, known: IntArray, place: int) -> IntArray:
        return (known // self.units[place]) % len(self.notebooks[place])

    def _solve(self) -> None:
        levels = np.zeros(self.size, dtype=np.int64)
        complete = np.ones(self.size, dtype=np.bool_)
        for place, notebook in self.notebooks.items():
            digits = self._digits(np.arange(self.size), place)
            levels += notebook.levels[digits]
            complete &= notebook.complete[digits]
        for level in reversed(range(int(levels.max()) + 1)):
            here = np.flatnonzero((levels == level) & ~complete)
            if len(here):
                self._solve_level(here)

    def _solve_level(self, here: IntArray) -> None:
        """Newton's method for what is known ``here``, everything above it being solved."""
        initial = self.prior.base.initial
        left = np.full(len(here), TOO_LONG)
        while True:
            self.values[:, self.end, here] = left
            stays = np.ones((self.horizon + 1, self.end + 1, len(here)))
            for h, s in reversed(np.argwhere(self.reachable).tolist()):
                self._choose(h, s, here, stays)
            cost, again = initial @ self.values[0, :-1][:, here], initial @ stays[0, :-1]
            better = (1.0 + cost - again * left) / (1.0 - again)
            done = np.allclose(better, left, rtol=TOLERANCE, atol=0.0)
            left = better
            if done:
                break

    def _choose(self, h: int, s: int, here: IntArray, stays: FloatArray) -> None:
        """The best label at (h, s), what it costs, and the chance that all stays as it is."""
        place = self.prior.place(h, s)
        moves, digits = self.notebooks[place].moves[h], self._digits(here, place)
        chance, successor = moves.chance[digits], moves.successor[digits]
        change = (moves.note[digits] - digits[:, None, None]) * self.units[place]
        after = here[:, None, None] + change
        costs = (chance * self.values[h + 1, successor, after]).sum(axis=2)
        best = costs.argmin(axis=1)
        mine = np.arange(len(here))
        self.values[h, s, here] = costs[mine, best]
        self.choices[h, s, here] = best
        same = chance[mine, best] * (change[mine, best] == 0)
        stays[h, s] = (same * stays[h + 1, successor[mine, best], mine[:, None]]).sum(axis=1)

    def play(self, world: World, rng: np.random.Generator) -> list[list[tuple[int, int]]]:
        """The best learner in a world of the prior: its episodes as lists of (state, label)."""
        notes = {place: notebook.place.start for place, notebook in self.notebooks.items()}
        episodes = []
        while not all(note.complete for note in notes.values()):
            episodes.append(self._episode(world, rng, notes))
        return episodes

    def _episode(
        self, world: World, rng: np.random.Generator, notes: dict[int, Note]
    ) -> list[tuple[int, int]]:
        """One episode, which changes the notes."""
        initial = world.transitions.initial
        steps, h, s = [], 0, int(rng.choice(len(initial), p=initial))
        while s != END:
            place, last = self.prior.place(h, s), h + 1 == self.horizon
            _, order = ordered(notes[place])
            label = order[self.choices[h, s, self._known(notes)]]
            steps.append((s, label))
            to = END if last else _step(world.transitions, h, s, label, rng)
            outcomes = self.notebooks[place].place.outcomes(notes[place], label, h, last=last)
            notes[place] = next(
                note
                for _, successor, note in outcomes
                if successor == to and any(world.labels[place] == does for does, _ in note.belief)
            )
            h, s = h + 1, to
        return steps

    def _known(self, notes: dict[int, Note]) -> int:
        return sum(
            self.notebooks[place].numbers[ordered(note)[0]] * self.units[place]
            for place, note in notes.items()
        )


def _place(prior: Prior, target: Target, place: int, told_after: int) -> Place:
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


def _step(transitions: Transitions, h: int, s: int, label: int, rng: np.random.Generator) -> int:
    """A successor, drawn."""
    kernel, pair = transitions.stages[h], s * transitions.shape.actions + label
    entries = slice(kernel.start[pair], kernel.start[pair + 1])
    return int(rng.choice(kernel.next_state[entries], p=kernel.probability[entries]))


KNOWN, BAYES = "model known, exact optimum", "Bayes-optimal learner"
WEIGHTS, DEFAULT = "weights, model known", "covgame default"


def play_default(drawn: World, target: Target, seed: int, most: int) -> int:
    """Episodes of the default game, which knows neither map nor labels."""
    game = default_game(target, pooled=drawn.transitions.stationary)
    player = GamesPlayer(iter([game]), SimulatedSource(drawn.model, seed))
    return episodes_to_cover(player, [target], [most])[0] or most


def play_knowing(name: str, drawn: World, target: Target, seed: int) -> int:
    """Episodes of one who knows the model, as in ``known_limit``."""
    game = PLAYERS[name](drawn.model, target, Remainder(drawn.transitions, target))
    for _ in rounds(game, SimulatedSource(drawn.model, seed)):
        pass
    return game.counts.n_episodes


def measure(env: str, text: str, told_after: int, seeds: int) -> dict[str, Any]:
    """The limits on one world, and the means of players on worlds drawn from its prior.

    Without shuffled labels the limit is that of a known model. It is the same in all the worlds,
    as is phi*: a target that asks for all labels alike does not tell them apart.
    """
    base = world(env).transitions
    target, phi = priced(env, text)
    prior = Prior(base)
    known = LearnerLimit(Prior(base, []), target)
    bayes = LearnerLimit(prior, target, told_after)
    drawn = [prior.draw(np.random.default_rng([seed, STREAM])) for seed in range(seeds)]
    played = {
        WEIGHTS: [play_knowing("weights", w, target, seed) for seed, w in enumerate(drawn)],
        DEFAULT: [
            play_default(w, target, seed, math.ceil(CAP * phi)) for seed, w in enumerate(drawn)
        ],
    }
    row: dict[str, Any] = {"env": env, "target": text, "phi": round(phi, 4)}
    row |= {"told_after": None if bayes.exact else told_after}
    row |= {KNOWN: round(known.mean, 4), BAYES: round(bayes.mean, 4)}
    for name, taus in played.items():
        row[name] = round(float(np.mean(taus)), 4)
        row[f"{name}, error"] = round(float(np.std(taus)) / math.sqrt(seeds), 4)
    _show(row, bayes.size)
    return row


def _show(row: dict[str, Any], size: int) -> None:
    print(f"{row['env']} {row['target']}: phi* {row['phi']:.2f}, {size:,} states of what is known")
    for name in (KNOWN, WEIGHTS, BAYES, DEFAULT):
        error = f" +- {row[f'{name}, error']:.3f}" if f"{name}, error" in row else ""
        least = ">= " if name == BAYES and row["told_after"] is not None else ""
        print(f"    {name:<28} {least}{row[name]:.3f}{error}")
    print(f"    {'default over Bayes':<28} {row[DEFAULT] / row[BAYES]:.3f}", flush=True)


def main() -> None:
    """All worlds, or two of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two worlds, not saved")
    parser.add_argument("--seeds", type=int, default=400, help="worlds drawn from each prior")
    arguments = parser.parse_args()
    worlds = [case for case in WORLDS if not arguments.quick or case[0] in QUICK]
    rows = [measure(*case, arguments.seeds) for case in worlds]
    if not arguments.quick:
        _results.write("learner_limit", rows, seeds=arguments.seeds)


if __name__ == "__main__":
    main()
