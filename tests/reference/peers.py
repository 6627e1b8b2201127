"""Peers played in plain Python: what ``PeerPlayer`` and ``GoalsPlayer`` do in compiled code.

An episode depends only on its number and the actions. A player that replans within an episode
therefore plays it again from the beginning, with the same outcome up to that step.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.peer import Rollout
from covgame.episodes import Episode
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.sources.simulated import SimulatedSource
from covgame.types import Policy


def play_rollout(rollout: Rollout, counts: Counts, source: SimulatedSource) -> None:
    """Play and count one episode of what a peer wants to play."""
    plan, policy = rollout.plan, rollout.policy(counts)
    if isinstance(plan, Curiosity) and plan.replans:
        episode = _replanning(
            policy, counts.n_episodes, source,
            turns=lambda so_far: _has_doubled(counts, so_far),
            plan=lambda so_far: plan.policy(_counted(counts, so_far)),
        )  # fmt: skip
    else:
        episode = source.play(policy, counts.n_episodes)
    counts.add(episode)


def play_goals(game: Game, source: SimulatedSource, *, replans: bool) -> None:
    """Play one episode of GOSPRL's game and tell it; with ``replans`` also where visits double."""
    episode = _replanning(
        game.ask(), game.counts.n_episodes, source,
        turns=lambda so_far: _has_covered(game, so_far)
        or (replans and _has_doubled(game.counts, so_far)),
        plan=lambda so_far: _told(game, so_far).ask(),
    )  # fmt: skip
    game.tell(episode)


def _replanning(
    policy: Policy,
    number: int,
    source: SimulatedSource,
    turns: Callable[[Episode], bool],
    plan: Callable[[Episode], Policy],
) -> Episode:
    """An episode whose rest is planned anew after every step that is a reason to."""
    first = 0
    while True:
        episode = source.play(policy, number)
        steps = range(first, len(episode) - 1)
        first = next((s + 1 for s in steps if turns(_beginning(episode, s + 1))), 0)
        if not first:
            return episode
        table = policy.table.copy()
        table[first:] = plan(_beginning(episode, first)).table[first:]
        policy = Policy.deterministic(table, policy.actions)


def _beginning(episode: Episode, steps: int) -> Episode:
    return Episode(
        episode.state[:steps],
        episode.action[:steps],
        episode.reward[:steps],
        episode.next_state[:steps],
    )


def _has_doubled(counts: Counts, so_far: Episode) -> bool:
    """Whether the last step made the visits of its pair, at all stages, a power of two."""
    s, a = so_far.state[-1], so_far.action[-1]
    now = int(((so_far.state == s) & (so_far.action == a)).sum())
    return (int(counts.visits[:, s, a].sum()) + now).bit_count() == 1


def _has_covered(game: Game, so_far: Episode) -> bool:
    """Whether the last step covered a row that may be visited at any stage."""
    before = _told(game, _beginning(so_far, len(so_far) - 1))
    still_open = before.collected < game.target.counts
    covered = _told(game, so_far).collected >= game.target.counts
    return bool((still_open & covered & game.target.any_stage).any())


def _counted(counts: Counts, so_far: Episode) -> Counts:
    """The counts as if the episode had ended here."""
    copy = deepcopy(counts)
    copy.add(so_far)
    return copy


def _told(game: Game, so_far: Episode) -> Game:
    """The game as if the episode had ended here."""
    copy = deepcopy(game)
    if len(so_far):
        copy.tell(so_far)
    return copy
