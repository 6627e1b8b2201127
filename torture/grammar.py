"""Inputs that are nearly valid: valid ones, changed where their structure matters."""

from __future__ import annotations

import copy
import json
import math
import random
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
    "py:torture.environments:Logged", "py:torture.environments:Pendulum",
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
    "min_reach": ("0.05",), "step_timeout": ("1",), "workers": ("1", "2"),
    "to": ("csv", "minari"), "report": ("page.html",), "picture": ("page.png",),
    "env_name": WORLDS, "given": DATA, "planner": ("py:torture.environments:Logged",),
    "adversary": ("py:math:floor",),
}  # fmt: skip
"""Values that mean something, by the parameter that takes them."""

NEVER = {"help", "debug", "version"}
CHANCES = {"as_json": 0.9, "quiet": 0.9, "out": 0.8, "epsilon": 0.95, "max_episodes": 0.6}
"""How often an option is given."""


def command_line(rng: random.Random, name: str, command: click.Command, valid: float) -> list[str]:
    """A command with options, a share of which are ``valid``."""
    words: list[str] = []
    for one in command.params:
        if one.name is None or one.name in NEVER:
            continue
        if isinstance(one, click.Option):
            usual = 0.9 if one.required or one.name == "target" else 0.12
            if rng.random() < CHANCES.get(one.name, usual):
                words += [one.opts[0]] if one.is_flag else [one.opts[0], _value(rng, one, valid)]
        elif rng.random() < 0.97:
            words.append(_value(rng, one, valid))
    if words and rng.random() < 0.1:
        place = rng.randrange(len(words))
        words[place : place + rng.randrange(2)] = rng.sample((*TEXTS, *words), rng.randrange(2))
    return [name, *words]


def _value(rng: random.Random, parameter: click.Parameter, valid: float) -> str:
    """A value that fits, or one that nearly does."""
    good = GOOD.get(parameter.name or "", ())
    if isinstance(parameter.type, click.Choice):
        good = tuple(map(str, parameter.type.choices))
    if good and rng.random() < valid:
        return rng.choice(good)
    if parameter.type.name in ("integer", "float"):
        return rng.choice(NUMBERS)
    return changed_text(rng, rng.choice(good or TEXTS))


def changed_text(rng: random.Random, text: str) -> str:
    """A text that is cut, doubled, replaced, or has something inserted."""
    place = rng.randrange(len(text) + 1)
    digits = [at for at, one in enumerate(text) if one.isdigit()]
    how = rng.randrange(8)
    if how == 0:
        return text[:place]
    if how == 1:
        return rng.choice(TEXTS)
    if how == 2:
        return text * rng.choice((2, 3, 3, 1000))
    if how < 6 and digits:
        place = rng.choice(digits)
        return text[:place] + rng.choice(NUMBERS) + text[place + 1 :]
    return text[:place] + rng.choice((*TEXTS, *NUMBERS)) + text[place:]


def changed_bytes(rng: random.Random, before: bytes) -> bytes:
    """Content with some bits flipped, or its end cut off."""
    content = bytearray(before)
    if content and rng.random() < 0.3:
        return before[: rng.randrange(len(before))]
    for _ in range(rng.choice((1, 8)) if content else 0):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


WEIRD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**63, 10**40, -0.0, 0.5, 1e300, 1e-300, math.nan,
    math.inf, -math.inf, "", "0", "x", "nan", "\u202e", "x" * 3000, [], {}, [[]], [None],
    {"a": 1}, [0] * 50,
)  # fmt: skip


def changed_json(rng: random.Random, content: Any) -> str:
    """A tree with a few changes, or its text with some."""
    tree = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = _places(tree)
        if not places:
            tree = rng.choice(WEIRD)
            continue
        parent, key = rng.choice(places)
        how = rng.randrange(4)
        if how == 0:
            del parent[key]
        elif how == 1 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        elif how == 1:
            parent[f"{key}_"] = copy.deepcopy(parent[key])
        else:
            parent[key] = copy.deepcopy(rng.choice(WEIRD))
    text = json.dumps(tree)
    if rng.random() < 0.15:
        text = changed_text(rng, text)
    if rng.random() < 0.02:
        text = "[" * 100_000 if rng.random() < 0.5 else '{"a":' * 5000
    return text


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (parent, key) of a tree."""
    found: list[tuple[Any, Any]] = []
    keys = range(len(tree)) if isinstance(tree, list) else tree if isinstance(tree, dict) else ()
    for key in keys:
        found += [(tree, key), *_places(tree[key])]
    return found
