"""Runs from their folders, of the kind that a test expects, and environments from objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from covgame.runs.coverage import Coverage
from covgame.runs.resume import load
from covgame.sources.environments import Environment, make


def coverage_at(path: Path) -> Coverage:
    """The run of ``cover`` in a folder."""
    run = load(path, trust=True)
    assert isinstance(run, Coverage)
    return run


def own(world: Any, horizon: int = 8) -> Environment:
    """An environment from an object, without a module."""
    return make(world, horizon)


class Corridor:
    """Five rooms in a row, 1 to the right, 0 to the left; the last one ends the episode."""

    actions = 2
    horizon = 8

    def __init__(self, name: Callable[[int], Any] = lambda room: ("room", room)) -> None:
        self.name = name

    def reset(self) -> Any:
        self.room = 0
        return self.name(0)

    def step(self, action: int) -> Any:
        self.room = max(0, self.room + (1 if action else -1))
        return self.name(self.room), 1.0, self.room == 4


class Corner:
    """Two places; who turns left sees the other."""

    actions, horizon = ("left", "right"), 3

    def reset(self) -> str:
        self.at = "here"
        return self.at

    def step(self, action: str) -> Any:
        self.at = "there" if action == "left" else self.at
        return self.at, 0.0, False
