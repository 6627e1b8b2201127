"""Policies in flight: planned, but their episodes are not counted yet.

Each later plan includes the visits that the policies in flight are expected to collect. A long
batch of one policy keeps collecting what it has already covered; a batch of policies that are
planned one after the other on *anticipated* visits does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from covgame.game.adversary import anticipated_weights
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import FloatArray, Policy

DRAWN = 6
"""The stream of random numbers that chooses among untried actions."""


PlanFor = Callable[[FloatArray], Policy]
"""From the weights of rows to a policy."""


def plan_batch(
    game: Game, policies: int, episodes_each: int, plan: PlanFor | None = None
) -> list[Policy]:
    """Policies for the next ``policies * episodes_each`` episodes; the first is ``game.ask()``."""
    in_flight = PoliciesInFlight(game, plan, handed_out=False)
    kernel = game.counts.kernel() if policies > 1 else None
    return [in_flight.plan(number, episodes_each, kernel) for number in range(policies)]


@dataclass
class _PolicyInFlight:
    """A policy, and how many of its episodes are not counted yet."""

    policy: Policy
    episodes: int
    target: Target  # whose rows ``gains`` counts
    gains: FloatArray  # (G,), expected visits of an episode


class PoliciesInFlight:
    """Policies in flight; later plans include their expected visits.

    Args:
        game: The game to plan for.
        plan: From weights of rows to a policy; ``Game.plan_all`` by default.
        anticipates: Whether to include expected visits. Otherwise each plan uses the counts alone.
        handed_out: Whether policies differ where they choose untried actions. Nothing is expected
            of these, so all plans would choose the same ones.
    """

    def __init__(
        self,
        game: Game,
        plan: PlanFor | None = None,
        *,
        anticipates: bool = True,
        handed_out: bool = True,
    ) -> None:
        self.game, self.anticipates, self.handed_out = game, anticipates, handed_out
        self.plan_for: PlanFor = plan or game.plan_all
        self.policies: dict[int, _PolicyInFlight] = {}

    def plan(self, ticket: int, episodes: int, kernel: Transitions | None = None) -> Policy:
        """The policy for so many episodes, in flight as ``ticket`` until they ``arrive``."""
        game = self.game
        if kernel is None and self.policies:
            kernel = guessed_kernel(game.counts)
        weights = self._expected_weights(kernel)
        policy = self.plan_for(weights)
        if self.handed_out and self.policies:
            policy = self._drawn_where_untried(policy, weights, ticket)
        self.policies[ticket] = _PolicyInFlight(policy, episodes, game.target, np.zeros(0))
        return policy

    def arrive(self, ticket: int, episodes: int | None = None) -> None:
        """So many of its episodes were counted; None if the rest will not be. Unknown: ignored."""
        found = self.policies.get(ticket)
        if found is None:
            return
        found.episodes -= found.episodes if episodes is None else episodes
        if found.episodes <= 0:
            del self.policies[ticket]

    def anticipated(self, kernel: Transitions | None = None) -> FloatArray:
        """(G,), the visits of rows, those expected of the policies in flight included.

        Each expectation uses the kernel learnt when its policy was planned. They are added in that
        order.
        """
        game, total = self.game, self.game.collected.copy()
        for one in self.policies.values():
            if one.target is not game.target or not one.gains.size:
                kernel = kernel or guessed_kernel(game.counts)
                one.target = game.target
                policy = _with_room(one.policy, game.target.shape.states)
                one.gains = game.target.collected(dp.occupancy(kernel, policy))
            total += one.gains * one.episodes
        return total

    def _expected_weights(self, kernel: Transitions | None) -> FloatArray:
        """The weights to plan for; those of the game if no policy is in flight."""
        game = self.game
        if self.policies and self.anticipates:
            collected = self.anticipated(kernel)
            weights = anticipated_weights(game.adversary, game.target, game.state, collected)
            if weights.any():
                return weights
        return game.state.weights

    def _drawn_where_untried(self, policy: Policy, weights: FloatArray, ticket: int) -> Policy:
        """Draw untried actions by ticket and stage, where the plan chooses an untried one.

        All untried actions of a state with the same reward are equally good.
        """
        counts, chosen = self.game.counts, policy.table
        visits = counts.visits
        if counts.shares_stages:
            visits = visits.sum(axis=0, keepdims=True)
        if policy.is_stochastic or visits.all():
            return policy
        everywhere = (len(chosen), *visits.shape[1:])
        new = np.broadcast_to(visits == 0, everywhere)
        tries = np.take_along_axis(new, chosen[:, :, None], axis=2)
        reward = np.broadcast_to(self.game.place_rewards(weights), everywhere)
        alike = new & tries & (reward == np.take_along_axis(reward, chosen[:, :, None], axis=2))
        numbers = np.random.default_rng([DRAWN, ticket]).random(everywhere)
        drawn = np.where(alike, numbers, -1.0).argmax(axis=2)
        return replace(policy, table=np.where(tries[:, :, 0], drawn, chosen))


def _with_room(policy: Policy, states: int) -> Policy:
    """The policy for more states, with action 0 in the additional ones."""
    missing = states - policy.table.shape[1]
    if missing <= 0:
        return policy
    wider = [(0, 0)] * policy.table.ndim
    wider[1] = (0, missing)
    return replace(policy, table=np.pad(policy.table, wider))


def guessed_kernel(counts: Counts) -> Transitions:
    """The learnt kernel, with a guess for untried actions.

    An untried action is assumed to do what the tried actions of its state do, each with the same
    probability. With an empty row, an episode would be expected to end there.
    """
    table, actions = counts.table, counts.shape.actions
    tried = (table.total > 0).reshape(-1, actions).sum(axis=1)
    new = np.flatnonzero((table.total == 0) & (np.repeat(tried, actions) > 0))
    if not new.size:
        return counts.kernel()
    row, successor, count = table.listed(0, len(table))
    chance = count / table.total[row]
    size = np.bincount(row // actions, minlength=len(tried))  # entries of each state, in a row
    first, state = np.cumsum(size) - size, new // actions
    many = size[state]
    lent = np.repeat(first[state] - (np.cumsum(many) - many), many) + np.arange(many.sum())
    return Transitions.from_entries(
        counts.shape,
        counts.starts / max(1, counts.n_episodes),
        np.concatenate([row, np.repeat(new, many)]),
        np.concatenate([successor, successor[lent]]),
        np.concatenate([chance, chance[lent] / np.repeat(tried[state], many)]),
        stationary=counts.pooled,
    )
