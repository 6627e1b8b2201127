"""A simulator with a loop of its own: asked, told, checked, saved and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.errors import BadInput

ACTIONS = ("insert coin", "push")


def drive(driver: cg.Driver, episodes: int = 10**6, together: int = 1) -> None:
    """A turnstile; up to so many episodes at the same time."""
    played = 0
    while not driver.covered and played < episodes:
        under_way = [driver.ask() for _ in range(together)]
        for episode in under_way:
            state = "LOCKED"
            for _ in range(6):
                action = episode(state, 1.0)
                state = "OPEN" if action == "insert coin" else "LOCKED"
            episode.end(1.0, state)
            driver.tell(episode)
            played += 1


def test_everything_is_covered_and_reported_in_words(tmp_path: Path) -> None:
    with cg.Driver(ACTIONS, 6, "uniform:20", out=tmp_path / "run") as driver:
        drive(driver)
    run = driver.run
    assert run.covered
    assert run.stopped == "covered"
    assert "2 states" in run.to_text()
    assert cg.certify(tmp_path / "run").episodes == run.n_episodes
    assert float(run.counts.reward_sums.sum()) == run.counts.visits.sum()


@pytest.mark.parametrize("together", [1, 3])
def test_saved_and_resumed_it_is_the_same(tmp_path: Path, together: int) -> None:
    with cg.Driver(ACTIONS, 6, "uniform:20/pair", out=tmp_path / "whole") as whole:
        drive(whole, together=together)
    with cg.Driver(ACTIONS, 6, "uniform:20/pair", out=tmp_path / "parts") as first:
        drive(first, 3, together)
    assert not first.covered
    with pytest.raises(BadInput, match="only the program that made it has"):
        cg.resume(tmp_path / "parts")
    with cg.Driver(ACTIONS, 6, "uniform:20/pair", out=tmp_path / "parts") as again:
        drive(again, together=together)
    np.testing.assert_array_equal(whole.run.counts.visits, again.run.counts.visits)
    read = cg.load(tmp_path / "parts")
    assert len(list(read.episodes())) == again.run.n_episodes


def test_who_says_where_an_episode_terminated_finds_it_in_the_record(tmp_path: Path) -> None:
    with cg.Driver(2, 3, "uniform:1/pair", out=tmp_path) as driver:
        for terminated in (True, False, None):
            episode = driver.ask()
            episode("begin")
            episode.end(1.0, "over", terminated=terminated)
            driver.tell(episode)
        episode = driver.ask()
        episode("begin")
        episode.end(1.0, terminated=False)
        with pytest.raises(BadInput, match="ends in an observation"):
            driver.tell(episode)
    ends = [(one.terminated, one.truncated) for one in cg.load(tmp_path).episodes()]
    assert ends == [(True, False), (False, True), (False, True)]
    assert {int(one.next_state[-1]) for one in cg.load(tmp_path).episodes()} == {1}


def test_episodes_under_way_share_the_work() -> None:
    """Several asked for at once do not all go for the same."""
    driver = cg.Driver(4, 1, "uniform:4")
    episode = driver.ask()
    episode("start")
    episode.end()
    driver.tell(episode)
    chosen = [open_episode("start") for open_episode in [driver.ask() for _ in range(3)]]
    assert len(set(chosen)) == 3


def test_whole_episodes_can_be_told() -> None:
    driver = cg.Driver(ACTIONS, 3, "uniform:1/pair")
    driver.tell([("LOCKED", "push", 0.0), ("LOCKED", "insert coin", 0.0)], last="OPEN")
    driver.tell([("LOCKED", "insert coin", 0.0), ("OPEN", "push", 1.0), ("LOCKED", "push", 0.0)])
    assert driver.run.n_episodes == 2
    assert [row for row, _ in driver.run.uncovered] == [(None, 1, 0)]


class Stranger:
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([], "1 to 3 steps"),
        ([("LOCKED", "push", 0.0)] * 4, "1 to 3 steps"),
        ([("LOCKED", "kick", 0.0)], "no action 'kick'; there are: insert coin, push"),
        ([("LOCKED", 1, 0.0)], "no action '1'"),
        ([("LOCKED", "push", float("nan"))], "finite number"),
        ([("LOCKED", "push", "much")], "finite number"),
        ([("LOCKED", "push")], "a list of steps"),
        (5, "a list of steps"),
        ([(Stranger(), "push", 0.0)], "hashable"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_counted(steps: Any, sentence: str) -> None:
    driver = cg.Driver(ACTIONS, 3, "uniform:1/pair")
    with pytest.raises(BadInput, match=sentence):
        driver.tell(steps)
    assert driver.run.n_episodes == 0


def test_episodes_are_used_as_they_should() -> None:
    driver, other = (cg.Driver(ACTIONS, 2, "uniform:1/pair") for _ in range(2))
    episode = driver.ask()
    with pytest.raises(BadInput, match="took no action"):
        episode.end()
    with pytest.raises(BadInput, match="not over"):
        driver.tell(episode)
    episode("LOCKED")
    episode("LOCKED")
    with pytest.raises(BadInput, match="at most 2 actions"):
        episode("LOCKED")
    episode.end()
    with pytest.raises(BadInput, match="is over"):
        episode("LOCKED")
    with pytest.raises(BadInput, match="not asked for here"):
        other.tell(episode)
    driver.tell(episode)
    with pytest.raises(BadInput, match="told already"):
        driver.tell(episode)
    left = driver.ask()
    driver.abandon(left)
    with pytest.raises(BadInput, match="not asked for here"):
        driver.tell(left)


def test_masks_and_maps() -> None:
    driver = cg.Driver(3, 4, "uniform:2/pair", states=lambda seen: seen["at"])
    while not driver.covered:
        episode, at = driver.ask(), 0
        for _ in range(4):
            action = episode({"at": at, "noise": object}, allowed=[at > 0, True, False])
            assert action == 1 or (action == 0 and at > 0)
            at = min(2, at + 1) if action else at - 1
        episode.end(observation={"at": at})
        driver.tell(episode)
    assert driver.run.n_states == 3
    with pytest.raises(BadInput, match="whole number"):
        cg.Driver(3, 0, "uniform:1")
    with pytest.raises(BadInput, match="no finite range"):
        cg.Driver(3, 4, "uniform:1", states="bins:3")
