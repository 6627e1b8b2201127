"""The user's own environments: objects, classes, functions, ``py:module:factory``."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from covgame.errors import BadInput
from covgame.imports import PREFIX, find, said
from covgame.signals import OneProcess
from covgame.sources.maps import AnyMap, MappedStates, state_map
from covgame.sources.states import DiscoveredStates, States
from covgame.sources.steppers import GymStepper, PlainStepper, Stepper

HANDED_OVER = "(an object)"
"""Follows the name of an environment that only this process has."""


PYTHON_WORDS = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class StateActionSpec:
    """What counts as a state of an environment, and which actions there are."""

    states: AnyMap | None = None
    actions: str | None = None  # grid:N

    @property
    def grid(self) -> int | None:
        """How many values of each real number of an action."""
        if self.actions is None:
            return None
        kind, _, number = self.actions.partition(":")
        if kind != "grid" or not re.fullmatch("[0-9]{1,9}", number):
            raise BadInput(f"--actions {self.actions}: write grid:N, such as grid:5")
        return int(number)

    def texts(self) -> dict[str, str | None]:
        """As the configuration of a run has them."""
        if self.states is None or isinstance(self.states, str):
            return {"states": self.states, "actions": self.actions}
        return {"states": state_map(self.states).text, "actions": self.actions}


def has_spaces(world: Any) -> bool:
    """Whether it has observation and action spaces, as Gymnasium's environments do."""
    return hasattr(world, "action_space") and hasattr(world, "observation_space")


def factory_of(env: Any) -> tuple[str, Callable[[], Any], bool]:
    """(Name, how to make it, whether it can be made again) of the user's object."""
    if isinstance(env, str):
        return _by_name(env)
    if inspect.isclass(env) or (callable(env) and not _can_be_played(env)):
        importable = _importable(env)
        name = importable or f"{getattr(env, '__qualname__', type(env).__qualname__)} {HANDED_OVER}"
        return name, lambda: _called(name, env), True
    if not _can_be_played(env):
        raise BadInput(
            "an environment is a name, a file, a model, an object with reset and step, a class or "
            f"a function that makes one, not {type(env).__name__}"
        )
    spec = getattr(env, "spec", None)
    called = getattr(spec, "id", None) or type(env).__qualname__
    return f"{called} {HANDED_OVER}", lambda: env, False


def _by_name(text: str) -> tuple[str, Callable[[], Any], bool]:
    """``py:module:factory?n=3``."""
    place, _, query = text.partition("?")
    module, colon, factory = place.removeprefix(PREFIX).partition(":")
    if not (module and colon and factory):
        raise BadInput(f"{text}: write py:module:factory, or py:module:factory?name=value")
    options = parse_options(text, query)
    function = find(place)
    if _can_be_played(function) and not inspect.isclass(function):
        return text, lambda: function, True
    if not callable(function):
        raise BadInput(f"{text}: {factory!r} is no function, class or environment")
    return text, lambda: _called(text, function, options), True


def _called(name: str, function: Any, options: dict[str, Any] | None = None) -> Any:
    try:
        with OneProcess():
            return function(**(options or {}))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also sys.exit: an environment does not end a command
        raise BadInput(f"{name}: calling it raised {said(error)}") from error


def _can_be_played(env: Any) -> bool:
    return callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))


def _importable(thing: Any) -> str | None:
    """``py:module:name``, if a later process finds the same thing there."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        return None
    found = getattr(sys.modules.get(module), name, None)
    return f"{PREFIX}{module}:{name}" if found is thing else None


def open_world(world: Any, spec: StateActionSpec) -> tuple[Stepper, States]:
    """An environment, ready to be played, and how its observations are numbered."""
    if not has_spaces(world):
        stepper: Stepper = PlainStepper(world)
        return stepper, _numbered(DiscoveredStates(), spec, None, stepper.world)
    from covgame.sources.gymnasium_envs import actions_of, states_of

    actions = actions_of(world, spec.grid)
    is_gym = hasattr(world, "unwrapped")
    stepper = GymStepper(world, actions) if is_gym else PlainStepper(world, actions)
    space = world.observation_space
    plain = DiscoveredStates() if spec.states is not None else states_of(space)
    return stepper, _numbered(plain, spec, space, stepper.world)


def _numbered(plain: States, spec: StateActionSpec, space: Any, world: Any) -> States:
    if spec.states is None:
        return plain
    return MappedStates(state_map(spec.states, space), world)


def horizon_of(world: Any, horizon: int | None) -> int:
    """The horizon asked for, or the environment's own limit; never longer than that."""
    spec = getattr(world, "spec", None) if has_spaces(world) else None
    limit = spec.max_episode_steps if spec is not None else None
    own = limit if limit is not None else getattr(world, "horizon", None)
    stages = horizon if horizon is not None else own
    if stages is None:
        raise BadInput(
            "it has no time limit of its own; say --horizon"
            if has_spaces(world)
            else "say --horizon, or give what it returns a horizon"
        )
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 1:
        raise BadInput(f"the horizon must be a whole number from 1 on, not {stages!r}")
    if limit is not None and stages > limit:
        raise BadInput(f"it ends its episodes after {limit} steps; --horizon {stages} is longer")
    return stages


def check_playable(world: Any) -> None:
    """A plain object has reset, step and actions."""
    for name in ("reset", "step"):
        if not callable(getattr(world, name, None)):
            raise BadInput(f"what it returns has no {name}() method")
    if not has_spaces(world) and not hasattr(world, "actions"):
        raise BadInput(
            "what it returns needs actions: their number, or a list of them (or both "
            "action_space and observation_space)"
        )


def parse_options(text: str, query: str) -> dict[str, Any]:
    """``is_slippery=false&map_name=8x8``: JSON values where they are such, else text."""
    options: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if not (key and equals):
            raise BadInput(f"{text}: write options as name=value, not {part!r}")
        if key in options:
            raise BadInput(f"{text}: the option {key!r} is given twice")
        word = unquote(value)
        try:
            options[key] = PYTHON_WORDS[word] if word in PYTHON_WORDS else json.loads(word)
        except ValueError:
            options[key] = word
    return options
