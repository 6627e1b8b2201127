"""Locks on files, which the system releases when their process ends, however it ends."""

from __future__ import annotations

import errno
import threading
import warnings

from covgame.errors import CovgameWarning

try:
    import fcntl
except ImportError:  # Windows locks bytes of files instead
    fcntl = None  # type: ignore[assignment]

TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)

HAS_FLOCK = fcntl is not None

_warned = threading.Event()


def try_lock(file: int, without: str) -> bool:
    """Whether the lock of an open file was free, and is ours now.

    Some file systems have no locks, such as NFS without its lock daemon. There it is taken to be
    free, and a warning says once what that may lead to: ``without``.
    """
    try:
        if fcntl is None:
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        if not _warned.is_set():
            _warned.set()
            reason = error.strerror or error
            message = f"the file system has no locks ({reason}); without them {without}"
            warnings.warn(message, CovgameWarning, stacklevel=2)
    return True
