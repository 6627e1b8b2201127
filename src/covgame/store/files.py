"""Every change that a run makes on disk: each kind of operation stands here, and only here.

A file appears whole or not at all, under any name but its own until it is finished. Nothing is
written through a symbolic link. Whatever the disk refuses becomes one ``StorageFailed``.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from covgame.errors import BadInput, StorageFailed

fault: Callable[[str, Path], None] | None = None
"""For tests: called with (operation, path) before each of open, write, fsync, rename, unlink and
truncate, and with ("after write", path) and so on when it is done. It may kill the process, or
raise the ``OSError`` that a disk would."""

NEW = os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag, and hardly any links
DRAFT = ".draft"

ON_WINDOWS = os.name == "nt"
PATIENCE = 2.0
"""Seconds: Windows replaces and removes no file that somebody has open, a scanner for one."""

SLICE = 0.02


class _Operation:
    """Around a call of the system; no generator, because an entry of a journal is one of these."""

    __slots__ = ("name", "path")

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path

    def __enter__(self) -> None:
        if fault is not None:
            self._meet(fault, self.name)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            raise StorageFailed.at(self.path, error) from error
        if error is None and fault is not None:
            self._meet(fault, f"after {self.name}")

    def _meet(self, happen: Callable[[str, Path], None], moment: str) -> None:
        try:
            happen(moment, self.path)
        except OSError as error:
            raise StorageFailed.at(self.path, error) from error


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file so that at any instant the old or the new one is there, never a part.

    When it returns, the file outlives a power cut: its content and its name were synchronised.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    file = open_file(draft, os.O_EXCL)
    try:
        try:
            write(file, content, draft)
            sync(file, draft)
        finally:
            os.close(file)
        with _Operation("rename", path):
            _patiently(lambda: draft.replace(path))
    except BaseException:
        discard(draft)
        raise
    sync_folder(path.parent)


def open_file(path: Path, flags: int = 0) -> int:
    """A file to be written to, made if it is not there; never what a link points to."""
    with _Operation("open", path):
        access = 0 if flags & os.O_RDWR else os.O_WRONLY
        return os.open(path, NEW | NO_LINK | access | flags, 0o644)


def write(file: int, content: bytes | memoryview, path: Path) -> None:
    """All of it, however little the system takes at a time."""
    with _Operation("write", path):
        done = os.write(file, content) if content else 0
        while done < len(content):
            done += os.write(file, memoryview(content)[done:])


def sync(file: int, path: Path) -> None:
    """Wait until what was written outlives a power cut."""
    with _Operation("fsync", path):
        os.fsync(file)


def sync_folder(folder: Path) -> None:
    """The same of the names in a folder; where folders cannot be opened, there is nothing to do."""
    if os.name == "nt":
        return
    with _Operation("fsync", folder):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def truncate(file: int, size: int, path: Path) -> None:
    """Cut a file, and go on writing there."""
    with _Operation("truncate", path):
        os.ftruncate(file, size)
        os.lseek(file, size, os.SEEK_SET)


def remove(path: Path) -> None:
    """If it is there."""
    with _Operation("unlink", path):
        _patiently(lambda: path.unlink(missing_ok=True))


def _patiently(change: Callable[[], object]) -> None:
    """Do it, on Windows as soon as nobody has the file open any more."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            change()
        except PermissionError:
            if not ON_WINDOWS or time.monotonic() > until:
                raise
            time.sleep(SLICE)
        else:
            return


def make_folder(path: Path) -> None:
    """With all that are above it, unless it is there."""
    with _Operation("mkdir", path):
        path.mkdir(parents=True, exist_ok=True)


def discard(draft: Path) -> None:
    """Remove a file that nobody will miss, if that works."""
    try:
        draft.unlink(missing_ok=True)
    except OSError:
        return


def discard_drafts(folder: Path) -> None:
    """What processes have left that were killed while they wrote; only for who holds the lock."""
    for draft in folder.glob(f".*{DRAFT}"):
        discard(draft)


def inside(folder: Path, name: str | Path) -> Path:
    """``folder / name``, refused if a link leads from there to somewhere else."""
    path = folder
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink():
            raise BadInput(
                f"{path} is a symbolic link, and a run has to lie in its own folder; put the files "
                "themselves there"
            )
    return path
