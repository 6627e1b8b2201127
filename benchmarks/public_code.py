"""Microseconds an episode: rlberry-scool's UCBVI, ours, and our game, on the same chain.

    python3 dev.py bench public_code [--quick]

rlberry-scool needs an older Gymnasium, so it gets an environment of its own (.venv-rlberry, some
750 MB, made on the first run). Its chain is taken over as it is, table by table, and both sides
play it in turn. A plan by dense NumPy arrays is the second yardstick.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _results
from benchmarks.comparison.dense import DensePlanner
from benchmarks.comparison.players import PeerPlayer
from covgame.baselines.ucbvi import UCBVI
from covgame.engine.engines import SimulatedEngine
from covgame.game.counts import Counts
from covgame.game.presets import default_game
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import uniform
from covgame.types import Shape

ROOT = Path(__file__).parent.parent
OWN = ROOT / ".venv-rlberry"
PYTHON = OWN / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
WANTED = "rlberry-scool==0.7.3"
CHAINS = [(10, 10, 200), (31, 20, 50), (100, 20, 10)]
STRETCHES = 5


def set_up() -> None:
    """The peer's own environment, once."""
    stamp = OWN / "installed"
    if not stamp.exists():
        venv.create(OWN, with_pip=True, clear=True)
        subprocess.run(
            [str(PYTHON), "-m", "pip", "install", "--quiet", WANTED], check=True, cwd=ROOT
        )
        stamp.write_text(WANTED)


def theirs(length: int, horizon: int, episodes: int, staged: bool) -> dict[str, Any]:
    """Their time, and their chain."""
    script = Path(__file__).parent / "_public_code_child.py"
    words = [str(PYTHON), str(script), str(length), str(horizon), str(episodes), str(int(staged))]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=OWN)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def same_chain(table: dict[str, Any], horizon: int) -> TabularMDP:
    """Their table as a world of ours."""
    p, r = np.array(table["P"]), np.array(table["R"])
    S, A, _ = p.shape
    row, successor = np.nonzero(p.reshape(S * A, S))
    transitions = Transitions.from_entries(
        Shape(horizon, S, A), np.eye(S)[0], row, successor, p.reshape(S * A, S)[row, successor],
        stationary=True,
    )  # fmt: skip
    return TabularMDP(transitions, r[None])


def microseconds(player: PeerPlayer | SimulatedEngine, episodes: int) -> float:
    """The median of several stretches, after a first one that may compile."""
    counts = player.counts if isinstance(player, PeerPlayer) else player.game.counts
    player.play(100)
    times = []
    for _ in range(STRETCHES):
        before, began = counts.n_episodes, time.perf_counter()
        while counts.n_episodes < before + episodes:
            player.play(500)
        times.append((time.perf_counter() - began) / (counts.n_episodes - before))
    return 1e6 * statistics.median(times)


def ours(model: TabularMDP, staged: bool) -> dict[str, float]:
    """UCBVI in our kernels, our game, and a dense plan."""
    source = SimulatedSource(model, 0)
    peer = PeerPlayer(UCBVI(0.1), Counts(model.shape, pooled=not staged), source)
    game = default_game(uniform(1e6).resolve(model.transitions), pooled=not staged)
    return {
        "our UCBVI": microseconds(peer, 2000),
        "our game": microseconds(
            SimulatedEngine(game, source, most=500, record=False, waits=True), 2000
        ),
        "dense plan": 1e6 * DensePlanner(model).seconds_per_plan(0.5),
    }


def main() -> None:
    """All chains, stages together and apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest chain only, not saved")
    quick = parser.parse_args().quick
    set_up()
    rows = []
    for length, horizon, episodes in CHAINS[:1] if quick else CHAINS:
        for staged in (False, True):
            measured = theirs(length, horizon, episodes, staged)
            model = same_chain(measured, horizon)
            rows.append(
                {"cells": model.shape.cells, "staged": staged, "rlberry": measured["us"]}
                | ours(model, staged)
            )
            print(rows[-1], flush=True)
    if not quick:
        _results.write("public_code", rows, peer=WANTED)


if __name__ == "__main__":
    main()
