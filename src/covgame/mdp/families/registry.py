"""Families by name, their parameters with types and defaults, and how text becomes a world."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from covgame.errors import BadInput
from covgame.mdp.model import TabularMDP

Parameter = int | float | bool | str


@dataclass(frozen=True)
class Family:
    """A named family of worlds with its parameters and their defaults."""

    name: str
    build: Callable[..., TabularMDP]
    example: str

    @property
    def summary(self) -> str:
        return inspect.cleandoc(self.build.__doc__ or "").split("\n", 1)[0]

    @property
    def description(self) -> str:
        return inspect.cleandoc(self.build.__doc__ or "")

    @property
    def defaults(self) -> dict[str, Parameter]:
        parameters = inspect.signature(self.build).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    def make(self, given: Mapping[str, str]) -> TabularMDP:
        """Build the world from parameters as text, checked by name and type."""
        types = get_type_hints(self.build)
        values = {}
        for name, text in given.items():
            if name not in self.defaults:
                known = ", ".join(self.defaults)
                raise BadInput(f"{self.name} has no parameter {name!r}; it takes {known}")
            values[name] = _convert(f"{self.name}:{name}", text, types[name])
        return self.build(**values)


FAMILIES: dict[str, Family] = {}


def family(name: str, example: str) -> Callable[[Callable[..., TabularMDP]], Any]:
    """Register a function as the family ``name``."""

    def register(build: Callable[..., TabularMDP]) -> Callable[..., TabularMDP]:
        FAMILIES[name] = Family(name, build, example)
        return build

    return register


def _convert(place: str, text: str, kind: type) -> Parameter:
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise BadInput(f"{place} must be true or false, not {text!r}")
    try:
        value: Parameter = kind(text)
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise BadInput(f"{place} must be {noun}, not {text!r}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{place} must be a finite number, not {text!r}")
    return value
