"""Plans that look only as far ahead as it takes, and visits that are added up over stages."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import long_episodes

import covgame as cg
from covgame.baselines.nearest_untried import NearestUntried
from covgame.engine.compiled import CompiledGame
from covgame.engine.engines import SimulatedEngine
from covgame.game import counts as counting
from covgame.game import game as game_module
from covgame.game import lookahead, size
from covgame.game.game import Game
from covgame.game.lookahead import find_route, first_depth, is_long, max_depth, next_depth
from covgame.game.planner import RangeAwareOptimism
from covgame.game.presets import default_game
from covgame.game.successors import SuccessorTable
from covgame.kernels import layout
from covgame.mdp import dp
from covgame.sources import stepped
from covgame.sources.simulated import SimulatedSource
from covgame.storage.state import game_arrays
from covgame.targets.requests import parse_request, uniform
from covgame.types import Policy, Shape
from tests.long_worlds import maze
from tests.rundb import arrays_of, set_arrays, spoil_arrays
from tests.test_cli import covgame

WORLDS = [
    "grid:rows=7,columns=6,horizon=40",
    "garnet:states=9,actions=3,horizon=36,stationary=true,seed=1",
    "riverswim:states=9,horizon=50",
    "chain:states=24,horizon=70",
]
CASES = [(world, text) for world in WORLDS for text in ("uniform:1/pair", "uniform:4/state")]


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not play readable episodes while the compiler works."""
    monkeypatch.setattr(CompiledGame, "waits", True)


def new_game(name: str, text: str, seed: int = 3) -> tuple[Game, SimulatedSource]:
    model = cg.make(name).require_model("a test")
    target = parse_request(text).resolve(model.transitions)
    return default_game(target, pooled=True, looks_ahead=True), SimulatedSource(model, seed)


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
    player = SimulatedEngine(
        game, source, most=64, record=False, incremental=incremental, waits=True
    )
    while not game.covered:
        player.play(64)
    same(game, readable(name, text, read))


@pytest.mark.parametrize(("name", "text"), CASES)
def test_games_played_elsewhere_are_the_readable_game(
    name: str, text: str, read: dict[tuple[str, str], Game]
) -> None:
    game, source = new_game(name, text)
    inner = CompiledGame(game)
    while not game.covered:
        inner.tell(source.play(inner.ask(), game.counts.n_episodes, inner.revise))
    same(game, readable(name, text, read))


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("looks", [3, 8])
def test_a_second_look_is_the_same_in_compiled_code(name: str, looks: int) -> None:
    """Episodes that go on after everything is covered, and some that begin so."""
    (game, source), (mirror, _) = (new_game(name, "uniform:1/pair") for _ in range(2))
    inner = CompiledGame(game)
    game.looks_again = mirror.looks_again = True
    looked, more = 0, 0
    while more < looks:
        more += game.covered
        played = source.play(inner.ask(), game.counts.n_episodes, inner.revise)
        looked += game.look_base is not None
        inner.tell(played)
        again = source.play(mirror.ask(), mirror.counts.n_episodes, mirror.revise)
        mirror.tell(again)
        assert played.action.tolist() == again.action.tolist()
    same(game, mirror)
    assert looked >= looks


def test_a_second_look_visits_the_least_visited_pairs() -> None:
    """By hand: 3 states in a row, everything covered; then all pairs are visited alike."""
    game, source = new_game("chain:states=3,horizon=40", "uniform:1/pair")
    game.looks_again = True
    while not game.covered:
        game.tell(source.play(game.ask(), game.counts.n_episodes, game.revise))
    for _ in range(10):
        game.tell(source.play(game.ask(), game.counts.n_episodes, game.revise))
        if game.counts.n_episodes > 8:
            break
    visits = game.counts.visits.sum(axis=0)
    assert visits.min() > 0.5 * visits.max()
    game.begin()
    assert game.should_look_again()
    weights = game.look_again()
    collected = game.collected
    assert weights.max() == 2.0**-20
    assert (weights == 2.0**-20 * 8.0 ** (collected.min() - collected)).all()


def depths(name: str, text: str) -> set[int]:
    """How far the plans of a readable game look."""
    game, source = new_game(name, text)
    seen: set[int] = set()

    def revise(cell: int, successor: int) -> Policy | None:
        policy = game.revise(cell, successor)
        seen.add(len(game.plan.policy.table))
        return policy

    while not game.covered:
        game.tell(source.play(game.ask(), game.counts.n_episodes, revise))
    return seen


