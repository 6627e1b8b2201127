"""Presets: values handed to the same game, not copies of it."""

from __future__ import annotations

from covgame.config import CoverConfig
from covgame.game.adversary import TargetAware, WeightedMajority
from covgame.game.counts import Counts
from covgame.game.custom_players import custom_game
from covgame.game.game import Game
from covgame.game.lookahead import is_long
from covgame.game.planner import OptimisticPlanner, PaperOptimism, RangeAwareOptimism
from covgame.game.size import Kept, Size, size_of
from covgame.targets.target import Target
from covgame.types import BoolArray


def default_game(
    target: Target,
    *,
    pooled: bool,
    allowed: BoolArray | None = None,
    looks_ahead: bool = False,
) -> Game:
    """Range-aware optimism, the target-aware adversary, and stages that learn from each other.

    Args:
        target: What is to be covered (``covgame.cells(...).on(shape)`` makes one).
        pooled: Whether the environment is the same at every stage.
        allowed: Which actions states have, S x A truth values, if not all.
        looks_ahead: Where stages need not be told apart and episodes are long: plan only as many
            stages ahead as it takes. The rows of a policy's table are then no longer the stages;
            ``policy.row(stage)`` says which.

    Returns:
        A game: ``game.ask()`` for a policy, ``game.tell(episode)`` what came of it, until
        ``game.covered``.
    """
    free = looks_ahead and pooled and target.stage_free and is_long(target.shape)
    counts = Counts(target.shape, pooled=pooled, borrowing=True, stage_free=free)
    optimism = RangeAwareOptimism(visit_bonus=0.1) if free else RangeAwareOptimism()
    return Game(target, OptimisticPlanner(optimism), TargetAware(), counts, allowed)


def paper_game(
    target: Target, *, delta: float, scale: float = 1.0, allowed: BoolArray | None = None
) -> Game:
    """Algorithm 1 with WMF and UCBVI, delta/2 to the planner; the paper never pools.

    Args:
        target: What is to be covered.
        delta: The probability with which the paper's bounds may fail.
        scale: Of the paper's thresholds.
        allowed: Which actions states have, S x A truth values, if not all.
    """
    optimism = PaperOptimism(target.shape, delta / 2, scale)
    counts = Counts(target.shape, pooled=False)
    return Game(target, OptimisticPlanner(optimism), WeightedMajority(), counts, allowed)


def configured_game(
    config: CoverConfig,
    target: Target,
    *,
    stationary: bool,
    allowed: BoolArray | None = None,
    stage_free: bool = False,
) -> Game:
    """The game that a configuration describes, before its first episode.

    Args:
        config: How to play.
        target: What is to be covered.
        stationary: Whether the environment is the same at every stage.
        allowed: Which actions states have, S x A truth values, if not all.
        stage_free: Whether the target never distinguishes stages, also when it grows.
    """
    if config.preset == "paper":
        game = paper_game(target, delta=config.delta, allowed=allowed)
    else:
        pooled = stationary and not config.stage_dependent
        looks_ahead = _looks_ahead(config, target, stage_free=stage_free)
        game = default_game(target, pooled=pooled, allowed=allowed, looks_ahead=looks_ahead)
    return (
        custom_game(game, config.planner, config.adversary) if config.has_custom_players else game
    )


def configured_size(
    config: CoverConfig, target: Target, *, stationary: bool, stage_free: bool = False
) -> Size:
    """Memory and time that ``configured_game`` needs, computed without allocating anything."""
    paper = config.preset == "paper"
    pooled = stationary and not config.stage_dependent and not paper
    looks_ahead = pooled and _looks_ahead(config, target, stage_free=stage_free)
    kept = Kept(pooled, not paper, not stage_free, looks_ahead)
    return size_of(target, target.shape.states, kept)


def _looks_ahead(config: CoverConfig, target: Target, *, stage_free: bool) -> bool:
    plain = config.play == "exact" and not config.has_custom_players
    return plain and stage_free and is_long(target.shape)
