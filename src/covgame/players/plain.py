"""Games in plain Python: whoever plans and weighs, somebody else's code included.

What compiled code does not know is played here: the same game, only slower.
"""

from __future__ import annotations

from covgame.episodes import Block, Episode, as_block
from covgame.game.game import EpisodeSource, Game
from covgame.types import FloatArray, Policy


class PlainGame:
    """A game that is asked and told as ``CompiledGame`` is."""

    def __init__(self, game: Game) -> None:
        self.game = game

    def ask(self) -> Policy:
        """The policy to play next."""
        return self.game.ask()

    def plan(self, weights: FloatArray) -> Policy:
        """The policy for rows that weigh so much, on what is counted now."""
        return self.game.planner.plan(self.game.counts, self.game.cell_rewards(weights))

    def revise(self, cell: int, successor: int) -> Policy | None:
        """``Game.revise``."""
        return self.game.revise(cell, successor)

    def discover(self, state: int) -> None:
        """Ask for the rows that are reserved for a state, also within an episode."""
        self.game.ask_for(self.game.reserved_rows(state))

    def abandon(self) -> None:
        """``Game.abandon``."""
        self.game.abandon()

    def tell(self, episode: Episode) -> None:
        """``Game.tell``."""
        self.game.tell(episode)

    def bind(self) -> None:
        """Nothing to do: it always looks at the game itself."""


class PlainPlayer:
    """Plays a game on any source that repeats its episodes, ``rounds`` in blocks."""

    def __init__(self, game: Game, source: EpisodeSource) -> None:
        self.game, self.counts, self.source = game, game.counts, source

    @property
    def finished(self) -> bool:
        """Whether nothing is left to play."""
        return self.game.covered

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if that covers the target."""
        game, first = self.game, self.game.counts.n_episodes
        played: list[Episode] = []
        while len(played) < episodes and not game.covered:
            episode = self.source.play(game.ask(), game.counts.n_episodes, game.revise)
            game.tell(episode)
            played.append(episode)
        return as_block(first, played)
