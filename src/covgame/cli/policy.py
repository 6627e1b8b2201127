"""``covgame policy``: plan on what a run has learnt."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from covgame.cli.messages import print_json, show
from covgame.cli.options import common_options
from covgame.errors import BadInput
from covgame.names import Names
from covgame.pac.learnt import LearntModel
from covgame.planning import number
from covgame.runs.resume import is_finished, learnt_model, names_in, recommended
from covgame.types import BoolHS, Policy

STATES_SHOWN = 40
CHANGES_SHOWN = 6
VISIBLE = 0.005
"""Less likely actions are left out."""


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--reward",
    type=click.Path(path_type=Path),
    help="A covgame-reward/1 file: rows [stage, state, action, reward in [0,1]]; "
    "the environment's own reward, as it was seen, if left out.",
)
@common_options
def policy(run: Path, reward: Path | None, as_json: bool, quiet: bool) -> None:
    """The best policy on the model that a run has learnt.

    \b
    Without --reward it is for the environment's own reward; of a run of covgame identify it is the
    policy that the run has found.
    Examples:
      covgame policy runs/garnet-1
      covgame policy runs/garnet-1 --reward reward.json --json
    """
    del quiet
    model = learnt_model(run)
    best, found, value = _best(run, model, reward)
    if not math.isfinite(value):
        raise BadInput("the value of the policy is not a finite number; the rewards are too large")
    if as_json:
        print_json(_answer(run, model, best, found, value))
    else:
        show(_show(run, model, best, found, value))


def _best(path: Path, model: LearntModel, reward: Path | None) -> tuple[Policy, str, float]:
    """(a policy, where it is from, its value on the learnt model)."""
    if reward is not None:
        from covgame.pac.files import load_reward

        wanted = load_reward(reward, model.shape, partial(names_in, path))
        best = model.plan(wanted)
        return best, f"the best for {reward} on the learnt model", model.value(best, wanted)
    identified = recommended(path, model.shape)
    if identified is not None:
        return identified, "the one that identify has found", model.value(identified)
    best = model.plan()
    said = "the best on the learnt model for the environment's own reward"
    return best, said, model.value(best)


def _answer(path: Path, model: LearntModel, best: Policy, found: str, value: float) -> Any:
    """The JSON answer."""
    return {
        "policy": best.to_list(),
        **model.names.named_policy(best),
        "value": value,
        "is": found,
        "cells_seen": int((model.visits > 0).sum()),
        "finished": is_finished(path),
        "run": str(path),
    }


def _show(path: Path, model: LearntModel, best: Policy, found: str, value: float) -> str:
    """A policy for people: a line for every state."""
    lines = [f"policy       {found}", f"value        {number(value)} on the learnt model"]
    if not is_finished(path):
        lines.append("unfinished   the run had not reached its end: nothing is guaranteed")
    seen = np.broadcast_to(model.visits.sum(axis=2) > 0, model.shape.hs)
    return "\n".join([*lines, "", *policy_lines(best, model.names, seen)])


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
