"""The watch: the very episode at which each target was covered."""

from __future__ import annotations

from benchmarks.comparison.players import (
    PeerPlayer,
    Watch,
    episodes_to_cover,
)

from covgame.baselines.peer import Rollout
from covgame.baselines.rf_ucrl import RFUCRL
from covgame.baselines.uniform_random import UniformRandom
from covgame.game.counts import Counts
from covgame.mdp.model import TabularMDP
from covgame.sources.environments import make
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import uniform
from covgame.targets.target import Target
from covgame.types import Policy


def world(name: str) -> TabularMDP:
    return make(name).require_model("a test")


def cells(model: TabularMDP, count: float) -> Target:
    return uniform(count).resolve(model.transitions)


STATIONARY = "garnet:states=5,actions=2,horizon=5,branching=2,stationary=true"


def test_the_watch_finds_the_very_episode() -> None:
    model = world(STATIONARY)
    targets = [cells(model, 1), cells(model, 4), uniform(9, "pair").resolve(model.transitions)]
    found = episodes_to_cover(
        PeerPlayer(RFUCRL(), Counts(model.shape, pooled=True), SimulatedSource(model, 5)),
        targets,
        [5_000] * 3,
    )
    counts, source = Counts(model.shape, pooled=True), SimulatedSource(model, 5)
    plan = RFUCRL().curiosity(model.shape)
    expected: list[int | None] = [None] * 3
    while None in expected:
        counts.add(source.play(plan.policy(counts), counts.n_episodes))
        for number, target in enumerate(targets):
            covered = (target.collected(counts.visits) >= target.counts).all()
            if covered and expected[number] is None:
                expected[number] = counts.n_episodes
    assert found == expected


def test_the_watch_keeps_to_its_limits() -> None:
    model = world(STATIONARY)
    target = cells(model, 30)
    player = PeerPlayer(
        UniformRandom(), Counts(model.shape, pooled=True), SimulatedSource(model, 5)
    )
    assert episodes_to_cover(player, [target], [40]) == [None]
    assert player.counts.n_episodes == 40
    assert not Watch([target], [40]).waiting(40)


def test_a_stretch_may_be_one_policy() -> None:
    model = world(STATIONARY)
    policy = Policy.uniform(model.shape)
    assert Rollout(policy, 3).policy(Counts(model.shape, pooled=True)) is policy
