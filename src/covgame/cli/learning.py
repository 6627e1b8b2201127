"""``covgame explore``, ``identify`` and ``policy``: watching a run, planning on what it learnt."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from covgame.cli.common import say
from covgame.pac.files import load_reward
from covgame.pac.parts import Phase
from covgame.planning import number
from covgame.runs.certify import Checked
from covgame.runs.learn import AnyRun, play_parts
from covgame.runs.taking_up import is_finished, learnt_model

EXIT_CODES = {"rule": 0, "budget": 3, "failed": 4, "interrupted": 130}

SECONDS_BETWEEN_LINES = 1.0
WIDEST_TABLE = 40


def announce(run: AnyRun) -> None:
    """What the run will take at least, part by part."""
    if not run.forecast.needs:
        return
    parts = "; ".join(f"{need.part} {number(need.episodes)}" for need in run.forecast.needs)
    say(f"this takes at least {number(run.forecast.episodes)} episodes on average: {parts}")
    if run.settings.scale < 1:
        say(f"thresholds scaled by {run.settings.scale:g}: nothing is guaranteed")


def watch(run: AnyRun, *, quiet: bool) -> None:
    """Play a run to its end, saying on standard error what each part came to."""
    finished, due = run.n_parts, 0.0
    for _ in play_parts(run):
        if quiet or time.monotonic() < due:
            continue
        if run.n_parts > finished:
            say(in_words(run.phases[-1], run.settings.epsilon))
            finished, due = run.n_parts, time.monotonic() + SECONDS_BETWEEN_LINES
        elif due and run.part is not None:
            say(f"{run.part.name}: {number(run.part.played)} episodes so far")
            due = time.monotonic() + 10 * SECONDS_BETWEEN_LINES


def in_words(phase: Phase, epsilon: float) -> str:
    """A finished part as a sentence."""
    said = f"{phase.name}: {number(phase.episodes)} episodes"
    if phase.bound is None:
        return said
    sign = "<=" if phase.bound <= epsilon else ">"
    return f"{said}, {phase.wanted:,} cells; bound {phase.bound:.4g} {sign} {epsilon:g}"


def plan_on_run(path: Path, reward: Path) -> dict[str, Any]:
    """An optimal policy on the model of a run, and its value there."""
    model = learnt_model(path)
    wanted = load_reward(reward, model.shape)
    policy = model.plan(wanted)
    return {
        "policy": policy.to_list(),
        "value": model.value(policy, wanted),
        "cells_seen": int((model.visits > 0).sum()),
        "finished": is_finished(path),
        "run": str(path),
    }


def show_policy(answer: dict[str, Any]) -> str:
    """A policy for people: a line of actions per stage."""
    lines = [f"value        {number(answer['value'])} on the learnt model"]
    if not answer["finished"]:
        lines.append("unfinished   the run had not reached its end: nothing is guaranteed")
    lines.append("")
    for stage, row in enumerate(answer["policy"]):
        shown = " ".join(str(action) for action in row[:WIDEST_TABLE])
        more = " ..." if len(row) > WIDEST_TABLE else ""
        lines.append(f"stage {stage:<4}   {shown}{more}")
    return "\n".join(lines)


def show_checked(checked: Checked) -> str:
    """A claim that holds, for people."""
    lines = [
        f"claim        {checked.claim}: it holds",
        f"data         {number(checked.episodes)} episodes, counted anew",
    ]
    lines += [f"{name:<12} {number(value)}" for name, value in checked.numbers.items()]
    if checked.believed:
        believed = ", ".join(f"{name} {value}" for name, value in checked.believed.items())
        lines.append(f"believed     {believed}")
    return "\n".join(lines)
