"""Rewards by what people call states and actions."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from covgame.errors import BadInput
from covgame.mdp.model import TabularMDP
from covgame.names import Names
from covgame.runs.run import Run
from covgame.runs.saving import environment_of
from covgame.sources.environments import Environment
from covgame.storage.folder import NAMES, RunFolder
from covgame.storage.trust import code_named
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


def names_in(path: str | Path) -> Names:
    """What the states and actions of a run are called, as far as its folder tells."""
    folder = RunFolder.open(path)
    if folder.read_document(NAMES) is not None:
        return folder.load_names()
    known = folder.load_states()
    try:
        environment = environment_of(folder, code=code_named(folder.config))
        if environment.model is not None:
            return environment.model.names
        return environment.open(0, known=known).names
    except BadInput:
        if known is None:
            raise
        return Names(known[1])  # an environment that only its own program has
