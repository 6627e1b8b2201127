"""What differs on Windows, as far as that can be tried here (docs/platforms.md)."""

from __future__ import annotations

import ast
import errno
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from covgame import signals
from covgame.errors import StorageFailed
from covgame.failures import Failure, Failures
from covgame.sources import stepped
from covgame.storage import files

SOURCE = Path(__file__).parent.parent / "src" / "covgame"

WITHOUT_POSIX = """
import importlib, os, pkgutil, signal, sys, types
import multiprocessing, numba, pyarrow.parquet, gymnasium, highspy, rich.progress, subprocess
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # importing it raises ImportError
sys.modules["msvcrt"] = types.SimpleNamespace(locking=lambda *_: None, LK_NBLCK=2)
for name in ("fork", "nice", "sysconf", "O_NOFOLLOW", "O_CLOEXEC", "WNOHANG", "WIFSIGNALED",
             "killpg", "setsid", "geteuid", "getuid", "sched_getaffinity", "register_at_fork"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGCHLD", "SIGALRM", "SIGUSR1", "pthread_sigmask",
             "pthread_kill", "setitimer"):
    if hasattr(signal, name):
        delattr(signal, name)
import covgame as cg
for module in pkgutil.walk_packages(cg.__path__, "covgame."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
lake = "gym:FrozenLake-v1?is_slippery=false"
print(cg.cover(lake, "uniform:2/pair", horizon=8, out="lake", max_episodes=3).covered)
print(cg.resume("lake", max_episodes=500).covered, flush=True)
sys.argv = ["covgame", "certify", "lake", "--json"]
from covgame.cli.main import run
run()
"""
"""Everything is imported, a run played, stopped, resumed and checked without what Windows lacks."""


def test_nothing_needs_what_windows_lacks(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    stopped, resumed, checked = done.stdout.splitlines()
    assert (stopped, resumed) == ("False", "True")
    assert json.loads(checked)["valid"]


def test_text_files_name_their_encoding() -> None:
    """Windows' own is not UTF-8, and labels of states are anything."""
    careless = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _opens_text(node)
    ]
    assert careless == []


def _opens_text(call: ast.Call) -> bool:
    """Whether a call reads or writes text without saying how it is encoded."""
    name = ast.unparse(call.func)
    if any(keyword.arg in ("encoding", "mode") for keyword in call.keywords) or name == "os.open":
        return False
    if name.endswith((".read_text", ".write_text")):
        return True
    words = [one.value for one in call.args if isinstance(one, ast.Constant)]
    mode = re.compile(r"[rwax]\+?t?")
    is_text = any(isinstance(word, str) and mode.fullmatch(word) for word in words)
    return name.split(".")[-1] in ("open", "fdopen") and is_text


# ------------------------------------------------------------------------- files and locks


def busy(times: int, seen: list[int]) -> Any:
    """A file that somebody else has open for a while."""

    def change() -> None:
        seen.append(1)
        if len(seen) <= times:
            raise PermissionError(errno.EACCES, "used by another process")

    return change


def test_windows_waits_for_whoever_has_a_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ON_WINDOWS", True)
    seen: list[int] = []
    files._retry(busy(3, seen))
    assert len(seen) == 4


def test_windows_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "ON_WINDOWS", True)
    monkeypatch.setattr(files, "PATIENCE", 0.0)
    monkeypatch.setattr(files, "SLICE", 0.0)
    monkeypatch.setattr(Path, "replace", lambda *_: busy(10**6, [])())
    with pytest.raises(StorageFailed):
        files.write_whole(tmp_path / "report.html", b"{}")
    assert list(tmp_path.iterdir()) == []  # no draft is left behind


def test_elsewhere_a_refusal_is_final() -> None:
    seen: list[int] = []
    with pytest.raises(PermissionError):
        files._retry(busy(1, seen))
    assert len(seen) == 1


# ---------------------------------------------------------------------- processes, signals


@pytest.mark.skipif(not hasattr(signal, "SIGUSR2"), reason="a signal plays the part of another")
def test_ctrl_break_stops_in_good_order() -> None:
    """SIGBREAK is what Windows sends for it; the name is looked up where it exists."""
    script = (
        "import signal; signal.SIGBREAK = signal.SIGUSR2; import covgame.signals as one; "
        "print(signal.SIGUSR2 in one.SIGNALS)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
    assert signal.SIGUSR2 not in signals.SIGNALS


@pytest.mark.parametrize("apart", [True, False])
def test_after_a_death_it_is_isolated_where_that_is_possible(
    monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    """Elsewhere a run can still be resumed, in this process."""
    monkeypatch.setattr(stepped, "HAS_WORKER_PROCESSES", apart)
    death = Failure(0, 0, 0, "its process ended", (), died=True)
    assert stepped.FailurePolicy(failures=Failures([death])).isolates is apart
    assert stepped.FailurePolicy(step_timeout=1.0).isolates
