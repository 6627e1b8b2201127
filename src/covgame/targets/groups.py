"""Targets over a function of state and action: every value so many times, whatever the pair."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from covgame.errors import BadInput
from covgame.imports import said
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.names import Names, words_of
from covgame.targets.target import Groups, Target
from covgame.types import IntArray, Shape

ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]+")

GroupFunction = Callable[[Any, Any], Any]
"""From a state and an action, as the user knows them, to a value; None where nothing is wanted."""

Shown = Callable[[int], Any]
"""From the number of a state (or action) to what the user knows it by."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """Every value of a function of state and action, each ``count`` times."""

    function: GroupFunction = field(repr=False)
    count: float
    tries: int = 1
    state: Shown = int
    action: Shown = int

    def shown_as(self, state: Shown, action: Shown) -> Grouped:
        """The same, for states and actions that are known by something else than numbers."""
        return replace(self, state=state, action=action)

    def named(self, names: Names) -> Grouped:
        """The same, for states and actions with these names."""
        return self.shown_as(_by_name(names.states), _by_name(names.actions))

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


def groups(function: GroupFunction, count: float, *, tries: int = 1) -> Grouped:
    """Ask for every value of a function of state and action, equally often, at any stage.

    Args:
        function: Called with a state and an action as you know them: the state's name or number,
            for discovered states what was observed (text, numbers, tuples of them), the action's
            name or number. Pairs with the same value are one group and counted together; None
            means that a pair is not wanted.
        count: Visits of each group.
        tries: Where states show themselves only as one goes, nobody knows which groups there are,
            so that every action of every state seen is tried so often as well, in search of more.

    Returns:
        A request for ``cover`` and ``plan``. Output calls groups by their value.

    Example:
        >>> import covgame as cg
        >>> sides = cg.groups(lambda state, action: "left" if state < 2 else "right", 20)
        >>> run = cg.cover("chain:states=4,horizon=6", sides)
        >>> run.covered, len(run.target)
        (True, 2)
    """
    from covgame.targets.requests import check_count

    check_count("groups", count)
    if not callable(function):
        raise BadInput(f"groups takes a function of state and action, not {function!r}")
    if not hasattr(tries, "__index__") or tries < 0:
        raise BadInput(f"tries is a whole number from 0 on, not {tries!r}")
    return Grouped(function, float(count), int(tries))


def _by_name(names: Any) -> Shown:
    return int if names is None else lambda number: names[number]
