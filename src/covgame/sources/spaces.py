"""Gymnasium's spaces: which observations are states as they are, and which actions there are."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from covgame.errors import BadInput
from covgame.sources.states import CountedStates, DiscoveredStates, States
from covgame.sources.steppers import MOST_ACTIONS, Actions, check_number, innermost

MOST_COUNTED = 100_000
"""Discrete observations beyond this are numbered as they appear, like any others."""

LARGEST_PICTURE = 64
"""An array of more whole numbers than that is a picture, and nearly every picture is a new one."""

ACTION_NAMES = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
    "BlackjackEnv": ("stick", "hit"),
    "MountainCarEnv": ("left", "coast", "right"),
    "CartPoleEnv": ("left", "right"),
    "AcrobotEnv": ("back", "none", "forth"),
}


def states_of(space: Any) -> States:
    """How observations are numbered where no map says otherwise.

    Discrete observations have their numbers already; those made of several parts are numbered as
    they appear, because most combinations never do.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        if space.n <= MOST_COUNTED:
            return CountedStates(int(space.n), int(space.start))
        return DiscoveredStates(possible=int(space.n))
    _check_finite(space, "its observations")
    return DiscoveredStates()


def _check_finite(space: Any, what: str) -> None:
    """A space whose values can be states, or a sentence that says what to do."""
    from gymnasium import spaces

    if isinstance(space, spaces.Tuple):
        for number, part in enumerate(space.spaces):
            _check_finite(part, f"part {number} of {what}")
        return
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            _check_finite(part, f"{key!r} of {what}")
        return
    if isinstance(space, spaces.Box):
        _check_box(space, what)
        return
    finite = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Text)
    if not isinstance(space, finite):
        raise BadInput(
            f"{what} are {_short(space)}; say what counts as a state: --states keys:NAME,... or "
            "py:module:function"
        )


def _check_box(space: Any, what: str) -> None:
    size = int(np.prod(space.shape))
    if not np.issubdtype(space.dtype, np.integer):
        bins = "x".join(["10"] * min(size, 4)) if size <= 4 else "4"
        raise BadInput(
            f"{what} are {_numbers(size)}, which hardly ever repeat; say what counts as a "
            f"state: --states bins:{bins} (so many intervals each), round:1 or py:module:function"
        )
    if size > LARGEST_PICTURE:
        shape = " x ".join(str(n) for n in space.shape)
        raise BadInput(
            f"{what} are pictures ({shape} whole numbers), and nearly every picture would be a "
            "state of its own; say what counts as a state: --states keys:NAME,... or "
            "py:module:function, or image:hash if that is what you want"
        )


def _numbers(size: int) -> str:
    return "a real number" if size == 1 else f"{size} real numbers"


def actions_of(env: Any, grid: int | None = None) -> Actions:
    """The actions of an environment by number; ``grid``: so many values of each real one."""
    from gymnasium import spaces

    space = env.action_space
    if isinstance(space, spaces.Discrete):
        values = range(int(space.start), int(space.start) + int(space.n))
        return check_number(Actions(values, _names(env, len(values))))
    if isinstance(space, spaces.MultiDiscrete):
        first = np.broadcast_to(getattr(space, "start", 0), space.shape).reshape(-1)
        parts = [
            range(int(a), int(a) + int(n)) for a, n in zip(first, space.nvec.flat, strict=True)
        ]
        return _combined(parts, space)
    if isinstance(space, spaces.MultiBinary):
        return _combined([range(2)] * int(np.prod(space.shape)), space)
    if isinstance(space, spaces.Box):
        return _combined(_grid(space, grid), space)
    raise BadInput(
        f"its actions are {_short(space)}; covgame plays Discrete, MultiDiscrete, MultiBinary, and "
        "Box with --actions grid:N"
    )


def _grid(space: Any, number: int | None) -> list[list[float]]:
    """Values from the lowest to the highest, for every real number of an action."""
    if number is None:
        raise BadInput(
            f"its actions are {_numbers(int(np.prod(space.shape)))}; say how many values of each "
            "to try: --actions grid:5"
        )
    if number < 2:
        raise BadInput(f"--actions grid:{number}: a grid has at least 2 values, the ends")
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise BadInput("its actions have no finite range to lay a grid over; wrap the environment")
    ends = zip(space.low.reshape(-1), space.high.reshape(-1), strict=True)
    return [np.linspace(low, high, number).tolist() for low, high in ends]


def _combined(parts: list[Any], space: Any) -> Actions:
    """All combinations, as the arrays that the environment takes."""
    number = math.prod(len(part) for part in parts)
    if number > MOST_ACTIONS:
        raise BadInput(
            f"its actions have {number:,} combinations, more than {MOST_ACTIONS:,}; wrap the "
            "environment so that it has fewer"
        )
    combinations = list(itertools.product(*parts))
    values = [np.array(one, dtype=space.dtype).reshape(space.shape) for one in combinations]
    labels = tuple(", ".join(f"{part:.4g}" for part in one) for one in combinations)
    return check_number(Actions(values, labels))


def _names(env: Any, number: int) -> tuple[str, ...] | None:
    """What the environment calls its actions, where it says so."""
    inner = innermost(env)
    known = ACTION_NAMES.get(type(inner).__name__)
    meanings = getattr(inner, "get_action_meanings", None)  # Atari
    listed = getattr(inner, "actions", None)  # MiniGrid: an enumeration
    if known is None and callable(meanings):
        known = tuple(str(word).lower() for word in meanings())
    if known is None and listed is not None and hasattr(listed, "__members__"):
        known = tuple(listed.__members__)
    return known if known is not None and len(known) == number else None


def _short(space: Any) -> str:
    text = " ".join(str(space).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
