"""From a request to rows: on a known model, on a world that is discovered, or on data.

``resolve`` gives the first target, and how it grows with what is seen. ``plan``, ``cover``,
``resume``, ``certify``, ``audit`` and ``covgame.testing`` all use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from covgame.errors import BadInput, Row, UnknownModel, UnreachableTarget
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.names import Labels, Names
from covgame.targets.discovered import (
    DiscoveredTarget,
    SeenGroups,
    SeenLabels,
    SeenRows,
    SeenTransitions,
    no_rows,
)
from covgame.targets.moves import PossibleMoves, check_has_moves, moves_target, possible_moves
from covgame.targets.requests import (
    CellCounts,
    Grouped,
    Listed,
    Request,
    Uniform,
    check_count,
    check_exists,
    parse_request,
)
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, BoolHSA, FloatArray, Shape

AnyTarget = Request | Target | str | Path

DEFAULT_TARGET = "uniform:10/pair"
NO_TARGET = (
    f"no target given: every action in every state 10 times, at any stage ({DEFAULT_TARGET})"
)


@dataclass(frozen=True, eq=False)
class World:
    """What a request is resolved against.

    Attributes:
        name: What messages call it.
        shape: Stages, states and actions; with room for states that are still to be discovered.
        names: What states and actions are called.
        transitions: Its table, None if that is not known.
        shows_last_step: Whether the last step of an episode shows its next state: not where a model
            is simulated.
        labels: The labels of the states discovered so far, None if states are numbered.
        observed: From the number of a discovered state to what was observed; ``groups`` calls its
            function with that, elsewhere with names or numbers.
        learnt: An estimate of the table, against which requests about probabilities are resolved
            where it is not known; None if there is none.
    """

    name: str
    shape: Shape
    names: Names = field(default_factory=Names)
    transitions: Transitions | None = None
    shows_last_step: bool = True
    labels: Callable[[], Sequence[str]] | None = None
    observed: Callable[[int], Any] | None = None
    learnt: Callable[[], Transitions] | None = None

    def shown(self, request: Grouped) -> Grouped:
        """A request for groups, with what its function is called with."""
        states, actions = (
            int if names is None else names.__getitem__
            for names in (self.names.states, self.names.actions)
        )
        return replace(request, state=self.observed or states, action=actions)


@dataclass(frozen=True, eq=False)
class Resolved:
    """The first target, and how it grows."""

    target: Target
    discovered: DiscoveredTarget | None = None  # None: it does not grow
    unreachable: list[tuple[Row, float]] = field(default_factory=list)  # by the known table
    on_average: Target | None = None  # of transitions: the visits of pairs that they take


def as_request(target: AnyTarget | None) -> Request | Target:
    """A target in any form as a request; the default target for None."""
    if target is None:
        return parse_request(DEFAULT_TARGET)
    return parse_request(str(target)) if isinstance(target, str | Path) else target


def is_about_transitions(request: Request | Target) -> bool:
    """Whether transitions are asked for, and not cells."""
    return isinstance(request, Uniform) and request.per == "transition"


def resolve(  # noqa: PLR0911 (a return for every kind of request)
    target: AnyTarget, world: World, min_reach: float = 0.0
) -> Resolved:
    """The rows that a target means on a world, and how they grow.

    Args:
        target: A request, its text, a file, or a ``Target``.
        world: A known model, one that is discovered during a run, or data.
        min_reach: Leave out rows that no policy reaches with this probability (on a known model).

    Raises:
        BadInput: The target makes no sense on this world.
        UnreachableTarget: It asks for what no policy reaches.
    """
    request = parse_request(str(target)) if isinstance(target, str | Path) else target
    if world.transitions is not None:
        return _on_table(request, world, world.transitions, min_reach)
    if min_reach:
        _check_can_be_bounded(request, world)
    if isinstance(request, Uniform) and request.per == "transition":
        return _of_transitions(request.count, world, None)
    if isinstance(request, Listed | CellCounts | Target) and world.labels is None:
        return Resolved(_numbered(request, world))
    if isinstance(request, Uniform):
        return Resolved(no_rows(world.shape), SeenRows(request))
    if isinstance(request, Grouped):
        seen = SeenGroups(world.shown(request), request.count, request.tries)
        return Resolved(no_rows(world.shape), seen)
    if isinstance(request, Listed):
        return Resolved(no_rows(world.shape), _by_label(request, world))
    if world.learnt is None or isinstance(request, Target):
        raise UnknownModel(
            f"{world.name} has no transition table, so its target must be uniform:N, "
            "uniform:N/pair, uniform:N/state, uniform:N/transition, groups, or a list of cells (by "
            "label if its states are not numbered)"
        )
    return Resolved(request.resolve(world.learnt()))


def _check_can_be_bounded(request: Request | Target, world: World) -> None:
    """``--min-reach`` without a table needs bounds from counts."""
    if world.labels is not None:
        raise BadInput(
            "--min-reach is certified from counts, which needs the number of states beforehand; "
            f"{world.name} only shows its states as it goes"
        )
    groups = isinstance(request, Grouped)
    if groups or is_about_transitions(request):
        other = "groups" if groups else "transitions"
        raise BadInput(f"--min-reach leaves out cells, pairs and states, not {other}")


def _on_table(
    request: Request | Target, world: World, transitions: Transitions, min_reach: float
) -> Resolved:
    moves = None
    if isinstance(request, Uniform) and request.per == "transition":
        moves = possible_moves(transitions, last_step=world.shows_last_step)
        wanted = moves_target(transitions, moves, request.count, last_step=world.shows_last_step)
    elif isinstance(request, Listed | CellCounts | Target):
        wanted = _numbered(request, world)
    elif isinstance(request, Grouped):
        wanted = world.shown(request).resolve(transitions)
    elif hasattr(request, "resolve"):
        wanted = request.resolve(transitions)
    else:
        raise BadInput(
            "a target is covgame.uniform, proportional, cells or groups, its text, or a file, "
            f"not {type(request).__name__}"
        )
    target, dropped = drop_rarely_reached(wanted, transitions, min_reach)
    check_reachable(target, transitions)
    if moves is None or not len(target):
        return Resolved(target, None, dropped)
    asked = moves.of_pairs(target.rows[:, 1] * world.shape.actions + target.rows[:, 2])
    found = _of_transitions(request.count, world, asked)  # type: ignore[union-attr]
    return Resolved(found.target, found.discovered, dropped, on_average=target)


def _numbered(request: Listed | CellCounts | Target, world: World) -> Target:
    """A target that names states by number, or by label where they have names."""
    if isinstance(request, Listed):
        return request.on(world.shape, world.names)
    if isinstance(request, CellCounts):
        return request.on(world.shape)
    if request.shape != world.shape:
        raise BadInput(f"the target is for {request.shape}, and {world.name} has {world.shape}")
    return request


def _of_transitions(count: float, world: World, moves: PossibleMoves | None) -> Resolved:
    """The transitions that can happen, or, where that is not known, those that will be seen.

    Which transitions there are is part of the target, how probable they are is not.
    """
    check_has_moves(world.shape.horizon, last_step=world.shows_last_step)
    seen = SeenTransitions(count, moves, world.shows_last_step)
    return Resolved(seen.first(world.shape), seen)


def _by_label(listed: Listed, world: World) -> SeenLabels:
    """Rows that wait for their states."""
    if listed.groups:
        raise BadInput(f"{listed.source}: groups of a file need states that are numbered")
    labels = Labels({}, Labels.of(world.names, 0, world.shape.actions).actions)
    rows: dict[tuple[Any, ...], float] = {}
    for place, (h, s, a, count) in enumerate(listed.rows):
        where = f"{listed.source}: cells[{place}]"
        check_count(where, count)
        if not isinstance(s, str):
            raise BadInput(
                f"{where}: states get their numbers as they appear, so write what state {s} is "
                "called, as text"
            )
        action = labels.action(a, where) if isinstance(a, str) else a
        check_exists((h, None, action), world.shape, where)
        if (h, s, action) in rows:
            raise BadInput(f"{where}: this row appears twice")
        rows[h, s, action] = count
    wanted = tuple((h, s, a, count) for (h, s, a), count in rows.items() if count > 0)
    return SeenLabels(wanted, world.labels or list)


# ----------------------------------------------------------------------------- resolved again


class StoredRequest(Protocol):
    """How a target grows, as the configuration of a run stores it."""

    per: Any  # cell, pair, state, transition, group or label
    count: float
    tries: int


def resolve_again(
    stored: StoredRequest | None,
    listed: Listed,
    world: World,
    *,
    groups: Grouped | None = None,
    moves: PossibleMoves | None = None,
) -> Resolved:
    """What the run began with, from what it stored.

    Args:
        stored: How its target grows, None if it does not.
        listed: The rows that it stored.
        world: The same world again.
        groups: The function of its groups, which is not stored.
        moves: The transitions that can happen, if not those of the world's table.
    """
    if stored is None:
        return Resolved(listed.on(world.shape))
    if stored.per == "transition":
        if moves is None and world.transitions is not None:
            moves = possible_moves(world.transitions, last_step=world.shows_last_step)
        pairs = [s * world.shape.actions + a for _, s, a, _ in listed.rows]  # type: ignore[operator]
        asked = None if moves is None else moves.of_pairs(np.array(pairs, dtype=np.int64))
        return _of_transitions(stored.count, world, asked)
    request: DiscoveredTarget
    if stored.per == "group":
        shown = None if groups is None else replace(world.shown(groups), count=stored.count)
        request = SeenGroups(shown, stored.count, stored.tries)
    elif stored.per == "label":
        request = _by_label(listed, world)
    else:
        request = SeenRows(Uniform(stored.count, stored.per))
    return Resolved(no_rows(world.shape), request)


# ------------------------------------------------------------------------------- reachability


def drop_rarely_reached(
    target: Target, transitions: Transitions, min_reach: float
) -> tuple[Target, list[tuple[Row, float]]]:
    """Leave out the rows that no policy reaches with probability ``min_reach``.

    Returns:
        The other rows; and those left out, with the best probability of reaching them.
    """
    if not (isinstance(min_reach, int | float) and 0 <= min_reach <= 1):
        raise BadInput(f"--min-reach is a probability between 0 and 1, not {min_reach!r}")
    if min_reach == 0:
        return target, []
    reach = row_reachability(target, transitions)
    rare = reach < min_reach
    rows = target.as_rows(np.flatnonzero(rare))
    return target.keep(~rare), list(zip(rows, reach[rare].tolist(), strict=True))


def row_reachability(target: Target, transitions: Transitions) -> FloatArray:
    """max_pi P(an episode visits the row), per row."""
    stage, state = target.rows[:, 0], target.rows[:, 1]
    any_stage = stage == ANY
    of_cells = target.of_group if target.last_stage else target.of_group | any_stage
    any_stage &= ~of_cells
    one_stage = ~any_stage & ~of_cells
    reach = np.empty(len(target))
    if any_stage.any():
        reach[any_stage] = dp.hitting(transitions)[state[any_stage]]
    if one_stage.any():
        wanted = np.zeros(transitions.shape.hs, dtype=np.bool_)
        wanted[stage[one_stage], state[one_stage]] = True
        reach[one_stage] = dp.reachability(transitions, wanted)[stage[one_stage], state[one_stage]]
    for row in np.flatnonzero(of_cells).tolist():
        cells = np.zeros(transitions.shape.cells, dtype=np.bool_)
        cells[target.members.cell[target.members.row == row]] = True
        reach[row] = _chance(transitions, cells.reshape(transitions.shape.hsa))
    return reach


def _chance(transitions: Transitions, wanted: BoolHSA) -> float:
    """max_pi P(an episode visits one of these cells)."""
    shape = transitions.shape
    there = wanted & transitions.allowed_actions
    best = np.zeros(shape.states)
    for h in reversed(range(shape.horizon)):
        later = np.zeros((shape.states, shape.actions))
        if h + 1 < shape.horizon:
            later = transitions.stages[h].expect(best).reshape(shape.states, shape.actions)
        best = np.where(there[h], 1.0, later).max(axis=1)
    return float(transitions.initial @ best)


def check_reachable(target: Target, transitions: Transitions) -> None:
    """Raise ``UnreachableTarget`` if some row has no cell that any policy reaches."""
    hopeless = ~reachable_rows(target, transitions)
    if hopeless.any():
        raise UnreachableTarget(target.as_rows(np.flatnonzero(hopeless)))


def reachable_rows(target: Target, transitions: Transitions) -> BoolArray:
    """Which rows have a cell that some policy reaches."""
    possible = dp.reachable(transitions)[:, :, None] & transitions.allowed_actions
    return target.collected(possible.astype(np.int64)) > 0
