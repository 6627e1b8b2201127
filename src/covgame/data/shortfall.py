"""What data lack of a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covgame.arrays import sum_by_index
from covgame.data.combined_counts import CombinedCounts
from covgame.data.dataset import Dataset
from covgame.errors import BadInput
from covgame.memory import require_room
from covgame.names import Names
from covgame.planning import world_of
from covgame.sources.environments import Environment
from covgame.targets.discovered import Seen, SeenGroups
from covgame.targets.moves import Moves, PossibleMoves, pair_rows, possible_moves
from covgame.targets.requests import CellCounts, Listed, Request, Uniform
from covgame.targets.resolve import World, resolve
from covgame.targets.target import Target
from covgame.types import FloatArray, IntArray, Shape


def size_of(
    datasets: Sequence[Dataset], environment: Environment | None, request: Request | Target
) -> tuple[Shape, Names]:
    """How large the world is that data and target are about, and its names.

    Where only data say how many states there are, a target may name further states.
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
    """The most complete names among several datasets."""
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
class Shortfall:
    """A target on data, and what the data lack of it."""

    target: Target
    missing: FloatArray  # (G,), visits that each row lacks at least
    more: FloatArray  # (G,), visits that it takes on average; another number for transitions only
    moves: Moves | None = None
    lacking: FloatArray | None = None  # (moves,), how often each transition is missing

    def open_rows(self) -> IntArray:
        """The rows that lack something, most first."""
        order: IntArray = np.argsort(-self.missing, kind="stable")
        return order[: np.count_nonzero(self.missing)]


def shortfall_of(combined: CombinedCounts, request: Request | Target) -> Shortfall:
    """How much of a target is missing; without a known model it is about what was seen."""
    if isinstance(request, Uniform) and request.per == "transition":
        return _of_transitions(combined, request.count)
    environment, model = combined.environment, combined.model
    if environment is not None and model is not None:
        world = world_of(environment)
    else:
        world = World("the data", combined.shape, combined.names, learnt=lambda: combined.kernel)
    resolved = resolve(request, world)
    target, discovered = resolved.target, resolved.discovered
    if discovered is not None:
        if isinstance(discovered, SeenGroups):
            discovered = SeenGroups(discovered.groups, discovered.count, tries=0)
        target = discovered.grown(target, Seen(combined.apart, combined.seen))
    missing = np.maximum(target.counts - target.collected(combined.apart.visits), 0.0)
    return Shortfall(target, missing, missing)


def _of_transitions(combined: CombinedCounts, count: float) -> Shortfall:
    """Every transition that can happen, or was seen; and every action of what was seen."""
    environment, model, shape = combined.environment, combined.model, combined.shape
    counts = combined.apart
    wanted: PossibleMoves | None = None
    last_step = True
    if environment is not None and model is not None:
        last_step = environment.opener is not None
        wanted = possible_moves(model.transitions, last_step=last_step)
    moves = Moves.of(counts, wanted)
    lacking = moves.missing(count)
    if wanted is None:
        anywhere = np.logical_or.reduce(combined.seen, axis=0)
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
    return Shortfall(target, least[asked], more[asked], moves, lacking)


def _chances(moves: Moves, wanted: PossibleMoves | None, pairs: int) -> FloatArray:
    """How likely each transition is: as the model says, or as it was seen."""
    if wanted is not None:
        return wanted.probability
    total = np.bincount(moves.pair, moves.times, minlength=pairs)
    chance: FloatArray = moves.times / np.maximum(total[moves.pair], 1)
    return chance
