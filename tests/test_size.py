"""What a game takes is said beforehand, and what cannot fit is not begun."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.config import CoverConfig
from covgame.engine.compiled import CompiledGame
from covgame.engine.engines import SteppedEngine
from covgame.game.presets import default_game
from covgame.game.size import LEAST_BYTES, Kept, size_of
from covgame.runs.cover import start
from covgame.sources import stepped
from covgame.sources.simulated import SimulatedSource
from covgame.sources.stepped import SteppedSource
from covgame.storage.state import game_arrays
from covgame.targets.requests import parse_request
from tests.test_cli import covgame


def arrays_of(things: Iterable[Any]) -> dict[int, Any]:
    """All arrays in tuples, by where their memory begins, so that views count once."""
    found: dict[int, Any] = {}
    for thing in things:
        if isinstance(thing, np.ndarray):
            begins = thing.__array_interface__["data"][0]
            if thing.nbytes > (found[begins].nbytes if begins in found else 0):
                found[begins] = thing
        elif isinstance(thing, tuple):
            found |= arrays_of(thing)
    return found


@pytest.mark.parametrize("text", ["uniform:2", "uniform:2/pair"])
@pytest.mark.parametrize(("pooled", "ahead"), [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("by_stage", [10**3, 10**7])
def test_the_forecast_is_what_the_arrays_take(
    text: str, pooled: bool, ahead: bool, by_stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a quarter: successors beyond two, and lists that are made on demand, are guesses."""
    monkeypatch.setattr("covgame.game.counts.MOST_BY_STAGE", by_stage)
    monkeypatch.setattr("covgame.game.size.MOST_BY_STAGE", by_stage)
    world = cg.make("grid:rows=30,columns=30,horizon=40").require_model("a test")
    target = parse_request(text).resolve(world.transitions)
    game = default_game(target, pooled=pooled, looks_ahead=ahead)
    playing, source = CompiledGame(game), SimulatedSource(world, 0)
    for number in range(3):
        playing.tell(source.play(playing.ask(), number, playing.revise))
    arrays = arrays_of(
        [
            playing.learnt, playing.wanted, playing.weighing, playing.within, playing.workspace,
            playing.plan_cache, target.rows, target.counts, target.places.row,
        ]
    )  # fmt: skip
    taken = sum(array.nbytes for array in arrays.values())
    size = size_of(target, world.shape.states, Kept.by(game))
    assert taken == pytest.approx(size.bytes - LEAST_BYTES, rel=0.25)


def test_what_pairs_take_does_not_grow_with_the_stages() -> None:
    """Of a target over pairs everything but visits and plan is there once."""
    long, short = (
        parse_request("uniform:2/pair").resolve(
            cg.make(f"grid:rows=9,columns=9,horizon={horizon}").require_model("").transitions
        )
        for horizon in (60, 20)
    )
    assert long.stage_free
    assert len(long.places.cell) == len(short.places.cell) == len(long)
    assert long.place_rewards(np.ones(len(long))).shape == (1, 81, 4)
    weights = np.random.default_rng(0).random(len(long))
    np.testing.assert_array_equal(long.cell_rewards(weights)[7], long.place_rewards(weights)[0])


def test_states_that_are_found_take_what_will_be_asked_of_them() -> None:
    """The target is empty at first, which says nothing about stages."""
    by_pair, by_cell = (
        start(cg.make(Ring, 900), text, CoverConfig()).size.bytes_per_state
        for text in ("uniform:1/pair", "uniform:1")
    )
    assert by_pair < 5_000
    assert by_cell == pytest.approx(900 * (2 * (16 + 128 + 32) + 25), rel=0.01)


def test_what_does_not_fit_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covgame.game.size.physical_memory", lambda: 70 * 2**20)
    cg.cover("grid:rows=9,columns=9,horizon=20", "uniform:1/pair", max_episodes=1)
    with pytest.raises(cg.TooLarge, match="shorter horizon"):
        cg.cover("grid:rows=30,columns=30,horizon=60", "uniform:1", max_episodes=1)


class Ring:
    """So many places in a ring; an action is a step on, or back."""

    actions = 2

    def __init__(self, places: int = 30) -> None:
        self.places = places

    def reset(self, *, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        self.at = (seed or 0) % self.places
        return self.at, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.at = (self.at + (1 if action else -1)) % self.places
        return self.at, 0.0, False, False, {}


def test_memory_that_ends_on_the_way_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when it is too late: before there is room for more states than fit."""
    monkeypatch.setattr("covgame.game.size.physical_memory", lambda: LEAST_BYTES + 400_000)
    with pytest.raises(cg.TooLarge, match="cells takes about"):
        cg.cover(cg.make(lambda: Ring(3000), 40), "uniform:1/pair")


def test_large_worlds_are_told_what_they_take(capsys: pytest.CaptureFixture[str]) -> None:
    cg.cover("grid:rows=9,columns=9,horizon=9", "uniform:1/pair", max_episodes=1)
    cg.cover(cg.make(Ring, 40), "uniform:1/pair", max_episodes=1)
    assert capsys.readouterr().err == ""
    cg.cover(cg.make(Ring, 900), "uniform:1/pair", max_episodes=1)
    assert capsys.readouterr().err == ""  # it follows what is seen, not the stages
    cg.cover(cg.make(Ring, 900), "uniform:1", max_episodes=1)
    assert "every state that is found takes about" in capsys.readouterr().err


def test_the_answer_stays_alone_on_standard_output(tmp_path: Path) -> None:
    asked = ("cover", "py:tests.test_size:Ring", "--horizon", "900", "--target", "uniform:1")
    done = covgame(*asked, "--max-episodes", "1", "--json", "--out", str(tmp_path / "run"))
    assert json.loads(done.stdout)["episodes"] == 1
    assert "every state that is found takes about" in done.stderr


@pytest.mark.parametrize("text", ["uniform:2/pair", "uniform:2"])
def test_memory_grows_in_the_middle_of_an_episode(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was learnt within the episode stays where it is, as in the readable game."""
    monkeypatch.setattr(stepped, "FIRST_ROOM", 2)
    games = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr("covgame.engine.engines.compiled_game", lambda game, **_: game)
        run = start(cg.make(Ring, 7), text, CoverConfig())
        assert isinstance(run.source, SteppedSource)
        player = SteppedEngine(run.game, run.source, run.growth)
        while not run.done:
            player.play(5)
        games.append(run.game)
    mine, theirs = map(game_arrays, games)
    for name in ("visits", "transitions", "starts", "target_rows", "weights"):
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
