"""How a run goes, while it is played: a bar in terminals and notebooks, lines in logs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from covgame.plain import as_html as html_of
from covgame.plain import plain
from covgame.runs.run import Outlook, Run

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_VIEWS = 0.5
MOST_BETWEEN_VIEWS = 3.0
SECONDS_BETWEEN_LINES = 5.0
SHARE_FOR_VIEWS = 0.03
"""Views may take this share of the time, but are never more than ``MOST_BETWEEN_VIEWS`` apart.

Expensive estimates limit themselves (``game.progress``), so a view takes milliseconds."""

Show = Callable[[Outlook], None]


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
        view = run.outlook()
        self.show(replace(view, words=plain(view.words)))
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

        def show(view: Outlook) -> None:
            total, done = (None, 0.0) if view.share is None else (1.0, view.share)
            bars.update(task, total=total, completed=done, share=_percent(view), words=view.words)

        yield show


class _Notebook:
    """An element of the page that is drawn anew."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, view: Outlook) -> None:
        tools: Any = import_module("IPython.display")
        page = tools.HTML(as_html(view))
        if self.handle is None:
            self.handle = tools.display(page, display_id=True)
        else:
            self.handle.update(page)


def as_html(view: Outlook) -> str:
    """A bar with its words, for a notebook."""
    value = "" if view.share is None else f" value='{view.share:.4f}'"
    return f"<progress max='1'{value}></progress> {_percent(view)} {html_of(view.words)}"


class Lines:
    """A line every five seconds, for logs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.due = clock() + SECONDS_BETWEEN_LINES

    def show(self, view: Outlook) -> None:
        """Say how it goes, if it is time to."""
        if self.clock() < self.due:
            return
        share = f"{_percent(view)} done, " if view.share is not None else ""
        with contextlib.suppress(OSError, AttributeError):  # nobody may be listening
            sys.stderr.write(f"covgame: {share}{view.words}\n")
            sys.stderr.flush()
        self.due = self.clock() + SECONDS_BETWEEN_LINES


def _percent(view: Outlook) -> str:
    """The share in whole percent; all is done only when it is done."""
    return "" if view.share is None else f"{min(int(view.share * 100), 99)}%"
