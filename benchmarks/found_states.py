"""Environments without a table beside what people use today: who finds what, who covers it when.

All play the same environment with the same states (a state map), episode by episode, and nobody may
set the environment to a state of its choice: Go-Explore returns to a cell by repeating the actions
that led there, as it has to where a simulator cannot be restored. Peers have one constant each, as
people would write it down first; nothing was tuned.

python3 dev.py bench found_states [--quick] [--only TEXT] [--methods TEXT]

With ``--only``, worlds whose names contain one of these words, separated by commas. With
``--methods`` only the methods whose names contain the text are measured, and covgame, which
says what is wanted; the results of others are kept.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium
import minigrid  # noqa: F401 (registers its environments)
import numpy as np
from examples.minigrid_doors import SameMaze, state

import covgame as cg
from benchmarks import _results
from covgame.baselines.nearest_untried import EveryPair, ExpectedSteps, NearestUntried
from covgame.episodes import Episode
from covgame.game.counts import Counts as ObservedCounts
from covgame.rng import episode_seed
from covgame.sources.stepped import STREAM
from covgame.types import Shape

VISITS = 3
MOST = 10
"""Peers get ten times the episodes that ours took."""

Counts = dict[tuple[int, int], int]
Pairs = set[tuple[str, int]]
"""States by their keys, which are the same for everybody, and actions."""

Choose = Callable[[int, int], int]
"""From the stage and the state to an action."""


def doors(name: str, horizon: int) -> cg.Environment:
    """A maze of MiniGrid, the same every time."""
    return cg.make(lambda: SameMaze(gymnasium.make(name)), horizon, states=state)


WORLDS: dict[str, Callable[[], cg.Environment]] = {
    "DoorKey 5x5": lambda: doors("MiniGrid-DoorKey-5x5-v0", 60),
    "KeyCorridor S3R1": lambda: doors("MiniGrid-KeyCorridorS3R1-v0", 60),
    "MountainCar, 12 x 8 bins": lambda: cg.make("gym:MountainCar-v0", states="bins:12x8"),
}


@dataclass
class Player:
    """Counts what it sees; says what to do."""

    actions: int
    horizon: int
    rng: random.Random
    visits: Counts = field(default_factory=dict)

    def begin(self) -> None:
        """A new episode."""

    def choose(self, stage: int, at: int) -> int:
        """Uniformly at random."""
        del stage, at
        return self.rng.randrange(self.actions)

    def told(self, stage: int, at: int, action: int, following: int) -> None:
        """Count a step."""
        del stage, following
        self.visits[at, action] = self.visits.get((at, action), 0) + 1


class LeastTried(Player):
    """Epsilon-greedy on counts: what was tried least here, and one time in ten anything."""

    def choose(self, stage: int, at: int) -> int:
        """The least tried action."""
        if self.rng.random() < 0.1:
            return super().choose(stage, at)
        tried = [self.visits.get((at, a), 0) for a in range(self.actions)]
        fewest = min(tried)
        return self.rng.choice([a for a, n in enumerate(tried) if n == fewest])


@dataclass
class GoExplore(Player):
    """Picks a cell that was chosen rarely, repeats what led to it, and goes on at random."""

    def __post_init__(self) -> None:
        self.archive: dict[int, list[int]] = {}  # the shortest way to a state that was seen
        self.chosen: dict[int, int] = {}

    def begin(self) -> None:
        """Where to go this time."""
        self.way: list[int] = []
        self.done: list[int] = []
        if self.archive:
            states = list(self.archive)
            odds = [1 / (1 + self.chosen.get(s, 0)) ** 0.5 for s in states]
            goal = self.rng.choices(states, odds)[0]
            self.chosen[goal] = self.chosen.get(goal, 0) + 1
            self.way = self.archive[goal]

    def choose(self, stage: int, at: int) -> int:
        """The way to the cell first."""
        return self.way[stage] if stage < len(self.way) else super().choose(stage, at)

    def told(self, stage: int, at: int, action: int, following: int) -> None:
        """Remember shorter ways."""
        super().told(stage, at, action, following)
        self.done.append(action)
        known = self.archive.get(following)
        if following >= 0 and (known is None or len(known) > len(self.done)):
            self.archive[following] = list(self.done)


@dataclass
class Nearest(Player):
    """Walks to the nearest pair that lacks visits (``covgame.baselines.nearest_untried``)."""

    kind: type[NearestUntried] = NearestUntried

    def __post_init__(self) -> None:
        shape = Shape(self.horizon, 64, self.actions)
        counts = ObservedCounts(shape, pooled=True, stage_free=True)
        self.explorer = self.kind(counts, EveryPair(self.actions, VISITS))
        self.steps: list[tuple[int, int, float, int]] = []

    def begin(self) -> None:
        """Count the episode before."""
        if self.steps:
            self.explorer.counts.add(Episode.of_steps(self.steps), len(self.steps))
        self.steps = []

    def choose(self, stage: int, at: int) -> int:
        """The next step of the way."""
        if stage == 0:
            self.explorer.begin(at)
        return self.explorer.choose(stage, at)

    def told(self, stage: int, at: int, action: int, following: int) -> None:
        """Learn at once."""
        super().told(stage, at, action, following)
        self.explorer.observe(stage, at, action, following)
        self.steps.append((at, action, 0.0, following))


PEERS: dict[str, Callable[[int, int, random.Random], Player]] = {
    "uniform random": Player,
    "least tried, epsilon 0.1": LeastTried,
    "Go-Explore": GoExplore,
    "nearest untried": Nearest,
    "nearest untried, expected steps": partial(Nearest, kind=ExpectedSteps),
}


def play(
    env: cg.Environment, player: Player, episodes: int, seed: int, wanted: Pairs
) -> int | None:
    """Episodes until the wanted pairs have their visits, None if that takes more than so many."""
    source: Any = env.open(seed)
    for episode in range(episodes):
        observation, _ = source.stepper.reset(episode_seed(seed, STREAM, episode))
        at = source.states.index(observation)
        player.begin()
        for stage in range(env.horizon):
            action = player.choose(stage, at)
            shown = source.stepper.step(action)
            following = -1 if shown.terminated else source.states.index(shown.observation)
            player.told(stage, at, action, following)
            if shown.terminated or shown.truncated:
                break
            at = following
        if has_all(player.visits, source.states.keys, wanted):
            return episode + 1
    return None


def has_all(visits: Counts, keys: list[str], wanted: Pairs) -> bool:
    """Whether the wanted pairs were visited often enough; what else was seen does not matter."""
    if len(visits) < len(wanted):
        return False
    often = {(keys[at], action) for (at, action), n in visits.items() if n >= VISITS}
    return wanted <= often


def measure(name: str, seeds: int, methods: list[str]) -> list[dict[str, Any]]:
    """Ours first; then the peers with ten times as many episodes."""
    rows = []
    env = WORLDS[name]()
    for seed in range(seeds):
        run = cg.cover(env, f"uniform:{VISITS}/pair", seed=seed)
        visited = np.argwhere(run.counts.visits.sum(axis=0) > 0).tolist()
        keys: Any = run.source.state_keys
        wanted: Pairs = {(keys[at], action) for at, action in visited}
        actions, states = run.target.shape.actions, len({at for at, _ in visited})
        about = {"world": name, "seed": seed}
        rows.append({**about, "method": "covgame", "episodes": run.n_episodes, "states": states})
        print(rows[-1], flush=True)
        for method in methods:
            player = PEERS[method](actions, env.horizon, random.Random(seed))
            took = play(env, player, MOST * run.n_episodes, seed, wanted)
            found = len({at for at, _ in player.visits})
            rows.append({**about, "method": method, "episodes": took, "states": found})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(prog="dev.py bench found_states")
    parser.add_argument("--quick", action="store_true", help="one world, one seed, nothing saved")
    parser.add_argument("--only", default="", help="worlds whose names contain this")
    parser.add_argument("--methods", default="", help="peers whose names contain this")
    asked = parser.parse_args()
    names = [name for name in WORLDS if any(word in name for word in asked.only.split(","))]
    names = names[:1] if asked.quick else names
    methods = [name for name in PEERS if asked.methods in name]
    rows = [row for name in names for row in measure(name, 1 if asked.quick else 5, methods)]
    if not asked.quick:
        measured = {(row["world"], row["method"]) for row in rows}
        old = _results.read("found_states")["rows"]
        rows += [row for row in old if (row["world"], row["method"]) not in measured]
        order = {name: place for place, name in enumerate((*WORLDS, "covgame", *PEERS))}
        rows.sort(key=lambda row: (order[row["world"]], row["seed"], order[row["method"]]))
        _results.write("found_states", rows, visits=VISITS, most=MOST)
    for method in ("covgame", *PEERS):
        mine = [row for row in rows if row["method"] == method]
        took = [row["episodes"] for row in mine if row["episodes"] is not None]
        found = np.mean([row["states"] for row in mine]) if mine else 0.0
        print(f"{method:<34} {np.mean(took) if took else 'never':>8} {found:8.1f}")


if __name__ == "__main__":
    main()
