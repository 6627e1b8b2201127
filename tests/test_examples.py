"""Examples run as they stand, are short, and end with something to look at."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SHOWN = {
    "frozen_lake": "Visits (all stages and actions)",
    "taxi": "passenger at stop",
    "blackjack": "/ hit",
    "mountain_car": "/ coast",
    "minigrid_doors": "all 1,820",
    "key_corridor": "state-action pairs",
    "inventory": "all 75 cells",
    "protocol": "all 21 transitions",
    "text_adventure": "all 30",
    "own_loop": "all 8",
}
MOST_LINES = 34


@pytest.mark.parametrize("name", [name for name in SHOWN if (EXAMPLES / f"{name}.py").exists()])
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= MOST_LINES
    runpy.run_module(f"examples.{name}", run_name="__main__")
    assert SHOWN[name] in capsys.readouterr().out
