"""Several policies at once: each is planned against what the ones before it will collect.

A long batch of one policy goes on collecting what it has already; a batch of policies that were
planned one after the other on *anticipated* visits does not.
"""

from __future__ import annotations

from collections.abc import Callable

from covgame.game.adversary import anticipated_weights
from covgame.game.game import Game
from covgame.mdp import dp
from covgame.types import FloatArray, Policy

PlanFor = Callable[[FloatArray], Policy]
"""From the weights of rows to a policy."""


def plan_batch(
    game: Game, policies: int, episodes_each: int, plan: PlanFor | None = None
) -> list[Policy]:
    """Policies for the next ``policies * episodes_each`` episodes; the first is ``game.ask()``."""
    plan = plan or (lambda weights: game.planner.plan(game.counts, game.cell_rewards(weights)))
    batch = [plan(game.state.weights)]
    if policies == 1:
        return batch
    kernel = game.counts.kernel()
    anticipated = game.collected.copy()
    while len(batch) < policies:
        expected = dp.occupancy(kernel, batch[-1])
        anticipated += game.target.collected(expected) * episodes_each
        weights = anticipated_weights(game.adversary, game.target, game.state, anticipated)
        batch.append(plan(weights if weights.any() else game.state.weights))
    return batch
