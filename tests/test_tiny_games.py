"""Compiled = readable on tiny worlds, number for number: quick enough to run without the compiler.

``test_game.py`` and others compare episodes on larger worlds. Here all that is remembered is
compared, and the values behind a plan, at scales at which no bonus is cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
from benchmarks.comparison.players import GoalsPlayer, PeerPlayer
from hypothesis import given, settings
from hypothesis import strategies as st

from covgame.baselines.ent_game import EntGame
from covgame.baselines.gosprl import NearestGoal, gosprl
from covgame.baselines.max_entropy import MaxEntropy
from covgame.baselines.peer import Peer
from covgame.baselines.rf_express import RFExpress
from covgame.baselines.rf_rl_explore import RFRLExplore
from covgame.baselines.rf_ucrl import RFUCRL
from covgame.baselines.ucbvi import UCBVI
from covgame.baselines.uniform_random import UniformRandom
from covgame.engine.compiled import CompiledGame
from covgame.engine.engines import CompiledSimulation, CountsEngine, SimulatedEngine
from covgame.game.adversary import MissingOnly, TargetAware, WeightedMajority
from covgame.game.counts import Counts
from covgame.game.game import Game, rounds
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.game.presets import paper_game
from covgame.kernels.layout import HEAVY
from covgame.mdp.model import TabularMDP
from covgame.sources.counted import SortedSuccessors, draw_visits
from covgame.sources.simulated import SimulatedSource
from covgame.storage.state import game_arrays
from covgame.targets.target import Target
from covgame.types import FloatArray, Shape
from tests.reference.by_counts import rounds_by_counts
from tests.reference.peers import play_goals, play_rollout
from tests.worlds import random_counts, random_groups, random_policy, random_world, worlds

seeds = st.integers(0, 2**31)
tiny = worlds(max_horizon=4, max_states=4)


def range_aware(
    adversary: TargetAware | WeightedMajority | MissingOnly, rule: str, b: float = 0.03
) -> Callable[[Target], Game]:
    return lambda target: Game(
        target,
        OptimisticPlanner(RangeAwareOptimism(b)),
        adversary,
        Counts(target.shape, pooled=rule == "pooled", borrowing=rule == "borrowing"),
    )


GAMES: dict[str, Callable[[Target], Game]] = {
    "pooled": range_aware(TargetAware(), "pooled"),
    "apart": range_aware(TargetAware(), "apart"),
    "borrowing": range_aware(TargetAware(), "borrowing"),
    "a large bonus": range_aware(TargetAware(), "borrowing", 0.5),
    "majority": range_aware(WeightedMajority(), "apart"),
    "missing only": range_aware(MissingOnly(), "pooled"),
    "missing only, apart": range_aware(MissingOnly(), "apart", 0.2),
    "paper": lambda target: paper_game(target, delta=0.1),
    "paper, smaller": lambda target: paper_game(target, delta=0.1, scale=1e-3),
    "paper, smallest": lambda target: paper_game(target, delta=0.1, scale=1e-5),
}


def some_target(world: TabularMDP, seed: int, *, groups: bool) -> Target:
    rng = np.random.default_rng(seed)
    if groups:
        return random_groups(rng, world)
    return Target.of_cells(np.minimum(random_counts(rng, world), 12.0))


def assert_same_game(one: Game, other: Game) -> None:
    np.testing.assert_array_equal(one.collected, other.collected)
    mine, theirs = game_arrays(one), game_arrays(other)
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)


def planned_values(game: Game) -> FloatArray:
    """The recursion of ``OptimisticPlanner``, its values kept."""
    counts, reward = game.counts, game.cell_rewards(game.state.weights)
    optimism = game.planner.optimism  # type: ignore[attr-defined]
    H, S, A = counts.shape.hsa
    values, remaining = np.zeros((H + 1, S)), 0.0
    for h in reversed(range(H)):
        q = reward[h]
        if h + 1 < H:
            mean, square, observed = counts.estimate(h, values[h + 1])
            best = np.repeat(counts.best_after(h, values[h + 1]), A)
            best[counts.successors(h) != 1] = 0.0
            variance = np.maximum(square - mean * mean, 0.0)
            about = (reward[h].ravel(), mean, variance, observed, best, remaining)
            q = optimism.upper_q(*about, H - 1 - h)
        values[h] = q.reshape(S, A).max(axis=1)
        remaining += float(reward[h].max())
    return values[:-1]


@pytest.mark.parametrize("kind", GAMES)
@settings(max_examples=20)
@given(world=tiny, seed=seeds, groups=st.booleans())
def test_asked_and_told(kind: str, world: TabularMDP, seed: int, groups: bool) -> None:
    """The same policies everywhere, the same values, and the same memory after every episode."""
    target = some_target(world, seed, groups=groups)
    if not len(target):
        return
    readable, behind = GAMES[kind](target), GAMES[kind](target)
    compiled = CompiledGame(behind, incremental=False)
    source = SimulatedSource(world, seed)
    for number in range(12):
        if readable.covered:
            break
        policy = readable.ask()
        np.testing.assert_array_equal(compiled.ask().begin(0).table, policy.table)
        np.testing.assert_array_equal(compiled.workspace.values[:, :-1], planned_values(readable))
        readable.tell(source.play(policy, number, readable.revise))
        compiled.tell(source.play(policy, number, compiled.revise))
        assert_same_game(readable, behind)
    assert readable.covered == behind.covered


@pytest.mark.parametrize("kind", GAMES)
@settings(max_examples=12)
@given(world=tiny, seed=seeds, groups=st.booleans(), size=st.sampled_from([1, 7, 30]))
def test_blocks(kind: str, world: TabularMDP, seed: int, groups: bool, size: int) -> None:
    """Thirty episodes in blocks: the same memory, and what was written down is what happened."""
    target = some_target(world, seed, groups=groups)
    if not len(target):
        return
    readable, compiled = GAMES[kind](target), GAMES[kind](target)
    source = SimulatedSource(world, seed)
    player = SimulatedEngine(compiled, source, most=size, record=True)
    while not compiled.covered and compiled.counts.n_episodes < 30:
        block = player.play(size)
        first = 0
        for length in block.lengths.tolist():
            episode = next(rounds(readable, source)).episode
            for name in ("state", "action", "reward", "next_state"):
                written = getattr(block, name)[first : first + length]
                np.testing.assert_array_equal(written, getattr(episode, name))
            first += length
        assert_same_game(readable, compiled)
    assert readable.covered == compiled.covered


@pytest.mark.parametrize("kind", GAMES)
@settings(max_examples=3)
@given(world=tiny, seed=seeds, groups=st.booleans())
def test_rounds_by_counts(kind: str, world: TabularMDP, seed: int, groups: bool) -> None:
    target = some_target(world, seed, groups=groups)
    if not len(target):
        return
    target = Target(target.shape, target.rows, 2000 * target.counts)
    readable, compiled = GAMES[kind](target), GAMES[kind](target)
    rng = np.random.default_rng(seed)  # after 5,000 episodes a round is a batch of policies
    known = draw_visits(SortedSuccessors(world), random_policy(rng, world.shape), 5000, rng)
    for game in (readable, compiled):
        game.tell_visits(known)
    player, played = CountsEngine(compiled, world, 3), rounds_by_counts(readable, world, 3)
    player.play(10**9)  # as many rounds as one call plays
    while readable.counts.n_episodes < compiled.counts.n_episodes:
        next(played)
    assert_same_game(readable, compiled)
    for budget in (1, 7, 60):
        if not compiled.covered:
            before = compiled.counts.n_episodes
            player.play(budget)
            assert 0 < compiled.counts.n_episodes - before <= budget


WORLDS = {
    "apart": random_world(np.random.default_rng(1), Shape(3, 4, 3), ending=0.2),
    "stationary": random_world(
        np.random.default_rng(2), Shape(4, 3, 2), stationary=True, spread_start=True
    ),
}
PEERS: dict[str, Peer] = {
    "uniform random": UniformRandom(),
    "RF-UCRL": RFUCRL(),
    "RF-UCRL, falling": RFUCRL(falling=True, scale=0.3, per_pair=True),
    "RF-UCRL, no clips": RFUCRL(0.1, per_pair=True, clips=False),
    "RF-Express": RFExpress(),
    "RF-Express, replans": RFExpress(per_pair=True, replans=True),
    "EntGame": EntGame(),
    "EntGame, paper": EntGame(0.1),
    "EntGame, pairs": EntGame(per_pair=True, b=0.0, replans=True),
    "MaxEnt": MaxEntropy(smoothing=0.1, per_pair=True),
    "MaxEnt, 3 a policy": MaxEntropy(3),
    "RF-RL-Explore": RFRLExplore(2, 3, replans=True),
    "UCBVI": UCBVI(),
    "UCBVI, pairs": UCBVI(per_pair=True, b=0.3),
    "UCBVI, paper": UCBVI(0.1),
}


@pytest.mark.parametrize("rule", ["pooled", "apart", "borrowing"])
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("where", WORLDS)
def test_peers(name: str, where: str, rule: str) -> None:
    model, peer = WORLDS[where], deepcopy(PEERS[name])
    pooled, borrowing = rule == "pooled", rule == "borrowing"
    source = SimulatedSource(model, 4)
    compiled = PeerPlayer(
        deepcopy(peer), Counts(model.shape, pooled=pooled, borrowing=borrowing), source
    )
    while compiled.counts.n_episodes < 20:
        compiled.play(20 - compiled.counts.n_episodes)
    readable = Counts(model.shape, pooled=pooled, borrowing=borrowing)
    while readable.n_episodes < 20:
        rollout = peer.ask(readable)
        for _ in range(min(rollout.episodes, 20 - readable.n_episodes)):
            play_rollout(rollout, readable, source)
    np.testing.assert_array_equal(readable.visits, compiled.counts.visits)
    np.testing.assert_array_equal(readable.reward_sums, compiled.counts.reward_sums)


@pytest.mark.parametrize(("delta", "b"), [(None, 0.0), (None, 0.3), (0.1, 0.0)])
@pytest.mark.parametrize("replans", [False, True])
@pytest.mark.parametrize("where", WORLDS)
def test_shortest_paths(where: str, replans: bool, delta: float | None, b: float) -> None:
    model = WORLDS[where]
    pooled = model.transitions.stationary
    for groups in (False, True):
        target = some_target(model, 5, groups=groups)
        source = SimulatedSource(model, 2)
        readable = gosprl(target, pooled=pooled, delta=delta, b=b, compiled=False)
        behind = gosprl(target, pooled=pooled, delta=delta, b=b)
        fast = GoalsPlayer(behind, NearestGoal(delta, b), source, replans=replans)
        while not readable.covered and readable.counts.n_episodes < 20:
            play_goals(readable, source, replans=replans)
            fast.play(1)
            np.testing.assert_array_equal(readable.counts.visits, fast.counts.visits)


@pytest.mark.parametrize("kind", ["pooled", "apart", "borrowing", "missing only"])
@settings(max_examples=12)
@given(world=worlds(max_horizon=5, max_states=6), seed=seeds)
def test_kept_plans(kind: str, world: TabularMDP, seed: int) -> None:
    """A plan that is kept, and renewed where it is due, leads to the same episodes."""
    target = some_target(world, seed, groups=False)
    if not len(target):
        return
    kept, fresh = GAMES[kind](target), GAMES[kind](target)
    source = SimulatedSource(world, seed)
    player, scratch = (
        CompiledSimulation(game, source, 2, record=False, incremental=flag)
        for game, flag in ((kept, True), (fresh, False))
    )
    for _ in range(25):
        player.plan_cache.tally[HEAVY] = 0  # or all would be planned anew: much is due here
        for one in (player, scratch):
            one.play(2)
        assert_same_game(kept, fresh)
        if kept.covered:
            break


@pytest.mark.parametrize("rule", ["apart", "borrowing", "pooled"])
def test_plans_that_are_kept_are_those_made_anew(rule: str) -> None:
    """What has changed at a stage reaches the states before it that lead there, and no others."""
    world = random_world(np.random.default_rng(5), Shape(4, 4, 2), stationary=rule == "pooled")
    target = Target.of_cells(np.full(world.shape.hsa, 9.0))
    kept, anew = (range_aware(TargetAware(), rule)(target) for _ in range(2))
    players = [
        SimulatedEngine(game, SimulatedSource(world, 1), most=8, record=True, incremental=follows)
        for game, follows in ((kept, True), (anew, False))
    ]
    for _ in range(5):
        one, other = (player.play(8) for player in players)
        np.testing.assert_array_equal(one.action, other.action)
        np.testing.assert_array_equal(one.next_state, other.next_state)
