"""Requests: how users ask for a target, and what each means on a known model.

``targets.resolve`` turns a request into rows on any world, known or not.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, Protocol, get_args

import numpy as np

from covgame.errors import BadInput, Row, describe_row
from covgame.imports import said
from covgame.jsonfile import is_file
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.names import Labels, Names, closest, label_of, words_of
from covgame.targets.moves import moves_target, possible_moves
from covgame.targets.target import Groups, Target
from covgame.types import ANY, BoolArray, BoolHS, FloatHSA, IntArray, Shape

PLAIN_NUMBER = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?|[+-]?(inf|nan)")
Per = Literal["cell", "pair", "state", "transition"]
PERS = get_args(Per)
PER = "per cell, pair, state or transition"
TEXTS = (
    "uniform:50, uniform:50/pair, uniform:50/state, uniform:20/transition, proportional:500, "
    "or the name of a covgame-target/1 file"
)
ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]+")

GroupFunction = Callable[[Any, Any], Any]
"""From a state and an action, as the user knows them, to a value; None where nothing is wanted."""

Shown = Callable[[int], Any]
"""From the number of a state (or action) to what the user knows it by."""

ListedRow = tuple[int | None, int | str, int | str | None, float]
"""(stage or None, state, action or None, count); states and actions by number or label."""


class Request(Protocol):
    """Anything that becomes a target once the kernel is known."""

    def resolve(self, transitions: Transitions) -> Target: ...


@dataclass(frozen=True)
class Uniform:
    """The same count for every reachable cell, pair (at any stage), state or transition."""

    count: float
    per: Per = "cell"

    def __str__(self) -> str:
        return f"uniform:{self.count:g}" + ("" if self.per == "cell" else f"/{self.per}")

    def resolve(self, transitions: Transitions, *, last_step: bool = False) -> Target:
        """The target on a kernel; of transitions, the visits of pairs that they take on average.

        ``last_step``: whether the last step of an episode shows its next state.
        """
        if self.per == "transition":
            moves = possible_moves(transitions, last_step=last_step)
            return moves_target(transitions, moves, self.count, last_step=last_step)
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
class ListedGroup:
    """Pairs (state, action) that are counted together, by name."""

    name: str
    count: float
    pairs: tuple[tuple[int | str, int | str], ...]


@dataclass(frozen=True)
class Listed:
    """Rows written down one by one: (stage or None, state, action or None, count), and groups."""

    rows: tuple[ListedRow, ...]
    source: str = "the target"
    groups: tuple[ListedGroup, ...] = ()

    @property
    def by_label(self) -> bool:
        """Whether a state is called by a label."""
        in_rows = any(isinstance(state, str) for _, state, _, _ in self.rows)
        return in_rows or any(isinstance(s, str) for one in self.groups for s, _ in one.pairs)

    def resolve(self, transitions: Transitions) -> Target:
        return self.on(transitions.shape)

    def on(self, shape: Shape, names: Names | None = None) -> Target:
        """The target for a world of this size, whose states and actions may have names."""
        listed = self._numbered(shape, names or Names())
        index = listed.index(shape)
        counts = np.array([count for *_, count in listed.rows], dtype=np.float64)
        target = Target.of_rows(shape, index, counts)
        return listed._with_groups(target) if self.groups else target

    def index(self, shape: Shape) -> IntArray:
        """The rows as a target has them, checked: (G, 3)."""
        self._check(shape)
        index = [(ANY if h is None else h, s, ANY if a is None else a) for h, s, a, _ in self.rows]
        return np.array(index, dtype=np.int64).reshape(-1, 3)

    def _numbered(self, shape: Shape, names: Names) -> Listed:
        """With numbers for all labels."""
        values = [value for _, s, a, _ in self.rows for value in (s, a)]
        values += [value for one in self.groups for pair in one.pairs for value in pair]
        if not any(isinstance(value, str) for value in values):
            return self
        labels = Labels.of(names, shape.states, shape.actions)
        rows = tuple(
            (h, *numbered(labels, (s, a), f"{self.source}: cells[{place}]"), count)
            for place, (h, s, a, count) in enumerate(self.rows)
        )
        groups = tuple(
            ListedGroup(
                one.name,
                one.count,
                tuple(numbered(labels, pair, f"{self.source}: {one.name}") for pair in one.pairs),  # type: ignore[misc]
            )
            for one in self.groups
        )
        return Listed(rows, self.source, groups)

    def _with_groups(self, cells: Target) -> Target:
        """The target with the groups as well, which come last."""
        shape = cells.shape
        names = [one.name for one in self.groups]
        members: list[tuple[int, int]] = []
        for number, one in enumerate(self.groups):
            where = f"{self.source}: the group {one.name!r}"
            check_count(where, one.count)
            if one.name in names[:number] or len(set(one.pairs)) < len(one.pairs):
                raise BadInput(f"{where} appears twice, or has a pair twice")
            for s, a in one.pairs:
                check_exists((None, s, a), shape, where)
                members.append((number, int(s) * shape.actions + int(a)))
        group, pair = np.array(members, dtype=np.int64).reshape(-1, 2).T
        counts = np.array([one.count for one in self.groups], dtype=np.float64)
        grouped = Target.of_groups(shape, Groups(tuple(names), group, pair), counts)
        rows = np.concatenate([cells.rows, grouped.rows])
        counts = np.concatenate([cells.counts, grouped.counts])
        return Target(shape, rows, counts, grouped.groups)

    def _check(self, shape: Shape) -> None:
        seen: dict[Row, int] = {}
        for place, (h, s, a, count) in enumerate(self.rows):
            where = f"{self.source}: cells[{place}]"
            row = check_exists((h, s, a), shape, where)
            check_count(where, count)
            if row in seen:
                raise BadInput(
                    f"{where}: {describe_row(row)} appears already at cells[{seen[row]}]"
                )
            seen[row] = place


def numbered(
    labels: Labels, pair: tuple[int | str, int | str | None], where: str
) -> tuple[int, int | None]:
    """A state and an action (or None) by number, whatever they are called by."""
    state, action = pair
    return (
        labels.state(state, where) if isinstance(state, str) else state,
        labels.action(action, where) if isinstance(action, str) else action,
    )


def check_exists(
    row: tuple[int | None, int | str | None, int | str | None], shape: Shape, where: str
) -> Row:
    """A row of numbers (or None) that lie in a world of this size."""
    sizes = zip(("stage", "state", "action"), row, shape.hsa, strict=True)
    for name, value, size in sizes:
        if value is not None and not (isinstance(value, int) and 0 <= value < size):
            raise BadInput(
                f"{where}: {name} {value} does not exist, there are {size} {name}s "
                f"(0 to {size - 1})"
            )
    stage, state, action = row
    return stage, state, None if action is None else int(action)


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


@dataclass(frozen=True, eq=False)
class Grouped:
    """Every value of a function of state and action, each ``count`` times."""

    function: GroupFunction = field(repr=False)
    count: float
    tries: int = 1
    state: Shown = int
    action: Shown = int

    def __str__(self) -> str:
        return f"groups({getattr(self.function, '__qualname__', 'a function')}, {self.count:g})"

    def resolve(self, transitions: Transitions) -> Target:
        """On a known model: the pairs that some policy reaches."""
        anywhere = np.logical_or.reduce(dp.reachable(transitions), axis=0)
        pairs = np.flatnonzero((anywhere[:, None] & transitions.allowed_actions).ravel())
        return self.on_pairs(transitions.shape, pairs)

    def on_pairs(self, shape: Shape, pairs: IntArray, before: Groups | None = None) -> Target:
        """The target over these pairs; what is known of them ``before`` is not asked again."""
        numbers = {name: number for number, name in enumerate(before.names if before else ())}
        known: dict[int, int] = {}
        if before is not None:
            known = dict(zip(before.pair.tolist(), before.group.tolist(), strict=True))
        members: list[tuple[int, int]] = []
        for pair in pairs.tolist():
            number = known.get(pair)
            if number is None:
                name = self._name(*divmod(pair, shape.actions))
                number = None if name is None else numbers.setdefault(name, len(numbers))
            if number is not None:
                members.append((number, pair))
        group, pair = np.array(members, dtype=np.int64).reshape(-1, 2).T
        counts = np.full(len(numbers), float(self.count))
        return Target.of_groups(shape, Groups(tuple(numbers), group, pair), counts)

    def _name(self, state: int, action: int) -> str | None:
        """What the function says, in words."""
        shown = self.state(state), self.action(action)
        try:
            value = self.function(*shown)
        except Exception as error:
            raise BadInput(
                f"the function of groups raised {said(error)} for the state {shown[0]!r} and the "
                f"action {shown[1]!r}"
            ) from error
        if value is None:
            return None
        name = words_of(value)
        if ADDRESS.search(name):
            raise BadInput(
                f"the function of groups returned {name}, whose name is another in every process; "
                "return text, numbers or tuples of them"
            )
        return name


def uniform(count: float, per: Per = "cell") -> Uniform:
    """Ask for everything that can be reached, equally often.

    Args:
        count: Visits; any number from 0 on.
        per: ``"cell"``, each action in each state at each stage; ``"pair"``, each action in each
            state, at whatever stage; ``"state"``, each state; ``"transition"``, each action in each
            state with each of the next states that it can lead to (the end of an episode is one).

    Example:
        >>> import covgame as cg
        >>> cg.uniform(50, "pair")
        Uniform(count=50.0, per='pair')
    """
    check_count("uniform", count)
    if per not in get_args(Per):
        raise BadInput(f"uniform targets are {PER}, not per {per!r}")
    return Uniform(float(count), per)


def proportional(count: float) -> Proportional:
    """Ask for every cell ``count`` times the probability with which it can be reached at all.

    Args:
        count: Visits of what is certain to be reached; half of it for what is reached half the time
            by the policy that is best at that.
    """
    check_count("proportional", count)
    return Proportional(float(count))


def cells(
    counts: FloatHSA | Iterable[tuple[int | None, Any, Any, float]],
) -> Listed | CellCounts:
    """Your own target: an H x S x A array of counts, or rows (stage, state, action, count).

    Args:
        counts: In rows, ``None`` as a stage or action means any; the visits are then counted
            together. States and actions are numbers, or labels where they have names; a state that
            only shows itself as one goes is waited for.

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
            tuple(
                (_index(h), called(s), None if a is None else called(a), float(c))
                for h, s, a, c in counts
            )
        )
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"a target is an array of counts or rows (stage, state, action, count): {error}"
        ) from None


