"""What a run of ``cover`` had to cover, made anew from what was asked and what its data show.

The target that a run saves beside its counts is for going on. Whoever checks the run does not
believe it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.game.excluded_actions import coverable_rows, cut_off_rows
from covgame.game.game import Game
from covgame.game.growing import Growing, LeftOut, Moves, SeenLabels, SeenRows, SeenTransitions
from covgame.game.presets import default_game
from covgame.mdp.families import FAMILIES
from covgame.pac.assumptions import assumptions_of_coverage
from covgame.runs.given import Given
from covgame.storage.folder import TARGET, RunFolder
from covgame.storage.state import Arrays, fitting, target_from
from covgame.targets.files import listed_from
from covgame.targets.moves import PossibleMoves, pair_rows
from covgame.targets.requests import Listed, Uniform
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, Shape

if TYPE_CHECKING:
    from covgame.storage.config import GrowingRequest, StoredCover


@dataclass(frozen=True)
class Required:
    """What was to be covered, and what of that nobody can check from the data."""

    target: Target
    transitions: int | None = None  # how many were asked for, where the target is about them
    assumptions: Sequence[str] = ()


def required(
    folder: RunFolder,
    asked: StoredCover,
    arrays: Arrays,
    counts: Counts,
    given: Sequence[Given] = (),
) -> Required:
    """The target of a run whose data hold these counts."""
    listed = listed_from(folder.read_document(TARGET), folder.database)
    left_out = _left_out(folder, asked, arrays)
    avoided = _avoided(folder, counts.shape)
    allowed = _allowed(folder, arrays, counts, avoided)
    open_pairs = np.ones_like(avoided) if allowed is None else allowed | avoided
    growing = asked.growing
    saved_moves = growing is not None and growing.per == "transition"
    assumptions = assumptions_of_coverage(
        counts.shape.horizon,
        left_out=len(left_out),
        min_reach=asked.min_reach,
        forbidden=int((~open_pairs).sum()),
        avoided=int(avoided.sum()),
        groups=growing is not None and growing.per == "group",
        possible=saved_moves and "wanted_transitions" in arrays,
        given=given,
    )

    def still_wanted(target: Target) -> Target:
        return _without_avoided(target, counts, allowed, avoided)

    if asked.growing is None:
        target = _without(listed.on(counts.shape), left_out)
        return Required(still_wanted(target), None, assumptions)
    if asked.growing.per == "group":
        target = _grouped(asked.growing, arrays, counts, allowed)
        return Required(still_wanted(target), None, assumptions)
    request, first = _growing(folder, asked, listed, arrays, counts.shape)
    game = default_game(first, pooled=counts.pooled, allowed=allowed)
    game.counts = counts
    target = still_wanted(request.grown(game, counts.visits.sum(axis=2) > 0, left_out))
    return Required(target, _check_transitions(folder, request, game, target), assumptions)


def _growing(
    folder: RunFolder, asked: StoredCover, listed: Listed, arrays: Arrays, shape: Shape
) -> tuple[Growing, Target]:
    """How the target follows from what was seen, and the rows it starts with."""
    growing = asked.growing
    assert growing is not None  # noqa: S101 - nobody asks otherwise
    nothing = Target.of_rows(shape, np.zeros((0, 3), dtype=np.int64), np.zeros(0))
    if growing.per == "transition":
        simulated = asked.model is not None or asked.environment.split(":")[0] in FAMILIES
        wanted = _possible(folder, listed, arrays, shape)
        seen = SeenTransitions(growing.count, wanted, last_step=not simulated)
        return seen, seen.first(shape)
    if growing.per == "label":
        _, labels = folder.load_states() or ([], None)
        request = SeenLabels(listed.rows, lambda: labels or [])
        never = [str(row[1]) for row in request.waiting()]
        if never:
            raise BadInput(f"{folder.path} does not cover its target: {never[0]!r} never appeared")
        return request, nothing
    return SeenRows(Uniform(growing.count, growing.per)), nothing  # type: ignore[arg-type]


def _possible(
    folder: RunFolder, listed: Listed, arrays: Arrays, shape: Shape
) -> PossibleMoves | None:
    """The transitions that a known model has: of every pair that was asked for some."""
    pairs = [int(s) * shape.actions + int(a) for _, s, a, _ in listed.rows]  # type: ignore[arg-type]
    asked = np.array(pairs, dtype=np.int64)
    if not len(asked) and "wanted_transitions" not in arrays:
        return None
    with fitting():
        pair, successor = arrays["wanted_transitions"].reshape(-1, 2).T
    if not np.array_equal(np.unique(pair), np.unique(asked)):
        raise BadInput(f"{folder.path}: its saved state has other transitions than its target")
    return PossibleMoves(pair, successor, np.ones(len(pair)))


def _check_transitions(
    folder: RunFolder, request: Growing, game: Game, target: Target
) -> int | None:
    """What the rows of a target do not say by themselves: of its pairs, all transitions."""
    if not isinstance(request, SeenTransitions):
        return None
    moves = Moves.of(game.counts, request.wanted)
    wanted = target.rows[:, 1] * game.counts.shape.actions + target.rows[:, 2]
    missing = moves.missing(request.count)[np.isin(moves.pair, wanted)]
    if missing.any():
        raise BadInput(
            f"{folder.path} does not cover its target: {np.count_nonzero(missing):,} of "
            f"{len(missing):,} transitions lack visits, {missing.sum():g} in all"
        )
    return len(missing)


def _grouped(
    growing: GrowingRequest, arrays: Arrays, counts: Counts, allowed: BoolArray | None
) -> Target:
    """Groups are a function that only a program has; that everything was tried can be seen."""
    saved = target_from(arrays, counts.shape)
    groups = saved.keep(saved.of_group)
    if (groups.counts < growing.count).any():
        raise BadInput(f"the saved state asks for fewer visits of groups than {growing.count:g}")
    anywhere: BoolArray = np.logical_or.reduce(counts.visits > 0, axis=(0, 2))
    tried: BoolArray = np.repeat(anywhere[:, None], counts.shape.actions, axis=1)
    if allowed is not None:
        tried = tried & allowed
    rows = pair_rows(counts.shape.actions, np.flatnonzero(tried.ravel()))
    return groups.with_more(counts.shape.states, rows, np.full(len(rows), float(growing.tries)))


def _left_out(folder: RunFolder, asked: StoredCover, arrays: Arrays) -> LeftOut:
    """Rows that ``--min-reach`` has dropped on the way; without it there are none."""
    with fitting():
        rows = arrays.get("left_out_rows", np.zeros((0, 3), dtype=np.int64)).reshape(-1, 3)
    found = {tuple(row) for row in rows.tolist()}
    if found and not asked.min_reach:
        raise BadInput(f"{folder.path}: its saved state leaves out rows without --min-reach")
    older = [row[:3] for row in asked.unreachable if isinstance(row[1], int)]
    return found | {tuple(ANY if i is None else i for i in row) for row in older}  # type: ignore[misc]


def _without(target: Target, left_out: LeftOut) -> Target:
    kept = [tuple(row) not in left_out for row in target.rows.tolist()]
    return target.keep(np.array(kept, dtype=np.bool_))


def _avoided(folder: RunFolder, shape: Shape) -> BoolArray:
    """(S, A), actions that have failed and were not taken again, by the notes of failures."""
    avoided = np.zeros((shape.states, shape.actions), dtype=np.bool_)
    for failure in folder.load_failures():
        if failure.then == "avoided":
            state, action = failure.path[-1] if failure.path else (-1, -1)
            if not (0 <= state < shape.states and 0 <= action < shape.actions):
                raise BadInput(f"{folder.database}: its failures are about another environment")
            avoided[state, action] = True
    return avoided


def _without_avoided(
    target: Target, counts: Counts, allowed: BoolArray | None, avoided: BoolArray
) -> Target:
    """What does not need an avoided action: neither to be there, nor to get there."""
    if allowed is None or not avoided.any():
        return target
    target = target.keep(coverable_rows(target, avoided))
    game = default_game(target, pooled=counts.pooled, allowed=allowed)
    game.counts, game.collected = counts, target.collected(counts.visits)
    return target.keep(~cut_off_rows(game, allowed))


def _allowed(
    folder: RunFolder, arrays: Arrays, counts: Counts, avoided: BoolArray
) -> BoolArray | None:
    """Which actions there are, where some are forbidden; the data must not show others.

    What was avoided was taken before it failed.
    """
    if "allowed" not in arrays:
        return None
    with fitting():
        allowed: BoolArray = arrays["allowed"].astype(np.bool_).reshape(counts.shape.hsa[1:])
    if counts.visits[:, ~allowed & ~avoided].any():
        raise BadInput(f"{folder.path}: its saved state forbids actions that the data show")
    return allowed
