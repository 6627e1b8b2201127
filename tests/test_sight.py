"""Plans that look only as far ahead as it takes, and visits that are added up over stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.game import counts as counting
from covgame.game import sight, size
from covgame.game.game import Game
from covgame.game.presets import default_game
from covgame.game.sight import first_sight, is_long, longest_in_vain, wider, within_reason
from covgame.mdp import dp
from covgame.players.compiled import CompiledGame, WaitingPlayer
from covgame.players.following import FollowingGame
from covgame.players.plain import PlainGame
from covgame.sources import external
from covgame.sources.simulated import SimulatedSource
from covgame.store.state import game_arrays
from covgame.targets.requests import parse_request
from covgame.types import Policy, Shape
from tests.test_cli import covgame

WORLDS = [
    "grid:rows=5,columns=4,horizon=40",
    "garnet:states=9,actions=3,horizon=36,stationary=true,seed=1",
    "riverswim:states=7,horizon=50",
    "chain:states=9,horizon=40",
]
CASES = [(world, text) for world in WORLDS for text in ("uniform:1/pair", "uniform:4/state")]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that plans have to look further several times in a small world."""
    monkeypatch.setattr(sight, "FIRST_SIGHT", 4)
    monkeypatch.setattr(CompiledGame, "waits", True)


def new_game(name: str, text: str) -> tuple[Game, SimulatedSource]:
    model = cg.make(name).require_model("a test")
    target = parse_request(text).resolve(model.transitions)
    return default_game(target, pooled=True, looks_ahead=True), SimulatedSource(model, 3)


def same(one: Game, other: Game) -> None:
    mine, theirs = game_arrays(one), game_arrays(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)


@pytest.fixture(scope="module")
def read() -> dict[tuple[str, str], Game]:
    """The readable games, played to their ends."""
    return {}


def readable(name: str, text: str, known: dict[tuple[str, str], Game]) -> Game:
    if (name, text) not in known:
        game, source = new_game(name, text)
        while not game.covered:
            game.tell(source.play(game.ask(), game.counts.n_episodes, game.revise))
        known[name, text] = game
    return known[name, text]


@pytest.mark.parametrize(("name", "text"), CASES)
@pytest.mark.parametrize("incremental", [True, False])
def test_compiled_blocks_are_the_readable_game(
    name: str, text: str, incremental: bool, read: dict[tuple[str, str], Game]
) -> None:
    game, source = new_game(name, text)
    player = WaitingPlayer(game, source, most=64, record=False, incremental=incremental)
    while not game.covered:
        player.play(64)
    same(game, readable(name, text, read))


@pytest.mark.parametrize("kind", [FollowingGame, CompiledGame])
@pytest.mark.parametrize(("name", "text"), CASES)
def test_games_played_elsewhere_are_the_readable_game(
    name: str, text: str, kind: type[CompiledGame], read: dict[tuple[str, str], Game]
) -> None:
    game, source = new_game(name, text)
    inner = kind(game)
    while not game.covered:
        inner.tell(source.play(inner.ask(), game.counts.n_episodes, inner.revise))
    same(game, readable(name, text, read))


def test_plans_look_further_only_where_they_must(read: dict[tuple[str, str], Game]) -> None:
    """In the grid there is something near until the end; the river has to be swum up."""
    assert readable(WORLDS[0], "uniform:1/pair", read).sight == 8
    river = readable(WORLDS[2], "uniform:4/state", read)
    assert river.sight == 4 * 2 ** (river.counts.n_episodes - 1)  # every episode showed too little


def test_how_far_the_first_plans_look() -> None:
    shapes = [Shape(horizon, 9, 2) for horizon in (5, 32, 33, 900)]
    assert [is_long(shape) for shape in shapes] == [False, False, True, True]
    assert [first_sight(shape, stage_free=True) for shape in shapes] == [4, 4, 4, 4]
    assert first_sight(Shape(3, 9, 2), stage_free=True) == 3
    assert first_sight(shapes[-1], stage_free=False) == 900
    game, _ = new_game("chain:states=9,horizon=40", "uniform:1")
    assert game.sight == 40  # stages are told apart


@pytest.mark.parametrize(
    ("before", "in_vain", "after"),
    [(16, 0, 16), (16, 15, 16), (16, 16, 32), (16, 99, 32), (64, 64, 100), (100, 100, 100)],
)
def test_when_to_look_further(before: int, in_vain: int, after: int) -> None:
    assert wider(before, Shape(100, 9, 2), in_vain) == after


