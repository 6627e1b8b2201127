"""Observations that are kept as they were shown: their space as JSON, and a copy of each.

The JSON of a space has all that is needed to store its observations, so that a run can be read
without Gymnasium. Observations without a space, or of an unknown one, are kept as text.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from covgame.errors import BadInput, EnvironmentFailed
from covgame.sources.states import as_hashable, key_of
from covgame.sources.steppers import Actions

Space = dict[str, Any]
"""A space of Gymnasium's as JSON."""

Keeper = Callable[[Any], Any]
"""Makes of an observation what is kept of it: a copy, because environments reuse their arrays."""

ARRAYS = ("Box", "MultiDiscrete", "MultiBinary")
STORABLE = {"bool", "float16", "float32", "float64"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""Numbers that every reader of Parquet knows."""

LONGEST_TEXT = 10_000
"""Bound of the Text space that stands for other spaces of text."""


def space_to_json(space: Any) -> Space:
    """A space of Gymnasium's as JSON.

    Args:
        space: Discrete, MultiDiscrete, MultiBinary, Box, Text, another space of text, and Tuple or
            Dict of such.

    Returns:
        What ``space_from_json`` makes the same space of; a Text for other spaces of text.

    Raises:
        BadInput: It is another kind of space, or its numbers are of a kind that cannot be stored.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.Text):
        lengths = {"min_length": int(space.min_length), "max_length": int(space.max_length)}
        return {"type": "Text", **lengths, "charset": "".join(sorted(space.character_set))}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [space_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Dict) and all(isinstance(key, str) for key in space.spaces):
        parts = {key: space_to_json(part) for key, part in space.spaces.items()}
        return {"type": "Dict", "spaces": parts}
    arrays = spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box
    if isinstance(space, arrays) and np.dtype(space.dtype).name in STORABLE:
        return _array_to_json(space)
    if space.dtype is not None and space.dtype.kind == "U":  # text, such as MiniGrid's missions
        lengths = {"min_length": 0, "max_length": LONGEST_TEXT}
        return {"type": "Text", **lengths, "charset": string.printable}
    raise BadInput(f"{type(space).__name__} is no space whose values can be stored by themselves")


def _array_to_json(space: Any) -> Space:
    from gymnasium import spaces

    numbers = {"dtype": np.dtype(space.dtype).name, "shape": [int(n) for n in space.shape]}
    if isinstance(space, spaces.MultiDiscrete):
        counts = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"type": "MultiDiscrete", **numbers, **counts}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", **numbers, "n": _size(space.n)}
    return {"type": "Box", **numbers, "low": _bound(space.low), "high": _bound(space.high)}


def _size(n: Any) -> Any:
    """A number or a shape: Gymnasium takes 3 and (3,) for different spaces."""
    return int(n) if np.ndim(n) == 0 else [int(one) for one in n]


def _bound(bound: Any) -> Any:
    """One number if it is the same everywhere, or all in C order; JSON has no infinity."""
    values = bound.reshape(-1).tolist()
    if values and all(value == values[0] for value in values):
        return _finite(values[0])
    return [_finite(value) for value in values]


def _finite(value: Any) -> Any:
    return value if np.isfinite(value) else str(value)


def space_from_json(content: Mapping[str, Any]) -> Any:
    """The space that was written as JSON.

    Args:
        content: What ``space_to_json`` returned, as the configuration has it.

    Returns:
        The ``gymnasium.spaces.Space``.

    Raises:
        BadInput: It describes no space.
    """
    try:
        return _space_from(content)
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise BadInput(f"this describes no space of observations or actions: {content}") from error


def _space_from(content: Mapping[str, Any]) -> Any:
    from gymnasium import spaces

    kind = content["type"]
    if kind == "Discrete":
        return spaces.Discrete(content["n"], start=content["start"])
    if kind == "Text":
        lengths = {"min_length": content["min_length"], "max_length": content["max_length"]}
        return spaces.Text(charset=content["charset"], **lengths)
    if kind == "Tuple":
        return spaces.Tuple([_space_from(part) for part in content["spaces"]])
    if kind == "Dict":
        # Pairs keep their order, which a dictionary would lose.
        return spaces.Dict([(key, _space_from(part)) for key, part in content["spaces"].items()])
    return _array_space_from(content)


