"""Adapters: Gymnasium environments and plain objects, stepped in one way."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from covgame.errors import BadInput, EnvironmentFailed

MOST_ACTIONS = 10_000


class ProcessDied(EnvironmentFailed):
    """The process of an environment ended, or had to be killed."""


class Step(NamedTuple):
    """What an environment shows after an action."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    mask: Any  # which actions are allowed next, or None


@dataclass(frozen=True)
class Actions:
    """The actions of an environment by number: the values that it takes, and their labels."""

    values: Sequence[Any]
    labels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.values)


class Stepper(ABC):
    """An environment that is played step by step, here or in another process."""

    actions: Actions
    world: Any  # the environment itself, for state maps that read it
    spaces: tuple[Any, Any] = (None, None)  # Gymnasium's, of observations and of actions
    is_driven: bool = False  # episodes are told by a driver; there is nothing to step

    @abstractmethod
    def reset(self, seed: int) -> tuple[Any, Any]:
        """Start an episode: (observation, mask of allowed actions or None)."""

    @abstractmethod
    def step(self, action: int) -> Step:
        """Take an action."""

    def close(self) -> None:
        """Release a process; the next reset starts it again."""
        return


class AbsentStepper(Stepper):
    """Describes an environment that cannot be stepped here; recorded episodes can be read."""

    world = None

    def __init__(
        self, actions: Actions, why: str = "the environment is not here", *, is_driven: bool = False
    ) -> None:
        self.actions, self.why, self.is_driven = actions, why, is_driven

    def reset(self, seed: int) -> tuple[Any, Any]:
        raise EnvironmentFailed(self.why)

    def step(self, action: int) -> Step:
        raise EnvironmentFailed(self.why)


def innermost(env: Any) -> Any:
    """The environment without its wrappers, if it has any."""
    return getattr(env, "unwrapped", env)


def spaces_of(env: Any) -> tuple[Any, Any]:
    """Observation space and action space."""
    return env.observation_space, env.action_space


class GymStepper(Stepper):
    """A Gymnasium environment."""

    def __init__(self, env: Any, actions: Actions) -> None:
        self.env, self.actions = env, actions
        self.world, self.spaces = innermost(env), spaces_of(env)
        self.values = actions.values

    def reset(self, seed: int) -> tuple[Any, Any]:
        observation, info = self.env.reset(seed=seed)
        return observation, info.get("action_mask")

    def step(self, action: int) -> Step:
        observation, reward, terminated, truncated, info = self.env.step(self.values[action])
        return Step(observation, reward, terminated, truncated, info.get("action_mask"))


class PlainStepper(Stepper):
    """An object of one's own with ``reset()``, ``step(action)`` and ``actions``.

    ``actions`` is how many there are, or what they are: names, or whatever ``step`` takes.
    ``reset`` returns an observation, or (observation, info) with info a dictionary; if it takes an
    argument, that is a seed. ``step`` returns (observation, reward, done), or Gymnasium's five.
    Spaces may stand for ``actions``, as Gymnasium has them.
    """

    def __init__(self, world: Any, actions: Actions | None = None) -> None:
        self.world = world
        self.spaces = (None, None) if actions is None else spaces_of(world)
        self.actions = plain_actions(world.actions) if actions is None else actions
        self.values = self.actions.values
        self.seeding = _seeding(world.reset)

    def reset(self, seed: int) -> tuple[Any, Any]:
        if self.seeding == "by name":
            shown = self.world.reset(seed=seed)
        else:
            shown = self.world.reset(seed) if self.seeding else self.world.reset()
        if isinstance(shown, tuple) and len(shown) == 2 and isinstance(shown[1], dict):
            return shown[0], shown[1].get("action_mask")
        return shown, None

    def step(self, action: int) -> Step:
        shown = self.world.step(self.values[action])
        if isinstance(shown, tuple) and len(shown) == 3:
            observation, reward, done = shown
            return Step(observation, reward, done, False, None)
        if isinstance(shown, tuple) and len(shown) == 5:
            observation, reward, terminated, truncated, info = shown
            mask = info.get("action_mask") if info else None
            return Step(observation, reward, terminated, truncated, mask)
        raise TypeError(
            "step must return (observation, reward, done) or (observation, reward, terminated, "
            f"truncated, info), not {shown!r}"
        )


def plain_actions(said: Any) -> Actions:
    """Actions from their number, or from a list of them."""
    if isinstance(said, bool) or not (hasattr(said, "__index__") or hasattr(said, "__iter__")):
        raise BadInput(f"its actions are a number or a list, not {said!r}")
    if isinstance(said, str):
        raise BadInput(f"its actions are a number or a list, not the text {said!r}")
    if hasattr(said, "__index__"):
        return check_number(Actions(range(int(said))))
    values = list(said)
    labels = tuple(value.name if isinstance(value, Enum) else str(value) for value in values)
    if len(set(labels)) < len(labels):
        raise BadInput(f"two of its actions have the same name: {', '.join(labels[:20])}")
    return check_number(Actions(values, labels))


def check_number(actions: Actions) -> Actions:
    """Refuse no actions, and more than ``MOST_ACTIONS``."""
    if not 1 <= len(actions) <= MOST_ACTIONS:
        raise BadInput(
            f"it has {len(actions):,} actions, and covgame plays 1 to {MOST_ACTIONS:,}; "
            "name fewer of them"
        )
    return actions


def _seeding(reset: Any) -> str:
    """How ``reset`` takes a seed: by name, as its one required argument, or not at all."""
    try:
        parameters = inspect.signature(reset).parameters.values()
    except (TypeError, ValueError):  # compiled code does not always say
        return ""
    if any(one.name == "seed" or one.kind is one.VAR_KEYWORD for one in parameters):
        return "by name"
    asked = [
        one
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    return "by place" if len(asked) == 1 else ""
