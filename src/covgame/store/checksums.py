"""What the files of a run have to be: ``checksums.json``, so that damage never goes unnoticed.

A file's checksum is announced before the file is replaced, beside that of the one before. Whenever
a process is killed, the file that is there is one of the two; anything else is damage.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from covgame.errors import BadInput
from covgame.jsonfile import is_file, read_json
from covgame.store.files import inside, write_whole

NAME = "checksums.json"
FORMAT = "covgame-checksums/1"
TRIES = 5
"""Somebody may be writing while we read; then it fits the next time."""

RESTORE = "put it back from a copy"
ABSENT = "absent"
"""In the place of the checksum of a file that is not there (yet)."""

Known = dict[str, list[str]]
"""The checksums that a file may have, by its name in the folder."""


class Checksums:
    """Of the files of a run, kept by whoever writes them."""

    def __init__(self, folder: Path, known: Known | None = None) -> None:
        self.folder = folder
        self.known: Known = known or {}
        self.one_at_a_time = threading.Lock()  # shards are written by a thread of their own

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Replace a file, which is known to be what it was or what it becomes, at any instant."""
        with self.one_at_a_time:
            digest = hashlib.sha256(content).hexdigest()
            # Ctrl-C may come between any two lines: until the file is known to be the new one, it
            # may be either.
            self.known[name] = [*self.known.get(name, [ABSENT]), digest]
            self._save(self.known)
            write_whole(self.folder / name, content)
            self.known[name] = [digest]

    def settle(self) -> None:
        """Nothing will be written for now: what there is is all that may be."""
        with self.one_at_a_time:
            self._save(self.known)

    def _save(self, known: Mapping[str, list[str]]) -> None:
        content = {"format": FORMAT, "files": known, "itself": _digest_of(known)}
        write_whole(self.folder / NAME, (json.dumps(content, indent=1) + "\n").encode())

    def is_current(self) -> bool:
        """Whether nobody has written to the run since these were read."""
        now = _read(self.folder / NAME)
        return now.keys() == self.known.keys() and all(
            self.known[name][-1] in digests for name, digests in now.items()
        )

    def accept(self, name: str, content: bytes) -> bool:
        """Whether a file may have this content; what nobody keeps checksums of may have any."""
        return name not in self.known or hashlib.sha256(content).hexdigest() in self.known[name]


def verified(
    folder: Path, may_differ: frozenset[str], may_lack: frozenset[str]
) -> Checksums | None:
    """The checksums of a run whose files were all found to have them, None if it keeps none.

    Files that can be made again from the others may differ or be absent; that is up to who reads
    them.
    """
    seen = None
    for _ in range(TRIES):
        if not is_file(str(folder / NAME)):
            return None
        known = _read(folder / NAME)
        found = {name: _found(inside(folder, name)) for name in known if name not in may_differ}
        wrong = {name for name, digest in found.items() if digest not in known[name]}
        wrong -= {name for name in wrong & may_lack if found[name] == ABSENT}
        if not wrong:
            return Checksums(folder, {**known, **{name: [found[name]] for name in found}})
        if (known, wrong) == seen:
            break
        seen = known, wrong
    name = min(wrong)
    if found[name] == ABSENT:
        raise BadInput(f"{folder / name} is missing; {RESTORE}")
    raise BadInput(f"{folder / name} is damaged: it is not what was written; {RESTORE}")


def _read(path: Path) -> Known:
    content = read_json(path)
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, dict) or content.get("itself") != _digest_of(files):
        raise BadInput(f"{path} is damaged; {RESTORE}")
    return files


def _digest_of(files: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _found(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ABSENT
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}; {RESTORE}") from error
