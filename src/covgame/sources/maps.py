"""State maps: a function from an observation to what counts as a state.

Whatever it returns is compared and recognised as an observation would be. A map that is too fine
makes every observation a state of its own; one that is too coarse makes different states one, and
what follows then depends on how a state was reached.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covgame.errors import BadInput, EnvironmentFailed
from covgame.imports import PREFIX, find, said
from covgame.sources.states import DiscoveredStates

StateFunction = Callable[..., Any]
"""Takes an observation, and the environment as well if it has two arguments."""

FUNCTION = "(a function)"
"""Stands behind the name of a map that no later process can find by itself."""

SYNTAX = "bins:12x8, bins:12[-1.2,0.6]x8[-0.07,0.07], round:2, keys:NAME,..., image:hash"
BIN = re.compile(r"(\d+)(?:\[([^,\]]+),([^,\]]+)\])?")
MOST_SHOWN = 200


@dataclass(frozen=True)
class StateMap:
    """A map, how it was asked for, and whether a later process finds it by that."""

    text: str
    function: Callable[[Any, Any], Any]  # of an observation and the environment
    by_name: bool = True
    cells: int | None = None  # how many values it can take, where that is known

    def __call__(self, observation: Any, world: Any) -> Any:
        try:
            return self.function(observation, world)
        except EnvironmentFailed:
            raise
        except Exception as error:
            raise EnvironmentFailed(
                f"the state map {self.text} raised {said(error)} on the observation "
                f"{shown(observation)}"
            ) from error


class MappedStates(DiscoveredStates):
    """States by what a map makes of observations."""

    def __init__(
        self,
        state_map: StateMap,
        world: Any,
        keys: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys, labels, possible=state_map.cells)
        self.map, self.world = state_map, world

    def index(self, observation: Any) -> int:
        return super().index(self.map(observation, self.world))

    def again(self, keys: Sequence[str], labels: Sequence[str] | None) -> MappedStates:
        """The same with the states that were found before."""
        return MappedStates(self.map, self.world, keys, labels)


def state_map(asked: AnyMap, space: Any = None) -> StateMap:
    """The map that was asked for, by text or as a function; ``space`` is Gymnasium's, if any."""
    if isinstance(asked, StateMap):
        return asked
    if isinstance(asked, Bins):
        return StateMap(str(asked), asked.on(space), cells=asked.cells(space))
    if callable(asked):
        name = getattr(asked, "__qualname__", type(asked).__qualname__)
        return StateMap(f"{name} {FUNCTION}", _of_two(asked), by_name=False)
    if not isinstance(asked, str):
        raise BadInput(f"states= is a function or a text such as 'bins:12x8', not {asked!r}")
    if asked.startswith("bins:"):
        intervals = Bins.parse(asked)
        return StateMap(asked, intervals.on(space), cells=intervals.cells(space))
    return StateMap(asked, _parsed(asked, space))


def _parsed(text: str, space: Any) -> Callable[[Any, Any], Any]:
    kind, _, rest = text.partition(":")
    if text.startswith(PREFIX):
        found = find(text)
        if not callable(found):
            raise BadInput(f"--states {text}: that is no function")
        return _of_two(found)
    if kind == "round" and re.fullmatch("[0-9]{1,3}", rest):
        return lambda observation, _: rounded(observation, int(rest))
    if kind == "keys" and rest:
        names = [name.strip() for name in rest.split(",")]
        return lambda observation, world: tuple(_part(observation, world, name) for name in names)
    if text == "image:hash":
        return lambda observation, _: image_hash(observation)
    raise BadInput(f"--states {text}: write {SYNTAX} or py:module:function")


