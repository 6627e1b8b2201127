"""Runs to be exported, and what is known of their episodes without reading any export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import covgame as cg

ENDING = {
    "format": "covgame-mdp/1",
    "horizon": 3,
    "states": 2,
    "actions": 2,
    "initial": 0,
    "transitions": [
        *([None, 0, 0, 1, 0.5], [None, 0, 0, None, 0.5], [None, 0, 1, 0, 1.0]),
        *([None, 1, 0, 1, 1.0], [None, 1, 1, 0, 1.0]),
    ],
    "rewards": [[None, 1, 0, 0.5]],
    "state_names": ["start", 'the "far" side, really'],
    "action_names": ["go", "stay"],
}
"""A model whose episodes end: half of the first step of the first state."""


def ending_run(folder: Path, **options: Any) -> cg.Coverage:
    """A run of a model that ends in no state, some episodes early and some at the last stage."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ending.json").write_text(json.dumps(ENDING))
    target = options.pop("target", "uniform:8/pair")
    return cg.cover(str(folder / "ending.json"), target, out=folder / "run", **options)


def lake_run(folder: Path) -> cg.Coverage:
    """A run on a Gymnasium environment: numbered states, seeds, holes that end episodes."""
    env = cg.make("gym:FrozenLake-v1?is_slippery=true", horizon=9)
    return cg.cover(env, "uniform:2/pair", seed=3, max_episodes=60, out=folder / "run")


def steps_of(run: cg.Run) -> list[dict[str, Any]]:
    """The record, a dictionary per step."""
    found: list[dict[str, Any]] = run.steps().to_pylist()
    return found


def episodes_of(run: cg.Run) -> Iterator[list[dict[str, Any]]]:
    """The record by episodes."""
    episode: list[dict[str, Any]] = []
    for step in steps_of(run):
        episode.append(step)
        if step["terminated"] or step["truncated"]:
            yield episode
            episode = []
    assert not episode
