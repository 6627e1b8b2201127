"""One writer at a time: a lock that the system lets go of when its process ends, however."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from covgame.errors import BadInput, StorageFailed
from covgame.store.files import open_file

try:
    import fcntl
except ImportError:  # Windows locks bytes of files instead
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


PATIENCE = 2.0
"""Seconds: a process that was just killed may take a moment to be gone."""

SLICE = 0.02


class WriteLock:
    """Held by whoever writes to the folder of a run. Reading needs none."""

    def __init__(self, folder: Path, patience: float = PATIENCE) -> None:
        try:
            self.file = open_file(folder / NAME)
        except StorageFailed as error:
            raise BadInput(f"{folder} cannot be written to: {error}, or make a copy") from error
        until = time.monotonic() + patience
        while not (free := _lock(self.file)) and time.monotonic() < until:
            time.sleep(SLICE)
        if not free:
            os.close(self.file)
            raise BadInput(
                f"another process is writing to {folder}; wait until it is done, and resume then"
            )

    def release(self) -> None:
        """Let others write."""
        os.close(self.file)

    def __enter__(self) -> WriteLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _lock(file: int) -> bool:
    """Whether the lock was free; where a file system has no locks, it always is."""
    try:
        if fcntl is None:
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in TAKEN
    return True