def groups(function: GroupFunction, count: float, *, tries: int = 1) -> Grouped:
    """Ask for every value of a function of state and action, equally often, at any stage.

    Args:
        function: Called with a state and an action as you know them: the state's name or number,
            for discovered states what was observed (text, numbers, tuples of them), the action's
            name or number. Pairs with the same value are one group and counted together; None
            means that a pair is not wanted.
        count: Visits of each group.
        tries: Where states are discovered during the run, every action of every state seen is also
            tried this often, in search of groups that have not come up yet.

    Returns:
        A request for ``cover`` and ``plan``. Output calls groups by their value.

    Example:
        >>> import covgame as cg
        >>> sides = cg.groups(lambda state, action: "left" if state < 2 else "right", 20)
        >>> run = cg.cover("chain:states=4,horizon=6", sides)
        >>> run.covered, len(run.target)
        (True, 2)
    """
    check_count("groups", count)
    if not callable(function):
        raise BadInput(f"groups takes a function of state and action, not {function!r}")
    if not hasattr(tries, "__index__") or tries < 0:
        raise BadInput(f"tries is a whole number from 0 on, not {tries!r}")
    return Grouped(function, float(count), int(tries))


def _index(value: int | None) -> int | None:
    return None if value is None else operator.index(value)


def called(value: Any) -> int | str:
    """A number as it is, anything else by what it is called."""
    if isinstance(value, str | tuple | Enum):
        return label_of(value)
    return operator.index(value)


