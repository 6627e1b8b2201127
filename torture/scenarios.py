"""The runs that are attacked: every command that writes, on every kind of source."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path

from torture.environments import LOG
from torture.processes import Ending, run

RUN = "run"
"""The folder of the attacked run, in the folder of the case."""

RESUME = ["resume", RUN, "--trust", "--quiet", "--json"]
LIMIT = 120.0
"""Seconds for a run that takes a few."""

OWN = "py:torture.environments:Logged"
PENDULUM = "py:torture.environments:Pendulum --horizon 6"
FRAGILE = "py:torture.environments:Fragile"
LAKE = "gym:FrozenLake-v1 --horizon 8"
RIVER, SMALL_RIVER = "riverswim:states=4,horizon=5", "riverswim:states=3,horizon=3"
GARNET = "garnet:states=3,actions=2,horizon=3"


@dataclass(frozen=True)
class Scenario:
    """A command that writes a run.

    Attributes:
        text: The command without ``--out``.
        logged: Its environment logs its episodes.
        exact: Resuming it gives the episodes of the unbroken run.
        hurried: It writes small shards and saves the state after each block.
        code: Its exit code.
    """

    name: str
    text: str
    logged: bool = False
    exact: bool = True
    hurried: bool = False
    code: int = 0

    @property
    def command(self) -> list[str]:
        return [*self.text.split(), "--out", RUN, "--quiet", "--json"]

    @property
    def simulated(self) -> bool:
        return "py:" not in self.text and "gym:" not in self.text

    def prepare(self) -> None:
        """Called in every process that plays or reads the run."""
        if self.hurried:
            from covgame.runs import loop
            from covgame.storage import episodes, recorder

            episodes.STEPS_PER_SHARD = 120
            recorder.SECONDS_PER_CHECKPOINT = 0.0
            loop.FIRST_BLOCK = 4
            loop.next_size = lambda episodes, seconds: 4


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("family", f"cover {RIVER} --target uniform:2000"),
        Scenario("family-hurried", f"cover {RIVER} --target uniform:4", hurried=True),
        Scenario("paper", f"cover {RIVER} --target uniform:300 --preset paper"),
        Scenario("counts", f"cover {RIVER} --target uniform:1e7 --play counts"),
        Scenario("lazy", f"cover {RIVER} --target uniform:100 --play lazy", exact=False),
        Scenario(
            "min-reach", "cover chain:states=6,horizon=8 --target uniform:100 --min-reach 0.1"
        ),
        Scenario("transition", f"cover {RIVER} --target uniform:300/transition"),
        Scenario("target-file", f"cover {RIVER} --target ../../files/target.json"),
        Scenario("from-data", f"cover {RIVER} --target uniform:3000 --from ../../files/given"),
        Scenario("model-file", "cover ../../files/model.json --target uniform:3000"),
        Scenario("explore", f"explore {SMALL_RIVER} --epsilon 0.6"),
        Scenario("explore-paper", f"explore {GARNET} --epsilon 1.5 --preset paper"),
        Scenario("identify", f"identify {SMALL_RIVER} --epsilon 0.3"),
        Scenario("identify-hurried", f"identify {SMALL_RIVER} --epsilon 2", hurried=True),
        Scenario("identify-counts", f"identify {SMALL_RIVER} --epsilon 0.3 --play counts"),
        Scenario(
            "identify-prune",
            f"identify {GARNET} --epsilon 1 --preset paper --scale 1e-6 --play exact --prune",
        ),
        Scenario("lake", f"cover {LAKE} --target uniform:40/pair"),
        Scenario(
            "lake-hurried", f"cover {LAKE} --target uniform:2/pair --max-episodes 30",
            hurried=True, code=3,
        ),
        Scenario("workers", f"cover {LAKE} --target uniform:20/pair --workers 2", exact=False),
        Scenario("own", f"cover {OWN} --target uniform:60", logged=True),
        Scenario("own-hurried", f"cover {OWN} --target uniform:2/pair", logged=True, hurried=True),
        Scenario("own-slow", f"cover {OWN}?seconds=0.002 --target uniform:4/pair", logged=True),
        Scenario("own-kept", f"cover {OWN} --target uniform:40 --keep-observations", logged=True),
        Scenario("own-from", f"cover {OWN} --target uniform:80 --from ../../files/own",
                 logged=True),
        Scenario("own-timeout", f"cover {OWN} --target uniform:10/pair --step-timeout 20",
                 logged=True),
        Scenario(
            "own-explore",
            f"explore {OWN} --epsilon 1 --most-states 12 --max-episodes 1500",
            logged=True, code=3,
        ),
        Scenario("own-identify", f"identify {OWN} --epsilon 0.4 --most-states 12", logged=True),
        Scenario("bins", f"cover {PENDULUM} --target uniform:20/pair --states bins:4x4",
                 logged=True),
        Scenario(
            "bins-hurried",
            f"cover {PENDULUM} --target uniform:2/pair --states bins:2x2 --keep-observations",
            logged=True, hurried=True,
        ),
        Scenario(
            "fragile-hurried", f"cover {FRAGILE} --target uniform:1/pair --on-failure record",
            logged=True, hurried=True,
        ),
        Scenario("fragile-avoid", f"cover {FRAGILE} --target uniform:20/pair --on-failure avoid",
                 logged=True),
    )
}  # fmt: skip
SHORT = ("family-hurried", "counts", "own-hurried", "own-kept", "identify")


@dataclass
class Workspace:
    """The folder of the suite: files that runs need, unbroken runs, and the cases."""

    folder: Path
    short: bool = False
    endings: dict[str, Ending] = field(default_factory=dict)  # of the unbroken runs
    events: dict[str, list[str]] = field(default_factory=dict)  # operations of the storage

    @property
    def scenarios(self) -> list[Scenario]:
        return [SCENARIOS[name] for name in (SHORT if self.short else SCENARIOS)]

    def reference(self, scenario: Scenario) -> Path:
        """The folder of the unbroken run."""
        return self.folder / "whole" / scenario.name / RUN

    def play(self, scenarios: Iterable[Scenario]) -> None:
        """Play the unbroken runs, each once."""
        for one in scenarios:
            if one.name not in self.endings:
                place = new_folder(self.folder / "whole" / one.name)
                ending = run(one.command, place, prepare=one.prepare, limit=LIMIT)
                if ending.code != one.code:
                    raise RuntimeError(f"covgame {' '.join(one.command)}: {ending}")
                self.endings[one.name] = ending

    def play_all(self) -> None:
        self.play(self.scenarios)

    def make_files(self) -> None:
        """A target, a model, a reward, and two runs to start from."""
        place = new_folder(self.folder / "files")
        rows = [[None, 0, 0, 300], [2, 1, None, 200], [4, 2, 1, 50.5], [None, 3, None, 20]]
        moves = [[None, 0, 0, 0, 0.5], [None, 0, 0, 1, 0.5], [None, 0, 1, 2, 1.0]]
        moves += [[None, 1, action, 0, 1.0] for action in range(2)]
        moves += [[None, 2, 0, None, 1.0], [None, 2, 1, 1, 1.0]]
        files: dict[str, dict[str, object]] = {
            "target": {"cells": rows},
            "reward": {"rewards": [[0, 0, 0, 1.0], [1, 1, 1, 0.5]]},
            "model": {
                "horizon": 4, "states": 3, "actions": 2, "initial": 0,
                "transitions": moves, "rewards": [[None, 1, 0, 0.9]],
            },
        }  # fmt: skip
        for name, content in files.items():
            kind = "mdp" if name == "model" else name
            text = json.dumps({"format": f"covgame-{kind}/1", **content})
            (place / f"{name}.json").write_text(text)
        for env, out in ((RIVER, "given"), (OWN, "own")):
            words = ["cover", env, "--target", "uniform:5", "--seed", "9", "--out", out, "--quiet"]
            ending = run(words, place)
            if ending.code:
                raise RuntimeError(f"covgame {' '.join(words)}: {ending}")

    def warm_up(self) -> None:
        """Import and compile in this process, so that no forked one has to."""
        from covgame.cli.main import main
        from covgame.engine.compiled import CompiledGame

        CompiledGame.waits = True
        before = Path.cwd()
        for one in self.scenarios:
            os.chdir(new_folder(self.folder / "warm" / one.name))
            words = [*one.command, "--max-episodes", "60"]
            readers = [["certify", RUN], ["audit", RUN, "--target", "uniform:1/pair"]]
            readers += [["report", RUN, "--out", "page.html"], ["policy", RUN]]
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                for command in (words, *readers):
                    with suppress(SystemExit):
                        main(command, standalone_mode=False)
        os.chdir(before)


def new_folder(path: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def logged_episodes(folder: Path) -> int:
    """The number of episodes that an environment has logged."""
    path = folder / LOG
    return path.stat().st_size if path.exists() else 0
