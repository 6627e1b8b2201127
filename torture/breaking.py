"""Calls of the system that write, taken down or made to go wrong, in the process that makes them.

Python's own ``os`` is wrapped, so that nothing depends on what the store says of itself.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

Fault = Literal["none", "before", "after", "half", "full", "error"]
"""Die before or after a call, or with half of it written; a disk that is full from then on; an
error of the disk, once."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
BY_PATH = ("unlink", "remove", "mkdir", "rmdir", "replace", "rename", "truncate", "link")
BY_FILE = ("fsync", "ftruncate", "write", "posix_fallocate")
NEEDS_ROOM = ("open", "write", "mkdir", "fsync", "ftruncate", "posix_fallocate")

_system = {name: getattr(os, name) for name in (*BY_PATH, *BY_FILE, "open")}


class Breaker:
    """Counts calls that change something below a folder, and spoils one of them."""

    def __init__(self, below: Path, fault: Fault = "none", at: int = -1) -> None:
        self.below, self.fault, self.at = os.path.realpath(below), fault, at
        self.calls: list[tuple[str, str]] = []

    def install(self) -> None:
        """From now on, in this process."""
        for name in BY_PATH:
            setattr(os, name, self._by_path(name))
        for name in BY_FILE:
            setattr(os, name, self._by_file(name))
        os.open = self._open
        io.open = builtins.open = self._buffered(io.open)

    def save(self, path: Path) -> None:
        """What was called, for those who are to break it."""
        Path(path).write_text(json.dumps(self.calls))

    def _concerns(self, path: Any) -> bool:
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        where = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return str(where).startswith(self.below + os.sep) or str(where) == self.below

    def reached(self, number: int) -> None:
        """Before a call, for those who want to know."""

    def happened(self, name: str, path: str) -> None:
        """After it."""

    def _spoilt(self, name: str, path: Any, do: Callable[[], Any], half: Callable[[], Any]) -> Any:
        number, where = len(self.calls), _called(path)
        self.calls.append((name, where))
        self.reached(number)
        if number == self.at and self.fault == "half":
            half()
            die()
        if number == self.at and self.fault == "before":
            die()
        if number == self.at and self.fault == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO), where)
        if 0 <= self.at <= number and self.fault == "full" and name in NEEDS_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), where)
        done = do()
        self.happened(name, where)
        if number == self.at and self.fault == "after":
            die()
        return done

    def _by_path(self, name: str) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            def do() -> Any:
                return _system[name](path, *rest, **named)

            return self._spoilt(name, path, do, do) if self._concerns(path) else do()

        return call

    def _by_file(self, name: str) -> Callable[..., Any]:
        def call(file: int, *rest: Any) -> Any:
            def do() -> Any:
                return _system[name](file, *rest)

            def half() -> Any:
                content = memoryview(rest[0])[: len(rest[0]) // 2] if name == "write" else None
                return (
                    _system[name](file, *rest) if content is None else _system[name](file, content)
                )

            return self._spoilt(name, file, do, half) if self._concerns(file) else do()

        return call

    def _open(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        def do() -> int:
            opened: int = _system["open"](path, flags, *rest, **named)
            return opened

        if not flags & WRITING or not self._concerns(path):
            return do()
        opened: int = self._spoilt("open", path, do, do)
        return opened

    def _buffered(self, before: Callable[..., Any]) -> Callable[..., Any]:
        """Files of Python's own write through ``os.write`` as well."""

        def call(path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            if mode != "wb" or isinstance(path, int) or not self._concerns(path):
                return before(path, mode, *rest, **named)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            return io.BufferedWriter(_Raw(self._open(path, flags, 0o666), "wb"))

        return call


class _Raw(io.FileIO):
    def write(self, content: Any) -> int:
        return os.write(self.fileno(), content)


def _called(path: Any) -> str:
    if isinstance(path, int):
        try:
            path = os.readlink(f"/proc/self/fd/{path}")
        except OSError:
            return str(path)
    return str(path)


def die() -> None:
    """Without a word."""
    os.kill(os.getpid(), signal.SIGKILL)
