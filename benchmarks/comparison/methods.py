"""Who is compared: our game, its variants, the peers, and players who know the model."""

from __future__ import annotations

from benchmarks.comparison.forms import CHOSEN, FORMS, OURS, SCALED, chosen
from benchmarks.comparison.starting import (
    DELTA,
    Method,
    our_game,
    play_flow,
    play_game,
    play_gosprl,
    play_known,
    play_nearest,
    play_own,
    play_stages,
    practical,
    published,
)
from covgame.baselines.ent_game import EntGame
from covgame.baselines.nearest_untried import ExpectedSteps, NearestUntried
from covgame.baselines.rf_express import RFExpress
from covgame.baselines.rf_ucrl import RFUCRL
from covgame.baselines.ucbvi import UCBVI
from covgame.baselines.uniform_random import UniformRandom
from covgame.errors import BadInput
from covgame.game.adversary import MissingOnly, TargetAware, WeightedMajority
from covgame.game.game import Game
from covgame.game.planner import RangeAwareOptimism
from covgame.game.presets import default_game, paper_game
from covgame.imports import PREFIX
from covgame.targets.target import Target

__all__ = ["DELTA", "FORMS", "METHODS", "OURS", "SCALED", "Method", "is_own", "method_named"]

APART = "covgame, stages apart"
PAPER = "CovGame, paper"
NEAREST, EXPECTED = "nearest untried", "nearest untried, expected steps"
PRACTICAL_WITH_TARGET = ("GOSPRL", NEAREST, EXPECTED, "Learn2Explore (MOCA)")
PRACTICAL_WITHOUT_TARGET = (
    *("RF-Express", "RF-UCRL", "EntGame", "MaxEnt Frank-Wolfe", "RF-RL-Explore", "UCBVI"),
    "uniform random",
)
PEERS = (*PRACTICAL_WITH_TARGET, *PRACTICAL_WITHOUT_TARGET)
PAPER_WITH_TARGET = (PAPER, "GOSPRL, paper", "Learn2Explore (MOCA), paper")
PAPER_WITHOUT_TARGET = (
    *("RF-Express, paper", "RF-Express, paper, by pair"),
    *("RF-UCRL, authors' code by stage", "RF-UCRL, authors' code"),
    *("EntGame, authors' code by stage", "EntGame, authors' code"),
    "BPI-UCBVI, paper",
)
AUTHORS = {
    "RF-Express": ("RF-Express, paper", "RF-Express, paper, by pair"),
    "RF-UCRL": ("RF-UCRL, authors' code by stage", "RF-UCRL, authors' code"),
    "EntGame": ("EntGame, authors' code by stage", "EntGame, authors' code"),
}
"""The forms of their authors, beside those that tuning chooses from."""

NOT_BORROWED = "covgame, stages apart, nothing borrowed"
MISSING, MAJORITY = "GOSPRL's reward, our planner", "paper's adversary, our planner"
NOT_WITHIN = "covgame, nothing learnt within an episode"
UNDOUBTING = "covgame, one observation believed"
GOSPRL_APART = "GOSPRL, nothing borrowed"
VARIANTS = (
    *(APART, NOT_BORROWED, NOT_WITHIN, UNDOUBTING, MISSING, MAJORITY, SCALED),
    GOSPRL_APART,
)
FLOW, ADAPTIVE = "flow policy, model known", "adaptive, model known"


def _planned_ahead(target: Target, pooled: bool) -> Game:
    """The default game, which waits for the end of an episode before it learns."""
    game = default_game(target, pooled=pooled)
    game.learns_within = False
    return game


_METHODS = [
    Method(OURS, True, play_game(lambda target, pooled: default_game(target, pooled=pooled))),
    Method(APART, True, play_game(lambda target, _: default_game(target, pooled=False))),
    Method(PAPER, True, play_game(lambda target, _: paper_game(target, delta=DELTA))),
    Method(NOT_BORROWED, True, our_game(TargetAware(), apart=True)),
    Method(NOT_WITHIN, True, play_game(_planned_ahead)),
    Method(UNDOUBTING, True, our_game(
        TargetAware(), lambda _: RangeAwareOptimism(doubt=0.0, promise=1.0))),
    Method(MISSING, True, our_game(MissingOnly())),
    Method(MAJORITY, True, our_game(WeightedMajority())),
    Method(GOSPRL_APART, True, play_gosprl(b=0.03, borrowing=False)),
    Method("GOSPRL, paper", True, play_gosprl(DELTA)),
    Method(NEAREST, True, play_nearest(NearestUntried)),
    Method(EXPECTED, True, play_nearest(ExpectedSteps)),
    Method("Learn2Explore (MOCA), paper", True, play_stages(DELTA)),
    Method("RF-UCRL, authors' code by stage", False, published(
        lambda: RFUCRL(DELTA, clips=False))),
    Method("RF-UCRL, authors' code", False, published(
        lambda: RFUCRL(DELTA, per_pair=True, clips=False), per_pair=True)),
    Method("RF-Express, paper", False, published(lambda: RFExpress(DELTA))),
    Method("RF-Express, paper, by pair", False, published(
        lambda: RFExpress(DELTA, per_pair=True), per_pair=True)),
    Method("EntGame, authors' code by stage", False, published(lambda: EntGame(DELTA))),
    Method("EntGame, authors' code", False, published(
        lambda: EntGame(DELTA, per_pair=True), per_pair=True)),
    Method("BPI-UCBVI, paper", False, published(lambda: UCBVI(DELTA))),
    Method("uniform random", False, practical(lambda _: UniformRandom())),
    Method(FLOW, True, play_flow),
    Method(ADAPTIVE, True, play_known),
    *(chosen(peer) for peer in CHOSEN),
]  # fmt: skip
METHODS = {method.name: method for method in _METHODS}
"""The methods of the comparison; ``FORMS`` has those that were tried for it."""

_NAMED = METHODS | {form.name: form for forms in FORMS.values() for form in forms}


def is_own(name: str) -> bool:
    """Whether it is a user's own method."""
    return name.startswith(PREFIX)


def method_named(name: str) -> Method:
    """The method, or a sentence that lists what there is; ``py:module:name`` is a user's own."""
    if is_own(name):
        return Method(name, True, play_own(name))
    if name not in _NAMED:
        raise BadInput(f"there is no method {name!r}; there are: {'; '.join(_NAMED)}")
    return _NAMED[name]
