"""Long episodes: episodes until every pair is covered, beside the obvious explorer.

    python3 dev.py bench long_episodes [--only TEXT] [--visits 1,3] [--methods TEXT] [--seeds N]
        [--workers] [--quick] [--out FOLDER]

All play the same worlds. *Nearest untried* and *expected steps* are
``covgame.baselines.nearest_untried``; they discover states as they go. *States known* is
``covgame.cover`` on the model, *discovered* the same world as a class with ``reset`` and ``step``,
*Driver* the same class driven from outside. The episode that covers the last reachable pair is the
one that counts, so a second look by random actions at the end of a run is free. A run that ends or
is stopped before it has covered everything is reported as such.

``--only`` and ``--methods`` keep what contains a text; several are separated by commas. Results of
other worlds and methods that are in the file already are kept.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import covgame as cg
from benchmarks import _results
from benchmarks._adventure import ACTIONS, Adventure
from covgame.baselines.nearest_untried import EveryPair, ExpectedSteps, NearestUntried
from covgame.episodes import Episode
from covgame.game.counts import Counts
from covgame.mdp.families import Builder
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.rng import episode_seed
from covgame.targets.requests import uniform
from covgame.types import END, Shape

VISITS = (1, 3, 10)
STREAM = 0
SEEDS = 5
"""Of stochastic worlds; a deterministic one is played once."""

LIMIT = 20
"""Runs are stopped after so many times the episodes that the steps of all visits would fill."""

LEAST_LIMIT = {False: 200, True: 1_000}
"""But not before so many episodes, by whether the world is stochastic."""

FIRST_ROOM = 64


@dataclass(frozen=True)
class World:
    """A name for tables, and the environment's name, with ``@H`` where it leaves stages open."""

    name: str
    env: str
    is_stochastic: bool = False


WORLDS = (
    World("grid 18 x 18, middle", "grid:rows=18,columns=18,horizon=180,slip=0,start=middle"),
    World("grid 18 x 18, corner", "grid:rows=18,columns=18,horizon=180,slip=0"),
    World("maze 11 x 11", "maze:rows=11,columns=11,horizon=140,seed=0"),
    World("maze 11 x 11, seed 1", "maze:rows=11,columns=11,horizon=140,seed=1"),
    World("maze 11 x 11, seed 2", "maze:rows=11,columns=11,horizon=140,seed=2"),
    World("digraph, 300 nodes", "digraph:nodes=300,actions=3,horizon=120"),
    World("grid 40 x 40", "grid:rows=40,columns=40,horizon=200,slip=0"),
    World("text adventure", "adventure"),
    World("Taxi", "taxi", is_stochastic=True),
    World("grid 10 x 10, slips", "grid:rows=10,columns=10,horizon=120,slip=0.1", True),
    World("maze 9 x 9, slips", "maze:rows=9,columns=9,horizon=140,slip=0.1", True),
    World("digraph, 100 nodes, slips", "digraph:nodes=100,actions=3,horizon=120,slip=0.1", True),
    World("FrozenLake 8 x 8", "gym:FrozenLake-v1?map_name=8x8@100", True),
    World("RiverSwim, 20 states", "riverswim:states=20,horizon=200", True),
)


@cache
def model_of(world: World) -> TabularMDP:
    """The table, which only the runs with known states see."""
    if world.env == "adventure":
        return tabulate(Adventure())
    if world.env == "taxi":
        return taxi()
    name, _, horizon = world.env.partition("@")
    return cg.make(name, int(horizon) if horizon else None).require_model("a benchmark")


def tabulate(env: Any) -> TabularMDP:
    """The table of a deterministic environment, by trying everything everywhere."""
    numbers, found = {env.reset(): 0}, [deepcopy(env)]
    moves: list[tuple[int, int, int]] = []
    for state, at in enumerate(found):
        for action, name in enumerate(ACTIONS):
            following = deepcopy(at)
            observation, _, done = following.step(name)
            if not done and observation not in numbers:
                numbers[observation] = len(found)
                found.append(following)
            moves.append((state, action, END if done else numbers[observation]))
    builder = Builder(Shape(env.horizon, len(found), len(ACTIONS)))
    for state, action, successor in moves:
        builder.move(state, action, {successor: 1.0})
    return builder.build()


