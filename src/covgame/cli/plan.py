"""``covgame plan``: what a target costs, and what algorithms pay for a precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import covgame
from covgame.cli.common import say
from covgame.flow.functionals import Functionals
from covgame.planning import number
from covgame.sources.environments import Environment

LARGE = 20_000
LARGE_FOR_FUNCTIONALS = 2_000


def check_options(
    target: str | None, functionals: bool, epsilon: float | None, plot: Path | None
) -> str | None:
    """What is wrong with a combination of options, if anything."""
    if functionals != (epsilon is not None):
        return "--functionals and --epsilon go together"
    if target is None and not functionals:
        return "Missing option '--target'"
    if target is None and plot is not None:
        return "--plot draws the visits of a target; say --target"
    return None


def warn_if_large(environment: Environment, functionals: bool) -> None:
    """Linear programs over many cells take their time."""
    cells = environment.require_model("a plan").shape.cells
    if cells > (LARGE_FOR_FUNCTIONALS if functionals else LARGE):
        say(f"linear programs over {cells:,} cells; this can take a while")


def price(
    environment: Environment,
    target: str,
    *,
    min_reach: float,
    all_bounds: bool,
    top: int,
    plot: Path | None,
) -> tuple[dict[str, Any], str]:
    """The answer for a target, as JSON and as text; with ``plot`` also as a picture."""
    if plot is not None:
        from covgame.report.figures import check_can_draw

        check_can_draw(plot)
    result = covgame.plan(environment, target, min_reach=min_reach, all_bounds=all_bounds)
    answer, text = result.to_dict(top), result.to_text(top)
    if plot is not None:
        result.plot(plot)
    return answer, text


def compare(environment: Environment, epsilon: float) -> tuple[dict[str, Any], str]:
    """The functionals for a precision, as JSON and as text."""
    found = covgame.functionals(environment, epsilon=epsilon)
    H, S, A = environment.require_model("its functionals").shape.hsa
    answer = {"horizon": H, "states": S, "actions": A, "functionals": found.to_dict()}
    return answer, _show(environment.name, found)


def _show(name: str, found: Functionals) -> str:
    pedel = "-" if found.pedel is None else number(found.pedel)
    value_gap = "none" if found.value_gap is None else number(found.value_gap)
    policy_gap = "0 (the best has a twin)"
    if found.policy_gap is None:
        policy_gap = "none (there is one policy only)"
    elif found.policy_gap:
        policy_gap = number(found.policy_gap)
    lines = [
        f"{name}, epsilon {found.epsilon:g}: episodes per log(1/delta), leading terms",
        f"  PCE          {number(found.pce)}",
        f"  PRINCIPLE    {number(found.principle)}",
        f"  MOCA         {number(found.moca)}",
        f"  PEDEL        {pedel}" + (" (too many policies)" if found.pedel is None else ""),
        f"  policy gap   {policy_gap}",
        f"  value gap    {value_gap}",
    ]
    return "\n".join(lines)
