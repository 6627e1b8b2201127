"""Files that appear whole or not at all, under a draft's name until they are finished.

Nothing is written through a symbolic link. Whatever the disk refuses becomes one ``StorageFailed``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from covgame.errors import BadInput, StorageFailed

fault: Callable[[str, Path], None] | None = None
"""For tests: called with (operation, path) before each of open, write, fsync, rename, unlink, mkdir
and commit, and with ("after write", path) and so on when it is done. It may kill the process, or
raise the ``OSError`` that a disk would."""

NEW = (
    os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)
DRAFT = ".draft"

ON_WINDOWS = os.name == "nt"
PATIENCE = 2.0
"""Seconds: Windows replaces and removes no file that another process has open."""

SLICE = 0.02


def at(operation: str, path: Path) -> None:
    """Let a test fail an operation."""
    if fault is not None:
        try:
            fault(operation, path)
        except OSError as error:
            raise StorageFailed.at(path, error) from error


@contextlib.contextmanager
def _operation(name: str, path: Path) -> Iterator[None]:
    at(name, path)
    try:
        yield
    except OSError as error:
        raise StorageFailed.at(path, error) from error
    at(f"after {name}", path)


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file so that at any instant the old or the new one is there, never a part.

    When it returns, the file survives a power cut: its content and its name were synchronised.
    """
    draft = draft_of(path)
    try:
        with _operation("open", draft):
            file = os.open(draft, NEW, 0o644)
        try:
            with _operation("write", draft):
                done = 0
                while done < len(content):
                    done += os.write(file, memoryview(content)[done:])
        finally:
            os.close(file)
        put_in_place(draft, path)
    except BaseException:
        discard(draft)
        raise


def draft_of(path: Path) -> Path:
    """An unused name beside a file, for what will replace it."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")


def put_in_place(draft: Path, path: Path, *, new: bool = False) -> None:
    """Synchronise a draft, and give it its name; if it is ``new``, the name has to be free."""
    with _operation("fsync", draft):
        _sync(draft)
    with _operation("rename", path):
        _retry(lambda: _rename_new(draft, path) if new else draft.replace(path))
    if not ON_WINDOWS:  # which synchronises names by itself
        with _operation("fsync", path.parent):
            _sync(path.parent)


def _rename_new(draft: Path, path: Path) -> None:
    """Rename a file, unless the name is taken; file systems without hard links do not check."""
    if ON_WINDOWS:
        draft.rename(path)
        return
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:
        draft.replace(path)
    else:
        draft.unlink()


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDWR if ON_WINDOWS else os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    with _operation("unlink", path):
        _retry(lambda: path.unlink(missing_ok=True))


def _retry(change: Callable[[], object]) -> None:
    """Change a name, on Windows as soon as no process has the file open any more."""
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
    """Make a folder and those above it, unless it is there."""
    with _operation("mkdir", path):
        path.mkdir(parents=True, exist_ok=True)


def discard(draft: Path) -> None:
    """Remove a file that is of no use, if that works."""
    with contextlib.suppress(OSError):
        draft.unlink(missing_ok=True)


def discard_drafts(folder: Path) -> None:
    """Remove the drafts of killed processes; only the writer of a run may do so."""
    for draft in folder.glob(f".*{DRAFT}"):
        discard(draft)


def inside(folder: Path, name: str | Path) -> Path:
    """``folder / name``, refused if a symbolic link leads from there to another place."""
    path = folder
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink():
            raise BadInput(
                f"{path} is a symbolic link, and a run has to lie in its own folder; put the files "
                "themselves there"
            )
    return path
