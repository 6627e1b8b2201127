"""CovGame (Algorithm 1): an adversary weighs what is missing, a planner goes for it.

The game is asked for a policy and told an episode; who plays it is none of its business.
Covering is checked on the counts, so that a run that ends is right whatever the players do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from covgame.episodes import Episode
from covgame.game.adversary import Adversary, Gains
from covgame.game.counts import Counts
from covgame.game.planner import Planner
from covgame.targets.target import Target
from covgame.types import Policy, Shape


class EpisodeSource(Protocol):
    """All that an algorithm may know of the world."""

    @property
    def shape(self) -> Shape:
        """How large it is."""
        ...

    @property
    def stationary(self) -> bool:
        """Whether its transitions are the same at every stage."""
        ...

    def play(self, policy: Policy, episode: int) -> Episode:
        """Play the episode with this number."""
        ...


@dataclass(frozen=True, eq=False)
class Round:
    """One episode, and where the game stands after it."""

    n_episodes: int
    episode: Episode
    covered: bool


class Game:
    """Ask for a policy, tell the episode it led to, until the target is covered."""

    def __init__(
        self, target: Target, planner: Planner, adversary: Adversary, counts: Counts
    ) -> None:
        self.target = target
        self.planner = planner
        self.adversary = adversary
        self.counts = counts
        self.collected = np.zeros(len(target))
        self.state = adversary.start(target)

    @property
    def covered(self) -> bool:
        return bool((self.collected >= self.target.counts).all())

    def ask(self) -> Policy:
        """The policy to play next."""
        reward = self.target.cell_rewards(self.state.weights)
        return self.planner.plan(self.counts, reward)

    def tell(self, episode: Episode) -> Round:
        """Count an episode and let the adversary see it."""
        self.counts.add(episode)
        gains = self._gains(episode)
        for row, gain in gains.items():
            self.collected[row] += gain
        self.adversary.observe(self.target, self.state, gains, self.collected)
        return Round(self.counts.n_episodes, episode, self.covered)

    def _gains(self, episode: Episode) -> Gains:
        gains: Gains = {}
        for cell in episode.cells(self.target.shape):
            for row in self.target.rows_of_cell(cell):
                gains[row] = gains.get(row, 0) + 1
        return gains


def rounds(game: Game, source: EpisodeSource) -> Iterator[Round]:
    """Play until the target is covered; stopping earlier is the consumer's choice."""
    while not game.covered:
        yield game.tell(source.play(game.ask(), game.counts.n_episodes))