def test_plans_look_further_only_where_they_must() -> None:
    """In the grid there is something near until the end; the far end of the chain is far away."""
    assert depths(WORLDS[0], "uniform:1/pair") <= {16, 32}
    assert depths(WORLDS[3], "uniform:1/pair") == {16, 32, 64, 70}


def test_the_depth_by_hand() -> None:
    """A corridor whose pairs are all covered but the one at its end, 20 steps away.

    With 16 stages the plan sees bonuses only; with 32, the 12 visits that fit in after the way
    there, less than half of 32; with 64, the 44 of 64.
    """
    nodes, horizon = 21, 200
    model = cg.make(f"chain:states={nodes},horizon={horizon}").require_model("a test")
    target = cg.cells([(None, nodes - 1, 1, 5)]).on(model.shape)
    game = default_game(target, pooled=True, looks_ahead=True)
    for state in range(nodes):
        for action, following in ((0, 0), (1, min(state + 1, nodes - 1))):
            for _ in range(1000):  # so often that no bonus matters
                game.counts.table.add(state * 2 + action, following)
    for left, depth in ((horizon, 64), (64, 64), (33, 64), (32, 32), (17, 32), (16, 16)):
        game.begin()
        game._plan_from(horizon - left, 0)
        assert len(game.plan.policy.table) == depth, left
    assert game.sees_enough(horizon - 16, 0)
    game._plan_from(0, nodes - 1)
    assert len(game.plan.policy.table) == 16
    assert game.sees_enough(0, nodes - 9)
    assert not game.sees_enough(0, nodes - 10)


def test_depths() -> None:
    shapes = [Shape(horizon, 9, 2) for horizon in (5, 32, 33, 900)]
    assert [is_long(shape) for shape in shapes] == [False, False, True, True]
    assert [max_depth(shape) for shape in shapes] == [5, 32, 33, 900]
    assert [first_depth(deepest) for deepest in (5, 16, 900)] == [5, 16, 16]
    assert [next_depth(16, deepest) for deepest in (16, 20, 32, 900)] == [16, 20, 32, 32]
    game, _ = new_game("chain:states=9,horizon=40", "uniform:1")
    assert len(game.ask().table) == 40  # stages are told apart


def test_in_worlds_of_millions_of_states_plans_look_less_far() -> None:
    """So that a plan of 25 bytes a stage and state has 2.5 GB at most."""
    depths = [max_depth(Shape(900, states, 2)) for states in (10**5, 10**6, 10**8)]
    assert depths == [900, 100, 16]