def test_in_worlds_of_millions_of_states_plans_look_less_far() -> None:
    """So that a plan of 25 bytes a stage and state has 2.5 GB at most, or no more than at first."""
    for states, most in ((10**5, 900), (10**6, 100), (10**8, 4)):
        shape = Shape(900, states, 2)
        assert within_reason(900, shape) == most
        assert wider(most, shape, 900) == most


def test_a_world_that_grows_beyond_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same game, readable or compiled, when plans have to look less far than they did."""
    monkeypatch.setattr(sight, "MOST_PLANNED", 8 * 70)
    monkeypatch.setattr(external, "FIRST_ROOM", 16)
    games = []
    for kind in (FollowingGame, PlainGame):
        monkeypatch.setattr("covgame.players.stepped.following_game", kind)
        run = cg.cover(cg.make(Corridor, 90), "uniform:3/pair")
        games.append(run.game)
    assert games[0].counts.shape.states == 64
    assert games[0].sight == 8
    same(*games)


def test_steps_in_vain_by_hand() -> None:
    """Cells (h, 0, a) of a world with one state, of whose pair 0 two visits are missing."""
    target = cg.cells([(None, 0, 0, 3), (None, 0, 1, 1)]).on(Shape(9, 1, 2))
    collected = np.array([1.0, 1.0])  # the second row has all it asked for
    assert longest_in_vain(target, collected, [0, 2, 4]) == 1  # the third visit is one too many
    assert longest_in_vain(target, collected, [1, 3, 5, 6, 9]) == 3
    assert longest_in_vain(target, collected, [1, 3, 4, 7, 9, 11]) == 3
    assert longest_in_vain(target, collected, []) == 0


def test_a_policy_with_fewer_rows_than_stages() -> None:
    """Its first row is for all stages that are as good as far from the end."""
    model = cg.make("garnet:states=5,actions=3,horizon=7,stationary=true").require_model("a test")
    rng = np.random.default_rng(0)
    table = rng.integers(3, size=(3, 5))
    short = Policy(table, 3, lead=4)
    assert [short.row(h) for h in range(7)] == [0, 0, 0, 0, 0, 1, 2]
    long = Policy.deterministic(table[[0, 0, 0, 0, 0, 1, 2]], 3)
    kernel, reward = model.transitions, rng.random((7, 5, 3))
    np.testing.assert_array_equal(dp.occupancy(kernel, short), dp.occupancy(kernel, long))
    np.testing.assert_array_equal(
        dp.evaluate(kernel, short, reward), dp.evaluate(kernel, long, reward)
    )
    source = SimulatedSource(model, 0)
    for number in range(20):
        np.testing.assert_array_equal(
            source.play(short, number).action, source.play(long, number).action
        )


def test_a_plan_takes_as_much_whatever_the_horizon() -> None:
    sizes = []
    for horizon in (60, 6_000):
        game, _ = new_game(f"grid:rows=6,columns=6,horizon={horizon}", "uniform:3/pair")
        inner = FollowingGame(game)
        inner.ask()
        cache, workspace = inner.plan_cache, inner.workspace
        arrays = (cache.flags, cache.known, cache.due, workspace.chosen, workspace.values)
        sizes.append([array.size for array in arrays])
    assert sizes[0] == sizes[1] == [4 * 36, 4 * 36, 4 * 36, 4 * 36, 4 * 37]


# ------------------------------------------------------------------------------ on disk


class Corridor:
    """A long corridor, which may be walked both ways; doors open with one of two actions."""

    actions, horizon = 3, 90

    def __init__(self, length: int = 40) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None) -> int:
        self.at = 0
        return 0

    def step(self, action: int) -> tuple[int, float, bool]:
        opens = action == 1 + self.at % 3 % 2
        self.at = min(self.length, self.at + 1) if opens else max(0, self.at - (action == 0))
        return self.at, float(opens), False


ASKED: dict[str, Any] = {"horizon": 90, "target": "uniform:2/pair"}


def arrays(run: Any) -> dict[str, Any]:
    return game_arrays(run.game)


def test_visits_that_are_added_up_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same episodes; of visits and rewards the sums, also where room grows on the way."""
    whole = cg.cover(Corridor, **ASKED, out=tmp_path / "whole")
    assert whole.counts.visits.shape == (90, 64, 3)
    for limit in (1, 18_000):
        for module in (counting, size):
            monkeypatch.setattr(module, "MOST_BY_STAGE", limit)
        run = cg.cover(Corridor, **ASKED, out=tmp_path / str(limit))
        mine, theirs = arrays(run), arrays(whole)
        if limit == 1:
            assert mine["visits"].shape == (1, 64, 3)
        for name in ("visits", "reward_sums"):
            theirs[name] = counting.summed_to(len(mine[name]), theirs[name])
        for name, array in theirs.items():
            np.testing.assert_array_equal(mine[name], array, err_msg=name)


