"""The obvious explorer: where it goes by hand, and against a search of its own."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from benchmarks._adventure import ACTIONS, Adventure
from benchmarks.comparison.methods import EXPECTED, METHODS, NEAREST
from benchmarks.comparison.players import ExplorerPlayer, episodes_to_cover
from benchmarks.long_episodes import Simulator, covering_episode, explore, tabulate

from covgame.baselines.nearest_untried import EveryPair, ExpectedSteps, NearestUntried, OfTarget
from covgame.episodes import LAST
from covgame.game.counts import Counts
from covgame.mdp.model import TabularMDP
from covgame.sources.environments import make
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import cells, uniform
from covgame.types import END, Shape

BOTH = pytest.mark.parametrize("kind", [NearestUntried, ExpectedSteps])
MAZE = "maze:rows=5,columns=5,horizon=40,seed=2"


def world(name: str) -> TabularMDP:
    return make(name).require_model("a test")


def discovering(
    kind: type[NearestUntried], horizon: int, actions: int, visits: int = 1
) -> NearestUntried:
    counts = Counts(Shape(horizon, 8, actions), pooled=True, stage_free=True)
    explorer = kind(counts, EveryPair(actions, visits))
    explorer.begin(0)
    return explorer


def shown(explorer: NearestUntried, *steps: tuple[int, int, int]) -> None:
    for state, action, successor in steps:
        explorer.observe(0, state, action, successor)


# --------------------------------------------------------------------------- by hand


@BOTH
def test_an_action_that_lacks_visits_is_taken_at_once(
    kind: type[NearestUntried],
) -> None:
    explorer = discovering(kind, 10, 3, visits=2)
    shown(explorer, (0, 0, 1), (0, 2, 1), (0, 2, 1))
    assert explorer.choose(0, 0) == 1  # no visit yet
    shown(explorer, (0, 1, 1), (0, 1, 1))
    assert explorer.choose(0, 0) == 0  # one visit of two; the others have theirs


@BOTH
def test_the_nearest_state_wins(kind: type[NearestUntried]) -> None:
    """Left two steps to a state with an untried action, right three."""
    explorer = discovering(kind, 10, 2)
    shown(explorer, (0, 0, 1), (1, 0, 2), (1, 1, 0), (2, 0, 2))  # state 2 lacks action 1
    shown(explorer, (0, 1, 3), (3, 0, 0), (3, 1, 4), (4, 0, 3), (4, 1, 5))  # state 5 lacks both
    assert [explorer.choose(stage, state) for stage, state in ((0, 0), (1, 1), (2, 2))] == [0, 0, 1]
    shown(explorer, (2, 1, 2))
    explorer.begin(0)
    assert [explorer.choose(stage, state) for stage, state in ((0, 0), (1, 3), (2, 4))] == [1, 1, 1]


@BOTH
def test_what_is_out_of_reach_of_the_episode_is_no_goal(
    kind: type[NearestUntried],
) -> None:
    """With two stages left, state 2 (two steps away) is out of reach: the least tried action."""
    explorer = discovering(kind, 10, 2)
    shown(explorer, (0, 0, 1), (1, 0, 2), (1, 1, 0), (0, 1, 0), (0, 0, 1))
    assert explorer.choose(7, 0) == 0
    assert explorer.choose(8, 0) == 1


@BOTH
def test_the_end_of_an_episode_leads_nowhere(kind: type[NearestUntried]) -> None:
    explorer = discovering(kind, 10, 2)
    shown(explorer, (0, 0, END), (0, 1, 1), (1, 0, 0), (1, 1, 2))
    assert explorer.choose(0, 0) == 1


def test_an_edge_is_the_most_frequent_successor() -> None:
    explorer = discovering(NearestUntried, 10, 2)
    shown(explorer, (0, 0, 1), (0, 0, 2), (0, 0, 2), (0, 1, 1), (1, 0, 0), (1, 1, 0))
    shown(explorer, (0, 1, 1))
    assert explorer.choose(0, 0) == 0  # towards state 2, where nothing was tried
    shown(explorer, (2, 0, 0), (2, 1, 3), (0, 0, 1), (0, 0, 1))
    assert explorer.edges[0] == 1
    assert explorer._shortest_path(0, 0) == []  # on most frequent successors, 2 is cut off
    assert explorer.choose(0, 0) == 0  # on all successors, it is not


def test_a_rare_success_costs_as_many_steps_as_it_takes() -> None:
    """Action 0 leads to an untried pair once in five times; a sure detour is nearer."""
    frequencies = [(0, 0, 3), *[(0, 0, 0)] * 4]
    detour = [(0, 1, 1), (1, 0, 0), (1, 1, 2), (2, 0, 0), (2, 1, 3)]
    explorer = discovering(ExpectedSteps, 50, 2)
    shown(explorer, *frequencies, *detour)
    assert explorer.choose(0, 0) == 1
    explorer = discovering(ExpectedSteps, 50, 2)
    shown(explorer, *[(0, 0, 3), (0, 0, 0)], *detour)  # now 2 steps against 3
    assert explorer.choose(0, 0) == 0


def test_without_a_goal_the_nearest_least_visited_pair_is_tried_again() -> None:
    explorer = discovering(NearestUntried, 10, 2)
    shown(explorer, *[(0, 0, 0)] * 3, *[(0, 1, 1)] * 3, *[(1, 0, 0)] * 2, (1, 1, 1))
    assert explorer.requirements.covered
    assert [explorer.choose(0, 0), explorer.choose(1, 1)] == [1, 1]


def test_cells_are_nearest_in_stages_ahead() -> None:
    """A corridor of three states: for (2, 2, 1) one has to go at once."""
    model = world("chain:states=3,horizon=4,slip=0")
    target = cells([(2, 2, 1, 1), (1, 0, 0, 1)]).on(model.shape)
    for kind in (NearestUntried, ExpectedSteps):
        explorer = kind(Counts(model.shape, pooled=True), OfTarget(target))
        explorer.begin(0)
        for state, action in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0)):
            explorer.observe(
                3 if state else 0, state, action, max(0, min(2, state + 2 * action - 1))
            )
        assert explorer.choose(0, 0) == 0  # (1, 0, 0) is one stage ahead, (2, 2, 1) two
        explorer.observe(1, 0, 0, 0)
        assert [explorer.choose(0, 0), explorer.choose(1, 1), explorer.choose(2, 2)] == [1, 1, 1]
        explorer.observe(2, 2, 1, 2)
        assert explorer.requirements.covered


def test_a_group_of_cells_is_covered_together() -> None:
    """A row for a state at any stage and action is met by any of them."""
    model = world("chain:states=3,horizon=4,slip=0")
    requirements = OfTarget(cells([(None, 1, None, 2)]).on(model.shape))
    places = [place for place, lacks in enumerate(requirements.open) if lacks]
    assert places == [2, 3]  # both actions of state 1
    requirements.visit(2)
    assert list(requirements.open[2:4]) == [1, 1]
    requirements.visit(3)
    assert list(requirements.open[2:4]) == [0, 0]
    assert requirements.covered


# ------------------------------------------------------------------- against brute force


def distances(explorer: NearestUntried, state: int, open_pairs: set[tuple[int, int]]) -> int | None:
    """Steps to the nearest open pair, by a search on the observed transitions."""
    graph = {
        divmod(pair, explorer.actions): max(seen, key=seen.__getitem__)
        for pair, seen in enumerate(explorer.by_pair)
        if seen
    }
    queue, steps = deque([state]), {state: 0}
    while queue:
        at = queue.popleft()
        if any(pair[0] == at for pair in open_pairs):
            return steps[at]
        for action in range(explorer.actions):
            following = graph.get((at, action), END)
            if following >= 0 and following not in steps:
                steps[following] = steps[at] + 1
                queue.append(following)
    return None


@BOTH
@pytest.mark.parametrize("env", [MAZE, "digraph:nodes=20,actions=2,horizon=30,seed=1"])
def test_every_walk_is_as_short_as_a_search_finds(kind: type[NearestUntried], env: str) -> None:
    """In a deterministic world each step brings the nearest open pair one step closer."""
    model = world(env)
    simulator = Simulator(model)
    explorer = discovering(kind, model.shape.horizon, model.shape.actions)
    explorer.counts.grow(model.shape.states)
    walked = 0
    for episode in range(60):
        at = simulator.reset(episode)
        explorer.begin(at)
        explorer._meet(model.shape.states - 1)  # numbers of states are those of the model
        known = {at} | {s for seen in explorer.by_pair for s in seen if s >= 0}
        for stage in range(model.shape.horizon):
            is_open = {
                divmod(place, explorer.actions)
                for place, lacks in enumerate(explorer.requirements.open)
                if lacks
            }
            before = distances(explorer, at, {pair for pair in is_open if pair[0] in known})
            action = explorer.choose(stage, at)
            following, _, _ = simulator.step(action)
            last = stage + 1 == model.shape.horizon
            if before == 0:
                assert (at, action) in is_open
            elif before is not None and before < model.shape.horizon - stage:
                assert distances(explorer, following, is_open) == before - 1
                walked += 1
            explorer.observe(stage, at, action, LAST if last else following)
            known.add(following)
            at = following
    assert explorer.requirements.covered
    assert walked > 20


def brute_force_steps(
    explorer: ExpectedSteps, stage: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The least expected cost of each state by backward induction on dense arrays."""
    H, S, A = explorer.counts.shape.hsa
    kernel = np.zeros((S, A, S + 1))
    for pair, seen in enumerate(explorer.by_pair):
        for successor, number in seen.items():
            kernel[pair // A, pair % A, successor] += number / sum(seen.values())
    goals = np.zeros(S * A, dtype=bool)
    goals[: len(explorer.requirements.open)] = np.frombuffer(explorer.requirements.open, bool)
    values = np.full(S + 1, explorer.restart)
    for _ in range(stage, H):
        q = 1.0 + kernel @ values
        q[kernel.sum(axis=2) == 0] = 1.0 + explorer.restart
        q[goals.reshape(S, A)] = 0.0
        values = np.append(q.min(axis=1), explorer.restart)
    return values[:-1]


@pytest.mark.parametrize("stage", [0, 20, 33, 39])
def test_expected_steps_are_those_of_dense_arrays(stage: int) -> None:
    model = world("maze:rows=4,columns=4,horizon=40,slip=0.3,seed=1")
    target = uniform(4, "pair").resolve(model.transitions)
    counts = Counts(model.shape, pooled=True)
    explorer = ExpectedSteps(counts, OfTarget(target))
    player = ExplorerPlayer(explorer, SimulatedSource(model, 0))
    restarts = []
    for _ in range(8):
        player.play(1)
        explorer.begin(0)
        restarts.append(explorer.restart)
        _, (steps, missed) = explorer._plan(stage, 0)
        expected = brute_force_steps(explorer, stage)
        np.testing.assert_allclose(steps[:-1] + missed[:-1] * explorer.restart, expected, atol=1e-6)
    assert restarts[0] == 0  # an action of the first state lacks visits
    assert 1 < max(restarts) < 40


# ----------------------------------------------------------------------- whole worlds


@BOTH
def test_it_covers_worlds_whose_states_it_does_not_know(kind: type[NearestUntried]) -> None:
    model = world(MAZE)
    for visits in (1, 3):
        measured = explore(kind, model, 100, visits, 0, 200)
        assert measured.covered_after == measured.played
        assert 100 * visits / 40 <= measured.played <= 8 * visits


@BOTH
def test_more_states_than_there_was_room_for(kind: type[NearestUntried]) -> None:
    """New states may come as the first of an episode, too."""
    explorer = discovering(kind, 5, 2)
    shown(explorer, (0, 0, 9))
    explorer.begin(40)
    assert explorer.choose(0, 40) == 0
    explorer.observe(0, 40, 0, 41)
    assert explorer.counts.shape.states > 41
    assert explorer.requirements.n_open == 2 * 42 - 2


def test_on_a_deterministic_world_few_steps_are_wasted() -> None:
    model = world("digraph:nodes=40,actions=3,horizon=60,seed=2")
    target = uniform(1, "pair").resolve(model.transitions)
    taus = [
        episodes_to_cover(METHODS[name].start(model, target, 0), [target], [100])[0]
        for name in (NEAREST, EXPECTED)
    ]
    assert taus == [5, 4]  # 120 pairs take 2 episodes at least; they differ by ties


def test_the_far_bank_of_a_river_is_reached() -> None:
    """Where a swim mostly fails, no path is known at first; it must not give up."""
    model = world("riverswim:states=8,horizon=40")
    target = uniform(1, "pair").resolve(model.transitions)
    for name in (NEAREST, EXPECTED):
        player = METHODS[name].start(model, target, 1)
        assert episodes_to_cover(player, [target], [40])[0] is not None


# -------------------------------------------------------------- the benchmark's own parts


def test_the_covering_episode_is_the_one_that_completes_the_last_pair() -> None:
    episodes = [([0, 1], [0, 0]), ([0, 0], [1, 1]), ([1], [1]), ([0], [0])]
    measured = covering_episode(episodes, 4, 1)
    assert (measured.covered_after, measured.played) == (3, 4)
    assert covering_episode(episodes, 4, 2).covered_after is None


def test_the_adventure_can_be_won_and_its_table_is_right() -> None:
    model = tabulate(Adventure())
    assert 100 < model.shape.states < 2000
    env = Adventure()
    env.reset()
    lamp_and_key = "north east take west south south east take west north"
    sword_and_coin = "west take east south south use east use south take north west north north"
    won = f"{lamp_and_key} {sword_and_coin}".split()
    done = [env.step(action)[2] for action in won]
    assert done == [False] * (len(won) - 1) + [True]
    kernel = model.transitions.stages[0]
    state = 0
    for action in won:
        state = int(kernel.next_state[kernel.start[state * len(ACTIONS) + ACTIONS.index(action)]])
    assert state == END
