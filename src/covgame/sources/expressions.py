"""Guards and actions of models: the simple ones, read and worked out without running any code.

A small part of JavaScript: numbers, texts, ``true``, ``false``, ``null``, variables, ``+ - * / %``,
comparisons, ``&& || !``, parentheses; ``x = ...``, ``x += ...``, ``x++`` and the like. Numbers are
floating-point numbers, as they are there.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from covgame.errors import BadInput

Data = dict[str, Any]
Evaluated = Callable[[Mapping[str, Any]], Any]

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|(?P<name>[A-Za-z_$][\w$]*)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<sign>===|!==|==|!=|<=|>=|&&|\|\||\+\+|--|\+=|-=|\*=|/=|[-+*/%<>!()=;]))"
)
CONSTANTS = {"true": True, "false": False, "null": None, "undefined": None}
MOST_CHARACTERS = 2_000
DEEPEST = 50


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _add(one: Any, other: Any) -> Any:
    if isinstance(one, str) or isinstance(other, str):
        return _text(one) + _text(other)
    return one + other


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _divide(one: Any, other: Any) -> float:
    if other:
        return float(one / other)
    return math.nan if not one else math.copysign(math.inf, one)


def _rest(one: Any, other: Any) -> float:
    return math.fmod(one, other) if other else math.nan


BINARY: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "==": (3, _same),
    "===": (3, _same),
    "!=": (3, lambda one, other: not _same(one, other)),
    "!==": (3, lambda one, other: not _same(one, other)),
    "<": (4, operator.lt),
    "<=": (4, operator.le),
    ">": (4, operator.gt),
    ">=": (4, operator.ge),
    "+": (5, _add),
    "-": (5, operator.sub),
    "*": (6, operator.mul),
    "/": (6, _divide),
    "%": (6, _rest),
}
OR, AND = 1, 2
CHANGES = {"+=": _add, "-=": operator.sub, "*=": operator.mul, "/=": _divide}


class NotSupported(BadInput):
    """An expression that is none of the simple ones."""

    def __init__(self, text: str, what: str) -> None:
        super().__init__(
            f"{text!r} is no guard or action that covgame reads ({what}); it knows numbers, texts, "
            "variables, arithmetic, comparisons, && || ! and assignments"
        )


@dataclass
class _Reader:
    """Reads one text from left to right."""

    text: str
    tokens: list[tuple[str, str]]
    at: int = 0
    depth: int = 0

    @classmethod
    def of(cls, text: str) -> _Reader:
        if len(text) > MOST_CHARACTERS:
            raise NotSupported(text, "it is too long")
        tokens, at = [], 0
        stripped = text.rstrip()
        while at < len(stripped):
            found = TOKEN.match(stripped, at)
            if found is None or found.lastgroup is None:
                raise NotSupported(text, f"at {stripped[at : at + 10].strip()!r}")
            tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        return cls(text, tokens)

    def next_is(self, *signs: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] in [("sign", s) for s in signs]

    def take(self) -> tuple[str, str]:
        if self.at == len(self.tokens):
            raise NotSupported(self.text, "something is missing at its end")
        self.at += 1
        return self.tokens[self.at - 1]

    def expression(self, least: int = OR) -> Evaluated:
        """As long as what follows binds at least as tightly."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotSupported(self.text, "too many parentheses")
        left = self.operand()
        while self.at < len(self.tokens):
            kind, sign = self.tokens[self.at]
            if kind == "sign" and sign == "||" and least <= OR:
                left = self._either(left)
            elif kind == "sign" and sign == "&&" and least <= AND:
                left = self._both(left)
            elif kind == "sign" and sign in BINARY and BINARY[sign][0] >= least:
                left = self._binary(left, *BINARY[sign])
            else:
                break
        self.depth -= 1
        return left

    def _either(self, left: Evaluated) -> Evaluated:
        self.at += 1
        right = self.expression(AND)
        return lambda data: left(data) or right(data)

    def _both(self, left: Evaluated) -> Evaluated:
        self.at += 1
        right = self.expression(AND + 1)
        return lambda data: left(data) and right(data)

    def _binary(self, left: Evaluated, binds: int, apply: Callable[[Any, Any], Any]) -> Evaluated:
        self.at += 1
        right = self.expression(binds + 1)
        return lambda data: apply(left(data), right(data))

    def operand(self) -> Evaluated:
        kind, word = self.take()
        if kind == "number":
            value = float(word)
            return lambda data: value
        if kind == "text":
            text = re.sub(r"\\(.)", r"\1", word[1:-1])
            return lambda data: text
        if kind == "name":
            return self._named(word)
        if word in ("!", "-", "+"):
            inner = self.expression(max(one for one, _ in BINARY.values()) + 1)
            if word == "!":
                return lambda data: not inner(data)
            return (lambda data: -inner(data)) if word == "-" else inner
        if word == "(":
            inner = self.expression()
            if self.take() != ("sign", ")"):
                raise NotSupported(self.text, "a parenthesis is not closed")
            return inner
        raise NotSupported(self.text, f"at {word!r}")

    def _named(self, word: str) -> Evaluated:
        if self.next_is("("):
            raise NotSupported(self.text, f"it calls {word}")
        if word in CONSTANTS:
            constant = CONSTANTS[word]
            return lambda data: constant
        return lambda data: data[word]


@lru_cache(maxsize=4096)
def expression(text: str) -> Evaluated:
    """A guard such as ``count > 0 && !locked;`` as a function of the data."""
    reader = _Reader.of(text.rstrip("; \t\n"))
    evaluated = reader.expression()
    if reader.at < len(reader.tokens):
        raise NotSupported(text, f"at {reader.tokens[reader.at][1]!r}")
    return evaluated


@lru_cache(maxsize=4096)
def statements(text: str) -> tuple[tuple[str, Evaluated], ...]:
    """Actions such as ``count = 0; tries++;`` as (variable, new value) one after the other."""
    reader, found = _Reader.of(text), []
    while reader.at < len(reader.tokens):
        if reader.next_is(";"):
            reader.at += 1
            continue
        kind, name = reader.take()
        if (kind, name) == ("name", "var") or (kind, name) == ("name", "let"):
            kind, name = reader.take()
        if kind != "name" or name in CONSTANTS:
            raise NotSupported(text, "an action is an assignment")
        found.append((name, _assigned(reader, name)))
        if reader.at < len(reader.tokens) and not reader.next_is(";"):
            raise NotSupported(text, f"at {reader.tokens[reader.at][1]!r}")
    return tuple(found)


def _assigned(reader: _Reader, name: str) -> Evaluated:
    """What a variable becomes."""
    _, sign = reader.take()
    if sign == "=":
        return reader.expression()
    if sign in ("++", "--"):
        by = 1.0 if sign == "++" else -1.0
        return lambda data: data[name] + by
    if sign in CHANGES:
        change, value = CHANGES[sign], reader.expression()
        return lambda data: change(data[name], value(data))
    raise NotSupported(reader.text, "an action is an assignment")
