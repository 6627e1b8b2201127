"""One writer at a time: a lock that the system lets go of when its process ends, however."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from covgame.errors import BadInput

NAME = ".lock"
TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


class WriteLock:
    """Held by whoever writes to the folder of a run. Reading needs none."""

    def __init__(self, folder: Path) -> None:
        try:
            self.file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise BadInput(
                f"{folder} cannot be written to: {error.strerror}; make it writable, or a copy"
            ) from error
        if not _lock(self.file):
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
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in TAKEN
    return True