@pytest.mark.parametrize("limit", [1, 10**7])
def test_a_run_goes_on_as_if_it_had_not_stopped(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From what was saved, and from its episodes alone."""
    monkeypatch.setattr(counting, "MOST_BY_STAGE", limit)
    unbroken = cg.cover(Corridor, **ASKED)
    assert 4 < unbroken.game.sight <= 90
    for number in (1, 3, unbroken.n_episodes - 1):
        place = tmp_path / str(number)
        stopped = cg.cover(Corridor, **ASKED, max_episodes=number, out=place)
        for lost in (False, True):
            if lost:
                (place / "counts.npz").unlink()
            again = cg.load(place, env=Corridor)
            assert isinstance(again, cg.Coverage)
            assert again.game.sight == stopped.game.sight
            same(again.game, stopped.game)
        with pytest.warns(UserWarning, match="counted again"):
            run = cg.resume(place, env=Corridor, max_episodes=10_000)
        same(run.game, unbroken.game)


def test_what_is_made_of_runs_whose_visits_are_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MOST_BY_STAGE", 1)
    run = cg.cover(Corridor, **ASKED, out=tmp_path / "run")
    assert run.counts.visits.shape[0] == 1
    assert "41; there may be others" in run.to_text()
    assert cg.certify(tmp_path / "run").claim == "coverage"
    assert run.report().stat().st_size > 10_000
    model = run.model
    assert model.plan().table.shape == (90, 41)
    assert model.value(model.plan()) > 5
    cg.export(tmp_path / "run", to="csv", out=tmp_path / "steps.csv")
    assert (tmp_path / "steps.csv").stat().st_size > 1_000
    done = covgame("policy", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr


def test_given_data_are_added_up_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_BY_STAGE", 1)
    cg.cover(Corridor, "uniform:1/pair", horizon=90, max_episodes=2, out=tmp_path / "first")
    more = cg.cover(Corridor, **ASKED, start_from=tmp_path / "first", out=tmp_path / "more")
    assert more.covered
    assert more.n_given == 2
    (given,) = more.given
    assert given.visits.shape[0] == more.given_visits.shape[0] == 1
    assert len(given.counts.table) == given.counts.shape.pairs  # nor are transitions kept by stage
    assert given.visits.sum() == given.steps
    assert cg.certify(tmp_path / "more").claim == "coverage"


def test_older_runs_look_at_all_stages(tmp_path: Path) -> None:
    """They have played so from their beginning."""
    cg.cover(Corridor, **ASKED, max_episodes=3, out=tmp_path / "run")
    place = tmp_path / "run" / "counts.npz"
    saved = dict(np.load(place))
    del saved["sight"], saved["horizon"]
    run = cg.load(tmp_path / "run", env=Corridor)
    run.restore(saved)
    assert isinstance(run, cg.Coverage)
    assert run.game.sight == 90


@pytest.mark.parametrize(("name", "value"), [("sight", 0), ("sight", 91), ("horizon", 10**9)])
def test_absurd_stages_are_not_believed(name: str, value: int, tmp_path: Path) -> None:
    cg.cover(Corridor, **ASKED, max_episodes=3, out=tmp_path / "run")
    place = tmp_path / "run" / "counts.npz"
    saved = {**np.load(place), name: np.array(value)}
    (tmp_path / "run" / "checksums.json").unlink()
    with place.open("wb") as file:
        np.savez(file, **saved)
    run = cg.load(tmp_path / "run", env=Corridor)
    assert run.notice is not None
    assert "counted again" in run.notice


def test_users_who_index_by_stage_get_all_stages() -> None:
    """A game of their own plans every stage, as its policies always have."""
    model = cg.make("chain:states=4,horizon=60").require_model("a test")
    target = parse_request("uniform:1/pair").resolve(model.transitions)
    game = default_game(target, pooled=True)
    assert game.ask().table.shape == (60, 4)
    assert replace(game.ask(), table=game.ask().table[:, :3]).lead == 0
