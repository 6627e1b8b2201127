"""Signals and crashes: commands end in good order, and runs can be resumed."""

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

import highspy
import numpy as np
import pytest

import covgame as cg
from covgame import signals
from covgame.cli import main
from covgame.cli.messages import interrupted_answer
from covgame.errors import OutOfTime
from covgame.flow import highs
from covgame.flow.highs import LinearProgram, Method, Solver
from covgame.flow.polytope import SparseColumns
from covgame.signals import Interruption
from tests.rundb import result_of
from tests.test_cli import FOREVER, covgame

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")

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
    '''Holds the interpreter lock: no signal handler runs.'''
    def trap(self):
        open("there", "w").close()
        ctypes.PyDLL(None).sleep(1000)

class Crashing(World):
    def trap(self):
        ctypes.string_at(0)

class Slow(World):
    def step(self, action):
        open("there", "w").close()
        time.sleep(0.01)
        return super().step(action)

class Threaded(World):
    '''Starts a thread that never ends.'''
    def __init__(self):
        threading.Thread(target=time.sleep, args=(1000,)).start()
"""

IMPORTING = """
import os, time
class World:
    actions, horizon = 2, 4
    def reset(self, seed):
        return 0
    def step(self, action):
        return action, 0.0, False
if os.path.exists("trap"):
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
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """(exit code, standard output, standard error)."""
    out, err = process.communicate(timeout=FOREVER)
    return process.returncode, out, err


COVER = ("--target", "uniform:50", "--out", "run")


@pytest.mark.parametrize(
    "name",
    ["SIGINT", *(pytest.param(one, marks=pytest.mark.slow) for one in ("SIGTERM", "SIGHUP"))],
)
@pytest.mark.parametrize("options", [(), ("--isolate",)])
def test_a_step_that_hangs_is_interrupted(name: str, options: tuple[str, ...], place: Path) -> None:
    """After the grace period, in this process or while waiting for the worker process."""
    process = started(place, "cover", "py:worlds:Hanging", *COVER, *options, "--json")
    wait_for(place / "there", process)
    process.send_signal(getattr(signal, name))
    code, out, err = ended(process)
    assert code == 130, err
    assert err.endswith(
        "interrupted; everything is saved, go on with: covgame resume run --trust\n"
    )
    answer = json.loads(out)
    assert (answer["episodes"], answer["covered"], answer["run"]) == (20, False, "run")
    (place / "trap").unlink()
    code, out, err = ended(started(place, "resume", "run", "--trust", "--json"))
    assert code == 0, err
    assert json.loads(out)["covered"]


def test_one_signal_stops_in_good_order(place: Path) -> None:
    (place / "trap").unlink()
    process = started(place, "cover", "py:worlds:Slow", *COVER, "--json")
    wait_for(place / "there", process)
    os.killpg(process.pid, signal.SIGINT)
    code, out, err = ended(process)
    assert code == 130, err
    assert json.loads(out)["stopped"] == "interrupted"
    saved = result_of(place / "run")
    assert saved["episodes"] == json.loads(out)["episodes"]


class Signalling:
    """Sends signals to its own process in the third episode."""

    actions, horizon, episodes = 2, 4, 0

    def __init__(self, *kinds: signal.Signals, catches: int = 0) -> None:
        self.kinds, self.catches = kinds, catches
        self.went_on = 0  # after how many signals the step went on

    def reset(self, seed: int) -> int:
        del seed
        self.episodes += 1
        return 0

    def step(self, action: int) -> tuple[int, float, bool]:
        if self.episodes == 3:
            for kind in self.kinds:
                signal.raise_signal(kind)
                self.went_on += 1
            for _ in range(self.catches):
                with pytest.raises(KeyboardInterrupt):
                    time.sleep(FOREVER)
            time.sleep(FOREVER)
        return action, 0.0, False


