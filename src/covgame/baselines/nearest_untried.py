"""The obvious explorer: walk to the nearest state-action pair that still lacks visits.

``NearestUntried`` treats the environment as a graph with one edge per state and action, to the
successor that was seen most often. If an action of the current state lacks visits, it takes the one
with the fewest visits. Otherwise it follows the shortest path (breadth-first search) to the nearest
state that has such an action, among those that the remaining stages suffice for.

``ExpectedSteps`` is the version for stochastic environments. It minimizes the expected number of
steps to a pair that lacks visits, by value iteration on the observed frequencies. An episode that
ends first costs the expected number of steps from the start of the next one.

Both learn from every step and plan again after it. Neither is optimistic. If the most frequent
successors lead to no pair that lacks visits, ``NearestUntried`` uses all successors seen, where a
step that succeeds with probability p costs 1/p. If no transition seen so far leads to such a pair,
both go to the nearest of the least visited pairs: in a stochastic environment another try may lead
to an unknown state.

Targets of cells (stage, state, action) use the graph of stages and states, where the number of
steps to a node is the number of stages ahead. If the transitions depend on the stage, a stage
borrows observations from others as in the game (``Counts.lent``).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, Protocol

import numpy as np

from covgame.episodes import LAST
from covgame.game.counts import SETTLED, Counts
from covgame.kernels import layout
from covgame.targets.target import Target

UNKNOWN = -3
"""The successor of an action that was never tried."""

CLOSE = 1e-9
MAX_ROUNDS = 50
"""Policy iteration on the cost of a restart ends at this relative change, or after these rounds."""


Step = tuple[int, int]
"""(state, action)."""


class Requirements(Protocol):
    """Which places still lack visits; a place is a pair, or a cell if stages are told apart."""

    has_stages: bool
    n_open: int  # rows that lack visits
    open: bytearray  # by place: s A + a, or (h S + s) A + a with stages; 1 if it lacks visits

    @property
    def covered(self) -> bool:
        """Whether no place lacks visits."""
        ...

    def meet(self, state: int) -> None:
        """Note a state that may be new."""
        ...

    def visit(self, place: int) -> None:
        """Count a visit."""
        ...


class EveryPair:
    """So many visits of every action of every state met so far."""

    has_stages = False

    def __init__(self, actions: int, required: int = 1) -> None:
        self.actions, self.required = actions, required
        self.open = bytearray()
        self.visits: list[int] = []
        self.n_open = 0

    @property
    def covered(self) -> bool:
        return self.n_open == 0

    def meet(self, state: int) -> None:
        """Require visits of its actions, and of those of all states with smaller numbers."""
        new = (state + 1) * self.actions - len(self.visits)
        if new > 0:
            self.visits += [0] * new
            self.open += b"\x01" * new
            self.n_open += new

    def visit(self, place: int) -> None:
        self.visits[place] += 1
        if self.visits[place] == self.required:
            self.open[place] = 0
            self.n_open -= 1


class OfTarget:
    """The rows of a target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.has_stages = not target.stage_free
        self.collected = [0] * len(target)
        self.counts: list[float] = target.counts.tolist()
        self.open = bytearray(target.stages_apart * target.shape.pairs)
        for place in target.places.cell.tolist():
            self.open[place] = 1
        self.row_start = layout.row_starts(target.places.row, len(target)).tolist()
        self.n_open = len(target)

    @property
    def covered(self) -> bool:
        return self.n_open == 0

    def meet(self, state: int) -> None:
        """All states are known beforehand."""

    def visit(self, place: int) -> None:
        for row in self.target.rows_of_cell(place):
            self.collected[row] += 1
            if self.collected[row] - 1 < self.counts[row] <= self.collected[row]:
                self.n_open -= 1
                first, last = self.row_start[row], self.row_start[row + 1]
                for member in self.target.places.cell[first:last].tolist():
                    self.open[member] = any(
                        self.collected[other] < self.counts[other]
                        for other in self.target.rows_of_cell(member)
                    )


