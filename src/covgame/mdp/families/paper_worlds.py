"""The worlds of the paper's examples and comparisons, and one that PruneDataset is fooled by."""

from __future__ import annotations

import math

import numpy as np

from covgame.mdp.families.building import (
    Builder,
    check,
    check_probability,
    from_table,
    generator,
    shape_of,
)
from covgame.mdp.families.registry import family
from covgame.mdp.model import TabularMDP
from covgame.memory import require_room
from covgame.types import END


@family("tree", "tree:horizon=4,actions=2")
def tree(horizon: int = 4, actions: int = 2) -> TabularMDP:
    """A deterministic tree: every action leads to a node of its own.

    Node n's children are n*actions + 1, ..., n*actions + actions; rewards are 0.
    """
    check(horizon >= 1 and actions >= 1, "tree: horizon and actions must be at least 1")
    nodes = sum(actions**h for h in range(horizon if actions == 1 else min(horizon, 63)))
    shape = shape_of(horizon, nodes, actions)
    require_room(shape, shape.pairs, "a tree")
    child = np.arange(shape.pairs) + 1
    child[child >= shape.states] = END
    return from_table(
        shape,
        child[:, None],
        np.ones((shape.pairs, 1)),
        np.zeros((1, shape.states, actions)),
        stationary=True,
    )


@family("bandit", "bandit:contexts=5,actions=3,horizon=6")
def bandit(contexts: int = 5, actions: int = 3, horizon: int = 6, seed: int = 0) -> TabularMDP:
    """A contextual bandit in disguise: what comes next does not depend on the action.

    The next context depends on the context and the stage, and covering in proportion to
    reachability costs exactly ``actions`` episodes (Appendix E.7 of the paper).
    """
    shape = shape_of(horizon, contexts, actions)
    stored = max(1, horizon - 1)
    require_room(shape, stored * shape.pairs * contexts, "a bandit")
    rng = generator(seed)
    drawn = rng.dirichlet(np.ones(contexts), stored * contexts)
    rewards = rng.random((horizon, contexts, actions))
    return from_table(
        shape,
        np.tile(np.arange(contexts), (stored * shape.pairs, 1)),
        np.repeat(drawn, actions, axis=0),
        rewards,
        stationary=False,
    )


@family("ergodic", "ergodic:states=10,actions=3,horizon=5,alpha=0.5,beta=0.25")
def ergodic(
    states: int = 10,
    actions: int = 3,
    horizon: int = 5,
    alpha: float = 0.5,
    beta: float = 0.25,
    seed: int = 0,
) -> TabularMDP:
    """Worlds that mix: no successor is rarer than (1 - S^(beta-1))/(S-1).

    Then none is likelier than S^(beta-1), so that the paper's cap S^(alpha-1), alpha > beta,
    holds by itself and alpha changes nothing. Covering in proportion to reachability costs at
    most S^beta A H <= S^alpha A H episodes (Appendix E.7 of the paper; see the list of slips).
    """
    shape = shape_of(horizon, states, actions)
    check(states >= 2, "ergodic: states must be at least 2")
    check(0 < beta < alpha < 1, "ergodic: needs 0 < beta < alpha < 1")
    stored = max(1, horizon - 1)
    require_room(shape, stored * shape.pairs * states, "an ergodic world")
    rng = generator(seed)
    floor = (1 - states ** (beta - 1)) / (states - 1)
    free = rng.dirichlet(np.full(states, 0.3), stored * shape.pairs)
    return from_table(
        shape,
        np.tile(np.arange(states), (stored * shape.pairs, 1)),
        floor + (1 - states * floor) * free,
        rng.random((horizon, states, actions)),
        stationary=False,
    )


@family("twobranch", "twobranch:states=20,actions=4,horizon=5,gap=0.5")
def twobranch(
    states: int = 20,
    actions: int = 4,
    horizon: int = 5,
    gap: float = 0.5,
    further: float = 0.0,
    seed: int = 0,
) -> TabularMDP:
    """A small branch worth taking beside a large barren one (the comparison with MOCA).

    Action 0 in state 0 earns ``gap`` and enters a random world of log(S) states, in which the
    A actions come in log(A) kinds (at least 2) and earn up to ``further``. Any other action
    enters a deterministic world of the other states, without reward.
    """
    shape = shape_of(horizon, states, actions)
    check(states >= 4 and actions >= 2, "twobranch: needs at least 4 states and 2 actions")
    check(0 < gap <= 1, f"twobranch: gap must lie above 0 and at most at 1, not {gap}")
    check_probability("twobranch: further", further)
    require_room(shape, 2 * shape.pairs, "a two-branch world")
    rng = generator(seed)
    small = max(1, round(math.log(states)))
    kinds = max(2, round(math.log(actions)))
    barren = range(1 + small, states)
    world = Builder(shape)
    world.move(0, 0, {1: 1.0})
    world.earn(0, 0, gap)
    for a in range(1, actions):
        world.move(0, a, {barren[(a - 1) % len(barren)]: 1.0})
    for s in range(1, 1 + small):
        odds = rng.dirichlet(np.ones(small), kinds)
        means = further * rng.random(kinds)
        for a in range(actions):
            world.move(s, a, {1 + i: float(odds[a % kinds, i]) for i in range(small)})
            world.earn(s, a, float(means[a % kinds]))
    for place, s in enumerate(barren):
        for a in range(actions):
            world.move(s, a, {barren[(place * actions + a) % len(barren)]: 1.0})
    return world.build()


@family("rareprize", "rareprize:chance=0.01")
def rareprize(chance: float = 0.01, sure: float = 0.25) -> TabularMDP:
    """A prize that is hardly ever won beside a smaller one that is sure.

    Action 0 leads to the prize of 1 with probability ``chance`` and to nothing otherwise, action 1
    stays, and staying earns ``sure`` at the second and last stage. PruneDataset takes the rare
    prize for a frequent one (docs/pruning.md).
    """
    check_probability("rareprize: chance", chance)
    check_probability("rareprize: sure", sure)
    stay, prize, nothing = 0, 1, 2
    world = Builder(shape_of(2, 3, 2))
    world.move(stay, 0, {prize: chance, nothing: 1 - chance}, stage=0)
    world.move(stay, 1, {stay: 1.0}, stage=0)
    for s in (prize, nothing):
        for a in (0, 1):
            world.move(s, a, {s: 1.0}, stage=0)
    for a in (0, 1):
        world.earn(prize, a, 1.0, stage=1)
        world.earn(stay, a, sure, stage=1)
    return world.build()