def _of_two(function: StateFunction) -> Callable[[Any, Any], Any]:
    """Functions of one argument get the observation, functions of two the environment as well."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return lambda observation, _: function(observation)
    required = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return function if len(required) == 2 else lambda observation, _: function(observation)


def _part(observation: Any, world: Any, name: str) -> Any:
    """A part of what is shown, or else of the environment itself."""
    if isinstance(observation, Mapping) and name in observation:
        return observation[name]
    if hasattr(world, name):
        return getattr(world, name)
    keys = ", ".join(map(str, observation)) if isinstance(observation, Mapping) else "none"
    raise EnvironmentFailed(
        f"--states keys: neither its observations (keys: {keys}) nor the environment have {name!r}"
    )


def rounded(observation: Any, digits: int) -> Any:
    """All real numbers in it, rounded."""
    if isinstance(observation, Mapping):
        return {key: rounded(part, digits) for key, part in observation.items()}
    if isinstance(observation, tuple | list):
        return tuple(rounded(part, digits) for part in observation)
    if isinstance(observation, str | bytes) or observation is None:
        return observation
    return (np.round(np.asarray(observation, dtype=np.float64), digits) + 0.0).tolist()


def image_hash(observation: Any) -> str:
    """Sixteen letters that stand for a picture (and whatever comes with it)."""
    digest = hashlib.blake2b(digest_size=8)
    _feed(digest, observation)
    return digest.hexdigest()


def _feed(digest: Any, observation: Any) -> None:
    if isinstance(observation, Mapping):
        for key in sorted(observation):
            digest.update(f"{key}:".encode())
            _feed(digest, observation[key])
    elif isinstance(observation, tuple | list):
        for part in observation:
            _feed(digest, part)
    elif isinstance(observation, np.ndarray):
        digest.update(repr(observation.shape).encode())
        digest.update(np.ascontiguousarray(observation).tobytes())
    else:
        digest.update(repr(observation).encode())


MOST_BINS = 2**53
"""Past it there are no numbers between two intervals."""


@dataclass(frozen=True)
class Bins:
    """Intervals of equal width for every real number of an observation.

    What lies outside the range belongs to the first or the last interval.
    """

    numbers: tuple[int, ...]  # one for all, or one for each
    ranges: tuple[tuple[float, float] | None, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Bins:
        """``bins:12x8``, with ranges where the observation has none: ``bins:12[-1.2,0.6]x8``."""
        numbers, ranges = [], []
        for part in text.removeprefix("bins:").split("x"):
            found = BIN.fullmatch(part.strip())
            if not found:
                raise BadInput(f"--states {text}: write bins:12x8 or bins:12[-1.2,0.6]x8[-1,1]")
            numbers.append(int(found[1]))
            ranges.append(_ends(text, found[2], found[3]) if found[2] else None)
        return cls(tuple(numbers), tuple(ranges))

    def __post_init__(self) -> None:
        if not self.numbers or any(not 1 <= number <= MOST_BINS for number in self.numbers):
            raise BadInput(f"bins are numbers of intervals, from 1 to {MOST_BINS:,}")
        for ends in filter(None, self.ranges):
            if not -np.inf < ends[0] < ends[1] < np.inf:
                raise BadInput(
                    f"a range of bins goes from LO to HI, not {ends[0]:g} to {ends[1]:g}"
                )

    def __str__(self) -> str:
        ranges = self.ranges or (None,) * len(self.numbers)
        parts = [
            f"{number}" if ends is None else f"{number}[{ends[0]!r},{ends[1]!r}]"
            for number, ends in zip(self.numbers, ranges, strict=True)
        ]
        return f"bins:{'x'.join(parts)}"

    def on(self, space: Any) -> Callable[[Any, Any], tuple[int, ...]]:
        """The function for observations of a space."""
        size = _size(space, len(self.numbers))
        numbers = self._for_each(self.numbers, size)
        ranges = self._for_each(self.ranges or (None,), size)
        ends = [_range(space, i, given) for i, given in enumerate(ranges)]
        sizes = zip(ends, numbers, strict=True)
        parts = [(low, (high - low) / n, n - 1) for (low, high), n in sizes]

        def bins(observation: Any, _world: Any) -> tuple[int, ...]:
            values = np.asarray(observation, dtype=np.float64).reshape(-1).tolist()
            if len(values) != len(parts):
                raise EnvironmentFailed(
                    f"it showed {len(values)} numbers where {str(self)!r} has {len(parts)}"
                )
            try:  # plain numbers: for the few that an observation has, arrays take longer
                places = [
                    _place((value - low) / width, last)
                    for value, (low, width, last) in zip(values, parts, strict=True)
                ]
            except ValueError:
                raise EnvironmentFailed(
                    f"it showed {shown(observation)}, which is no number"
                ) from None
            return tuple(places)

        return bins

    def cells(self, space: Any) -> int:
        """How many combinations of intervals an observation of a space can be in."""
        return math.prod(self._for_each(self.numbers, _size(space, len(self.numbers))))

    def _for_each(self, given: tuple[Any, ...], size: int) -> tuple[Any, ...]:
        if len(given) == 1:
            return given * size
        if len(given) != size:
            raise BadInput(f"{self} names {len(given)} numbers, and an observation has {size}")
        return given


def _place(distance: float, last: int) -> int:
    """The interval at this distance from the first, in units of their width."""
    if distance <= 0:
        return 0
    return last if distance >= last else int(distance)


def bins(*numbers: int, ranges: Any = None) -> Bins:
    """States from real numbers: intervals of equal width.

    Args:
        numbers: How many intervals; one number for all parts of an observation, or one for each.
        ranges: ``[(low, high), ...]``, one pair for each number, where the observation space says
            no finite range (None where it does).

    Example:
        >>> import covgame as cg
        >>> print(cg.bins(12, 8))
        bins:12x8
    """
    given = tuple(
        None if ends is None else (float(ends[0]), float(ends[1])) for ends in ranges or ()
    )
    if given and len(given) != len(numbers):
        raise BadInput(f"{len(numbers)} numbers of bins and {len(given)} ranges")
    return Bins(tuple(int(number) for number in numbers), given)


def _ends(text: str, low: str, high: str) -> tuple[float, float]:
    try:
        return float(low), float(high)
    except ValueError:
        raise BadInput(f"--states {text}: a range is [LO,HI], two numbers") from None


def _size(space: Any, numbers: int) -> int:
    shape = getattr(space, "shape", None)
    return numbers if shape is None else int(np.prod(shape))


def _range(space: Any, place: int, given: tuple[float, float] | None) -> tuple[float, float]:
    """The range of one number: the one that was given, or the space's."""
    if given is not None:
        return given
    low = getattr(space, "low", None)
    if low is not None:
        ends = float(np.ravel(low)[place]), float(np.ravel(space.high)[place])
        if all(abs(end) < 1e30 for end in ends):
            return ends
    raise BadInput(
        f"number {place + 1} of its observations has no finite range; say one: "
        "--states bins:12[-1.2,0.6]x..."
    )


def shown(observation: Any) -> str:
    """An observation in a sentence."""
    text = " ".join(repr(observation).split())
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


AnyMap = str | StateFunction | Bins | StateMap
"""Whatever may be said of what counts as a state."""
