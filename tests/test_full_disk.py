"""Disks that are full, broken or not to be written to: one sentence, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from covgame.storage import files as disk
from tests.rooms import assert_same, whatever_is_said
from tests.rundb import recorded, result_of, sealed_on_disk
from tests.test_cli import covgame

Fault = Callable[[str, Path], None]


def failing(wanted: str, number: int, code: int) -> tuple[Fault, list[str]]:
    """From the n-th operation of a kind on, the disk refuses all of them; what was done before."""
    done: list[str] = []

    def fault(operation: str, path: Path) -> None:
        done.append(operation)
        if operation == wanted and done.count(wanted) >= number:
            raise OSError(code, os.strerror(code), str(path))

    return fault, done


@pytest.mark.usefixtures("always_saved")
@pytest.mark.parametrize("operation", ["write", "fsync", "rename", "open", "commit"])
@pytest.mark.parametrize("code", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.slow)])
def test_a_disk_that_fails_anywhere(
    operation: str, code: int, rooms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After room was made the run is the run it would have been."""
    counting, done = failing("nothing", 1, code)
    monkeypatch.setattr(disk, "fault", counting)
    cg.cover("py:rooms:Rooms", "uniform:4", out=rooms / "whole")
    times, refused = done.count(operation), 0
    for number in range(1, times + 1, max(1, times // 6)):
        run = rooms / f"{operation}-{code}-{number}"
        monkeypatch.setattr(disk, "fault", failing(operation, number, code)[0])
        with pytest.raises((cg.StorageFailed, cg.BadInput), match="cannot be written"):
            cg.cover("py:rooms:Rooms", "uniform:4", out=run)
        monkeypatch.setattr(disk, "fault", None)
        if not (run / "run.db").exists():
            refused += 1
            continue
        with whatever_is_said():
            assert cg.load(run).n_episodes == recorded(run)
            assert cg.resume(run, trust=True).covered
        assert_same(rooms / "whole", run)
    assert operation in ("write", "commit", "open") or refused


LIMITED = """
import resource, sys
from covgame.cli.main import run
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
run()
"""


def limited(size: int, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command on a disk that takes no file beyond this size."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(size), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


@pytest.mark.skipif(os.name != "posix", reason="the system has no such limits")
@pytest.mark.usefixtures("always_saved")
def test_a_disk_that_fails_once_at_the_end(rooms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was played to the end is not called failed for ever: resuming completes the answer."""
    whole = cg.cover("py:rooms:Rooms", "uniform:1", out=rooms / "whole")
    saves = []

    def fault(operation: str, path: Path) -> None:
        if operation == "commit":
            saves.append(path)
            if cg.load(rooms / "run", trust=True).n_episodes == whole.n_episodes:
                monkeypatch.setattr(disk, "fault", None)
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(disk, "fault", fault)
    with pytest.raises(cg.StorageFailed):
        cg.cover("py:rooms:Rooms", "uniform:1", out=rooms / "run")
    assert saves
    cg.resume(rooms / "run", trust=True)
    assert_same(rooms / "run", rooms / "whole")
    answer = result_of(rooms / "run")
    assert (answer["stopped"], answer["failure"]) == ("covered", None)


def test_a_disk_that_fills_up_on_the_way(rooms: Path) -> None:
    asked = ("cover", "py:rooms:Rooms", "--target", "uniform:2000", "--json")
    done = limited(150_000, *asked, "--out", "run", cwd=rooms)
    assert done.returncode == 4, done.stderr
    assert "free space; everything is saved, go on with: covgame resume run" in done.stderr
    assert "Traceback" not in done.stderr
    answer = json.loads(done.stdout)
    assert answer["stopped"] == "failed"
    assert cg.load(rooms / "run").n_episodes == answer["episodes"] > 0
    assert covgame(*asked, "--out", "whole", cwd=rooms).returncode == 0
    assert covgame("resume", "run", "--trust", cwd=rooms).returncode == 0
    assert_same(rooms / "whole", rooms / "run")
    assert limited(100, *asked, "--out", "other", cwd=rooms).returncode == 2


@pytest.mark.parametrize("env", ["py:rooms:Rooms", "riverswim:states=30,horizon=60"])
def test_quiet_says_what_is_wrong_with_the_disk(env: str, rooms: Path) -> None:
    asked = ("cover", env, "--target", "uniform:4000/pair", "--out", "run", "--json", "--quiet")
    done = limited(150_000, *asked, cwd=rooms)
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["stopped"] == "failed"
    assert len(done.stderr.splitlines()) == 1
    assert "the disk" in done.stderr
    assert "everything is saved" in done.stderr


DYING = """
import os

class Dying:
    actions, horizon = 2, 3

    def reset(self, seed):
        return 0

    def step(self, action):
        if action == 1:
            {deed}
        return 0, 0.0, False
"""


@pytest.mark.parametrize(("deed", "words"), [("1 / 0", "ZeroDivisionError"), ("os._exit(7)", "7")])
def test_quiet_says_what_is_wrong_with_the_environment(deed: str, words: str, rooms: Path) -> None:
    (rooms / "dying.py").write_text(DYING.format(deed=deed))
    asked = ("cover", "py:dying:Dying", "--target", "uniform:3/pair", "--out", "run", "--quiet")
    done = covgame(*asked, "--isolate", cwd=rooms)
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


@pytest.mark.parametrize("play", ["exact", "counts"])
def test_a_full_disk_under_a_simulated_run(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always_saved: None
) -> None:
    asked: Any = {"env": "grid", "target": "uniform:3/pair", "play": play}
    whole = cg.cover(**asked, out=tmp_path / "whole")
    monkeypatch.setattr(disk, "fault", failing("commit", 3, errno.ENOSPC)[0])
    with pytest.raises(cg.StorageFailed, match="make room"):
        cg.cover(**asked, out=tmp_path / "run")
    monkeypatch.setattr(disk, "fault", None)
    again = cg.resume(tmp_path / "run", trust=True)
    assert again.n_episodes == whole.n_episodes
    assert_same(tmp_path / "whole", tmp_path / "run")


def refuse_all(operation: str, path: Path) -> None:
    if not operation.startswith("after"):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


@pytest.mark.parametrize("env", ["py:rooms:Rooms", "grid"])
def test_a_finished_run_where_nobody_may_write(
    env: str, rooms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cg.cover(env, "uniform:4/pair", out=rooms / "run")
    monkeypatch.setattr(disk, "fault", refuse_all)
    assert cg.load(rooms / "run").n_episodes == whole.n_episodes
    assert cg.resume(rooms / "run").stopped == "covered"
    assert cg.certify(rooms / "run").episodes == whole.n_episodes


@pytest.mark.usefixtures("rooms")
def test_a_run_that_is_not_finished_where_nobody_may_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cg.cover("py:rooms:Rooms", "uniform:4", out="run", max_episodes=10)
    monkeypatch.setattr(disk, "fault", refuse_all)
    assert cg.load("run").n_episodes == 10
    with pytest.raises((cg.BadInput, cg.StorageFailed), match=r"cannot be written.*writable"):
        cg.resume("run", max_episodes=20, trust=True)


def test_no_folder_at_all(tmp_path: Path) -> None:
    for command in (
        ("cover", "grid", "--target", "uniform:1/pair"),
        ("explore", "grid", "--epsilon", "1"),
    ):
        done = covgame(*command, "--out", "", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "--out" in done.stderr
    with pytest.raises(cg.BadInput, match="out names"):
        cg.cover("grid", "uniform:1/pair", out="")
    assert list(tmp_path.iterdir()) == []


WANDERING = """
import os

class Wandering:
    actions, horizon = 2, 3

    def reset(self, seed):
        os.makedirs("elsewhere", exist_ok=True)
        os.chdir("elsewhere")
        return 0

    def step(self, action):
        return action, 0.0, False
"""


def test_an_environment_that_goes_elsewhere(rooms: Path) -> None:
    (rooms / "wandering.py").write_text(WANDERING)
    asked = ("cover", "py:wandering:Wandering", "--target", "uniform:3", "--out", "run")
    assert covgame(*asked, "--max-episodes", "4", cwd=rooms).returncode == 3
    assert sealed_on_disk(rooms / "run") == 4
    assert covgame("resume", "run", "--trust", "--max-episodes", "9999", cwd=rooms).returncode == 0
