"""The forms of every practical method, and which of them the comparison shows.

Peers may count visits by stage, as most papers write them, or by pair, as the public code of some
authors does; and each has one constant. What helps whoever uses it, they all have: stages learn
from each other, and plans are renewed within an episode. All forms are run on worlds that the
comparison does not have (the profile ``tuning``), everybody with as many constants. For targets
over cells and for targets over pairs the form with the fewest episodes there is the peer's row in
the comparison. Our own row is the default, whatever its best constant: b = 0.03.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.comparison.players import Player
from benchmarks.comparison.starting import (
    DELTA,
    Method,
    Start,
    our_game,
    play_gosprl,
    play_stages,
    practical,
)
from covgame.baselines.ent_game import EntGame
from covgame.baselines.max_entropy import MaxEntropy
from covgame.baselines.peer import Peer
from covgame.baselines.rf_express import RFExpress
from covgame.baselines.rf_rl_explore import RFRLExplore
from covgame.baselines.rf_ucrl import RFUCRL
from covgame.baselines.ucbvi import UCBVI
from covgame.game.adversary import TargetAware, WeightedMajority
from covgame.game.planner import PaperOptimism, RangeAwareOptimism
from covgame.mdp.model import TabularMDP
from covgame.targets.target import Target

OURS = "covgame"
SCALED = "paper's adversary and optimism, scaled"

CONSTANTS = (0.0, 0.003, 0.03, 0.3)
"""b: of every bonus."""

SCALES = (0.003, 0.03, 0.3, 1.0)
"""Of bonuses that are all there is to go for, so that 0 would be nothing."""

LEARNING, SMOOTHING = (5, 25, 100), (0.1, 1.0, 10.0)
"""N_0 of RF-RL-Explore; sigma of MaxEnt, in visits."""

KINDS = ("cells", "pairs")


def kind_of(target: str) -> str:
    """One of ``KINDS``, from the name of a target."""
    return "pairs" if target.endswith("/pair") else "cells"


def _without_target(
    peer: str, letter: str, constants: Sequence[float], make: Callable[[float, bool, int], Peer]
) -> list[Method]:
    """A peer that does not use the target, from a constant, whether it counts by pair, a seed."""

    def form(constant: float, per_pair: bool) -> Method:
        counted = "by pair" if per_pair else "by stage"
        start = practical(lambda seed: make(constant, per_pair, seed), per_pair=per_pair)
        return Method(f"{peer}, {counted}, {letter}={constant:g}", False, start)

    return [form(constant, per_pair) for per_pair in (False, True) for constant in constants]


def _with_target(peer: str, start: Callable[[float], Start]) -> list[Method]:
    """A method that uses the target, from its b."""
    return [Method(f"{peer}, b={b:g}", True, start(b)) for b in CONSTANTS]


def _scaled(scale: float) -> Start:
    """The paper's players, its confidence set aside; stages learn from each other."""
    return our_game(
        WeightedMajority(), lambda target: PaperOptimism(target.shape, DELTA / 2, scale)
    )


FORMS: dict[str, list[Method]] = {
    OURS: _with_target(OURS, lambda b: our_game(TargetAware(), lambda _: RangeAwareOptimism(b))),
    SCALED: _with_target(SCALED, _scaled),
    "GOSPRL": _with_target("GOSPRL", lambda b: play_gosprl(b=b)),
    "Learn2Explore (MOCA)": _with_target("Learn2Explore (MOCA)", lambda b: play_stages(b=b)),
    "RF-Express": _without_target("RF-Express", "scale", SCALES,
        lambda scale, by_pair, _: RFExpress(per_pair=by_pair, replans=True, scale=scale)),
    "RF-UCRL": [
        *_without_target("RF-UCRL", "scale", SCALES, lambda scale, by_pair, _: RFUCRL(
            per_pair=by_pair, replans=True, scale=scale)),
        *_without_target("RF-UCRL, falling", "scale", SCALES, lambda scale, by_pair, _: RFUCRL(
            per_pair=by_pair, replans=True, scale=scale, falling=True)),
    ],
    "EntGame": _without_target("EntGame", "b", CONSTANTS, lambda b, by_pair, _: EntGame(
        per_pair=by_pair, replans=True, b=b)),
    "MaxEnt Frank-Wolfe": _without_target("MaxEnt Frank-Wolfe", "sigma", SMOOTHING,
        lambda sigma, by_pair, _: MaxEntropy(1, sigma, per_pair=by_pair, replans=True)),
    "RF-RL-Explore": _without_target("RF-RL-Explore", "N_0", LEARNING, lambda number, by_pair, seed:
        RFRLExplore(int(number), seed, per_pair=by_pair, replans=True)),
    "UCBVI": _without_target("UCBVI", "b", CONSTANTS, lambda b, by_pair, _: UCBVI(
        per_pair=by_pair, replans=True, b=b)),
}  # fmt: skip

CHOSEN: dict[str, dict[str, str]] = {
    SCALED: {
        "cells": f"{SCALED}, b=0",
        "pairs": f"{SCALED}, b=0",
    },
    "GOSPRL": {
        "cells": "GOSPRL, b=0.003",
        "pairs": "GOSPRL, b=0.003",
    },
    "Learn2Explore (MOCA)": {
        "cells": "Learn2Explore (MOCA), b=0.003",
    },
    "RF-Express": {
        "cells": "RF-Express, by stage, scale=1",
        "pairs": "RF-Express, by pair, scale=0.003",
    },
    "RF-UCRL": {
        "cells": "RF-UCRL, by stage, scale=0.03",
        "pairs": "RF-UCRL, by pair, scale=0.3",
    },
    "EntGame": {
        "cells": "EntGame, by stage, b=0.03",
        "pairs": "EntGame, by pair, b=0",
    },
    "MaxEnt Frank-Wolfe": {
        "cells": "MaxEnt Frank-Wolfe, by stage, sigma=0.1",
        "pairs": "MaxEnt Frank-Wolfe, by pair, sigma=1",
    },
    "RF-RL-Explore": {
        "cells": "RF-RL-Explore, by stage, N_0=25",
        "pairs": "RF-RL-Explore, by pair, N_0=5",
    },
    "UCBVI": {
        "cells": "UCBVI, by stage, b=0.3",
        "pairs": "UCBVI, by stage, b=0.003",
    },
}
"""The form of every peer by kind of target; a test compares it with the tuning's results."""


def form_of(peer: str, target: str) -> str:
    """The name of the form that the comparison shows; of others than peers, the name itself."""
    return CHOSEN.get(peer, {}).get(kind_of(target), peer)


def chosen(peer: str) -> Method:
    """The peer in the form that is chosen for what it is started for."""
    by_name = {method.name: method for method in FORMS[peer]}

    def start(model: TabularMDP, target: Target, seed: int) -> Player:
        kind = "pairs" if target.any_stage.any() else "cells"
        return by_name[CHOSEN[peer][kind]].start(model, target, seed)

    return Method(peer, FORMS[peer][0].uses_target, start)
