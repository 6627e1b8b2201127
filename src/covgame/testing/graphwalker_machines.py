"""Models of GraphWalker's, and a class whose methods have the names of their elements."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from covgame.sources.graphwalker import Walk, load_graph
from covgame.testing.machines import Per
from covgame.testing.plain_machines import ALWAYS, PlainMachine, marked, takes_one


class GraphWalkerMachine(PlainMachine):
    """Edges are what one can do. A method with the name of an edge is called when it is taken, one
    with the name of a vertex when it is entered; both may be missing.
    """

    per: Per = "edge"

    def __init__(self, machine: type, path: Path) -> None:
        self.graph = load_graph(path)
        self.name, self.implementation = machine.__name__, machine
        self.rules = [edge.label for edge in self.graph.edges]
        self.checks = marked(machine, ALWAYS)

    def make(self) -> Any:
        """An object of the class, at the beginning of a walk."""
        made = self.implementation()
        made.covgame_walk = Walk(self.graph)
        return made

    def begin_with(self, made: Any, random: Random) -> None:
        """The edge that a walk begins with, and the first vertex."""
        if self.graph.start_edge is not None:
            _call(made, self.graph.start_edge.name, random)
        _call(made, self.graph.start.name, random)

    def states(self, made: Any) -> Any:
        """The vertex, with the data of the models."""
        return made.covgame_walk.state()

    def allowed(self, made: Any) -> list[bool]:
        allowed: list[bool] = made.covgame_walk.allowed()
        return allowed

    def perform(self, made: Any, rule: int, random: Random) -> None:
        """Take an edge: what the class does for it, then what it checks where it leads."""
        _call(made, self.graph.edges[rule].name, random)
        made.covgame_walk.take(rule)
        _call(made, made.covgame_walk.at.name, random)


def _call(made: Any, name: str, random: Random) -> None:
    method = getattr(made, name, None)
    if callable(method):
        method(*([random] if takes_one(method) else []))
