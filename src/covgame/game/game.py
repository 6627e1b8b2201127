"""CovGame (Algorithm 1): an adversary weighs what is missing, a planner goes for it.

The game is asked for a policy and told an episode; who plays it is none of its business.
Covering is checked on the counts, so that a run that ends is right whatever the players do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from covgame.episodes import Episode
from covgame.game.adversary import (
    Adversary,
    Anticipates,
    Gains,
    Reserves,
    RevisesWithin,
    as_gains,
    extended,
)
from covgame.game.counts import CountedVisits, Counts
from covgame.game.lookahead import (
    ENOUGH,
    LARGE,
    NEAR,
    ROUTE_DEPTH,
    find_route,
    first_depth,
    max_depth,
    next_depth,
)
from covgame.game.planner import OptimisticPlanner, Plan, Planner
from covgame.targets.target import Target
from covgame.types import BoolArray, FloatArray, FloatHSA, Policy, Shape

Revise = Callable[[int, int], Policy | None]
"""From a step, (cell, next state), to the policy for the rest of its episode; None: no change."""


LOOK_SCALE, LOOK_RATIO = 2.0**-20, 8.0
"""In a second look the least visited row weighs the first; each visit divides by the second."""

PREFERENCE_POWER = 4
"""A factor by which a game prefers one pair to another is a uniform number to this power."""


class EpisodeSource(Protocol):
    """All that an algorithm may know about the world: it plays policies."""

    @property
    def shape(self) -> Shape:
        """How large it is."""
        ...

    @property
    def stationary(self) -> bool:
        """Whether its transitions are the same at every stage."""
        ...

    def play(self, policy: Policy, episode: int, revise: Revise | None = None) -> Episode:
        """Play the episode with this number; ``revise`` may change the policy on the way."""
        ...


@dataclass(frozen=True, eq=False)
class Round:
    """One episode, and where the game stands after it."""

    n_episodes: int
    episode: Episode
    covered: bool


class Game:
    """Ask for a policy, tell the episode it led to, until the target is covered.

    Args:
        target: What is to be covered.
        planner: From counts and a reward to the next policy.
        adversary: Weighs the rows of the target: the more a row weighs, the more its cells earn.
        counts: What was seen, nothing at first.
        allowed: Which actions states have, S x A truth values, if not all.
        learns_within: Whether an episode's own steps may change what it does next, where stages
            share what they have seen.

    Example:
        >>> import covgame as cg
        >>> model = cg.make("chain:states=4,horizon=6").model
        >>> target = cg.cells([(None, 3, 1, 5)]).on(model.shape)  # the last state's action 1
        >>> game, world = cg.default_game(target, pooled=True), cg.SimulatedSource(model)
        >>> while not game.covered:
        ...     episode = world.play(game.ask(), game.counts.n_episodes)
        ...     result = game.tell(episode)
        >>> int(game.counts.visits[:, 3, 1].sum()) >= 5
        True
    """

    plan: Plan  # the last one, where plans look only some stages ahead

    def __init__(
        self,
        target: Target,
        planner: Planner,
        adversary: Adversary,
        counts: Counts,
        allowed: BoolArray | None = None,
        *,
        learns_within: bool = True,
    ) -> None:
        self.target = target
        self.planner = planner
        self.adversary = adversary
        self.revising = adversary if isinstance(adversary, RevisesWithin) else None
        self.counts = counts
        self.deepest = self._deepest()  # stages that a plan may look ahead
        self.allowed = allowed  # (S, A), where the environment forbids actions
        # An episode's steps change what it does next, where stages share what they have seen.
        self.learns_within = learns_within and counts.shares_stages
        self.asked = np.ones(len(target), dtype=np.bool_)  # rows; the others are reserved
        self.collected = np.zeros(len(target))  # infinite for reserved rows
        self.looks_again = False  # for further states, once nothing is open within an episode
        self.has_reserve = False  # whether rows were reserved for states to be discovered
        self.route: dict[int, int] = {}  # actions by state, if the episode follows a route
        self.preference_seed: int | None = None  # of ``preference``; None: all pairs alike
        self._required: Target | None = None
        self._still_open = 0  # a row that was open when somebody asked last
        self._first_open = 0  # no row before it is open, the episode's visits included
        self.state = adversary.start(target)
        self.begin()

    @property
    def covered(self) -> bool:
        """Whether every row has its visits."""
        counts, row = self.target.counts, self._still_open
        if row < len(counts) and self.collected[row] < counts[row]:
            return False  # as it was when somebody asked before
        lacking = self.collected < counts
        self._still_open = len(lacking) - 1 - int(lacking[::-1].argmax()) if len(lacking) else 0
        return not lacking.any()

    def grow(self, target: Target) -> None:
        """Go on with a target that has more rows, or room for more states."""
        self._make_room(target)
        self.target = target
        self.asked = np.ones(len(target), dtype=np.bool_)
        self._recount()

    def _recount(self) -> None:
        """Count again what rows have collected, and weigh them."""
        visits = self.target.collected(self.counts.visits)
        self.collected = np.where(self.asked, visits, np.inf)
        self.state = extended(self.adversary, self.target, self.state, self.collected)
        self.weights_now = self.state.weights
        self._required = None
        self._first_open = 0

    def extend(self, target: Target) -> None:
        """``grow``, where whatever was counted was told to this game; cheaper if rows stay."""
        if not target.continues(self.target):
            self.grow(target)
            return
        self._make_room(target)
        new = target.keep(np.arange(len(target)) >= len(self.target))
        self.target = target
        self.asked = np.ones(len(target), dtype=np.bool_)
        self.collected = np.append(self.collected, new.collected(self.counts.visits))
        self.state = extended(self.adversary, target, self.state, self.collected)
        self._required = None
        self._first_open = 0

    @property
    def reserves(self) -> bool:
        """Whether rows can be reserved for states that have not been seen yet."""
        return isinstance(self.adversary, Reserves)

    def reserve(self, target: Target) -> None:
        """Go on with a target that has further rows, which are not asked for yet."""
        self._make_room(target)
        more = len(target) - len(self.target)
        self.target = target
        self.asked = np.append(self.asked, np.zeros(more, dtype=np.bool_))
        self.collected = np.append(self.collected, np.full(more, np.inf))
        self.state.weights = np.append(self.state.weights, np.zeros(more))
        self.weights_now = self.state.weights  # no episode is played on after this
        self._required = None

    def ask_for(self, rows: Sequence[int], collected: Sequence[float] | None = None) -> None:
        """Ask for reserved rows from now on, also in the middle of an episode.

        ``collected`` says how often they were visited in earlier episodes, never if left out.
        """
        assert isinstance(self.adversary, Reserves)  # noqa: S101 (or rows cannot be reserved)
        for place, row in enumerate(rows):
            visits = collected[place] if collected is not None else 0.0
            self.asked[row], self.collected[row] = True, visits
            self.adversary.include(self.target, self.state, row, visits)
            self.weights_now[row] = self.state.weights[row]
        self.newly_asked += rows
        self._first_open = min([self._first_open, *rows])
        self._required = None

    def discover(self, state: int) -> list[int]:
        """Ask for the reserved rows of a state, also within an episode; returns them."""
        rows = self.reserved_rows(state)
        if rows:
            self.ask_for(rows)
        return rows

    def ask_only_for(self, asked: BoolArray) -> None:
        """Ask for these rows, (G,), between two episodes; the others stay reserved."""
        if (self.asked & ~asked).any():
            self.asked = asked.copy()
            self._recount()
            return
        new = asked & ~self.asked
        visits = self.target.keep(new).collected(self.counts.visits)
        self.ask_for(np.flatnonzero(new).tolist(), visits.tolist())

    def reserved_rows(self, state: int) -> list[int]:
        """The reserved rows of a state's allowed actions."""
        _, _, actions = self.target.shape.hsa
        found: dict[int, None] = {}
        for action in range(actions):
            if self.allowed is None or self.allowed[state, action]:
                for row in self.target.rows_of_cell(state * actions + action):
                    if not self.asked[row]:
                        found[row] = None
        return list(found)

    @property
    def required(self) -> Target:
        """The rows that are asked for."""
        if self._required is None:
            self._required = self.target if self.asked.all() else self.target.keep(self.asked)
        return self._required

    @property
    def required_visits(self) -> FloatArray:
        """The visits that each of them has."""
        return self.collected[self.asked]

    def _make_room(self, target: Target) -> None:
        """Make room for all states of a target; where these are very many, plans look less far."""
        if target.shape.states > self.counts.shape.states:
            self.counts.grow(target.shape.states)
            self.deepest = self._deepest()

    def _deepest(self) -> int:
        shape = self.counts.shape
        return max_depth(shape) if self.counts.stage_free else shape.horizon

    def allow(self, allowed: BoolArray) -> None:
        """Hear which actions states have, (S, A), where that shows only as one goes."""
        self.allowed = allowed

    def allow_in(self, state: int, allowed: BoolArray) -> None:
        """Hear which actions one state has, (A,)."""
        if self.allowed is None:
            self.allowed = np.ones(self.target.shape.hsa[1:], dtype=np.bool_)
        self.allowed[state] = allowed

    def cell_rewards(self, weights: FloatArray, stages: int | None = None) -> FloatHSA:
        """The reward of each cell if rows have these weights; forbidden actions have -infinity.

        For so many stages, all that a plan may look ahead if left out.
        """
        places = self.place_rewards(weights)
        return np.broadcast_to(places, (stages or self.deepest, *places.shape[1:])).copy()

    def place_rewards(self, weights: FloatArray) -> FloatHSA:
        """The same, (1, S, A) where the target does not tell stages apart."""
        reward = self.target.place_rewards(weights)
        preference = self.preference
        if preference is not None:
            reward *= preference
        if self.allowed is not None:
            reward[:, ~self.allowed] = -np.inf
        return reward

    @property
    def preference(self) -> FloatArray | None:
        """(S, A), random factors of rewards: games that are played at once differ by them.

        Those of a state stay the same when there is room for more states.
        """
        if self.preference_seed is None:
            return None
        shares = np.random.default_rng(self.preference_seed).random(self.target.shape.hsa[1:])
        preference: FloatArray = shares**PREFERENCE_POWER
        return preference

    @property
    def plans_within(self) -> bool:
        """Whether visits change what an episode goes for before it is over."""
        return self.revising is not None and self.target.most_per_episode > 1

    def ask(self) -> Policy:
        """The policy to play next."""
        self.begin()
        if self.should_look_again():
            self.weights_now = self.look_again()
        if not self.counts.stage_free:
            return self.planner.plan(self.counts, self.cell_rewards(self.weights_now))
        return replace(self._plan_ahead(first_depth(self.deepest)), on_start=self.start)

    def plan_all(self, weights: FloatArray) -> Policy:
        """A policy for all states and stages and rows with these weights, on the counts now."""
        return self.planner.plan(self.counts, self.cell_rewards(weights))

    def start(self, state: int) -> Policy | None:
        """The policy for an episode that begins in this state; None: the one asked for."""
        return None if self.sees_enough(0, state) else self._plan_from(0, state)

    def sees_enough(self, h: int, state: int) -> bool:
        """Whether the plan looks far enough ahead for a state that is entered at stage h."""
        if not self.counts.stage_free:
            return True
        if self.route:
            return state in self.route
        depth = len(self.plan.policy.table)
        if depth >= min(self.deepest, self.target.shape.horizon - h):
            return True
        return bool(self.plan.values[state] >= ENOUGH * self.plan.most)

    def _plan_from(self, h: int, state: int) -> Policy:
        """The policy for an episode that is in a state at stage h."""
        if not self.counts.stage_free:
            return self.planner.plan(self.counts, self.cell_rewards(self.weights_now))
        depth = first_depth(self.deepest)
        policy = self._plan_ahead(depth)
        while not self.sees_enough(h, state):
            if depth == ROUTE_DEPTH:
                reward = self.place_rewards(self.weights_now)[0]
                route = find_route(self.counts.table, reward, state)
                if route.reached >= LARGE and route.length < math.inf:
                    if not NEAR < route.length <= self.target.shape.horizon - h:
                        self.plan = self.plan._replace(most=0.0)  # the plan is kept
                        return policy
                    return self._follow(route.actions)
            depth = next_depth(depth, self.deepest)
            policy = self._plan_ahead(depth)
        return policy

    def _follow(self, route: dict[int, int]) -> Policy:
        """The policy that follows a route, until a step leads elsewhere."""
        _, states, actions = self.target.shape.hsa
        chosen = np.zeros((1, states), dtype=np.int64)
        chosen[0, list(route)] = list(route.values())
        self.route = route
        return Policy(chosen, actions, lead=self.target.shape.horizon - 1)

    def _plan_ahead(self, depth: int) -> Policy:
        """A plan that looks so many stages ahead, made by our own planner."""
        assert isinstance(self.planner, OptimisticPlanner)  # noqa: S101 (counts are free of stages)
        reward = self.cell_rewards(self.weights_now, depth)
        self.route = {}
        self.plan = self.planner.plan_with_values(self.counts, reward)
        return self.plan.policy

    def begin(self) -> None:
        """Start with the next episode, of which nothing is known yet."""
        self.newly_asked: list[int] = []  # rows, since it began
        self.numbers_before = (self.state.rows, self.state.total)
        self.path: list[int] = []  # its cells so far
        self.gains: Gains = {}  # and what they have collected
        self.learnt: list[tuple[int, int]] = []  # its steps that are counted already
        self.agreement_before = self.counts.agreement_now()
        self.weights_now = self.state.weights
        self.look_base: float | None = None  # the fewest visits when a second look began

    def revise(self, cell: int, successor: int) -> Policy | None:
        """Hear of a step; the policy for the rest of the episode, None if there is no reason.

        Where stages share what they have seen, the step is learnt at once. It is a reason if it
        was news, if what is wanted has changed by it, or if the plan does not look far enough.
        """
        self.visit(cell)
        news = False
        if self.learns_within:
            self.learnt.append((cell, successor))
            news = self.counts.learn(cell, successor)
        if self.look_base is not None:
            rows = self.target.rows_of_cell(cell)
            self.weights_now[rows] = self.look_weights(rows)
            return self._plan_from(len(self.path), successor)
        weights = self.revised_weights()
        stage = len(self.path)
        if weights is not None and self.should_look_again():
            weights = self.look_again()
        if weights is not None:
            self.weights_now = weights
        elif not news and self.sees_enough(stage, successor):
            return None
        return self._plan_from(stage, successor)

    def should_look_again(self) -> bool:
        """Whether nothing is left to collect in this episode, so that it may look for states.

        Where transitions are random, states may be missing although all that was seen is covered.
        """
        if not self.looks_again or self.look_base is not None:
            return False
        counts, collected, row = self.target.counts, self.collected, self._first_open
        while row < len(counts) and collected[row] + self.gains.get(row, 0) >= counts[row]:
            row += 1
        self._first_open = row
        return row == len(counts) and bool(self.asked.any())

    def look_again(self) -> FloatArray:
        """Begin a second look, in which the least visited rows weigh most: the weights."""
        visits = self._visits_now()[self.asked]
        self.look_base = float(visits.min())
        weights = np.zeros(len(self.target))
        weights[self.asked] = LOOK_SCALE * LOOK_RATIO ** (self.look_base - visits)
        return weights

    def look_weights(self, rows: Sequence[int]) -> list[float]:
        """The weights of rows in a second look; rows that have become open weigh far more."""
        weights, base = list[float](), self.look_base
        assert base is not None and self.revising is not None  # noqa: S101, PT018
        for row in rows:
            n = float(self.collected[row]) + self.gains.get(row, 0)
            if n < self.target.counts[row]:
                weights.append(self.revising.weight_of(self.target, self.state, row, n))
            else:
                weights.append(LOOK_SCALE * LOOK_RATIO ** (base - n))
        return weights

    def _visits_now(self) -> FloatArray:
        """(G,), what rows have collected, the episode's visits included."""
        visits = self.collected.copy()
        for row, gain in self.gains.items():
            visits[row] += gain
        return visits

    def abandon(self) -> None:
        """Forget an episode that will not be told."""
        self.counts.unlearn(self.learnt, self.agreement_before)
        for row in self.newly_asked:
            self.asked[row], self.collected[row] = False, np.inf
            self.state.weights[row] = 0.0
        self.state.rows, self.state.total = self.numbers_before
        self._required, self._first_open = None, 0
        self.begin()

    def visit(self, cell: int) -> None:
        """Note a step of the episode."""
        self.path.append(cell)
        for row in self.target.rows_of_cell(cell):
            self.gains[row] = self.gains.get(row, 0) + 1

    def revised_weights(self) -> FloatArray | None:
        """The weights for the rest of the episode, None if its last step has not changed them.

        A row that may be visited at any stage loses weight with every visit, and all of it once
        it is covered; without this it would be collected again and again.
        """
        if self.revising is None or not self.weights_fell():
            return None
        weights = self.state.weights.copy()
        for row, gain in self.gains.items():
            if self.target.any_stage[row]:
                n = float(self.collected[row] + gain)
                weights[row] = self.revising.weight_of(self.target, self.state, row, n)
        return weights

    def weights_fell(self) -> bool:
        """Whether the last step of the episode changes what to go for."""
        adversary, gains = self.revising, self.gains
        return (
            adversary is not None
            and self.target.most_per_episode > 1
            and any(
                self._should_replan(adversary, row, gains[row])
                for row in self.target.rows_of_cell(self.path[-1])
            )
        )

    def _should_replan(self, adversary: RevisesWithin, row: int, gain: int) -> bool:
        """Whether the last of an episode's visits to a row changes what to go for."""
        missing = float(self.target.counts[row]) - float(self.collected[row])
        if gain - 1 >= missing or not self.target.any_stage[row]:
            return False
        return gain >= missing or adversary.weight_fell(self.target, self.state, row, gain)

    def tell(self, episode: Episode) -> Round:
        """Count an episode and let the adversary see it."""
        self.counts.add(episode, len(self.learnt))
        self.tell_cells(episode.cells(self.target.shape))
        self.begin()
        return Round(self.counts.n_episodes, episode, self.covered)

    def tell_cells(self, cells: Iterable[int]) -> None:
        """Let the adversary see an episode that somebody else has counted."""
        gains = self.gains_of(cells)
        for row, gain in gains.items():
            self.collected[row] += gain
        self.adversary.observe(self.target, self.state, gains, self.collected)

    def tell_visits(self, seen: CountedVisits) -> None:
        """Count many episodes of which only the visits are known."""
        self.counts.add_visits(seen)
        gains = self.target.collected(seen.visits)
        self.collected += gains
        about = (self.target, self.state)
        if isinstance(self.adversary, Anticipates):
            self.adversary.observe_many(*about, gains, seen.episodes, self.collected)
        else:
            self.adversary.observe(*about, as_gains(gains), self.collected)

    def gains_of(self, cells: Iterable[int]) -> Gains:
        """How often cells visit each row."""
        gains: Gains = {}
        for cell in cells:
            for row in self.target.rows_of_cell(cell):
                gains[row] = gains.get(row, 0) + 1
        return gains


def rounds(game: Game, source: EpisodeSource) -> Iterator[Round]:
    """Play until the target is covered; stopping earlier is the consumer's choice.

    Args:
        game: Whose policies are played.
        source: Who plays them: a ``SimulatedSource``, or anything with its three members.

    Returns:
        An iterator over the episodes, each with where the game stands after it.
    """
    while not game.covered:
        yield game.tell(source.play(game.ask(), game.counts.n_episodes, game.revise))
