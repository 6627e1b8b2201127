"""Run a command of covgame in a process of its own, and send signals to it.

Importing everything takes a second, forking a process that has done so a few milliseconds. That
makes thousands of attacks affordable.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MAX_OUTPUT = 2_000_000
SECONDS_BETWEEN_LOOKS = 0.001

Task = Sequence[str] | Callable[[], int]
"""The arguments of a command, or a function that returns an exit code."""


@dataclass(frozen=True)
class Strike:
    """A signal, sent ``delay`` seconds after the start of a process.

    If ``after`` names a file, the delay begins when it exists.
    """

    delay: float
    number: signal.Signals
    after: Path | None = None


@dataclass(frozen=True)
class Ending:
    """How a process ended; ``code`` is minus the number of the signal that killed it."""

    code: int
    seconds: float
    out: str
    err: str
    timed_out: bool = False

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL and not self.timed_out

    def __str__(self) -> str:
        how = f"exit {self.code}" if self.code >= 0 else signal.Signals(-self.code).name
        last = self.err.strip().splitlines()[-1:] or [""]
        return f"{'time limit, ' if self.timed_out else ''}{how} {last[0][:300]}".strip()


@dataclass
class Started:
    """A running process; its output goes to files in its folder."""

    pid: int
    began: float
    outputs: tuple[Path, Path]
    handle: int

    def ends_within(self, seconds: float) -> bool:
        """Wait at most so long; whether the process has ended."""
        ready, _, _ = select.select([self.handle], [], [], max(0.0, seconds))
        return bool(ready)

    def wait(self, strikes: Sequence[Strike] = (), limit: float = 60.0) -> Ending:
        """Send the signals, wait for the end, and kill the process after ``limit`` seconds."""
        for one in sorted(strikes, key=lambda one: one.delay):
            since = self.began
            if one.after is not None:
                while not one.after.exists() and not self.ends_within(SECONDS_BETWEEN_LOOKS):
                    since = time.monotonic()
            if not self.ends_within(since + one.delay - time.monotonic()):
                os.kill(self.pid, one.number)
        timed_out = not self.ends_within(self.began + limit - time.monotonic())
        if timed_out:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self.began
        os.close(self.handle)
        with suppress(ProcessLookupError):  # a killed process may leave workers
            os.killpg(self.pid, signal.SIGKILL)
        out, err = (_start_of(path) for path in self.outputs)
        return Ending(os.waitstatus_to_exitcode(status), seconds, out, err, timed_out)


def _start_of(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_OUTPUT).decode(errors="replace")


def start(task: Task, folder: Path, prepare: Callable[[], None] | None = None) -> Started:
    """Run ``covgame ARGUMENTS`` in a folder; ``prepare`` is called first, in the new process."""
    number = len(list(folder.glob(".output-*")))
    outputs = folder / f".output-{number}", folder / f".output-{number}-errors"
    for path in outputs:
        path.touch()
    sys.stdout.flush()
    sys.stderr.flush()
    began = time.monotonic()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the command can handle them
    pid = os.fork()
    if pid == 0:
        _run_and_exit(task, folder, outputs, prepare)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    return Started(pid, began, outputs, os.pidfd_open(pid))


def run(
    task: Task,
    folder: Path,
    *,
    strikes: Sequence[Strike] = (),
    prepare: Callable[[], None] | None = None,
    limit: float = 60.0,
) -> Ending:
    """``start`` a process, and wait for its end."""
    return start(task, folder, prepare).wait(strikes, limit)


def _run_and_exit(
    task: Task, folder: Path, outputs: tuple[Path, Path], prepare: Callable[[], None] | None
) -> NoReturn:
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        for number, path in enumerate(outputs, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
        sys.stdin = open(os.devnull)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        for name in SIGNALS:
            signal.signal(name, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        sys.path.insert(0, str(folder))
        if prepare is not None:
            prepare()
        code = task() if callable(task) else call(task)
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()
        os._exit(code)


def call(arguments: Sequence[str]) -> int:
    """What the command ``covgame`` does; its exit code."""
    from covgame.cli.main import run_command

    sys.argv = ["covgame", *arguments]
    return run_command()
