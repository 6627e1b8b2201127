"""Models in GraphWalker's JSON as environments: states are vertices with data, actions are edges.

Supported: guards and actions that are simple (``expressions``), several models that are joined by
shared states, blocked elements. Generators, stop conditions, weights, dependencies and requirements
say how GraphWalker should walk, or what a vertex is for, and are not looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from covgame.errors import BadInput, PremiseBroken
from covgame.imports import said
from covgame.jsonfile import read_json
from covgame.sources.expressions import Data, expression, statements

PREFIX = "gw:"

LEAST_STEPS = 50
"""Of a walk, unless somebody says otherwise; large models get longer ones."""


@dataclass(frozen=True)
class Vertex:
    """A place in a model."""

    id: str
    name: str
    model: int
    shared: str | None
    actions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edge:
    """A way from a vertex to another; from nowhere: where a walk begins."""

    id: str
    name: str
    model: int
    source: str | None
    target: str
    guard: str | None
    actions: tuple[str, ...]
    label: str = ""


@dataclass(frozen=True)
class Graph:
    """All models of a file."""

    name: str
    models: tuple[str, ...]
    vertices: dict[str, Vertex]
    edges: tuple[Edge, ...]  # those that can be chosen
    actions: tuple[tuple[str, ...], ...]  # by model: what sets its data up
    start: Vertex
    start_edge: Edge | None = None
    ways: dict[str, tuple[int, ...]] = field(default_factory=dict)  # out of a vertex, by number


def load_graph(path: str | Path) -> Graph:
    """Read a file of models, and check all of it."""
    content = read_json(Path(path))
    models = content.get("models") if isinstance(content, dict) else None
    if not isinstance(models, list) or not models:
        raise BadInput(f"{path} has no list of models, as GraphWalker's JSON has")
    try:
        return _graph(Path(path).stem, models)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} is no model of GraphWalker's: {said(error)}") from None
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def _graph(name: str, models: list[dict[str, Any]]) -> Graph:
    vertices = {
        str(one["id"]): Vertex(
            str(one["id"]), str(one.get("name") or one["id"]), number,
            one.get("sharedState"), _actions(one),
        )
        for number, model in enumerate(models)
        for one in model.get("vertices", [])
        if not one.get("blocked")
    }  # fmt: skip
    edges = [
        Edge(
            str(one["id"]), str(one.get("name") or one["id"]), number,
            one.get("sourceVertexId"), str(one["targetVertexId"]), one.get("guard") or None,
            _actions(one),
        )
        for number, model in enumerate(models)
        for one in model.get("edges", [])
        if not one.get("blocked")
    ]  # fmt: skip
    _check(vertices, edges)
    start, start_edge = _start(models, vertices, edges)
    chosen = _labelled([one for one in edges if one.source is not None])
    return Graph(
        name,
        tuple(str(model.get("name") or number) for number, model in enumerate(models)),
        vertices,
        chosen,
        tuple(_actions(model) for model in models),
        start,
        start_edge,
        _ways(vertices, chosen),
    )


def _actions(one: dict[str, Any]) -> tuple[str, ...]:
    found = tuple(map(str, one.get("actions") or []))
    for text in found:
        statements(text)
    return found


def _check(vertices: dict[str, Vertex], edges: list[Edge]) -> None:
    """Edges lead from and to what there is, and their guards can be read."""
    for one in edges:
        for end in (one.source, one.target):
            if end is not None and end not in vertices:
                raise BadInput(f"the edge {one.name} is about a vertex {end!r}, and there is none")
        if one.guard is not None:
            expression(one.guard)


def _start(
    models: list[dict[str, Any]], vertices: dict[str, Vertex], edges: list[Edge]
) -> tuple[Vertex, Edge | None]:
    """Where a walk begins: what a model names, or the edge that comes from nowhere."""
    by_id = {one.id: one for one in edges}
    for model in models:
        named = model.get("startElementId")
        if named in by_id:
            return vertices[by_id[named].target], by_id[named]
        if named in vertices:
            return vertices[named], None
    for one in edges:
        if one.source is None:
            return vertices[one.target], one
    raise BadInput("no model says where to begin; name a startElementId")


def _labelled(edges: list[Edge]) -> tuple[Edge, ...]:
    """Edges by names that differ: their own, with the id where several have the same."""
    if not edges:
        raise BadInput("no edge leads from a vertex to another, so that there is nothing to walk")
    often = Counter(one.name for one in edges)
    return tuple(
        replace(one, label=one.name if often[one.name] == 1 else f"{one.name} ({one.id})")
        for one in edges
    )


def _ways(vertices: dict[str, Vertex], edges: tuple[Edge, ...]) -> dict[str, tuple[int, ...]]:
    """The edges out of each vertex, those of vertices with the same shared state among them."""
    found = {}
    for one in vertices.values():
        here = {one.id}
        if one.shared is not None:
            here |= {other.id for other in vertices.values() if other.shared == one.shared}
        found[one.id] = tuple(number for number, edge in enumerate(edges) if edge.source in here)
    return found


class Walk:
    """A walk through a graph: where it is, and the data of its models."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.at = graph, graph.start
        self.data: list[Data] = [{} for _ in graph.models]
        for number, actions in enumerate(graph.actions):
            self._act(actions, number)
        if graph.start_edge is not None:
            self._act(graph.start_edge.actions, graph.start_edge.model)
        self._act(self.at.actions, self.at.model)

    def allowed(self) -> list[bool]:
        """Which edges can be taken from here."""
        allowed = [False] * len(self.graph.edges)
        for number in self.graph.ways[self.at.id]:
            edge = self.graph.edges[number]
            allowed[number] = edge.guard is None or bool(self._value(edge.guard, edge.model))
        return allowed

    def take(self, number: int) -> None:
        """Go along an edge."""
        edge = self.graph.edges[number]
        self._act(edge.actions, edge.model)
        self.at = self.graph.vertices[edge.target]
        self._act(self.at.actions, self.at.model)

    def _value(self, guard: str, model: int) -> Any:
        return _worked_out(guard, lambda: expression(guard)(self.data[model]))

    def _act(self, actions: tuple[str, ...], model: int) -> None:
        data = self.data[model]
        for text in actions:
            for name, value in statements(text):
                data[name] = _worked_out(text, lambda value=value: value(data))

    def state(self) -> Any:
        """The vertex, with the data if there are any."""
        many = len(self.graph.models) > 1
        data = {
            f"{self.graph.models[model]}.{name}" if many else name: _shown(value)
            for model, values in enumerate(self.data)
            for name, value in values.items()
        }
        return {"vertex": self.at.name, **data} if data else self.at.name


