"""How a run goes, while it is played: the share of the work, rows in words, a bar or lines."""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from covgame.cli.playing import recount_lines, watch
from covgame.config import CoverConfig, LearnConfig
from covgame.game.progress import Progress
from covgame.report import progress as watching
from covgame.report.progress import ProgressView, progress_view
from covgame.runs.cover import start
from covgame.runs.learn import start as start_learning
from covgame.runs.loop import play
from covgame.runs.resume import Passed, open_for_resume
from covgame.runs.run import Run
from tests.rundb import drop_arrays


class Listening(io.StringIO):
    """Standard error as a terminal, or none."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class Clock:
    """Every look at it takes a second."""

    def __init__(self, step: float = 1.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the next view or line."""
    monkeypatch.setattr(watching, "SECONDS_BETWEEN_VIEWS", -1.0)
    monkeypatch.setattr(watching, "SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setattr(watching, "SHARE_FOR_VIEWS", float("inf"))


def view(**changes: Any) -> Progress:
    known: dict[str, Any] = {
        "n_episodes": 30,
        "share_covered": 0.9,
        "rows_open": 2,
        "rows": 8,
        "episodes_left": 70.0,
        "rows_unvisited": 0,
        "hardest": [],
    }
    return Progress(**{**known, **changes})


def test_the_share_is_of_the_work_and_not_of_the_visits() -> None:
    assert view().share_done == pytest.approx(0.3)
    assert view(episodes_left=0.0).share_done == 1.0
    assert view(episodes_left=None).share_done == 0.9
    assert view(n_episodes=0, episodes_left=0.0).share_done == 0.9


def test_what_was_never_reached_is_not_taken_for_done() -> None:
    assert view(rows_unvisited=1, share_covered=0.2).share_done == pytest.approx(0.2)
    assert view(rows_unvisited=1, share_covered=0.5).share_done == pytest.approx(0.3)


class Machine:
    """A machine whose states and actions have names, one of which looks like markup."""

    actions = ("insert coin", "[bold]turn")
    horizon = 4

    def reset(self) -> str:
        self.open = False
        return "CLOSED"

    def step(self, action: str) -> tuple[str, float, bool]:
        self.open = action == "insert coin" or (self.open and action != "[bold]turn")
        return ("OPEN" if self.open else "CLOSED"), 1.0, False


def some_of(run: Run) -> Run:
    """The first blocks of a run."""
    for _ in play(run):
        if run.n_episodes >= 3:
            break
    return run


def test_a_covering_run_says_the_hardest_row_in_words() -> None:
    settings = CoverConfig()
    said = progress_view(some_of(start(cg.make("grid"), "uniform:500/pair", settings)))
    assert said.share is not None
    assert 0 < said.share < 1
    assert "; about " in said.words
    assert "; hardest: row " in said.words
    assert said.words.endswith(" more)")
    own = progress_view(some_of(start(cg.make(Machine), "uniform:900/pair", settings)))
    assert "OPEN / " in own.words or "CLOSED / " in own.words


def test_the_first_episode_is_too_early_for_an_estimate() -> None:
    run = start(cg.make(Machine), "uniform:900/pair", CoverConfig())
    next(play(run))
    words = "1 episode; 1 of 4 pairs not reached; too early to estimate"
    assert progress_view(run).words == words


def test_a_learning_run_says_how_far_its_bound_is() -> None:
    world = cg.make("riverswim:states=3,horizon=4")
    run = start_learning(world, LearnConfig(command="explore", epsilon=0.5))
    assert progress_view(run).share is None
    shares = []
    for _ in play(run):
        said = progress_view(run)
        if said.share is not None:
            shares.append(said.share)
            assert "wanted 0.5" in said.words
    assert shares[-1] == 1.0
    assert min(shares) < 0.1
    paper = start_learning(world, LearnConfig(command="explore", epsilon=1.0, preset="paper"))
    assert progress_view(paper).share == 0.0


def test_views_cost_a_small_share_of_the_time_but_come_every_few_seconds() -> None:
    seen: list[ProgressView] = []
    run = some_of(start(cg.make("grid"), "uniform:500/pair", CoverConfig()))
    quick = watching.Pacer(seen.append, Clock(0.03))
    for _ in range(200):
        quick.after_block(run)
    assert 5 <= len(seen) <= 8  # of 6 seconds: a view takes 0.03, so the next is due after 1
    seen.clear()
    slow = watching.Pacer(seen.append, Clock())
    for _ in range(200):
        slow.after_block(run)
    assert 40 <= len(seen) <= 70  # of 200 seconds: a view takes one, the next is due after 3
    seen.clear()
    run.task = None
    finished = cg.cover("grid", "uniform:1/state")
    watching.Pacer(seen.append, Clock()).after_block(finished)
    assert not seen


def test_logs_get_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Listening(terminal=False)
    monkeypatch.setattr(sys, "stderr", heard)
    lines = watching.Lines(Clock())
    for _ in range(30):
        lines.show(ProgressView(0.999, "12 episodes"))
    said = heard.getvalue().splitlines()
    assert set(said) == {"covgame: 99% done, 12 episodes"}  # all is done only when it is
    assert 4 <= len(said) <= 6
    monkeypatch.setattr(watching, "SECONDS_BETWEEN_LINES", -1.0)
    lines = watching.Lines(Clock())
    lines.show(ProgressView(None, "12 episodes"))
    assert heard.getvalue().splitlines()[-1] == "covgame: 12 episodes"
    for nobody in (None, Closed()):
        monkeypatch.setattr(sys, "stderr", nobody)
        lines.show(ProgressView(None, "12 episodes"))


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


VERBS: list[Callable[..., Any]] = [
    lambda **more: cg.cover(Machine, "uniform:30/pair", **more),
    lambda **more: cg.explore("riverswim:states=3,horizon=4", epsilon=1.0, **more),
    lambda **more: cg.identify("riverswim:states=3,horizon=4", epsilon=1.0, **more),
]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("verb", VERBS, ids=["cover", "explore", "identify"])
@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "log"])
def test_python_shows_it_where_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, verb: Callable[..., Any], terminal: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    heard = Listening(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", heard)
    verb()
    verb(progress=False)
    assert heard.getvalue() == ""
    run = verb(progress=True)
    assert " episodes" in heard.getvalue()
    assert ("\x1b[" in heard.getvalue()) is terminal
    assert run.n_episodes > 0


@pytest.mark.usefixtures("always")
def test_labels_are_not_taken_for_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    heard = Listening(terminal=True)
    monkeypatch.setattr(sys, "stderr", heard)
    with watching.display() as show:
        for _ in play(run := start(cg.make(Machine), "uniform:300/pair", CoverConfig())):
            show(run)
    assert "/ [bold]turn (" in heard.getvalue()


def test_a_function_is_called_as_before_and_anything_else_refused() -> None:
    seen: list[int] = []
    cg.cover("grid", "uniform:2/pair", progress=lambda run: seen.append(run.n_episodes))
    assert seen == sorted(seen)
    assert seen
    with pytest.raises(cg.BadInput, match="progress is True, None or a function"):
        cg.cover("grid", "uniform:2/pair", progress="yes")  # type: ignore[arg-type]


@pytest.mark.usefixtures("always")
def test_a_notebook_gets_one_element_that_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []

    class Handle:
        def update(self, page: str) -> None:
            pages.append(page)

    def show(page: str, *, display_id: bool) -> Handle:
        assert display_id
        assert not pages
        pages.append(page)
        return Handle()

    tools = types.ModuleType("IPython.display")
    tools.HTML, tools.display = str, show  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", tools)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    cg.cover("grid", "uniform:50/pair", progress=True)
    assert len(pages) > 1
    assert all(page.startswith("<progress max='1' value='0.") for page in pages)
    assert (
        watching.as_html(ProgressView(None, "a < b")) == "<progress max='1'></progress>  a &lt; b"
    )


@pytest.mark.usefixtures("always")
def test_the_command_line_shows_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for quiet in (True, False):
        run = start(cg.make("grid"), "uniform:30/pair", CoverConfig())
        watch(run, report=False, quiet=quiet)
        assert run.covered
        said = capsys.readouterr()
        assert said.out == ""
        assert ("; hardest: row " in said.err) is not quiet


@pytest.mark.usefixtures("always")
def test_counting_recorded_episodes_again_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed run may have to replay many episodes before it plays the next."""
    run = cg.cover(Machine, "uniform:30/pair", max_episodes=4, out=tmp_path / "run")
    drop_arrays(tmp_path / "run")
    again = open_for_resume(tmp_path / "run", {}, Passed(env=Machine), on_recount=recount_lines())
    assert again.n_episodes == run.n_episodes == 4
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "covgame: 25% done, counting recorded episodes again: 1 of 4"
    assert len(said) == 4
