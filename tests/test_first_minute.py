"""Readable episodes are played while another process compiles."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import covgame as cg
from covgame.cli.messages import warnings_as_messages
from covgame.engine.compiled import CompiledGame
from covgame.engine.engines import BatchEngine, SimulatedEngine
from covgame.episodes import Block
from covgame.game.game import Game
from covgame.game.presets import default_game, paper_game
from covgame.kernels import jit
from covgame.sources.simulated import SimulatedSource
from covgame.storage.state import game_arrays
from covgame.targets.requests import parse_request
from covgame.targets.target import Target
from covgame.types import Shape

GAMES: dict[str, Callable[[Target], Game]] = {
    "pooled": lambda target: default_game(target, pooled=True),
    "borrowing": lambda target: default_game(target, pooled=False),
    "paper": lambda target: paper_game(target, delta=0.1),
}


class Cold:
    """A cache that is warm after so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def __call__(self, calls: list[Any]) -> Cold:
        assert all(hasattr(function, "py_func") for function, _ in calls)
        return self

    def is_over(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Say after how many looks compiled code is there."""
    monkeypatch.setattr(CompiledGame, "waits", False)

    def after(looks: int) -> None:
        monkeypatch.setattr(jit, "Compilation", Cold(looks))

    return after


def world_and_target(text: str) -> tuple[SimulatedSource, Target]:
    world = cg.make("grid:rows=3,columns=3,horizon=6,ends=true").require_model("a test")
    return SimulatedSource(world, 4), parse_request(text).resolve(world.transitions)


def assert_same_game(one: Game, other: Game) -> None:
    """All that would be saved, to the last bit."""
    mine, theirs = game_arrays(one), game_arrays(other)
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def joined(parts: list[Block]) -> list[list[Any]]:
    columns = ("lengths", "state", "action", "reward", "next_state")
    return [np.concatenate([getattr(one, name) for one in parts]).tolist() for name in columns]


def is_ready(engine: SimulatedEngine) -> bool:
    return engine.compiled is not None and engine.compiled.is_ready


# ------------------------------------------------------------------------------ the switch


@pytest.mark.parametrize("kind", GAMES)
@pytest.mark.parametrize("text", ["uniform:9", "uniform:9/pair"])
@pytest.mark.parametrize("looks", [1, 2, 5, 1000])
def test_a_cold_cache_plays_at_once_and_switches(
    looks: int, text: str, kind: str, cold: Callable[[int], None]
) -> None:
    """The same episodes, and the same memory, wherever compiled code takes over."""
    source, target = world_and_target(text)
    games = [GAMES[kind](target) for _ in range(2)]
    cold(looks)
    player = SimulatedEngine(games[0], source, most=50, record=True)
    waiting_player = SimulatedEngine(games[1], source, most=50, record=True, waits=True)
    assert not is_ready(player)
    assert is_ready(waiting_player)
    parts: tuple[list[Block], list[Block]] = ([], [])
    for one, blocks in zip((player, waiting_player), parts, strict=True):
        while one.game.counts.n_episodes < 90 and not one.game.covered:
            blocks.append(one.play(min(7, 90 - one.game.counts.n_episodes)))
    assert is_ready(player) == (looks < 1000)
    assert joined(parts[0]) == joined(parts[1])
    assert_same_game(*games)


@pytest.mark.parametrize("kind", GAMES)
@pytest.mark.parametrize("text", ["uniform:9", "uniform:9/pair"])
@pytest.mark.parametrize("looks", [1, 2, 20, 1000])
def test_asking_and_telling_does_not_wait(
    looks: int, text: str, kind: str, cold: Callable[[int], None]
) -> None:
    """As on an external environment; an episode that is broken off leaves nothing behind."""
    source, target = world_and_target(text)
    games = [GAMES[kind](target) for _ in range(2)]
    cold(looks)
    asked = CompiledGame(games[0])
    assert not asked.is_ready
    CompiledGame.waits = True  # the fixture puts it back
    reference = CompiledGame(games[1])
    for number in range(60):
        for game in (asked, reference):
            if number % 9 == 4:
                source.play(game.ask(), 1000 + number, game.revise)
                game.abandon()
            game.tell(source.play(game.ask(), number, game.revise))
    assert asked.is_ready == (looks < 1000)
    assert_same_game(*games)
    last = [source.play(game.ask(), 60, game.revise) for game in (asked, reference)]
    assert last[0].action.tolist() == last[1].action.tolist()


def test_rounds_of_several_policies_do_not_wait(cold: Callable[[int], None]) -> None:
    source, target = world_and_target("uniform:9")
    games = [default_game(target, pooled=True) for _ in range(2)]
    for game, looks in zip(games, (25, 0), strict=True):
        cold(looks)
        player = BatchEngine(game, source, each=1)
        assert isinstance(player.inner, CompiledGame)
        assert player.inner.is_ready == (looks == 0)
        for _ in range(10):
            player.play(8)
        assert player.inner.is_ready
    assert_same_game(*games)


@pytest.mark.parametrize("looks", [1, 3, 1000])
def test_a_run_that_began_readable_is_resumed(
    looks: int, cold: Callable[[int], None], tmp_path: Path
) -> None:
    name, target = "riverswim:states=5,horizon=8", "uniform:40"
    cold(0)
    whole = cg.cover(name, target, min_reach=0.01, out=tmp_path / "whole")
    cold(looks)
    cg.cover(name, target, min_reach=0.01, out=tmp_path / "parts", max_episodes=100)
    again = cg.resume(tmp_path / "parts", max_episodes=10**6)
    assert isinstance(again, cg.Coverage)
    assert again.covered
    assert_same_game(again.game, whole.game)
    episodes = [list((tmp_path / run / "episodes").iterdir()) for run in ("whole", "parts")]
    assert [len(files) for files in episodes] == [1, 1]


def test_a_target_that_grows_needs_nothing_else_compiled() -> None:
    """On a world that shows its states as it goes, the target is empty at first."""
    shape = Shape(4, 3, 2)
    empty = Target.of_rows(shape, np.zeros((0, 3), dtype=np.int64), np.zeros(0))
    game = default_game(empty, pooled=True)
    compiled = CompiledGame(game)

    def types() -> list[tuple[Any, ...]]:
        return [types for _, types in jit.Compilation(compiled._calls()).wanted]

    before = types()
    game.grow(empty.with_more(5, np.array([[0, 0, 0], [1, 4, 1]]), np.array([2.0, 1.0])))
    compiled.bind()
    assert types() == before


def test_large_worlds_are_waited_for(
    cold: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a readable episode takes longer than compiling."""
    cold(1000)
    source, target = world_and_target("uniform:2")
    monkeypatch.setattr("covgame.engine.compiled.LARGE", target.shape.cells - 1)
    game = default_game(target, pooled=True)
    assert is_ready(SimulatedEngine(game, source, most=1, record=True))


# ----------------------------------------------------------------------- the other process


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that was never compiled, in this process and in others."""
    name = f"fresh_{tmp_path.name}"  # no other test has imported it
    (tmp_path / f"{name}.py").write_text(
        "from covgame.kernels.jit import for_python\n\n\n"
        "@for_python\ndef double(x):\n    return 2 * x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return import_module(name).double


def ended(one: jit.Compilation) -> int:
    assert one.process is not None
    return one.process.wait(timeout=120)


def is_cached(function: Any, value: object) -> bool:
    ((_, types),) = jit.Compilation([(function, [value])]).wanted
    cached: bool = function._cache.has(types, function.targetctx)
    return cached


def test_another_process_compiles_and_this_one_only_reads(fresh: Any) -> None:
    one = jit.Compilation([(fresh, [1])])
    assert not one.is_over()
    assert ended(one) == 0
    assert one.is_over()
    assert is_cached(fresh, 1)
    assert not is_cached(fresh, 1.0)
    assert fresh(4) == 8
    assert sum(fresh.stats.cache_hits.values()) == 1
    again = jit.Compilation([(fresh, [1])])
    assert again.is_over()
    assert again.process is None


def test_one_process_is_enough(fresh: Any) -> None:
    """While one process holds the lock, others start none; if it gives up, one takes over."""
    one = jit.Compilation([(fresh, [1])])
    assert jit.FOLDER is not None
    with (jit.FOLDER / "compiling.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not any(one.is_over() for _ in range(3))
        assert one.process is None
    first, second = one, jit.Compilation([(fresh, [1])])
    assert not first.is_over()
    assert not second.is_over()
    assert second.process is None
    ended(first)
    assert second.is_over()
    assert second.process is None


def test_this_process_compiles_if_no_other_can(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("sys.executable", ""),
        ("sys.executable", "/no/such/python"),
        ("covgame.kernels.jit.fcntl", None),
        ("covgame.kernels.jit.FOLDER", None),
        ("covgame.kernels.jit.FOLDER", Path("/no/such/folder")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(name, value)
            assert jit.Compilation([(fresh, [1])]).is_over()
    monkeypatch.setattr(fresh.py_func, "__name__", "no_such_function")
    failing = jit.Compilation([(fresh, [1])])
    assert not failing.is_over()
    assert ended(failing) != 0
    assert failing.is_over()
    assert fresh(4) == 8


def test_it_is_not_reached_by_what_is_typed_here(fresh: Any) -> None:
    """Ctrl-C goes to the terminal's process group; the compiling process has its own."""
    one = jit.Compilation([(fresh, [1])])
    assert not one.is_over()
    assert one.process is not None
    assert os.getpgid(one.process.pid) == one.process.pid != os.getpgid(0)
    one.process.send_signal(signal.SIGKILL)
    ended(one)
    assert one.is_over()  # and this process compiles


def test_python_cannot_call_what_has_no_door() -> None:
    from covgame.kernels import tables

    with pytest.raises(TypeError, match="only compiled code"):
        tables.borrowed(np.zeros(2))


# ----------------------------------------------------------------------------- the message


@pytest.fixture
def announced(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, which has announced nothing, and with a function of ours."""
    monkeypatch.setattr(logging.getLogger("covgame"), "disabled", False)
    monkeypatch.setattr(fresh.py_func, "__module__", "covgame.kernels.fresh")
    jit._announce.cache_clear()


@pytest.mark.usefixtures("announced")
@pytest.mark.parametrize("quiet", [False, True])
def test_the_wait_is_announced_once_with_reason_and_length(
    fresh: Any, capsys: pytest.CaptureFixture[str], *, quiet: bool
) -> None:
    with warnings_as_messages(quiet=quiet):
        assert [fresh(1), fresh(1.0)] == [2, 2.0]
    message = "covgame: compiling inner loops (first use of this version, about 30 s)\n"
    assert capsys.readouterr() == ("", "" if quiet else message)


@pytest.mark.usefixtures("announced")
def test_the_announcement_says_what_happens_meanwhile(
    fresh: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings_as_messages(quiet=False):
        one = jit.Compilation([(fresh, [1])])
        assert not one.is_over()
        ended(one)
        assert one.is_over()
        fresh(1)  # from the cache
    assert [line.partition("; ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "playing uncompiled meanwhile"
    ]


@pytest.mark.usefixtures("announced")
def test_functions_of_users_are_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_as_messages(quiet=False):
        assert numba.njit(lambda x: 2 * x)(1) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("announced")
def test_without_a_cache_the_announcement_says_so(
    fresh: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "FOLDER", None)
    with warnings_as_messages(quiet=False):
        fresh(1)
    assert "no writable cache; set NUMBA_CACHE_DIR" in capsys.readouterr().err


@pytest.mark.parametrize("looks", [2, 5])
def test_targets_that_grow_are_recorded_from_the_first_minute_on(
    looks: int, cold: Callable[[int], None], tmp_path: Path
) -> None:
    """Blocks of readable and of compiled episodes are joined; what both lack is left out."""
    asked: Any = {"env": "riverswim:states=3,horizon=4", "target": "uniform:20/transition"}
    cold(looks)
    cg.cover(**asked, out=tmp_path / "cold")
    cold(0)
    cg.cover(**asked, out=tmp_path / "warm")
    shards = [tmp_path / name / "episodes" / "part-000000.parquet" for name in ("cold", "warm")]
    assert shards[0].read_bytes() == shards[1].read_bytes()