def taxi() -> TabularMDP:
    """Gymnasium's Taxi without its action mask: all six actions everywhere, 200 steps."""
    env: Any = gymnasium.make("Taxi-v4").unwrapped
    shape = Shape(200, env.observation_space.n, env.action_space.n)
    entries = [
        (state * shape.actions + action, END if done else following, probability)
        for state, actions in env.P.items()
        for action, outcomes in actions.items()
        for probability, following, _, done in outcomes
    ]
    row, successor, probability = (np.array(column) for column in zip(*entries, strict=True))
    transitions = Transitions.from_entries(
        shape, env.initial_state_distrib, row, successor, probability, stationary=True
    )
    return TabularMDP(transitions, np.zeros((1, shape.states, shape.actions)))


class Simulator:
    """A table as a plain class: no more than ``reset`` and ``step``."""

    def __init__(self, model: TabularMDP) -> None:
        self.horizon, _, self.actions = model.shape.hsa
        self._kernel, self._initial = model.transitions.stages[0], model.initial

    def reset(self, seed: int) -> int:
        """Draw the first state."""
        self._rng = np.random.default_rng(seed)
        self._state = int(self._rng.choice(len(self._initial), p=self._initial))
        return self._state

    def step(self, action: int) -> tuple[int, float, bool]:
        """Draw the next state."""
        row = self._state * self.actions + action
        places = slice(self._kernel.start[row], self._kernel.start[row + 1])
        odds = np.cumsum(self._kernel.probability[places])
        drawn = min(int(np.searchsorted(odds, self._rng.random(), side="right")), len(odds) - 1)
        following = int(self._kernel.next_state[places][drawn])
        if following == END:
            return self._state, 0.0, True
        self._state = following
        return following, 0.0, False


@dataclass
class Measured:
    """After how many episodes the pairs were covered (None: never), and how many were played."""

    covered_after: int | None
    played: int
    seconds: float = 0.0


def covering_episode(
    episodes: Iterable[tuple[Iterable[Any], Iterable[int]]], pairs: int, visits: int
) -> Measured:
    """From the states and actions of each episode, in order."""
    seen: dict[tuple[Any, int], int] = {}
    lacking, played, covered_after = pairs, 0, None
    for states, actions in episodes:
        played += 1
        for pair in zip(states, actions, strict=True):
            seen[pair] = seen.get(pair, 0) + 1
            lacking -= seen[pair] == visits
        if lacking == 0 and covered_after is None:
            covered_after = played
    return Measured(covered_after, played)


def explore(
    kind: type[NearestUntried], model: TabularMDP, pairs: int, visits: int, seed: int, most: int
) -> Measured:
    """The explorer on a world whose states it does not know."""
    env, (horizon, _, actions) = Simulator(model), model.shape.hsa
    counts = Counts(Shape(horizon, FIRST_ROOM, actions), pooled=True, stage_free=True)
    explorer = kind(counts, EveryPair(actions, visits))
    numbers: dict[int, int] = {}

    def number(observation: int) -> int:
        return numbers.setdefault(observation, len(numbers))

    def play() -> Iterable[tuple[list[int], list[int]]]:
        requirements = explorer.requirements
        for episode in range(most):
            at = number(env.reset(episode_seed(seed, STREAM, episode)))
            explorer.begin(at)
            steps = []
            for stage in range(horizon):
                action = explorer.choose(stage, at)
                observation, _, done = env.step(action)
                following = END if done else number(observation)
                explorer.observe(stage, at, action, following)
                steps.append((at, action, 0.0, following))
                if done:
                    break
                at = following
            counts.add(Episode.of_steps(steps), len(steps))
            yield [step[0] for step in steps], [step[1] for step in steps]
            if requirements.covered and len(numbers) * actions >= pairs:
                return

    return covering_episode(play(), pairs, visits)


def cover_known(model: TabularMDP, pairs: int, visits: int, seed: int, most: int) -> Measured:
    """covgame on the table."""
    del pairs
    run = cg.cover(model, f"uniform:{visits}/pair", seed=seed, max_episodes=most)
    return Measured(run.n_episodes if run.covered else None, run.n_episodes)


def cover_class(
    model: TabularMDP, pairs: int, visits: int, seed: int, most: int, workers: int = 1
) -> Measured:
    """covgame on the class."""
    with tempfile.TemporaryDirectory() as folder:
        run = cg.cover(
            lambda: Simulator(model), f"uniform:{visits}/pair", seed=seed, max_episodes=most,
            workers=workers, out=Path(folder) / "run",
        )  # fmt: skip
        played = ((one.state.tolist(), one.action.tolist()) for one in run.episodes())
        return covering_episode(played, pairs, visits)


