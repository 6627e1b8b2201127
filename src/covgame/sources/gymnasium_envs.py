"""Gymnasium environments that expose their transition table: ``env.unwrapped.P``."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import numpy as np

from covgame.arrays import sum_by_index
from covgame.errors import BadInput
from covgame.mdp.model import Names, TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.memory import require_room
from covgame.sources.external import GymStepper, Opener, Stepper
from covgame.sources.states import CountedStates, DiscoveredStates, States
from covgame.types import END, BoolArray, Shape

ACTION_NAMES = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
}


MOST_COUNTED = 100_000
"""Discrete observations beyond this are numbered as they appear, like any others."""

PYTHON_WORDS = {"True": True, "False": False, "None": None}


def make_gym(text: str, horizon: int | None) -> tuple[int, TabularMDP | None, Opener]:
    """``FrozenLake-v1?map_name=8x8``: horizon, the model where there is one, how to open it."""
    name, _, query = text.partition("?")
    options = parse_options(text, query)
    if options.get("map_name", "a map") is None and options.get("desc") is None:
        raise BadInput(f"gym:{text} draws another map every time; name one (map_name=4x4 or 8x8)")
    env = open_gym(name, options)
    try:
        stages = find_horizon(env, horizon)
        number_states(env)
        check_actions(env)
        return stages, _read_table(env.unwrapped, stages), lambda: _open(name, options)
    except BadInput as error:
        raise type(error)(f"gym:{text}: {error}") from None
    finally:
        env.close()


def _open(name: str, options: dict[str, Any]) -> tuple[Stepper, States]:
    env = open_gym(name, options)
    return GymStepper(env), number_states(env)


def number_states(env: Any) -> States:
    """How the observations of a Gymnasium environment are numbered.

    Discrete observations have their numbers already; those made of several such are numbered as
    they appear, because most combinations never do.
    """
    from gymnasium import spaces

    space = env.observation_space
    if isinstance(space, spaces.Discrete) and space.n <= MOST_COUNTED:
        return CountedStates(int(space.n), int(space.start))
    parts = space.spaces if isinstance(space, spaces.Tuple) else [space]
    if all(isinstance(part, spaces.Discrete | spaces.MultiDiscrete) for part in parts):
        return DiscoveredStates()
    raise BadInput(
        f"its observations are {space}; covgame needs finitely many states: Discrete, "
        "MultiDiscrete or a Tuple of Discrete (wrap the environment to round them off)"
    )


def check_actions(env: Any) -> None:
    """Actions must be numbered."""
    from gymnasium import spaces

    if not isinstance(env.action_space, spaces.Discrete):
        raise BadInput(f"its actions are {env.action_space}; covgame needs Discrete ones")


def open_gym(name: str, options: dict[str, Any]) -> Any:
    """``gymnasium.make`` with its complaints turned into one sentence."""
    import gymnasium

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gymnasium.make(name, disable_env_checker=True, **options)
    except gymnasium.error.Error as error:
        raise BadInput(f"Gymnasium cannot make {name!r}: {_one_line(error)}") from error
    except Exception as error:  # whatever a constructor makes of options it does not like
        said = f"{type(error).__name__}: {_one_line(error)}"
        raise BadInput(f"gym:{name} cannot be made with options {options}: {said}") from error


def parse_options(text: str, query: str) -> dict[str, Any]:
    """``is_slippery=false&map_name=8x8``: JSON values where they are such, else text."""
    options: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if not (key and equals):
            raise BadInput(f"gym:{text}: write options as name=value, not {part!r}")
        if key in options:
            raise BadInput(f"gym:{text}: the option {key!r} is given twice")
        options[key] = _value(unquote(value))
    return options


def _value(text: str) -> Any:
    if text in PYTHON_WORDS:
        return PYTHON_WORDS[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def find_horizon(env: Any, horizon: int | None) -> int:
    """The horizon asked for, or the environment's own limit; never longer than that."""
    spec = getattr(env, "spec", None)
    limit = spec.max_episode_steps if spec is not None else None
    if horizon is None:
        if limit is None:
            raise BadInput("it has no time limit of its own; say --horizon")
        return int(limit)
    if horizon < 1:
        raise BadInput(f"the horizon must be at least 1, not {horizon}")
    if limit is not None and horizon > limit:
        raise BadInput(f"it ends its episodes after {limit} steps; --horizon {horizon} is longer")
    return horizon


def _read_table(env: Any, horizon: int) -> TabularMDP | None:
    """The model, if the environment has both a table and an initial distribution."""
    table = getattr(env, "P", None)
    initial = getattr(env, "initial_state_distrib", None)
    if not isinstance(table, dict) or initial is None or _departs_from_its_table(env):
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
        return Names(actions=actions, grid=(int(grid[0]), int(grid[1])))
    if type(env).__name__ == "TaxiEnv":
        return Names(
            states=tuple(_taxi_state(env, s) for s in range(shape.states)), actions=actions
        )
    return Names(actions=actions)


def _taxi_state(env: Any, state: int) -> str:
    row, column, passenger, destination = env.decode(state)
    where = "in the taxi" if passenger == 4 else f"at stop {passenger}"
    return f"taxi at {row},{column}, passenger {where}, going to stop {destination}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
