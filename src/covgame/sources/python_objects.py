"""``py:module:factory``: environments that a user wrote."""

from __future__ import annotations

from typing import Any

from covgame.errors import BadInput
from covgame.imports import call
from covgame.sources.external import GymStepper, Opener, PlainStepper, Stepper
from covgame.sources.states import DiscoveredStates, States


def make_python(text: str, horizon: int | None) -> tuple[int, Opener]:
    """The horizon of what ``factory()`` of a module returns, and how to open it again."""
    module, colon, factory = text.partition(":")
    if not (module and colon and factory):
        raise BadInput(
            f"py:{text}: write py:module:factory, the factory a function without arguments"
        )
    world = call(f"py:{text}")
    if _is_gym(world):
        from covgame.sources import gymnasium_envs

        try:
            stages = gymnasium_envs.find_horizon(world, horizon)
            gymnasium_envs.number_states(world)
            gymnasium_envs.check_actions(world)
        except BadInput as error:
            raise BadInput(f"py:{text}: {error}") from None
    else:
        stages = _check_plain(text, world, horizon)
    return stages, lambda: _open(text)


def _open(text: str) -> tuple[Stepper, States]:
    world = call(f"py:{text}")
    if _is_gym(world):
        from covgame.sources.gymnasium_envs import number_states

        return GymStepper(world), number_states(world)
    return PlainStepper(world), DiscoveredStates()


def _is_gym(world: Any) -> bool:
    return hasattr(world, "action_space") and hasattr(world, "observation_space")


def _check_plain(text: str, world: Any, horizon: int | None) -> int:
    """A plain object has reset, step and actions; its horizon is asked for or its own."""
    for name in ("reset", "step"):
        if not callable(getattr(world, name, None)):
            raise BadInput(f"py:{text}: what it returns has no {name}() method")
    actions = getattr(world, "actions", None)
    if isinstance(actions, bool) or not isinstance(actions, int) or actions < 1:
        raise BadInput(f"py:{text}: what it returns needs actions, the number of its actions")
    stages = horizon if horizon is not None else getattr(world, "horizon", None)
    if stages is None:
        raise BadInput(f"py:{text}: say --horizon, or give what it returns a horizon")
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 1:
        raise BadInput(f"py:{text}: the horizon must be a whole number from 1 on, not {stages!r}")
    return stages
