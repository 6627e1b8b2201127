"""The command line under signals and sudden ends: it ends soon, says so, and can be resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame import interruption
from covgame.errors import OutOfTime
from covgame.flow.highs import LinearProgram, Method, Solver
from covgame.flow.polytope import SparseColumns
from covgame.runs.unbegun import interrupted_answer
from tests.rundb import result_of
from tests.test_cli import covgame

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is one process on Windows")

SOON = 8.0
"""Seconds in which a command ends; the promise is two, on a machine that has nothing else to do."""

LONG = 300.0

WORLDS = """
import ctypes, os, sys, threading, time

class World:
    actions, horizon, begun = 2, 4, 0

    def reset(self, seed):
        World.begun += 1
        self.at = 0
        return 0

    def step(self, action):
        if World.begun > 20 and os.path.exists("trap"):
            self.trap()
        self.at += action
        return self.at, 0.0, False

    def trap(self):
        raise NotImplementedError

class Hanging(World):
    def trap(self):
        open("there", "w").close()
        while True:
            time.sleep(1000)

class Busy(World):
    '''Holds the interpreter, which hears nothing then.'''
    def trap(self):
        open("there", "w").close()
        ctypes.PyDLL(None).sleep(1000)

class Crashing(World):
    def trap(self):
        ctypes.string_at(0)

class Leaving(World):
    def trap(self):
        os._exit(0)

class Aborting(World):
    def trap(self):
        os.abort()

class Slow(World):
    def step(self, action):
        open("there", "w").close()
        time.sleep(0.01)
        return super().step(action)

class Threaded(World):
    '''Leaves a thread behind that never ends.'''
    def __init__(self):
        threading.Thread(target=time.sleep, args=(1000,)).start()
"""

IMPORTING = """
import time
open("there", "w").close()
time.sleep(1000)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "worlds.py").write_text(WORLDS)
    (tmp_path / "importing.py").write_text(IMPORTING)
    (tmp_path / "trap").touch()
    return tmp_path


