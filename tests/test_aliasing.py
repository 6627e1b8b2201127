"""States that behave differently depending on how they were reached; what chance finds."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import covgame as cg
from covgame.episodes import Block
from covgame.game.growth import FEW_LOOKS, LEAST_LOOKS_RANDOM, look_episodes
from covgame.pac.aliasing import Ways, _Pair
from covgame.runs.resume import resume
from covgame.types import FloatArray, IntArray
from tests.rundb import result_of, spoil_arrays
from tests.runs import coverage_at


def told(ways: Ways, episodes: list[list[tuple[int, int, int]]]) -> Ways:
    """Tell (state, action, next state) by episode."""
    steps = np.array([step for episode in episodes for step in episode], dtype=np.int64)
    lengths = np.array([len(episode) for episode in episodes], dtype=np.int64)
    ways.tell(Block(0, lengths, steps[:, 0], steps[:, 1], np.zeros(len(steps)), steps[:, 2]))
    return ways


def markov(rng: np.random.Generator, p: FloatArray, episodes: int) -> list[Any]:
    """Episodes of a world, by somebody who minds all that came before."""
    played = []
    for _ in range(episodes):
        state, past, steps = 0, 0, list[tuple[int, int, int]]()
        for _ in range(6):
            action = int(rng.random() < 0.5) ^ (past % 2)
            following = int(rng.choice(len(p), p=p[state, action]))
            steps.append((state, action, following))
            past, state = past + following, following
        played.append(steps)
    return played


def test_bets_on_a_pair_are_fair() -> None:
    """Every sequence of 7 successors: what the bets are worth on average is 1, under any p."""
    for p in ((0.2, 0.3, 0.5), (0.05, 0.05, 0.9), (1 / 3, 1 / 3, 1 / 3)):
        mean = largest = 0.0
        for drawn in itertools.product(range(3), repeat=7):
            ways, chance, fair = Ways(1), 1.0, 0.0
            seen: list[int] = []
            for successor in drawn:
                context = sum(seen) % 2 if seen else -1  # whoever plays may choose by what was seen
                known = set(seen)
                if successor in known and len(known) > 1:
                    fair += math.log(p[successor] / sum(p[j] for j in known))
                ways._hear(9, context, successor)
                seen.append(successor)
                chance *= p[successor]
            pair = ways.pairs.get(9, _Pair())  # nothing is betted on a single successor
            mean += chance * math.exp(pair.predicted - fair)
            largest += chance * math.exp(pair.log_wealth)
            assert pair.log_wealth <= pair.predicted - fair + 1e-9
        assert mean == pytest.approx(1.0)
        assert largest <= 1.0


def test_false_alarms_are_as_rare_as_promised() -> None:
    rng, runs, alarms = np.random.default_rng(1), 150, 0
    for _ in range(runs):
        p, ways, alarm = rng.dirichlet(np.full(4, 0.5), (4, 2)), Ways(2), False
        for _ in range(6):
            alarm |= bool(told(ways, markov(rng, p, 8)).aliased(alpha=0.2))
        alarms += alarm
    assert alarms <= binom.ppf(0.999, runs, 0.2)


ROOMS = ("hall", "red", "blue", "red", "blue", "garden")


def walks(rng: np.random.Generator, colours: IntArray, episodes: int, slip: float) -> list[Any]:
    """Random walks through six rooms, of which only the colour is seen."""
    played = []
    for _ in range(episodes):
        room, steps = 0, list[tuple[int, int, int]]()
        for _ in range(10):
            action = int(rng.integers(2))
            right = action ^ int(rng.random() < slip)
            following = min(5, max(0, room + (1 if right else -1)))
            steps.append((int(colours[room]), action, int(colours[following])))
            room = following
        played.append(steps)
    return played


@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_six_rooms_of_four_colours(slip: float) -> None:
    """Both colours that stand for two rooms are named, the others are not."""
    rng = np.random.default_rng(2)
    colours = np.array([0, 1, 2, 1, 2, 3])
    named = [state for state, _ in told(Ways(2), walks(rng, colours, 400, slip)).aliased()]
    assert sorted(named) == [1, 2]
    assert not told(Ways(2), walks(rng, np.arange(6), 400, slip)).aliased()


def test_saved_and_restored_in_between() -> None:
    rng, colours = np.random.default_rng(3), np.array([0, 1, 2, 1, 2, 3])
    episodes = walks(rng, colours, 30, 0.1)
    whole, first, again = told(Ways(2), episodes), told(Ways(2), episodes[:11]), Ways(2)
    again.restore(first.arrays())
    assert told(again, episodes[11:]).evidence() == whole.evidence()
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array)


# ----------------------------------------------------------------------------- in runs

HOUSE = """
ROOMS = ("hall", "red", "blue", "red", "blue", "garden")

