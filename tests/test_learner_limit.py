"""The best learner of ``benchmarks/learner_limit.py``: by hand, by enumeration and by luck."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from benchmarks._beliefs import Prior, World
from benchmarks.comparison.measures import priced, world
from benchmarks.known_limit import exact_optimum
from benchmarks.learner_limit import LearnerLimit, play_default, play_knowing

import covgame as cg
from covgame.game.adversary import MissingOnly
from covgame.game.counts import Counts
from covgame.game.game import Game, rounds
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.mdp.transitions import Transitions
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target

CHAIN = "chain:states=4,horizon=5,slip=0"
SLIPPERY = "chain:states=3,horizon=4,slip=0.1"
LOCK = "lock:horizon=3,actions=2,slip=0.2"
GRID = "grid:rows=1,columns=3,horizon=4,slip=0"
CASES = [
    (CHAIN, "uniform:1/pair"),
    (f"{CHAIN},start=1", "uniform:1/pair"),
    (SLIPPERY, "uniform:1/pair"),
    ("riverswim:states=3,horizon=4", "uniform:2/pair"),
    (LOCK, "uniform:1"),
    ("deepsea:size=3,noise=0.1", "uniform:1"),
    ("grid:rows=1,columns=2,horizon=3,slip=0,ends=true", "uniform:1/pair"),
]


@cache
def limit(env: str, text: str, *, told_after: int = 3) -> LearnerLimit:
    return LearnerLimit(Prior(world(env).transitions), priced(env, text)[0], told_after)


def draw(prior: Prior, seed: int) -> World:
    return prior.draw(np.random.default_rng([seed, 1]))


def test_with_one_state_there_is_nothing_to_learn() -> None:
    """An episode for every action, or one episode with as many stages."""
    assert limit("chain:states=1,horizon=1", "uniform:1").mean == pytest.approx(2)
    assert limit("grid:rows=1,columns=1,horizon=1", "uniform:1").mean == pytest.approx(4)
    assert limit("chain:states=1,horizon=2", "uniform:1/pair").mean == pytest.approx(1)


@pytest.mark.parametrize(("horizon", "actions"), [(2, 2), (3, 2), (3, 3), (2, 4)])
def test_the_end_of_a_lock(horizon: int, actions: int) -> None:
    """The secret of a stage comes after 0, ..., A - 1 wrong actions; each costs an episode."""
    base = world(f"lock:horizon={horizon},actions={actions}").transitions
    target = cg.cells([(horizon - 1, 0, 0, 1.0)]).resolve(base)
    learner = LearnerLimit(Prior(base), target)
    assert learner.exact
    assert learner.mean == pytest.approx(1 + (horizon - 1) * (actions - 1) / 2)


def test_a_lock_with_two_stages() -> None:
    """Four cells at its second stage take four episodes, and finding the secret none of them."""
    assert limit("lock:horizon=2,actions=2", "uniform:1").mean == pytest.approx(4)


@pytest.mark.parametrize(("env", "text"), CASES)
def test_a_prior_of_one_world_is_a_known_model(env: str, text: str) -> None:
    base, (target, _) = world(env).transitions, priced(env, text)
    known = LearnerLimit(Prior(base, []), target)
    assert known.exact
    assert known.mean == pytest.approx(exact_optimum(base, target))


@pytest.mark.parametrize(("env", "text"), CASES)
def test_what_is_unknown_costs(env: str, text: str) -> None:
    """One place after the other is shuffled: never cheaper, from the known model on."""
    base, (target, _) = world(env).transitions, priced(env, text)
    places = len(Prior(base).rows)
    means = [LearnerLimit(Prior(base, range(n)), target).mean for n in range(places + 1)]
    assert all(b >= a - 1e-9 for a, b in pairwise(means))


@pytest.mark.parametrize(("env", "text"), CASES)
def test_being_told_later_costs(env: str, text: str) -> None:
    """The present is smaller: lower bounds that rise, and stay where nothing slips."""
    bounds = [limit(env, text, told_after=k) for k in (1, 2, 3)]
    assert all(b.mean >= a.mean - 1e-9 for a, b in pairwise(bounds))
    if bounds[0].exact:
        assert bounds[-1].mean == pytest.approx(bounds[0].mean)


def enumerated(worlds: list[Transitions], target: Target) -> float:
    """The same by brute force, for worlds that never slip: which worlds are still possible?"""
    H, S, A = target.shape.hsa
    leads = [
        {
            (h, s, a): int(kernel.next_state[kernel.start[s * A + a]])
            for h, kernel in enumerate(w.stages[:-1])
            for s in range(S)
            for a in range(A)
        }
        for w in worlds
    ]

    def collect(got: frozenset[int], h: int, s: int, a: int) -> frozenset[int]:
        return got | set(target.rows_of_cell((h * S + s) * A + a))

    @cache
    def to_play(got: frozenset[int], possible: frozenset[int]) -> float:
        if len(got) == len(target):
            return 0.0
        first = int(worlds[0].initial.argmax())
        return 1.0 + go_on(got, possible, 0, first, got, possible)

    @cache
    def go_on(
        got: frozenset[int], possible: frozenset[int], h: int, s: int,
        got_before: frozenset[int], possible_before: frozenset[int],
    ) -> float:  # fmt: skip
        if h == H:  # to repeat an episode that changed nothing would change nothing again
            same = (got, possible) == (got_before, possible_before)
            return math.inf if same else to_play(got, possible)
        costs = []
        for a in range(A):
            now, cost = collect(got, h, s, a), 0.0
            if h + 1 == H:
                cost = go_on(now, possible, H, s, got_before, possible_before)
            else:
                for to in {leads[w][h, s, a] for w in possible}:
                    left = frozenset(w for w in possible if leads[w][h, s, a] == to)
                    then = go_on(now, left, h + 1, to, got_before, possible_before)
                    cost += len(left) / len(possible) * then
            costs.append(cost)
        return min(costs)

    return to_play(frozenset(), frozenset(range(len(worlds))))


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("chain:states=3,horizon=4,slip=0", "uniform:1/pair"),
        ("chain:states=3,horizon=3,slip=0,start=1", "uniform:1/pair"),
        ("lock:horizon=3,actions=2", "uniform:1"),
    ],
)
def test_beliefs_by_place_are_beliefs_about_worlds(env: str, text: str) -> None:
    """Which labels are possible at every place, or which worlds: it is the same."""
    prior, (target, _) = Prior(world(env).transitions), priced(env, text)
    drawn = {
        w.transitions.next_state.tobytes(): w.transitions
        for w in (draw(prior, seed) for seed in range(400))
    }
    assert len(drawn) == math.prod(len(prior.belief(place)) for place in range(len(prior.rows)))
    learner = LearnerLimit(prior, target)
    assert learner.exact
    assert learner.mean == pytest.approx(enumerated(list(drawn.values()), target))


def test_all_worlds_of_a_prior_have_the_same_limits() -> None:
    """Labels are names: what is drawn from a prior is as good a base for it."""
    prior, (target, _) = Prior(world(GRID).transitions), priced(GRID, "uniform:1/pair")
    base, least = LearnerLimit(prior, target).mean, exact_optimum(prior.base, target)
    for seed in range(3):
        other = draw(prior, seed).transitions
        assert LearnerLimit(Prior(other), target).mean == pytest.approx(base)
        assert exact_optimum(other, target) == pytest.approx(least)


@pytest.mark.parametrize("start", [0, 1])
def test_the_best_learner_in_every_world(start: int) -> None:
    """Where nothing slips no luck is left once all worlds are played."""
    learner = limit(f"{CHAIN},start={start}", "uniform:1/pair")
    drawn = {tuple(w.labels): w for w in (draw(learner.prior, seed) for seed in range(300))}
    assert len(drawn) == 2**4
    rng = np.random.default_rng(0)
    taus = [len(learner.play(w, rng)) for w in drawn.values()]
    assert np.mean(taus) == pytest.approx(learner.mean)


def mean_and_error(taus: list[int]) -> tuple[float, float]:
    return float(np.mean(taus)), float(np.std(taus)) / math.sqrt(len(taus))


@pytest.mark.parametrize(("env", "text"), [*CASES, (GRID, "uniform:1/pair")])
def test_the_best_learner_takes_so_many_episodes(env: str, text: str) -> None:
    """Played in worlds that are drawn, with their labels."""
    learner = limit(env, text)
    taus = []
    for seed in range(200):
        drawn = draw(learner.prior, seed)
        taus.append(len(learner.play(drawn, np.random.default_rng([seed, 2]))))
    mean, error = mean_and_error(taus)
    assert mean == pytest.approx(learner.mean, abs=4 * error + 1e-9)


def play_missing(drawn: World, target: Target, seed: int) -> int:
    counts = Counts(target.shape, pooled=drawn.transitions.stationary)
    game = Game(target, OptimisticPlanner(RangeAwareOptimism()), MissingOnly(), counts)
    for last in rounds(game, SimulatedSource(drawn.model, seed)):
        assert last.n_episodes < 5000
    return game.counts.n_episodes


LEARNERS: dict[str, Callable[[World, Target, int], int]] = {
    "default": lambda drawn, target, seed: play_default(drawn, target, seed, 5000),
    "1 for missing": play_missing,
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(("env", "text"), CASES)
def test_no_learner_beats_the_best(env: str, text: str, name: str) -> None:
    learner, (target, _) = limit(env, text), priced(env, text)
    taus = [LEARNERS[name](draw(learner.prior, seed), target, seed) for seed in range(60)]
    mean, error = mean_and_error(taus)
    assert mean >= learner.mean - 4 * error


def test_who_knows_the_model_may_beat_the_best_learner() -> None:
    """So that it is learning that the limit prices, and not the players' clumsiness."""
    learner, (target, _) = limit(CHAIN, "uniform:1/pair"), priced(CHAIN, "uniform:1/pair")
    known = [play_knowing("prices", draw(learner.prior, seed), target, seed) for seed in range(50)]
    mean, error = mean_and_error(known)
    assert mean + 4 * error < learner.mean


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        limit("chain:states=12,horizon=20,slip=0", "uniform:1/pair")
    base = world(LOCK).transitions
    with pytest.raises(ValueError, match="any stage"):
        LearnerLimit(Prior(base), cg.uniform(1, per="pair").resolve(base))
    with pytest.raises(ValueError, match="any action"):
        LearnerLimit(Prior(base), cg.cells([(1, 0, None, 1.0)]).resolve(base))
