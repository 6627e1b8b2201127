"""A simulator that owns its loop: it asks the game for a policy and tells what happened.

python examples/own_loop.py
"""

from __future__ import annotations

import numpy as np

import covgame as cg

STAGES, FLOORS, ACTIONS = 6, 4, 2


def ride(policy: cg.Policy, rng: np.random.Generator) -> cg.Episode:
    """An elevator: action 1 goes up, 0 down, one time in ten it does not move."""
    floor, states, actions = 0, [], []
    for stage in range(STAGES):
        action = int(policy.table[stage, floor])
        states.append(floor)
        actions.append(action)
        if rng.random() < 0.9:
            floor = int(np.clip(floor + (1 if action else -1), 0, FLOORS - 1))
    successors = [*states[1:], cg.LAST]
    return cg.Episode(np.array(states), np.array(actions), np.zeros(STAGES), np.array(successors))


def main() -> None:
    """Every floor with both buttons ten times, at whatever stage."""
    rows = [(None, floor, action, 10) for floor in range(FLOORS) for action in range(ACTIONS)]
    target = cg.cells(rows).on(cg.Shape(STAGES, FLOORS, ACTIONS))
    game = cg.default_game(target, pooled=True)
    rng = np.random.default_rng(0)
    while not game.covered:
        game.tell(ride(game.ask(), rng))
    print(f"covered in {game.counts.n_episodes} rides")
    print(game.counts.visits.sum(axis=0))


if __name__ == "__main__":
    main()
