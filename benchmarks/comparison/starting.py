"""How methods are started on a world: with which counts, and in which compiled player."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.comparison.players import (
    ExplorerPlayer,
    GamesPlayer,
    GoalsPlayer,
    PeerPlayer,
    Player,
    RoundsPlayer,
)
from covgame.baselines import learn2explore
from covgame.baselines.gosprl import NearestGoal, gosprl
from covgame.baselines.known_model import FlowPolicy, adaptive
from covgame.baselines.nearest_untried import NearestUntried, OfTarget
from covgame.baselines.peer import Peer
from covgame.game.adversary import Adversary
from covgame.game.counts import Counts
from covgame.game.custom_players import custom_game_named
from covgame.game.game import Game
from covgame.game.planner import Optimism, OptimisticPlanner, RangeAwareOptimism
from covgame.game.presets import default_game
from covgame.mdp.model import TabularMDP
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target

DELTA = 0.1

Start = Callable[[TabularMDP, Target, int], Player]
"""From a world, a target (which not everybody looks at) and a seed to a player."""


@dataclass(frozen=True)
class Method:
    """One way of collecting episodes."""

    name: str
    uses_target: bool  # if not, one run serves all targets
    start: Start


def play_game(make: Callable[[Target, bool], Game]) -> Start:
    """A game in compiled code, from the target and whether the world is stationary."""
    return lambda model, target, seed: GamesPlayer(
        iter([make(target, model.transitions.stationary)]), SimulatedSource(model, seed)
    )


def our_game(
    adversary: Adversary,
    optimism: Callable[[Target], Optimism] = lambda _: RangeAwareOptimism(),
    *,
    apart: bool = False,
) -> Start:
    """Our game with parts replaced; ``apart``: no stage learns anything from another one."""
    return play_game(
        lambda target, stationary: Game(
            target,
            OptimisticPlanner(optimism(target)),
            adversary,
            Counts(target.shape, pooled=stationary and not apart, borrowing=not apart),
        )
    )


def practical(make: Callable[[int], Peer], *, per_pair: bool = False) -> Start:
    """A peer that does not use the target.

    Its stages share what they learn as ours do; ``per_pair`` it does not tell them apart at all.
    """

    def start(model: TabularMDP, target: Target, seed: int) -> Player:
        del target
        pooled = per_pair or model.transitions.stationary
        counts = Counts(model.shape, pooled=pooled, borrowing=True)
        return PeerPlayer(make(seed), counts, SimulatedSource(model, seed))

    return start


def published(make: Callable[[], Peer], *, per_pair: bool = False) -> Start:
    """The same with the constants of its paper: stages apart, or all of them together."""
    return lambda model, _, seed: PeerPlayer(
        make(), Counts(model.shape, pooled=per_pair), SimulatedSource(model, seed)
    )


def play_own(name: str) -> Start:
    """Our game with the planner, peer or adversary that ``py:module:name`` names."""

    def start(model: TabularMDP, target: Target, seed: int) -> Player:
        ours = default_game(target, pooled=model.transitions.stationary)
        game = custom_game_named(ours, name)
        return GamesPlayer(iter([game]), SimulatedSource(model, seed))

    return start


def play_gosprl(delta: float | None = None, b: float = 0.0, *, borrowing: bool = True) -> Start:
    """GOSPRL, as published with a confidence ``delta``, or practical with the constant ``b``."""

    def start(model: TabularMDP, target: Target, seed: int) -> Player:
        game = gosprl(
            target, pooled=model.transitions.stationary, delta=delta, b=b, borrowing=borrowing
        )
        planner, source = NearestGoal(delta, b), SimulatedSource(model, seed)
        return GoalsPlayer(game, planner, source, replans=delta is None)

    return start


def play_nearest(kind: type[NearestUntried]) -> Start:
    """The explorer that walks to the nearest pair that lacks visits; stages share as ours do."""

    def start(model: TabularMDP, target: Target, seed: int) -> Player:
        pooled = model.transitions.stationary
        counts = Counts(target.shape, pooled=pooled, borrowing=True)
        return ExplorerPlayer(kind(counts, OfTarget(target)), SimulatedSource(model, seed))

    return start


def play_stages(delta: float | None = None, b: float = 0.0) -> Start:
    """Learn2Explore, as published or practical."""
    return lambda model, target, seed: GamesPlayer(
        learn2explore.games(target, pooled=model.transitions.stationary, delta=delta, b=b),
        SimulatedSource(model, seed),
    )


def play_flow(model: TabularMDP, target: Target, seed: int) -> Player:
    """The policy of phi*, blindly."""
    peer = FlowPolicy.of(model.transitions, target)
    return PeerPlayer(peer, Counts(model.shape, pooled=False), SimulatedSource(model, seed))


def play_known(model: TabularMDP, target: Target, seed: int) -> Player:
    """Our adversary on the true kernel."""
    return RoundsPlayer(adaptive(model.transitions, target), SimulatedSource(model, seed))
