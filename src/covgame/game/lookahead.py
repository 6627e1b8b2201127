"""Planning depth for stationary environments and stage-independent targets.

If neither the transitions nor the target depend on the stage, a plan depends only on the number of
remaining stages. The planner therefore looks ``depth`` stages ahead instead of planning the whole
horizon, which makes the cost of a step independent of the horizon.

Every plan is made for the state that the episode is in. It starts with ``INITIAL_DEPTH`` stages,
and the depth doubles until the value of that state is at least ``ENOUGH`` of what any path of the
same length can earn: something worth collecting is then near, compared with how far the plan looks.
A plan is kept until there is news, or until the episode enters a state from which it does not see
enough. Depths follow from the recorded episodes, so replaying a run reproduces them.

In a large environment, plans for all states with many stages take longer than the steps themselves.
If ``ROUTE_DEPTH`` stages do not show enough there, the episode instead takes the shortest route to
a pair that earns something, on the graph of most frequent successors (``find_route``). If that pair
is near, the plan for ``ROUTE_DEPTH`` stages leads to it and is kept. If no route is known, the
depth doubles as in small environments.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from covgame.game.successors import SuccessorTable
from covgame.types import FloatArray, Shape

INITIAL_DEPTH = 16

ENOUGH = 0.5

ROUTE_DEPTH = 32
"""Deepest plan before a route is searched for."""

LARGE = 1024
"""Routes are taken if at least this many states are known to be reachable from the current one."""

NEAR = 16
"""Routes of at most this many steps are left to the plan."""

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


class Route(NamedTuple):
    """The shortest path to a pair that earns something, and the size of the search."""

    actions: dict[int, int]  # by state
    length: float  # steps, the rewarded one included; infinite if no route is known
    reached: int  # states that the search has found


def find_route(table: SuccessorTable, reward: FloatArray, state: int) -> Route:
    """Breadth-first search from a state, on the graph of most frequent successors.

    Args:
        table: The transitions seen, one row per pair.
        reward: (S, A), what pairs earn; minus infinity for forbidden actions.
        state: Where the route starts.

    Returns:
        The route to the nearest pair with a positive reward. Of equally near ones, the one whose
        state was found first, and the action with the smallest number. The search goes on until it
        has found ``LARGE`` states.
    """
    came_by: dict[int, tuple[int, int]] = {state: (-1, -1)}  # state and action before
    steps, queue = {state: 1}, deque([state])
    actions, length = dict[int, int](), math.inf
    while queue and (length == math.inf or len(came_by) < LARGE):
        at = queue.popleft()
        for action, earned in enumerate(reward[at].tolist()):
            if length == math.inf and earned > 0.0:
                length, last = steps[at], (at, action)
                while last[0] >= 0:
                    actions[last[0]] = last[1]
                    last = came_by[last[0]]
            if earned > -math.inf:
                successor = table.most_frequent(at * reward.shape[1] + action)
                if successor is not None and successor not in came_by:
                    came_by[successor], steps[successor] = (at, action), steps[at] + 1
                    queue.append(successor)
    return Route(actions, length, len(came_by))
