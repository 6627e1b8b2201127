"""Play a run to its end, print its answer, and exit as the contract says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from covgame.cli.messages import INTERRUPTED, print_json, say
from covgame.cli.progress import announce, watch_covering, watch_learning
from covgame.runs.cover import Run, save_answer
from covgame.runs.learn import AnyRun, Settings, create_folder, start

LARGE = 20_000
EXIT_CODES = {"covered": 0, "rule": 0, "budget": 3, "failed": 4, "interrupted": INTERRUPTED}


def finish_covering(run: Run, as_json: bool, quiet: bool) -> None:
    """Play a run to its end, print the answer, and exit as the contract says."""
    if run.stopped is None:
        watch_covering(run, quiet=quiet)
    cells = run.target.shape.cells
    if cells > LARGE and run.environment.known and run.stopped != "interrupted" and not quiet:
        say(f"now phi*, a linear program over {cells:,} cells; all episodes are saved")
    answer = run.to_dict()
    save_answer(run, answer)
    if as_json:
        print_json(answer)
    else:
        click.echo(run.to_text())
    code = EXIT_CODES[run.stopped or "interrupted"]
    leave(code, run.failure, run.path, quiet)


def begin_learning(
    env: str,
    settings: Settings,
    horizon: int | None,
    force: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say what it will take, give the run a folder, and play it."""
    run = start(env, settings, horizon=horizon, force=force)
    if not quiet:
        announce(run)
    create_folder(run, out)
    finish_learning(run, as_json, quiet)


def finish_learning(run: AnyRun, as_json: bool, quiet: bool) -> None:
    """Play a run to its end, print the answer, and exit as the contract says."""
    if run.stopped is None:
        watch_learning(run, quiet=quiet)
    answer = run.to_dict()
    if as_json:
        print_json(answer)
    else:
        click.echo(run.to_text())
    code = EXIT_CODES[run.stopped or "interrupted"]
    leave(code, run.failure, run.path, quiet)


def leave(code: int, failure: str | None, path: Path | None, quiet: bool) -> NoReturn:
    """Exit; where work is left, say why and how to go on."""
    if code and not quiet:
        why = {3: "the budget is spent", 4: failure, INTERRUPTED: "interrupted"}[code]
        more = " --max-episodes N" if code == 3 else ""
        say(f"{why}; all is saved, go on with: covgame resume {path}{more}")
    sys.exit(code)
