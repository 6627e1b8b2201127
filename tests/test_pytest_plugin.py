"""The plugin for pytest, in sessions of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.pages import check_page

ROOT = Path(__file__).parent.parent

TESTS = """
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from covgame.testing import action, check_transitions, cover_transitions

@cover_transitions(visits=3, budget=100)
class Door:
    open = False
    def covgame_state(self):
        return "OPEN" if self.open else "CLOSED"
    @action
    def turn(self):
        self.open = not self.open

class Lamp(RuleBasedStateMachine):
    level = 0
    def covgame_state(self):
        return self.level
    @rule()
    def press(self):
        self.level = min(self.level + 1, 3)
    @precondition(lambda self: self.level == 3)
    @rule()
    def shake(self):
        assert False, "it breaks"

Lamp.TestCase.settings = settings(database=None)
cover_transitions(visits=2, budget=100)(Lamp)

@cover_transitions(visits=1000, budget=2)
class Short(Door):
    pass

@cover_transitions()
class Odd:
    pass

@pytest.mark.skip(reason="not today")
@cover_transitions()
class Skipped(Door):
    pass

def test_by_hand(tmp_path):
    assert check_transitions(Door).covered
"""


def session(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-p", "pytest_covgame", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=folder, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    (folder / "test_machines.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


@pytest.fixture(scope="module")
def plain(folder: Path) -> str:
    """What pytest prints."""
    done = session(folder, "--covgame-report")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_decorated_classes_are_tests_with_verdicts(plain: str) -> None:
    assert "3 failed, 2 passed, 1 skipped" in plain
    assert re.findall(r"FAILED test_machines.py::(\w+)", plain) == ["Lamp", "Short", "Odd"]


def test_a_failing_machine_prints_what_hypothesis_prints(plain: str) -> None:
    shown = plain.split("_ Lamp _")[1].split("_ Short _", maxsplit=1)[0]
    assert "it breaks" in shown
    printed = re.findall(r"state\.(\w+)\(\)", shown)
    assert printed == ["press", "press", "press", "shake", "teardown"]
    assert "seed 0" in shown
    assert "pytest_covgame.py" not in shown


def test_what_lacks_visits_and_bad_input_are_sentences_without_a_traceback(plain: str) -> None:
    short = plain.split("_ Short _")[1].split("_ Odd _", maxsplit=1)[0]
    assert "Short: 0 of 2 transitions 1,000 times (2 sequences, 100 steps, seed 0)" in short
    assert "OPEN / turn -> CLOSED: seen" in short
    odd = plain.split("_ Odd _")[1].split("short test summary", maxsplit=1)[0]
    assert "Odd has nothing to run: derive it from Hypothesis's RuleBasedStateMachine" in odd
    assert "Traceback" not in short + odd
    assert "hidden" not in short + odd


def test_success_is_one_line(plain: str) -> None:
    lines = re.findall(r"^covgame: Door: .*", plain, re.MULTILINE)
    (first, second) = lines  # collected, and called by hand
    assert first == second
    assert re.fullmatch(
        r"covgame: Door: all 2 transitions 3 times \(\d+ sequences, \d+ steps, seed 0\)", first
    )


def test_the_page_tells_what_was_reached_and_what_not(plain: str, folder: Path) -> None:
    assert "covgame: wrote covgame-report.html" in plain
    page = (folder / "covgame-report.html").read_text()
    data = check_page(page)
    tables = {one["title"]: one for one in data["tables"]}
    assert ["Door", "test_machines.py::Door"] in data["facts"]
    door = tables["Door: transitions"]
    assert door["heads"] == ["seen", "sequences for one more", "transition, rarest first"]
    assert "CLOSED / turn -> OPEN" in [row[2] for row in door["rows"]]
    ((times, where, error, rules),) = tables["Lamp: failures"]["rows"]
    assert int(times) > 1
    assert where == "3 / shake"
    assert "it breaks" in error
    assert rules == "press, press, press, shake"


def test_with_several_processes_the_same_is_told(folder: Path) -> None:
    done = session(folder, "-n", "2", "--covgame-report=pages/x.html", "--covgame-seed=5")
    assert "3 failed, 2 passed, 1 skipped" in done.stdout
    assert len(re.findall(r"^covgame: Door: all 2 .* seed 5\)", done.stdout, re.MULTILINE)) == 2
    page = (folder / "pages" / "x.html").read_text()
    titles = {one["title"] for one in check_page(page)["tables"]}
    assert {f"{name}: transitions" for name in ("Door", "Lamp", "Short")} <= titles


def test_nobody_who_does_not_use_it_waits_for_it(tmp_path: Path) -> None:
    """In a session without decorated classes nothing of covgame or NumPy is imported."""
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_it():\n"
        "    assert 'pytest_covgame' in sys.modules\n"
        "    assert not {'covgame', 'numpy', 'hypothesis'} & set(sys.modules)\n"
    )
    done = session(tmp_path, "-p", "no:hypothesispytest")
    assert done.returncode == 0, done.stdout
    assert "covgame:" not in done.stdout


def test_the_entry_point_names_what_is_packed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    ((name, module),) = project["project"]["entry-points"]["pytest11"].items()
    assert name == module  # so that -p finds it by either, and never twice
    assert (ROOT / "src" / f"{module}.py").is_file()
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert f"src/{module}.py" in packed
