"""The peers: one conformance suite for all, and what each of them claims by itself."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from benchmarks._worst_case import worst_reward
from benchmarks.comparison.methods import FLOW, METHODS, OURS, method_named
from benchmarks.comparison.players import (
    GoalsPlayer,
    PeerPlayer,
    Player,
    RoundsPlayer,
    episodes_to_cover,
)

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.ent_game import EntGame
from covgame.baselines.gosprl import NearestGoal, gosprl
from covgame.baselines.learn2explore import budget, games
from covgame.baselines.max_entropy import MaxEntropy
from covgame.baselines.pedel import Pedel
from covgame.baselines.peer import ANY, FOREVER, Peer
from covgame.baselines.rf_express import RFExpress
from covgame.baselines.rf_rl_explore import RFRLExplore, learning_episodes
from covgame.baselines.rf_ucrl import AUTHORS, RFUCRL, RULES, StoppingRule
from covgame.baselines.ucbvi import BPIUCBVI, UCBVI
from covgame.baselines.uniform_random import UniformRandom
from covgame.episodes import LAST, Episode
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.sources.counted import SortedSuccessors, draw_visits
from covgame.sources.environments import make
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import uniform
from covgame.targets.target import Target
from covgame.types import END, IntArray, Policy, Shape
from tests.reference.peers import play_goals, play_rollout

WITHOUT_TARGET = [name for name, method in METHODS.items() if not method.uses_target]
WITH_TARGET = [name for name, method in METHODS.items() if method.uses_target]
BLIND = (FLOW, "UCBVI", "BPI-UCBVI, paper")  # do not look at the target, or at what they are for
BY_PAIR = ("EntGame, authors' code", "RF-UCRL, authors' code", "RF-Express, paper, by pair")
PEER_FORMS: dict[str, Peer] = {
    "uniform random": UniformRandom(),
    "RF-UCRL": RFUCRL(),
    "RF-UCRL, falling": RFUCRL(falling=True, scale=0.3, per_pair=True),
    "RF-UCRL, paper": RFUCRL(0.1),
    "RF-UCRL, authors' code": RFUCRL(0.1, per_pair=True, clips=False),
    "RF-UCRL, paper, H-h": RFUCRL(0.1, rule=RULES["H-h, 2 beta"]),
    "RF-Express": RFExpress(),
    "RF-Express, pairs": RFExpress(per_pair=True, scale=0.03),
    "RF-Express, pairs, replans": RFExpress(per_pair=True, replans=True),
    "RF-Express, paper": RFExpress(0.1),
    "EntGame": EntGame(),
    "EntGame, replans": EntGame(replans=True),
    "EntGame, pairs, replans": EntGame(per_pair=True, b=0.0, replans=True),
    "EntGame, pairs, no bonus": EntGame(per_pair=True, b=0.0),
    "EntGame, paper": EntGame(0.1),
    "EntGame, paper, pairs": EntGame(0.1, per_pair=True),
    "MaxEnt": MaxEntropy(),
    "MaxEnt, pairs": MaxEntropy(smoothing=0.1, per_pair=True),
    "MaxEnt, pairs, replans": MaxEntropy(per_pair=True, replans=True),
    "MaxEnt, 7 a policy": MaxEntropy(7),
    "UCBVI": UCBVI(),
    "UCBVI, pairs": UCBVI(per_pair=True, b=0.3),
    "UCBVI, replans": UCBVI(replans=True),
    "UCBVI, paper": UCBVI(0.1),
}


def world(name: str) -> TabularMDP:
    return make(name).require_model("a test")


def cells(model: TabularMDP, count: float) -> Target:
    return uniform(count).resolve(model.transitions)


GARNET = "garnet:states=5,actions=3,horizon=4,branching=2"
ENDING = "grid:rows=3,columns=3,horizon=6,ends=true"
STATIONARY = "garnet:states=5,actions=2,horizon=5,branching=2,stationary=true"


# ------------------------------------------------------------------------ conformance


def recounted(player: Player, episodes: int) -> IntArray:
    """The visits of what a player says it has played."""
    visits = np.zeros(player.counts.shape.hsa, dtype=np.int64)
    first = player.counts.n_episodes
    assert first == 0
    while player.counts.n_episodes < episodes and not player.finished:
        before = player.counts.n_episodes
        block = player.play(episodes - before)
        assert 1 <= len(block) <= episodes - before
        assert block.first_episode == before
        assert player.counts.n_episodes == before + len(block)
        stage = np.concatenate([np.arange(length) for length in block.lengths.tolist()])
        np.add.at(visits, (stage, block.state, block.action), 1)
    return visits


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("env", [GARNET, ENDING])
def test_a_player_counts_what_it_plays(name: str, env: str) -> None:
    model = world(env)
    player = METHODS[name].start(model, cells(model, 2), 3)
    visits = recounted(player, 40)
    np.testing.assert_array_equal(visits, player.counts.visits)
    assert player.counts.starts.sum() == player.counts.n_episodes


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_the_same_episodes(name: str) -> None:
    model = world(GARNET)

    def visits(seed: int) -> IntArray:
        return recounted(METHODS[name].start(model, cells(model, 20), seed), 30)

    np.testing.assert_array_equal(visits(1), visits(1))
    assert (visits(1) != visits(2)).any()


@pytest.mark.parametrize("name", [name for name in WITH_TARGET if name not in BLIND])
def test_who_uses_the_target_ends_when_it_is_covered(name: str) -> None:
    model = world(STATIONARY)
    target = cells(model, 2)
    player = METHODS[name].start(model, target, 0)
    (tau,) = episodes_to_cover(player, [target], [20_000])
    assert player.finished
    assert tau == player.counts.n_episodes
    assert (target.collected(player.counts.visits) >= target.counts).all()


@pytest.mark.parametrize("name", WITHOUT_TARGET)
def test_who_does_not_use_the_target_never_ends_and_explores(name: str) -> None:
    model = world(STATIONARY)
    target = uniform(1, "pair" if name in BY_PAIR else "cell").resolve(model.transitions)
    player = METHODS[name].start(model, target, 0)
    (tau,) = episodes_to_cover(player, [target], [5_000])
    assert not player.finished
    if name not in BLIND:  # UCBVI wants rewards, not coverage
        assert tau is not None


@pytest.mark.parametrize(
    "name", [name for name in METHODS if "Learn2Explore" not in name and "UCBVI" not in name]
)
def test_targets_over_pairs_are_covered_too(name: str) -> None:
    model = world(STATIONARY)
    target = uniform(3, "pair").resolve(model.transitions)
    player = METHODS[name].start(model, target, 0)
    (tau,) = episodes_to_cover(player, [target], [5_000])
    assert tau is not None


def test_learn2explore_says_that_it_needs_stages() -> None:
    model = world(STATIONARY)
    with pytest.raises(BadInput, match="stage by stage"):
        list(games(uniform(3, "pair").resolve(model.transitions), pooled=True))


def test_an_unknown_method_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="GOSPRL"):
        method_named("gosprl")


# ------------------------------------------------------- compiled peers are the readable ones


@pytest.mark.parametrize("name", PEER_FORMS)
@pytest.mark.parametrize(
    ("env", "pooled", "borrowing"),
    [(GARNET, False, False), (GARNET, False, True), (ENDING, True, False), (ENDING, False, True),
     (STATIONARY, True, False)],
)  # fmt: skip
def test_compiled_peers_play_the_episodes_of_the_readable_ones(
    name: str, env: str, pooled: bool, borrowing: bool
) -> None:
    model, peer = world(env), PEER_FORMS[name]
    source = SimulatedSource(model, 4)
    compiled = PeerPlayer(peer, Counts(model.shape, pooled=pooled, borrowing=borrowing), source)
    while compiled.counts.n_episodes < 60:
        compiled.play(60 - compiled.counts.n_episodes)
    readable = Counts(model.shape, pooled=pooled, borrowing=borrowing)
    while readable.n_episodes < 60:
        rollout = peer.ask(readable)
        for _ in range(min(rollout.episodes, 60 - readable.n_episodes)):
            play_rollout(rollout, readable, source)
    np.testing.assert_array_equal(readable.visits, compiled.counts.visits)
    np.testing.assert_array_equal(readable.reward_sums, compiled.counts.reward_sums)


@pytest.mark.parametrize(("delta", "b"), [(None, 0.0), (None, 0.03), (None, 0.3), (0.1, 0.0)])
@pytest.mark.parametrize("env", [GARNET, ENDING, STATIONARY])
@pytest.mark.parametrize("unit", ["cell", "pair"])
def test_compiled_shortest_paths_are_the_readable_ones(
    env: str, delta: float | None, b: float, unit: Literal["cell", "pair"]
) -> None:
    model = world(env)
    target = uniform(3, unit).resolve(model.transitions)
    pooled = model.transitions.stationary
    source = SimulatedSource(model, 2)
    for replans in (False, True):
        game = gosprl(target, pooled=pooled, delta=delta, b=b, compiled=False)
        while not game.covered and game.counts.n_episodes < 40:
            play_goals(game, source, replans=replans)
        fast = GoalsPlayer(
            gosprl(target, pooled=pooled, delta=delta, b=b),
            NearestGoal(delta, b),
            source,
            replans=replans,
        )
        np.testing.assert_array_equal(game.counts.visits, recounted(fast, 40))
        np.testing.assert_array_equal(game.counts.visits, fast.counts.visits)


def test_compiled_plans_of_shortest_paths_are_the_readable_ones() -> None:
    model = world(GARNET)
    visits = []
    for compiled in (False, True):
        game = gosprl(cells(model, 3), pooled=False, compiled=compiled)
        player = RoundsPlayer(game, SimulatedSource(model, 2))
        for _ in range(40):
            player.play(1)
        visits.append(player.counts.visits)
    np.testing.assert_array_equal(visits[0], visits[1])


def test_compiled_mixtures_are_the_readable_ones() -> None:
    model = world(GARNET)
    source = SimulatedSource(model, 4)
    compiled = PeerPlayer(
        RFRLExplore(2, 9, replans=True), Counts(model.shape, pooled=False), source
    )
    visits = recounted(compiled, 90)
    peer, readable = RFRLExplore(2, 9, replans=True), Counts(model.shape, pooled=False)
    while readable.n_episodes < 90:
        rollout = peer.ask(readable)
        for _ in range(min(rollout.episodes, 90 - readable.n_episodes)):
            play_rollout(rollout, readable, source)
    np.testing.assert_array_equal(readable.visits, visits)


def test_the_list_of_worths_grows_without_changing() -> None:
    curiosity = RFExpress(0.1).curiosity(world(GARNET).shape)
    before = curiosity.listed(10).copy()
    after = curiosity.listed(200_000)
    assert after.shape[1] > 200_000
    np.testing.assert_array_equal(after[:, : before.shape[1]], before)


# ------------------------------------------------------------------- what each one claims


def simulated(model: TabularMDP, episodes: int, seed: int = 0) -> Counts:
    counts = Counts(model.shape, pooled=False)
    rng = np.random.default_rng(seed)
    counts.add_visits(
        draw_visits(SortedSuccessors(model), Policy.uniform(model.shape), episodes, rng)
    )
    return counts


@pytest.mark.parametrize(
    "peer",
    [*(RFUCRL(0.1, rule=rule) for rule in RULES.values()), RFExpress(0.1)],
    ids=[*RULES, "RF-Express"],
)
def test_the_promised_error_holds_for_every_reward(peer: RFUCRL | RFExpress) -> None:
    model = world("garnet:states=2,actions=2,horizon=2,branching=2")
    promised = []
    for episodes in (10**3, 10**6, 10**9):
        counts = simulated(model, episodes)
        promised.append(peer.error(counts))
        assert worst_reward(model.transitions, counts.kernel()).loss <= promised[-1]
    assert promised == sorted(promised, reverse=True)
    assert promised[-1] < 0.2


@pytest.mark.parametrize(
    ("rule", "ranges", "factor"),
    [
        (AUTHORS, (2.0, 1.0), 1.0),
        (RULES["H-h+1, 2 beta"], (2.0, 1.0), 2.0),
        (RULES["H-h, 2 beta"], (1.0, 0.0), 2.0),
        (RULES["sharpened by us"], (1.0, 0.0), 0.5),
    ],
)
def test_rf_ucrl_by_hand(rule: StoppingRule, ranges: tuple[float, float], factor: float) -> None:
    """Two stages: E_2 = min(R_2, R_2 sqrt(factor beta/n)), and E_1 the same on top of its mean."""
    model = world("chain:states=2,horizon=2")
    counts = simulated(model, 10**6)
    n = np.maximum(counts.visits.astype(float), 1e-9)
    root = np.sqrt(factor * (math.log(2 * 8 / 0.1) + np.log(math.e * (1 + n))) / n)
    last = np.minimum(ranges[1], ranges[1] * root[1]).max(axis=1)
    kernel = counts.kernel()
    mean = kernel.stages[0].expect(last).reshape(2, 2)
    first = np.minimum(ranges[0], ranges[0] * root[0] + mean).max(axis=1)
    expected = 2 * float(kernel.initial @ first)
    assert RFUCRL(0.1, rule=rule).error(counts) == pytest.approx(expected)


def test_bpi_ucbvi_promises_no_less_than_it_loses() -> None:
    model = world("garnet:states=3,actions=2,horizon=3")
    best = dp.backward_induction(model.transitions, model.rewards).values
    for seed in range(5):
        policy, gap = BPIUCBVI(0.1).gap(simulated(model, 10**8, seed))
        mine = dp.evaluate(model.transitions, policy, model.rewards)
        assert float(model.initial @ (best[0] - mine[0])) <= gap < 0.3


def test_pedel_ends_with_the_best_policy() -> None:
    model = world("garnet:states=2,actions=2,horizon=2,branching=2")
    pedel, counts, successors = (
        Pedel(0.5, 0.1),
        Counts(model.shape, pooled=False),
        SortedSuccessors(model),
    )
    rng = np.random.default_rng(0)
    while not pedel.done:
        rollout = pedel.ask(counts)
        counts.add_visits(draw_visits(successors, rollout.policy(counts), rollout.episodes, rng))
    best = dp.backward_induction(model.transitions, model.rewards).values
    mine = dp.evaluate(model.transitions, pedel.policy(counts), model.rewards)
    assert float(model.initial @ (best[0] - mine[0])) <= 0.5


def test_the_nearest_goal_is_the_nearest() -> None:
    """On a known deterministic corridor with goals to both sides, the closer one is chosen."""
    model = world("doublechain:length=7,horizon=7,slip=0")
    counts = simulated(model, 50_000)
    reward = np.zeros(model.shape.hsa)
    reward[3, 6, 1] = reward[5, 0, 0] = 1.0
    policy = NearestGoal().plan(counts, reward)
    cell, state = [], 3
    for h in range(7):
        cell.append((h, state, int(policy.table[h, state])))
        state = min(6, max(0, state + (1 if cell[-1][2] else -1)))
    assert (3, 6, 1) in cell
    nearer = np.zeros(model.shape.hsa)
    nearer[1, 2, 0] = reward[3, 6, 1] = 1.0
    assert NearestGoal().plan(counts, reward + nearer).table[0, 3] == 0


def test_what_ends_an_episode_is_a_miss() -> None:
    """A detour that surely leads to the goal is preferred to a short cut that mostly ends."""
    counts = Counts(Shape(3, 3, 2), pooled=False)
    short_cut = [(0, 0, 0.0, 2), (2, 0, 0.0, 2), (2, 0, 0.0, LAST)]
    detour = [(0, 1, 0.0, 1), (1, 0, 0.0, 2), (2, 0, 0.0, LAST)]
    for steps, times in (([(0, 0, 0.0, END)], 9), (short_cut, 1), (detour, 10)):
        for _ in range(times):
            counts.add(Episode.of_steps(steps))
    goals = np.zeros((3, 3, 2))
    goals[1, 2] = goals[2, 2] = 1.0
    assert NearestGoal().plan(counts, goals).table[0, 0] == 1
    counts = Counts(Shape(3, 3, 2), pooled=False)
    for steps in (short_cut, detour):
        counts.add(Episode.of_steps(steps))
    assert NearestGoal().plan(counts, goals).table[0, 0] == 0


def test_learn2explore_pays_for_every_stage() -> None:
    model = world("chain:states=4,horizon=6,slip=0")
    target = cells(model, 4)
    taus = {}
    for name in (OURS, "Learn2Explore (MOCA)"):
        player = METHODS[name].start(model, target, 0)
        taus[name] = episodes_to_cover(player, [target], [10_000])[0] or 10_000
    assert taus["Learn2Explore (MOCA)"] >= taus[OURS]


def test_budgets_of_the_papers_are_out_of_reach() -> None:
    shape = world("riverswim:states=8,horizon=20").shape
    assert learning_episodes(shape, 2.0, 0.1) > 1e9
    assert budget(shape, 3, 0.1, 2.0) > budget(shape, 2, 0.1, 2.0) > 1e10


def test_rf_rl_explore_learns_first_and_then_goes_through_what_it_learnt() -> None:
    model = world("garnet:states=2,actions=2,horizon=2,branching=2")
    peer, counts = RFRLExplore(episodes_each=3), Counts(model.shape, pooled=False)
    source = SimulatedSource(model, 0)
    lengths, drawn = [], []
    for _ in range(5):
        rollout = peer.ask(counts)
        lengths.append(rollout.episodes)
        for _ in range(min(rollout.episodes, 40)):
            drawn.append(rollout.policy(counts))
            counts.add(source.play(drawn[-1], counts.n_episodes))
    assert lengths == [3] * 4 + [FOREVER]
    assert all((table == ANY).sum() == 1 for table in peer.learnt)
    anywhere = {tuple(np.argwhere(policy.table[..., 0] == 0.5)[0]) for policy in drawn[12:]}
    assert anywhere == {(h, s) for h in range(2) for s in range(2)}


def test_a_curiosity_clips_and_adds_up() -> None:
    counts = simulated(world("chain:states=2,horizon=3"), 1000)
    flat = Curiosity(np.array([9.0, 9.0, 9.0]), lambda n: np.full(len(n), 1.0))
    assert flat.plan(counts)[1] == pytest.approx(3.0)
    clipped = Curiosity(np.array([2.0, 2.0, 2.0]), lambda n: np.full(len(n), 1.0))
    assert clipped.plan(counts)[1] == pytest.approx(2.0)
    steep = Curiosity(np.array([9.0] * 3), lambda n: np.full(len(n), 1.0), slope=2.0)
    assert steep.plan(counts)[1] == pytest.approx(1 + 2 * (1 + 2 * 1))


def test_per_pair_a_visit_counts_for_every_stage() -> None:
    """What was tried at other stages is new by cell, and is not by pair."""
    counts = Counts(Shape(2, 1, 3), pooled=True)
    for first, last in ((0, 1), (0, 1), (1, 0), (2, 0), (2, 2), (2, 2)):
        counts.add(Episode.of_steps([(0, first, 0.0, 0), (0, last, 0.0, LAST)]))
    for per_pair, action in ((False, 0), (True, 1)):
        policy = RFExpress(per_pair=per_pair).curiosity(counts.shape).policy(counts)
        assert policy.table[1, 0] == action


def test_who_replans_does_not_try_the_same_twice_in_an_episode() -> None:
    """A state that every action leaves where it is: each step is another action."""
    shape = Shape(4, 1, 4)
    stays = Transitions.from_entries(
        shape, np.ones(1), np.arange(4), np.zeros(4, dtype=np.int64), np.ones(4), stationary=True
    )
    source = SimulatedSource(TabularMDP(stays, np.zeros((1, 1, 4))), 0)
    tried = {}
    for replans in (False, True):
        peer, counts = RFExpress(per_pair=True, replans=replans), Counts(shape, pooled=True)
        play_rollout(peer.ask(counts), counts, source)
        tried[replans] = int((counts.visits.sum(axis=0) > 0).sum())
    assert tried == {False: 1, True: 4}


def test_entropy_per_pair_counts_steps() -> None:
    counts = simulated(world("chain:states=2,horizon=3"), 1000)
    by_cell, by_pair = (
        EntGame(per_pair=per_pair).curiosity(counts.shape).constant(counts)[0]
        for per_pair in (False, True)
    )
    assert by_cell == pytest.approx(math.log(1000 + 4))
    assert by_pair == pytest.approx(math.log(3000 + 4))


def test_the_authors_ent_game_by_hand() -> None:
    """One stage: the bonus is (H-h+1) log(t + SA) sqrt(beta/max(1, n)), and nothing is clipped."""
    counts = Counts(Shape(1, 1, 2), pooled=True)
    counts.add(Episode.of_steps([(0, 0, 0.0, LAST)]))
    bound = math.log(1 + 2)
    best = bound + bound * math.sqrt(math.log(4 * 2 / 0.1))  # action 1: log(1/d), n = 0
    policy, value = EntGame(0.1, per_pair=True).curiosity(counts.shape).plan(counts)
    assert policy.table[0, 0] == 1
    assert value == pytest.approx(best)


def test_optimism_brings_gosprl_back_to_what_failed_once() -> None:
    """A try that led nowhere leaves, with b, a path to the goal."""
    counts = Counts(Shape(2, 2, 2), pooled=False)
    counts.add(Episode.of_steps([(0, 1, 0.0, 0), (0, 0, 0.0, LAST)]))
    for _ in range(20):
        counts.add(Episode.of_steps([(0, 0, 0.0, 0), (0, 0, 0.0, LAST)]))
    goals = np.zeros((2, 2, 2))
    goals[1, 1] = 1.0
    assert NearestGoal(b=0.0)._plan_once(counts, goals.reshape(2, -1) > 0, 5.0)[2][0] == 1.0
    assert NearestGoal(b=0.3)._plan_once(counts, goals.reshape(2, -1) > 0, 5.0)[0][0, 0] == 1


def test_gosprl_learns_from_other_stages() -> None:
    """Action 1 led to the goal's state at stage 1; with borrowing it may do so at stage 0, too."""
    missed, chosen = {}, {}
    for borrowing in (False, True):
        counts = Counts(Shape(3, 2, 2), pooled=False, borrowing=borrowing)
        counts.add(Episode.of_steps([(0, 0, 0.0, 0), (0, 0, 0.0, 0), (0, 0, 0.0, LAST)]))
        counts.add(Episode.of_steps([(0, 1, 0.0, 0), (0, 1, 0.0, 1), (1, 0, 0.0, LAST)]))
        goals = np.zeros((3, 2, 2), dtype=np.bool_)
        goals[1, 1] = True
        plan = NearestGoal()._plan_once(counts, goals.reshape(3, -1), 5.0)
        chosen[borrowing], missed[borrowing] = int(plan[0][0, 0]), float(plan[2][0])
    assert missed[False] == 1.0
    assert missed[True] < 1.0
    assert chosen[True] == 1
