"""``covgame plan``: what a target costs, and what a precision costs in learning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

import covgame
from covgame.cli.messages import print_json, say, say_unless, show
from covgame.cli.options import common_options, config_option, world_and_target
from covgame.config import CoverConfig
from covgame.flow.floor import FloorTask
from covgame.flow.functionals import Functionals
from covgame.planning import Plan, has_unit_rewards, number, per_stage_hint
from covgame.sources.environments import Environment

TASKS: tuple[FloorTask, ...] = ("identify", "explore")
LARGE = 20_000
LARGE_FOR_PRECISION = 2_000


@click.command()
@partial(world_and_target, required=False)
@config_option("min_reach", CoverConfig.model_fields["min_reach"])
@click.option(
    "--functionals",
    "with_functionals",
    is_flag=True,
    help="What PCE, PRINCIPLE, MOCA and PEDEL pay for the precision --epsilon.",
)
@click.option(
    "--floor",
    "with_floor",
    is_flag=True,
    help="The episodes that any method needs that also proves its answer, for --epsilon, --delta.",
)
@click.option("--epsilon", type=float, help="The precision, for --functionals and --floor.")
@click.option(
    "--delta",
    type=float,
    default=0.1,
    show_default=True,
    help="How likely an answer may be wrong, for --floor.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many of the most expensive cells to show.",
)
@click.option(
    "--all-bounds",
    is_flag=True,
    help="Compute the upper bounds also where they take longer than phi* itself.",
)
@click.option(
    "--seconds",
    type=float,
    help="How long phi* may take; after that the bounds proved by then are printed.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the optimal visits into this file (svg, png or pdf).",
)
@common_options
def plan(
    env: str,
    target: str | None,
    horizon: int | None,
    min_reach: float,
    with_functionals: bool,
    with_floor: bool,
    epsilon: float | None,
    delta: float,
    top: int,
    all_bounds: bool,
    seconds: float | None,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """What covering costs on a known model, why, and the policy that does it.

    \b
    ENV is a family (covgame envs), gym:NAME or a covgame-mdp/1 file.
    Examples:
      covgame plan riverswim:states=8 --target uniform:50
      covgame plan gym:FrozenLake-v1 --horizon 12 --target uniform:50/pair --plot visits.svg
      covgame plan model.json --target target.json --json
      covgame plan grid:rows=30,columns=30,horizon=80 --target uniform:3/pair --seconds 60
      covgame plan twobranch --functionals --epsilon 0.1
      covgame plan riverswim:states=5,horizon=10 --floor --epsilon 1 --delta 0.1
    """
    wrong = _complaint(target, with_functionals or with_floor, epsilon, plot)
    if wrong is not None:
        raise click.UsageError(wrong)
    environment = covgame.make(env, horizon)
    if not quiet:
        _warn_if_large(environment, with_functionals or with_floor, seconds)
        say_unless(False, per_stage_hint(environment, target) if target else None)
    answer: dict[str, Any] = {}
    pages = []
    if epsilon is not None and with_functionals:
        answer, page = _compare(environment, epsilon)
        pages.append(page)
    if epsilon is not None and with_floor:
        floors, page = _floors(environment, epsilon, delta)
        answer |= floors
        pages.append(page)
    if target is not None:
        price = partial(
            covgame.plan, target=target, min_reach=min_reach, all_bounds=all_bounds, seconds=seconds
        )
        priced, page = _price(environment, price, top=top, plot=plot)
        answer |= priced
        pages.insert(0, page)
    if plot is not None and not quiet:
        say(f"drew {plot}")
    if as_json:
        print_json(answer)
    else:
        show("\n\n".join(pages))


def _complaint(
    target: str | None, has_precision: bool, epsilon: float | None, plot: Path | None
) -> str | None:
    """What is wrong with a combination of options, if anything."""
    if has_precision and epsilon is None:
        return "--functionals and --floor need --epsilon"
    if epsilon is not None and not has_precision:
        return "--epsilon is for --functionals and --floor; add one of them"
    if target is None and not has_precision:
        return "Missing option '--target'"
    if target is None and plot is not None:
        return "--plot draws the visits of a target; say --target"
    return None


def _warn_if_large(environment: Environment, has_precision: bool, seconds: float | None) -> None:
    """Linear programs over many cells take their time."""
    cells = environment.require_model("a plan").shape.cells
    if cells > (LARGE_FOR_PRECISION if has_precision else LARGE):
        sooner = "" if has_precision or seconds else "; --seconds 60 prints what is proved by then"
        say(f"linear programs over {cells:,} cells; this can take a while{sooner}")


def _price(
    environment: Environment, price: Callable[[Environment], Plan], *, top: int, plot: Path | None
) -> tuple[dict[str, Any], str]:
    """The answer for a target, as JSON and as text; with ``plot`` also as a picture."""
    if plot is not None:
        from covgame.report.figures import check_can_draw

        check_can_draw(plot)
    result = price(environment)
    answer, text = result.to_dict(top), result.to_text(top)
    if plot is not None:
        result.plot(plot)
    return answer, text


def _compare(environment: Environment, epsilon: float) -> tuple[dict[str, Any], str]:
    """The functionals for a precision, as JSON and as text."""
    found = covgame.functionals(environment, epsilon=epsilon)
    H, S, A = environment.require_model("its functionals").shape.hsa
    answer = {"horizon": H, "states": S, "actions": A, "functionals": found.to_dict()}
    return answer, _show(environment.name, found)


def _floors(environment: Environment, epsilon: float, delta: float) -> tuple[dict[str, Any], str]:
    """The floors of both tasks, as JSON and as text; also with stages pooled if they are alike."""
    model = environment.require_model("its floor")
    H, S, A = model.shape.hsa
    classes = [("", True), ("_pooled", False)] if model.transitions.stationary else [("", True)]
    found: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    lines = [
        f"{environment.name}, epsilon {epsilon:g}, delta {delta:g}: "
        "episodes that any method needs on average that also proves its answer"
    ]
    for task in TASKS:
        for suffix, apart in classes:
            label = task if apart else f"{task}, stages pooled"
            if task == "identify" and not has_unit_rewards(model):
                found[task + suffix] = None
                lines.append(f"  {label:<24} none, because rewards do not lie in [0, 1]")
                continue
            floor = covgame.floor(
                model, task=task, epsilon=epsilon, delta=delta, stage_dependent=apart
            )
            found[task + suffix] = floor.to_dict()
            ended = "" if floor.ended else "; the search reached its limit"
            worlds = f"{len(floor.alternatives)} alternative worlds{ended}"
            lines.append(f"  {label:<24} {number(floor.episodes)}  ({worlds})")
    return {"horizon": H, "states": S, "actions": A, "floor": found}, "\n".join(lines)


def _show(name: str, found: Functionals) -> str:
    pedel = "-" if found.pedel is None else number(found.pedel)
    value_gap = "none" if found.value_gap is None else number(found.value_gap)
    policy_gap = "0 (several policies are best)"
    if found.policy_gap is None:
        policy_gap = "none (there is only one policy)"
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
