"""MiniGrid, python -m examples.minigrid_doors: a key, a locked door, and a goal behind it."""

from typing import Any

import gymnasium
import minigrid  # noqa: F401 (registers its environments)

import covgame as cg


class SameMaze(gymnasium.Wrapper):
    """Not another maze every time, whatever seed is asked for."""

    def reset(self, **_: Any) -> Any:
        return self.env.reset(seed=0)


def state(_seen: Any, world: Any) -> tuple[Any, ...]:
    """Where it stands and looks, what it carries, how doors are, and where things lie."""
    things = [(place, thing) for place, thing in enumerate(world.grid.grid) if thing]
    doors = [(one.is_open, one.is_locked) for _, one in things if one.type == "door"]
    lying = [(place, one.type) for place, one in things if one.can_pickup()]
    carries = world.carrying.type if world.carrying else "nothing"
    return *map(int, world.agent_pos), int(world.agent_dir), carries, *doors, *lying


def main(name: str = "MiniGrid-DoorKey-5x5-v0", episodes: int = 150) -> None:
    """Every action in every situation once."""
    maze, asked = SameMaze(gymnasium.make(name)), "uniform:1/pair"
    print(cg.cover(maze, asked, horizon=60, states=state, max_episodes=episodes).to_text())


if __name__ == "__main__":
    main()