class House:
    actions, horizon = 2, 8

    def reset(self):
        self.room = 0
        return 0

    def step(self, action):
        self.room = min(5, max(0, self.room + (1 if action else -1)))
        return self.room, 0.0, False

def colour(room):
    return ROOMS[room]

def grey(room):
    return ("hall", "grey", "blue", "grey", "grey", "grey")[room]
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "coloured_house.py").write_text(HOUSE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "py:coloured_house:House"


def test_a_run_names_the_states_to_split(house: str) -> None:
    run = cg.cover(house, "uniform:10/pair", states="py:coloured_house:grey")
    assert run.covered
    ((state, evidence),) = run.aliased
    assert run.names.state(state) == "grey"
    assert run.to_dict()["aliased"] == [{"state": state, "label": "grey", "evidence": evidence}]
    text = run.to_text()
    assert "1 state behaves differently depending on how it was reached: grey; split it" in text
    assert "each state of the map may stand for many real ones" in text
    several = cg.cover(house, "uniform:100/pair", states="py:coloured_house:colour")
    assert {several.names.state(state) for state, _ in several.aliased} == {"red", "blue"}
    assert "2 states behave differently depending on how they were reached" in several.to_text()
    plain = cg.cover(house, "uniform:10/pair")
    assert plain.aliased == [] == plain.to_dict()["aliased"]
    assert "one may stand for many" not in plain.to_text()


def test_models_are_markov_by_definition() -> None:
    run = cg.cover("chain:states=4,horizon=6", "uniform:2/pair")
    answer = run.to_dict()
    assert (answer["aliased"], answer["second_look"], answer["warning"]) == ([], None, None)


@pytest.mark.parametrize("lost", [False, True])
def test_evidence_survives(house: str, tmp_path: Path, lost: bool) -> None:
    """Stopped anywhere and resumed, or counted again: the same run to the end."""
    asked: dict[str, Any] = {"states": "py:coloured_house:grey", "seed": 4}
    whole = cg.cover(house, "uniform:6/pair", out=tmp_path / "whole", **asked)
    for stop in range(1, whole.n_episodes + 1, 3):
        run = tmp_path / f"run-{stop}"
        cg.cover(house, "uniform:6/pair", out=run, max_episodes=stop, **asked)
        if lost:
            spoil_arrays(run)
            with pytest.warns(UserWarning, match="counted again"):
                again = resume(run, max_episodes=1000, trust=True)
        else:
            again = resume(run, max_episodes=1000, trust=True)
        assert again.to_dict() == {**whole.to_dict(), "run": str(run)}
        assert coverage_at(run).aliased == whole.aliased


# ----------------------------------------------------------------------------- by chance


class Trapdoor:
    """A room, and an attic above it that is found by luck; then one stays there."""

    actions, horizon = 2, 4

    def reset(self, seed: int) -> str:
        self.luck = np.random.default_rng(seed)
        self.state = "room"
        return self.state

    def step(self, action: int) -> Any:
        if self.luck.random() < 0.1:
            self.state = "attic"
        return self.state, 0.0, False


def test_a_second_look_finds_what_covering_did_not_look_for() -> None:
    """What was seen is covered at once; the second look finds the attic, which is covered, too."""
    runs = [cg.cover(Trapdoor(), "uniform:1/pair", seed=seed) for seed in range(10)]
    run = next(run for run in runs if run.to_dict()["second_look"]["new_states"])
    chance = run.growth.second_look
    assert chance is not None
    assert run.covered
    assert chance.new_states == 1
    assert chance.new_rows == 2
    before = run.n_episodes - chance.in_vain
    assert chance.in_vain == look_episodes(before, is_random=True) == LEAST_LOOKS_RANDOM
    assert run.names.state(1) == "attic"
    planned = run.n_episodes - chance.episodes
    text = run.to_text()
    assert f"{run.n_episodes} ({planned}, then {chance.episodes} for a second look; " in text
    assert "looked for further states and found 1 new state and 2 new" in text
    assert run.to_dict()["episodes_planned"] == planned
    assert run.to_dict()["second_look"]["episodes"] == chance.episodes


@pytest.mark.parametrize(
    ("episodes", "looks"),
    [(0, 1), (1, 1), (10, 1), (11, 2), (40, 4), (50, 5), (100, 5), (101, 6), (1000, 50)],
)
def test_the_second_look_follows_the_length_of_the_run(episodes: int, looks: int) -> None:
    """A tenth up to five; a twentieth where that is more; three where transitions are random."""
    assert look_episodes(episodes, is_random=False) == looks
    assert look_episodes(episodes, is_random=True) == max(6, looks)


def test_the_second_look_is_not_half_of_a_run_of_ten_episodes() -> None:
    class Corridor:
        actions, horizon = 2, 6

        def reset(self) -> int:
            self.at = 0
            return 0

        def step(self, action: int) -> tuple[int, float, bool]:
            self.at = min(5, max(0, self.at + (1 if action else -1)))
            return self.at, 0.0, False

    run = cg.cover(Corridor, "uniform:4/pair")
    planned = run.n_episodes - run.n_looks
    assert 6 <= planned <= 20
    assert run.n_looks == math.ceil(planned / 10)


def test_the_second_look_takes_a_twentieth(house: str) -> None:
    run = cg.cover(house, "uniform:500/pair")
    chance = run.growth.second_look
    assert chance is not None
    directed = run.n_episodes - chance.episodes
    assert chance.episodes == chance.in_vain == math.ceil(directed / 20) > FEW_LOOKS
    assert "looked for further states and found nothing new" in run.to_text()


def test_a_budget_need_not_suffice_for_a_second_look(house: str, tmp_path: Path) -> None:
    """Covered is covered; who has more to spend goes on looking."""
    whole = cg.cover(house, "uniform:5/pair")
    assert whole.growth.second_look is not None
    budget = whole.n_episodes - 2
    run = cg.cover(house, "uniform:5/pair", out=tmp_path / "run", max_episodes=budget)
    assert (run.covered, run.stopped, run.n_episodes) == (True, "covered", budget)
    assert cg.certify(tmp_path / "run").claim == "coverage"
    again = resume(tmp_path / "run", max_episodes=1000, trust=True)
    assert again.n_episodes == whole.n_episodes
    assert resume(tmp_path / "run", trust=True).n_episodes == whole.n_episodes


def test_chance_draws_no_forbidden_action() -> None:
    class Masked:
        actions, horizon = 3, 20

        def reset(self) -> Any:
            return "room", {"action_mask": [False, True, True]}

        def step(self, action: int) -> Any:
            assert action != 0
            return "room", 0.0, False, False, {"action_mask": [False, True, True]}

    run = cg.cover(Masked(), "uniform:50/pair")
    assert run.covered
    assert run.counts.visits[:, 0, 0].sum() == 0
    assert run.counts.visits[:, 0, 2].sum() >= 50


def test_a_map_that_makes_every_observation_a_state(tmp_path: Path) -> None:
    class Clock:
        actions, horizon, now = 1, 20, 0

        def reset(self) -> int:
            return self.step(0)[0]

        def step(self, action: int) -> tuple[int, float, bool]:
            del action
            Clock.now += 1
            return Clock.now, 0.0, False

    with pytest.warns(UserWarning, match="most observations are new states"):
        run = cg.cover(Clock(), "uniform:2/state", max_episodes=60, out=tmp_path / "run")
    assert "coarser map" in run.to_text()
    assert "states in" in result_of(tmp_path / "run")["warning"]
