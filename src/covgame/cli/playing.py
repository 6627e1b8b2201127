"""Play a run to its end, print its answer, and exit as the contract says."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from covgame.cli.messages import DEBUG, INTERRUPTED, print_json, say, say_lines, say_unless, show
from covgame.cli.progress import watch
from covgame.cli.supervising import works_on
from covgame.errors import SolverFailed
from covgame.runs.cover import solved_as_asked
from covgame.runs.coverage import Coverage
from covgame.runs.run import Run

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
    works_on(run.path)
    say_unless(quiet, run.notice)
    if run.stopped is None:
        try:
            watch(run, report=report, quiet=quiet)
        except KeyboardInterrupt:
            _break_off(run, as_json, quiet)
    if isinstance(run, Coverage):
        _solve(run, quiet)
    if as_json:
        print_json(run.to_dict())
    else:
        show(run.to_text())
    if report:
        say_unless(quiet, f"wrote {run.report()}")
    leave(run, quiet)


def _solve(run: Coverage, quiet: bool) -> None:
    """phi* of a large world is computed when all else is saved, and then saved as well."""
    if not run.settings.exact_bound or run.min_episodes_is != "lower bound":
        return
    cells = run.target.shape.cells
    say_unless(quiet, f"computing phi*, a linear program over {cells:,} cells; the run is saved")
    try:
        solved_as_asked(run)
    except KeyboardInterrupt:
        say_unless(quiet, "phi* was not computed; the answer has a lower bound instead")
        run.stopped = "interrupted"
    except SolverFailed as error:
        say_unless(quiet, f"phi* cannot be computed; the answer has a lower bound instead: {error}")


def _break_off(run: Run, as_json: bool, quiet: bool) -> NoReturn:
    """Whoever asks twice does not wait: what is in memory may be half done, the files are not."""
    if as_json and run.path is not None:
        from covgame.runs.aftermath import answer_from_files

        print_json(answer_from_files(run.path, "interrupted", None))
    say_unless(quiet, f"interrupted; everything is saved, go on with: {run.resume_command}")
    sys.exit(INTERRUPTED)


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
