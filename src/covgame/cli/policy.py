"""``covgame policy``: plan on what a run has learnt."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from covgame.cli.messages import print_json
from covgame.cli.options import common_options
from covgame.planning import number
from covgame.runs.opening import is_finished, learnt_model
from covgame.runs.rewards import names_in

WIDEST_TABLE = 40


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--reward",
    required=True,
    type=click.Path(path_type=Path),
    help="A covgame-reward/1 file: rows [stage, state, action, reward in [0,1]].",
)
@common_options
def policy(run: Path, reward: Path, as_json: bool, quiet: bool) -> None:
    """The best policy for a reward, on the model that a run has learnt.

    \b
    Example:
      covgame policy runs/garnet-1 --reward reward.json --json
    """
    del quiet
    answer = _plan_on_run(run, reward)
    if as_json:
        print_json(answer)
    else:
        click.echo(_show(answer))


def _plan_on_run(path: Path, reward: Path) -> dict[str, Any]:
    """An optimal policy on the model of a run, and its value there."""
    from covgame.pac.files import load_reward

    model = learnt_model(path)
    wanted = load_reward(reward, model.shape, partial(names_in, path))
    best = model.plan(wanted)
    return {
        "policy": best.to_list(),
        "value": model.value(best, wanted),
        "cells_seen": int((model.visits > 0).sum()),
        "finished": is_finished(path),
        "run": str(path),
    }


def _show(answer: dict[str, Any]) -> str:
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
