"""``covgame cover`` and ``resume``: watching a run, and saying how it ended."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covgame import waiting
from covgame.cli.common import say
from covgame.game.outlook import Outlook, outlook
from covgame.planning import number
from covgame.runs.cover import Run, play_blocks

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EXIT_CODES = {"covered": 0, "budget": 3, "failed": 4, "interrupted": 130}

SECONDS_BETWEEN_LINES = 10.0
SECONDS_UNTIL_EXCUSE = 2.0
SHARE_FOR_OUTLOOK = 0.03
"""The outlook solves a linear program: it may take so much of the time."""

COMPILING = "compiling the game for this machine, up to half a minute, once"


def watch(run: Run, *, quiet: bool) -> None:
    """Play a run to its end, showing how it goes on standard error."""
    if quiet:
        for _ in play_blocks(run):
            pass
        return
    with _display() as show:
        pacer = _Pacer(show)
        with _excuse(COMPILING):
            for _ in play_blocks(run):
                pacer.after_block(run)


class _Pacer:
    """Calls the display as often as its cost allows."""

    def __init__(self, show: Callable[[Outlook], None]) -> None:
        self.show = show
        self.due = time.monotonic() + 0.5

    def after_block(self, run: Run) -> None:
        began = time.monotonic()
        if began < self.due or run.covered:
            return
        self.show(outlook(run.game))
        cost = time.monotonic() - began
        self.due = time.monotonic() + max(0.5, cost / SHARE_FOR_OUTLOOK)


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
def _display() -> Iterator[Callable[[Outlook], None]]:
    """A live bar in a terminal, a line now and then elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _Lines().show
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        BarColumn(bar_width=12),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("cover", total=1.0, words="")
        yield lambda view: _advance(progress, task, view)


def _advance(progress: Progress, task: TaskID, view: Outlook) -> None:
    progress.update(task, completed=view.share_covered, words=words(view))


class _Lines:
    """A line every ten seconds, for logs."""

    def __init__(self) -> None:
        self.due = time.monotonic() + SECONDS_BETWEEN_LINES

    def show(self, view: Outlook) -> None:
        if time.monotonic() >= self.due:
            say(f"{view.share_covered:.0%} covered, {words(view)}")
            self.due = time.monotonic() + SECONDS_BETWEEN_LINES


def words(view: Outlook) -> str:
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
