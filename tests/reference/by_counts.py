"""A game by counts in plain Python: what ``CountsEngine`` does in compiled code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from covgame.engine.engines import GROWTH, POLICIES, ROUNDS
from covgame.game.counts import CountedVisits
from covgame.game.game import Game
from covgame.game.in_flight import plan_batch
from covgame.mdp.model import TabularMDP
from covgame.sources.counted import STREAM, SortedSuccessors, draw_visits


def rounds_by_counts(game: Game, model: TabularMDP, seed: int) -> Iterator[CountedVisits]:
    """Play a game by counts until it is covered."""
    successors = SortedSuccessors(model)
    while not game.covered:
        rng = np.random.default_rng([seed, STREAM, game.counts.n_episodes])
        for _ in range(ROUNDS):
            size = max(1, int(GROWTH * game.counts.n_episodes))
            policies = min(POLICIES, size)
            each, more = divmod(size, policies)
            for number, policy in enumerate(plan_batch(game, policies, each)):
                if game.covered:
                    return
                seen = draw_visits(successors, policy, each + (1 if number < more else 0), rng)
                game.tell_visits(seen)
                yield seen
