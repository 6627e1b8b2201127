"""Somebody's own planner, adversary, peer and loop run like ours, without touching the package."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.comparison.experiments import experiments_of
from benchmarks.comparison.measures import measure
from benchmarks.comparison.results import Journal
from benchmarks.comparison.summaries import all_tables
from examples.own_players import Habits, HardestFirst, LeastTried

import covgame as cg
from covgame.errors import BadInput
from covgame.game.adversary import TargetAware
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from tests.rundb import arrays_of, config_of
from tests.test_cli import covgame

OWN = "py:examples.own_players:"
WORLD = "chain:states=4,horizon=6"
PLAYERS = [
    {"planner": OWN + "LeastTried"},
    {"adversary": OWN + "HardestFirst"},
    {"planner": OWN + "Habits"},
    {"planner": OWN + "LeastTried", "adversary": OWN + "HardestFirst"},
]


@pytest.mark.parametrize("own", PLAYERS, ids=lambda own: "+".join(own.values()))
@pytest.mark.parametrize("world", [WORLD, "py:examples.vending_machine:VendingMachine"])
def test_own_players_are_recorded_and_resumed(
    tmp_path: Path, own: dict[str, str], world: str
) -> None:
    """On a simulated model, and on an environment whose target grows."""
    asked: dict[str, Any] = {"env": world, "target": "uniform:8/pair", **own}
    whole = cg.cover(**asked, out=tmp_path / "whole", max_episodes=400)
    cg.cover(**asked, out=tmp_path / "parts", max_episodes=7)
    cg.resume(tmp_path / "parts", max_episodes=400, trust=True)
    expected, found = arrays_of(tmp_path / "whole"), arrays_of(tmp_path / "parts")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name])
    assert whole.covered or world != WORLD  # not everybody finds what has to be found on the way
    if whole.covered:
        assert cg.certify(tmp_path / "parts").episodes == whole.n_episodes


def test_objects_have_to_be_handed_over_again(tmp_path: Path) -> None:
    own: dict[str, Any] = {"planner": LeastTried(), "adversary": HardestFirst()}
    whole = cg.cover(WORLD, "uniform:8/pair", **own)
    cg.cover(WORLD, "uniform:8/pair", **own, out=tmp_path, max_episodes=7)
    with pytest.raises(BadInput, match="hand the object over"):
        cg.resume(tmp_path)
    again = cg.resume(tmp_path, **own, max_episodes=10**6)
    assert again.n_episodes == whole.n_episodes
    assert again.game.state.memory["changes"] > 0


def test_ours_handed_over_play_the_same_episodes() -> None:
    """Plain code with our own planner and adversary: the same game, only slower."""

    class Planner:
        def plan(self, counts: cg.Counts, reward: Any) -> cg.Policy:
            return OptimisticPlanner(RangeAwareOptimism()).plan(counts, reward)

    ours = cg.cover(WORLD, "uniform:8/pair")
    plain = cg.cover(WORLD, "uniform:8/pair", planner=Planner(), adversary=TargetAware())
    np.testing.assert_array_equal(ours.counts.visits, plain.counts.visits)


def test_a_subclass_of_ours_is_not_mistaken_for_ours() -> None:
    class Lazy(TargetAware):
        def observe(self, *_: Any) -> None:
            """Nothing is ever forgotten."""

    ours = cg.cover(WORLD, "uniform:8/pair")
    other = cg.cover(WORLD, "uniform:8/pair", adversary=Lazy(), max_episodes=10**4)
    assert not np.array_equal(ours.counts.visits, other.counts.visits)


def test_the_command_line_takes_them_by_name(tmp_path: Path) -> None:
    asked = ("cover", WORLD, "--target", "uniform:8/pair", "--out", str(tmp_path / "run"))
    done = covgame(*asked, "--adversary", OWN + "HardestFirst", "--json")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["covered"]
    own = cg.cover(WORLD, "uniform:8/pair", adversary=HardestFirst())
    assert answer["episodes"] == own.n_episodes
    manifest = config_of(tmp_path / "run")
    assert manifest["adversary"] == OWN + "HardestFirst"


class Raises:
    def plan(self, counts: cg.Counts, reward: Any) -> cg.Policy:
        raise ValueError("no idea")


class Wrong:
    def __init__(self, answer: Callable[[cg.Counts], Any]) -> None:
        self.answer = answer

    def plan(self, counts: cg.Counts, reward: Any) -> cg.Policy:
        answer: cg.Policy = self.answer(counts)
        return answer


class Weights:
    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def start(self, target: cg.Target) -> cg.AdversaryState:
        return cg.AdversaryState(np.ones(len(target)), 1.0)

    def observe(self, target: cg.Target, state: cg.AdversaryState, *_: Any) -> None:
        state.weights = self.weights


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"planner": Raises()}, "plan\\(\\) raised ValueError: no idea"),
        ({"planner": Wrong(lambda _: None)}, "has to return a Policy"),
        ({"planner": Wrong(lambda c: cg.Policy.uniform(cg.Shape(2, 2, 2)))}, "6 stages"),
        (
            {"planner": Wrong(lambda c: cg.Policy.deterministic(np.full(c.shape.hs, 9), 2))},
            "outside 0 to 1",
        ),
        ({"planner": 3}, "no plan\\(\\) or ask\\(\\) method"),
        ({"planner": "numpy"}, "write py:module:name"),
        ({"planner": "py:examples.own_players:Nobody"}, "has no 'Nobody'"),
        ({"planner": "py:examples.nowhere:Nobody"}, "cannot be imported"),
        ({"adversary": "py:examples.own_players:Habits"}, "no start\\(\\) method"),
        ({"adversary": Weights(np.array([1.0]))}, "8 numbers from 0 on"),
        ({"adversary": Weights(np.full(8, np.nan))}, "8 numbers from 0 on"),
        ({"adversary": Weights(np.full(8, -1.0))}, "8 numbers from 0 on"),
        ({"planner": LeastTried(), "play": "counts"}, 'use play="exact"'),
    ],
)
def test_what_is_wrong_with_them_is_one_sentence(own: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        cg.cover(WORLD, "uniform:8/pair", **own, max_episodes=50)


def test_they_are_compared_with_the_others(tmp_path: Path) -> None:
    own = OWN + "LeastTried"
    wanted = [
        one
        for one in experiments_of("quick", [own])
        if one.kind == "cover" and one.env == "lock" and one.method in (own, "covgame")
    ]
    assert {one.method for one in wanted} == {own, "covgame"}
    journal = Journal(tmp_path)
    results = [
        result
        for one in wanted
        if one.targets == ("uniform:1",)
        for result in journal.add(one, measure(one))
    ]
    tables = all_tables(results)
    for name in ("peers", "peers_ahead", "peers_cases"):
        assert own in tables[name]


def test_a_peer_pays_no_attention_to_the_target() -> None:
    few, many = (
        cg.cover(WORLD, f"uniform:{n}/pair", planner=Habits()).counts.visits for n in (2, 200)
    )
    assert few.sum() < many.sum()
    game = cg.default_game(cg.cells([(None, 3, 1, 5)]).on(cg.Shape(6, 4, 2)), pooled=True)
    model = cg.make(WORLD).require_model("a test")
    visits = np.zeros((6, 4, 2), dtype=np.int64)
    for _ in range(3):
        episode = cg.SimulatedSource(model).play(Habits().ask(game.counts), game.counts.n_episodes)
        game.tell(episode)
        np.add.at(visits, (np.arange(len(episode)), episode.state, episode.action), 1)
    first = cg.cover(WORLD, "uniform:200/pair", planner=Habits(), max_episodes=3)
    np.testing.assert_array_equal(first.counts.visits, visits)


def test_a_game_can_be_played_by_rounds() -> None:
    """All that a third party needs stands in ``covgame``."""
    model = cg.make(WORLD).require_model("a test")
    target = cg.uniform(8, "pair").resolve(model.transitions)
    game = cg.default_game(target, pooled=True)
    *_, last = cg.rounds(game, cg.SimulatedSource(model, seed=0))
    assert last.covered
    assert last.n_episodes == cg.cover(WORLD, "uniform:8/pair").n_episodes
