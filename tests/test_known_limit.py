"""The players of ``benchmarks/known_limit.py``, and its exact optimum by hand and by luck."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.comparison.measures import priced
from benchmarks.known_limit import PLAYERS, Remainder, exact_optimum

import covgame as cg
from covgame.flow.min_flow import min_flow
from covgame.game.game import rounds
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import Shape


def urn(*chances: float) -> Transitions:
    """One stage, one action, a first state drawn by chance."""
    nothing = np.zeros(0, dtype=np.int64)
    shape = Shape(1, len(chances), 1)
    return Transitions.from_entries(
        shape, np.array(chances), nothing, nothing, np.zeros(0), stationary=True
    )


def test_the_optimum_of_coupons() -> None:
    """Nothing to decide: n (1 + 1/2 + ... + 1/n); and two of one coupon, by hand."""
    even = urn(0.25, 0.25, 0.25, 0.25)
    target = Target.of_cells(np.ones((1, 4, 1)))
    assert exact_optimum(even, target) == pytest.approx(4 * (1 + 1 / 2 + 1 / 3 + 1 / 4))
    rare = Target.of_cells(np.array([2.0, 0.0]).reshape(1, 2, 1))
    assert exact_optimum(urn(0.001, 0.999), rare) == pytest.approx(2000)
    both = Target.of_cells(np.array([1.0, 1.0]).reshape(1, 2, 1))
    assert exact_optimum(urn(0.2, 0.8), both) == pytest.approx(1 / 0.2 + 1 / 0.8 - 1)


@pytest.mark.parametrize("text", ["uniform:1", "uniform:2", "uniform:1/pair"])
def test_the_optimum_of_a_tree_is_phi(text: str) -> None:
    world = cg.make("tree:horizon=2,actions=2").require_model("a test")
    target, phi = priced("tree:horizon=2,actions=2", text)
    assert exact_optimum(world.transitions, target) == pytest.approx(phi)


def test_an_optimum_that_is_out_of_reach_is_refused() -> None:
    world = cg.make("garnet:states=6,actions=3,horizon=5").require_model("a test")
    with pytest.raises(ValueError, match="too many"):
        exact_optimum(
            world.transitions, priced("garnet:states=6,actions=3,horizon=5", "uniform:1")[0]
        )


def mean_and_error(world: TabularMDP, target: Target, name: str) -> tuple[float, float]:
    remainder = Remainder(world.transitions, target)
    taus = []
    for seed in range(200):
        game = PLAYERS[name](world, target, remainder)
        for last in rounds(game, SimulatedSource(world, seed)):
            assert last.n_episodes < 5000
        taus.append(game.counts.n_episodes)
    return float(np.mean(taus)), float(np.std(taus)) / math.sqrt(len(taus))


@pytest.mark.parametrize("name", PLAYERS)
@pytest.mark.parametrize(
    ("env", "text"),
    [("deepsea:size=3,noise=0.3", "uniform:1"), ("riverswim:states=3,horizon=5", "uniform:2/pair")],
)
def test_no_player_beats_the_optimum(env: str, text: str, name: str) -> None:
    """And none that knows the model is far from it; phi* is below."""
    world = cg.make(env).require_model("a test")
    target, _ = priced(env, text)
    least = exact_optimum(world.transitions, target)
    assert least >= min_flow(world.transitions, target).min_episodes
    mean, error = mean_and_error(world, target, name)
    assert least - 4 * error <= mean <= 1.4 * least


def test_the_remainder_is_solved_anew() -> None:
    """For any part of a target, cells and groups alike, as if it were the whole."""
    world = cg.make("riverswim:states=4,horizon=6").require_model("a test")
    pairs = [(None, s, a, 3.0) for s in range(3) for a in range(2)]
    target = cg.cells([*pairs, (2, 0, 1, 4.0)]).resolve(world.transitions)
    remainder = Remainder(world.transitions, target)
    for seed in range(5):
        missing = np.random.default_rng(seed).integers(0, 4, len(target)).astype(float)
        _, prices = remainder.solve(missing)
        part = Target(target.shape, target.rows[missing > 0], missing[missing > 0])
        assert prices @ missing == pytest.approx(
            min_flow(world.transitions, part).min_episodes, rel=1e-5
        )
