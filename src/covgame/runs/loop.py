"""The only loop: plays the tasks of a run in blocks, and records them."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from covgame.engine.engines import (
    COARSE,
    GROWTH,
    BatchEngine,
    CountsEngine,
    CountsPolicyEngine,
    Engine,
    PolicyEngine,
    SimulatedEngine,
    SimulatedPolicyEngine,
    SteppedEngine,
)
from covgame.episodes import Episode, as_block
from covgame.errors import BadInput, EnvironmentFailed, StorageFailed
from covgame.failures import Failure
from covgame.pac.tasks import CoverTask, PolicyTask, Task
from covgame.runs.run import Run, recorder_for
from covgame.signals import AtomicSection, Interruption, OneProcess
from covgame.sources.simulated import SimulatedSource
from covgame.sources.source import UNOBSERVED, EpisodeObserver, Source
from covgame.workers.player import TeamPlayer

if TYPE_CHECKING:
    from covgame.storage.reading import RecordedEpisodes
    from covgame.storage.recorder import Recorder

FIRST_BLOCK = 1
"""Episodes of the first block, since the time that one takes is not known yet."""

SECONDS_PER_BLOCK = 0.1

STEPS_PER_BLOCK = 200_000

AnyRun = TypeVar("AnyRun", bound=Run)


def play(run: AnyRun) -> Generator[AnyRun]:
    """Play in blocks; after each the run is yielded. Ends when done, spent or interrupted.

    What was played is saved, also if the consumer stops or an error is raised.
    """
    run.environment.require_playable()
    run.stopped, recorder = None, None
    one_step, process = AtomicSection(), OneProcess()
    with Interruption() as interruption:
        try:
            recorder = recorder_for(run)
            while not (run.budget_left == 0 or interruption.requested):
                with one_step:
                    task = run.current_task()
                if task is None:
                    break
                for _ in _blocks(run, recorder, interruption, one_step):
                    yield run
                if task.over:
                    with one_step:
                        run.finish_task(task)
                    yield run
        except (EnvironmentFailed, StorageFailed) as error:
            run.fail(error)
        finally:
            process.check(sys.exc_info()[1])
            interruption.stopping()
            run.source.close()
            _put_away(run, recorder, whole=not one_step.broken)


def _put_away(run: Run, recorder: Recorder | None, *, whole: bool) -> None:
    """Save the episodes, and the result if no step was broken off (``whole``)."""
    try:
        if recorder:
            recorder.close(whole=whole)
        run.stopped = run.stop_reason if whole else "interrupted"
        if recorder and whole:
            try:
                save_answer(run)
            except KeyboardInterrupt:  # the linear program takes too long
                run.stopped = "interrupted"
                save_answer(run)
    except StorageFailed as error:
        run.fail(error)
    finally:
        if run.failure:
            run.stopped = "failed"
        if recorder:
            recorder.release()


def _blocks(
    run: Run, recorder: Recorder | None, interruption: Interruption, one_step: AtomicSection
) -> Generator[None]:
    """The blocks of a task, until it is over or something stops it."""
    task = run.task
    if task is None or task.over:
        return
    with one_step:
        engine = engine_for(run, task, RunObserver(run, recorder))
    size = FIRST_BLOCK
    while not (task.over or run.budget_left == 0 or interruption.requested):
        began = time.monotonic()
        limits = [
            None if run.by_counts else size,
            task.left,
            run.budget_left,
            recorder.room if recorder else None,
        ]
        with one_step:
            block = engine.play(min(most for most in limits if most is not None))
            block = replace(block, first_episode=run.number_of(block.first_episode))
            run.keep(block)
            if recorder:
                recorder.add(block)
        size = next_size(max(1, len(block)), time.monotonic() - began)
        if isinstance(engine.failure, KeyboardInterrupt):
            interruption.requested = True  # raised within a step, perhaps by the environment
        yield


def engine_for(run: Run, task: Task, observer: EpisodeObserver) -> Engine:
    """The engine that plays a task of a run; it tells the observer what an environment shows."""
    source = run.source
    if isinstance(task, CoverTask) and task.rounds:
        return BatchEngine(task.game, source, observer)
    if isinstance(task, CoverTask) and (team := source.open_team()) is not None:
        budget = lambda: run.budget_left  # noqa: E731
        return TeamPlayer(task.game, source, task.growth, team, budget=budget, observer=observer)
    if source.model is None:
        return _stepped_engine(run, task, source, observer)
    return _counts_engine(run, task) if run.by_counts else _simulated_engine(run, task)


def _stepped_engine(
    run: Run, task: Task, source: Source, observer: EpisodeObserver = UNOBSERVED
) -> SteppedEngine | PolicyEngine:
    """The engine that plays a task step by step, and can replay recorded episodes."""
    if run.task_seed != source.seed:
        source = source.seeded(run.task_seed)
    if isinstance(task, PolicyTask):
        return PolicyEngine(task.policy, task.counts, source, observer)
    return SteppedEngine(task.game, source, task.growth, observer)


def _counts_engine(run: Run, task: Task) -> Engine:
    model, seed = run.environment.require_model("playing by counts"), run.task_seed
    if isinstance(task, PolicyTask):
        return CountsPolicyEngine(task.policy, task.counts, model, seed)
    return CountsEngine(task.game, model, seed, GROWTH if task.episodes is None else COARSE)


def _simulated_engine(run: Run, task: Task) -> Engine:
    source = SimulatedSource(run.environment.require_model("simulating"), run.task_seed)
    most = max(1, STEPS_PER_BLOCK // source.shape.horizon)
    if isinstance(task, PolicyTask):
        most = min(task.left, most)
        return SimulatedPolicyEngine(
            task.policy, task.counts, source, most=most, record=run.records
        )
    growth = task.growth if task.growth and task.growth.request else None
    return SimulatedEngine(task.game, source, growth, most=most, record=run.records)


class RunObserver(EpisodeObserver):
    """Records the episodes and failures of a run when they happen."""

    def __init__(self, run: Run, recorder: Recorder | None) -> None:
        self.run, self.recorder = run, recorder

    def number_of(self, episode: int) -> int:
        return self.run.number_of(episode)

    def visits_of(self, state: int, action: int) -> int:
        visits = self.run.counts.visits
        return int(visits[:, state, action].sum()) if state < visits.shape[1] else 0

    def on_episode(self, number: int, episode: Episode) -> None:
        if self.recorder:
            self.recorder.note(number, episode)

    def on_failure(self, failure: Failure) -> None:
        if self.recorder:
            self.recorder.set_aside(failure)


def next_size(episodes: int, seconds: float) -> int:
    """Blocks of about a tenth of a second: long enough to be fast, short enough to watch."""
    wanted = episodes * SECONDS_PER_BLOCK / max(seconds, 1e-6)
    return max(1, math.floor(min(wanted, 2.0 * episodes)))


def save_answer(run: Run) -> None:
    """Write the result to the run's folder, if it has one.

    The result of a run that was interrupted or failed is not final; resuming completes it.
    """
    if run.folder:
        run.conclude()
        finished = run.done and run.stopped not in ("interrupted", "failed")
        run.folder.save_result(run.to_dict(), finished=finished)


def to_the_end(
    run: AnyRun, progress: Callable[[AnyRun], None] | bool | None = None, *, report: bool = False
) -> AnyRun:
    """Play a run to its end; an interruption or a failure is raised when all is saved."""
    with _told(progress) as tell, updated_page(run, wanted=report) as update_page:
        warned = False
        for _ in play(run):
            if run.warning and not warned:
                warnings.warn(run.warning, stacklevel=3)
                warned = True
            tell(run)
            update_page(run)
    if report:
        run.report()
    if run.stopped == "interrupted":
        raise KeyboardInterrupt
    if run.failure:
        raise run.failed_by(run.failure)
    return run


@contextmanager
def _told(progress: Callable[[AnyRun], None] | bool | None) -> Iterator[Callable[[AnyRun], None]]:
    """Yields what to call with the run after every block: a progress bar, or the function."""
    if progress is True:
        from covgame.report.progress import display

        with display() as show:
            yield show
    elif callable(progress):
        yield progress
    elif progress in (None, False):
        yield lambda run: None
    else:
        raise BadInput(f"progress is True, None or a function of the run, not {progress!r}")


@contextmanager
def updated_page(run: Run, *, wanted: bool) -> Iterator[Callable[[Run], None]]:
    """Yields what to call with the run after every block, to keep its page up to date."""
    if not wanted:
        yield lambda run: None
        return
    from covgame.report.html import page_updates

    with page_updates(run) as update:
        yield update


def replay(
    run: Run,
    source: Source,
    recorded: RecordedEpisodes,
    on_episode: Callable[[int], None] = lambda told: None,
) -> None:
    """Replay all recorded episodes of a run, in the same tasks.

    ``on_episode`` is called with the number of episodes replayed so far.
    """
    task, engine = None, None
    for told, episode in enumerate(recorded):
        if task is None or engine is None:
            task = run.current_task()
            if task is None:
                raise BadInput(f"{recorded.folder} holds more episodes than this run ever asks for")
            engine = _stepped_engine(run, task, source)
        failure = source.failures.ended(told)
        is_avoided = failure is not None and failure.then == "avoided"
        engine.replay(episode, avoided=failure if is_avoided else None)
        run.keep(as_block(told, [episode]))
        on_episode(told + 1)
        if task.over and not run.ONE_TASK:
            run.finish_task(task)
            engine = None
    if task is not None and task.over and run.ONE_TASK:
        run.finish_task(task)
