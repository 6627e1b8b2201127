"""The model file: ``covgame-mdp/1``, read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from covgame.errors import BadInput, describe_row
from covgame.jsonfile import check_content, read_json
from covgame.mdp.model import SUM_TOLERANCE, TabularMDP, rewards_from_cells
from covgame.mdp.transitions import Transitions
from covgame.memory import require_room
from covgame.names import Names
from covgame.types import END, FloatArray, FloatS, IntArray, Shape

Index = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
Count = Annotated[int, Field(strict=True, ge=1, lt=2**62)]
Probability = Annotated[float, Field(strict=True, ge=0, le=1 + SUM_TOLERANCE)]
MeanReward = Annotated[float, Field(strict=True, ge=0, le=1)]
TransitionRow = tuple[Index | None, Index, Index, Index | None, Probability]
RewardRow = tuple[Index | None, Index, Index, MeanReward]


class ModelFile(BaseModel):
    """What a model file holds, before anything is compared with anything else."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["covgame-mdp/1"]
    horizon: Count
    states: Count
    actions: Count
    initial: Annotated[
        Annotated[Index, Tag("one")] | Annotated[list[Probability], Tag("several")],
        Discriminator(lambda given: "several" if isinstance(given, list) else "one"),
    ]
    transitions: list[TransitionRow]
    rewards: list[RewardRow] = []
    name: str = ""
    description: str = ""
    state_names: list[str] | None = None
    action_names: list[str] | None = None


def load_model(path: str | Path) -> TabularMDP:
    """Read a ``covgame-mdp/1`` file; a malformed one is refused with the place."""
    path = Path(path)
    return model_from(read_json(path), path)


def model_from(found: Any, path: Path) -> TabularMDP:
    """The model of a file with this content, which comes from ``path``."""
    content = check_content(ModelFile, found, path)
    try:
        return _to_model(content)
    except BadInput as error:
        raise type(error)(f"{path}: {error}") from None


def save_model(model: TabularMDP, path: str | Path) -> None:
    """Write a model as a ``covgame-mdp/1`` file."""
    Path(path).write_text(model_text(model), encoding="utf-8")


def model_text(model: TabularMDP) -> str:
    """A model as the text of a ``covgame-mdp/1`` file."""
    return _one_row_a_line(model_content(model))


def model_content(model: TabularMDP) -> dict[str, Any]:
    """The content of a model file, ready for JSON."""
    if model.stage_rewards.min() < 0 or model.stage_rewards.max() > 1:
        raise BadInput(
            "a model file holds mean rewards in [0, 1], and this model's lie in "
            f"[{model.stage_rewards.min():g}, {model.stage_rewards.max():g}]"
        )
    content: dict[str, Any] = {
        "format": "covgame-mdp/1",
        "horizon": model.shape.horizon,
        "states": model.shape.states,
        "actions": model.shape.actions,
        "initial": _initial_content(model.initial),
        "transitions": _transition_rows(model.transitions),
        "rewards": _reward_rows(model),
    }
    if model.names.states is not None:
        content["state_names"] = list(model.names.states)
    if model.names.actions is not None:
        content["action_names"] = list(model.names.actions)
    return content


def _to_model(content: ModelFile) -> TabularMDP:
    shape = Shape(content.horizon, content.states, content.actions)
    stationary = all(row[0] is None for row in content.transitions)
    repeats = 1 if stationary else shape.horizon
    require_room(shape, len(content.transitions) * repeats, "a model")
    staged, probability = _split(content.transitions)
    transitions = _to_transitions(shape, content.initial, staged, probability, stationary)
    return TabularMDP(
        transitions,
        _to_rewards(shape, content.rewards),
        Names(
            tuple(content.state_names) if content.state_names is not None else None,
            tuple(content.action_names) if content.action_names is not None else None,
        ),
    )


def _split(rows: list[Any]) -> tuple[IntArray, FloatArray]:
    """The index columns (None as -1) and the last column of a list of rows."""
    if not rows:
        return np.zeros((0, 4), dtype=np.int64), np.zeros(0)
    width = len(rows[0]) - 1
    indices = [-1 if part is None else part for row in rows for part in row[:width]]
    values = [row[width] for row in rows]
    return np.array(indices, dtype=np.int64).reshape(-1, width), np.array(values, dtype=float)


def _to_transitions(
    shape: Shape,
    initial: int | list[float],
    index: IntArray,
    probability: FloatArray,
    stationary: bool,
) -> Transitions:
    stage, state, action, successor = index.T
    _check_rows("transitions", shape, index[:, :3], identity=index)
    _check_range("transitions", "next state", successor, shape.states)
    if stationary:
        row = state * shape.actions + action
    else:
        which, stage = _every_stage(stage, shape.horizon)
        successor, probability = successor[which], probability[which]
        row = (stage * shape.states + state[which]) * shape.actions + action[which]
    return Transitions.from_entries(
        shape, _to_initial(shape, initial), row, successor, probability, stationary=stationary
    )


