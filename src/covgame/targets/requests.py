"""How people ask for a target, and what that means on a known model.

A request is resolved against a kernel, once; whoever plays the episodes afterwards sees only
the resolved target.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from covgame.errors import BadInput, Row, UnreachableTarget, describe_row
from covgame.jsonfile import is_file
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, BoolHS, FloatArray, FloatHSA, IntArray, Shape

PLAIN_NUMBER = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?|[+-]?(inf|nan)")
Per = Literal["cell", "pair", "state"]


class Request(Protocol):
    """Anything that becomes a target once the kernel is known."""

    def resolve(self, transitions: Transitions) -> Target: ...


@dataclass(frozen=True)
class Uniform:
    """The same count for every reachable cell, pair (at any stage) or state."""

    count: float
    per: Per = "cell"

    def resolve(self, transitions: Transitions) -> Target:
        rows = self.rows(dp.reachable(transitions), transitions.allowed_actions)
        return Target.of_rows(transitions.shape, rows, np.full(len(rows), float(self.count)))

    def rows(self, places: BoolHS, allowed: BoolArray) -> IntArray:
        """The rows for states at stages, in order: (G, 3)."""
        if self.per == "cell":
            return np.argwhere(places[:, :, None] & allowed)
        anywhere: BoolArray = np.logical_or.reduce(places, axis=0)
        if self.per == "pair":
            pair = np.argwhere(anywhere[:, None] & allowed)
        else:
            state = np.flatnonzero(anywhere)
            pair = np.column_stack([state, np.full(len(state), ANY)])
        return np.column_stack([np.full(len(pair), ANY), pair])


@dataclass(frozen=True)
class Proportional:
    """``count`` times max_pi p_h^pi(s,a): as often as the cell can be had."""

    count: float

    def resolve(self, transitions: Transitions) -> Target:
        reach = dp.reachability(transitions)[:, :, None]
        return Target.of_cells(reach * self.count * transitions.allowed_actions)


@dataclass(frozen=True)
class Listed:
    """Rows written down one by one: (stage or None, state, action or None, count)."""

    rows: tuple[tuple[int | None, int, int | None, float], ...]
    source: str = "the target"

    def resolve(self, transitions: Transitions) -> Target:
        return self.on(transitions.shape)

    def on(self, shape: Shape) -> Target:
        """The target for a world of this size."""
        self._check(shape)
        index = [(ANY if h is None else h, s, ANY if a is None else a) for h, s, a, _ in self.rows]
        counts = np.array([count for *_, count in self.rows], dtype=np.float64)
        return Target.of_rows(shape, np.array(index, dtype=np.int64).reshape(-1, 3), counts)

    def _check(self, shape: Shape) -> None:
        seen: dict[Row, int] = {}
        for place, (h, s, a, count) in enumerate(self.rows):
            where = f"{self.source}: cells[{place}]"
            for name, value, size in (
                ("stage", h, shape.horizon),
                ("state", s, shape.states),
                ("action", a, shape.actions),
            ):
                if value is not None and not 0 <= value < size:
                    raise BadInput(
                        f"{where}: {name} {value} does not exist, there are {size} "
                        f"(0 to {size - 1})"
                    )
            _check_count(where, count)
            if (h, s, a) in seen:
                raise BadInput(
                    f"{where}: {describe_row((h, s, a))} stands already at cells[{seen[h, s, a]}]"
                )
            seen[h, s, a] = place


@dataclass(frozen=True, eq=False)
class CellCounts:
    """The paper's c_h(s,a) as an array."""

    counts: FloatHSA

    def resolve(self, transitions: Transitions) -> Target:
        return self.on(transitions.shape)

    def on(self, shape: Shape) -> Target:
        """The target for a world of this size."""
        if self.counts.shape != shape.hsa:
            raise BadInput(
                f"the target array has shape {self.counts.shape}, the environment {shape.hsa}"
            )
        if not (np.isfinite(self.counts).all() and (self.counts >= 0).all()):
            raise BadInput("the target array holds a count that is negative or not finite")
        return Target.of_cells(self.counts)


def uniform(count: float, per: Per = "cell") -> Uniform:
    """Ask for everything that can be reached, each as often.

    Args:
        count: Visits; any number from 0 on.
        per: ``"cell"``, each action in each state at each stage; ``"pair"``, each action in each
            state, at whatever stage; ``"state"``, each state.

    Example:
        >>> import covgame as cg
        >>> cg.uniform(50, "pair")
        Uniform(count=50.0, per='pair')
    """
    _check_count("uniform", count)
    if per not in get_args(Per):
        raise BadInput(f"uniform targets are per cell, pair or state, not per {per!r}")
    return Uniform(float(count), per)


def proportional(count: float) -> Proportional:
    """Ask for every cell ``count`` times the probability with which it can be reached at all.

    Args:
        count: Visits of what is certain to be reached; half of it for what is reached half the time
            by the policy that is best at that.
    """
    _check_count("proportional", count)
    return Proportional(float(count))


