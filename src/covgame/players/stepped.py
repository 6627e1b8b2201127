"""A game on an environment that is played step by step; its target may grow on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from covgame.episodes import Block, Episode, as_block
from covgame.errors import EnvironmentFailed, EpisodeFailed, StorageFailed
from covgame.failures import Failure
from covgame.game.game import Game
from covgame.game.growth import Growth
from covgame.players.compiled import CompiledGame
from covgame.players.following import following_game
from covgame.players.plain import PlainGame
from covgame.sources.source import UNOBSERVED, EpisodeObserver, Source
from covgame.types import Policy


class SteppedPlayer:
    """Asks the game, plays the environment, tells the game."""

    def __init__(
        self,
        game: Game,
        source: Source,
        growth: Growth | None = None,
        inner: Callable[[Game], CompiledGame | PlainGame] = following_game,
        *,
        observer: EpisodeObserver = UNOBSERVED,
    ) -> None:
        self.game, self.source, self.observer = game, source, observer
        self.growth = growth or Growth()
        self.growth.begin(game)
        game.looks_again |= self.growth.looks_again and game.revising is not None
        game.has_reserve |= self.growth.reserves(game)
        self.inner = inner(game)
        self.discovered: set[int] = set()  # states whose rows are asked for
        self.failure: EnvironmentFailed | StorageFailed | KeyboardInterrupt | None = None
        self.n_avoided = source.masks.n_avoided if growth and growth.avoided is not None else 0

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if that covers the target and nothing more is found.

        If the environment fails, or Ctrl-C breaks it off, the episodes before are returned, and the
        error comes next time.
        """
        if self.failure is not None:
            raise self.failure
        first = self.game.counts.n_episodes
        played: list[Episode] = []
        while len(played) < episodes and not self._over():
            number = self.game.counts.n_episodes
            self._make_room()
            looking = self.growth.is_second_look(self.game)
            try:
                if looking and self._looks_at_random():
                    policy = Policy.uniform(self.game.target.shape)
                    episode = self.source.play(policy, number, None, self.observer)
                else:
                    policy = self.next_policy()
                    episode = self.source.play(policy, number, self.revise, self.observer)
            except EpisodeFailed:
                self.abandon()
                continue
            except (EnvironmentFailed, StorageFailed, KeyboardInterrupt) as error:
                self.failure = error
                self.abandon()
                break
            self._tell(episode, looking=looking)
            played.append(episode)
        self._over()  # so that nobody takes a target for covered that has yet to grow
        return as_block(first, played)

    def _looks_at_random(self) -> bool:
        """Every other episode of a second look has random actions, the others are planned."""
        look = self.growth.second_look
        return not self.game.looks_again or (look is not None and look.in_vain % 2 == 1)

    def replay(
        self, episode: Episode, *, played: bool = False, avoided: Failure | None = None
    ) -> None:
        """Count an episode that was played elsewhere.

        Args:
            episode: The episode.
            played: It was played by the policy asked for last.
            avoided: The failure that ended it, if its action was avoided from then on.
        """
        if not played:
            self._over()  # as before playing: given data are a part of the target
        if avoided is not None:
            self._discover_all(episode)  # before the failure
            self.source.avoid(avoided)
        self._tell(episode)
        self._over()  # the target grows when it did

    def _over(self) -> bool:
        """Whether all is covered, what was seen last included, and a second look found nothing."""
        if self.source.masks.n_avoided != self.n_avoided:
            self.n_avoided = self.source.masks.n_avoided
            self.growth.avoid(self.source.masks.as_array(self.source.shape.states))
        if self.growth.update(self.game, self.source.allowed):
            self._target_changed()
        return self.game.counts.n_episodes > 0 and self.growth.is_over(self.game)

    def next_policy(self) -> Policy:
        """The policy to play next; the first state of an episode may be a new one."""
        policy = self.inner.ask()

        def start(state: int) -> Policy:
            self._discover(state)
            return policy.begin(state)

        return replace(policy, on_start=start)

    def revise(self, cell: int, successor: int) -> Policy | None:
        """Take notice of a step, and of a state that is seen for the first time."""
        self._discover(successor)
        return self.inner.revise(cell, successor)

    def _discover(self, state: int) -> None:
        """Ask for what is reserved for a state, in the step in which it is seen."""
        if state in self.discovered or not self.game.has_reserve:
            return
        self.discovered.add(state)
        if self.source.masks.ever is not None and self.game.reserved_rows(state):
            self.game.allow_in(state, self.source.masks.ever[state])
        self.inner.discover(state)

    def abandon(self) -> None:
        """Forget an episode that will not be told, and the states that it discovered."""
        self.discovered.clear()
        self.inner.abandon()

    def _make_room(self) -> None:
        """Have room for all states that the next episode can show."""
        room = self.source.shape.states
        if room > self.game.target.shape.states:
            self.growth.make_room(self.game, room, self.source.allowed)
            self._target_changed()

    def _target_changed(self) -> None:
        """Have plans made for the target as it is now."""
        self.inner.bind()

    def _tell(self, episode: Episode, *, looking: bool | None = None) -> None:
        """Count an episode; ``looking``: whether it was one of a second look, if that is known."""
        if looking is None:
            looking = self.growth.is_second_look(self.game)
        if looking and self.growth.second_look is not None:
            self.growth.second_look.play()
        self._discover_all(episode)
        self.inner.tell(episode)
        self.growth.hear(self.game, episode)

    def _discover_all(self, episode: Episode) -> None:
        self._make_room()
        for state in episode.state.tolist():
            self._discover(state)
