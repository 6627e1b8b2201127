"""What a run's folder holds, looked at before any of it is read.

Folders come from anybody. Nothing is read or written through a link that leads out of them, and
nothing is waited for that only looks like a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from covgame.errors import BadInput


def check_entries(folder: Path, files: frozenset[str], folders: frozenset[str]) -> None:
    """Refuse a folder with links that lead out of it, or other things than it should hold.

    ``files`` and ``folders`` are the names of what has to be one if it is there.
    """
    home = os.path.realpath(folder)
    for entry in _entries(folder, folders):
        if entry.is_symlink() and not _is_within(home, entry.path):
            raise BadInput(
                f"{entry.path} is a link that leads out of {folder}, and none is followed; put a "
                "copy of what it leads to in its place"
            )
        _check_kind(entry, files, folders)


def _entries(folder: Path, folders: frozenset[str]) -> Iterator[os.DirEntry[str]]:
    """What lies in a folder, and in those of its folders that are ours, however deep."""
    for entry in _listed(folder):
        yield entry
        if entry.name in folders and entry.is_dir():
            yield from _everything(entry.path)


def _everything(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in _listed(folder):
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _everything(entry.path)


def _listed(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise BadInput(f"{folder} cannot be read: {error.strerror or error}") from error


def _is_within(home: str, path: str) -> bool:
    place = os.path.realpath(path)
    return os.path.normcase(place).startswith(os.path.normcase(home) + os.sep)


def _check_kind(entry: os.DirEntry[str], files: frozenset[str], folders: frozenset[str]) -> None:
    is_file, is_folder = entry.is_file(), entry.is_dir()
    if not (is_file or is_folder) and os.path.exists(entry.path):
        raise BadInput(f"{entry.path} is neither a file nor a folder; remove it")
    if entry.name in files and is_folder:
        raise BadInput(f"{entry.path} is a folder, and a file belongs there; move it away")
    if entry.name in folders and is_file:
        raise BadInput(f"{entry.path} is a file, and a folder belongs there; move it away")
