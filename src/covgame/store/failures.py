"""Episodes that failed, kept beside those that count: ``failures.jsonl``, a line for each."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from covgame.errors import BadInput
from covgame.failures import Failure
from covgame.store.files import open_file, sync, truncate, write
from covgame.store.folder import FAILURES


def add_failure(folder: Path, failure: Failure) -> None:
    """Write a failure down; if it is the only trace of its episode, it outlives a power cut."""
    content = failure.to_dict()
    line = json.dumps({**content, "check": _check(content)}) + "\n"
    path = folder / FAILURES
    whole = path.read_bytes().rfind(b"\n") + 1 if path.is_file() else 0
    file = open_file(path)
    try:
        truncate(file, whole, path)  # a kill may have left half a line
        write(file, line.encode(), path)
        if failure.then == "set aside":
            sync(file, path)
    finally:
        os.close(file)


def sync_failures(folder: Path) -> None:
    """Before shards outlive a power cut, so does what is known of failures in their episodes."""
    path = folder / FAILURES
    file = open_file(path)
    try:
        sync(file, path)
    finally:
        os.close(file)


def load_failures(folder: Path, recorded: int | None = None) -> list[Failure]:
    """All failures of a run, without a last line that was torn by a kill.

    Of those that count as episodes only the ones among the first ``recorded``: what was not
    recorded in time is played again, and fails again.
    """
    path = folder / FAILURES
    try:
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    found = [_failure(path, number, line) for number, line in enumerate(lines[:-1], 1)]
    return [
        one
        for one in found
        if recorded is None or one.then == "set aside" or one.episode < recorded
    ]


def _failure(path: Path, number: int, line: bytes) -> Failure:
    try:
        content: dict[str, Any] = json.loads(line)
        if content.pop("check") != _check(content):
            raise ValueError("its checksum is another")
        return Failure.from_dict(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(
            f"{path} is damaged in line {number}; put it back from a copy, or remove that line"
        ) from error


def _check(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
