"""Episodes that are not in a shard yet, one after the other, so that a killed process loses none.

An entry is written when its episode is over, in one piece and with a checksum, to a file that
outlives the process. Shards take entries over every few seconds, and the journal begins anew. After
a kill only what is complete counts: reading stops at the first entry that is torn.

What outlives a power cut as well is synchronised at these moments: ``run.json`` and what stands
beside it when a run begins, and states, shards, counts and the answer whenever they are written,
which is every few seconds and when the run stops. Entries of a journal are not: a power cut may
cost what was played since the last shard was written.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from covgame.episodes import Episode, as_block
from covgame.errors import BadInput, StorageFailed
from covgame.store.episodes import EpisodeWriter, as_table, checked_columns, recorded_episodes
from covgame.store.files import discard_drafts, inside, open_file, remove, truncate, write
from covgame.store.folder import EPISODES, JOURNAL, RunFolder
from covgame.store.lock import WriteLock
from covgame.store.observations import Keeping

START = b"covgame-journal/1\n"
FRAME = struct.Struct("<II")  # bytes of the entry, their checksum
HEAD = struct.Struct("<qqqq?q")  # episode, steps, ended in, seed, cut short, bytes of names
NONE = -(2**62)
SECONDS_TO_BE_GONE = 0.5
"""A process that was just killed may take a moment; who only reads waits for no living one."""

ARROW = b"\xff\xff\xff\xff"
"""With which a stream of Arrow's begins; states are never so negative."""


States = tuple[list[str], list[str] | None]
"""(keys, labels) of discovered states, by number."""

ODD = (
    struct.error, ValueError, TypeError, LookupError, RecursionError, AttributeError,
    OverflowError, pa.ArrowException,
)  # fmt: skip
"""What comes of entries that are whole and yet nothing that a run writes."""


class Journal:
    """Takes down episodes as they end."""

    def __init__(self, folder: Path, keeping: Keeping | None = None) -> None:
        self.path, self.keeping = folder / JOURNAL, keeping
        self.file = open_file(self.path, os.O_TRUNC)
        self.end = 0  # of the last whole entry
        self.last = -1  # its episode
        self.named = 0  # states that some file knows already
        self._write(START)

    def add(
        self, number: int, episode: Episode, keys: Sequence[str], labels: Sequence[str]
    ) -> None:
        """Write an episode down, with the states that were new in it."""
        names = b""
        if len(keys) > self.named:
            new = slice(self.named, len(keys))
            names = json.dumps([self.named, keys[new], labels[new]]).encode()
        ended_in = NONE if episode.ended_in is None else episode.ended_in
        seed = NONE if episode.seed is None else episode.seed
        head = HEAD.pack(number, len(episode), ended_in, seed, episode.cut_short, len(names))
        if self.keeping is None:  # the arrays as they lie in memory, without a copy of each
            state, action = episode.state.data, episode.action.data
            reward, following = episode.reward.data, episode.next_state.data
            entry = b"".join((head, names, state, action, reward, following))
        else:
            table = as_table(as_block(number, [episode]), self.keeping)
            entry = head + names + _as_arrow(table)
        self._write(FRAME.pack(len(entry), zlib.crc32(entry)) + entry)
        self.last, self.named = number, len(keys)

    def _write(self, content: bytes) -> None:
        """In one piece, or not at all."""
        try:
            write(self.file, content, self.path)
        except StorageFailed:
            truncate(self.file, self.end, self.path)
            raise
        self.end += len(content)

    def begin_anew(self, n_recorded: int, named: int) -> None:
        """Forget what is in the shards by now, if that is all there is."""
        self.named = named
        if self.last < n_recorded and self.end > len(START):
            truncate(self.file, len(START), self.path)
            self.end = len(START)

    def close(self) -> None:
        """Write no more; an empty journal goes away."""
        empty = os.fstat(self.file).st_size <= len(START)
        os.close(self.file)
        if empty:
            remove(self.path)


@dataclass(frozen=True)
class Entry:
    """An episode of a journal."""

    number: int
    end: int  # where the next one begins
    table: pa.Table
    first: int  # the number of the first state that was new
    keys: list[str]
    labels: list[str]


