"""Runs that are killed after any write, or broken off between any two lines."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.game.counts import Counts
from covgame.pac.certified import CertifiedExploration, CertifiedIdentification
from covgame.runs.resume import load
from covgame.storage import files as disk
from covgame.storage.reading import RecordedEpisodes
from covgame.types import Shape
from tests.rooms import assert_same, whatever_is_said
from tests.rundb import arrays_of, recorded, result_of, set_result

# ------------------------------------------------------- killed after any of its writes


@pytest.mark.usefixtures("always_saved")
def test_what_a_kill_leaves_after_any_write_can_be_resumed(
    rooms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the folder after each write is what a kill would leave at that instant."""
    copies: list[Path] = []
    one_at_a_time = threading.Lock()  # shards are written by a thread of their own

    def copy_after_renaming(operation: str, _path: Path) -> None:
        if operation in ("after rename", "after commit"):
            with one_at_a_time:
                copies.append(rooms / f"copy-{len(copies)}")
                shutil.copytree(rooms / "whole", copies[-1])

    with monkeypatch.context() as patched:
        patched.setattr(disk, "fault", copy_after_renaming)
        cg.cover("py:rooms:Rooms", "uniform:4", out=rooms / "whole")
    left = [copy for copy in copies if (copy / "run.db").exists()]
    assert len(left) > 20
    for copy in left[::3]:  # all of them are struck by dev.py torture
        with whatever_is_said():
            assert load(copy, trust=True).n_episodes == recorded(copy)
            assert cg.resume(copy, trust=True).stopped == "covered"
        assert_same(rooms / "whole", copy)


# ------------------------------------------------ broken off between any two lines


