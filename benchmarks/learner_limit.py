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
import math
from typing import Any

import numpy as np

from benchmarks import _results
from benchmarks._beliefs import Note, Notebook, Prior, World, ordered, place_of
from benchmarks.comparison.measures import priced, world
from benchmarks.comparison.players import GamesPlayer, episodes_to_cover
from benchmarks.known_limit import (
    CAP,
    PLAYERS,
    TOLERANCE,
    TOO_LONG,
    Remainder,
)
from covgame.game.game import rounds
from covgame.game.presets import default_game
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import END, FloatArray, IntArray

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
            place: Notebook(place_of(prior, target, place, told_after), stages, H)
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
