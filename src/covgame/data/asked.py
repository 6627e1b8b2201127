"""What a target means on data: on the model where it is known, on what was seen elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from covgame.arrays import sum_by_index
from covgame.data.combined_counts import CombinedCounts
from covgame.data.dataset import Dataset
from covgame.errors import BadInput
from covgame.game.growing import Moves
from covgame.memory import require_room
from covgame.names import Names
from covgame.planning import resolve_target
from covgame.sources.environments import Environment
from covgame.targets.groups import Grouped
from covgame.targets.moves import PossibleMoves, pair_rows, possible_moves
from covgame.targets.reaching import check_reachable
from covgame.targets.requests import (
    CellCounts,
    Listed,
    Request,
    Uniform,
    parse_request,
)
from covgame.targets.target import Target
from covgame.types import FloatArray, IntArray, Shape

AnyTarget = Request | Target | str | Path
DEFAULT_TARGET = "uniform:10/pair"


def as_request(target: AnyTarget | None) -> Request | Target:
    """What somebody asked for, read if it is text."""
    if target is None:
        return parse_request(DEFAULT_TARGET)
    return parse_request(str(target)) if isinstance(target, str | Path) else target


def world_of(
    datasets: Sequence[Dataset], environment: Environment | None, request: Request | Target
) -> tuple[Shape, Names]:
    """How large the world is that data and target are about, and what its parts are called.

    Where only data say how many states there are, a target may name others: nobody has seen them.
    """
    horizon = max(one.horizon for one in datasets)
    states = max(one.n_states for one in datasets)
    actions = max(one.n_actions for one in datasets)
    names = _most_names(datasets)
    if environment is not None:
        return Shape(horizon, states, actions), names
    if isinstance(request, Target | CellCounts):
        wanted = request.shape if isinstance(request, Target) else Shape(*request.counts.shape)
        shape = Shape(*map(max, (horizon, states, actions), wanted.hsa))
        return shape, names
    if isinstance(request, Listed):
        return _listed_world(request, Shape(horizon, states, actions), names)
    return Shape(horizon, states, actions), names


def _most_names(datasets: Sequence[Dataset]) -> Names:
    """Of several datasets, the names of whichever knows most of them."""
    every = [one.names for one in datasets]
    states = max((one.states for one in every), key=lambda names: len(names or ()))
    actions = max((one.actions for one in every), key=lambda names: len(names or ()))
    grids = [(one.grid, one.places) for one in every if one.grid is not None]
    return Names(states, actions, *(grids[0] if grids else (None, None)))


def _listed_world(listed: Listed, shape: Shape, names: Names) -> tuple[Shape, Names]:
    called = [(s, a) for _, s, a, _ in listed.rows]
    called += [pair for one in listed.groups for pair in one.pairs]
    numbers = [s for s, _ in called if isinstance(s, int)]
    states = max([shape.states, *(s + 1 for s in numbers)])
    require_room(Shape(shape.horizon, states, shape.actions), 0, "counting")
    new = [s for s, _ in called if isinstance(s, str)]
    known = {names.state(s) for s in range(shape.states)} if new else set()
    unseen = [label for label in dict.fromkeys(new) if label not in known]
    if unseen:
        labels = [names.state(s) for s in range(states)]
        names = Names([*labels, *unseen], names.actions)
        states += len(unseen)
    acts = [a for _, a in called if isinstance(a, int)]
    actions = shape.actions
    if names.actions is None:
        actions = max([actions, *(a + 1 for a in acts)])
    return Shape(shape.horizon, states, actions), names


@dataclass(frozen=True, eq=False)
class Asked:
    """A target on data, and what the data lack of it."""

    target: Target
    missing: FloatArray  # (G,), visits that each row lacks at least
    more: FloatArray  # (G,), visits that it takes on average; another number for transitions only
    moves: Moves | None = None
    lacking: FloatArray | None = None  # (moves,), how often each transition is missing

    def still_open(self) -> IntArray:
        """The rows that lack something, most first."""
        order: IntArray = np.argsort(-self.missing, kind="stable")
        return order[: np.count_nonzero(self.missing)]


def ask_of(evidence: CombinedCounts, request: Request | Target) -> Asked:
    """What was asked for, and how much of it is missing."""
    if isinstance(request, Uniform) and request.per == "transition":
        return _transitions(evidence, request.count)
    target = _resolved(evidence, request)
    collected = target.collected(evidence.apart.visits)
    missing = np.maximum(target.counts - collected, 0.0)
    return Asked(target, missing, missing)


def _resolved(evidence: CombinedCounts, request: Request | Target) -> Target:
    environment, model, shape = evidence.environment, evidence.model, evidence.shape
    if environment is not None and model is not None:
        target = resolve_target(request, model, last_step=environment.opener is not None)
        check_reachable(target, model.transitions)
        return target
    if isinstance(request, Uniform):
        rows = request.rows(evidence.seen, evidence.allowed)
        return Target.of_rows(shape, rows, np.full(len(rows), float(request.count)))
    if isinstance(request, Listed):
        return request.on(shape, evidence.names)
    if isinstance(request, Grouped):
        anywhere = np.logical_or.reduce(evidence.seen, axis=0)
        pairs = np.flatnonzero(np.repeat(anywhere, shape.actions))
        return request.named(evidence.names).on_pairs(shape, pairs)
    if isinstance(request, Target):
        if request.shape != shape:
            raise BadInput(f"the target is for {request.shape}, the data are about {shape}")
        return request
    return request.resolve(evidence.kernel)


def _transitions(evidence: CombinedCounts, count: float) -> Asked:
    """Every transition that can happen, or was seen; and every action of what was seen."""
    environment, model, shape = evidence.environment, evidence.model, evidence.shape
    counts = evidence.apart
    wanted: PossibleMoves | None = None
    last_step = True
    if environment is not None and model is not None:
        last_step = environment.opener is not None
        wanted = possible_moves(model.transitions, last_step=last_step)
    moves = Moves.of(counts, wanted)
    lacking = moves.missing(count)
    if wanted is None:
        anywhere = np.logical_or.reduce(evidence.seen, axis=0)
        pairs = np.flatnonzero(np.repeat(anywhere, shape.actions))
    else:
        pairs = np.unique(wanted.pair)
    place = np.searchsorted(pairs, moves.pair)
    chance = _chances(moves, wanted, shape.pairs)
    if not math.isfinite(count * (len(pairs) + 1) / float(chance.min(initial=1.0))):
        raise BadInput(f"{count:g} visits of every transition are more than can be counted")
    least = sum_by_index(place, np.ceil(lacking), len(pairs))
    whole, more = np.full((2, len(pairs)), float(count))
    known = np.bincount(place, minlength=len(pairs)) > 0
    more[known] = 0.0
    np.maximum.at(whole, place, count / chance)
    np.maximum.at(more, place, lacking / chance)
    least[~known] = np.ceil(count)
    asked = whole > 0
    target = Target(
        shape, pair_rows(shape.actions, pairs)[asked], whole[asked], last_stage=last_step
    )
    return Asked(target, least[asked], more[asked], moves, lacking)


def _chances(moves: Moves, wanted: PossibleMoves | None, pairs: int) -> FloatArray:
    """How likely each transition is: as the model says, or as it was seen."""
    if wanted is not None:
        return wanted.probability
    total = np.bincount(moves.pair, moves.times, minlength=pairs)
    chance: FloatArray = moves.times / np.maximum(total[moves.pair], 1)
    return chance
