"""Taxi: 500 states, actions that are not always allowed, every allowed one once.

python -m examples.taxi
"""

import gymnasium

import covgame as cg


def main() -> None:
    """What is missing after 40 rides, in words."""
    run = cg.cover(gymnasium.make("Taxi-v4"), "uniform:1/pair", horizon=25, max_episodes=40)
    print(run.to_text())


if __name__ == "__main__":
    main()
