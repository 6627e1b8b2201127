"""From what was asked for to a game's first target, and how it changes on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covgame.config import CoverConfig
from covgame.errors import BadInput, Row, UnknownModel
from covgame.game.growing import (
    Growing,
    SeenGroups,
    SeenLabels,
    SeenRows,
    SeenTransitions,
    no_rows,
)
from covgame.game.growth import Growth, Rare, SecondLook
from covgame.mdp.model import TabularMDP
from covgame.names import Labels
from covgame.pac.mixtures import rarely_reached
from covgame.planning import resolve_target
from covgame.sources.environments import Environment
from covgame.sources.source import Source
from covgame.targets.groups import Grouped
from covgame.targets.moves import PossibleMoves, check_has_moves, possible_moves
from covgame.targets.reaching import check_reachable, drop_rarely_reached
from covgame.targets.requests import Listed, Request, Uniform, check_count, parse_request
from covgame.targets.target import Target

if TYPE_CHECKING:
    from covgame.storage.config import StoredCover
    from covgame.storage.folder import RunFolder

AnyTarget = Request | Target | str | Path

DEFAULT_TARGET = "uniform:10/pair"
NO_TARGET = (
    f"no target given: every action in every state 10 times, at any stage ({DEFAULT_TARGET})"
)
MANY_STAGES = 20
"""With more stages, a target per stage is seldom what somebody means."""


def per_stage_hint(environment: Environment, target: AnyTarget) -> str | None:
    """A sentence for who asks per stage where all stages are alike, None for others."""
    request = parse_request(str(target)) if isinstance(target, str | Path) else target
    model = environment.model
    alike = model is None or model.transitions.stationary
    if not (isinstance(request, Uniform) and request.per == "cell" and alike):
        return None
    if environment.horizon <= MANY_STAGES:
        return None
    return (
        f"{request} asks for every action in every state at each of {environment.horizon} stages; "
        f"{request}/pair asks for it at any stage, which takes far fewer episodes"
    )


@dataclass(frozen=True, eq=False)
class Asked:
    """What a game begins with."""

    target: Target
    growth: Growth
    never_reached: list[tuple[Row, float]] = field(default_factory=list)  # by the known model


def ask(
    environment: Environment, target: AnyTarget, settings: CoverConfig, source: Source
) -> Asked:
    """What was asked for, on an environment."""
    request = parse_request(str(target)) if isinstance(target, str | Path) else target
    if isinstance(request, Uniform) and request.per == "transition" and settings.play != "exact":
        raise BadInput("transitions are covered episode by episode; use --play exact")
    if environment.model is not None:
        return _on_model(environment, environment.model, request, settings)
    if settings.min_reach and source.discovers_states:
        raise BadInput(
            "--min-reach is certified from counts, which needs the number of states beforehand; "
            f"{environment.name} only shows its states as it goes"
        )
    asked = _on_unknown(environment, request, settings, source)
    asked.growth.second_look = _second_look(asked.growth, source)
    return asked


def _second_look(growth: Growth, source: Source) -> SecondLook | None:
    """Further states are looked for where states are discovered.

    Not for a ``Driver``, whose user ends the loop, nor for targets by label, which look anyway.
    """
    grows = growth.request is not None and not isinstance(growth.request, SeenLabels)
    return SecondLook() if grows and source.discovers_states and not source.is_driven else None


def _on_model(
    environment: Environment, model: TabularMDP, request: Request | Target, settings: CoverConfig
) -> Asked:
    """A target that a table has resolved; the learner is told no more than that."""
    last_step = shows_last_step(environment)
    asked = resolve_target(request, model, last_step=last_step)
    wanted = drop_rarely_reached(asked, model.transitions, settings.min_reach)
    check_reachable(wanted.target, model.transitions)
    if isinstance(request, Uniform) and request.per == "transition" and len(wanted.target):
        kept = wanted.target.rows[:, 1] * model.shape.actions + wanted.target.rows[:, 2]
        seen = _transitions(environment, request.count, kept)
        return Asked(seen.first(model.shape), Growth(seen), wanted.dropped)
    return Asked(wanted.target, Growth(), wanted.dropped)


def _transitions(environment: Environment, count: float, pairs: Any = None) -> SeenTransitions:
    """The transitions of an environment: those of its model, or whatever will be seen.

    Which transitions there are is part of the question, how probable they are is not.
    """
    last_step = shows_last_step(environment)
    check_has_moves(environment.horizon, last_step=last_step)
    if environment.model is None:
        return SeenTransitions(count, None, last_step)
    moves = possible_moves(environment.model.transitions, last_step=last_step)
    if pairs is not None:
        kept = np.isin(moves.pair, pairs)
        moves = PossibleMoves(moves.pair[kept], moves.successor[kept], moves.probability[kept])
    return SeenTransitions(count, moves, last_step)


def shows_last_step(environment: Environment) -> bool:
    """Whether the last step of an episode shows where it led: not where a model is simulated."""
    return environment.opener is not None


def _on_unknown(
    environment: Environment, request: Request | Target, settings: CoverConfig, source: Source
) -> Asked:
    """Without a table the target is what was seen so far, or rows over numbered states."""
    rare = _rare(settings)
    nothing = no_rows(source.shape)
    if isinstance(request, Uniform) and request.per == "transition":
        if rare is not None:
            raise BadInput("--min-reach leaves out cells, pairs and states, not transitions")
        seen = _transitions(environment, request.count)
        return Asked(seen.first(source.shape), Growth(seen))
    if isinstance(request, Uniform):
        return Asked(nothing, Growth(SeenRows(request), rare))
    if isinstance(request, Grouped):
        if rare is not None:
            raise BadInput("--min-reach leaves out cells, pairs and states, not groups")
        shown = _shown_by(request, source)
        return Asked(nothing, Growth(SeenGroups(shown, request.count, request.tries)))
    if isinstance(request, Listed) and not source.discovers_states:
        return Asked(request.on(source.shape, source.names), Growth(None, rare))
    if isinstance(request, Listed):
        return Asked(nothing, Growth(_by_label(request, source)))
    raise UnknownModel(
        f"{environment.name} has no transition table, so its target must be uniform:N, "
        "uniform:N/pair, uniform:N/state, uniform:N/transition, groups, or a list of cells (by "
        "label if its states are not numbered)"
    )


def _rare(settings: CoverConfig) -> Rare | None:
    """What to leave out on the way."""
    if not settings.min_reach:
        return None
    return partial(rarely_reached, delta=settings.delta, min_reach=settings.min_reach)


# ------------------------------------------------------------------------ what people call it


def _shown_by(request: Grouped, source: Source) -> Grouped:
    """The function's states are what was observed, its actions what they are called."""
    if source.model is not None:
        return request
    labels = source.actions.labels
    action: Callable[[int], Any] = int if labels is None else labels.__getitem__
    if not source.discovers_states:
        return request.shown_as(int, action)
    return request.shown_as(partial(observed, source), action)


