"""Which team plays: processes on this machine, or Ray's actors."""

from __future__ import annotations

from covgame.workers.messages import Team
from covgame.workers.worker import Recipe


def new_team(
    recipe: Recipe, size: int, actions: int, *, engine: str = "local", address: str | None = None
) -> Team:
    """So many workers for an environment with so many actions."""
    if engine == "ray":
        from covgame.workers.on_ray import RayTeam, connected

        return RayTeam(recipe, size, actions, connected(address, size))
    from covgame.workers.local import LocalTeam

    return LocalTeam(recipe, size, actions)
