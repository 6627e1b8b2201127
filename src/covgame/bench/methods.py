"""Who is compared: our game, its variants, the peers, and players who know the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from covgame.baselines import gosprl, learn2explore
from covgame.baselines.ent_game import EntGame
from covgame.baselines.known_model import FlowPolicy, adaptive
from covgame.baselines.max_entropy import MaxEntropy
from covgame.baselines.peer import Peer
from covgame.baselines.playing import GamesPlayer, PeerPlayer, Player, RoundsPlayer
from covgame.baselines.rf_express import RFExpress
from covgame.baselines.rf_rl_explore import RFRLExplore
from covgame.baselines.rf_ucrl import RFUCRL
from covgame.baselines.ucbvi import UCBVI
from covgame.baselines.uniform_random import UniformRandom
from covgame.errors import BadInput
from covgame.game.adversary import Adversary, MissingOnly, TargetAware, WeightedMajority
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import OptimisticPlanner, RangeAwareOptimism
from covgame.game.presets import default_game, paper_game
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
    told: bool  # whether it is told the target; if not, one run serves all targets
    start: Start


def _game(make: Callable[[Target, bool], Game]) -> Start:
    """A game in compiled code, pooled where the world is stationary."""
    return lambda model, target, seed: GamesPlayer(
        iter([make(target, model.transitions.stationary)]), SimulatedSource(model, seed)
    )


def _untold(make: Callable[[int], Peer], *, pooled: bool = True) -> Start:
    """A peer that does not look at the target; practical forms pool as ours does."""

    def start(model: TabularMDP, target: Target, seed: int) -> Player:
        del target
        counts = Counts(model.shape, pooled=pooled and model.transitions.stationary)
        return PeerPlayer(make(seed), counts, SimulatedSource(model, seed))

    return start


def _rounds(make: Callable[[TabularMDP, Target], Game]) -> Start:
    """A game with a planner of its own."""
    return lambda model, target, seed: RoundsPlayer(
        make(model, target), SimulatedSource(model, seed)
    )


def _stages(delta: float | None) -> Start:
    return lambda model, target, seed: GamesPlayer(
        learn2explore.games(target, pooled=model.transitions.stationary, delta=delta),
        SimulatedSource(model, seed),
    )


def _variant(adversary: Adversary, *, apart: bool = False) -> Start:
    """Our planner with some adversary; ``apart``: no stage learns anything from another one."""
    return _game(
        lambda target, pooled: Game(
            target,
            OptimisticPlanner(RangeAwareOptimism()),
            adversary,
            Counts(target.shape, pooled=pooled and not apart, borrowing=not apart),
        )
    )


def _flow_policy(model: TabularMDP, target: Target, seed: int) -> Player:
    peer = FlowPolicy.of(model.transitions, target)
    return PeerPlayer(peer, Counts(model.shape, pooled=False), SimulatedSource(model, seed))


OURS = "covgame"
APART = "covgame, stages apart"
PAPER = "CovGame, paper"
PRACTICAL_TOLD = ("GOSPRL", "Learn2Explore (MOCA)")
PRACTICAL_UNTOLD = (
    *("RF-Express", "RF-UCRL", "EntGame", "MaxEnt Frank-Wolfe", "RF-RL-Explore", "UCBVI"),
    "uniform random",
)
PEERS = (*PRACTICAL_TOLD, *PRACTICAL_UNTOLD)
PAPER_TOLD = (PAPER, "GOSPRL, paper", "Learn2Explore (MOCA), paper")
PAPER_UNTOLD = ("RF-Express, paper", "RF-UCRL, paper", "EntGame, paper", "UCBVI, paper")
NOT_BORROWED = "covgame, stages apart, nothing borrowed"
MISSING, MAJORITY = "GOSPRL's reward, our planner", "paper's adversary, our planner"
VARIANTS = (APART, NOT_BORROWED, MISSING, MAJORITY)
FLOW, ADAPTIVE = "flow policy, model known", "adaptive, model known"

_METHODS = [
    Method(OURS, True, _game(lambda target, pooled: default_game(target, pooled=pooled))),
    Method(APART, True, _game(lambda target, _: default_game(target, pooled=False))),
    Method(PAPER, True, _game(lambda target, _: paper_game(target, delta=DELTA))),
    Method(NOT_BORROWED, True, _variant(TargetAware(), apart=True)),
    Method(MISSING, True, _variant(MissingOnly())),
    Method(MAJORITY, True, _variant(WeightedMajority())),
    Method("GOSPRL", True, _rounds(lambda model, target: gosprl.gosprl(
        target, pooled=model.transitions.stationary))),
    Method("GOSPRL, paper", True, _rounds(lambda _, target: gosprl.gosprl(
        target, pooled=False, delta=DELTA))),
    Method("Learn2Explore (MOCA)", True, _stages(None)),
    Method("Learn2Explore (MOCA), paper", True, _stages(DELTA)),
    Method("RF-RL-Explore", False, _untold(lambda seed: RFRLExplore(seed=seed))),
    Method("RF-UCRL", False, _untold(lambda _: RFUCRL())),
    Method("RF-UCRL, paper", False, _untold(lambda _: RFUCRL(DELTA), pooled=False)),
    Method("RF-Express", False, _untold(lambda _: RFExpress())),
    Method("RF-Express, paper", False, _untold(lambda _: RFExpress(DELTA), pooled=False)),
    Method("MaxEnt Frank-Wolfe", False, _untold(lambda _: MaxEntropy())),
    Method("EntGame", False, _untold(lambda _: EntGame())),
    Method("EntGame, paper", False, _untold(lambda _: EntGame(DELTA), pooled=False)),
    Method("UCBVI", False, _untold(lambda _: UCBVI())),
    Method("UCBVI, paper", False, _untold(lambda _: UCBVI(DELTA), pooled=False)),
    Method("uniform random", False, _untold(lambda _: UniformRandom())),
    Method(FLOW, True, _flow_policy),
    Method(ADAPTIVE, True, _rounds(lambda model, target: adaptive(model.transitions, target))),
]  # fmt: skip
METHODS = {method.name: method for method in _METHODS}


def method_named(name: str) -> Method:
    """The method, or a sentence that lists what there is."""
    if name not in METHODS:
        raise BadInput(f"there is no method {name!r}; there are: {'; '.join(METHODS)}")
    return METHODS[name]
