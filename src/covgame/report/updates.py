"""Rewrite the page of a run while it is played.

The page reloads itself until the run has ended. Rewriting is limited to one page every two seconds
and to a small share of the running time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from covgame.errors import BadInput
from covgame.report.content import PageData
from covgame.report.curves import Trail, point_of
from covgame.report.html import write_page
from covgame.report.run_page import page_of
from covgame.runs.coverage import Coverage
from covgame.runs.run import Run

SECONDS_BETWEEN_PAGES = 2.0
SHARE_OF_TIME = 0.03
"""Largest share of the running time that writing pages may take."""


class PageUpdates:
    """Writes the page at the start of a run, and again between its blocks.

    Args:
        run: The run, before its first block.
        path: The page.
        clock: Seconds, for tests.

    Raises:
        BadInput: The page cannot be written.
    """

    def __init__(self, run: Run, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.clock, self.trail = path, clock, Trail()
        self.page = self._look(run)
        write_page(self.page, self.path, reloads=True)
        self.due = clock() + SECONDS_BETWEEN_PAGES

    def after_block(self, run: Run) -> None:
        """Rewrite the page if it is time to; the run goes on if that fails."""
        began = self.clock()
        if began < self.due:
            return
        self.page = self._look(run)
        with contextlib.suppress(BadInput):
            write_page(self.page, self.path, reloads=True)
        now = self.clock()
        self.due = now + max(SECONDS_BETWEEN_PAGES, (now - began) / SHARE_OF_TIME)

    def break_off(self) -> None:
        """Mark the last page as interrupted; the run itself may be in the middle of a step."""
        with contextlib.suppress(BadInput):
            write_page(replace(self.page, status="interrupted", tone="open"), self.path)

    def _look(self, run: Run) -> PageData:
        if isinstance(run, Coverage):
            self.trail.add(*point_of(run))
        return page_of(run, running=True, trail=self.trail)


@contextmanager
def page_updates(run: Run) -> Iterator[Callable[[Run], None]]:
    """Yields what to call with the run after every block; the caller writes the last page.

    Args:
        run: The run, before its first block.

    Raises:
        BadInput: The run has no folder, or the page cannot be written.
    """
    updates = PageUpdates(run, run.report_path)
    try:
        yield updates.after_block
    except BaseException:
        updates.break_off()
        raise
