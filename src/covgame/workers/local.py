"""A team of processes on this machine, each with an environment of its own, over pipes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from covgame.errors import BadInput
from covgame.sources.isolated import (
    SECONDS_TO_DIE,
    SECONDS_TO_MAKE,
    Process,
    how_it_ended,
    in_copy,
    in_fresh_interpreter,
)
from covgame.sources.worker import begin, raised
from covgame.workers.messages import Job, Lost, Report
from covgame.workers.worker import Recipe, Worker

SMALL = 16_384
"""Bytes that fit into a pipe for certain: so much may be sent to somebody who is not listening."""


def main(descriptor: int) -> None:
    """A process of its own that hears first how to make its environment."""
    with Connection(descriptor) as channel:
        parent, how = channel.recv()
        serve(channel, how, parent)


def serve(
    channel: Connection, how: tuple[Recipe, bool], parent: int, *, forked: bool = False
) -> None:
    """Play jobs until the main process closes the channel."""
    begin(parent, forked=forked)
    if forked:  # it may need a process for its environment
        multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    recipe, apart = how
    with contextlib.suppress(EOFError, OSError):
        try:
            source = recipe.open(apart=apart)
            worker = Worker(source)
            channel.send(("made", len(source.actions)))
            while True:
                channel.send(("report", worker.play(channel.recv())))
        except (EOFError, OSError):
            raise
        except BaseException as error:
            channel.send(raised(error))


@dataclass
class _Worker:
    """A process, what it was sent, and what waits until it listens."""

    process: Process
    made_by: float | None  # when its environment has to be there; None: it is
    sent: int = 0
    waiting: deque[bytes] = field(default_factory=deque)


class LocalTeam:
    """So many processes; one that dies is replaced, and plays at arm's length from then on."""

    def __init__(self, recipe: Recipe, size: int, actions: int) -> None:
        if os.name == "nt":
            raise BadInput("to play with several workers takes Linux or macOS")
        self.recipe, self.size, self.actions = recipe, size, actions
        self.workers: list[_Worker] = []
        try:
            for _ in range(size):
                self.workers.append(self._start(apart=False))
        except BaseException:
            self.close()
            raise

    def _start(self, *, apart: bool) -> _Worker:
        how = (self.recipe, apart)
        if self.recipe.copied is None:
            process = in_fresh_interpreter(__name__, (os.getpid(), how))
        else:
            process = in_copy(serve, how)
        limit = max(SECONDS_TO_MAKE, self.recipe.seconds or 0.0)
        return _Worker(process, time.monotonic() + limit)

    def pid(self, worker: int) -> int:
        """The process of a worker."""
        return self.workers[worker].process.pid

    def send(self, worker: int, job: Job) -> None:
        one = self.workers[worker]
        one.waiting.append(pickle.dumps(job, pickle.HIGHEST_PROTOCOL))
        self._push(one)

    def _push(self, worker: _Worker) -> None:
        """Send what can be sent without waiting for the other side.

        Who plays does not listen, and two that both wait to be heard would wait for ever.
        """
        waiting = worker.waiting
        while waiting and (not worker.sent or (worker.sent == 1 and len(waiting[0]) < SMALL)):
            with contextlib.suppress(OSError):  # it is gone, as whoever listens will hear
                worker.process.channel.send_bytes(waiting[0])
            waiting.popleft()
            worker.sent += 1

    def wait(self, seconds: float) -> Sequence[tuple[int, Report | Lost]]:
        lines = {one.process.channel: number for number, one in enumerate(self.workers)}
        ready = wait(list(lines), max(0.0, seconds))
        heard = [self._hear(lines[line]) for line in ready]  # type: ignore[index]
        late = [self._too_late(number) for number in range(self.size)]
        return [one for one in heard + late if one is not None]

    def _hear(self, number: int) -> tuple[int, Report | Lost] | None:
        worker = self.workers[number]
        try:
            kind, *content = worker.process.channel.recv()
        except (EOFError, OSError):
            code = worker.process.wait(SECONDS_TO_DIE)
            return self._lose(number, f"its process ended ({how_it_ended(code)})")
        if kind == "raised":
            return self._lose(number, content[0])
        if kind == "made":
            worker.made_by = None
            if content[0] != self.actions:
                words = f"it has {content[0]} actions in a worker, and {self.actions} here"
                return self._lose(number, words)
            return None
        worker.sent -= 1
        self._push(worker)
        return number, content[0]

    def _too_late(self, number: int) -> tuple[int, Report | Lost] | None:
        made_by = self.workers[number].made_by
        if made_by is None or time.monotonic() < made_by:
            return None
        return self._lose(number, f"it took more than {SECONDS_TO_MAKE:g} seconds in being made")

    def _lose(self, number: int, words: str) -> tuple[int, Report | Lost]:
        self.workers[number].process.kill()
        self.workers[number] = self._start(apart=True)
        return number, Lost(words)

    def close(self) -> None:
        for worker in self.workers:
            worker.process.kill()
        self.workers = []

    def __enter__(self) -> LocalTeam:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
