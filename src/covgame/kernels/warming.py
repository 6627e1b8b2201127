"""Compile in another process, and play readable episodes meanwhile (decision 15).

What one process compiles, all others find on disk. A lock beside it says that somebody is at it;
the system opens it when that process ends, however it ends.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from covgame import locks
from covgame.kernels.compiling import folder_of, is_kept, types_of

Call = tuple[Any, Sequence[Any]]
"""A compiled function, and what it will be called with."""


class Warming:
    """The compiling of some functions for the arguments of some calls, by whichever process."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.wanted = [(function, types_of(arguments)) for function, arguments in calls]
        self.child: subprocess.Popen[bytes] | None = None

    def is_over(self) -> bool:
        """Whether to call: there is nothing left to compile, or nobody else can do it for us."""
        if self.child is not None:
            return self.child.poll() is not None
        folder = folder_of(self.wanted[0][0])
        if folder is None or not locks.HAS_FLOCK or not sys.executable:
            return True
        try:
            lock = self._lock_file(folder)
        except OSError:
            return True
        with lock:
            without = f"several processes may compile to {folder} at the same time"
            if not locks.try_lock(lock.fileno(), without):  # another process compiles
                return False
            if not all(is_kept(*one) for one in self.wanted):
                self.child = self._start(lock)
        return self.child is None

    def _lock_file(self, folder: Path) -> IO[bytes]:
        name = sha256(repr(self._named()).encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / f"warming-{name}.lock").open("wb")

    def _named(self) -> list[tuple[str, str, Any]]:
        return [(one.__module__, one.py_func.__name__, types) for one, types in self.wanted]

    def _start(self, lock: IO[bytes]) -> subprocess.Popen[bytes] | None:
        """Another process that compiles, and holds the lock until it ends; None if it cannot be.

        Nothing that is typed at this terminal reaches it. It may outlive this process: the next one
        will be glad of what it leaves.
        """
        path = os.pathsep.join(filter(None, sys.path))
        try:
            child = _Child(
                [sys.executable, "-P", "-m", "covgame.kernels.warming"],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[lock.fileno()],
            )
            with child.stdin as request:  # type: ignore[union-attr]
                request.write(pickle.dumps(self._named()))
        except OSError:
            return None
        return child


class _Child(subprocess.Popen[bytes]):
    def __del__(self) -> None:
        """Popen would complain that it is still running."""


def compile_wanted(request: IO[bytes]) -> None:
    """Compile what a process asks for, which keeps it on disk."""
    for module, name, types in pickle.load(request):  # noqa: S301 (from our own process)
        getattr(import_module(module), name).compile(types)


if __name__ == "__main__":
    os.nice(10)  # whoever plays goes first
    compile_wanted(sys.stdin.buffer)
