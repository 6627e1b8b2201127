"""Plans that look only as far ahead as it takes, beside plans of all stages: what is lost, and won.

    python3 dev.py bench look_ahead [--quick]

*Worlds*: episodes until every pair is covered, on worlds whose episodes are long, and milliseconds
an episode; who plays first alternates. *Stages*: the same grid with ever longer episodes, and what
a step costs then.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from benchmarks import _results
from benchmarks.comparison.measures import world
from covgame.engine.engines import SimulatedEngine
from covgame.game.game import Game
from covgame.game.presets import default_game
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import parse_request

WORLDS = [
    ("grid:rows=6,columns=6,horizon=100", 10),
    ("grid:rows=12,columns=12,horizon=100", 3),
    ("grid:rows=20,columns=20,horizon=200", 1),
    ("riverswim:states=8,horizon=100", 20),
    ("riverswim:states=20,horizon=200", 5),
    ("chain:states=40,horizon=120", 5),
    ("doublechain:length=30,horizon=100", 10),
    ("lock:horizon=60", 2),
    ("garnet:states=50,actions=4,horizon=100,stationary=true", 10),
    ("garnet:states=200,actions=4,horizon=100,stationary=true", 2),
    ("gym:FrozenLake-v1?map_name=8x8@100", 5),
    ("gym:CliffWalking-v1@100", 3),
]
SEEDS = 20
STAGES = [50, 100, 200, 400, 800, 1600]
FEW_EPISODES = 8


def played(model: TabularMDP, text: str, seed: int, *, ahead: bool, most: int = 2**40) -> Any:
    """(the game, seconds), covered or after so many episodes."""
    target = parse_request(text).resolve(model.transitions)
    game = default_game(target, pooled=True, looks_ahead=ahead)
    player = SimulatedEngine(game, SimulatedSource(model, seed), most=64, record=False, waits=True)
    began = time.perf_counter()
    while not game.covered and game.counts.n_episodes < most:
        player.play(min(64, most - game.counts.n_episodes))
    return game, time.perf_counter() - began


def compared(name: str, visits: int, seeds: int) -> dict[str, Any]:
    """Both on the same seeds."""
    model, text = world(name), f"uniform:{visits}/pair"
    found: dict[bool, list[tuple[Game, float]]] = {False: [], True: []}
    for seed in range(seeds):
        for ahead in (seed % 2 == 0, seed % 2 == 1):
            found[ahead].append(played(model, text, seed, ahead=ahead))
    row: dict[str, Any] = {"env": name, "visits": visits, "seeds": seeds}
    for ahead, how in ((False, "all"), (True, "ahead")):
        episodes = [float(game.counts.n_episodes) for game, _ in found[ahead]]
        row[how] = statistics.mean(episodes)
        row[f"error {how}"] = statistics.stdev(episodes) / seeds**0.5
        row[f"ms {how}"] = 1e3 * sum(seconds for _, seconds in found[ahead]) / sum(episodes)
    return said(row)


def by_stages(stages: int) -> dict[str, Any]:
    """Microseconds a step of the first episodes, on a grid that is crossed in 38 steps."""
    model = world(f"grid:rows=20,columns=20,horizon={stages}")
    row: dict[str, Any] = {"stages": stages}
    for how, ahead in (("all", False), ("ahead", True)):
        runs = [
            played(model, "uniform:50/pair", seed, ahead=ahead, most=FEW_EPISODES)
            for seed in range(3)
        ]
        row[f"us {how}"] = statistics.median(
            1e6 * seconds / (FEW_EPISODES * stages) for _, seconds in runs
        )
    return said(row)


def said(row: dict[str, Any]) -> dict[str, Any]:
    """A row, shown as soon as it is there."""
    print(row, flush=True)
    return row


def main(*, quick: bool) -> None:
    """Both tables."""
    played(world("grid:rows=6,columns=6,horizon=40"), "uniform:1/pair", 0, ahead=True)  # compiled
    if quick:
        compared(*WORLDS[0], seeds=2)
        return
    rows = [compared(*one, seeds=SEEDS) for one in WORLDS]
    _results.write("look_ahead", rows, stages=[by_stages(one) for one in STAGES])


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