def drive(model: TabularMDP, pairs: int, visits: int, seed: int, most: int) -> Measured:
    """covgame, while the loop is ours."""
    env, (horizon, _, actions) = Simulator(model), model.shape.hsa
    driver = cg.Driver(actions, horizon, f"uniform:{visits}/pair", seed=seed)

    def play() -> Iterable[tuple[list[int], list[int]]]:
        for number in range(most):
            episode, observation = driver.ask(), env.reset(episode_seed(seed, STREAM, number))
            states, taken = list[int](), list[int]()
            done = False
            while not done and len(taken) < horizon:
                states.append(observation)
                taken.append(episode(observation))
                observation, _, done = env.step(taken[-1])
            episode.end(observation=None if done else observation)
            driver.tell(episode)
            yield states, taken
            if driver.covered:
                return

    return covering_episode(play(), pairs, visits)


Play = Callable[[TabularMDP, int, int, int, int], Measured]
METHODS: dict[str, Play] = {
    "nearest untried": lambda *about: explore(NearestUntried, *about),
    "expected steps": lambda *about: explore(ExpectedSteps, *about),
    "covgame, states known": cover_known,
    "covgame, discovered": cover_class,
    "Driver": drive,
}
WITH_WORKERS: dict[str, Play] = {
    "2 workers": partial(cover_class, workers=2),
    "8 workers": partial(cover_class, workers=8),
}


def measure(world: World, method: str, visits: int, seeds: int) -> dict[str, Any]:
    """All seeds of a method on a world."""
    model = model_of(world)
    pairs = len(uniform(1, "pair").resolve(model.transitions))
    fill = visits * pairs // model.shape.horizon
    most = max(LEAST_LIMIT[world.is_stochastic], LIMIT * fill)
    runs: list[Measured] = []
    for seed in range(seeds if world.is_stochastic else 1):
        began = time.perf_counter()
        runs.append((METHODS | WITH_WORKERS)[method](model, pairs, visits, seed, most))
        runs[-1].seconds = time.perf_counter() - began
    row = {
        "world": world.name,
        "env": world.env,
        "stages": model.shape.horizon,
        "pairs": pairs,
        "visits": visits,
        "method": method,
        "episodes": [run.covered_after for run in runs],
        "played": [run.played for run in runs],
        "seconds": [round(run.seconds, 2) for run in runs],
    }
    print({key: row[key] for key in ("world", "visits", "method", "episodes", "played", "seconds")},
          flush=True)  # fmt: skip
    return row


def key_of(row: dict[str, Any]) -> tuple[int, int, int]:
    """The place of a row in the file."""
    worlds, methods = [world.name for world in WORLDS], [*METHODS, *WITH_WORKERS]
    return worlds.index(row["world"]), row["visits"], methods.index(row["method"])


def main() -> None:
    """Measure what was asked for, and merge it with what is there."""
    parser = argparse.ArgumentParser(prog="dev.py bench long_episodes")
    parser.add_argument("--only", default="", help="worlds whose names contain this")
    parser.add_argument("--methods", default="", help="methods whose names contain this")
    parser.add_argument("--visits", default=",".join(map(str, VISITS)), help="visits of each pair")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of stochastic worlds")
    parser.add_argument("--workers", action="store_true", help="also with 2 and 8 workers")
    parser.add_argument("--quick", action="store_true", help="three worlds, one visit, one seed")
    parser.add_argument("--out", type=Path, default=_results.RESULTS, help="another folder")
    asked = parser.parse_args()
    if asked.quick:
        asked.only, asked.visits, asked.seeds = "middle,seed 1,RiverSwim", "1", 1
    path = asked.out / "long_episodes.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() and not asked.quick else []
    methods = [*METHODS, *(WITH_WORKERS if asked.workers or "workers" in asked.methods else ())]
    worlds = [one for one in WORLDS if any(word in one.name for word in asked.only.split(","))]
    methods = [one for one in methods if any(word in one for word in asked.methods.split(","))]
    visits = [int(number) for number in asked.visits.split(",")]
    for world in worlds:
        new = [
            measure(world, method, number, asked.seeds)
            for number, method in product(visits, methods)
        ]
        measured = {key_of(row) for row in new}
        rows = sorted([*(old for old in rows if key_of(old) not in measured), *new], key=key_of)
        if not asked.quick:  # after every world, so that little is lost when it is stopped
            _results.write_to(asked.out, "long_episodes", {"rows": rows})


if __name__ == "__main__":
    main()
