"""A simulator that owns its loop: it asks what to do and tells what happened.

python -m examples.own_loop
"""

import random

import covgame as cg

FLOORS, STAGES = 4, 6


def main() -> None:
    """An elevator: every floor with both buttons ten times; one time in ten it does not move."""
    driver = cg.Driver(actions=("up", "down"), horizon=STAGES, target="uniform:10/pair")
    rng = random.Random(0)
    while not driver.covered:
        ride, floor = driver.ask(), 0
        for _ in range(STAGES):
            step = 1 if ride(f"floor {floor}") == "up" else -1
            if rng.random() < 0.9:
                floor = min(max(floor + step, 0), FLOORS - 1)
        ride.end(observation=f"floor {floor}")
        driver.tell(ride)
    print(driver.run.to_text())


if __name__ == "__main__":
    main()
