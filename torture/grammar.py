"""Inputs that are nearly right: valid ones, changed where their structure says it hurts."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from typing import Any

import click

NUMBERS = (
    "nan", "inf", "-inf", "-1", "0", "1", "2", "-0.0", "1e300", "1e-300", "99999999999999999999",
    "0.5",
    "1e9", "0x10", "1_000", "٣", "", " ", "1,5", "1e", "-", "1" * 400, "true", "null", "9" * 5000,
)  # fmt: skip
TEXTS = (
    "", " ", ":", "::", ":=", "=", ",", "/", "?", "&", "%", "x" * 5000, "\u202e", "\x1b[31mred",
    "é" * 40,
    "日本", "\udcff", "\n", "a\nb", "-", "--", "--help", "null", "[]", "{}", "..", ".", "%s%n",
    "$HOME", "~",
    "'\"", "\t", "🙂", "\\",
)  # fmt: skip
WORLDS = (
    "riverswim:states=4,horizon=5", "garnet:states=3,actions=2,horizon=3",
    "chain:states=4,horizon=5", "grid",
    "lock:states=4", "tree", "bandit", "ergodic", "twobranch", "rareprize", "inventory",
    "deepsea:size=4",
    "doublechain:states=5", "model.json", "gym:FrozenLake-v1",
    "gym:FrozenLake-v1?is_slippery=false",
    "gym:Blackjack-v1", "gym:CliffWalking-v1", "gym:MountainCar-v0",
    "py:torture.environments:Logged",
    "py:torture.environments:Counted", "py:torture.environments:Pendulum",
    "py:torture.environments:Logged?seconds=0",
)  # fmt: skip
TARGETS = (
    "uniform:3", "uniform:3/pair", "uniform:3/state", "uniform:2/transition", "proportional:5",
    "target.json",
    "uniform:0.5", "uniform:0",
)  # fmt: skip
MAPS = (
    "bins:4x4", "bins:3[-1,1]x3[-1,1]", "round:1", "round:0", "keys:a,b", "image:hash", "image:4x4",
    "py:math:floor", "py:builtins:tuple",
)  # fmt: skip
COLUMNS = ("state=s,action=a", "state=x+y", "done=terminated", "reward=r", "episode=id")
DATA = (
    "steps.parquet",
    "steps.csv",
    "run",
    "run/episodes",
    "nothing",
    "model.json",
    "minari:x",
)
RUNS = ("run", "nothing", "steps.csv", "run/episodes", ".")
RANGES = ("0,1", "-1,1", "0,0", "1,0", "0,1e-3")

GOOD: dict[str, tuple[str, ...]] = {
    "env": WORLDS, "target": TARGETS, "states": MAPS, "columns": COLUMNS, "data": DATA, "run": RUNS,
    "runs": RUNS, "reward_range": RANGES, "return_range": RANGES, "reward": ("reward.json",),
    "actions": ("grid:3", "grid:5"), "horizon": ("3", "5", "8"), "out": ("out", "out/deeper"),
    "max_episodes": ("1", "40"), "seed": ("0", "7"), "epsilon": ("1", "0.5", "3"),
    "delta": ("0.1",),
    "most_states": ("12", "70"), "most_successors": ("3",), "scale": ("1e-6",),
    "min_reach": ("0.05",),
    "to": ("csv", "minari"), "report": ("page.html",), "picture": ("page.png",),
    "env_name": WORLDS, "given": DATA, "planner": ("py:torture.environments:Logged",),
    "adversary": ("py:math:floor",),
}  # fmt: skip
"""Values that mean something, by the parameter that takes them."""

NEVER = {"help", "debug", "version"}


def command_line(rng: random.Random, name: str, command: click.Command) -> list[str]:
    """A command with options that fit, more or less."""
    words: list[str] = []
    for one in command.params:
        if one.name is None or one.name in NEVER:
            continue
        if isinstance(one, click.Argument):
            if rng.random() < 0.97:
                words.append(value(rng, one))
        elif isinstance(one, click.Option):
            words += _option(rng, one)
    if rng.random() < 0.1 and words:
        words = _shaken(rng, words)
    return [name, *words]


def _option(rng: random.Random, option: click.Option) -> list[str]:
    usual = {
        "as_json": 0.9,
        "quiet": 0.9,
        "out": 0.8,
        "target": 0.9,
        "epsilon": 0.95,
        "max_episodes": 0.6,
    }
    chance = usual.get(option.name or "", 0.9 if option.required else 0.12)
    if rng.random() > chance:
        return []
    if option.is_flag:
        return [option.opts[0]]
    found = [option.opts[0], value(rng, option)]
    return found * 2 if rng.random() < 0.02 else found


def value(rng: random.Random, parameter: click.Parameter) -> str:
    """Mostly one that fits; else one that nearly does."""
    good = GOOD.get(parameter.name or "", ())
    if isinstance(parameter.type, click.Choice):
        good = tuple(map(str, parameter.type.choices))
    if good and rng.random() < 0.93:
        return rng.choice(good)
    if parameter.type.name in ("integer", "float"):
        return rng.choice(NUMBERS)
    return spoilt_text(rng, rng.choice(good or TEXTS))


def spoilt_text(rng: random.Random, text: str) -> str:
    """A text with something wrong in it."""

    def cut() -> str:
        return text[: rng.randrange(len(text) + 1)]

    def insert() -> str:
        place = rng.randrange(len(text) + 1)
        return text[:place] + rng.choice((*TEXTS, *NUMBERS)) + text[place:]

    def number() -> str:
        digits = [place for place, one in enumerate(text) if one.isdigit()]
        if not digits:
            return insert()
        place = rng.choice(digits)
        return text[:place] + rng.choice(NUMBERS) + text[place + 1 :]

    def other() -> str:
        return rng.choice(TEXTS)

    def doubled() -> str:
        return text * rng.choice((2, 3, 3, 1000))

    return rng.choice((cut, insert, insert, number, number, number, other, doubled))()


def _shaken(rng: random.Random, words: list[str]) -> list[str]:
    words = list(words)
    place = rng.randrange(len(words))
    if rng.random() < 0.5:
        del words[place]
    else:
        words.insert(place, rng.choice((*TEXTS, *words)))
    return words


WEIRD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**63, 10**40, -0.0, 0.5, 1e300, 1e-300, math.nan,
    math.inf, -math.inf,
    "", "0", "x", "nan", "\u202e", "x" * 3000, [], {}, [[]], [None], {"a": 1}, [0] * 50,
)  # fmt: skip


def spoilt_json(rng: random.Random, content: Any) -> str:
    """A tree with a few changes, or its text with some."""
    tree = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        tree = _changed(rng, tree)
    text = json.dumps(tree)
    if rng.random() < 0.15:
        text = spoilt_text(rng, text)
    if rng.random() < 0.02:
        text = "[" * 100_000 if rng.random() < 0.5 else '{"a":' * 5000
    return text


def _changed(rng: random.Random, tree: Any) -> Any:
    """One node is replaced, removed or doubled."""
    places = list(_places(tree))
    if not places:
        return rng.choice(WEIRD)
    parent, key = rng.choice(places)
    changes: tuple[Callable[[], None], ...] = (
        lambda: parent.__setitem__(key, copy.deepcopy(rng.choice(WEIRD))),
        lambda: parent.__setitem__(key, copy.deepcopy(rng.choice(WEIRD))),
        lambda: parent.__delitem__(key),
        lambda: _double(parent, key),
    )
    rng.choice(changes)()
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    keys = (
        list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else []
    )
    for key in keys:
        found.append((tree, key))
        found += _places(tree[key])
    return found


def _double(parent: Any, key: Any) -> None:
    if isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    else:
        parent[f"{key}_"] = parent[key]
