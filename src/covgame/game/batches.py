"""Several policies at once: each is planned against what the ones before it will collect.

A long batch of one policy goes on collecting what it has already; a batch of policies that were
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
"""The stream of random numbers for what to try where nobody has."""


PlanFor = Callable[[FloatArray], Policy]
"""From the weights of rows to a policy."""


def plan_batch(
    game: Game, policies: int, episodes_each: int, plan: PlanFor | None = None
) -> list[Policy]:
    """Policies for the next ``policies * episodes_each`` episodes; the first is ``game.ask()``."""
    under_way = UnderWay(game, plan, handed_out=False)
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

    With ``anticipates`` False each plan is made on what was counted, whatever is under way.
    With ``handed_out`` policies differ from each other where they try an untried action: nothing
    can be expected of that, so they would all do the same.
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
        self.plan_for: PlanFor = plan or self._readable_plan
        self.departed: dict[int, _Departed] = {}

    def plan(self, ticket: int, episodes: int, kernel: Transitions | None = None) -> Policy:
        """The policy for so many episodes, under way as ``ticket`` until they ``arrive``."""
        game = self.game
        if kernel is None and self.departed:
            kernel = guessed_kernel(game.counts)
        weights = self._expected_weights(kernel)
        policy = self.plan_for(weights)
        if self.handed_out and self.departed:
            policy = self._drawn_where_nobody_tried(policy, weights, ticket)
        self.departed[ticket] = _Departed(policy, episodes, game.target, np.zeros(0))
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
                kernel = kernel or guessed_kernel(game.counts)
                one.target = game.target
                policy = _with_room(one.policy, game.target.shape.states)
                one.gains = game.target.collected(dp.occupancy(kernel, policy))
            total += one.gains * one.episodes
        return total

    def _expected_weights(self, kernel: Transitions | None) -> FloatArray:
        """The weights to plan for; as counted, if nothing is under way."""
        game = self.game
        if self.departed and self.anticipates:
            collected = self.anticipated(kernel)
            weights = anticipated_weights(game.adversary, game.target, game.state, collected)
            if weights.any():
                return weights
        return game.state.weights

    def _drawn_where_nobody_tried(self, policy: Policy, weights: FloatArray, ticket: int) -> Policy:
        """Other actions for every ticket and stage, where a plan tries something new.

        Of the actions of a state that nobody has tried, those that earn the same promise the same.
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
        lot = np.random.default_rng([DRAWN, ticket]).random(everywhere)
        drawn = np.where(alike, lot, -1.0).argmax(axis=2)
        return replace(policy, table=np.where(tries[:, :, 0], drawn, chosen))

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
