"""MountainCar shows two real numbers; 12 x 8 intervals of them are states.

python -m examples.mountain_car
"""

import gymnasium
import numpy as np

import covgame as cg


def main() -> None:
    """Where the car has been, position from left to right, velocity from bottom to top."""
    car = gymnasium.make("MountainCar-v0")
    run = cg.cover(car, "uniform:3/pair", states=cg.bins(12, 8), max_episodes=60, seed=1)
    print(run.to_text())
    visits = np.zeros((12, 8), dtype=np.int64)
    for label, n in zip(run.names.states or [], run.counts.visits.sum(axis=(0, 2)), strict=False):
        position, velocity = map(int, label.strip("()").split(","))
        visits[position, velocity] = n
    for row in visits.T[::-1].tolist():
        print(" ".join(f"{n:6,}" if n else "     ." for n in row))


if __name__ == "__main__":
    main()
