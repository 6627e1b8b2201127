"""Progress of a run: a bar in terminals and notebooks, lines in logs."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from covgame.game.progress import MIN_EPISODES, progress_of
from covgame.plain import as_html as html_of
from covgame.plain import plain
from covgame.planning import episodes, kind_of_rows, number
from covgame.report.view import kind_of

if TYPE_CHECKING:
    from rich.console import Console

    from covgame.runs.coverage import Coverage
    from covgame.runs.pac_run import LearningRun
    from covgame.runs.run import Run

SECONDS_BETWEEN_VIEWS = 0.5
MOST_BETWEEN_VIEWS = 3.0
SECONDS_BETWEEN_LINES = 5.0
SHARE_FOR_VIEWS = 0.03
"""Views may take this share of the time, but are never more than ``MOST_BETWEEN_VIEWS`` apart.

Expensive estimates limit themselves (``game.progress``), so a view takes milliseconds."""


@dataclass(frozen=True)
class ProgressView:
    """Progress as it is displayed."""

    share: float | None  # of the work, None if it is not known
    words: str


def progress_view(run: Any) -> ProgressView:
    """Episodes played and work left, in one line."""
    return (_coverage_progress if kind_of(run) == "cover" else _learning_progress)(run)


def _coverage_progress(run: Coverage) -> ProgressView:
    """Episodes, what is left, and the hardest open row."""
    found = progress_of(run.game, pace=run.pace)
    parts = [episodes(run.n_episodes)]
    if found.rows_unvisited:
        rows = kind_of_rows(run.target).removeprefix("state-action ")
        parts.append(f"{found.rows_unvisited:,} of {found.rows:,} {rows} not reached")
    if not found.rows_open:
        parts.append("all covered so far; looking for further states")
    elif found.episodes_left is None:
        early = run.n_episodes < MIN_EPISODES
        parts.append("too early to estimate" if early else "no estimate possible yet")
    else:
        left = number(float(f"{math.ceil(found.episodes_left):.2g}"))
        growing = " for what was found so far, new states still appear" if found.is_growing else ""
        parts.append(f"about {left} to go{growing}")
    if found.hardest and found.episodes_left is not None:
        (row, missing), *_ = found.hardest
        parts.append(f"hardest: {run.names.describe(row)} ({number(missing)} more)")
    return ProgressView(found.share_done, plain("; ".join(parts)))


def _learning_progress(run: LearningRun) -> ProgressView:
    """Episodes, what is being played, and how far its bound is from what was asked for."""
    epsilon = run.settings.epsilon
    parts = [episodes(run.n_episodes)]
    if run.task is not None:
        parts.append(run.task.name)
    bounds = [phase.bound for phase in run.phases if phase.bound is not None]
    share = None
    if run.forecast.needs:
        share = run.n_episodes / max(run.forecast.episodes, run.n_episodes, 1)
    elif bounds:  # the bound falls with the root of the number of episodes
        share = min(1.0, epsilon / max(bounds[-1], 1e-300)) ** 2
    if bounds:
        parts.append(f"bound {bounds[-1]:.4g}, wanted {epsilon:g}")
    return ProgressView(share, plain(", ".join(parts)))


# ----------------------------------------------------------------------------- display

Show = Callable[[ProgressView], None]


@contextmanager
def display() -> Iterator[Callable[[Run], None]]:
    """Shows how a run goes on standard error, to be called with it after every block."""
    with _place() as show:
        yield Pacer(show).after_block


class Pacer:
    """Calls the display as often as the cost of a view allows."""

    def __init__(self, show: Show, clock: Callable[[], float] = time.monotonic) -> None:
        self.show, self.clock = show, clock
        self.due = clock() + SECONDS_BETWEEN_VIEWS

    def after_block(self, run: Run) -> None:
        """Look at the run, if it is time to."""
        began = self.clock()
        if began < self.due or run.done or not run.n_episodes:
            return
        self.show(progress_view(run))
        now = self.clock()
        pause = min((now - began) / SHARE_FOR_VIEWS, MOST_BETWEEN_VIEWS)
        self.due = now + max(SECONDS_BETWEEN_VIEWS, pause)


@contextmanager
def _place() -> Iterator[Show]:
    """A bar in a notebook or a terminal, a line now and then elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        yield _Notebook().show
    elif sys.stderr is not None and sys.stderr.isatty():
        with _bar(console) as show:
            yield show
    else:
        yield Lines().show


@contextmanager
def _bar(console: Console) -> Iterator[Show]:
    """One line of a terminal, gone when all is played."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    whole = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    with Progress(
        BarColumn(bar_width=12),
        TextColumn("{task.fields[share]:>4}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}", markup=False, table_column=whole),
        console=console,
        transient=True,
        expand=True,
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
    ) as bars:
        task = bars.add_task("", total=None, share="", words="beginning")

        def show(view: ProgressView) -> None:
            total, done = (None, 0.0) if view.share is None else (1.0, view.share)
            bars.update(task, total=total, completed=done, share=_percent(view), words=view.words)

        yield show


class _Notebook:
    """An element of the page that is drawn anew."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, view: ProgressView) -> None:
        tools: Any = import_module("IPython.display")
        page = tools.HTML(as_html(view))
        if self.handle is None:
            self.handle = tools.display(page, display_id=True)
        else:
            self.handle.update(page)


def as_html(view: ProgressView) -> str:
    """A bar with its words, for a notebook."""
    value = "" if view.share is None else f" value='{view.share:.4f}'"
    return f"<progress max='1'{value}></progress> {_percent(view)} {html_of(view.words)}"


class Lines:
    """A line every five seconds, for logs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.due = clock() + SECONDS_BETWEEN_LINES

    def show(self, view: ProgressView) -> None:
        """Say how it goes, if it is time to."""
        if self.clock() < self.due:
            return
        share = f"{_percent(view)} done, " if view.share is not None else ""
        with contextlib.suppress(OSError, AttributeError):  # standard error may be closed
            sys.stderr.write(f"covgame: {share}{view.words}\n")
            sys.stderr.flush()
        self.due = self.clock() + SECONDS_BETWEEN_LINES


def _percent(view: ProgressView) -> str:
    """The share in whole percent; all is done only when it is done."""
    return "" if view.share is None else f"{min(int(view.share * 100), 99)}%"
