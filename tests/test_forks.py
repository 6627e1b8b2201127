"""Processes that code of others forks neither write to a run nor print."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from tests.rooms import assert_same
from tests.test_cli import covgame

FORKING = '''
import os, random, sys


def fork(place):
    """Fork once, at the place that the file "where" names; "ended" gets the child's exit code."""
    if not os.path.exists("where") or open("where").read() != place:
        return
    os.remove("where")
    print("of the parent", end="")  # in a buffer that both have
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with open("ended", "w") as file:
            file.write(str(code))
        return
    how = open("how").read()
    if how == "exit":
        sys.exit(3)
    if how == "text":
        sys.exit("a reason")
    if how == "raise":
        raise ValueError("in the child")
    if how == "interrupt":
        raise KeyboardInterrupt


fork("import")


class Ring:
    actions, horizon = 2, 5

    def __init__(self):
        fork("make")

    def reset(self, seed):
        fork("reset")
        self.rng, self.at, self.taken = random.Random(seed), 0, 0
        return 0

    def step(self, action):
        self.taken += 1
        fork("last step" if self.taken == self.horizon else "step")
        self.at = (self.at + action + (self.rng.random() < 0.3)) % 4
        return self.at, 0.0, False


def seen(observation):
    fork("map")
    return observation
'''

ASKED = ("cover", "py:forking:Ring", "--target", "uniform:20/pair", "--states", "py:forking:seen")


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "forking.py").write_text(FORKING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run without any child."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "forking.py").write_text(FORKING)
    assert covgame(*ASKED, "--out", "run", cwd=folder).returncode == 0
    return folder / "run"


CASES = [
    *((place, "exit", 3) for place in ("import", "make", "reset", "step", "last step", "map")),
    *((place, "return", 0) for place in ("import", "make", "reset", "step", "last step", "map")),
    ("step", "raise", 1),
    ("step", "text", 1),
    ("step", "interrupt", 1),
]


@pytest.mark.parametrize(("place", "how", "code"), CASES)
def test_a_forked_child_ends(place: str, how: str, code: int, ring: Path, whole: Path) -> None:
    """One answer, and the run that it would have been without the child."""
    (ring / "where").write_text(place)
    (ring / "how").write_text(how)
    done = covgame(*ASKED, "--out", "run", "--json", "--quiet", cwd=ring)
    assert done.returncode == 0, done.stderr
    assert (ring / "ended").read_text() == str(code)
    answer = json.loads(done.stdout)
    assert answer["covered"]
    assert answer["failures"] == []
    assert done.stderr.count("of the parent") <= 1
    assert cg.certify(ring / "run").episodes == answer["episodes"]
    assert_same(whole, ring / "run")


@pytest.mark.parametrize("how", ["exit", "return"])
@pytest.mark.parametrize("options", [("--step-timeout", "60"), ("--workers", "2")])
def test_a_child_forked_in_another_process_ends(
    options: tuple[str, str], how: str, ring: Path
) -> None:
    """Nor does it answer in the place of the process that plays."""
    (ring / "where").write_text("step")
    (ring / "how").write_text(how)
    done = covgame(*ASKED, *options, "--out", "run", "--json", "--quiet", cwd=ring)
    assert done.returncode == 0, done.stderr
    assert (ring / "ended").read_text() == {"exit": "3", "return": "0"}[how]
    answer = json.loads(done.stdout)
    assert answer["covered"]
    assert answer["failures"] == []
    assert cg.certify(ring / "run").episodes == answer["episodes"]


@pytest.mark.parametrize("env", ["py:forking:Ring", "grid"])
def test_a_child_of_whoever_watches_writes_nothing(env: str, ring: Path) -> None:
    """The function that is told of progress forks, and its child returns from it."""
    ended: list[int] = []

    def progress(_: Any) -> None:
        if ended:
            return
        child = os.fork()
        if child:
            ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    run = cg.cover(env, "uniform:20/pair", out=ring / "run", progress=progress)
    assert ended == [0]
    assert cg.certify(ring / "run").episodes == run.n_episodes
    cg.cover(env, "uniform:20/pair", out=ring / "whole")
    assert_same(ring / "whole", ring / "run")


def test_a_child_forked_while_data_are_read_gives_no_answer(ring: Path) -> None:
    (ring / "steps.csv").write_text("state,action,done\n1,0,0\n2,1,1\n")
    (ring / "where").write_text("map")
    (ring / "how").write_text("return")
    done = covgame("audit", "steps.csv", "--states", "py:forking:seen", "--json", cwd=ring)
    assert done.returncode == 0, done.stderr
    assert (ring / "ended").read_text() == "0"
    assert json.loads(done.stdout)["episodes"] == 1