def parse_request(text: str) -> Request:
    """``uniform:50``, ``uniform:50/pair`` (or state, transition), ``proportional:500``, a file."""
    kind, colon, rest = text.partition(":")
    if colon and kind == "uniform":
        number, slash, per = rest.partition("/")
        if slash and per not in get_args(Per):
            raise BadInput(f"a uniform target is {PER}, not {per!r} ({text}); {closest(per, PERS)}")
        return Uniform(_parse_count(text, number), per if slash else "cell")  # type: ignore[arg-type]
    if colon and kind == "proportional":
        return Proportional(_parse_count(text, rest))
    if is_file(text) or text.endswith(".json"):
        from covgame.targets.files import load_target

        return load_target(text)
    meant = difflib.get_close_matches(kind, ("uniform", "proportional"), n=1)
    if meant and kind != meant[0]:
        raise BadInput(f"{text!r} is no target; did you mean {meant[0]}{colon or ':'}{rest or 10}?")
    raise BadInput(f"{text!r} is no target: write {TEXTS}")


def _parse_count(text: str, number: str) -> float:
    try:
        if not PLAIN_NUMBER.fullmatch(number):
            raise ValueError(number)
        count = float(number)
    except ValueError:
        raise BadInput(f"{number!r} is no number of visits in the target {text!r}") from None
    check_count(text, count)
    return count


def check_count(where: str, count: float) -> None:
    """A finite number of at least 0."""
    try:
        valid = math.isfinite(count) and count >= 0
    except (TypeError, OverflowError):
        valid = False
    if not valid:
        raise BadInput(f"{where}: a count is a finite number of at least 0, not {count!r}")