def read_journal(path: Path) -> Iterator[Entry]:
    """The whole entries of a journal, up to the first that is not."""
    content = path.read_bytes() if path.is_file() else b""
    if not content.startswith(START):
        return
    place = len(START)
    while place + FRAME.size <= len(content):
        size, checksum = FRAME.unpack_from(content, place)
        entry = content[place + FRAME.size : place + FRAME.size + size]
        if size < HEAD.size or len(entry) < size or zlib.crc32(entry) != checksum:
            return  # nothing but zeros is what a power cut may leave
        place += FRAME.size + size
        try:
            yield _decoded(entry, place)
        except ODD as error:
            raise BadInput(f"{path} is no journal of a run ({error}); remove it") from error


def unsealed_entries(path: Path, entries: Sequence[Entry], sealed: int) -> list[Entry]:
    """The entries after the ``sealed`` episodes that shards hold; they have to follow on them."""
    found = [one for one in entries if one.number >= sealed]
    if [one.number for one in found] != list(range(sealed, sealed + len(found))):
        raise BadInput(
            f"{path} does not continue after the {sealed:,} episodes in {path.parent / EPISODES}; "
            f"restore them from a copy, or remove {path}"
        )
    return found


def add_new_states(known: States | None, entries: Iterable[Entry]) -> States | None:
    """(keys, labels) of the states in ``known``, and of those that only journal entries name."""
    keys, labels = known if known is not None else ([], [])
    labels = list(labels) if labels is not None else list(keys)
    for one in entries:
        if one.first + len(one.keys) > len(keys):  # a failed episode may have named more since
            keys = [*keys[: one.first], *one.keys]
            labels = [*labels[: one.first], *one.labels]
    return (keys, labels) if keys else known


def holds_episodes(folder: Path) -> bool:
    """Whether there are episodes in a journal that no shard may have taken over."""
    return next(read_journal(inside(folder, JOURNAL)), None) is not None


def _decoded(entry: bytes, end: int) -> Entry:
    number, steps, ended_in, seed, cut_short, size = HEAD.unpack_from(entry)
    names, body = entry[HEAD.size : HEAD.size + size], entry[HEAD.size + size :]
    if body.startswith(ARROW):
        table = pa.ipc.open_stream(body).read_all()
    else:
        state, action, _, following = np.frombuffer(body, dtype=np.int64).reshape(4, steps)
        reward = np.frombuffer(body, dtype=np.float64).reshape(4, steps)[2]
        shown = (None if value == NONE else value for value in (ended_in, seed))
        ended = dict(zip(("ended_in", "seed"), shown, strict=True))
        episode = Episode(state, action, reward, following, cut_short=cut_short, **ended)
        table = as_table(as_block(number, [episode]))
    first, keys, labels = json.loads(names) if names else (0, [], [])
    if not isinstance(first, int) or not all(isinstance(one, str) for one in [*keys, *labels]):
        raise ValueError("states are named by texts")
    return Entry(number, end, checked_columns(table), first, keys, labels)


def _as_arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


class Recovered(NamedTuple):
    """What was taken over from a journal."""

    episodes: int
    dropped: int  # bytes after the last whole entry


def recover(folder: RunFolder) -> Recovered:
    """Take over what a killed process has left in its journal.

    While another process writes to the run, or where nobody may, the journal is left alone.
    """
    path = inside(folder.place, JOURNAL)
    try:
        lock = WriteLock(folder.place, patience=SECONDS_TO_BE_GONE)
    except BadInput:
        return Recovered(0, 0)
    with lock:
        folder.verify()  # nobody writes now
        discard_drafts(folder.place)
        sealed = recorded_episodes(folder.episodes)
        found = list(read_journal(path))
        size = path.stat().st_size if path.is_file() else 0  # whoever wrote it may be done by now
        dropped = size - (found[-1].end if found else len(START))
        entries = unsealed_entries(path, found, sealed)
        if entries:
            states = folder.load_states()  # those of the journal included
            if states is not None:
                folder.save_states(*states)  # before the shards that mention them
            _write_shards(folder, sealed, entries)
        remove(path)
    return Recovered(len(entries), max(0, dropped))


def _write_shards(folder: RunFolder, recorded: int, entries: Sequence[Entry]) -> None:
    asked = folder.manifest
    keeping = Keeping(asked.get("observation_space")) if asked.get("keep_observations") else None
    folder.bring_up_to_date()
    writer = EpisodeWriter(
        folder.episodes, asked["horizon"], recorded, keeping=keeping, write=folder.write
    )
    try:
        for one in entries:
            writer.append(one.table, 1)
        writer.flush()
    finally:
        writer.close()
