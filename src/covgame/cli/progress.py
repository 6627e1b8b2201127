"""How a run goes, on standard error, while it is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from covgame.cli.messages import say
from covgame.planning import number
from covgame.runs.loop import play, updated_page
from covgame.runs.run import Outlook, Run
from covgame.runs.watching import Lines, display

if TYPE_CHECKING:
    from covgame.runs.learning_run import LearningRun


def watch(run: Run, *, report: bool, quiet: bool) -> None:
    """Play a run to its end, showing how it goes on standard error and, if asked, on a page."""
    with updated_page(run, wanted=report) as update_page:
        if report and not quiet:
            say(f"the page of this run, which reloads itself: {run.report_path}")
        _watch(run, update_page, quiet=quiet)


def _watch(run: Run, update_page: Callable[[Run], None], *, quiet: bool) -> None:
    if quiet:
        for _ in play(run):
            update_page(run)
        return
    with display() as show:
        warned = False
        for _ in play(run):
            show(run)
            update_page(run)
            if run.warning and not warned:
                say(run.warning)
                warned = True


def recount_lines() -> Callable[[int, int], None]:
    """Prints how far counting the recorded episodes again is, every few seconds."""
    lines = Lines()

    def show(told: int, recorded: int) -> None:
        words = f"counting recorded episodes again: {told:,} of {recorded:,}"
        lines.show(Outlook(told / recorded, words))

    return show


def announce(run: LearningRun) -> None:
    """What the run will take at least, part by part."""
    if not run.forecast.needs:
        return
    parts = "; ".join(f"{need.part} {number(need.episodes)}" for need in run.forecast.needs)
    say(f"this takes at least {number(run.forecast.episodes)} episodes on average: {parts}")
    if run.settings.scale < 1:
        say(f"thresholds scaled by {run.settings.scale:g}: nothing is guaranteed")
