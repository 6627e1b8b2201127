"""Observations become states: numbered, recognised again, or refused."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.errors import EnvironmentFailed
from covgame.runs.resume import resume
from covgame.sources.states import CountedStates, DiscoveredStates, as_hashable
from tests.rooms import assert_same
from tests.runs import Corridor

ROOT = Path(__file__).parent.parent


def test_observations_become_numbers_in_the_order_of_appearance() -> None:
    states = DiscoveredStates()
    seen = [(1, "a"), 5, np.array([1, 2]), {"b": 1, "a": [2]}, (1, "a"), [1, 2], np.int64(5)]
    assert [states.index(x) for x in seen] == [0, 1, 2, 3, 0, 2, 1]
    again = DiscoveredStates(states.keys)
    assert [again.index(x) for x in seen] == [0, 1, 2, 3, 0, 2, 1]
    assert again.index("new") == 4


SAME: list[list[Any]] = [
    [1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True), np.array(1), np.longdouble(1)],
    [2, Fraction(2), Decimal(2), np.int8(2)],
    [0, -0.0, False, np.uint8(0)],
    [0.5, np.float64(0.5), Fraction(1, 2)],
    [10**17, 1e17],
    [(1, 2.0), [True, 2], np.array([1.0, 2.0])],
    [{"b": 1, "a": (0,)}, {"a": np.zeros(1), "b": True}],
    [(1, b"x"), [1.0, np.bytes_(b"x")]],
    [frozenset({1, "y", (2,)}), {(2.0,), "y", True}],
    [None],
    ["1"],
    [b"1"],
    [math.nan, float("nan")],
    [math.inf],
    [1 + 1j],
    [date(2024, 1, 1), np.datetime64("2024-01-01")],
]
"""Observations in groups of equal ones."""


@pytest.mark.parametrize("group", range(len(SAME)))
def test_what_is_one_state_while_running_is_the_same_one_after_resuming(group: int) -> None:
    for shown in SAME[group]:
        states = DiscoveredStates()
        for number, one in enumerate([*SAME[:group], *SAME[group + 1 :]]):
            assert states.index(one[0]) == number
        first = states.index(shown)
        assert first == len(SAME) - 1
        again = DiscoveredStates(states.keys)
        for equal in SAME[group]:
            assert states.index(equal) == again.index(equal) == first
        assert states.keys == again.keys


def test_keys_that_were_written_otherwise_are_understood() -> None:
    states = DiscoveredStates(["1.0", "[true, 0.5]", '"x"', "1", "bytes: b'x'"])
    shown = [1, (1, 0.5), "x", 1.0, b"x", "new"]
    assert [states.index(observation) for observation in shown] == [0, 1, 2, 0, 4, 5]


def test_counted_states_check_their_range() -> None:
    states = CountedStates(3, first=1)
    assert [states.index(x) for x in (1, np.int64(3))] == [0, 2]
    for wrong in (0, 4, "x", None):
        with pytest.raises(EnvironmentFailed):
            states.index(wrong)


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(EnvironmentFailed, match="hashable"):
        as_hashable(bytearray(b"x"))


def test_what_no_other_process_would_recognise_is_refused() -> None:
    """The text of a plain object is its address in memory."""
    for shown in (object(), (1, object()), Corridor()):
        with pytest.raises(EnvironmentFailed, match="__repr__"):
            as_hashable(shown)


FICKLE = """
class World:
    actions, horizon = 2, 4
    def reset(self, seed):
        self.at, self.odd = 0, seed % 2
        return self.shown()
    def step(self, action):
        self.at += action
        return self.shown(), 0.0, False
    def shown(self):
        return (float if self.odd else int)(self.at)
"""


def test_a_run_that_shows_equal_numbers_in_several_forms_is_unbroken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fickle.py").write_text(FICKLE)
    monkeypatch.syspath_prepend(str(tmp_path))
    cg.cover("py:fickle:World", "uniform:5", out=tmp_path / "whole")
    for stop in (1, 2, 3, 20):
        out = tmp_path / f"parts-{stop}"
        cg.cover("py:fickle:World", "uniform:5", out=out, max_episodes=stop)
        assert resume(out, max_episodes=2000, trust=True).covered
        assert_same(out, tmp_path / "whole")
