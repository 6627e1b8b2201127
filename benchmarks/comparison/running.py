"""Running experiments on all cores, so that nothing is lost when it is stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison.experiments import Experiment
from benchmarks.comparison.results import RESULTS, Journal, Result, Row, write_results
from covgame.errors import BadInput
from covgame.signals import SIGNALS, Interruption, end_with

AHEAD = 2
"""Experiments that wait for each worker: enough that none is idle, few to give up on Ctrl-C."""


SLICE = 0.2


@dataclass(frozen=True)
class Progress:
    """How far a benchmark is."""

    done: int
    wanted: int
    last: str


def run(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> bool:
    """Run what is not yet done; write the results. Returns whether all of it is done."""
    if workers is not None and workers < 1:
        raise BadInput(f"--workers is a whole number from 1 on, not {workers}")
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder)
    done = journal.read()
    left = [one for one in experiments if one.key not in done]
    try:
        with Interruption() as interruption:
            for one, rows in _measured(left, workers or os.cpu_count() or 1, interruption):
                done[one.key] = journal.add(one, rows)
                if progress:
                    progress(Progress(_count(experiments, done), len(experiments), one.key))
    finally:
        write_results(folder / RESULTS, _in_order(experiments, done))
    return _count(experiments, done) == len(experiments)


def _count(experiments: Sequence[Experiment], done: dict[str, list[Result]]) -> int:
    return sum(one.key in done for one in experiments)


def _in_order(experiments: Sequence[Experiment], done: dict[str, list[Result]]) -> Iterator[Result]:
    """The order of the profile, whoever was first; the same file for the same results."""
    for one in experiments:
        yield from done.get(one.key, [])


def _measured(
    experiments: Sequence[Experiment], workers: int, interruption: Interruption
) -> Iterator[tuple[Experiment, list[Row]]]:
    """Those that may run side by side first, those that measure time afterwards, one by one."""
    together = [one for one in experiments if not one.alone]
    if workers == 1:
        yield from _one_by_one(together, interruption)
    elif together:
        yield from _side_by_side(together, workers, interruption)
    yield from _one_by_one([one for one in experiments if one.alone], interruption)


def _one_by_one(
    experiments: Sequence[Experiment], interruption: Interruption
) -> Iterator[tuple[Experiment, list[Row]]]:
    from benchmarks.comparison.measures import measure

    for one in experiments:
        if interruption.requested:
            return
        yield one, measure(one)


def _side_by_side(
    experiments: Sequence[Experiment], workers: int, interruption: Interruption
) -> Iterator[tuple[Experiment, list[Row]]]:
    """In processes of their own; new ones, because threads do not survive copying a process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_follow_parent) as pool:
        try:
            yield from _by_workers(pool, experiments, workers, interruption)
        except BrokenProcessPool as error:
            if (
                not interruption.requested
            ):  # whoever ends this process may have ended a worker first
                raise BadInput(
                    "a worker was killed, as happens when memory runs out; what is done is saved, "
                    "go on by the same command with fewer --workers"
                ) from error


def _by_workers(
    pool: ProcessPoolExecutor,
    experiments: Sequence[Experiment],
    workers: int,
    interruption: Interruption,
) -> Iterator[tuple[Experiment, list[Row]]]:
    waiting, running = list(reversed(experiments)), dict[Future[list[Row]], Experiment]()
    while waiting or running:
        if interruption.requested:
            _give_up()
            return
        while waiting and len(running) < AHEAD * workers:
            one = waiting.pop()
            running[pool.submit(_measure, one)] = one
        finished, _ = wait(running, timeout=SLICE, return_when=FIRST_COMPLETED)
        for future in finished:
            yield running.pop(future), future.result()


def _give_up() -> None:
    """Who wants to stop does not wait for experiments, which may take minutes."""
    for worker in multiprocessing.active_children():
        worker.kill()


def _measure(experiment: Experiment) -> list[Row]:
    from benchmarks.comparison.measures import measure

    return measure(experiment)


def _follow_parent() -> None:
    """The process that started the workers decides what signals mean; they end when it does."""
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        end_with(parent.pid)