def _worked_out(text: str, value: Any) -> Any:
    try:
        return value()
    except KeyError as error:
        raise PremiseBroken(
            f"{text!r} is about {error.args[0]}, which has no value yet; set it in the actions of "
            "the model"
        ) from None
    except (TypeError, OverflowError) as error:
        raise PremiseBroken(f"{text!r} cannot be worked out: {error}") from None


def _shown(value: Any) -> Any:
    """Whole numbers as such."""
    whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
    return int(value) if whole else value if not isinstance(value, float) else repr(value)


class GraphWorld:
    """A graph to be walked: ``gw:model.json`` as an environment."""

    def __init__(self, path: str | Path) -> None:
        self.graph = load_graph(path)
        self.actions = [edge.label for edge in self.graph.edges]
        self.horizon = max(LEAST_STEPS, 3 * len(self.actions))
        self._numbers = {label: number for number, label in enumerate(self.actions)}
        self.walk = Walk(self.graph)

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Back to the beginning."""
        self.walk = Walk(self.graph)
        allowed = self.walk.allowed()
        if not any(allowed):
            raise PremiseBroken("no edge can be taken at the beginning")
        return self.walk.state(), {"action_mask": allowed}

    def step(self, edge: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go along an edge; where no further one can be taken, the walk is over."""
        self.walk.take(self._numbers[edge])
        allowed = self.walk.allowed()
        over = not any(allowed)
        return self.walk.state(), 0.0, over, False, {} if over else {"action_mask": allowed}
