"""Lazy play: several policies a round, each for a few episodes, planned on anticipated visits."""

from __future__ import annotations

import contextlib
import math
import time

from covgame.episodes import Block, Episode, as_block
from covgame.errors import EnvironmentFailed, EpisodeFailed, StorageFailed
from covgame.game.batches import plan_batch
from covgame.game.game import Game
from covgame.players.compiled import inner_game
from covgame.sources.source import UNOBSERVED, EpisodeObserver, Source
from covgame.types import Policy

POLICIES = 8
SHARE = 0.2
"""Planning may take this share of the time."""

MOST_EACH = 64


class BatchedPlayer:
    """Plans a round of policies, plays each for a few episodes, tells them all.

    With ``each`` None the number of episodes per policy is chosen from what planning and playing
    cost, so that planning takes about a fifth of the time; it is 1 where planning is cheap.
    """

    def __init__(
        self,
        game: Game,
        source: Source,
        *,
        policies: int = POLICIES,
        each: int | None = None,
        observer: EpisodeObserver = UNOBSERVED,
    ) -> None:
        self.game, self.source, self.policies = game, source, policies
        self.observer = observer
        self.each, self.measured = each or 1, each is None
        self.inner = inner_game(game)
        self.planning = self.playing = 0.0
        self.failure: EnvironmentFailed | StorageFailed | KeyboardInterrupt | None = None

    def play(self, most: int) -> Block:
        """One round of at most so many episodes."""
        game, first = self.game, self.game.counts.n_episodes
        each = min(self.each, most)
        policies = max(1, min(self.policies, most // each))
        began = time.perf_counter()
        batch = plan_batch(game, policies, each, self.inner.plan)
        planned = time.perf_counter()
        played = self._episodes(first, [policy for policy in batch for _ in range(each)])
        self._measure(planned - began, time.perf_counter() - planned, len(played))
        for episode in played:
            self.inner.tell(episode)
        return as_block(first, played)

    def _episodes(self, first: int, policies: list[Policy]) -> list[Episode]:
        """One episode of each; those before a failure are kept, and the error comes next time."""
        if self.failure is not None:
            raise self.failure
        played: list[Episode] = []
        try:
            for number, policy in enumerate(policies, first):
                played.append(self._episode(policy, number))
        except (EnvironmentFailed, StorageFailed, KeyboardInterrupt) as error:
            self.failure = error
        return played

    def _episode(self, policy: Policy, number: int) -> Episode:
        """Tried again as long as that makes sense."""
        while True:
            with contextlib.suppress(EpisodeFailed):
                return self.source.play(policy, number, None, self.observer)

    def _measure(self, planning: float, playing: float, episodes: int) -> None:
        """How many episodes a policy should be played for."""
        self.planning += planning / self.policies
        self.playing += playing / max(1, episodes)
        if self.measured and self.playing > 0:
            wanted = self.planning / self.playing * (1 - SHARE) / SHARE
            self.each = max(1, min(MOST_EACH, math.ceil(wanted - 1e-9)))
