"""What a summary says about states that were not seen and actions that were not allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import covgame as cg
from covgame.report.runs import page_of
from covgame.sources.gymnasium_envs import MOST_COUNTED, states_of
from covgame.sources.maps import state_map
from tests.test_cli import covgame

CAR = ("gym:MountainCar-v0", "uniform:1/pair")
BOX = spaces.Box(np.zeros(3), np.ones(3), dtype=np.float64)


def figures(run: cg.Coverage) -> dict[str, tuple[str, str]]:
    """The numbers at the top of the page of a run."""
    return {one.label: (one.value, one.note) for one in page_of(run).figures}


@pytest.mark.parametrize(
    ("asked", "cells"),
    [
        ("bins:6x4x2", 48),
        ("bins:3", 27),  # one number for all
        (cg.bins(2, 3, 4), 24),
        ("round:1", None),
        (lambda seen: seen, None),
    ],
)
def test_the_size_of_a_map(asked: Any, cells: int | None) -> None:
    assert state_map(asked, BOX).cells == cells


def test_the_size_of_an_observation_space() -> None:
    assert states_of(spaces.Discrete(12)).possible == 12
    assert states_of(spaces.Discrete(MOST_COUNTED + 1)).possible == MOST_COUNTED + 1
    assert states_of(spaces.MultiDiscrete([3, 4])).possible is None


def test_a_covered_map_says_how_many_of_its_cells_were_seen() -> None:
    """ "covered all 12 state-action pairs" meant 4 of 24 bins."""
    run = cg.cover(*CAR, states="bins:6x4")
    seen = run.states_seen
    assert run.covered
    assert seen == run.to_dict()["states_seen"] < 24
    assert run.to_dict()["states_possible"] == 24
    assert f"{seen} of 24 cells of the state map" in run.to_text()
    assert repr(run).endswith(f"covered, {seen} of 24 states seen)")
    assert figures(run)["states seen"] == (str(seen), "of 24 possible")
    assert f"{run.n_states} states seen" in page_of(run).sentences[0]
    apart = cg.cover(*CAR, states="bins:6x4", step_timeout=60, max_episodes=1)
    assert apart.states_possible == 24


def test_it_is_said_after_resuming_too(tmp_path: Path) -> None:
    asked = ("cover", CAR[0], "--target", CAR[1], "--states", "bins:6x4", "--json", "--quiet")
    done = covgame(*asked, "--out", "run", cwd=tmp_path)
    again = covgame("resume", "run", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["states_possible"] == 24
    assert json.loads(again.stdout)["states_possible"] == 24


class Rooms:
    """Shows whole numbers of a space of 40, and has no table; 30 of them are never shown."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Discrete(40)
    horizon = 8

    def reset(self, *, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        del seed
        self.at = 0
        return self.at, self.info()

    def info(self) -> dict[str, Any]:
        return {"action_mask": [self.at < 9, self.at > 0, False]}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.at += -1 if action else 1
        return self.at, 0.0, False, False, self.info()


def test_numbered_states_without_a_table(tmp_path: Path) -> None:
    """The mask excludes action 2 everywhere, and action 1 in the first room."""
    run = cg.cover(Rooms, "uniform:1/pair", out=tmp_path / "run")
    answer, seen = run.to_dict(), run.states_seen
    assert seen == 8  # there is no step after the last stage
    assert answer["states_possible"] == 40
    assert answer["action_mask"] == {"excluded": 8 + 1, "pairs": 3 * 8}
    assert len(run.target) == 3 * 8 - 9
    text = run.to_text()
    assert "8 of 40 values of the observation space" in text
    assert "excluded 9 of 24 state-action pairs of the states seen (38%)" in text
    assert figures(run)["masked pairs"] == ("9", "of 24, by the action mask")
    there = cg.load(tmp_path / "run")  # its code is not imported
    assert isinstance(there, cg.Coverage)
    assert there.environment.absent
    assert (there.states_possible, there.masked_pairs) == (40, (9, 24))


def test_failed_actions_are_not_taken_for_masked_ones() -> None:
    class Broken(Rooms):
        def step(self, action: int) -> Any:
            if self.at == 2 and action == 1:
                raise RuntimeError("stuck")
            return super().step(action)

    run = cg.cover(Broken, "uniform:1/pair", on_failure="avoid")
    assert len(run.failures)
    assert run.masked_pairs == (9, 24)


def test_a_mask_that_a_table_knows() -> None:
    """Taxi's mask removes more than half of the pairs."""
    run = cg.cover("gym:Taxi-v4", "uniform:1/pair", horizon=60)
    masked = run.masked_pairs
    assert masked is not None
    excluded, pairs = masked
    assert pairs == 400 * 6  # of 500 states, those that are reached
    assert pairs - excluded == len(run.target)
    assert excluded > pairs / 2
    said = f"excluded {excluded:,} of 2,400 state-action pairs of reachable states (5"
    assert said in run.to_text()
    assert run.to_dict()["action_mask"] == {"excluded": excluded, "pairs": pairs}


def test_nothing_is_said_where_every_action_is_allowed() -> None:
    run = cg.cover("grid", "uniform:1/pair")
    assert run.to_dict()["action_mask"] is None
    assert "action mask" not in run.to_text()
    assert "masked pairs" not in figures(run)
