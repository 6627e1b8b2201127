"""``covgame envs``: what ENV can name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from covgame.cli.messages import print_json, show
from covgame.cli.options import common_options, complete_env
from covgame.errors import BadInput
from covgame.mdp.families import FAMILIES, Family
from covgame.sources.environments import make

Answer = tuple[dict[str, Any], str]

OTHER_KINDS = (
    ("gym:NAME?option=value", "gym:FrozenLake-v1?map_name=8x8", "a Gymnasium environment"),
    ("py:MODULE:FACTORY", "py:examples.vending_machine:machine", "an environment of your own"),
    ("FILE.json", "model.json", "a model file of format covgame-mdp/1"),
)


@click.command()
@click.argument("name", required=False, shell_complete=complete_env)
@click.option("--horizon", type=int, help="Number of stages, where NAME leaves it open.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the world NAME as a covgame-mdp/1 file.",
)
@common_options
def envs(
    name: str | None, horizon: int | None, save: Path | None, as_json: bool, quiet: bool
) -> None:
    """What ENV can name, with parameters and examples.

    \b
    Examples:
      covgame envs
      covgame envs grid
      covgame envs grid:rows=3,columns=3 --save grid.json
    """
    if save is not None:
        answer, text = _save_world(name, horizon, save)
    elif name is not None:
        answer, text = _describe_one(name, horizon)
    else:
        answer, text = _describe_all()
    if as_json:
        print_json(answer)
    else:
        show(text)


def _describe_all() -> Answer:
    """Every family and the other kinds of ENV."""
    families = sorted(FAMILIES.values(), key=lambda family: family.name)
    lines = ["Families (covgame envs NAME says more):", ""]
    for family in families:
        lines += [f"  {family.name:<12} {family.summary}", f"  {'':<12} {_parameters(family)}", ""]
    lines += ["Other kinds of ENV:", ""]
    lines += [f"  {form:<22} {what}, such as {example}" for form, example, what in OTHER_KINDS]
    answer = {
        "families": [_entry(family) for family in families],
        "kinds": [
            {"form": form, "example": example, "summary": what}
            for form, example, what in OTHER_KINDS
        ],
    }
    return answer, "\n".join(lines)


def _describe_one(name: str, horizon: int | None) -> Answer:
    """A family, or a world of it with its size."""
    kind = name.partition(":")[0]
    if name in FAMILIES:
        family = FAMILIES[name]
        lines = [family.description, "", f"parameters   {_parameters(family)}"]
        return _entry(family), "\n".join([*lines, f"example      {family.example}"])
    environment = make(name, horizon)
    answer: dict[str, Any] = {"environment": name, "known": environment.known}
    answer["horizon"] = environment.horizon
    if environment.model is not None:
        shape = environment.model.shape
        answer |= {"states": shape.states, "actions": shape.actions}
        answer |= {"stationary": environment.model.transitions.stationary}
        answer |= {"transitions": len(environment.model.transitions.next_state)}
    summary = f"{FAMILIES[kind].summary}\n" if kind in FAMILIES else ""
    return answer, summary + repr(environment)


def _save_world(name: str | None, horizon: int | None, path: Path) -> Answer:
    """Write a world as a model file."""
    from covgame.mdp.files import save_model

    if name is None:
        raise BadInput("--save needs the NAME of a world, such as grid:rows=3,columns=3")
    model = make(name, horizon).require_model("a model file")
    try:
        save_model(model, path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error}") from error
    return {"environment": name, "saved": str(path)}, f"wrote {path}"


def _entry(family: Family) -> dict[str, Any]:
    return {
        "name": family.name,
        "summary": family.summary,
        "parameters": family.defaults,
        "example": family.example,
    }


def _parameters(family: Family) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in family.defaults.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
