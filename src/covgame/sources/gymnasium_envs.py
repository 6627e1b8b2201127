"""Gymnasium environments: by name, their spaces, and the transition tables that some have."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from covgame.arrays import sum_by_index
from covgame.errors import BadInput
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.memory import require_room
from covgame.names import Names
from covgame.signals import OneProcess
from covgame.sources.objects import parse_options
from covgame.sources.states import CountedStates, DiscoveredStates, States
from covgame.sources.steppers import MOST_ACTIONS, Actions, check_number, innermost
from covgame.types import END, BoolArray, Shape

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


def gym_factory(text: str) -> Callable[[], Any]:
    """How to make ``FrozenLake-v1?map_name=8x8``."""
    name, _, query = text.partition("?")
    options = parse_options(f"gym:{text}", query)
    if options.get("map_name", "a map") is None and options.get("desc") is None:
        raise BadInput(f"gym:{text} draws another map every time; name one (map_name=4x4 or 8x8)")
    return lambda: open_gym(name, options)


def open_gym(name: str, options: dict[str, Any]) -> Any:
    """``gymnasium.make`` with its complaints turned into one sentence."""
    import gymnasium

    try:
        with OneProcess(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gymnasium.make(name, disable_env_checker=True, **options)
    except gymnasium.error.Error as error:
        raise BadInput(f"Gymnasium cannot make {name!r}: {_one_line(error)}") from error
    except Exception as error:  # whatever a constructor makes of options it does not like
        said = f"{type(error).__name__}: {_one_line(error)}"
        raise BadInput(f"gym:{name} cannot be made with options {options}: {said}") from error


HARMLESS = {"OrderEnforcing", "PassiveEnvChecker", "TimeLimit"}
"""Wrappers that change nothing of what an environment does."""


def is_itself(env: Any) -> bool:
    """Whether no wrapper changes what the environment does, so that its table holds."""
    while env is not innermost(env):
        if type(env).__name__ not in HARMLESS:
            return False
        env = env.env
    return True


def read_table(env: Any, horizon: int) -> TabularMDP | None:
    """The model, if the environment has both a table and an initial distribution."""
    table = getattr(env, "P", None)
    initial = getattr(env, "initial_state_distrib", None)
    if not isinstance(table, dict) or initial is None or _departs_from_its_table(env):
        return None
    if not hasattr(env.observation_space, "n"):
        return None
    shape = Shape(horizon, int(env.observation_space.n), int(env.action_space.n))
    allowed = _allowed(env, shape)
    entries = [
        (s * shape.actions + a, END if terminated else int(successor), p, p * reward)
        for s, by_action in table.items()
        for a, outcomes in by_action.items()
        for p, successor, reward, terminated in outcomes
        if allowed is None or allowed[s, a]
    ]
    require_room(shape, len(entries), "this environment")
    row, successor, probability, earned = (
        np.array(column) for column in zip(*entries, strict=True)
    )
    transitions = Transitions.from_entries(
        shape,
        np.asarray(initial, dtype=np.float64),
        row.astype(np.int64),
        successor.astype(np.int64),
        probability.astype(np.float64),
        stationary=True,
    )
    transitions = replace(transitions, allowed=allowed)
    rewards = sum_by_index(row, earned, shape.pairs)
    return TabularMDP(
        transitions, rewards.reshape(1, shape.states, shape.actions), _names(env, shape)
    )


def _allowed(env: Any, shape: Shape) -> BoolArray | None:
    """The action masks of all states, where the environment tells them (Taxi does)."""
    mask = getattr(env, "action_mask", None)
    if not callable(mask):
        return None
    return np.array([mask(s) for s in range(shape.states)], dtype=np.bool_)


def _departs_from_its_table(env: Any) -> bool:
    """Taxi's fickle passengers change their minds in ``step``, not in the table."""
    return bool(getattr(env, "fickle_passenger", False))


def _names(env: Any, shape: Shape) -> Names:
    actions = ACTION_NAMES.get(type(env).__name__)
    grid = getattr(env, "shape", None) or (getattr(env, "nrow", 0), getattr(env, "ncol", 0))
    if len(grid) == 2 and grid[0] * grid[1] == shape.states:
        return Names(None, actions, (int(grid[0]), int(grid[1])), _places(env, shape))
    if type(env).__name__ == "TaxiEnv":
        return Names(
            states=tuple(_taxi_state(env, s) for s in range(shape.states)), actions=actions
        )
    return Names(actions=actions)


LETTERS = {b"S": "start", b"H": "hole", b"G": "goal"}


def _places(env: Any, shape: Shape) -> tuple[str, ...] | None:
    """What is where on FrozenLake's maps and at the cliff."""
    letters, cliff = getattr(env, "desc", None), getattr(env, "_cliff", None)
    if letters is not None:
        return tuple(LETTERS.get(bytes(letter), "") for letter in np.ravel(letters))
    if cliff is None:
        return None
    places = ["cliff" if fallen else "" for fallen in np.ravel(cliff)]
    places[int(np.argmax(env.initial_state_distrib))], places[shape.states - 1] = "start", "goal"
    return tuple(places)


def _taxi_state(env: Any, state: int) -> str:
    row, column, passenger, destination = env.decode(state)
    where = "in the taxi" if passenger == 4 else f"at stop {passenger}"
    return f"taxi at {row},{column}, passenger {where}, going to stop {destination}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


# ------------------------------------------------------------------------- spaces


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
            f"{what} are {_describe(space)}; say what counts as a state: --states keys:NAME,... or "
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
        return check_number(Actions(values, _action_names(env, len(values))))
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
        f"its actions are {_describe(space)}; covgame plays Discrete, MultiDiscrete, MultiBinary, "
        "and Box with --actions grid:N"
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


def _action_names(env: Any, number: int) -> tuple[str, ...] | None:
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


def _describe(space: Any) -> str:
    text = " ".join(str(space).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
