"""Processes that do not outlive whoever started them, however that ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
SECONDS_BETWEEN_LOOKS = 1.0


def end_with_parent() -> None:
    """Have this process killed when its parent ends, also while it hangs in foreign code."""
    parent = os.getppid()
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, int(signal.SIGKILL))
    threading.Thread(target=_look, args=(parent,), daemon=True).start()


def _look(parent: int) -> None:
    """Where the system does not see to it, or it ended just before."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