def test_the_second_signal_is_raised_in_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "GRACE_SECONDS", FOREVER)
    env = Signalling(signal.SIGINT, signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        cg.cover(env, "uniform:9", out=tmp_path)
    assert env.went_on == 1
    answer = result_of(tmp_path)
    assert (answer["episodes"], answer["stopped"]) == (2, "interrupted")


@pytest.mark.parametrize("catches", [0, 2])
def test_after_the_grace_period_the_step_is_interrupted(
    catches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again, if it catches ``KeyboardInterrupt``."""
    monkeypatch.setattr(signals, "GRACE_SECONDS", 0.01)
    env = Signalling(signal.SIGTERM, catches=catches)
    with pytest.raises(KeyboardInterrupt):
        cg.cover(env, "uniform:9", out=tmp_path)
    assert result_of(tmp_path)["episodes"] == 2


def test_saving_is_not_interrupted_by_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(signals, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(signals, "signal_main_thread", sent.append)
    with Interruption() as stopping:
        stopping.stopping()
        signal.raise_signal(signal.SIGTERM)
        assert stopping.requested
        stopping._interrupt_after_grace(signal.SIGTERM)
    assert sent == []


def test_a_second_signal_prints_the_answer_of_the_files(place: Path) -> None:
    """Raised while a plan is made, where memory is inconsistent."""
    (place / "trap").unlink()
    script = """
import signal
from covgame.cli.main import run
from covgame.engine.engines import SteppedEngine

tell = SteppedEngine.tell

def told(self, episode, **how):
    tell(self, episode, **how)
    if self.game.counts.n_episodes == 7:
        SteppedEngine.tell = tell
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

SteppedEngine.tell = told
run()
"""
    path = os.pathsep.join([str(place), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script, "cover", "py:worlds:World", *COVER, "--json"],
        capture_output=True, text=True, cwd=place, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["episodes"], answer["stopped"], answer["run"]) == (7, "interrupted", "run")
    assert ended(started(place, "resume", "run", "--trust"))[0] == 0


def test_an_import_is_interrupted(place: Path) -> None:
    process = started(place, "cover", "py:importing:World", *COVER, "--json")
    wait_for(place / "there", process)
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert (code, err.strip()) == (130, "covgame: interrupted")
    answer = json.loads(out)
    assert (answer["episodes"], answer["stopped"], answer["run"]) == (0, "interrupted", None)


def test_resume_is_interrupted_while_it_opens_the_run(place: Path) -> None:
    (place / "trap").unlink()
    stopped = started(place, "cover", "py:importing:World", *COVER, "--max-episodes", "5")
    assert ended(stopped)[0] == 3
    (place / "trap").touch()
    process = started(place, "resume", "run", "--trust", "--max-episodes", "6", "--json")
    wait_for(place / "there", process)
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert code == 130, err
    assert err.endswith("covgame: interrupted; nothing is lost\n")
    answer = json.loads(out)
    assert (answer["stopped"], answer["run"], answer["episodes"]) == ("interrupted", "run", None)
    assert answer.keys() == interrupted_answer("cover").keys()


def test_the_answer_of_a_command_that_has_not_begun() -> None:
    assert interrupted_answer("plan") == {"stopped": "interrupted"}
    found = interrupted_answer("identify")
    assert (found["episodes"], found["stopped_by"], found["policy"]) == (0, "interrupted", None)


@pytest.mark.parametrize(
    "after", [0.3, 1.2, *(pytest.param(after, marks=pytest.mark.slow) for after in (0.6, 2.5))]
)
def test_imports_and_the_compiler_are_interrupted(
    after: float, place: Path, tmp_path: Path
) -> None:
    """At any instant, with nothing compiled yet; whatever there is by then can be resumed."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    asked = ("riverswim:states=4,horizon=6", "--target", "uniform:3", "--play", "counts")
    process = started(place, "cover", *asked, "--out", "run", "--quiet", **cache)
    time.sleep(after)
    process.send_signal(signal.SIGTERM)
    code, _, err = ended(process)
    assert code in (130, -signal.SIGTERM, 0)  # the second before the handlers are installed
    assert "Traceback" not in err
    if (place / "run" / "run.db").exists():
        assert ended(started(place, "resume", "run", "--trust", "--quiet"))[0] == 0


# ------------------------------------------------------------------------------- the solver


def dense_program(rows: int = 60, columns: int = 90) -> LinearProgram:
    """A covering program that takes dozens of iterations."""
    rng = np.random.default_rng(0)
    matrix = SparseColumns(
        rows,
        np.arange(0, rows * columns + 1, rows),
        np.tile(np.arange(rows), columns),
        rng.uniform(0.5, 1.5, rows * columns),
    )
    cost = rng.uniform(1.0, 2.0, columns)
    return LinearProgram(cost, np.zeros(columns), matrix, np.ones(rows), np.full(rows, np.inf))


@pytest.mark.parametrize("method", [Method.SIMPLEX, Method.PRIMAL, Method.INTERIOR, Method.VERTEX])
def test_a_signal_cancels_the_solver(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """It arrives in the first iteration, which waits until the solver was told to stop."""
    monkeypatch.setattr(highs, "LARGE", 0)
    monkeypatch.setattr(highs, "SECONDS_TO_CANCEL", FOREVER)
    solver, told = Solver(dense_program(), method), threading.Event()
    cancel = solver.highs.cancelSolve

    def cancel_and_tell() -> None:
        cancel()
        told.set()

    def first_iteration(_event: Any) -> None:
        if not told.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            told.wait(FOREVER)

    monkeypatch.setattr(solver.highs, "cancelSolve", cancel_and_tell)
    solver.highs.cbSimplexInterrupt += first_iteration
    solver.highs.cbIpmInterrupt += first_iteration
    with Interruption(), pytest.raises(KeyboardInterrupt):
        solver.solve()
    assert solver.highs.getModelStatus() == highspy.HighsModelStatus.kInterrupt
    assert solve_value(method) > 0  # others are not affected


def solve_value(method: Method) -> float:
    return Solver(dense_program(), method).solve().value


@pytest.mark.parametrize("cancellable", [True, False])
def test_a_solver_that_cannot_be_cancelled_is_left_behind(
    cancellable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process then ends without unloading the library; other solvers work meanwhile."""
    left, over, exited = threading.Event(), threading.Event(), list[int]()
    monkeypatch.setattr(signals, "_left_behind", left)
    monkeypatch.setattr(os, "_exit", exited.append)
    monkeypatch.setattr(highs, "LARGE", 0)
    monkeypatch.setattr(highs, "SECONDS_TO_CANCEL", FOREVER if cancellable else 0.0)
    solver = Solver(dense_program(), Method.SIMPLEX)
    monkeypatch.setattr(solver, "_run_in_thread", lambda: over.wait(FOREVER))
    monkeypatch.setattr(solver.highs, "cancelSolve", over.set if cancellable else lambda: None)
    with pytest.raises(OutOfTime), signals.time_limit(0.0):
        solver._run_watched()
    signals.exit_at_once(7)
    assert exited == ([] if cancellable else [7])
    assert solve_value(Method.SIMPLEX) > 0
    over.set()


INTERRUPTED_SOLVER = """
import signal
from covgame.cli.main import run
from covgame.flow import highs

run_in_thread = highs.Solver._run_in_thread

def interrupted(self):
    signal.raise_signal(signal.SIGTERM)
    run_in_thread(self)

highs.Solver._run_in_thread = interrupted
run()
"""


def test_plan_is_interrupted_in_the_solver(place: Path) -> None:
    large = ("grid:rows=40,columns=40,horizon=60,slip=0.1", "--target", "uniform:5/pair")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_SOLVER, "plan", *large, "--json"],
        capture_output=True, text=True, cwd=place, check=False, timeout=FOREVER,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert done.stderr.endswith("covgame: interrupted\n")
    assert json.loads(done.stdout) == {"stopped": "interrupted"}


# ------------------------------------------------------------------------- crashes, threads


def test_an_environment_that_crashes_takes_the_process_with_it(place: Path) -> None:
    """What was played is saved; isolated, the step is named and can be avoided."""
    code, _, _ = ended(started(place, "cover", "py:worlds:Crashing", *COVER))
    assert code == -signal.SIGSEGV
    assert cg.load(place / "run").n_episodes == 20
    again = ("--trust", "--isolate", "--on-failure", "avoid", "--max-episodes", "50", "--json")
    code, out, err = ended(started(place, "resume", "run", *again))
    assert code == 3, err
    (failure, *_) = json.loads(out)["failures"]
    assert (failure["state"], failure["action"]) == (0, 1)
    assert "segmentation fault" in failure["error"]


def test_an_isolated_environment_may_crash(place: Path) -> None:
    """Without a time limit; the setting is kept for ``resume``."""
    asked = (*COVER, "--isolate", "--json", "--max-episodes", "25")
    code, out, err = ended(started(place, "cover", "py:worlds:Crashing", *asked))
    assert code == 3, err
    (failure,) = json.loads(out)["failures"]
    assert (failure["episode"], "segmentation fault" in failure["error"]) == (20, True)
    again = ("--trust", "--max-episodes", "50", "--json")
    code, out, err = ended(started(place, "resume", "run", *again))
    assert code == 3, err
    assert sum(one["times"] for one in json.loads(out)["failures"]) > 1


def test_killed_it_can_be_resumed_at_once(place: Path) -> None:
    process = started(place, "cover", "py:worlds:Busy", *COVER)
    wait_for(place / "there", process)
    process.kill()
    ended(process)
    (place / "trap").unlink()
    code, out, err = ended(started(place, "resume", "run", "--trust", "--json"))
    assert code == 0, err
    assert json.loads(out)["covered"]


def test_threads_do_not_keep_a_process_alive(place: Path) -> None:
    (place / "trap").unlink()
    process = started(place, "cover", "py:worlds:Threaded", *COVER, "--json")
    code, out, _ = ended(process)
    assert code == 0
    assert json.loads(out)["covered"]


def test_sighup_is_ignored_under_nohup(place: Path) -> None:
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


def test_exit_codes_and_streams() -> None:
    assert covgame("envs").returncode == 0
    assert covgame("plan", "nothing", "--target", "uniform:1").returncode == 2
    assert covgame("resume", "nothing", "--debug").returncode == 1
    piped = f"{sys.executable} -m covgame envs | head -n 1"
    done = subprocess.run(["sh", "-c", piped], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_while_phi_is_computed_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("covgame.runs.lower_bound.min_flow", interrupted)
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


def test_further_signals_while_the_first_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one interrupts the answer to the first; later ones are ignored."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "_run", interrupted)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {name: signal.getsignal(name) for name in signals.SIGNALS}
    try:
        assert main.run_command() == 130
        assert {signal.getsignal(name) for name in before} == {signal.SIG_IGN}
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def test_an_interrupt_that_python_cannot_raise_is_raised_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Deleted:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", main._interrupt_again)
    monkeypatch.setattr(main, "SECONDS_TO_RETRY", 0.0)
    main._ended.clear()

    def delete_and_wait() -> None:
        Deleted()
        time.sleep(FOREVER)

    with pytest.raises(KeyboardInterrupt):
        delete_and_wait()


def test_an_interrupt_is_not_raised_again_after_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python's exit restores the default handlers, and the signal would end the process."""
    sent: list[int] = []
    monkeypatch.setattr(main, "SECONDS_TO_RETRY", 0.0)
    monkeypatch.setattr(main, "signal_main_thread", sent.append)
    monkeypatch.setattr(main, "_ended", threading.Event())
    main._interrupt_unless_ended()
    assert sent == [signal.SIGINT]
    main._ended.set()
    main._interrupt_unless_ended()
    assert sent == [signal.SIGINT]
