"""Runs that survive: whatever breaks one off, its files belong together and it can be resumed."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.game.counts import Counts
from covgame.pac.certified import CertifiedExploration, CertifiedIdentification
from covgame.players.stepped import SteppedPlayer
from covgame.runs import playing
from covgame.runs.cover import start
from covgame.runs.opening import load, resume
from covgame.runs.settings import CoverSettings
from covgame.sources.external import ExternalSource
from covgame.store import episodes as shard_files
from covgame.store import folder as folder_files
from covgame.store import recorder
from covgame.store.episodes import RecordedEpisodes, recorded_episodes
from covgame.types import Shape
from tests.runs import coverage_at
from tests.test_cli import covgame
from tests.test_stepping import own

ROOMS = """
import os, signal, sys

class Rooms:
    '''Rooms that are found one by one; a trap springs once, in the fourth of them.'''

    actions, horizon = 2, 6

    def reset(self, seed):
        self.at, self.seed, self.steps = 0, seed, 0
        return ("room", 0)

    def step(self, action):
        self.steps += 1
        self.at = max(0, self.at + (1 if action else -1))
        if self.at == 3 and os.path.exists("trap"):
            self.spring(open("trap").read())
        return ("room", self.at), float(self.seed % 7), self.at == 5

    def spring(self, trap):
        os.remove("trap")
        if trap == "exit":
            sys.exit(3)
        if trap == "odd":
            raise BaseException("odd")
        if trap == "Ctrl-C twice":
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        if trap == "told to end twice":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

class Tired(Rooms):
    '''Plays everything differently in every process: what is lost does not come back.'''

    def step(self, action):
        observation, _, done = super().step(action)
        return observation, float(os.getpid()), done
