"""covgame's plugin for pytest: state machines that ``@cover_transitions`` decorates are tests.

It stands beside the package because pytest imports it in every session where covgame is installed.
Nothing else is imported until a decorated class is found or a page is to be written.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from covgame.testing import Outcome

MARK = "__covgame__"
ATTRIBUTE = "covgame_outcomes"
"""Under this name reports carry what was seen, also from one process to another."""

DEFAULT_PAGE = "covgame-report.html"
OUTCOMES = pytest.StashKey[list[dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options."""
    group = parser.getgroup("covgame", "transitions of state machines (covgame)")
    group.addoption(
        "--covgame-report",
        nargs="?",
        const=DEFAULT_PAGE,
        metavar="PATH",
        help="write a page about what state machines have reached (default: %(const)s)",
    )
    group.addoption(
        "--covgame-seed",
        type=int,
        metavar="N",
        help="another seed for all state machines, instead of their own",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Reports are heard from now on."""
    config.pluginmanager.register(Gathering(config), "covgame-gathering")


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> pytest.Item | None:
    """A decorated class is one test."""
    if not (isinstance(obj, type) and MARK in vars(obj)):
        return None

    def test() -> None:
        __tracebackhide__ = _is_no_sentence
        from covgame.errors import CovgameError
        from covgame.testing import NotCovered, check_transitions

        sentence = None
        try:
            check_transitions(obj)
        except (CovgameError, NotCovered) as error:
            sentence = str(error)
        if sentence is not None:
            pytest.fail(sentence, pytrace=False)

    test.__doc__ = obj.__doc__
    test.pytestmark = list(getattr(obj, "pytestmark", []))  # type: ignore[attr-defined]
    return pytest.Function.from_parent(collector, name=name, callobj=test)


def _is_no_sentence(info: pytest.ExceptionInfo[BaseException]) -> bool:
    """Whether there is a traceback to be shown, from which this file is left out."""
    return not isinstance(info.value, pytest.fail.Exception)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Hear of every machine that a test runs, also of those that fail."""
    checking: Any = sys.modules.get("covgame.testing.checking")
    if checking is None:
        return (yield)
    seen: list[Outcome] = []
    checking.listeners.append(seen.append)
    checking.Session.seed = item.config.getoption("--covgame-seed")
    try:
        return (yield)
    finally:
        checking.listeners.remove(seen.append)
        item.stash[OUTCOMES] = [{**one.to_dict(), "test": item.nodeid} for one in seen]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Reports carry it; with pytest-xdist they come from other processes."""
    report = yield
    if call.when == "call" and item.stash.get(OUTCOMES, None):
        setattr(report, ATTRIBUTE, item.stash[OUTCOMES])
        if report.failed:
            report.sections.append(("covgame", "\n".join(map(_line, seen_in(report)))))
    return report


def seen_in(report: pytest.TestReport) -> list[dict[str, Any]]:
    """What a report carries."""
    return getattr(report, ATTRIBUTE, [])


def _line(outcome: dict[str, Any]) -> str:
    from covgame.testing import Outcome

    return Outcome.from_dict(outcome).line()


class Gathering:
    """Where reports arrive: in the one process that people look at."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outcomes: list[tuple[dict[str, Any], bool]] = []  # and whether the test passed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what it carries."""
        self.outcomes += [(one, report.passed) for one in seen_in(report)]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A line for every machine that passed, and the page if it was requested."""
        for one, passed in self.outcomes:
            if passed and self.config.getoption("verbose") >= 0:
                terminalreporter.write_line(f"covgame: {_line(one)}")
        path = self.config.getoption("--covgame-report")
        if path is not None:
            from covgame.testing import Outcome, write_report

            write_report([Outcome.from_dict(one) for one, _ in self.outcomes], path)
            terminalreporter.write_line(f"covgame: wrote {path}")
