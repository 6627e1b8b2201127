"""Ctrl-C at a moment that suits: the wish is noted, and whoever works stops in good order.

Long work asks now and then whether to go on (``check``): somebody may want to stop it, or have
given it so many seconds (``time_limit``).
"""

from __future__ import annotations

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
"""Ctrl-C, being told to end, a terminal that is gone, and on Windows Ctrl-Break."""


PR_SET_PDEATHSIG = 1
SECONDS_BETWEEN_LOOKS = 0.2


def heeded() -> list[signal.Signals]:
    """Those that mean something to this process: after ``nohup`` a terminal may go."""
    return [
        name
        for name in SIGNALS
        if name.name != "SIGHUP" or signal.getsignal(name) != signal.SIG_IGN
    ]


def end_with(parent: int) -> None:
    """Whoever kills the parent of this process kills this one, also if that was a moment ago."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # whatever this one is busy with
        if os.getppid() != parent:
            os._exit(1)
        return

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


_ends: ContextVar[float] = ContextVar("_ends", default=math.inf)
"""When the time of this thread's work is over, by the monotonic clock."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Give what is done inside so many seconds; ``check`` then raises ``OutOfTime``."""
    token = _ends.set(min(_ends.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends.reset(token)


def seconds_left() -> float:
    """Until the time is over; infinite if there is no limit."""
    return _ends.get() - time.monotonic()


def check() -> None:
    """Break off if somebody wants to stop, or the time is over.

    For long work that leaves nothing half done.
    """
    if any(one.wanted for one in Interruption.entered):
        raise KeyboardInterrupt
    if seconds_left() <= 0:
        raise OutOfTime("the time is over")


_left_behind = threading.Event()
"""Set once a thread of somebody else's works on that hears nothing."""


def leave_behind() -> None:
    """Hear of such a thread, which nobody waits for."""
    _left_behind.set()


def exit_at_once(code: int) -> None:
    """When all is saved and said: end the process, if a thread was left behind; else return.

    Python's own way out takes libraries apart beneath a thread that still uses them, which some
    answer by aborting the process.
    """
    if _left_behind.is_set():
        os._exit(code)


class OneProcess:
    """Ends a process that was forked from the one which made this, as soon as it is noticed.

    Code of others may fork and return, or raise ``SystemExit``, in the child. The child must not go
    on with our work: it ends without saving, and without printing what its parent has buffered.
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
    """While it is entered, the first Ctrl-C only sets ``wanted``; a second one breaks off."""

    entered: ClassVar[list[Interruption]] = []

    def __init__(self) -> None:
        self.wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        Interruption.entered.append(self)
        if threading.current_thread() is threading.main_thread():
            self._before = {name: signal.signal(name, self._note) for name in heeded()}
        return self

    def __exit__(self, *_: object) -> None:
        Interruption.entered.remove(self)
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


class Indivisible:
    """Work to be done as a whole: ``broken`` once anything got out of the middle of it.

    A second Ctrl-C may come between any two lines. What is in memory then does not belong together
    and must not be saved. An environment that fails does so between episodes, not amidst them, and
    so does a disk.
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