"""
COVER = ("cover", "py:rooms:Rooms", "--target", "uniform:12")


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with environments of one's own, which is the current one."""
    (tmp_path / "rooms.py").write_text(ROOMS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "rooms", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_same(one: Path, other: Path) -> None:
    for name in ("states.json", "counts.npz"):
        if (one / name).exists():
            assert (one / name).read_bytes() == (other / name).read_bytes(), name
    shards = [sorted((run / "episodes").glob("*")) for run in (one, other)]
    assert [path.name for path in shards[0]] == [path.name for path in shards[1]]
    for mine, theirs in zip(*shards, strict=True):
        assert mine.read_bytes() == theirs.read_bytes(), mine.name


def files(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def steps(run: Path) -> dict[str, Any]:
    table = pq.read_table(run / "episodes")
    return {name: table[name].to_numpy() for name in table.column_names}


@contextmanager
def whatever_is_said() -> Iterator[None]:
    """A run that had to be counted again says so; here that is beside the point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


# -------------------------------------------------- environments that break off a run


@pytest.mark.parametrize(
    ("trap", "code", "stopped"),
    [
        ("exit", 4, "failed"),
        ("odd", 4, "failed"),
        ("Ctrl-C twice", 130, "interrupted"),
        ("told to end twice", 130, "interrupted"),
    ],
)
def test_a_step_that_never_returns_costs_one_episode(
    trap: str, code: int, stopped: str, rooms: Path
) -> None:
    """The answer, the counts, the states and the episodes agree, and resuming is unbroken."""
    assert covgame(*COVER, "--out", "whole", cwd=rooms).returncode == 0
    (rooms / "trap").write_text(trap)
    done = covgame(*COVER, "--out", "run", "--json", cwd=rooms)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    answer = json.loads(done.stdout)
    assert answer["stopped"] == stopped
    played = recorded_episodes(rooms / "run" / "episodes")
    with np.load(rooms / "run" / "counts.npz") as saved:
        assert answer["episodes"] == int(saved["episodes"]) == played > 0
    again = covgame("resume", "run", "--json", cwd=rooms)
    assert again.returncode == 0, again.stderr
    assert "counts.npz" not in again.stderr
    assert_same(rooms / "whole", rooms / "run")


# ------------------------------------------------------------- counts are only a cache


def stopped_at(where: str, episodes: int) -> Path:
    run = cg.cover("py:rooms:Rooms", "uniform:12", out=where, max_episodes=episodes)
    assert run.stopped == "budget"
    return Path(where)


def without_counts(run: Path) -> None:
    (run / "counts.npz").unlink()


def with_damaged_counts(run: Path) -> None:
    (run / "counts.npz").write_bytes(b"nothing")


def with_counts_ahead(run: Path) -> None:
    later = stopped_at("later", 60)
    (run / "counts.npz").write_bytes((later / "counts.npz").read_bytes())


def with_counts_behind(run: Path) -> None:
    earlier = stopped_at("earlier", 20)
    (run / "counts.npz").write_bytes((earlier / "counts.npz").read_bytes())


SPOILT = [without_counts, with_damaged_counts, with_counts_ahead, with_counts_behind]


@pytest.mark.parametrize("spoil", SPOILT)
def test_what_is_wrong_with_counts_never_costs_an_episode(
    spoil: Callable[[Path], None], rooms: Path
) -> None:
    cg.cover("py:rooms:Rooms", "uniform:12", out="whole")
    run = stopped_at("run", 40)
    spoil(run)
    with pytest.warns(UserWarning, match="40 episodes in run, so they were counted again"):
        cg.resume(run, max_episodes=10**6)
    assert_same(rooms / "whole", run)
    cg.resume(run)  # and says nothing any more


@pytest.mark.usefixtures("rooms")
def test_what_the_last_episode_showed_is_still_to_be_covered() -> None:
    run = stopped_at("run", 1)
    assert len(coverage_at(run).target) > 0
    without_counts(run)
    assert len(coverage_at(run).uncovered) > 0
    assert not coverage_at(run).covered


@pytest.mark.parametrize("spoil", SPOILT[:2])
def test_a_finished_run_gets_its_counts_back(spoil: Callable[[Path], None], rooms: Path) -> None:
    for run in (rooms / "whole", rooms / "run"):
        cg.cover("py:rooms:Rooms", "uniform:12", out=run)
    spoil(rooms / "run")
    with pytest.warns(UserWarning, match="counted again"):
        assert cg.resume(rooms / "run").stopped == "covered"
    assert_same(rooms / "whole", rooms / "run")
    assert load(rooms / "run").stopped == "covered"


SLIPPERY = """
import gymnasium

class Stairs(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        slips = not action or self.np_random.random() < 0.5
        self.at = 0 if slips else min(3, self.at + 1)
        return self.at, 0.0, False, False, {}
"""


def test_what_was_proved_to_be_rare_is_proved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slippery.py").write_text(SLIPPERY)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked: Any = {"env": "py:slippery:Stairs", "target": "uniform:200", "min_reach": 0.4}
    whole = cg.cover(**asked, horizon=4, out=tmp_path / "whole")
    assert whole.unreachable
    cg.cover(**asked, horizon=4, out=tmp_path / "run", max_episodes=whole.n_episodes - 1)
    (tmp_path / "run" / "counts.npz").unlink()
    again = coverage_at(tmp_path / "run")
    assert again.unreachable == whole.unreachable
    np.testing.assert_array_equal(again.target.rows, whole.target.rows)
    with pytest.warns(UserWarning, match="counted again"):
        run = resume(tmp_path / "run", max_episodes=10**6)
    assert (run.n_episodes, run.covered) == (whole.n_episodes, True)
    said = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("whole", "run")]
    assert said[0]["unreachable"] == said[1]["unreachable"]


def test_episodes_that_would_not_come_back_are_kept(rooms: Path) -> None:
    """Every process pays other rewards, so whatever was played again would show."""
    asked = ("cover", "py:rooms:Tired", "--target", "uniform:12", "--out", "run")
    assert covgame(*asked, "--max-episodes", "40", cwd=rooms).returncode == 3
    before = steps(rooms / "run")
    (rooms / "run" / "counts.npz").unlink()
    done = covgame("resume", "run", "--json", "--max-episodes", "45", cwd=rooms)
    assert done.returncode == 3
    assert json.loads(done.stdout)["episodes"] == 45
    assert "the 40 episodes in run, so they were counted again" in done.stderr
    after = steps(rooms / "run")
    for name, column in before.items():
        np.testing.assert_array_equal(after[name][: len(column)], column)
    (rooms / "run" / "counts.npz").unlink()
    quiet = covgame("resume", "run", "--json", "--quiet", cwd=rooms)
    assert (quiet.returncode, quiet.stderr) == (3, "")
    assert json.loads(quiet.stdout)["episodes"] == 45


FIRST, LAST = "episodes/part-000000.parquet", "episodes/part-000003.parquet"


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize(
    ("missing", "damaged"),
    [
        ([FIRST], []),
        ([FIRST, "counts.npz"], []),
        (["counts.npz"], [FIRST]),
        ([], [LAST]),
        (["counts.npz"], [LAST]),
        (["states.json"], []),
        (["states.json", "counts.npz"], []),
        ([], ["states.json"]),
    ],
)
def test_a_run_waits_for_what_cannot_be_played_again(
    missing: list[str], damaged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is removed, and nobody is told to remove anything."""
    monkeypatch.setattr(shard_files, "STEPS_PER_SHARD", 60)
    run = stopped_at("run", 35)
    whole = files(run)
    for name in missing:
        (run / name).unlink()
    for name in damaged:
        (run / name).write_bytes(b"nothing")
    left = files(run)
    with pytest.raises(cg.BadInput) as refused:
        resume(run, max_episodes=50)
    assert "remove" not in str(refused.value)
    assert files(run) == left
    for name, content in whole.items():
        Path(name).write_bytes(content)
    assert resume(run, max_episodes=50).n_episodes == 50


def test_states_of_an_episode_that_did_not_count(tmp_path: Path) -> None:
    """They are listed already, so there may be more room for states than in the counts."""
    asked: Any = {"env": cg.make("gym:Blackjack-v1", horizon=4), "target": "uniform:3/pair"}
    whole = cg.cover(**asked, out=tmp_path / "whole")
    cg.cover(**asked, out=tmp_path / "run", max_episodes=20)
    content, saved = (
        json.loads((tmp_path / run / "states.json").read_text()) for run in ("whole", "run")
    )
    assert len(saved["states"]) < 64 < len(content["states"])
    (tmp_path / "run" / "states.json").write_text(json.dumps(content))
    again = resume(tmp_path / "run", max_episodes=10**6)  # and nothing is counted again
    assert again.n_episodes == whole.n_episodes
    np.testing.assert_array_equal(again.counts.visits, whole.counts.visits)


def test_masks_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an environment forbids is neither asked for after resuming nor after counting again."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    whole = cg.cover("py:gym_world:stairs", "uniform:6", out=tmp_path / "whole")
    for kept in (True, False):
        run = tmp_path / f"run-{kept}"
        cg.cover("py:gym_world:stairs", "uniform:6", out=run, max_episodes=whole.n_episodes // 2)
        if not kept:
            (run / "counts.npz").unlink()
        with whatever_is_said():
            again = resume(run, max_episodes=3 * whole.n_episodes)
        assert again.covered
        rows = {tuple(row) for row in again.target.rows.tolist()}
        assert rows == {tuple(row) for row in whole.target.rows.tolist()}


def test_what_was_seen_just_before_a_stop_is_asked_for_after_it() -> None:
    """A target takes up what is new now and then; whoever goes on must not take that for done."""

    class House:
        actions, door = 2, False

        def reset(self) -> str:
            return "hall"

        def step(self, action: int) -> Any:
            return "attic" if self.door and action else "hall", 0.0, False

    house = House()
    run = start(own(house, horizon=2), "uniform:300", CoverSettings())
    assert isinstance(run.source, ExternalSource)
    SteppedPlayer(run.game, run.source, run.growth).play(201)
    house.door = True
    stopped = SteppedPlayer(run.game, run.source, run.growth)
    stopped.play(1)
    while not run.counts.visits[1, 1].any():
        stopped.play(1)
    again = SteppedPlayer(run.game, run.source, run.growth)
    while not run.covered:
        again.play(100)
    assert run.counts.visits[1, 1].min() >= 300


LEARNERS: dict[str, tuple[int, Callable[..., Any]]] = {
    "certified": (
        300,
        lambda **asked: cg.identify(
            "gym:FrozenLake-v1", horizon=4, epsilon=0.5, return_range=(0.0, 1.0), **asked
        ),
    ),
    "reward-free": (
        300,
        lambda **asked: cg.explore("gym:FrozenLake-v1", horizon=3, epsilon=2.0, **asked),
    ),
    "the paper's": (
        400,
        lambda **asked: cg.identify(
            "gym:FrozenLake-v1", horizon=3, epsilon=1.0, preset="paper", scale=1e-6, **asked
        ),
    ),
    "pruned": (
        700,
        lambda **asked: cg.identify(
            "gym:FrozenLake-v1",
            horizon=3,
            epsilon=1.0,
            preset="paper",
            scale=1e-6,
            prune=True,
            **asked,
        ),
    ),
}


@pytest.mark.parametrize("kind", LEARNERS)
def test_learners_are_told_their_episodes_again(kind: str, tmp_path: Path) -> None:
    budget, learn = LEARNERS[kind]
    whole = learn(out=tmp_path / "whole", max_episodes=2 * budget)
    assert whole.n_episodes > budget
    learn(out=tmp_path / "run", max_episodes=budget)
    (tmp_path / "run" / "counts.npz").unlink()
    again = load(tmp_path / "run")
    assert again.n_episodes == budget
    with pytest.warns(UserWarning, match="counted again"):
        cg.resume(tmp_path / "run", max_episodes=2 * budget)
    assert_same(tmp_path / "whole", tmp_path / "run")


# ------------------------------------------------------- killed after any of its writes


@pytest.mark.usefixtures("always_saved")
def test_what_a_kill_leaves_after_any_write_can_be_resumed(
    rooms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the folder after each write is what a kill would leave at that instant."""
    copies: list[Path] = []
    one_at_a_time = threading.Lock()  # shards are written by a thread of their own
    write = folder_files.write_whole

    def write_and_copy(path: Path, content: Any) -> None:
        with one_at_a_time:
            write(path, content)
            copies.append(rooms / f"copy-{len(copies)}")
            shutil.copytree(rooms / "whole", copies[-1])

    with monkeypatch.context() as patched:
        for module in (folder_files, shard_files):
            patched.setattr(module, "write_whole", write_and_copy)
        cg.cover("py:rooms:Rooms", "uniform:4", out=rooms / "whole")
    left = [copy for copy in copies if (copy / "run.json").exists()]
    assert len(left) > 20
    for copy in left:
        recorded = recorded_episodes(copy / "episodes")
        with whatever_is_said():
            assert load(copy).n_episodes == recorded
            assert cg.resume(copy).stopped == "covered"
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


PLAYED_IN = (
    "runs/run.py",
    "runs/playing.py",
    "runs/cover.py",
    "runs/learn.py",
    "recorder.py",
    "store/episodes.py",
    "store/folder.py",
)
PLAYED_BY = (
    "stepped.py",
    "growth.py",
    "external.py",
    "players/compiled.py",
    "states.py",
    "game.py",
    "target.py",
)


@pytest.fixture
def always_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, small shards, and everything saved after each block."""
    monkeypatch.setattr(shard_files, "STEPS_PER_SHARD", 60)
    monkeypatch.setattr(recorder, "SECONDS_PER_CHECKPOINT", 0.0)
    monkeypatch.setattr(playing, "FIRST_BLOCK", 4)
    monkeypatch.setattr(playing, "next_size", lambda _size, _seconds: 4)


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
        if (run / "run.json").exists():
            yield run


@pytest.mark.usefixtures("always_saved")
@pytest.mark.parametrize("files", [PLAYED_IN, PLAYED_BY])
def test_an_environment_broken_off_at_any_line(files: tuple[str, ...], rooms: Path) -> None:
    def play(out: Path) -> None:
        cg.cover("py:rooms:Rooms", "uniform:4", out=out)

    play(rooms / "whole")
    for run in broken_runs(play, rooms, files, times=60):
        before = recorded_episodes(run / "episodes")
        with whatever_is_said():
            assert load(run).n_episodes == before
            assert cg.resume(run).stopped == "covered"
        assert_same(rooms / "whole", run)


@pytest.mark.usefixtures("always_saved")
@pytest.mark.parametrize("play", ["exact", "counts"])
def test_evidence_is_counted_once_wherever_a_run_is_broken_off(play: Any, tmp_path: Path) -> None:
    world = "garnet:states=3,actions=2,horizon=3"

    def learn(out: Path) -> None:
        cg.identify(world, epsilon=1.5, play=play, out=out)

    learn(tmp_path / "whole")
    whole = json.loads((tmp_path / "whole" / "result.json").read_text())
    files = ("runs/learn.py", "certified.py", "recorder.py", "policies.py")
    for run in broken_runs(learn, tmp_path, files, times=40):
        with suppress(cg.BadInput):
            cg.certify(run)
        cg.resume(run)
        assert cg.certify(run).episodes == whole["episodes"]
        assert json.loads((run / "result.json").read_text()) == {**whole, "run": str(run)}
        with np.load(run / "counts.npz") as mine, np.load(tmp_path / "whole" / "counts.npz") as its:
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
    whole, run = (json.loads((tmp_path / r / "result.json").read_text()) for r in ("whole", "run"))
    assert run["episodes"] == whole["episodes"] == cg.certify(tmp_path / "run").episodes


def test_broken_off_while_it_thinks_about_the_next_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks an algorithm for its answer that was left half-way, in an import for example."""
    asked: Any = {"env": "garnet:states=3,actions=2,horizon=3", "epsilon": 1.5, "play": "counts"}
    cg.explore(**asked, out=tmp_path / "whole")
    next_part = CertifiedExploration.next_part

    def broken_off(self: Any) -> Any:
        if self.rounds < 20:
            return next_part(self)
        monkeypatch.setattr(CertifiedExploration, "bound", property(lambda self: self.nothing))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CertifiedExploration, "next_part", broken_off)
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
        answer = json.loads((run / "result.json").read_text())
        for episodes in (answer["episodes"] - 72, answer["episodes"] + 72, None):
            (run / "result.json").write_text(json.dumps({**answer, "episodes": episodes}))
            with pytest.raises(cg.BadInput, match="the data hold"):
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
