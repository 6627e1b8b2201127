"""One writer at a time: a lock that the system lets go of when its process ends, however."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

from covgame.errors import BadInput, StorageFailed
from covgame.locks import try_lock
from covgame.signals import OneProcess
from covgame.store.files import open_file

NAME = ".lock"

PATIENCE = 2.0
"""Seconds: a process that was just killed may take a moment to be gone."""

SLICE = 0.02


class WriteLock:
    """Held by whoever writes to the folder of a run. Reading needs none.

    Ctrl-C may come right before it is released, in a program that goes on. So it is also released
    when nobody has it any more.
    """

    def __init__(self, folder: Path, patience: float = PATIENCE) -> None:
        self.file: int | None = None
        self.process = OneProcess()
        try:
            self.file = open_file(folder / NAME)
        except StorageFailed as error:
            raise BadInput(f"{folder} cannot be written to: {error}, or make a copy") from error
        self.without = f"a second process may write to {folder} unnoticed"
        if not try_lock(self.file, self.without) and not self._wait(self.file, patience):
            self.release()
            raise BadInput(
                f"another process is writing to {folder}; wait until it is done, and resume then"
            )

    def _wait(self, file: int, patience: float) -> bool:
        """Whether the lock is free within so many seconds."""
        gc.collect()  # of this process there may be one that nobody has any more
        until = time.monotonic() + patience
        while not (free := try_lock(file, self.without)) and time.monotonic() < until:
            time.sleep(SLICE)
        return free

    def release(self) -> None:
        """Let others write."""
        file, self.file = self.file, None
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        self.release()

    def __enter__(self) -> WriteLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
