"""``plan``: what covering a target costs on a known model, why, and how to do it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from covgame import signals
from covgame.errors import BadInput, OutOfTime, Row
from covgame.flow import functionals as complexity
from covgame.flow import measures
from covgame.flow.alternatives import WorldClass
from covgame.flow.cheap_bounds import cheap_bounds
from covgame.flow.floor import Floor, FloorTask, learning_floor
from covgame.flow.functionals import Functionals
from covgame.flow.min_flow import MinFlow, min_flow
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.notebook import facts_table, rows_table
from covgame.sources.environments import Environment, as_environment
from covgame.sources.source import Source
from covgame.targets.requests import Uniform
from covgame.targets.resolve import AnyTarget, World, as_request, resolve
from covgame.targets.target import Target
from covgame.types import ANY, FloatHSA, Policy

SHOWN = 10
MACHINE_PRECISION = 1e-12
MANY_STAGES = 20
"""With more stages, a target per stage is seldom what is meant."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What a target costs: phi*, the bounds around it, the most expensive cells, the policy."""

    environment: str
    model: TabularMDP
    target: Target
    min_flow: MinFlow = field(repr=False)
    unreachable: list[tuple[Row, float]] = field(default_factory=list, repr=False)
    all_bounds: bool = field(default=False, repr=False)
    seconds: float | None = field(default=None, repr=False)  # in which it was not solved

    @property
    def min_episodes(self) -> float:
        """phi*(target): no method that always covers plays fewer episodes on average."""
        return self.min_flow.min_episodes

    @property
    def min_episodes_is(self) -> Literal["exact", "lower bound"]:
        """Whether ``min_episodes`` is phi* itself, up to a thousandth."""
        return "exact" if self.min_flow.is_exact else "lower bound"

    @property
    def attained(self) -> float:
        """phi* is no larger: so many episodes of ``policy`` meet the target in expectation."""
        return self.min_flow.upper

    @property
    def dual_gap(self) -> float:
        """The relative distance between phi* and the certificate that bounds it from below."""
        return self.min_flow.dual_gap

    @property
    def policy(self) -> Policy:
        """Played for phi* episodes, it meets the target in expectation."""
        return self.min_flow.policy

    @property
    def visits(self) -> FloatHSA:
        """Expected visits of each cell in phi* episodes of ``policy``."""
        return self.min_flow.flow

    @cached_property
    def bounds(self) -> measures.Bounds | None:
        """The chain of bounds around phi* (None for group targets); computed when asked for."""
        return measures.bounds(self.model.transitions, self.target, at_any_price=self.all_bounds)

    @cached_property
    def cells(self) -> int:
        """How many reachable cells the target concerns."""
        reachable = dp.reachable(self.model.transitions)[:, :, None]
        return int((self.target.support & reachable).sum())

    def dearest(self, most: int = SHOWN) -> list[tuple[Row, float]]:
        """The requirements whose next visit costs most, as (row, episodes)."""
        return self.min_flow.dearest(most)

    def to_dict(self, most: int = SHOWN) -> dict[str, Any]:
        """The JSON answer of ``covgame plan``."""
        bounds = self.bounds
        return {
            "environment": self.environment,
            "horizon": self.model.shape.horizon,
            "states": self.model.shape.states,
            "actions": self.model.shape.actions,
            "cells": self.cells,
            "requirements": len(self.target),
            "min_episodes": self.min_episodes,
            "min_episodes_is": self.min_episodes_is,
            "attained": _finite(self.attained),
            "dual_gap": _finite(self.dual_gap),
            "bounds": None
            if bounds is None
            else {name: _finite(value) for name, value in vars(bounds).items()},
            "dearest": [[*row, price] for row, price in self.dearest(most)],
            "unreachable": [[*row, reach] for row, reach in self.unreachable],
            **self.model.names.named(dearest=self.dearest(most), unreachable=self.unreachable),
            "policy": self.policy.to_list(),
        }

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the optimal visits, and what makes them expensive.

        With a ``path`` a file is written, whose ending says the format (svg, png, pdf); without one
        the matplotlib figure is returned, which a notebook shows.
        """
        from covgame.report.figures import plan_figure, shown_or_saved

        return shown_or_saved(plan_figure, self, path)

    def facts(self) -> list[tuple[str, str]]:
        """What there is to say, as (label, value) lines for people."""
        H, S, A = self.model.shape.hsa
        facts = [
            ("environment", f"{self.environment}: {H} stages, {S} states, {A} actions"),
            ("to cover", self._extent()),
            ("episodes", self.episodes_in_words()),
            ("certificate", self._certificate()),
        ]
        if self.bounds is not None:
            facts.append(("bounds", self._chain(self.bounds)))
        if self.unreachable:
            facts.append(("skipped", f"{len(self.unreachable)} rows below --min-reach"))
        return facts

    def _chain(self, bounds: measures.Bounds) -> str:
        chain = f"busiest stage {number(bounds.stage_max)} <= phi*"
        if bounds.stage_sum is not None:
            chain += f" <= each stage alone {number(bounds.stage_sum)}"
        if bounds.cell_sum is not None:
            chain += f" <= each cell alone {number(bounds.cell_sum)}"
        if None in (bounds.stage_sum, bounds.cell_sum):
            chain += " (--all-bounds computes the others)"
        return chain

    def _extent(self) -> str:
        visits = f"{number(self.target.counts.sum())} visits"
        if self.target.per_cell.all():
            return f"{self.cells:,} of {self.model.shape.cells:,} cells, {visits} in all"
        rows = f"{len(self.target):,} {kind_of_rows(self.target)}"
        return f"{rows} over {self.cells:,} cells, {visits} in all"

    def episodes_in_words(self) -> str:
        """phi*, or the two bounds where they differ by more than a thousandth."""
        lower, upper = number(self.min_flow.lower), number(self.min_flow.upper)
        if not self.min_flow.is_exact:
            return f"{lower} to {upper} on average (bounds on phi*)"
        return f"at least {lower} on average (phi*)"

    def _certificate(self) -> str:
        if self.seconds is not None:
            return f"both bounds are proved; phi* itself takes more than {self.seconds:g} seconds"
        exact = self.dual_gap < MACHINE_PRECISION
        if not self.min_flow.is_exact:
            return "both bounds are proved; no method brought them closer"
        precision = "machine precision" if exact else f"{self.dual_gap:.0e}"
        return f"lower and upper bound agree to {precision}"

    def dearest_facts(self, most: int = SHOWN) -> list[tuple[str, str]]:
        """(price, cell in words), the most expensive first."""
        return [
            (number(price), self.model.names.describe(row)) for row, price in self.dearest(most)
        ]

    def to_text(self, most: int = SHOWN) -> str:
        """The plan as a page for a terminal."""
        lines = [f"{label:<12} {value}" for label, value in self.facts()]
        dearest = self.dearest_facts(most)
        if dearest:
            lines += [
                "",
                "What makes it expensive (one more visit costs at least so many episodes)",
            ]
            width = max(len(price) for price, _ in dearest)
            lines += [f"  {price:>{width}}  {cell}" for price, cell in dearest]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        dearest = rows_table("Episodes for one more visit", self.dearest_facts())
        return facts_table(self.facts()) + dearest


def plan(
    env: Any,
    target: AnyTarget,
    *,
    horizon: int | None = None,
    min_reach: float = 0.0,
    all_bounds: bool = False,
    seconds: float | None = None,
) -> Plan:
    """What covering ``target`` costs on a known environment, why, and how to do it.

    Args:
        env: As in ``covgame.cover``; its transition table has to be known.
        target: What has to be visited how often, as in ``covgame.cover``.
        horizon: Steps of an episode at most, where ``env`` leaves it open.
        min_reach: Leave out what no policy reaches with this probability.
        all_bounds: Compute the upper bounds also where they take longer than phi* itself.
        seconds: How long phi* may take. After that the plan has the bounds that are proved by then,
            from below (``min_episodes``) and from above (``attained``).

    Returns:
        The plan: ``plan.min_episodes`` (phi*: no method that always covers plays fewer episodes on
        average), ``plan.policy``, ``plan.visits`` (H x S x A), ``plan.dearest()``, ``plan.bounds``.

    Raises:
        UnknownModel: There is no transition table.
        UnreachableTarget: The target asks for what no policy reaches.

    Example:
        >>> import covgame as cg
        >>> plan = cg.plan("chain:states=5,horizon=8", "uniform:10/pair")
        >>> plan.min_episodes <= cg.cover("chain:states=5,horizon=8", "uniform:10/pair").n_episodes
        True
    """
    environment = as_environment(env, horizon)
    model = environment.require_model("a plan")
    resolved = resolve(target, world_of(environment), min_reach)
    wanted = resolved.on_average or resolved.target
    found, in_time = _priced(model.transitions, wanted, seconds)
    return Plan(
        environment.name,
        model,
        wanted,
        found,
        resolved.unreachable,
        all_bounds,
        None if in_time else seconds,
    )


def _priced(
    transitions: Transitions, target: Target, seconds: float | None
) -> tuple[MinFlow, bool]:
    """phi*, or what is known of it after so many seconds; and whether they were enough.

    The first half of the time, at most, goes to bounds that need no program.
    """
    if seconds is None:
        return min_flow(transitions, target), True
    if not (isinstance(seconds, int | float) and 0 < seconds < np.inf):
        raise BadInput(f"--seconds is a positive number, not {seconds!r}")
    ends = time.monotonic() + seconds
    known = cheap_bounds(transitions, target, seconds=seconds / 2)
    try:
        with signals.time_limit(ends - time.monotonic()):
            return min_flow(transitions, target).combined(known), True
    except OutOfTime:
        return known, False


def functionals(env: Any, *, epsilon: float, horizon: int | None = None) -> Functionals:
    """What PCE, PRINCIPLE, MOCA and PEDEL pay per log(1/delta) on a known environment.

    Args:
        env: As in ``covgame.plan``.
        epsilon: The precision that they are asked for.
        horizon: Steps of an episode at most, where ``env`` leaves it open.

    Returns:
        One number for each of them, in episodes; lower is better.

    Raises:
        UnknownModel: There is no transition table.
    """
    if not (isinstance(epsilon, int | float) and 1e-12 <= epsilon <= 1e12):
        raise BadInput(f"epsilon is a positive number (1e-12 to 1e12), not {epsilon!r}")
    model = as_environment(env, horizon).require_model("its functionals")
    return complexity.functionals(model.transitions, model.rewards, float(epsilon))


def floor(
    env: Any,
    *,
    epsilon: float,
    task: FloorTask = "identify",
    delta: float = 0.1,
    horizon: int | None = None,
    stage_dependent: bool = False,
) -> Floor:
    """The episodes that every method needs on average that learns and also proves its answer.

    Methods are compared that return what ``identify`` and ``explore`` return: a policy with an
    interval of width epsilon that contains both its value and the best one, or a model that is
    right within epsilon / 2 about the value of every policy for every reward in [0, 1]; with
    probability 1 - delta, whatever the world. See docs/floor.md.

    Args:
        env: As in ``covgame.plan``. Rewards are taken as 0 or 1, drawn with the mean of the table
            and apart from the next state, as simulated episodes have them.
        epsilon: The precision, in units of the return.
        task: ``"identify"`` or ``"explore"``.
        delta: The probability with which an answer may be wrong, below 0.5.
        horizon: Steps of an episode at most, where ``env`` leaves it open.
        stage_dependent: Also count worlds whose stages differ, where those of ``env`` are alike.

    Returns:
        The floor: ``floor.episodes``, ``floor.alternatives`` (worlds that data have to tell apart
        from this one) and ``floor.multipliers``, with which backward induction proves it.

    Raises:
        UnknownModel: There is no transition table.
        TooLarge: The world is too large to search for alternatives.

    Example:
        >>> import covgame as cg
        >>> 20 < cg.floor("garnet:states=4,actions=2,horizon=4", epsilon=0.4).episodes < 30
        True
    """
    model = as_environment(env, horizon).require_model("its floor")
    pooled = model.transitions.stationary and not stage_dependent
    if task not in ("identify", "explore"):
        raise BadInput(f"the task is 'identify' or 'explore', not {task!r}")
    return learning_floor(world_class(model, task, pooled=pooled), task, epsilon, delta)


def world_class(
    model: TabularMDP, task: FloorTask, *, pooled: bool, new_outcomes: bool = True
) -> WorldClass:
    """The worlds that a method has to be right about, around a known one."""
    if task == "identify" and not has_unit_rewards(model):
        low, high = float(model.rewards.min()), float(model.rewards.max())
        raise BadInput(
            f"the floor of identify is for mean rewards in [0, 1], not from {low:g} to {high:g}"
        )
    return WorldClass(
        model.transitions,
        model.rewards * model.transitions.allowed_actions,
        stationary=pooled,
        same_rewards=pooled and len(model.stage_rewards) == 1,
        changes_rewards=task == "identify",
        new_outcomes=new_outcomes,
    )


def has_unit_rewards(model: TabularMDP) -> bool:
    """Whether all mean rewards lie in [0, 1]."""
    return bool((model.rewards >= 0).all() and (model.rewards <= 1).all())


def world_of(environment: Environment, source: Source | None = None) -> World:
    """What requests are resolved against: a known model, or what an open source shows."""
    name = environment.name
    if environment.model is not None or source is None:
        model = environment.require_model("a plan")
        shows_last_step = environment.opener is not None
        return World(name, model.shape, model.names, model.transitions, shows_last_step)
    if not source.discovers_states:
        return World(name, source.shape, source.names)
    return World(
        name,
        source.shape,
        source.names,
        labels=lambda: source.state_labels or [],
        observed=partial(observed, source),
    )


def observed(source: Source, state: int) -> Any:
    """A discovered state as it was observed: text, numbers, tuples of them; others by label.

    Read from what is stored of it, so that it is the same after resuming.
    """
    keys, labels = source.state_keys or [], source.state_labels or []
    try:
        return _tuples(json.loads(keys[state]))
    except ValueError:
        return labels[state]


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value


def per_stage_hint(environment: Environment, target: AnyTarget) -> str | None:
    """A sentence if the target is per stage, stages are many, and they are all alike."""
    request, model = as_request(target), environment.model
    alike = model is None or model.transitions.stationary
    if not (isinstance(request, Uniform) and request.per == "cell" and alike):
        return None
    if environment.horizon <= MANY_STAGES:
        return None
    return (
        f"{request} asks for every action in every state at each of {environment.horizon} stages; "
        f"{request}/pair asks for it at any stage, which takes far fewer episodes"
    )


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return value if value is not None and np.isfinite(value) else None


def kind_of_rows(target: Target) -> str:
    """What the rows of a target are, in the plural."""
    if target.per_cell.all():
        return "cells"
    if target.of_group.any():
        return "groups" if target.of_group.all() else "rows"
    stages, actions = target.rows[:, 0], target.rows[:, 2]
    if (stages == ANY).all() and (actions != ANY).all():
        return "state-action pairs"
    return "states" if (stages == ANY).all() and (actions == ANY).all() else "rows"


def number(value: float) -> str:
    """A number for people: 1,234.5, 115,080, 3.4e+13."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1e12 or abs(value) < 1e-3:
        return f"{value:.3g}"
    if abs(value - round(value)) <= MACHINE_PRECISION * value or abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def episodes(count: float) -> str:
    """``1 episode``, ``8,951 episodes``."""
    return "1 episode" if count == 1 else f"{number(count)} episodes"