def _array_space_from(content: Mapping[str, Any]) -> Any:
    from gymnasium import spaces

    kind = content["type"]
    dtype, shape = np.dtype(content["dtype"]), tuple(content["shape"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(content["nvec"], dtype=dtype.type, start=content["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(content["n"])
    if kind != "Box":
        raise ValueError(kind)
    low, high = (_bound_from(content[end], dtype, shape) for end in ("low", "high"))
    return spaces.Box(low, high, shape, dtype.type)


def _bound_from(bound: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if not isinstance(bound, list):
        return np.full(shape, _number(bound), dtype=dtype)
    return np.array([_number(value) for value in bound], dtype=dtype).reshape(shape)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def stored_space(space: Any) -> Space | None:
    """How observations of a space are stored; None: as text."""
    if space is None:
        return None
    try:
        return space_to_json(space)
    except BadInput:
        return None


def handed_over(actions: Actions) -> list[Any] | None:
    """What an environment is handed for every action, as JSON; None if that is the number."""
    if list(actions.values) == list(range(len(actions))):
        return None
    labels = actions.labels or tuple(map(str, actions.values))
    return [_as_json(value, label) for value, label in zip(actions.values, labels, strict=True)]


def _as_json(value: Any, label: str) -> Any:
    try:
        return json.loads(json.dumps(value, default=_plain, allow_nan=False))
    except (TypeError, ValueError):
        return label


# ------------------------------------------------------------------ one observation, when it shows


def keeper_of(space: Space | None, what: str = "an observation") -> Keeper:
    """What is kept of observations of a space: numbers, the bytes of arrays, text, tuples of parts.

    Args:
        space: The space as JSON, None for any observations.
        what: What it is called in a sentence.

    Returns:
        A function that raises ``EnvironmentFailed`` on an observation that does not fit.
    """
    if space is None:
        return as_text
    kind = space["type"]
    if kind == "Discrete":
        return lambda shown: _whole(shown, what)
    if kind == "Text":
        return lambda shown: _text(shown, what)
    if kind in ARRAYS:
        return _array_keeper(np.dtype(space["dtype"]), tuple(space["shape"]), what)
    parts = space["spaces"]
    keys: Sequence[Any] = list(parts) if kind == "Dict" else range(len(parts))
    keepers = [(key, keeper_of(parts[key], f"{key!r} of {what}")) for key in keys]
    collection: Any = Mapping if kind == "Dict" else list | tuple

    def keep_parts(shown: Any) -> tuple[Any, ...]:
        if not isinstance(shown, collection) or len(shown) != len(keys):
            raise _misfit(what, _short(shown), f"a {kind} of {len(keys)} parts")
        try:
            return tuple([keep(shown[key]) for key, keep in keepers])
        except KeyError as error:
            raise _misfit(what, f"without {error}", f"a Dict of {', '.join(keys)}") from None

    return keep_parts


def _array_keeper(dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> Keeper:
    def keep(shown: Any) -> bytes:
        if type(shown) is np.ndarray and shown.dtype == dtype and shown.shape == shape:
            return shown.tobytes()  # a copy, in C order
        try:
            given = np.asarray(shown)
        except ValueError:
            raise _misfit(what, _short(shown), f"{dtype} of shape {shape}") from None
        if given.shape != shape:
            raise _misfit(what, f"of shape {given.shape}", f"{dtype} of shape {shape}")
        converted: bytes = _converted(given, dtype, what).tobytes()
        return converted

    return keep


def _converted(given: Any, dtype: np.dtype[Any], what: str) -> Any:
    """As numbers of the space; real numbers may be rounded to its precision, nothing else."""
    if given.dtype.kind not in "biuf":
        raise _misfit(what, f"of {given.dtype}", str(dtype))
    with np.errstate(all="ignore"):
        value = given.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(value, given):
        raise _misfit(what, f"of {given.dtype}", f"{dtype}, which cannot hold all of it")
    return value


def _whole(shown: Any, what: str) -> int:
    try:
        value = int(shown)
    except (TypeError, ValueError, OverflowError):
        raise _misfit(what, _short(shown), "a whole number") from None
    if value != shown or not -(2**63) <= value < 2**63:
        raise _misfit(what, _short(shown), "a whole number")
    return value


def _text(shown: Any, what: str) -> str:
    try:
        if isinstance(shown, str) and shown.encode() is not None:
            return str(shown)
    except UnicodeEncodeError:
        pass  # halves of characters are no text in any file
    raise _misfit(what, _short(shown), "text")


def as_text(shown: Any) -> str:
    """Any observation as JSON, or in words where that cannot be."""
    try:
        return json.dumps(shown, default=_plain)
    except (TypeError, ValueError):
        return key_of(as_hashable(shown))


def _plain(part: Any) -> Any:
    """What JSON does not know by itself."""
    if isinstance(part, np.ndarray | np.generic):
        return part.tolist()
    if isinstance(part, Mapping):
        return dict(part)
    raise TypeError


def _misfit(what: str, shown: str, expected: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"it showed {what} that does not fit its space, and so cannot be kept: {shown}, not "
        f"{expected}"
    )


def _short(shown: Any) -> str:
    text = " ".join(repr(shown).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
