"""The page of a run while it is played: rewritten now and then, and reloading until the end."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import covgame as cg
from covgame.cli.main import main
from covgame.config import CoverConfig, LearnConfig
from covgame.errors import BadInput
from covgame.report import html
from covgame.report.html import PageUpdates
from covgame.runs.cover import start
from covgame.runs.learn import start as start_learning
from covgame.runs.loop import play
from covgame.runs.run import Run
from tests.pages import data_in

CHAIN = "chain:states=4,horizon=6"
RELOADS = re.compile(r'<html lang="en" data-written="\d+">')


def begun() -> Run:
    return start(CHAIN, "uniform:20/pair", CoverConfig())


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def pages_of(path: Path, command: Callable[[Callable[[Any], None]], object]) -> list[str]:
    """The page after every block of a command, if there is one."""
    seen: list[str] = []
    command(lambda run: seen.append(path.read_text()))
    return seen


def test_the_page_is_there_from_the_start_and_reloads_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run" / "report.html"
    seen = pages_of(
        path,
        lambda progress: cg.cover(
            CHAIN, "uniform:20/pair", out=tmp_path / "run", report=True, progress=progress
        ),
    )
    assert seen
    assert RELOADS.search(seen[0])
    assert data_in(seen[0])["status"] == "running"
    last = path.read_text()
    assert not RELOADS.search(last)
    assert "data-written" not in last.split("<script>")[0]
    assert data_in(last)["status"] == "covered"
    assert last == Path(cg.load(tmp_path / "run").report(tmp_path / "again.html")).read_text()


def test_a_page_changes_nothing_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "SECONDS_BETWEEN_PAGES", 0.0)
    monkeypatch.setattr(html, "SHARE_OF_TIME", 1e9)
    quiet = cg.cover(CHAIN, "uniform:20/pair", out=tmp_path / "a")
    run = cg.cover(CHAIN, "uniform:20/pair", out=tmp_path / "b", report=True)
    assert run.n_episodes == quiet.n_episodes
    assert (run.counts.visits == quiet.counts.visits).all()
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in "ab"]
    assert names[1] - names[0] == {"report.html"}


def test_pages_come_every_two_seconds_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, written = Clock(), []
    monkeypatch.setattr(html, "write_page", lambda *_, **__: written.append(clock.now))
    run = begun()
    pages = PageUpdates(run, tmp_path / "page.html", clock)
    for _ in range(1000):
        clock.now += 0.1
        pages.after_block(run)
    gaps = [later - sooner for sooner, later in pairwise(written)]
    assert len(written) > 40
    assert all(1.99 < gap < 2.2 for gap in gaps)


def test_pages_take_a_small_part_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, written = Clock(), []

    def write(*_: Any, **__: Any) -> None:
        clock.now += 0.3  # what a page costs
        written.append(clock.now)

    monkeypatch.setattr(html, "write_page", write)
    run = begun()
    pages = PageUpdates(run, tmp_path / "page.html", clock)
    written.clear()
    began = clock.now
    while clock.now < began + 1000:
        clock.now += 0.1  # what a block takes
        pages.after_block(run)
    spent = 0.3 * len(written)
    assert 0.02 * 1000 < spent <= 0.03 * 1000 + 0.3


def test_learners_have_such_a_page_too(tmp_path: Path) -> None:
    path = tmp_path / "run" / "report.html"
    seen = pages_of(
        path,
        lambda progress: cg.identify(
            "chain:states=3,horizon=3", epsilon=2.0, out=path.parent, report=True, progress=progress
        ),
    )
    assert data_in(seen[0])["tone"] == "running"
    assert data_in(path.read_text())["status"] == "certified"
    run = start_learning("chain:states=3,horizon=3", LearnConfig(command="identify", epsilon=2.0))
    clock = Clock()
    pages = PageUpdates(run, tmp_path / "page.html", clock)
    for _ in play(run):
        clock.now += 1000.0
        pages.after_block(run)
    assert RELOADS.search((tmp_path / "page.html").read_text())


def test_a_run_that_is_broken_off_has_a_last_page(tmp_path: Path) -> None:
    def stop(run: Run) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cg.cover(CHAIN, "uniform:20/pair", out=tmp_path / "run", report=True, progress=stop)
    page = (tmp_path / "run" / "report.html").read_text()
    assert not RELOADS.search(page)
    assert data_in(page)["status"] == "interrupted"


def test_a_page_that_cannot_be_rewritten_does_not_stop_the_run(tmp_path: Path) -> None:
    run, clock = begun(), Clock()
    (tmp_path / "place").mkdir()
    pages = PageUpdates(run, tmp_path / "place" / "page.html", clock)
    (tmp_path / "place" / "page.html").unlink()
    (tmp_path / "place").rmdir()
    clock.now = 100.0
    pages.after_block(run)
    pages.break_off()
    with pytest.raises(BadInput, match="there is no folder"):
        PageUpdates(run, tmp_path / "place" / "page.html", clock)


def test_a_page_needs_a_folder() -> None:
    with pytest.raises(BadInput, match="this run has no folder"):
        cg.cover(CHAIN, "uniform:1/pair", report=True)


@pytest.mark.parametrize("words", [(), ("--quiet",)])
def test_the_command_says_where_the_page_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["cover", CHAIN, "--target", "uniform:2/pair", "--out", "run", "--report", *words]
    answer = CliRunner().invoke(main, command)
    assert answer.exit_code == 0, answer.stderr
    said = f"which reloads itself: {os.path.join('run', 'report.html')}"
    assert (said in answer.stderr) == (not words)
    assert data_in(Path("run/report.html").read_text())["status"] == "covered"
