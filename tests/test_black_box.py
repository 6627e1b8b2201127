"""What is kept of failures on disk: the step being taken, and the episodes that failed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from covgame.errors import BadInput
from covgame.failures import Failure, Failures
from covgame.storage.black_box import BlackBox, blame, read_box
from covgame.storage.failures import add_failure, load_failures
from covgame.storage.folder import FAILURES

# ------------------------------------------------------------ that end the whole process


def test_the_black_box_tells_what_was_being_played(tmp_path: Path) -> None:
    box = BlackBox(tmp_path, horizon=4)
    assert read_box(tmp_path) is None  # nothing is played yet
    box.begin(7, 1, 99)
    box.step(0, 1)
    box.step(5, 0)
    found = read_box(tmp_path)
    assert found is not None
    assert (found.episode, found.attempt, found.seed) == (7, 1, 99)
    assert found.path == ((0, 1), (5, 0))
    box.end()
    assert read_box(tmp_path) is None
    box.begin(8, 0, 1)
    again = read_box(tmp_path)
    assert again is not None
    assert again.path == ()


def died_once(folder: Path, episode: int = 7) -> None:
    """As if a process had ended at the second step of an episode."""
    box = BlackBox(folder, horizon=4)
    box.begin(episode, 0, 99)
    box.step(0, 1)
    box.step(5, 0)
    box.memory.close()


def test_two_ends_at_the_same_step_are_no_accident(tmp_path: Path) -> None:
    """One may be somebody's kill, and to play on must then change nothing."""
    died_once(tmp_path)
    assert blame(tmp_path, recorded=7) is None
    died_once(tmp_path)
    failure = blame(tmp_path, recorded=7)
    assert failure is not None
    assert (failure.episode, failure.path, failure.died) == (7, ((0, 1), (5, 0)), True)
    assert load_failures(tmp_path) == [failure]
    assert blame(tmp_path, recorded=7) is None


def test_who_saw_the_end_is_believed(tmp_path: Path) -> None:
    died_once(tmp_path)
    failure = blame(tmp_path, recorded=7, words="segmentation fault")
    assert failure is not None
    assert "segmentation fault" in failure.error


def test_an_episode_that_was_recorded_is_not_blamed(tmp_path: Path) -> None:
    for _ in range(3):
        died_once(tmp_path)
    assert blame(tmp_path, recorded=8) is None


def test_a_death_at_another_step_begins_the_count_anew(tmp_path: Path) -> None:
    died_once(tmp_path)
    died_once(tmp_path, episode=8)
    assert blame(tmp_path, recorded=8) is None


@pytest.mark.parametrize("content", [b"", b"x" * 20, b"\0" * 4096, b"\xff" * 4096])
def test_a_black_box_of_rubbish_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "playing").write_bytes(content)
    assert read_box(tmp_path) is None
    BlackBox(tmp_path, horizon=3).close()


# ------------------------------------------------------------------------- what is on disk


FAILURE = Failure(3, 1, 77, "Error: x", ((0, 1), (2, 0)), "avoided", died=True, traceback="t")


def test_failures_come_back_as_they_were(tmp_path: Path) -> None:
    add_failure(tmp_path, FAILURE)
    add_failure(tmp_path, Failure(4, 0, 1, "at reset", ()))
    first, second = load_failures(tmp_path)
    assert first == FAILURE
    assert first.traceback == "t"
    assert (second.state, second.action, second.then) == (None, None, "set aside")


def test_a_torn_last_line_does_not_count(tmp_path: Path) -> None:
    add_failure(tmp_path, FAILURE)
    whole = (tmp_path / FAILURES).read_bytes()
    for size in range(len(whole)):
        (tmp_path / FAILURES).write_bytes(whole + whole[:size])
        assert load_failures(tmp_path) == [FAILURE]
    add_failure(tmp_path, FAILURE)  # does not go on in the middle of a line
    assert load_failures(tmp_path) == [FAILURE, FAILURE]


def test_changed_lines_are_refused(tmp_path: Path) -> None:
    add_failure(tmp_path, FAILURE)
    whole = (tmp_path / FAILURES).read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.permutation(len(whole) - 1)[:60]:
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        (tmp_path / FAILURES).write_bytes(bytes(changed))
        if bytes(changed).count(b"\n") == 1:
            with pytest.raises(BadInput, match="line 1"):
                load_failures(tmp_path)


def test_failures_that_count_are_those_of_recorded_episodes(tmp_path: Path) -> None:
    """The others are played again, and fail again."""
    for episode, then in ((3, "avoided"), (5, "recorded"), (5, "set aside")):
        add_failure(tmp_path, Failure(episode, 0, 1, "x", ((0, 0),), then))  # type: ignore[arg-type]
    assert [(one.episode, one.then) for one in load_failures(tmp_path, recorded=5)] == [
        (3, "avoided"),
        (5, "set aside"),
    ]


def test_kinds_of_failures_show_the_shortest_way() -> None:
    failures = Failures()
    for path in (((0, 1), (1, 1), (2, 0)), ((1, 0), (2, 0)), ((2, 1),)):
        failures.add(Failure(0, 0, 1, "x", path))
    kinds = {(one.state, one.action): (one.path, times) for one, times in failures.distinct()}
    assert kinds == {(2, 0): (((1, 0), (2, 0)), 2), (2, 1): (((2, 1),), 1)}