def started(place: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    """The command in a process group of its own, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "covgame", *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *sys.path]), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + LONG
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str, float]:
    """(exit code, standard output, standard error, seconds)."""
    began = time.monotonic()
    out, err = process.communicate(timeout=LONG)
    return process.returncode, out, err, time.monotonic() - began


COVER = ("--target", "uniform:50", "--out", "run")


@pytest.mark.parametrize(
    ("world", "name", "group"),
    [
        ("Hanging", "SIGINT", True),
        ("Busy", "SIGTERM", False),
        *(
            pytest.param(world, *how, marks=pytest.mark.slow)
            for world, *how in [
                ("Hanging", "SIGTERM", False),
                ("Hanging", "SIGHUP", False),
                ("Busy", "SIGINT", True),
                ("Busy", "SIGHUP", False),
            ]
        ),
    ],
)
def test_a_step_that_hangs_is_broken_off(world: str, name: str, group: bool, place: Path) -> None:
    """Whether the signal reaches one process or both, as Ctrl-C in a terminal does."""
    process = started(place, "cover", f"py:worlds:{world}", *COVER, "--json")
    wait_for(place / "there", process)
    number = getattr(signal, name)
    (os.killpg if group else os.kill)(process.pid, number)
    code, out, err, seconds = ended(process)
    assert (code, seconds < SOON) == (130, True), (code, seconds, err)
    assert err.endswith("interrupted; nothing is lost, go on with: covgame resume run --trust\n")
    answer = json.loads(out)
    assert (answer["episodes"], answer["covered"], answer["run"]) == (20, False, "run")
    (place / "trap").unlink()
    done = ended(started(place, "resume", "run", "--trust", "--json"))
    assert done[0] == 0, done
    assert json.loads(done[1])["covered"]


@pytest.mark.parametrize("group", [True, False])
def test_one_signal_is_heard_once(group: bool, place: Path) -> None:
    """The first one stops the game in good order: heard twice it would break it off."""
    (place / "trap").unlink()
    process = started(place, "cover", "py:worlds:Slow", *COVER, "--json")
    wait_for(place / "there", process)
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    code, out, err, _ = ended(process)
    assert code == 130, err
    assert json.loads(out)["stopped"] == "interrupted"
    saved = result_of(place / "run")
    assert saved["episodes"] == json.loads(out)["episodes"]


def test_an_import_that_takes_long_is_broken_off(place: Path) -> None:
    process = started(place, "cover", "py:importing:World", *COVER, "--json")
    wait_for(place / "there", process)
    process.send_signal(signal.SIGTERM)
    code, out, err, seconds = ended(process)
    assert (code, err.strip()) == (130, "covgame: interrupted")
    answer = json.loads(out)
    assert (answer["episodes"], answer["stopped"], answer["run"]) == (0, "interrupted", None)
    assert seconds < SOON


def test_what_has_no_answer_yet_says_that_it_was_interrupted() -> None:
    assert interrupted_answer("plan") == {"stopped": "interrupted"}
    found = interrupted_answer("identify")
    assert (found["episodes"], found["stopped_by"], found["policy"]) == (0, "interrupted", None)


@pytest.mark.parametrize(
    "after", [0.3, 1.2, *(pytest.param(after, marks=pytest.mark.slow) for after in (0.6, 2.5))]
)
def test_imports_and_the_compiler_are_broken_off(after: float, place: Path, tmp_path: Path) -> None:
    """With nothing compiled yet; whatever there is by then can be resumed."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    asked = ("riverswim:states=4,horizon=6", "--target", "uniform:3", "--play", "counts")
    process = started(place, "cover", *asked, "--out", "run", "--quiet", **cache)
    time.sleep(after)
    process.send_signal(signal.SIGTERM)
    code, _, err, seconds = ended(process)
    assert seconds < SOON
    assert code in (130, -signal.SIGTERM, 0)  # the second before there is anybody to hear it
    assert "Traceback" not in err
    if (place / "run" / "run.db").exists():
        assert ended(started(place, "resume", "run", "--trust", "--quiet"))[0] == 0


LARGE = ("grid:rows=50,columns=50,horizon=120", "--target", "uniform:5/pair")


@pytest.mark.parametrize("after", [3.0, pytest.param(9.0, marks=pytest.mark.slow)])
def test_the_solver_is_broken_off(after: float, place: Path) -> None:
    process = started(place, "plan", *LARGE)
    time.sleep(after)
    process.send_signal(signal.SIGTERM)
    code, _, err, seconds = ended(process)
    assert (code, seconds < SOON) == (130, True), (code, seconds, err)
    assert err.endswith("covgame: interrupted\n")


@pytest.mark.parametrize("hears", [True, False])
def test_a_solver_that_hears_nothing_is_left_behind(
    hears: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the process must not be taken apart beneath it, but end at once."""
    left, ended_with = threading.Event(), list[int]()
    monkeypatch.setattr(interruption, "_left_behind", left)
    monkeypatch.setattr(os, "_exit", ended_with.append)
    program = LinearProgram(
        np.ones(1), np.ones(1), SparseColumns(1, *map(np.array, ([0, 1], [0], [1.0]))),
        np.zeros(1), np.full(1, 9.0),
    )  # fmt: skip
    solver = Solver(program, Method.SIMPLEX)
    monkeypatch.setattr(solver.highs, "startSolve", lambda: None)
    monkeypatch.setattr(solver.highs, "cancelSolve", lambda: None)
    answers = iter([(False, None), (hears, None)])
    monkeypatch.setattr(solver.highs, "wait", lambda seconds: next(answers))
    with pytest.raises(OutOfTime), interruption.time_limit(0.0):
        solver._run_watched()
    interruption.exit_at_once(7)
    assert ended_with == ([] if hears else [7])


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ("Crashing", "segmentation fault"),
        pytest.param("Aborting", "abort", marks=pytest.mark.slow),
        pytest.param("Leaving", "exit code 0", marks=pytest.mark.slow),
    ],
)
def test_an_environment_that_ends_the_process(world: str, words: str, place: Path) -> None:
    code, out, err, _ = ended(started(place, "cover", f"py:worlds:{world}", *COVER, "--json"))
    assert code == 4, err
    sentence = f"the environment ended the process ({words})"
    assert err.endswith(
        f"covgame: {sentence} in episode 20, at stage 0: 0 / action 1; 20 episodes are saved, "
        "go on with: covgame resume run --trust --on-failure avoid\n"
    )
    answer = json.loads(out)
    assert (answer["episodes"], answer["stopped"]) == (20, "failed")
    assert answer["failure"].startswith(sentence)
    assert (answer["failures"][0]["state"], answer["failures"][0]["action"]) == (0, 1)
    (place / "trap").unlink()
    assert ended(started(place, "resume", "run", "--trust"))[0] == 0


def test_killed_without_mercy_it_is_all_gone_and_can_be_resumed_at_once(place: Path) -> None:
    process = started(place, "cover", "py:worlds:Busy", *COVER)
    wait_for(place / "there", process)
    process.kill()
    ended(process)
    (place / "trap").unlink()
    code, out, err, _ = ended(started(place, "resume", "run", "--trust", "--json"))
    assert code == 0, err
    assert json.loads(out)["covered"]


@pytest.mark.skipif(sys.platform != "linux", reason="it says who the children of a process are")
def test_the_environment_is_not_blamed_for_somebodys_kill(place: Path) -> None:
    """Its episode is played again as it was begun, and not with another seed."""
    process = started(place, "cover", "py:worlds:Busy", *COVER, "--json")
    wait_for(place / "there", process)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGKILL)
    code, out, err, _ = ended(process)
    assert code == 4
    assert err.endswith(
        "covgame: the process was killed (by somebody, or because memory ran out) in episode 20, "
        "at stage 0: 0 / action 1; 20 episodes are saved, go on with: covgame resume run --trust\n"
    )
    assert json.loads(out)["failures"] == []
    (place / "trap").unlink()
    code, out, err, _ = ended(started(place, "resume", "run", "--trust", "--json"))
    assert code == 0, err
    assert json.loads(out)["failures"] == []


def test_threads_do_not_keep_a_process_alive(place: Path) -> None:
    (place / "trap").unlink()
    process = started(place, "cover", "py:worlds:Threaded", *COVER, "--json")
    code, out, _, _ = ended(process)
    assert code == 0
    assert json.loads(out)["covered"]


def test_after_nohup_a_terminal_may_go(place: Path) -> None:
    (place / "trap").unlink()
    command = [sys.executable, "-m", "covgame", "cover", "py:worlds:Slow", *COVER]
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command, "--max-episodes", "30"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *sys.path])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(place / "there", process)
    os.killpg(process.pid, signal.SIGHUP)
    assert ended(process)[0] == 3


def test_exit_codes_and_streams_are_handed_through() -> None:
    assert covgame("envs").returncode == 0
    assert covgame("plan", "nothing", "--target", "uniform:1").returncode == 2
    assert covgame("resume", "nothing", "--debug").returncode == 1
    piped = f"{sys.executable} -m covgame envs | head -n 1"
    done = subprocess.run(["sh", "-c", piped], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_can_be_turned_off(place: Path) -> None:
    code, _, err, _ = ended(
        started(place, "cover", "py:worlds:Crashing", *COVER, COVGAME_UNSUPERVISED="1")
    )
    assert code == -signal.SIGSEGV
    assert "environment ended" not in err
    assert cg.load(place / "run", env=_world()).n_episodes == 20


def _world() -> Any:
    """With the same actions; nobody plays it."""

    class World:
        actions, horizon = 2, 4

        def reset(self, seed: int) -> int:
            return 0

        def step(self, action: int) -> tuple[int, float, bool]:
            return action, 0.0, False

    return World()


# ------------------------------------------------------------------ from Python, without any


STOPPING = """
import os, signal, sys, threading, time
import covgame as cg
from covgame.flow import highs

def interrupt():
    while not solving:
        time.sleep(0.05)
    time.sleep(1.0)
    began.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

solving, began = [], []
run_watched = highs.Solver._run_watched

def noting(self):
    solving.append(self)
    run_watched(self)

highs.Solver._run_watched = noting
threading.Thread(target=interrupt, daemon=True).start()
try:
    cg.plan("grid:rows=40,columns=40,horizon=100,slip=0", "uniform:5/pair")
    print("too fast")
except KeyboardInterrupt:
    print(time.monotonic() - began[0])
sys.stdout.flush()
os._exit(0)
"""


def test_the_solver_hears_ctrl_c_in_python() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPING], capture_output=True, text=True, check=True, timeout=LONG
    )
    assert float(done.stdout) < SOON


def test_who_does_not_wait_for_phi_gets_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The episodes are played, and Ctrl-C comes while the answer is still being computed."""

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("covgame.runs.least.min_flow", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cg.cover("grid", "uniform:1/pair", out=tmp_path)
    answer = result_of(tmp_path)
    assert (answer["covered"], answer["stopped"], answer["min_episodes"]) == (
        True,
        "interrupted",
        None,
    )
    assert cg.resume(tmp_path).min_episodes > 1
    answer = result_of(tmp_path)
    assert answer["stopped"] == "covered"
    assert answer["min_episodes"] > 1


def test_tiny_probabilities_are_no_endless_search(tmp_path: Path) -> None:
    model = {
        "format": "covgame-mdp/1",
        "horizon": 3,
        "states": 2,
        "actions": 1,
        "initial": 0,
        "transitions": [[None, 0, 0, 1, 1e-300], [None, 0, 0, 0, 1.0], [None, 1, 0, 1, 1.0]],
    }
    (tmp_path / "model.json").write_text(json.dumps(model))
    plan = cg.plan(tmp_path / "model.json", "uniform:5")
    assert plan.min_episodes == pytest.approx(5e300)
    assert plan.dual_gap < 1e-9


def test_ctrl_c_while_it_says_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one interrupts the answer to the first, and a third one nothing at all."""
    from covgame.cli import main

    heard: list[int] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("COVGAME_UNSUPERVISED", "1")
    monkeypatch.setattr(main, "_run", interrupted)
    monkeypatch.setattr(main, "goodbye", heard.append)
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    try:
        with pytest.raises(SystemExit) as left:
            main.run()
        os.kill(os.getpid(), signal.SIGINT)  # which is not heard any more
        assert (left.value.code, heard) == (130, [130])
    finally:
        sys.unraisablehook = hook
        for name, handler in before.items():
            signal.signal(name, handler)


def test_an_answer_after_the_work_has_died(capsys: pytest.CaptureFixture[str]) -> None:
    """The process above knows no command, and still prints what was asked for."""
    from covgame.cli.messages import print_json

    print_json({"episodes": 3})
    assert json.loads(capsys.readouterr().out) == {"episodes": 3}
