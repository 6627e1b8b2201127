"""Several policies at once: each is planned against what the ones before it will collect.

A long batch of one policy goes on collecting what it has already; a batch of policies that were
planned one after the other on *anticipated* visits does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from covgame.game.adversary import anticipated_weights
from covgame.game.game import Game
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import FloatArray, Policy

DRAWN = 6
"""The stream of random numbers for what to do where nobody has been."""

PlanFor = Callable[[FloatArray], Policy]
"""From the weights of rows to a policy."""


def plan_batch(
    game: Game, policies: int, episodes_each: int, plan: PlanFor | None = None
) -> list[Policy]:
    """Policies for the next ``policies * episodes_each`` episodes; the first is ``game.ask()``."""
    under_way = UnderWay(game, plan, draws=False)
    kernel = game.counts.kernel() if policies > 1 else None
    return [under_way.plan(number, episodes_each, kernel) for number in range(policies)]


@dataclass
class _Departed:
    """Episodes of one policy that nobody has heard of yet."""

    policy: Policy
    episodes: int
    target: Target  # that ``gains`` is about
    gains: FloatArray  # (G,), what an episode is expected to collect of its rows


class UnderWay:
    """What was planned and has not come back: whoever plans next counts on it.

    With ``anticipates`` False everybody gets the plan on what was counted, whatever is under way.
    With ``draws`` the plans differ where nobody has been: nothing is expected there, so that all
    would do the same.
    """

    def __init__(
        self,
        game: Game,
        plan: PlanFor | None = None,
        *,
        anticipates: bool = True,
        draws: bool = True,
    ) -> None:
        self.game, self.anticipates, self.draws = game, anticipates, draws
        self.plan_for: PlanFor = plan or self._readable_plan
        self.departed: dict[int, _Departed] = {}

    def plan(self, ticket: int, episodes: int, kernel: Transitions | None = None) -> Policy:
        """The policy for so many episodes, under way as ``ticket`` until they ``arrive``."""
        policy = self.plan_for(self._weights(kernel))
        if self.departed and self.anticipates and self.draws:
            policy = self._drawn_where_nobody_was(policy, ticket)
        self.departed[ticket] = _Departed(policy, episodes, self.game.target, np.zeros(0))
        return policy

    def arrive(self, ticket: int, episodes: int | None = None) -> None:
        """So many of them have been told, or none of the rest will be; unknown ones are no news."""
        found = self.departed.get(ticket)
        if found is None:
            return
        found.episodes -= found.episodes if episodes is None else episodes
        if found.episodes <= 0:
            del self.departed[ticket]

    def anticipated(self, kernel: Transitions | None = None) -> FloatArray:
        """(G,), what is collected, and what is expected of all that is under way.

        It is expected on what was learnt when it departed, and added up in that order.
        """
        game, total = self.game, self.game.collected.copy()
        for one in self.departed.values():
            if one.target is not game.target or not one.gains.size:
                kernel = kernel or game.counts.kernel()
                one.target = game.target
                policy = _with_room(one.policy, game.target.shape.states)
                one.gains = game.target.collected(dp.occupancy(kernel, policy))
            total += one.gains * one.episodes
        return total

    def _weights(self, kernel: Transitions | None) -> FloatArray:
        game = self.game
        if not (self.departed and self.anticipates):
            return game.state.weights
        collected = self.anticipated(kernel)
        weights = anticipated_weights(game.adversary, game.target, game.state, collected)
        return weights if weights.any() else game.state.weights

    def _drawn_where_nobody_was(self, policy: Policy, ticket: int) -> Policy:
        """Other actions for every ticket in states never seen, where one plan is like another."""
        new = np.flatnonzero(~self.game.counts.visits.any(axis=(0, 2)))
        if policy.is_stochastic or not new.size:
            return policy
        table = policy.table.copy()
        rng = np.random.default_rng([DRAWN, ticket])
        table[:, new] = rng.integers(policy.actions, size=(len(table), new.size))
        return replace(policy, table=table)

    def _readable_plan(self, weights: FloatArray) -> Policy:
        return self.game.planner.plan(self.game.counts, self.game.cell_rewards(weights))


def _with_room(policy: Policy, states: int) -> Policy:
    """The same where more states are known by now; in those it does what comes first."""
    missing = states - policy.table.shape[1]
    if missing <= 0:
        return policy
    wider = [(0, 0)] * policy.table.ndim
    wider[1] = (0, missing)
    return replace(policy, table=np.pad(policy.table, wider))
