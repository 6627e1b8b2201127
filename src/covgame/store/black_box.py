"""The episode being played, step by step, in a file that outlives the process.

An environment may take the process with it: a segmentation fault, ``os._exit``, all memory used up.
What it was doing then is in ``playing``. A step costs a write to memory that the system keeps.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from covgame.failures import Failure
from covgame.store.failures import add_failure
from covgame.store.files import discard, open_file, remove, write
from covgame.store.folder import PLAYING

MARK = 0x636F76706C61
HEAD = struct.Struct("<qqqqqqq")  # mark, episode, attempt, seed, deaths, the last way there, steps
STEP = struct.Struct("<qq")
COUNT = struct.Struct("<q")
NOBODY = -1
MOST_STEPS = 50_000
ENOUGH = 2
"""So many deaths at the same step are the environment's doing, and not somebody's kill."""


@dataclass(frozen=True)
class Playing:
    """An episode that was being played when its process ended."""

    episode: int
    attempt: int
    seed: int
    deaths: int  # at this very step, before
    last_way: int  # a checksum of the way to where the last process ended
    path: tuple[tuple[int, int], ...]

    @property
    def way(self) -> int:
        """A checksum of the way to where it ended."""
        return zlib.crc32(repr((self.episode, self.attempt, self.path)).encode())

    @property
    def n_deaths(self) -> int:
        """How many processes have ended at this step."""
        return self.deaths + 1 if self.way == self.last_way else 1


class BlackBox:
    """Is told every step before it is taken."""

    def __init__(self, folder: Path, horizon: int) -> None:
        self.path = folder / PLAYING
        before = read_box(folder)
        deaths, way = (before.n_deaths, before.way) if before else (0, 0)
        remove(self.path)  # what another process has mapped stays as it is
        file = open_file(self.path, os.O_RDWR | os.O_EXCL)
        try:
            self.most = min(horizon, MOST_STEPS)
            size = HEAD.size + self.most * STEP.size
            write(file, bytes(size), self.path)  # a full disk refuses now, and not amidst a step
            self.memory = mmap.mmap(file, size)
        finally:
            os.close(file)
        self.steps = 0
        HEAD.pack_into(self.memory, 0, MARK, NOBODY, 0, 0, deaths, way, 0)

    def begin(self, episode: int, attempt: int, seed: int) -> None:
        """An episode begins."""
        self.steps = 0
        COUNT.pack_into(self.memory, HEAD.size - COUNT.size, 0)
        struct.pack_into("<qqq", self.memory, COUNT.size, episode, attempt, seed)

    def step(self, state: int, action: int) -> None:
        """An action is about to be taken."""
        if self.steps < self.most:
            STEP.pack_into(self.memory, HEAD.size + self.steps * STEP.size, state, action)
            self.steps += 1
            COUNT.pack_into(self.memory, HEAD.size - COUNT.size, self.steps)

    def end(self) -> None:
        """The episode is over, well or not."""
        COUNT.pack_into(self.memory, COUNT.size, NOBODY)

    def close(self) -> None:
        """Nobody plays any more."""
        self.memory.close()
        discard(self.path)


def read_box(folder: Path) -> Playing | None:
    """The episode that a process was in when it ended, None if there was none."""
    try:
        content = (folder / PLAYING).read_bytes()
    except OSError:
        return None
    if len(content) < HEAD.size:
        return None
    mark, episode, attempt, seed, deaths, way, steps = HEAD.unpack_from(content)
    if mark != MARK or episode < 0 or not 0 <= steps <= (len(content) - HEAD.size) // STEP.size:
        return None
    path = tuple(STEP.unpack_from(content, HEAD.size + i * STEP.size) for i in range(steps))
    return Playing(episode, attempt, seed, deaths, way, path)


def blame(folder: Path, recorded: int, words: str | None = None) -> Failure | None:
    """Set aside an episode that has ended its process, if it is sure that it has.

    ``words`` says how it ended, where somebody has seen it. Else it may have been somebody's kill,
    unless another process had ended at the same step.
    """
    found = read_box(folder)
    if found is None or found.episode != recorded:
        return None
    if words is None and found.n_deaths < ENOUGH:
        return None
    error = words or f"the environment ended the process, {found.n_deaths} times in a row"
    failure = Failure(found.episode, found.attempt, found.seed, error, found.path, died=True)
    add_failure(folder, failure)
    discard(folder / PLAYING)
    return failure