def observed(source: Source, state: int) -> Any:
    """A discovered state as it was observed: text, numbers, tuples of them; others by label.

    Read from what is kept of it, so that it is the same after resuming.
    """
    keys, labels = source.state_keys or [], source.state_labels or []
    try:
        return _tuples(json.loads(keys[state]))
    except ValueError:
        return labels[state]


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value


def _by_label(listed: Listed, source: Source) -> SeenLabels:
    """Rows that wait for their states."""
    if listed.groups:
        raise BadInput(f"{listed.source}: groups of a file need states that are numbered")
    shape = source.shape
    labels = Labels({}, Labels.of(source.names, 0, shape.actions).actions)
    rows: dict[tuple[Any, ...], float] = {}
    for place, (h, s, a, count) in enumerate(listed.rows):
        where = f"{listed.source}: cells[{place}]"
        check_count(where, count)
        if not isinstance(s, str):
            raise BadInput(
                f"{where}: states get their numbers as they appear, so write what state {s} is "
                "called, as text"
            )
        if h is not None and not 0 <= h < shape.horizon:
            raise BadInput(
                f"{where}: stage {h} does not exist, there are {shape.horizon} "
                f"(0 to {shape.horizon - 1})"
            )
        action = labels.action(a, where) if isinstance(a, str) else a
        if action is not None and not 0 <= action < shape.actions:
            raise BadInput(
                f"{where}: action {action} does not exist, there are {shape.actions} "
                f"(0 to {shape.actions - 1})"
            )
        if (h, s, action) in rows:
            raise BadInput(f"{where}: this row appears twice")
        rows[h, s, action] = count
    wanted = tuple((h, s, a, count) for (h, s, a), count in rows.items() if count > 0)
    return SeenLabels(wanted, lambda: source.state_labels or [])


# ------------------------------------------------------------------------------- once more


def ask_again(
    folder: RunFolder,
    asked: StoredCover,
    environment: Environment,
    settings: CoverConfig,
    source: Source,
    target: AnyTarget | None,
) -> Callable[[], Asked]:
    """What the run of a folder began with; ``target`` is the function of its groups, if any."""
    from covgame.storage.folder import TARGET
    from covgame.targets.files import listed_from

    never: list[tuple[Row, float]] = [(row[:3], row[3]) for row in asked.unreachable]
    listed = listed_from(folder.read_document(TARGET), folder.database)
    if target is not None and not isinstance(target, Grouped):
        raise BadInput("a run keeps its target; only what covgame.groups makes is needed again")
    growing = asked.growing

    def begin() -> Asked:
        first = again()
        first.growth.second_look = _second_look(first.growth, source)
        return first

    def again() -> Asked:
        rare = None if environment.model else _rare(settings)
        if growing is None:
            return _with_left_out(Asked(listed.on(source.shape), Growth(None, rare)), never)
        request: Growing
        if growing.per == "transition":
            pairs = None
            if environment.model is not None:
                pairs = [s * source.shape.actions + a for _, s, a, _ in listed.rows]  # type: ignore[operator]
            seen = _transitions(environment, growing.count, pairs)
            return Asked(seen.first(source.shape), Growth(seen), never)
        if growing.per == "group":
            handed = None
            if target is not None:
                handed = replace(_shown_by(target, source), count=growing.count)
            request = SeenGroups(handed, growing.count, growing.tries)
        elif growing.per == "label":
            request = _by_label(listed, source)
        else:
            request = SeenRows(Uniform(growing.count, growing.per))
        return _with_left_out(Asked(no_rows(source.shape), Growth(request, rare)), never)

    return begin


def _with_left_out(asked: Asked, never: list[tuple[Row, float]]) -> Asked:
    """Rows that were left out on the way belong to the growth, others to the beginning."""
    if asked.growth.rare is None:
        return replace(asked, never_reached=never)
    asked.growth.left_out = list(never)
    return asked