class Broken:
    """A second Ctrl-C just before the n-th line of covgame's own code."""

    def __init__(self, line: int, files: tuple[str, ...]) -> None:
        self.left, self.files = line, files

    def __enter__(self) -> Broken:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.endswith(self.files) else None

    def _line(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._line


TIMES = pytest.mark.parametrize("times", [15, pytest.param(100, marks=pytest.mark.slow)])
"""How many instants; all over a run, so that few are a sample of many."""

PLAYED_IN = (
    "runs/run.py",
    "runs/loop.py",
    "runs/cover.py",
    "recorder.py",
    "storage/episodes.py",
    "storage/folder.py",
    "storage/database.py",
)
PLAYED_BY = (
    "engine/engines.py",
    "growth.py",
    "sources/stepped.py",
    "engine/compiled.py",
    "states.py",
    "game.py",
    "target.py",
)


def lines_of(play: Callable[[], Any], files: tuple[str, ...]) -> int:
    """How many lines it takes from the start to the end."""
    most = 10**9
    with Broken(most, files) as counting:
        play()
    return most - counting.left


def broken_runs(
    play: Callable[[Path], Any], folder: Path, files: tuple[str, ...], times: int
) -> Iterator[Path]:
    """Runs that were broken off at instants all over their time."""
    lines = lines_of(lambda: play(folder / "counted"), files)
    for number in range(times):
        run = folder / f"run-{number}"
        with suppress(KeyboardInterrupt), Broken(1 + number * lines // times, files):
            play(run)
        if (run / "run.db").exists():
            yield run


# A break between the last line of a with block and its end leaves a file to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.usefixtures("always_saved")
@pytest.mark.parametrize("files", [PLAYED_IN, PLAYED_BY])
@TIMES
def test_an_environment_broken_off_at_any_line(
    times: int, files: tuple[str, ...], rooms: Path
) -> None:
    def play(out: Path) -> None:
        cg.cover("py:rooms:Rooms", "uniform:4", out=out)

    play(rooms / "whole")
    for run in broken_runs(play, rooms, files, times):
        with whatever_is_said():
            assert load(run, trust=True).n_episodes == recorded(run)
            assert cg.resume(run, trust=True).stopped == "covered"
        assert_same(rooms / "whole", run)


@pytest.mark.usefixtures("always_saved")
@pytest.mark.parametrize("play", [pytest.param("exact", marks=pytest.mark.slow), "counts"])
@TIMES
def test_evidence_is_counted_once_wherever_a_run_is_broken_off(
    times: int, play: Any, tmp_path: Path
) -> None:
    world = "garnet:states=3,actions=2,horizon=3"

    def learn(out: Path) -> None:
        cg.identify(world, epsilon=1.5, play=play, out=out)

    learn(tmp_path / "whole")
    whole = result_of(tmp_path / "whole")
    files = (
        *("runs/run.py", "runs/loop.py", "runs/learning_run.py"),
        *("certified.py", "recorder.py", "engine/engines.py"),
    )
    for run in broken_runs(learn, tmp_path, files, times):
        with suppress(cg.BadInput):
            cg.certify(run)
        cg.resume(run)
        assert cg.certify(run).episodes == whole["episodes"]
        assert result_of(run) == {**whole, "run": str(run)}
        mine, its = arrays_of(run), arrays_of(tmp_path / "whole")
        np.testing.assert_array_equal(mine["visits"], its["visits"])


def test_a_second_signal_just_after_the_algorithm_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part is in the counts, and the run does not know it yet."""
    world = "garnet:states=3,actions=2,horizon=3"
    cg.identify(world, epsilon=1.5, play="counts", out=tmp_path / "whole")
    tell = CertifiedIdentification.tell

    def told_and_broken_off(self: Any, part: Any, episodes: Any = ()) -> bool:
        done = tell(self, part, episodes)
        if self.rounds == 30:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(CertifiedIdentification, "tell", told_and_broken_off)
    with pytest.raises(KeyboardInterrupt):
        cg.identify(world, epsilon=1.5, play="counts", out=tmp_path / "run")
    monkeypatch.undo()
    cg.resume(tmp_path / "run")
    whole, run = (result_of(tmp_path / r) for r in ("whole", "run"))
    assert run["episodes"] == whole["episodes"] == cg.certify(tmp_path / "run").episodes


def test_broken_off_while_it_thinks_about_the_next_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks an algorithm for its answer that was left half-way, in an import for example."""
    asked: Any = {"env": "garnet:states=3,actions=2,horizon=3", "epsilon": 1.5, "play": "counts"}
    cg.explore(**asked, out=tmp_path / "whole")
    next_task = CertifiedExploration.next_task

    def broken_off(self: Any) -> Any:
        if self.rounds < 20:
            return next_task(self)
        monkeypatch.setattr(CertifiedExploration, "bound", property(lambda self: self.nothing))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CertifiedExploration, "next_task", broken_off)
        with pytest.raises(KeyboardInterrupt):
            cg.explore(**asked, out=tmp_path / "run")
    monkeypatch.undo()
    cg.resume(tmp_path / "run")
    assert cg.certify(tmp_path / "run") == cg.certify(tmp_path / "whole")


@pytest.mark.usefixtures("always_saved")
def test_a_part_that_is_over_is_told_after_resuming_even_without_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Any = {"env": "garnet:states=3,actions=2,horizon=3", "play": "counts"}
    asked |= {"epsilon": 0.5, "max_episodes": 102}  # there a round ends
    cg.explore(**asked, out=tmp_path / "whole")
    tell = CertifiedExploration.tell

    def tell_but_the_last(self: Any, part: Any, episodes: Any = ()) -> bool:
        if self.counts.n_episodes + part.played == 102:
            raise KeyboardInterrupt
        return tell(self, part, episodes)

    monkeypatch.setattr(CertifiedExploration, "tell", tell_but_the_last)
    with pytest.raises(KeyboardInterrupt):
        cg.explore(**asked, out=tmp_path / "run")
    monkeypatch.setattr(CertifiedExploration, "tell", tell)
    assert cg.resume(tmp_path / "run").stopped == "budget"
    assert cg.certify(tmp_path / "run") == cg.certify(tmp_path / "whole")


@pytest.mark.parametrize("play", ["exact", "counts"])
def test_an_answer_about_other_data_is_not_certified(play: Any, tmp_path: Path) -> None:
    world = "garnet:states=3,actions=2,horizon=3"
    cg.identify(world, epsilon=1.5, play=play, out=tmp_path / "learnt")
    cg.cover("grid", "uniform:1/pair", play=play, out=tmp_path / "covered")
    for run in (tmp_path / "learnt", tmp_path / "covered"):
        assert cg.certify(run).episodes > 0
        answer = result_of(run)
        for episodes in (answer["episodes"] - 72, answer["episodes"] + 72, None):
            set_result(run, {**answer, "episodes": episodes})
            with pytest.raises(cg.BadInput, match="is about"):
                cg.certify(run)


def test_recorded_episodes_are_those_that_were_played(tmp_path: Path) -> None:
    """One by one they count to the same as all at once, endings and cuts included."""
    for name, horizon in (("gym:FrozenLake-v1", 6), ("grid:ends=true", 8)):
        run = cg.cover(name, "uniform:2/state", horizon=horizon, out=tmp_path / str(horizon))
        recorded = RecordedEpisodes(tmp_path / str(horizon) / "episodes", run.target.shape)
        together = recorded.counts(pooled=True)
        apart = Counts(Shape(*run.target.shape.hsa), pooled=True)
        for episode in recorded:
            apart.add(episode)
        np.testing.assert_array_equal(apart.visits, together.visits)
        np.testing.assert_array_equal(apart.table.total, together.table.total)
        assert apart.n_episodes == together.n_episodes == run.n_episodes
