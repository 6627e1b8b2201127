"""Rewards by what people call states and actions."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from covgame.errors import BadInput
from covgame.mdp.model import TabularMDP
from covgame.runs.run import Run
from covgame.sources.environments import Environment
from covgame.targets.requests import called
from covgame.types import FloatHSA


def rewards(
    rows: Iterable[tuple[int | None, Any, Any, float]], of: Run | Environment | TabularMDP
) -> FloatHSA:
    """An H x S x A array of rewards from rows (stage, state, action, reward), 0 elsewhere.

    Args:
        rows: ``None`` as a stage or action means every one; states and actions are numbers, or
            labels where they have names; rewards lie between 0 and 1.
        of: The run, environment or model that they are about.

    Returns:
        What ``run.model.plan`` takes.

    Example:
        >>> import covgame as cg
        >>> river = cg.make("riverswim:states=4,horizon=6")
        >>> float(cg.rewards([(None, 3, "right", 1.0)], river)[0].sum())
        1.0
    """
    from covgame.pac.files import reward_array

    try:
        read = [
            (
                None if h is None else operator.index(h),
                called(s),
                None if a is None else called(a),
                float(r),
            )
            for h, s, a, r in rows
        ]
    except (TypeError, ValueError) as error:
        raise BadInput(f"rewards are rows (stage, state, action, reward): {error}") from None
    for *_, reward in read:
        if not 0 <= reward <= 1:
            raise BadInput(f"rewards lie between 0 and 1, not {reward:g}")
    if isinstance(of, Environment):
        of = of.require_model("a reward by label")
    if not isinstance(of, Run | TabularMDP):
        raise BadInput("rewards are about a run, an environment or a model")
    shape = of.counts.shape if isinstance(of, Run) else of.shape
    return reward_array(read, shape, lambda: of.names)
