"""The runs that are attacked: every command that writes, on every kind of source."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from torture.environments import LOG
from torture.forking import SIGNALS, Ending, call, run

OWN = "py:torture.environments:Logged"
FRAGILE = "py:torture.environments:Fragile"
PENDULUM = "py:torture.environments:Pendulum"
RUN = "run"
"""What the folder of an attacked run is called."""

RESUME = ["resume", RUN, "--trust", "--quiet", "--json"]


READERS: tuple[list[str], ...] = (
    ["certify", RUN],
    ["audit", RUN, "--target", "uniform:1/pair"],
    ["policy", RUN],
)
"""Commands that only read a run."""


@dataclass(frozen=True)
class Scenario:
    """A command that writes a run."""

    name: str
    words: tuple[str, ...]  # without --out
    external: bool = False  # its environment takes down what it has shown
    exact: bool = True  # resumed it is, row by row, what it would have been
    hurried: bool = False  # small shards, and everything saved all the time
    code: int = 0  # with which it ends

    @property
    def command(self) -> list[str]:
        """What is typed."""
        return [*self.words, "--out", RUN, "--quiet", "--json"]

    def prepare(self) -> None:
        """In the process that is to play."""
        if self.hurried:
            hurry()


def hurry() -> None:
    """Small blocks, small shards, everything saved after each block."""
    from covgame.runs import playing
    from covgame.storage import episodes, recorder

    episodes.STEPS_PER_SHARD = 120
    recorder.SECONDS_PER_CHECKPOINT = 0.0
    playing.FIRST_BLOCK = 4
    playing.next_size = lambda episodes, seconds: 4


def _simulated() -> list[Scenario]:
    river, garnet = "riverswim:states=4,horizon=5", "garnet:states=3,actions=2,horizon=3"
    small = "riverswim:states=3,horizon=3"
    return [
        Scenario("family", ("cover", river, "--target", "uniform:2000")),
        Scenario("family-hurried", ("cover", river, "--target", "uniform:4"), hurried=True),
        Scenario("family-paper", ("cover", river, "--target", "uniform:300", "--preset", "paper")),
        Scenario("counts", ("cover", river, "--target", "uniform:1e7", "--play", "counts")),
        Scenario("lazy", ("cover", river, "--target", "uniform:100", "--play", "lazy"),
        exact=False),
        Scenario(
            "min-reach",
            ("cover", "chain:states=6,horizon=8", "--target", "uniform:100", "--min-reach", "0.1"),
        ),
        Scenario("transition", ("cover", river, "--target", "uniform:300/transition")),
        Scenario("target-file", ("cover", river, "--target", "../../files/target.json")),
        Scenario("from-data", ("cover", river, "--target", "uniform:3000", "--from",
        "../../files/given")),
        Scenario("model-file", ("cover", "../../files/model.json", "--target", "uniform:3000")),
        Scenario("explore", ("explore", small, "--epsilon", "0.6")),
        Scenario("explore-counts", ("explore", small, "--epsilon", "0.6", "--play", "counts")),
        Scenario("explore-paper", ("explore", garnet, "--epsilon", "1.5", "--preset", "paper")),
        Scenario("identify", ("identify", small, "--epsilon", "0.3")),
        Scenario("identify-counts", ("identify", small, "--epsilon", "0.3", "--play", "counts")),
        Scenario("identify-paper", ("identify", garnet, "--epsilon", "1", "--preset", "paper")),
        Scenario(
            "identify-prune",
            ("identify", garnet, "--epsilon", "1", "--preset", "paper", "--scale", "1e-6",
             "--play", "exact", "--prune"),
        ),
    ]  # fmt: skip


def _external() -> list[Scenario]:
    counted = ("py:torture.environments:Counted", "--horizon", "6")
    lake = ("gym:FrozenLake-v1", "--horizon", "8")
    return [
        Scenario("lake", ("cover", *lake, "--target", "uniform:40/pair")),
        Scenario(
            "lake-hurried",
            ("cover", *lake, "--target", "uniform:2/pair", "--max-episodes", "30"),
            hurried=True, code=3,
        ),
        Scenario("own", ("cover", OWN, "--target", "uniform:60"), external=True),
        Scenario("own-hurried", ("cover", OWN, "--target", "uniform:2/pair"), external=True,
        hurried=True),
        Scenario("own-slow", ("cover", f"{OWN}?seconds=0.002", "--target", "uniform:4/pair"),
        external=True),
        Scenario("own-kept", ("cover", OWN, "--target", "uniform:40", "--keep-observations"),
        external=True),
        Scenario(
            "lake-lazy", ("cover", *lake, "--target", "uniform:20/pair", "--play", "lazy"),
            exact=False
        ),
        Scenario(
            "lake-workers", ("cover", *lake, "--target", "uniform:20/pair", "--workers", "2"),
            exact=False
        ),
        Scenario("own-counted", ("cover", *counted, "--target", "uniform:60"), external=True),
        Scenario(
            "own-reach",
            ("cover", *counted, "--target", "uniform:200", "--min-reach", "0.2"),
            external=True,
        ),
        Scenario("own-moves", ("cover", OWN, "--target", "uniform:10/transition"), external=True),
        Scenario("own-from", ("cover", OWN, "--target", "uniform:80", "--from", "../../files/own"),
        external=True),
        Scenario(
            "bins",
            ("cover", PENDULUM, "--horizon", "6", "--target", "uniform:20/pair",
             "--states", "bins:4x4", "--keep-observations"),
            external=True,
        ),
        Scenario(
            "bins-hurried",
            ("cover", PENDULUM, "--horizon", "6", "--target", "uniform:2/pair",
             "--states", "bins:2x2", "--keep-observations"),
            external=True, hurried=True,
        ),
        Scenario(
            "fragile-hurried",
            ("cover", FRAGILE, "--target", "uniform:1/pair", "--on-failure", "record"),
            external=True, hurried=True,
        ),
        Scenario(
            "fragile-avoid",
            ("cover", FRAGILE, "--target", "uniform:20/pair", "--on-failure", "avoid"),
            external=True,
        ),
        Scenario(
            "own-watched",
            ("cover", OWN, "--target", "uniform:10/pair", "--step-timeout", "20"),
            external=True,
        ),
        Scenario(
            "own-explore",
            ("explore", OWN, "--epsilon", "1", "--most-states", "12", "--max-episodes", "1500"),
            external=True, code=3,
        ),
        Scenario(
            "own-identify",
            ("identify", OWN, "--epsilon", "0.4", "--most-states", "12"),
            external=True,
        ),
        Scenario(
            "lake-identify-paper",
            ("identify", "gym:FrozenLake-v1", "--horizon", "3", "--epsilon", "1", "--preset",
             "paper", "--scale", "1e-6", "--play", "exact"),
        ),
    ]  # fmt: skip


SCENARIOS = {one.name: one for one in (*_simulated(), *_external())}
HURRIED = [name for name, one in SCENARIOS.items() if one.hurried]


@dataclass
class Workshop:
    """Where everything happens: files that runs need, and what unbroken runs have left."""

    folder: Path
    short: bool = False
    soak: float = 0.0  # seconds
    endings: dict[str, Ending] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)  # what attacks have counted beforehand

    def reference(self, scenario: Scenario) -> Path:
        """The folder of the unbroken run."""
        return self.folder / "whole" / scenario.name / RUN

    def log(self, scenario: Scenario) -> int:
        """How many episodes its environment has shown in it."""
        return logged(self.folder / "whole" / scenario.name)

    def make_files(self) -> None:
        """A model, a target, and data to start from."""
        place = self.folder / "files"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        rows = [[None, 0, 0, 300], [2, 1, None, 200], [4, 2, 1, 50.5], [None, 3, None, 20]]
        target = {"format": "covgame-target/1", "cells": rows}
        (place / "target.json").write_text(json.dumps(target))
        moves = [[None, 0, 0, 0, 0.5], [None, 0, 0, 1, 0.5], [None, 0, 1, 2, 1.0]]
        moves += [[None, 1, action, 0, 1.0] for action in range(2)]
        moves += [[None, 2, 0, None, 1.0], [None, 2, 1, 1, 1.0]]
        model = {"format": "covgame-mdp/1", "horizon": 4, "states": 3, "actions": 2, "initial": 0}
        model |= {"transitions": moves, "rewards": [[None, 1, 0, 0.9]]}
        (place / "model.json").write_text(json.dumps(model))
        reward = {"format": "covgame-reward/1", "rewards": [[0, 0, 0, 1.0], [1, 1, 1, 0.5]]}
        (place / "reward.json").write_text(json.dumps(reward))
        river = ["cover", "riverswim:states=4,horizon=5", "--target", "uniform:5", "--seed", "9"]
        for words, out in ((river, "given"), (["cover", OWN, "--seed", "9"], "own")):
            ending = run([*words, "--out", out, "--quiet"], place)
            if ending.code:
                raise RuntimeError(f"{' '.join(words)}: {ending}")

    def play_whole(self, scenario: Scenario) -> Ending:
        """The unbroken run, once."""
        if scenario.name not in self.endings:
            place = self.folder / "whole" / scenario.name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            ending = run(scenario.command, place, prepare=scenario.prepare)
            if ending.code != scenario.code:
                raise RuntimeError(f"covgame {' '.join(scenario.command)}: {ending}")
            self.endings[scenario.name] = ending
        return self.endings[scenario.name]


def logged(folder: Path) -> int:
    """How many episodes an environment has taken down."""
    path = folder / LOG
    return path.stat().st_size if path.exists() else 0


def warm_up(workshop: Workshop, scenarios: Sequence[Scenario]) -> None:
    """Import and compile in this process, so that no fork has to."""
    from covgame.players.compiled import CompiledGame

    CompiledGame.waits = True
    before, handlers = Path.cwd(), {name: signal.getsignal(name) for name in SIGNALS}
    hook = sys.unraisablehook
    for one in scenarios:
        here = workshop.folder / "warm" / one.name
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir(parents=True)
        os.chdir(here)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            call([*one.words, "--out", RUN, "--quiet", "--max-episodes", "60", "--json"])
            for words in READERS:
                call([*words, "--quiet", "--json"])
    os.chdir(before)
    sys.unraisablehook = hook
    for name, handler in handlers.items():
        signal.signal(name, handler)
