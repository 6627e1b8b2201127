"""CovGame (Algorithm 1): an adversary weighs what is missing, a planner goes for it.

The game is asked for a policy and told an episode; who plays it is none of its business.
Covering is checked on the counts, so that a run that ends is right whatever the players do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from covgame.episodes import Episode
from covgame.game.adversary import (
    Adversary,
    Anticipates,
    Gains,
    RevisesWithin,
    as_gains,
    extended,
)
from covgame.game.counts import CountedVisits, Counts
from covgame.game.planner import Planner
from covgame.game.sight import first_sight, longest_in_vain, wider, within_reason
from covgame.targets.target import Target
from covgame.types import BoolArray, FloatArray, FloatHSA, Policy, Shape

Revise = Callable[[int, int], Policy | None]
"""From a step, (cell, next state), to the policy for the rest of its episode; None: no change."""


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
        self.sight = first_sight(target.shape, stage_free=counts.stage_free)  # stages planned
        self.allowed = allowed  # (S, A), where the environment forbids actions
        # An episode's steps change what it does next, where stages share what they have seen.
        self.learns_within = learns_within and counts.shares_stages
        self.collected = np.zeros(len(target))
        self._still_open = 0  # a row that was open when somebody asked last
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
        self.collected = target.collected(self.counts.visits)
        self.state = extended(self.adversary, target, self.state, self.collected)

    def extend(self, target: Target) -> None:
        """``grow``, where whatever was counted was told to this game; cheaper if rows stay."""
        if not target.continues(self.target):
            self.grow(target)
            return
        self._make_room(target)
        new = target.keep(np.arange(len(target)) >= len(self.target))
        self.target = target
        self.collected = np.append(self.collected, new.collected(self.counts.visits))
        self.state = extended(self.adversary, target, self.state, self.collected)

    def _make_room(self, target: Target) -> None:
        """For all states of a target; where these are very many, plans look less far."""
        if target.shape.states > self.counts.shape.states:
            self.counts.grow(target.shape.states)
            if self.counts.stage_free:
                self.sight = within_reason(self.sight, target.shape)

    def allow(self, allowed: BoolArray) -> None:
        """Hear which actions states have, (S, A), where that shows only as one goes."""
        self.allowed = allowed

    def cell_rewards(self, weights: FloatArray) -> FloatHSA:
        """What a cell earns when rows weigh so much; nothing can make up for what is forbidden.

        For as many stages as are planned.
        """
        places = self.place_rewards(weights)
        return np.broadcast_to(places, (self.sight, *places.shape[1:])).copy()

    def place_rewards(self, weights: FloatArray) -> FloatHSA:
        """The same, (1, S, A) where the target does not tell stages apart."""
        reward = self.target.place_rewards(weights)
        if self.allowed is not None:
            reward[:, ~self.allowed] = -np.inf
        return reward

    def ask(self) -> Policy:
        """The policy to play next."""
        self.begin()
        return self.planner.plan(self.counts, self.cell_rewards(self.state.weights))

    def begin(self) -> None:
        """Nothing of the next episode is known yet."""
        self.path: list[int] = []  # its cells so far
        self.gains: Gains = {}  # and what they have collected
        self.learnt: list[tuple[int, int]] = []  # its steps that are counted already
        self.agreement_before = self.counts.agreement_now()
        self.weights_now = self.state.weights

    def revise(self, cell: int, successor: int) -> Policy | None:
        """Hear of a step; the policy for the rest of the episode, None if there is no reason.

        Where stages share what they have seen, the step is learnt at once. It is a reason if it
        was news, or if what is wanted has changed by it.
        """
        self.visit(cell)
        news = False
        if self.learns_within:
            self.learnt.append((cell, successor))
            news = self.counts.learn(cell, successor)
        weights = self.revised_weights()
        if weights is not None:
            self.weights_now = weights
        elif not news:
            return None
        return self.planner.plan(self.counts, self.cell_rewards(self.weights_now))

    def abandon(self) -> None:
        """Forget an episode that will not be told."""
        self.counts.unlearn(self.learnt, self.agreement_before)
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
        if self.sight < self.target.shape.horizon:
            cells = list(cells)
            self.look_further(longest_in_vain(self.target, self.collected, cells))
        gains = self._gains(cells)
        for row, gain in gains.items():
            self.collected[row] += gain
        self.adversary.observe(self.target, self.state, gains, self.collected)

    def look_further(self, in_vain: int) -> bool:
        """Plan more stages ahead, if so many steps in a row of an episode met nothing missing."""
        before = self.sight
        self.sight = wider(before, self.target.shape, in_vain)
        return self.sight > before

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

    def _gains(self, cells: Iterable[int]) -> Gains:
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