def cells(
    counts: FloatHSA | Iterable[tuple[int | None, int, int | None, float]],
) -> Listed | CellCounts:
    """Your own target: an H x S x A array of counts, or rows (stage, state, action, count).

    Args:
        counts: In rows, ``None`` as a stage or action means any; the visits are then counted
            together.

    Returns:
        A request for ``cover`` and ``plan``. Who drives a game of one's own gets the ``Target`` by
        ``cells(...).on(shape)``.

    Example:
        >>> import covgame as cg
        >>> len(cg.cells([(None, 3, 1, 20), (0, 2, None, 5)]).on(cg.Shape(6, 4, 2)))
        2
    """
    try:
        if isinstance(counts, np.ndarray):
            return CellCounts(counts.astype(np.float64))
        return Listed(
            tuple((_index(h), operator.index(s), _index(a), float(c)) for h, s, a, c in counts)
        )
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"a target is an array of counts or rows (stage, state, action, count): {error}"
        ) from None


def _index(value: int | None) -> int | None:
    return None if value is None else operator.index(value)


def parse_request(text: str) -> Request:
    """``uniform:50``, ``uniform:50/pair``, ``uniform:50/state``, ``proportional:500``, a file."""
    kind, colon, rest = text.partition(":")
    if colon and kind == "uniform":
        number, slash, per = rest.partition("/")
        if slash and per not in get_args(Per):
            raise BadInput(f"a uniform target is per cell, pair or state, not {per!r} ({text})")
        return Uniform(_parse_count(text, number), per if slash else "cell")  # type: ignore[arg-type]
    if colon and kind == "proportional":
        return Proportional(_parse_count(text, rest))
    if is_file(text) or text.endswith(".json"):
        from covgame.targets.files import load_target

        return load_target(text)
    raise BadInput(
        f"{text!r} is no target: write uniform:50, uniform:50/pair, uniform:50/state, "
        "proportional:500, or the name of a covgame-target/1 file"
    )


@dataclass(frozen=True, eq=False)
class Reachable:
    """A target without the rows that are too hard to reach, and those rows."""

    target: Target
    dropped: list[tuple[Row, float]]  # with the best probability of reaching them


def drop_rarely_reached(target: Target, transitions: Transitions, min_reach: float) -> Reachable:
    """Leave out the rows that no policy reaches with probability ``min_reach``."""
    if not (isinstance(min_reach, int | float) and 0 <= min_reach <= 1):
        raise BadInput(f"--min-reach is a probability between 0 and 1, not {min_reach!r}")
    if min_reach == 0:
        return Reachable(target, [])
    reach = row_reachability(target, transitions)
    rare = reach < min_reach
    rows = target.as_rows(np.flatnonzero(rare))
    return Reachable(target.keep(~rare), list(zip(rows, reach[rare].tolist(), strict=True)))


def row_reachability(target: Target, transitions: Transitions) -> FloatArray:
    """max_pi P(an episode visits the row), per row."""
    stage, state = target.rows[:, 0], target.rows[:, 1]
    any_stage = stage == ANY
    reach = np.empty(len(target))
    if any_stage.any():
        reach[any_stage] = dp.hitting(transitions)[state[any_stage]]
    if not any_stage.all():
        wanted = np.zeros(transitions.shape.hs, dtype=np.bool_)
        wanted[stage[~any_stage], state[~any_stage]] = True
        reach[~any_stage] = dp.reachability(transitions, wanted)[
            stage[~any_stage], state[~any_stage]
        ]
    return reach


def check_reachable(target: Target, transitions: Transitions) -> None:
    """Raise ``UnreachableTarget`` if some row has no cell that any policy reaches."""
    hopeless = ~reachable_rows(target, transitions)
    if hopeless.any():
        raise UnreachableTarget(target.as_rows(np.flatnonzero(hopeless)))


def reachable_rows(target: Target, transitions: Transitions) -> BoolArray:
    """Which rows have a cell that some policy reaches."""
    reachable = dp.reachable(transitions)
    stage, state = target.rows[:, 0], target.rows[:, 1]
    at_stage = reachable[np.maximum(stage, 0), state]
    ever = np.logical_or.reduce(reachable, axis=0)[state]
    action = target.rows[:, 2]
    allowed = transitions.allowed_actions
    some: BoolArray = np.logical_or.reduce(allowed, axis=1)
    possible = np.where(action == ANY, some[state], allowed[state, action])
    return np.where(stage == ANY, ever, at_stage) & possible


def _parse_count(text: str, number: str) -> float:
    try:
        if not PLAIN_NUMBER.fullmatch(number):
            raise ValueError(number)
        count = float(number)
    except ValueError:
        raise BadInput(f"{number!r} is no number of visits in the target {text!r}") from None
    _check_count(text, count)
    return count


def _check_count(where: str, count: float) -> None:
    try:
        valid = math.isfinite(count) and count >= 0
    except (TypeError, OverflowError):
        valid = False
    if not valid:
        raise BadInput(f"{where}: a count is a finite number of at least 0, not {count!r}")
