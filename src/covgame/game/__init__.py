"""How covering is played: counts, planner, adversary, and the game between them."""
