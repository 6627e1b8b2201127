"""What a check had to take for granted, in words: data cannot show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

STAGES = {
    "known": "all stages behave alike, as the model says",
    "tested": "all stages behave alike; these data do not contradict that",
    "parted": "",
}

WORDS: dict[str, Callable[[Any], str]] = {
    "states": lambda states: f"there are no more than {states:,} states",
    "stages": lambda stages: STAGES[stages],
    "same_rewards": lambda same: "rewards do not depend on the stage" if same else "",
    "can_end": lambda can: "" if can else "episodes never end before the last stage",
    "most_successors": lambda most: f"no state and action leads to more than {most} states",
    "known_start": lambda known: "episodes start as the model says" if known else "",
    "episodes_seen": lambda seen: "" if seen else "the saved counts are right (no episodes exist)",
    "rewards": lambda ends: f"every step pays between {ends[0]:g} and {ends[1]:g}",
    "return_high": lambda most: f"no episode pays more than {most:g} in all",
    "left_out": lambda rows: f"left out as hardly reachable: {rows}",
    "forbidden": lambda actions: f"not allowed, as the run says: {actions}",
    "avoided": lambda actions: f"not asked for, nor what lies behind: {actions} that failed",
    "groups": lambda _: "the groups of states and actions are those that the run has saved",
    "possible": lambda _: "the possible transitions are those that the run has saved",
}
"""What to say about each thing that is taken for granted; empty where there is nothing to say."""


def in_words(believed: Mapping[str, Any]) -> list[str]:
    """A sentence for each assumption that was needed. (delta is not one of them.)"""
    found: list[str] = []
    for name, value in believed.items():
        if name == "given":
            found += value
        elif name == "stages" and not believed.get("pooled", True):
            continue
        elif name not in ("delta", "pooled") and value is not None:
            found.append(WORDS[name](value) if name in WORDS else f"{name} {value}")
    return [sentence for sentence in found if sentence]
