"""phi* of worlds with long episodes, certified to 1e-5, for cells and for pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import covgame as cg
from covgame.flow.highs import Method
from covgame.flow.min_flow import ScaledProgram, certify
from covgame.flow.polytope import flow_polytope
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from tests.long_worlds import corridor, digraph, lock, maze

SMALLER: dict[str, Callable[[], TabularMDP]] = {
    "corridor": partial(corridor, 50, 100),
    "slippery corridor": partial(corridor, 20, 150, 0.3),
    "long slippery corridor": partial(corridor, 60, 90, 0.3),
    "maze": partial(maze, 6, 60),
    "slippery maze": partial(maze, 6, 100, 0.05),
    "graph": partial(digraph, 80, 50),
    "slippery graph": partial(digraph, 60, 40, 0.1),
    "lock": partial(lock, 60, 70),
    "slippery lock": partial(lock, 60, 70, 0.5),
}
FULL: dict[str, Callable[[], TabularMDP]] = {
    "corridor": partial(corridor, 100, 200),
    "slippery corridor": partial(corridor, 40, 400, 0.3),
    "long slippery corridor": partial(corridor, 100, 200, 0.3),
    "maze": partial(maze, 11, 140),
    "slippery maze": partial(maze, 9, 250, 0.05),
    "graph": partial(digraph, 300, 120),
    "slippery graph": partial(digraph, 144, 80, 0.1),
    "lock": partial(lock, 100, 120),
    "slippery lock": partial(lock, 100, 120, 0.5),
}
targets = pytest.mark.parametrize("target", ["uniform:1", "uniform:1/pair"])


@targets
@pytest.mark.parametrize("world", SMALLER)
def test_the_gap_is_small(world: str, target: str) -> None:
    assert cg.plan(SMALLER[world](), target).dual_gap <= 1e-5


@targets
@pytest.mark.parametrize("world", FULL)
@pytest.mark.slow
def test_the_gap_is_small_at_full_size(world: str, target: str) -> None:
    assert cg.plan(FULL[world](), target).dual_gap <= 1e-5


def test_one_walk_there_and_back_tries_every_pair_of_a_corridor() -> None:
    assert cg.plan(corridor(50, 100), "uniform:1/pair").min_episodes == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("slip", [0.0, 0.2])
@targets
def test_the_methods_agree(target: str, slip: float) -> None:
    """HiGHS and the interior point by stages, on the same program."""
    world = maze(4, 20, slip)
    plan = cg.plan(world, target)
    kernel = world.transitions
    program = ScaledProgram(plan.target, flow_polytope(kernel), dp.reach_bound(kernel))
    for method in (Method.VERTEX, Method.STAGEWISE):
        *_, answer = program.answers(method)
        with np.errstate(divide="ignore"):
            found = certify(kernel, plan.target, program.flow(answer), program.prices(answer))
        assert found.lower == pytest.approx(plan.min_episodes, rel=1e-7)
        assert found.upper == pytest.approx(plan.min_episodes, rel=1e-7)


@pytest.mark.parametrize(
    "world", [corridor(15, 40, 0.3), maze(4, 30, 0.1), digraph(20, 12, 0.1), lock(15, 20, 0.5)]
)
def test_units_are_above_the_reachability_and_make_no_number_large(world: TabularMDP) -> None:
    kernel = world.transitions
    bound, exact = dp.reach_bound(kernel), dp.reachability(kernel)
    assert (bound >= exact * (1 - 1e-12)).all()
    assert (bound <= 1).all()
    assert ((bound > 0) == dp.reachable(kernel)).all()
    target = cg.uniform(1).resolve(kernel)
    program = ScaledProgram(target, flow_polytope(kernel), bound).program
    assert np.abs(program.matrix.value).max() <= 1 + 1e-12
