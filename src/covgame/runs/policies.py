"""Policies in words: what is done where, in the user's own names."""

from __future__ import annotations

from typing import Any

import numpy as np

from covgame.names import Names
from covgame.types import BoolHS, Policy

STATES_SHOWN = 40
CHANGES_SHOWN = 6
MOST_NAMED = 1000
"""Policies with more entries than that are named by whoever needs them."""
VISIBLE = 0.005


def policy_lines(policy: Policy, names: Names, seen: BoolHS, most: int = STATES_SHOWN) -> list[str]:
    """A line for every state that was seen: its action, or its actions from stage to stage.

    Where a state was never seen at a stage, nothing is known, and the line says nothing of it.
    """
    states = np.flatnonzero(seen.any(axis=0)).tolist()
    shown = [(names.state(state), _actions(policy, names, seen, state)) for state in states[:most]]
    width = max((len(name) for name, _ in shown), default=0)
    lines = [f"  {name:<{width}}  {actions}" for name, actions in shown]
    if len(states) > most:
        lines.append(f"  and {len(states) - most:,} more states; --json has them all")
    never = seen.shape[1] - len(states)
    if never:
        lines.append(f"  (states that were never seen are left out: {never:,})")
    return lines


def _actions(policy: Policy, names: Names, seen: BoolHS, state: int) -> str:
    """``right``, or ``stages 0-3 right, 4-7 left``."""
    spans: list[tuple[int, int, str]] = []
    for stage in np.flatnonzero(seen[:, state]).tolist():
        action = _action(policy, names, stage, state)
        if spans and spans[-1][2] == action:
            spans[-1] = (spans[-1][0], stage, action)
        else:
            spans.append((stage, stage, action))
    if len(spans) == 1:
        return spans[0][2]
    said = [f"{_span(first, last)} {action}" for first, last, action in spans[:CHANGES_SHOWN]]
    if len(spans) > CHANGES_SHOWN:
        said.append(f"... (changes in all: {len(spans) - 1})")
    return f"stages {', '.join(said)}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _action(policy: Policy, names: Names, stage: int, state: int) -> str:
    if not policy.is_stochastic:
        return names.action(int(policy.table[stage, state]))
    chances = policy.table[stage, state]
    likely = [a for a in np.argsort(-chances, kind="stable").tolist() if chances[a] >= VISIBLE]
    if len(likely) == 1:
        return names.action(likely[0])
    return " or ".join(f"{names.action(a)} ({chances[a]:.0%})" for a in likely)


def named_policy(policy: Policy, names: Names) -> dict[str, Any]:
    """``policy_named``, H rows of S actions by name, and ``state_names``.

    Nothing where there are no names, or too many of them.
    """
    if policy.table.size > MOST_NAMED or not names.known:
        return {}
    answer: dict[str, Any] = {}
    if not policy.is_stochastic and names.actions is not None:
        answer["policy_named"] = [[names.action(a) for a in row] for row in policy.table.tolist()]
    if names.states is not None or names.grid is not None:
        answer["state_names"] = [names.state(s) for s in range(policy.table.shape[1])]
    return answer