class NearestUntried:
    """Walks to the nearest pair that lacks visits, on the graph of most frequent successors.

    Args:
        counts: The observations, none at first. Transitions are added step by step.
        requirements: Which pairs or cells lack visits.

    Example:
        >>> from covgame.baselines.nearest_untried import EveryPair, NearestUntried
        >>> from covgame.game.counts import Counts
        >>> from covgame.types import Shape
        >>> counts = Counts(Shape(5, 1, 2), pooled=True, stage_free=True)
        >>> explorer = NearestUntried(counts, EveryPair(2))
        >>> explorer.begin(0)
        >>> action = explorer.choose(0, 0)  # stage 0, state 0
        >>> explorer.observe(0, 0, action, 1)  # it led to state 1
        >>> action, explorer.choose(1, 1)
        (0, 0)
    """

    def __init__(self, counts: Counts, requirements: Requirements) -> None:
        self.counts, self.requirements = counts, requirements
        self.horizon, self.actions = counts.shape.horizon, counts.shape.actions
        self.stage_free = counts.pooled and not requirements.has_stages
        self.tried = [0] * len(requirements.open)  # visits by place
        self.by_pair: list[dict[int, float]] = []  # how often a pair led where, all stages together
        self.by_cell: dict[int, dict[int, float]] = {}  # the same by stage, unless they are pooled
        self.edges: list[int] = []  # the most frequent successor of each pair, if they are pooled
        self.path: list[Step] = []  # the plan, its next step last
        self.kappa: list[float] = []
        self._meet(counts.shape.states - 1 if requirements.open else 0)

    def begin(self, state: int) -> None:
        """Start an episode."""
        self._meet(state)
        self.path = []
        if not self.counts.pooled:
            self.kappa = (
                self.counts.borrowed_by_state().tolist()
                if self.counts.pool is not None
                else [0.0] * self.counts.shape.states
            )

    def choose(self, stage: int, state: int) -> int:
        """The action to take in this state at this stage."""
        action = self._lacking_action(stage, state)
        if action is not None:
            self.path = []
            return action
        return self._follow(stage, state)

    def _follow(self, stage: int, state: int) -> int:
        """The next step of the path, of a new one if the last step led elsewhere."""
        if not (self.path and self.path[-1][0] == state):
            self.path = self._shortest_path(stage, state) or self._likely_path(stage, state)
        return self.path.pop()[1]

    def observe(self, stage: int, state: int, action: int, successor: int) -> None:
        """Learn from a step; the successor may be ``END``, or ``LAST`` if none was shown.

        ``Counts.add`` of the whole episode adds its visits: it has learnt all of its steps.
        """
        if successor >= 0:
            self._meet(successor)
        pair = state * self.actions + action
        place = self._place(stage, state) + action
        n_open = self.requirements.n_open
        self.requirements.visit(place)
        self.tried[place] += 1
        if self.requirements.n_open < n_open:
            self.path = []  # a visit may count for its end, too
        if successor == LAST:
            return
        self.counts.learn(stage * self.counts.shape.pairs + pair, successor)
        seen = self.by_pair[pair]
        seen[successor] = seen.get(successor, 0) + 1
        if not self.counts.pooled:
            own = self.by_cell.setdefault(stage * self.counts.shape.pairs + pair, {})
            own[successor] = own.get(successor, 0) + 1
            self.path = []  # the edges of other stages may have changed
        elif self.edges[pair] != successor and seen[successor] > seen.get(self.edges[pair], 0):
            self.edges[pair] = successor
            self.path = []

    def _meet(self, state: int) -> None:
        """Make room for a state."""
        if state >= self.counts.shape.states:
            self.counts.grow(2 * state)
        self.requirements.meet(state)
        new = (state + 1) * self.actions - len(self.by_pair)
        if new > 0:
            self.by_pair += [{} for _ in range(new)]
            self.edges += [UNKNOWN] * new
            self.tried += [0] * (len(self.requirements.open) - len(self.tried))

    def _place(self, stage: int, state: int) -> int:
        """The place of a state's first action."""
        if self.requirements.has_stages:
            state += stage * self.counts.shape.states
        return state * self.actions

    def _lacking_action(self, stage: int, state: int) -> int | None:
        """Of the actions that lack visits the one with the fewest, the first of several."""
        first, is_open = self._place(stage, state), self.requirements.open
        lacking = [a for a in range(self.actions) if is_open[first + a]]
        return min(lacking, key=lambda a: self.tried[first + a]) if lacking else None

    def _frequencies(self, stage: int, pair: int) -> dict[int, float]:
        """How often a pair led where, borrowed observations of other stages included."""
        shared = self.by_pair[pair]
        if self.counts.pooled:
            return shared
        own = self.by_cell.get(stage * self.counts.shape.pairs + pair, {})
        n, total = sum(own.values()), sum(shared.values())
        kappa = self.kappa[pair // self.actions]
        lent = min(kappa, total - n) if n < SETTLED * kappa else 0.0
        if lent <= 0:
            return own
        return {
            successor: own.get(successor, 0) + lent * number / total
            for successor, number in shared.items()
        }

    def _most_frequent(self, stage: int, pair: int) -> int:
        """The most frequent successor, the first seen of several; UNKNOWN if there is none."""
        if self.counts.pooled:
            return self.edges[pair]
        seen = self._frequencies(stage, pair)
        return max(seen, key=seen.__getitem__) if seen else UNKNOWN

    def _shortest_path(self, stage: int, state: int) -> list[Step]:
        """The path to the nearest state that lacks visits, by breadth-first search.

        Of those on most frequent successors that the remaining stages suffice for. The path is
        reversed, and empty if there is none.
        """
        is_open, A = self.requirements.open, self.actions
        nodes = [(state, -1, -1)]  # state, number of the node before it, action that led here
        seen, layer = {state}, [0]
        for h in range(stage, self.horizon):
            for node in layer:
                first = self._place(h, nodes[node][0])
                if 1 in is_open[first : first + A]:
                    return self._path(nodes, node, self._lacking_action(h, nodes[node][0]) or 0)
            following: list[int] = []
            if not self.stage_free:
                seen = set()  # at the next stage a state is another node
            for node in layer:
                at = nodes[node][0] * A
                for action in range(A):
                    successor = self._most_frequent(h, at + action)
                    if successor >= 0 and successor not in seen:
                        seen.add(successor)
                        following.append(len(nodes))
                        nodes.append((successor, node, action))
            layer = following
        return []

    def _likely_path(self, stage: int, state: int) -> list[Step]:
        """The path on all successors seen, where a step that succeeds with p costs 1/p (Dijkstra).

        It leads to a state that lacks visits or, if there is none, to one of the least visited
        pairs. The path is reversed.
        """
        is_open, tried, A = self.requirements.open, self.tried, self.actions
        nodes = [(state, -1, -1)]
        queue, done = [(0.0, 0, stage)], set[tuple[int, int]]()  # cost, node, its stage
        fewest, least_visited = -1, (0, 0)
        while queue:
            cost, node, h = heappop(queue)
            at = nodes[node][0]
            if ((-1 if self.stage_free else h), at) in done:
                continue
            done.add(((-1 if self.stage_free else h), at))
            first = self._place(h, at)
            if 1 in is_open[first : first + A]:
                return self._path(nodes, node, self._lacking_action(h, at) or 0)
            visits = min(tried[first : first + A])
            if fewest < 0 or visits < fewest:
                fewest = visits
                least_visited = (node, tried.index(visits, first) - first)
            for action in range(A if h + 1 < self.horizon else 0):
                seen = self._frequencies(h, at * A + action)
                total = sum(seen.values())
                for successor, number in seen.items():
                    if successor >= 0:
                        heappush(queue, (cost + total / number, len(nodes), h + 1))
                        nodes.append((successor, node, action))
        return self._path(nodes, *least_visited)

    @staticmethod
    def _path(nodes: list[tuple[int, int, int]], node: int, action: int) -> list[Step]:
        """(state, action) from the last step of the way back to the first."""
        path = [(nodes[node][0], action)]
        while node > 0:
            _, before, taken = nodes[node]
            path.append((nodes[before][0], taken))
            node = before
        return path


class ExpectedSteps(NearestUntried):
    """Minimizes the expected number of steps to a pair that lacks visits.

    The values come from the observed frequencies, for the stages that remain. ``restart`` is the
    expected number of steps from the start of an episode, renewed before each.
    """

    restart = 0.0

    def begin(self, state: int) -> None:
        super().begin(state)
        self.restart = 0.0
        starts, n = self.counts.starts, self.counts.n_episodes
        for _ in range(MAX_ROUNDS if n else 0):
            _, values = self._plan(0, state)
            steps, missed = (float(starts @ value[:-1]) / n for value in values)
            length = steps / max(1.0 - missed, CLOSE)
            if not length > self.restart * (1.0 + CLOSE):
                break
            self.restart = length

    def choose(self, stage: int, state: int) -> int:
        action = self._lacking_action(stage, state)
        if action is None:
            planned, (_, missed) = self._plan(stage, state)
            if missed[state] > 1.0 - CLOSE:  # probabilities add up to 1 up to rounding
                return self._follow(stage, state)
            action = planned
        self.path = []
        return action

    def _plan(self, stage: int, state: int) -> tuple[int, Any]:
        """(action, (steps to go, probability to end without a goal) of every state)."""
        from covgame.kernels import expected_steps as kernel

        S, pairs = self.counts.shape.states, self.counts.shape.pairs
        room = self.horizon * pairs if self.requirements.has_stages else pairs
        goals = np.zeros(room, dtype=np.bool_)
        goals[: len(self.requirements.open)] = np.frombuffer(
            bytes(self.requirements.open), np.bool_
        )
        values = np.zeros((2, 2, S + 1))
        plan: Any = kernel.expected_steps
        action, last = plan(
            layout.count_arrays(self.counts), goals.reshape(-1, pairs), self.stage_free, stage,
            state, self.restart, CLOSE, values,
        )  # fmt: skip
        return int(action), values[int(last)]
