"""Planning depth for stationary environments and stage-independent targets.

If neither the transitions nor the target depend on the stage, a plan depends only on the number of
remaining stages. The planner therefore looks ``depth`` stages ahead instead of planning the whole
horizon, which makes the cost of a step independent of the horizon.

Every plan is made for the state that the episode is in. It starts with ``INITIAL_DEPTH`` stages,
and the depth doubles until the value of that state is at least ``ENOUGH`` of what any path of the
same length can earn: something worth collecting is then near, compared with how far the plan looks.
A plan is kept until there is news, or until the episode enters a state from which it does not see
enough. Depths follow from the recorded episodes, so replaying a run reproduces them.
"""

from __future__ import annotations

from covgame.types import Shape

INITIAL_DEPTH = 16

ENOUGH = 0.5

LONG = 32
"""Episodes up to this length are planned as a whole, which costs little."""

MAX_PLANNED = 100_000_000
"""Stages times states of a plan, 2.5 GB: in worlds of millions of states plans look less far."""


def is_long(shape: Shape) -> bool:
    """Whether episodes are long enough for the planning depth to matter."""
    return shape.horizon > LONG


def max_depth(shape: Shape) -> int:
    """Largest depth that fits the horizon and the memory limit."""
    return min(shape.horizon, max(INITIAL_DEPTH, MAX_PLANNED // shape.states))


def first_depth(deepest: int) -> int:
    """The depth that a plan is tried with first."""
    return min(INITIAL_DEPTH, deepest)


def next_depth(depth: int, deepest: int) -> int:
    """The depth after one that does not show enough."""
    return min(2 * depth, deepest)
