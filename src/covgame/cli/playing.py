"""Play a run to its end, print its answer, and exit as the contract says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from covgame.cli.messages import (
    ANSWERED,
    DEBUG,
    INTERRUPTED,
    Answer,
    interrupted_answer,
    print_json,
    say,
    say_lines,
    say_unless,
    show,
)
from covgame.errors import CovgameError, SolverFailed
from covgame.planning import number
from covgame.report.progress import Lines, ProgressView, display
from covgame.runs.cover import compute_exact_bound
from covgame.runs.coverage import Coverage
from covgame.runs.loop import play, updated_page
from covgame.runs.resume import command_of, load_without_code
from covgame.runs.run import Run

if TYPE_CHECKING:
    from covgame.runs.pac_run import LearningRun

EXIT_CODES = {
    "covered": 0,
    "rule": 0,
    "unseen": 3,
    "budget": 3,
    "failed": 4,
    "interrupted": INTERRUPTED,
}


UNSEEN = "a state of the target never appeared; all is saved"


def finish(run: Run, as_json: bool, quiet: bool, report: bool) -> NoReturn:
    """Play a run to its end, print the answer, and exit as the contract says."""
    try:
        say_unless(quiet, run.notice)
        if run.stopped is None:
            watch(run, report=report, quiet=quiet)
        if isinstance(run, Coverage):
            _solve(run, quiet)
        if as_json:
            print_json(run.to_dict())
        else:
            show(run.to_text())
        if report:
            say_unless(quiet, f"wrote {run.report()}")
    except KeyboardInterrupt:
        _break_off(run, as_json, quiet)
    leave(run, quiet)


def watch(run: Run, *, report: bool, quiet: bool) -> None:
    """Play a run to its end, showing progress on standard error and, if asked, on a page."""
    with updated_page(run, wanted=report) as update_page, ExitStack() as stack:
        show_progress = None if quiet else stack.enter_context(display())
        if report and not quiet:
            say(f"the page of this run, which reloads itself: {run.report_path}")
        warned = quiet
        for _ in play(run):
            if show_progress is not None:
                show_progress(run)
            update_page(run)
            if run.warning and not warned:
                say(run.warning)
                warned = True


def recount_lines() -> Callable[[int, int], None]:
    """Prints how far counting the recorded episodes again is, every few seconds."""
    lines = Lines()

    def show(told: int, recorded: int) -> None:
        words = f"counting recorded episodes again: {told:,} of {recorded:,}"
        lines.show(ProgressView(told / recorded, words))

    return show


def announce(run: LearningRun) -> None:
    """What the run will take at least, part by part."""
    if not run.forecast.needs:
        return
    parts = "; ".join(f"{need.part} {number(need.episodes)}" for need in run.forecast.needs)
    say(f"this takes at least {number(run.forecast.episodes)} episodes on average: {parts}")
    if run.settings.scale < 1:
        say(f"thresholds scaled by {run.settings.scale:g}: nothing is guaranteed")


def leave_unopened(path: Path, as_json: bool) -> NoReturn:
    """Exit where ``resume`` was interrupted before the run was open."""
    say("interrupted; nothing is lost")
    if as_json:
        print_json(_minimal_answer(path))
    sys.exit(INTERRUPTED)


def _solve(run: Coverage, quiet: bool) -> None:
    """phi* of a large world is computed when all else is saved, and then saved as well."""
    if not run.settings.exact_bound or run.min_episodes_is != "lower bound":
        return
    cells = run.target.shape.cells
    say_unless(quiet, f"computing phi*, a linear program over {cells:,} cells; the run is saved")
    try:
        compute_exact_bound(run)
    except KeyboardInterrupt:
        say_unless(quiet, "phi* was not computed; the answer has a lower bound instead")
        run.stopped = "interrupted"
    except SolverFailed as error:
        say_unless(quiet, f"phi* cannot be computed; the answer has a lower bound instead: {error}")


def _break_off(run: Run, as_json: bool, quiet: bool) -> NoReturn:
    """Exit after a second signal; memory may be half done, so the answer is read from the files."""
    answered = click.get_current_context().meta.get(ANSWERED)
    if as_json and not answered and run.path is not None:
        print_json(_answer_from_folder(run.path))
    say_unless(quiet, f"interrupted; everything is saved, go on with: {run.resume_command}")
    sys.exit(INTERRUPTED)


def _answer_from_folder(path: Path) -> Answer:
    """The answer of an interrupted run, read anew without any code of its environment."""
    try:
        run = load_without_code(path)
    except CovgameError:
        return _minimal_answer(path)
    run.stopped = "interrupted"
    return run.to_dict(solve=False) if isinstance(run, Coverage) else run.to_dict()


def _minimal_answer(path: Path) -> Answer:
    return interrupted_answer(command_of(path), episodes=None, run=str(path))


def _around(run: Run) -> str:
    """How to get past a step that fails again and again."""
    last = run.failures.last if len(run.failures) else None
    if last is None or not last.path:
        return ""
    return " --on-failure avoid" if isinstance(run, Coverage) else " --on-failure record"


def leave(run: Run, quiet: bool) -> NoReturn:
    """Exit; where work is left, say why and how to go on."""
    code = EXIT_CODES[run.stopped or "interrupted"]
    if run.failures and click.get_current_context().meta.get(DEBUG):
        say_lines(run.failures.last.traceback)
    if run.stopped == "unseen":
        say_unless(quiet, UNSEEN)
    elif code == EXIT_CODES["failed"] or (code and not quiet):  # --quiet does not hide errors
        why = {3: "the budget is spent", 4: run.failure, INTERRUPTED: "interrupted"}[code]
        more = {3: " --max-episodes N", 4: _around(run)}.get(code, "")
        say(f"{why}; everything is saved, go on with: {run.resume_command}{more}")
    sys.exit(code)
