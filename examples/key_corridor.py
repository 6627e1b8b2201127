"""MiniGrid's KeyCorridor: a key in one room opens another; most of it is never seen by chance.

python -m examples.key_corridor
"""

from examples.minigrid_doors import main

if __name__ == "__main__":
    main("MiniGrid-KeyCorridorS3R1-v0", episodes=400)