def _to_initial(shape: Shape, initial: int | list[float]) -> FloatS:
    if isinstance(initial, list):
        return np.array(initial, dtype=float)
    if initial >= shape.states:
        raise BadInput(f"initial: state {initial} does not exist, there are {shape.states}")
    distribution = np.zeros(shape.states)
    distribution[initial] = 1.0
    return distribution


def _to_rewards(shape: Shape, rows: list[RewardRow]) -> FloatArray:
    index, value = _split(rows)
    stage, state, action = index[:, 0], index[:, 1], index[:, 2]
    _check_rows("rewards", shape, index[:, :3], identity=index[:, :3])
    same_at_all_stages = bool((stage == -1).all())
    rewards = np.zeros(shape.pairs if same_at_all_stages else shape.cells)
    if same_at_all_stages:
        rewards[state * shape.actions + action] = value
    else:
        which, stage = _every_stage(stage, shape.horizon)
        cell = (stage * shape.states + state[which]) * shape.actions + action[which]
        rewards[cell] = value[which]
    return rewards_from_cells(shape, rewards, same_at_all_stages=same_at_all_stages)


def _every_stage(stage: IntArray, horizon: int) -> tuple[IntArray, IntArray]:
    """Repeat rows without a stage for every stage: (which row, its stage)."""
    everywhere = np.flatnonzero(stage == -1)
    staged = np.flatnonzero(stage != -1)
    which = np.concatenate([staged, np.repeat(everywhere, horizon)])
    stages = np.concatenate([stage[staged], np.tile(np.arange(horizon), len(everywhere))])
    return which, stages


def _check_rows(what: str, shape: Shape, cells: IntArray, identity: IntArray) -> None:
    """Indices in range, no row twice, no pair both for a stage and for every stage."""
    stage, state, action = cells.T
    _check_range(what, "stage", stage, shape.horizon)
    _check_range(what, "state", state, shape.states)
    _check_range(what, "action", action, shape.actions)
    order = np.lexsort(identity.T)
    same = (np.diff(identity[order], axis=0) == 0).all(axis=1)
    if same.any():
        first, second = sorted(order[same.argmax() : same.argmax() + 2].tolist())
        raise BadInput(f"{what}[{second}]: the same row as {what}[{first}]")
    pair = state * shape.actions + action
    mixed = np.intersect1d(pair[stage == -1], pair[stage != -1])
    if mixed.size:
        place = describe_row((None, *divmod(int(mixed[0]), shape.actions)))
        row = int(np.flatnonzero((pair == mixed[0]) & (stage != -1))[0])
        raise BadInput(f"{what}[{row}]: {place} has rows for every stage and for one stage")


def _check_range(what: str, column: str, values: IntArray, size: int) -> None:
    wrong = values >= size
    if wrong.any():
        row = int(wrong.argmax())
        raise BadInput(
            f"{what}[{row}]: {column} {values[row]} does not exist, there are {size} "
            f"(0 to {size - 1})"
        )


def _initial_content(initial: FloatS) -> int | list[float]:
    only = np.flatnonzero(initial)
    return int(only[0]) if len(only) == 1 and initial[only[0]] == 1.0 else initial.tolist()


def _transition_rows(transitions: Transitions) -> list[list[Any]]:
    row = np.repeat(np.arange(len(transitions.start) - 1), np.diff(transitions.start))
    stage, pair = np.divmod(row, transitions.shape.pairs)
    state, action = np.divmod(pair, transitions.shape.actions)
    return [
        [None if transitions.stationary else h, s, a, None if successor == END else successor, p]
        for h, s, a, successor, p in zip(
            stage.tolist(),
            state.tolist(),
            action.tolist(),
            transitions.next_state.tolist(),
            transitions.probability.tolist(),
            strict=True,
        )
    ]


def _reward_rows(model: TabularMDP) -> list[list[Any]]:
    everywhere = len(model.stage_rewards) == 1
    return [
        [None if everywhere else h, s, a, float(model.stage_rewards[h, s, a])]
        for h, s, a in np.argwhere(model.stage_rewards).tolist()
    ]


def _one_row_a_line(content: dict[str, Any]) -> str:
    """JSON with one key a line, and one row a line in the long lists."""
    lines = []
    for key, value in content.items():
        if key in ("transitions", "rewards") and value:
            rows = ",\n  ".join(json.dumps(row) for row in value)
            lines.append(f"{json.dumps(key)}: [\n  {rows}]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n ".join(lines) + "}\n"
