"""TabularMDP: a true world. Algorithms never see one; they see episodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from covgame.arrays import sum_by_segment
from covgame.errors import BadInput, Row, describe_row
from covgame.mdp.transitions import Transitions
from covgame.memory import require_room
from covgame.types import FloatArray, FloatHSA, FloatS, Shape

SUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Names:
    """How a person calls the states and actions, and whether the states form a grid."""

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    grid: tuple[int, int] | None = None  # rows, columns; state = row * columns + column

    def describe(self, row: Row) -> str:
        """A cell in words: ``stage 3, state 5 (row 1, column 1), right``."""
        stage, state, action = row
        words = ["any stage" if stage is None else f"stage {stage}", self.state(state)]
        words.append("any action" if action is None else self.action(action))
        return ", ".join(words)

    def state(self, state: int) -> str:
        if self.states is not None:
            return f"state {state} ({self.states[state]})"
        if self.grid is not None:
            row, column = divmod(state, self.grid[1])
            return f"state {state} (row {row}, column {column})"
        return f"state {state}"

    def action(self, action: int) -> str:
        if self.actions is not None:
            return f"action {action} ({self.actions[action]})"
        return f"action {action}"


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """An episodic world with known dynamics and mean rewards; checked when it is made."""

    transitions: Transitions
    stage_rewards: FloatArray  # (1, S, A) if the same at every stage, or (H, S, A)
    names: Names = field(default_factory=Names)

    def __post_init__(self) -> None:
        _check_initial(self.transitions)
        _check_sums(self.transitions)
        _check_names(self.names, self.shape)

    @property
    def shape(self) -> Shape:
        """Stages, states and actions."""
        return self.transitions.shape

    @property
    def initial(self) -> FloatS:
        """(S,), the distribution of the first state."""
        return self.transitions.initial

    @cached_property
    def rewards(self) -> FloatHSA:
        """The mean reward of every cell."""
        return np.broadcast_to(self.stage_rewards, self.shape.hsa)

    def with_horizon(self, horizon: int) -> TabularMDP:
        """The same world for another number of stages.

        What is known only stage by stage can be cut short, not prolonged.
        """
        if horizon < 1:
            raise BadInput(f"the horizon must be at least 1, not {horizon}")
        shape = Shape(horizon, self.shape.states, self.shape.actions)
        require_room(shape, len(self.transitions.next_state), "this model")
        same_at_all_stages = self.transitions.stationary and len(self.stage_rewards) == 1
        if horizon > self.shape.horizon and not same_at_all_stages:
            raise BadInput(
                f"this model is given stage by stage for {self.shape.horizon} stages and "
                f"cannot be prolonged to {horizon}; use --horizon {self.shape.horizon} or less"
            )
        return replace(
            self,
            transitions=self.transitions.with_horizon(horizon),
            stage_rewards=self.stage_rewards[:horizon],
        )

    def __repr__(self) -> str:
        H, S, A = self.shape.hsa
        kind = "stationary" if self.transitions.stationary else "stage-dependent"
        return (
            f"TabularMDP(horizon={H}, states={S}, actions={A}, {kind}, "
            f"{len(self.transitions.next_state)} transitions)"
        )


def rewards_from_cells(shape: Shape, values: FloatArray, *, same_at_all_stages: bool) -> FloatArray:
    """Mean rewards as a model stores them: (1, S, A) or (H, S, A)."""
    stages = 1 if same_at_all_stages else shape.horizon
    return values.reshape(stages, shape.states, shape.actions)


def _check_initial(transitions: Transitions) -> None:
    initial = transitions.initial
    if initial.shape != (transitions.shape.states,):
        raise BadInput(
            f"the initial distribution has {len(initial)} entries for "
            f"{transitions.shape.states} states"
        )
    if not (np.isfinite(initial).all() and (initial >= 0).all()):
        raise BadInput("the initial distribution has an entry that is no probability")
    if abs(initial.sum() - 1.0) > SUM_TOLERANCE:
        raise BadInput(f"the initial distribution sums to {initial.sum():.12g}, not to 1")


def _check_sums(transitions: Transitions) -> None:
    """Rows sum to 1; only those out of the last stage may be empty."""
    stages = transitions.stages
    for h in range(1) if transitions.stationary else range(len(stages)):
        kernel = stages[h]
        sums = sum_by_segment(kernel.probability, kernel.start)
        wrong = np.abs(sums - 1.0) > SUM_TOLERANCE
        if h == transitions.shape.horizon - 1:
            wrong &= np.diff(kernel.start) > 0
        wrong &= transitions.allowed_actions.ravel()
        if wrong.any():
            pair = int(wrong.argmax())
            state, action = divmod(pair, transitions.shape.actions)
            place = describe_row((None if transitions.stationary else h, state, action))
            said = f"sum to {sums[pair]:.12g}" if sums[pair] else "are missing"
            raise BadInput(f"the transition probabilities of {place} {said}; they must sum to 1")


def _check_names(names: Names, shape: Shape) -> None:
    for what, given, wanted in (
        ("state", names.states, shape.states),
        ("action", names.actions, shape.actions),
    ):
        if given is not None and len(given) != wanted:
            raise BadInput(f"there are {len(given)} {what} names for {wanted} {what}s")
