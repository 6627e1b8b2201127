"""Gymnasium environments that expose their transition table: ``env.unwrapped.P``."""

from __future__ import annotations

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
from covgame.sources.options import parse_options
from covgame.sources.spaces import ACTION_NAMES
from covgame.sources.steppers import innermost
from covgame.types import END, BoolArray, Shape


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
