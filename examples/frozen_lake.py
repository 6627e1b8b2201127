"""FrozenLake: every action on every square, and what it costs at least.

python -m examples.frozen_lake
"""

import gymnasium

import covgame as cg


def main() -> None:
    """The lake as a map of visits."""
    run = cg.cover(gymnasium.make("FrozenLake-v1"), "uniform:20/pair", horizon=30)
    print(run.to_text())


if __name__ == "__main__":
    main()
