"""Signals and time limits.

SIGINT (Ctrl-C), SIGTERM and SIGHUP stop a run in good order (``Interruption``). Long computations
call ``check``, which raises when a signal has arrived or the time limit is over (``time_limit``).
"""

from __future__ import annotations

import _thread
import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any, ClassVar

from covgame.errors import EnvironmentFailed, OutOfTime, StorageFailed

SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)
"""The signals that end a command; SIGBREAK is Ctrl-Break on Windows."""

GRACE_SECONDS = 2.0
"""Time between the first signal and the interruption of work that does not stop by itself."""

PR_SET_PDEATHSIG = 1
SECONDS_BETWEEN_LOOKS = 0.2


def handled_signals() -> list[signal.Signals]:
    """``SIGNALS`` without SIGHUP where that is ignored, as under ``nohup``."""
    return [
        name
        for name in SIGNALS
        if name.name != "SIGHUP" or signal.getsignal(name) != signal.SIG_IGN
    ]


def signal_main_thread(number: int) -> None:
    """Send a signal to the main thread; on POSIX it also wakes it from a system call."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


def end_with(parent: int) -> None:
    """End this process when its parent ends, also if that has happened already."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        return

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


_ends: ContextVar[float] = ContextVar("_ends", default=math.inf)
"""End of the time limit of this thread, by the monotonic clock."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit the time of the block; ``check`` then raises ``OutOfTime``."""
    token = _ends.set(min(_ends.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends.reset(token)


def seconds_left() -> float:
    """Seconds until the time limit; infinite without one."""
    return _ends.get() - time.monotonic()


def check() -> None:
    """Raise ``KeyboardInterrupt`` after a signal, ``OutOfTime`` when the time limit is over.

    For long computations that leave nothing half done.
    """
    if any(one.requested for one in Interruption.entered):
        raise KeyboardInterrupt
    if seconds_left() <= 0:
        raise OutOfTime("the time limit is over")


_left_behind = threading.Event()
"""Set if a solver could not be cancelled and still runs in its thread."""


def leave_behind() -> None:
    """Note that a thread still runs in compiled code and cannot be stopped."""
    _left_behind.set()


def exit_at_once(code: int) -> None:
    """End the process without cleaning up if a thread was left behind; else return.

    Python's normal exit unloads libraries that such a thread still uses, and some then abort.
    """
    if _left_behind.is_set():
        os._exit(code)


class OneProcess:
    """Ends a process that was forked from the one that created this object.

    Foreign code may fork and return, or raise ``SystemExit``, in the child. The child must not
    continue the run: it exits without saving and without printing what its parent has buffered.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()

    def check(self, error: BaseException | None = None) -> None:
        """Return in the process itself; ``error`` is what the child was about to end with."""
        if os.getpid() == self.pid:
            return
        code: object = 0 if error is None else 1
        if isinstance(error, SystemExit):
            code = error.code or 0
        os._exit(code & 0xFF if isinstance(code, int) else 1)

    def __enter__(self) -> OneProcess:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.check(error)


class Interruption:
    """Defers signals: the first one sets ``requested``, a second one raises ``KeyboardInterrupt``.

    Work that has not called ``stopping`` within ``GRACE_SECONDS`` of the first signal is
    interrupted as by a second one, again and again: it may sit in a step of an environment.
    """

    entered: ClassVar[list[Interruption]] = []

    def __init__(self) -> None:
        self.requested = False
        self._noticed = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        Interruption.entered.append(self)
        if threading.current_thread() is threading.main_thread():
            self._before = {name: signal.signal(name, self._handle) for name in handled_signals()}
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping()
        Interruption.entered.remove(self)
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def stopping(self) -> None:
        """End the grace period: what remains is to save."""
        self._noticed.set()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        # Not threading.Thread: a signal handler must not wait for its locks.
        _thread.start_new_thread(self._interrupt_after_grace, (number,))

    def _interrupt_after_grace(self, number: int) -> None:
        while not self._noticed.wait(GRACE_SECONDS):
            signal_main_thread(number)


class AtomicSection:
    """A section whose effects belong together: ``broken`` if an exception left it half done.

    ``KeyboardInterrupt`` may be raised between any two lines. The state in memory is then
    inconsistent and must not be saved. Failures of the environment or the disk are raised between
    episodes and leave a consistent state.
    """

    broken = False

    def __enter__(self) -> None:
        self.broken = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self.broken = kind is not None and not issubclass(kind, EnvironmentFailed | StorageFailed)
