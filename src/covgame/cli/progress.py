"""How a run goes, on standard error, while it is played."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covgame import waiting
from covgame.cli.messages import say
from covgame.game.progress import Progress, progress_of
from covgame.pac.tasks import PhaseReport
from covgame.planning import number
from covgame.runs.cover import Coverage
from covgame.runs.learning_run import LearningRun
from covgame.runs.playing import play
from covgame.runs.run import Run

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_TASKS = 1.0
SECONDS_UNTIL_EXCUSE = 2.0
SHARE_FOR_ESTIMATES = 0.03
"""What is left is estimated by a linear program: it may take so much of the time."""

COMPILING = "compiling the game for this machine, up to half a minute, once"


def watch(run: Run, *, quiet: bool) -> None:
    """Play a run to its end, showing how it goes on standard error."""
    if quiet:
        for _ in play(run):
            pass
    elif isinstance(run, Coverage):
        _watch_covering(run)
    elif isinstance(run, LearningRun):
        _watch_learning(run)


def _watch_covering(run: Coverage) -> None:
    """A bar, or a line now and then: how much is covered, and what is left."""
    with _display() as show:
        pacer = _Pacer(show)
        warned = False
        with _excuse(COMPILING):
            for _ in play(run):
                pacer.after_block(run)
                if run.warning and not warned:
                    say(run.warning)
                    warned = True


class _Pacer:
    """Calls the display as often as its cost allows."""

    def __init__(self, show: Callable[[Progress], None]) -> None:
        self.show = show
        self.due = time.monotonic() + 0.5

    def after_block(self, run: Coverage) -> None:
        began = time.monotonic()
        if began < self.due or run.covered:
            return
        self.show(progress_of(run.game))
        cost = time.monotonic() - began
        self.due = time.monotonic() + max(0.5, cost / SHARE_FOR_ESTIMATES)


@contextmanager
def _excuse(sentence: str) -> Iterator[None]:
    """Say the sentence once if what follows has to wait for the compiler."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(SECONDS_UNTIL_EXCUSE):
            if waiting.for_compiler():
                say(sentence)
                return

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()


@contextmanager
def _display() -> Iterator[Callable[[Progress], None]]:
    """A live bar in a terminal, a line now and then elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _Lines().show
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    with Bars(
        BarColumn(bar_width=12),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        task = bars.add_task("cover", total=1.0, words="")
        yield lambda view: _advance(bars, task, view)


def _advance(bars: Bars, task: TaskID, view: Progress) -> None:
    bars.update(task, completed=view.share_covered, words=words(view))


class _Lines:
    """A line every ten seconds, for logs."""

    def __init__(self) -> None:
        self.due = time.monotonic() + SECONDS_BETWEEN_LINES

    def show(self, view: Progress) -> None:
        if time.monotonic() >= self.due:
            say(f"{view.share_covered:.0%} covered, {words(view)}")
            self.due = time.monotonic() + SECONDS_BETWEEN_LINES


def words(view: Progress) -> str:
    """Episodes, what is left, and the hardest open rows, in one line."""
    parts = [f"{number(view.n_episodes)} episodes"]
    if view.episodes_left is not None:
        parts.append(f"about {number(round(view.episodes_left))} to go")
    if view.rows_unseen:
        parts.append(f"{view.rows_unseen:,} rows not reached yet")
    if view.hardest:
        (row, missing), *_ = view.hardest
        cell = "/".join("any" if part is None else str(part) for part in row)
        parts.append(f"hardest {cell}: {number(missing)} more")
    return ", ".join(parts)


def announce(run: LearningRun) -> None:
    """What the run will take at least, part by part."""
    if not run.forecast.needs:
        return
    parts = "; ".join(f"{need.part} {number(need.episodes)}" for need in run.forecast.needs)
    say(f"this takes at least {number(run.forecast.episodes)} episodes on average: {parts}")
    if run.settings.scale < 1:
        say(f"thresholds scaled by {run.settings.scale:g}: nothing is guaranteed")


def _watch_learning(run: LearningRun) -> None:
    """A sentence on what each task came to."""
    finished, due = run.n_tasks, 0.0
    for _ in play(run):
        if time.monotonic() < due:
            continue
        if run.n_tasks > finished:
            say(in_words(run.phases[-1], run.settings.epsilon))
            finished, due = run.n_tasks, time.monotonic() + SECONDS_BETWEEN_TASKS
        elif due and run.task is not None:
            say(f"{run.task.name}: {number(run.task.played)} episodes so far")
            due = time.monotonic() + SECONDS_BETWEEN_LINES


def in_words(phase: PhaseReport, epsilon: float) -> str:
    """A finished part as a sentence."""
    said = f"{phase.name}: {number(phase.episodes)} episodes"
    if phase.bound is None:
        return said
    sign = "<=" if phase.bound <= epsilon else ">"
    return f"{said}, {phase.wanted:,} cells; bound {phase.bound:.4g} {sign} {epsilon:g}"
