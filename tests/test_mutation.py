"""The tool that makes mutants: its changes are what they say, and its lists fit the sources."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.mutation import table
from tests.mutation.changes import changes

SOURCE = Path(__file__).parent.parent / "src" / "covgame"
EXAMPLE = '''"""Not 1 but 2."""
LIMIT: "int | None" = 3


def bound(h: int, x: float = 0.5) -> float:
    """At most 1."""
    if x < 1 and h:
        raise ValueError(f"{x + 1}")
    values[h] += 1
    return min(x, 2 * sqrt(x))
'''


def made() -> set[str]:
    return {f"{change.old} -> {change.new}" for change in changes(EXAMPLE)}


@pytest.mark.parametrize(
    "change",
    [
        "3 -> 4",
        "0.5 -> 0.25",
        "x < 1 -> x <= 1",
        "x < 1 and h -> x < 1 or h",
        "x < 1 and h -> h",
        "values[h] -> values[h - 1]",
        "values[h] += 1 -> values[h] -= 1",
        "values[h] += 1 -> (nothing)",
        "min(x, 2 * sqrt(x)) -> max(x, 2 * sqrt(x))",
        "2 * sqrt(x) -> 2 / sqrt(x)",
        "2 * sqrt(x) -> sqrt(x)",
        "sqrt(x) -> x",
    ],
)
def test_changes_are_made(change: str) -> None:
    assert change in made()


def test_messages_types_and_documentation_stay() -> None:
    assert not any("x + 1" in change or "int" in change or "At most" in change for change in made())


def test_every_change_is_one_and_can_be_compiled() -> None:
    found = changes(EXAMPLE)
    assert len({change.text for change in found}) == len(found)
    for change in found:
        assert change.text != EXAMPLE
        compile(change.text, "example", "exec")


def test_the_quick_list_fits_the_sources() -> None:
    for place, old, new in table.QUICK:
        texts = [path.read_text() for path in SOURCE.glob(place)]
        assert sum(text.count(old) for text in texts) == 1, old
        assert old != new


def test_every_module_has_tests_that_exist_and_are_no_pages() -> None:
    for pattern in table.PLACES:
        for path in SOURCE.glob(pattern):
            for name in table.tests(path.relative_to(SOURCE).as_posix()):
                assert (Path(__file__).parent / name.split("::")[0]).exists()
                assert "test_docs" not in name


def test_arguments_name_modules_that_exist() -> None:
    places = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")]
    for place, *_, why in table.ARGUED:
        assert any(fnmatch(one, place) for one in places), place
        assert len(why) > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.slow
def test_a_few_mutants_are_killed() -> None:
    """What CI runs by itself, as a test for whoever changes the tool."""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-m", "tests.mutation", "--quick"], check=False)
    assert done.returncode == 0
