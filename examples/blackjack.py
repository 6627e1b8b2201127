"""Blackjack has no table: its states are found on the way, and named as it shows them.

python -m examples.blackjack
"""

import gymnasium

import covgame as cg


def main() -> None:
    """Every hand against every card, hit and stick, as far as 3,000 games find them."""
    table = gymnasium.make("Blackjack-v1")
    run = cg.cover(table, "uniform:5/pair", horizon=8, max_episodes=3_000)
    print(run.to_text())


if __name__ == "__main__":
    main()