def test_a_world_that_grows_beyond_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same game, readable or compiled, when plans have to look less far than they did."""
    monkeypatch.setattr(lookahead, "MAX_PLANNED", 20 * 256)
    monkeypatch.setattr(stepped, "FIRST_ROOM", 16)
    games = []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr("covgame.engine.engines.compiled_game", lambda game, **_: game)
        run = cg.cover(cg.make(lambda: Corridor(200), 90), "uniform:3/pair", max_episodes=40)
        games.append(run.game)
    assert games[0].counts.shape.states == 256
    assert games[0].deepest == 20
    same(*games)


@pytest.mark.parametrize("horizon", [10, 100, 1000])
def test_bonuses_along_a_path_are_bounded(horizon: int) -> None:
    """Where every pair was observed once and nothing is earned; R is the number of stages left.

    They are a share of R (a constant b of 0.03 reaches all of it), or of one visit, which earns 1.
    """
    nothing, once = np.zeros(1), np.ones(1)

    def value(optimism: RangeAwareOptimism) -> float:
        value = nothing
        for left in range(1, horizon):
            value = optimism.upper_q(nothing, value, nothing, once, nothing, float(left), left)
        return float(value[0])

    b = np.minimum(0.03, 0.5 / np.arange(1, horizon))
    assert value(RangeAwareOptimism(path_bonus=0.5)) == pytest.approx(
        float((b * np.arange(1, horizon)).sum())
    )
    assert value(RangeAwareOptimism(path_bonus=0.5)) <= 0.5 * (horizon - 1)
    harmonic = float((1 / np.arange(1, horizon)).sum())
    assert value(RangeAwareOptimism(visit_bonus=0.5)) < 0.5 * harmonic
    assert value(RangeAwareOptimism(b=1.0, visit_bonus=0.5)) == pytest.approx(0.5 * harmonic)
    assert value(RangeAwareOptimism(visit_bonus=0.1)) < 1.0


def test_the_numbers_of_the_bonus() -> None:
    optimism = RangeAwareOptimism(visit_bonus=0.5)
    assert optimism.bonus_at(1) == (0.03, 0.03)
    assert optimism.bonus_at(10) == (0.03, 0.005)
    assert optimism.bonus_at(100) == pytest.approx((0.01, 0.00005))
    assert RangeAwareOptimism().bonus_at(33) == (0.03, 0.03)
    game, _ = new_game(WORLDS[0], "uniform:1/pair")
    assert game.planner.optimism.visit_bonus == 0.1  # type: ignore[attr-defined]
    game, _ = new_game(WORLDS[0], "uniform:1")
    assert game.planner.optimism.visit_bonus == np.inf  # type: ignore[attr-defined]


@pytest.mark.parametrize(("side", "horizon", "seed"), [(8, 40, 3), (9, 50, 1)])
def test_pairs_that_only_the_last_stages_can_visit(side: int, horizon: int, seed: int) -> None:
    """A maze larger than an episode: bonuses must not delay the way to its farthest pairs."""
    model = maze(side, horizon, seed=seed)
    pairs = len(uniform(1, "pair").resolve(model.transitions))
    nearest = long_episodes.explore(NearestUntried, model, pairs, 1, 0, 100)
    discovered = long_episodes.cover_class(model, pairs, 1, 0, 100)
    assert nearest.covered_after is not None
    assert discovered.covered_after is not None
    assert discovered.covered_after <= nearest.covered_after + 1


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


def test_a_plan_takes_as_much_time_whatever_the_horizon() -> None:
    """Counted in states planned; the longer episodes are, the fewer of them it takes."""
    planned = []
    for horizon in (600, 6_000):
        states = steps = 0
        for seed in range(3):
            name = f"grid:rows=6,columns=6,horizon={horizon}"
            game, source = new_game(name, "uniform:3/pair", seed)
            inner = CompiledGame(game)
            episode = source.play(inner.ask(), 0, inner.revise)
            states += int(inner.plan_cache.tally[layout.PLANNED])
            steps += len(episode.state)
        planned.append(states / steps)
    assert planned[1] < 2 * planned[0]


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
    assert whole.counts.visits.shape == (90, 256, 3)
    for limit in (1, 60_000):
        for module in (counting, size):
            monkeypatch.setattr(module, "MOST_BY_STAGE", limit)
        run = cg.cover(Corridor, **ASKED, out=tmp_path / str(limit))
        mine, theirs = arrays(run), arrays(whole)
        if limit == 1:
            assert mine["visits"].shape == (1, 256, 3)
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
    for number in (1, 3, unbroken.n_episodes - 1):
        place = tmp_path / str(number)
        stopped = cg.cover(Corridor, **ASKED, max_episodes=number, out=place)
        for lost in (False, True):
            if lost:
                spoil_arrays(place)
            again = cg.load(place, env=Corridor)
            assert isinstance(again, cg.Coverage)
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
    assert "states never visited are not counted" in run.to_text()
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


def test_absurd_stages_are_not_believed(tmp_path: Path) -> None:
    cg.cover(Corridor, **ASKED, max_episodes=3, out=tmp_path / "run")
    saved = arrays_of(tmp_path / "run")
    set_arrays(tmp_path / "run", {**saved, "horizon": np.array(10**9)})
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


# Routes, in environments of at least LARGE states.


def table_of(successors: dict[int, list[int]], actions: int) -> SuccessorTable:
    """Each row led to these successors, one after another; rows are state * actions + action."""
    table = SuccessorTable(actions * (1 + max(row // actions for row in successors)))
    for row, following in successors.items():
        for successor in following:
            table.add(row, successor)
    return table


@pytest.mark.parametrize(
    ("successors", "rewarded", "forbidden", "expected"),
    [
        # Action 1 goes on, action 0 stays; the reward is for action 0 of state 2.
        ({0: [0], 1: [1], 2: [1], 3: [2], 4: [2], 5: [0]}, 4, [], ({0: 1, 1: 1, 2: 0}, 3, 3)),
        # A direct way that was seen less often than the detour is not used.
        ({0: [0], 1: [2, 1, 1], 2: [1], 3: [2], 4: [2]}, 4, [], ({0: 1, 1: 1, 2: 0}, 3, 3)),
        # Equally often: the smaller state. Episodes that mostly end lead nowhere.
        ({0: [0], 1: [2, 1], 3: [2], 4: [2]}, 4, [], ({0: 1, 1: 1, 2: 0}, 3, 3)),
        ({0: [0], 1: [1, -1], 3: [2], 4: [2]}, 4, [], ({}, np.inf, 1)),
        # A forbidden action is no way.
        ({0: [0], 1: [1], 3: [2], 4: [2]}, 4, [1], ({}, np.inf, 1)),
        # The first state has the reward; a pair without observations is rewarded like any other.
        ({0: [0], 1: [1], 3: [2], 4: [2]}, 0, [], ({0: 0}, 1, 3)),
        ({0: [0], 1: [1], 3: [2], 4: [2]}, 5, [], ({0: 1, 1: 1, 2: 1}, 3, 3)),
    ],
)
def test_routes_by_hand(
    successors: dict[int, list[int]],
    rewarded: int,
    forbidden: list[int],
    expected: tuple[dict[int, int], float, int],
) -> None:
    reward = np.zeros(6)
    reward[rewarded], reward[forbidden] = 0.5, -np.inf
    assert find_route(table_of(successors, 2), reward.reshape(3, 2), 0) == expected


FAR_PAIRS = ((25, 2), (760, 1), (1599, 3), (810, 0), (811, 0))


def known_grid(slip: float, horizon: int = 100) -> tuple[Game, SimulatedSource]:
    """A grid of 1,600 states, every pair observed, in which only a few far pairs are required."""
    name = f"grid:rows=40,columns=40,horizon={horizon},slip={slip}"
    model = cg.make(name).require_model("a test")
    rows = [(None, s, a, 2) for s, a in FAR_PAIRS]
    target = cg.cells(rows).on(model.shape)
    game = default_game(target, pooled=True, looks_ahead=True)
    starts = model.transitions.start[: game.counts.shape.pairs + 1].tolist()
    for row, (first, last) in enumerate(pairwise(starts)):
        for place in range(first, last):
            times = round(10 * float(model.transitions.probability[place]))
            if times:
                game.counts.table.add(row, int(model.transitions.next_state[place]), times)
    return game, SimulatedSource(model, 3)


@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_compiled_games_take_the_same_routes(slip: float) -> None:
    """Readable, followed step by step, and in blocks with and without a kept plan."""
    game, source = known_grid(slip)
    routes = 0

    def revise(cell: int, successor: int) -> Policy | None:
        nonlocal routes
        policy = game.revise(cell, successor)
        routes += bool(game.route)
        return policy

    while not game.covered and game.counts.n_episodes < 2:
        game.tell(source.play(game.ask(), game.counts.n_episodes, revise))
    assert routes > 50
    followed, source = known_grid(slip)
    inner = CompiledGame(followed)
    while not followed.covered and followed.counts.n_episodes < 2:
        inner.tell(source.play(inner.ask(), followed.counts.n_episodes, inner.revise))
    same(game, followed)
    for incremental in (True, False):
        other, source = known_grid(slip)
        player = SimulatedEngine(
            other, source, most=2, record=False, incremental=incremental, waits=True
        )
        player.play(2)
        same(game, other)


def test_a_route_leads_straight_to_the_required_pair() -> None:
    game, source = known_grid(0.0)
    game.ask()
    policy = game.start(0)
    assert policy is not None
    assert len(policy.table) == 1
    first = source.play(game.ask(), 0, game.revise)
    path = list(zip(first.state.tolist(), first.action.tolist(), strict=True))
    assert path.index((760, 1)) == 19  # the nearest of them, 19 rows below


def test_small_environments_take_no_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    game, _ = known_grid(0.0)
    monkeypatch.setattr(game_module, "LARGE", 1601)
    game.ask()
    policy = game.start(0)
    assert policy is not None
    assert len(policy.table) > lookahead.ROUTE_DEPTH
