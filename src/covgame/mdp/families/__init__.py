"""Worlds by name: each family is one function from a few parameters to a TabularMDP.

``garnet:states=20,actions=4`` names a world; ``covgame envs`` lists the families. The
functions draw the numbers; ``Builder`` turns them into a checked model. A file of families
registers them when it is imported here.
"""

from covgame.mdp.families import chains, grids, inventory, paper_worlds, random
from covgame.mdp.families.building import Builder
from covgame.mdp.families.registry import FAMILIES, Family

__all__ = [
    "FAMILIES",
    "Builder",
    "Family",
    "chains",
    "grids",
    "inventory",
    "paper_worlds",
    "random",
]
