"""A team of Ray actors, for existing clusters and for steps of a millisecond or more.

The main process plans and is the only one that writes to the run. A node that is lost loses the
episodes being played on it and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from covgame.errors import BadInput, EnvironmentFailed, MissingExtra
from covgame.imports import said
from covgame.sources.messages import Job, Lost, Report
from covgame.sources.worker import Recipe, Worker

TRIES = 3
"""Ray does not always find its own ports in time; the next try mostly does."""

SECONDS_TO_START = 120.0
SECONDS_TO_ANSWER = 10.0


class RayWorker:
    """An actor with a worker, which is made for the first job."""

    def __init__(self, recipe: Recipe, actions: int) -> None:
        self.recipe, self.actions = recipe, actions
        self.worker: Worker | None = None

    def play(self, job: Job) -> Report:
        """All episodes of a job."""
        if self.worker is None:
            source = self.recipe.open()
            found = len(source.actions)
            if found != self.actions:
                raise EnvironmentFailed(
                    f"it has {found} actions in a worker, and {self.actions} here"
                )
            self.worker = Worker(source)
        return self.worker.play(job)

    def pid(self) -> int:
        """The process of this actor."""
        return os.getpid()


class RayTeam:
    """Actors; ``ray`` is the library, connected."""

    def __init__(self, recipe: Recipe, size: int, actions: int, ray: Any) -> None:
        self.recipe, self.size, self.actions, self.ray = recipe, size, actions, ray
        self.actor_class = ray.remote(num_cpus=1, max_restarts=0)(RayWorker)
        self.actors = [self._start() for _ in range(size)]
        self.sent: list[deque[Any]] = [deque() for _ in range(size)]

    def _start(self) -> Any:
        return self.actor_class.remote(self.recipe, self.actions)

    def pid(self, worker: int) -> int:
        """The process of a worker."""
        found: int = self.ray.get(self.actors[worker].pid.remote())
        return found

    def send(self, worker: int, job: Job) -> None:
        self.sent[worker].append(self.actors[worker].play.remote(job))

    def wait(self, seconds: float) -> Sequence[tuple[int, Report | Lost]]:
        first = {jobs[0]: worker for worker, jobs in enumerate(self.sent) if jobs}
        if not first:
            time.sleep(max(0.0, seconds))
            return []
        ready, _ = self.ray.wait(list(first), num_returns=len(first), timeout=0)
        if not ready:
            ready, _ = self.ray.wait(list(first), num_returns=1, timeout=max(0.0, seconds))
        return [(first[one], self._found(first[one], one)) for one in ready]

    def _found(self, worker: int, job: Any) -> Report | Lost:
        try:
            report: Report = self.ray.get(job)
        except self.ray.exceptions.RayError as error:
            return self._lose(worker, error)
        self.sent[worker].popleft()
        return report

    def _lose(self, worker: int, error: Exception) -> Lost:
        """Replace a worker that is gone, or whose node or environment is."""
        with contextlib.suppress(Exception):  # it may be gone already
            self.ray.kill(self.actors[worker])
        self.actors[worker], self.sent[worker] = self._start(), deque()
        cause = getattr(error, "cause", None)
        return Lost(said(cause) if cause is not None else f"Ray lost it ({type(error).__name__})")

    def close(self) -> None:
        for actor in self.actors:
            with contextlib.suppress(Exception):
                self.ray.kill(actor)
        self.actors = []
        self.ray.shutdown()


def library() -> Any:
    """Ray, if it is installed, without its usage reports."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "--engine ray") from None
    return ray


def connected(address: str | None, workers: int) -> Any:
    """Ray, connected to a cluster, or to one that is started here, for this run alone."""
    ray = library()
    if address is not None:
        _check_there(address)
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        here = {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
        how |= {"num_cpus": workers, **here}
    else:
        how["address"] = address
    return begun(ray, how)


def _check_there(address: str) -> None:
    """Check that a cluster listens there: Ray would end the whole process if none does."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port):
        if address != "auto":
            raise BadInput(f"--address is auto or HOST:PORT, not {address!r}")
        return
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise EnvironmentFailed(
            f"no Ray cluster listens at {address} ({error}); start one (ray start --head), or "
            "leave out --address"
        ) from error


def begun(ray: Any, how: dict[str, Any], seconds: float = SECONDS_TO_START) -> Any:
    """Start Ray, or join it; tried again, and not for ever."""
    until, error = time.monotonic() + seconds, "it did not answer"
    for _ in range(TRIES):
        answer: queue.Queue[BaseException | None] = queue.Queue()
        threading.Thread(target=_try, args=(ray, how, answer), daemon=True).start()
        try:
            failed = answer.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        if failed is None:
            return ray
        error = said(failed)
        with contextlib.suppress(Exception):
            ray.shutdown()
    where = how.get("address", "on this machine")
    raise EnvironmentFailed(
        f"Ray did not start within {seconds:g} seconds and {TRIES} tries ({where}): {error}; try "
        "again, say --address, or use --engine local"
    )


def _try(ray: Any, how: dict[str, Any], answer: queue.Queue[BaseException | None]) -> None:
    try:
        ray.init(**how)
    except BaseException as error:
        answer.put(error)
        return
    answer.put(None)
    threading.Event().wait()  # what Ray has started ends with the thread that did
