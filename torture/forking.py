"""A command of covgame in a process of its own, which can be struck at any instant.

To start Python and to import everything takes a second, to fork a process that has done so a few
milliseconds: that is what makes thousands of attacks possible.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU)
MOST_OUTPUT = 2_000_000

Task = Sequence[str] | Callable[[], int]
"""The words of a command, or a function that returns an exit code."""


@dataclass(frozen=True)
class Strike:
    """A signal, so many seconds after a process has begun."""

    after: float
    what: signal.Signals


@dataclass(frozen=True)
class Ending:
    """How a command has ended; ``code`` is minus the signal that has killed it."""

    code: int
    seconds: float
    out: str
    err: str
    late: bool = False  # it did not end by itself and was killed

    def __str__(self) -> str:
        how = f"exit {self.code}" if self.code >= 0 else signal.Signals(-self.code).name
        last = self.err.strip().splitlines()[-1:] or [""]
        return f"{'no end, ' if self.late else ''}{how} {last[0][:300]}".strip()


@dataclass
class Started:
    """A process that runs a command in a folder, whose output goes to files beside it."""

    pid: int
    began: float
    out: Path
    err: Path
    handle: int = field(default=-1)

    def ended_within(self, seconds: float) -> bool:
        """Wait at most so long; whether it is over by then."""
        ready, _, _ = select.select([self.handle], [], [], max(0.0, seconds))
        return bool(ready)

    def send(self, what: signal.Signals) -> None:
        """To the process, and not to others of its group."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, what)

    def wait(self, strikes: Sequence[Strike] = (), limit: float = 60.0) -> Ending:
        """Strike, wait, and at the latest after ``limit`` seconds kill whatever is left."""
        for one in sorted(strikes, key=lambda one: one.after):
            if not self.ended_within(self.began + one.after - time.monotonic()):
                self.send(one.what)
        late = not self.ended_within(self.began + limit - time.monotonic())
        if late:
            self.send(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self.began
        os.close(self.handle)
        end_family(self.pid)
        code = os.waitstatus_to_exitcode(status)
        return Ending(code, seconds, _said(self.out), _said(self.err), late)


def family(session: int) -> list[int]:
    """The processes of a session that are still there."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(place.name))
    return found


def end_family(session: int, patience: float = 0.0) -> int:
    """Kill what a process has left behind, after a while; how many these were."""
    until = time.monotonic() + patience
    while (left := family(session)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while family(session):
        time.sleep(0.005)
    return len(left)


def _said(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MOST_OUTPUT).decode(errors="replace")


def start(
    task: Task,
    folder: Path,
    prepare: Callable[[], None] | None = None,
) -> Started:
    """Run ``covgame WORDS`` in a folder; ``prepare`` is called in the new process before that."""
    number = len(list(folder.glob(".said-*.out")))
    out, err = folder / f".said-{number}.out", folder / f".said-{number}.err"
    out.touch()
    err.touch()
    sys.stdout.flush()
    sys.stderr.flush()
    began = time.monotonic()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # in the suite's own code they mean nothing
    pid = os.fork()
    if pid == 0:
        _become(task, folder, (out, err), prepare)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    return Started(pid, began, out, err, os.pidfd_open(pid))


def run(
    task: Task,
    folder: Path,
    *,
    strikes: Sequence[Strike] = (),
    prepare: Callable[[], None] | None = None,
    limit: float = 60.0,
) -> Ending:
    """The same, and wait for its end."""
    return start(task, folder, prepare).wait(strikes, limit)


def _become(
    task: Task,
    folder: Path,
    outputs: tuple[Path, Path],
    prepare: Callable[[], None] | None,
) -> NoReturn:
    """What ``python -m covgame WORDS`` would do; never returns."""
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        for number, path in enumerate(outputs, start=1):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
            os.dup2(file, number)
        sys.stdin = open(os.devnull)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        for name in SIGNALS:  # until covgame itself says what is to be done with them
            signal.signal(name, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        sys.path.insert(0, str(folder))
        if prepare is not None:
            prepare()
        code = task() if callable(task) else call(task)
    except BaseException:  # what the interpreter would do with it
        with suppress(BaseException):
            traceback.print_exc()
        code = 1
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
        with suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


def call(words: Sequence[str]) -> int:
    """Run a command in this process; its exit code."""
    from covgame.cli.main import run_command

    sys.argv = ["covgame", *words]
    return run_command()
