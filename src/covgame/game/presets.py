"""Presets: values handed to the same game, not copies of it."""

from __future__ import annotations

from covgame.game.adversary import TargetAware, WeightedMajority
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.lookahead import is_long
from covgame.game.planner import OptimisticPlanner, PaperOptimism, RangeAwareOptimism
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
    optimism = RangeAwareOptimism(visit_bonus=0.5) if free else RangeAwareOptimism()
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
