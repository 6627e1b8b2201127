"""phi*: the smallest expected number of episodes that covers a target, with its proof.

Theorem 1 and Appendix A: phi*(c) is the value of the minimum flow eta >= c. Whatever the
solver returns is only a proposal here. Both sides of the printed value are computed anew by
plain dynamic programming:

- above, by a forward pass of the policy that the flow suggests: max_g c_g / p^pi(g);
- below, by backward induction on the multipliers y >= 0 of the requirements, since
  <c, y> / V*(y) <= phi*(c) for every y >= 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from covgame import signals
from covgame.arrays import sum_by_index
from covgame.errors import Infeasible, Row, SolverFailed
from covgame.flow import stagewise
from covgame.flow.highs import Answer, LinearProgram, Method, solve
from covgame.flow.polytope import FlowPolytope, SparseColumns, flow_polytope
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.resolve import check_reachable
from covgame.targets.target import Target
from covgame.types import FloatArray, FloatHS, FloatHSA, IntArray, Policy

SMALL = 5_000
"""Up to so many cells an exact vertex is cheap."""

LONG_GROUP = 200
"""Groups of more cells than that are rows so dense that HiGHS's interior-point method suffers."""

STAGEWISE_WORK = 2e10
STAGEWISE_WORK_LOCAL = 2e11
"""Multiplications of one iteration by blocks of stages: a minute for all iterations, or some
minutes where moves are local and slippery, because the other methods take longer there."""

OUT_OF_RANGE = (
    "covering this target takes more episodes than double precision can handle; "
    "leave out what is hardly reachable with --min-reach"
)

GOOD_GAP = 1e-5
"""Relative distance of the two certified bounds with which a proposal is accepted."""

EXACT_GAP = 1e-3
"""With a larger gap the two bounds are shown, and neither of them as phi*."""

QUICK_VARIABLES = 50_000
QUICK_VARIABLES_IN_GROUPS = 15_000
QUICK_STAGEWISE_WORK = 6e8
"""Programs of at most this size take a second or two with the method that is tried first."""

NEVER_END = (Method.FIRST_ORDER, Method.FIRST_ORDER_TIGHT)
"""Where there is no solution they look for one for very long."""

MIXTURES = np.concatenate([[0.0], np.logspace(-15, 0, 61)])
"""How much of a second flow is mixed into a proposal, where that helps."""

REPAIR_ROUNDS = 20
REPAIR_SHARE = 1e-6
"""Of the second flow that is meant to be mixed into a proposal, when it is put together."""

TINY = 1e-200


@dataclass(frozen=True, eq=False)
class MinFlow:
    """The cost of covering, certified from both sides, and how to attain it."""

    target: Target
    lower: float  # certified by backward induction on ``prices``
    upper: float  # attained by ``policy``: so many episodes of it meet the target on average
    flow: FloatHSA  # expected visits in ``upper`` episodes of ``policy``; meets the target
    policy: Policy
    prices: FloatArray  # (G,), episodes that one more required visit of a row costs

    @property
    def min_episodes(self) -> float:
        """phi*(c), the certified lower side of it."""
        return self.lower

    @property
    def dual_gap(self) -> float:
        """Relative distance between the two certified bounds."""
        if self.lower == self.upper:
            return 0.0
        gap = abs(self.upper - self.lower) / self.upper if self.upper > 0 else np.inf
        return gap if np.isfinite(gap) else np.inf

    @property
    def is_exact(self) -> bool:
        """Whether the two bounds agree so well that either may be called phi*."""
        return self.dual_gap <= EXACT_GAP

    def combined(self, other: MinFlow) -> MinFlow:
        """The better policy of the two with the better prices: each side is proved by itself."""
        above = self if self.upper <= other.upper else other
        below = self if self.lower >= other.lower else other
        return replace(above, lower=below.lower, prices=below.prices)

    def dearest(self, most: int = 10) -> list[tuple[Row, float]]:
        """The rows whose next visit costs most, dearest first: (row, episodes)."""
        order = np.argsort(-self.prices, kind="stable")[:most]
        order = order[self.prices[order] > 0]
        return list(zip(self.target.as_rows(order), self.prices[order].tolist(), strict=True))


def min_flow(transitions: Transitions, target: Target) -> MinFlow:
    """The minimum flow of a target (eq. min_flow_problem), certified.

    Raises ``UnreachableTarget`` if a required cell cannot be reached by any policy, and within
    ``signals.time_limit`` also ``OutOfTime``.
    """
    check_reachable(target, transitions)
    if len(target) == 0:
        return nothing_to_do(transitions, target)
    # Numbers past double precision spoil a proposal, which the certificate then shows.
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        program = ScaledProgram.of(transitions, target)
        best = _best_certified(transitions, program, _methods(transitions, program))
    if not np.isfinite(best.upper):
        raise SolverFailed(OUT_OF_RANGE)
    return best


def quick_min_flow(transitions: Transitions, target: Target) -> MinFlow | None:
    """Like ``min_flow`` by the first method alone; None if that takes more than a second or two.

    Work is judged by the size of the program, so that the same call gives the same answer.
    """
    check_reachable(target, transitions)
    if len(target) == 0:
        return nothing_to_do(transitions, target)
    if dp.reachable(transitions).sum() * transitions.shape.actions > QUICK_VARIABLES:
        return None
    program = ScaledProgram.of(transitions, target)
    method = _methods(transitions, program)[0]
    if method is Method.STAGEWISE:
        is_quick = program.stagewise_work() <= QUICK_STAGEWISE_WORK
    else:
        is_small = len(program.polytope.cells) <= QUICK_VARIABLES_IN_GROUPS
        is_quick = method not in NEVER_END and (is_small or len(program.group_rows) == 0)
    if not is_quick:
        return None
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        return _best_certified(transitions, program, (method,))


def _best_certified(
    transitions: Transitions, program: ScaledProgram, methods: tuple[Method, ...]
) -> MinFlow:
    """The best that the proposals prove; they stop as soon as it is good enough."""
    proposals = _proposals(program, methods)
    best = certify(transitions, program.target, *next(proposals))
    while best.dual_gap > GOOD_GAP:
        proposal = next(proposals, None)
        if proposal is None:
            break
        best = best.combined(certify(transitions, program.target, *proposal))
    return best


def flow_policy(flow: FloatHSA) -> Policy:
    """pi_h(a|s) = eta_h(s,a) / sum_b eta_h(s,b) (eq. min-cover-stoch-policy); any where 0."""
    through = flow.sum(axis=2, keepdims=True)
    even = 1.0 / flow.shape[2]
    return Policy.stochastic(
        np.divide(flow, through, out=np.full(flow.shape, even), where=through > 0)
    )


def dual_bound(transitions: Transitions, target: Target, prices: FloatArray) -> float:
    """<c, y> / V*(y): a lower bound on phi*(c) for any prices y >= 0."""
    value = _best_income(transitions, target, prices)
    return float(target.counts @ prices) / value if value > 0 else 0.0


def policy_bound(transitions: Transitions, target: Target, policy: Policy) -> float:
    """max_g c_g / p^pi(g): the episodes in which a policy meets the target in expectation."""
    return _episodes_needed(target, dp.occupancy(transitions, policy))


def _episodes_needed(target: Target, occupancy: FloatHSA) -> float:
    with np.errstate(divide="ignore"):
        return float((target.counts / target.collected(occupancy)).max(initial=0.0))


def _proposals(
    program: ScaledProgram, methods: tuple[Method, ...]
) -> Iterator[tuple[FloatHSA, FloatArray]]:
    """Flows and prices from one method after another; some methods make several proposals."""
    failures: list[SolverFailed] = []
    solved = False
    for method in methods:
        if method in NEVER_END and any(isinstance(one, Infeasible) for one in failures):
            continue  # there is a solution, but not with these numbers
        try:
            for answer in program.answers(method):
                solved = True
                yield program.flow(answer), program.prices(answer)
        except SolverFailed as error:
            failures.append(error)
    if not solved:
        raise SolverFailed(f"{OUT_OF_RANGE} ({failures[0]})")


def _methods(transitions: Transitions, program: ScaledProgram) -> tuple[Method, ...]:
    """Which methods to try, the most promising first (decision record 3 has the figures).

    The choice looks at the world, never at the clock, so that the same call gives the same
    answer.
    """
    is_local = _spreads_slowly(transitions)
    most = STAGEWISE_WORK_LOCAL if is_local else STAGEWISE_WORK
    by_stages = (Method.STAGEWISE,) if program.stagewise_work() <= most else ()
    if len(program.polytope.cells) <= SMALL:
        return (Method.VERTEX, *by_stages, Method.INTERIOR, Method.SIMPLEX, Method.FIRST_ORDER)
    deterministic = bool((transitions.probability == 1.0).all())
    if deterministic or (is_local and len(program.group_rows) == 0):
        return (Method.INTERIOR, *by_stages, Method.FIRST_ORDER)
    if by_stages:
        return (Method.STAGEWISE, Method.FIRST_ORDER)
    if is_local and _longest_group(program.target) <= LONG_GROUP:
        return (Method.INTERIOR, Method.FIRST_ORDER)
    return (Method.FIRST_ORDER, Method.FIRST_ORDER_TIGHT)


def _spreads_slowly(transitions: Transitions) -> bool:
    """Whether moves are local: states come into reach like an area, not like an explosion.

    Elimination stays sparse in such worlds, on which the interior-point method thrives.
    """
    in_reach = dp.reachable(transitions).sum(axis=1)
    half_way = int((2 * in_reach >= in_reach.max()).argmax())
    return bool(in_reach.max() <= 4 * half_way**2)


def _longest_group(target: Target) -> int:
    return int(np.bincount(target.members.row).max(initial=0))


def certify(
    transitions: Transitions,
    target: Target,
    flow: FloatHSA,
    prices: FloatArray,
    second: FloatHSA | None = None,
) -> MinFlow:
    """What a proposed flow and proposed prices prove about phi*, by dynamic programming.

    Requirements that are small beside the others drown in the solver's tolerance. A little of a
    ``second`` flow mixed in, the occupancy of some policy, meets them at no notable cost. Without
    one it is put together here from the requirements that the proposal misses.
    """
    prices = _paying_one_an_episode(transitions, target, prices)
    lower = float(target.counts @ prices)
    proposed = dp.occupancy(transitions, flow_policy(flow))
    if second is None:
        second = _flow_to_what_is_missed(transitions, target, proposed, lower)
    gained, second_gain = target.collected(proposed), target.collected(second)
    share = min(
        MIXTURES,
        key=lambda share: (target.counts / ((1 - share) * gained + share * second_gain)).max(),
    )
    policy = flow_policy((1 - share) * proposed + share * second)
    occupancy = dp.occupancy(transitions, policy)
    upper = _episodes_needed(target, occupancy)
    return MinFlow(
        target,
        lower=lower,
        upper=upper,
        flow=occupancy * upper if np.isfinite(upper) else occupancy,
        policy=policy,
        prices=prices,
    )


def _flow_to_what_is_missed(
    transitions: Transitions, target: Target, proposed: FloatHSA, episodes: float
) -> FloatHSA:
    """Occupancy of a mixture of policies for the rows that ``episodes`` of ``proposed`` miss.

    Each policy is the best response to a reward of c_g / visits for the rows that are missed by
    the proposal with a share of the policies before it.
    """
    gained = target.collected(proposed)
    mixed = np.zeros_like(proposed)
    for round_ in range(REPAIR_ROUNDS):
        signals.check()
        visits = episodes * (gained + REPAIR_SHARE * target.collected(mixed))
        need = target.counts / np.maximum(visits, TINY)
        missed = need > 1 + GOOD_GAP / 2
        if not missed.any():
            break
        reward = target.cell_rewards(np.where(missed, need / target.counts, 0.0))
        response = dp.backward_induction(transitions, reward).policy
        mixed += (dp.occupancy(transitions, response) - mixed) / (round_ + 1)
    return mixed


def _paying_one_an_episode(
    transitions: Transitions, target: Target, prices: FloatArray
) -> FloatArray:
    """Prices scaled to V*(y) = 1; no prices at all (they prove nothing) if that cannot be."""
    income = _best_income(transitions, target, prices)
    if not 0 < income < np.inf:
        return np.zeros_like(prices)
    return prices / income


def _best_income(transitions: Transitions, target: Target, prices: FloatArray) -> float:
    """V*(y): the most that a policy earns in an episode that pays each visit its price."""
    optimal = dp.backward_induction(transitions, target.cell_rewards(prices))
    return dp.initial_value(transitions, optimal.values)


def nothing_to_do(transitions: Transitions, target: Target) -> MinFlow:
    """The answer for a target that asks for nothing."""
    shape = transitions.shape
    return MinFlow(target, 0.0, 0.0, np.zeros(shape.hsa), Policy.uniform(shape), np.zeros(0))


class ScaledProgram:
    """The minimum-flow program in units in which no number is large.

    Flow through a hard cell and through an easy one differ by orders of magnitude. At most
    phi* W_h(s) of it goes through (h, s), where W is the chance of the policy that gets there most
    often. So flow is measured in multiples of a ``reach`` W_h(s), or a bound on it that keeps
    p_h(s'|s,a) W_h(s) <= W_{h+1}(s') or W_{h+1}(s') = 1: each column is multiplied and each row
    divided by that of its (h, s), and no coefficient exceeds 1. A violation of a row by epsilon
    then costs about epsilon phi* to repair, however rarely its state is reached. Counts are
    divided by the most episodes that a row takes by itself. Rows of the target that name one cell
    become bounds, the others constraints.
    """

    def __init__(self, target: Target, polytope: FlowPolytope, reach: FloatHS) -> None:
        self.target = target
        self.polytope = polytope
        units = reach.ravel()[polytope.states]
        self.column_unit = np.concatenate([[1.0], units[polytope.state_of_cell]])
        self.cell_rows = np.flatnonzero(target.per_cell)
        self.cell_columns = self._columns_of_cell_rows()
        self.group_rows = np.flatnonzero(~target.per_cell)
        self.group_entries = self._entries_of_group_rows()
        self.group_unit = sum_by_index(
            self.group_entries[0],
            self.column_unit[self.group_entries[1]],
            len(self.group_rows),
        )
        cell_episodes = target.counts[self.cell_rows] / self.column_unit[self.cell_columns]
        group_episodes = target.counts[self.group_rows] / self.group_unit
        self.unit = max(cell_episodes.max(initial=0.0), group_episodes.max(initial=0.0))
        self.program = self._program(units, cell_episodes / self.unit, group_episodes / self.unit)

    @classmethod
    def of(cls, transitions: Transitions, target: Target) -> ScaledProgram:
        """The program of a target on a kernel."""
        polytope = flow_polytope(transitions)
        signals.check()
        return cls(target, polytope, dp.reach_bound(transitions))

    def _columns_of_cell_rows(self) -> IntArray:
        shape = self.target.shape
        stage, state, action = self.target.rows[self.cell_rows].T
        cell: IntArray = (stage * shape.states + state) * shape.actions + action
        return self.polytope.column_of_cell()[cell]

    def _entries_of_group_rows(self) -> tuple[IntArray, IntArray]:
        """(number of the group row, column) of each of its cells that can be reached."""
        number = np.full(len(self.target), -1, dtype=np.int64)
        number[self.group_rows] = np.arange(len(self.group_rows))
        members = self.target.members
        column = self.polytope.column_of_cell()[members.cell]
        used = (number[members.row] >= 0) & (column > 0)
        return number[members.row[used]], column[used]

    def _program(
        self, units: FloatArray, cell_lower: FloatArray, group_lower: FloatArray
    ) -> LinearProgram:
        flow = self.polytope.matrix
        group, group_column = self.group_entries
        matrix = SparseColumns.from_entries(
            flow.rows + len(self.group_rows),
            len(self.column_unit),
            np.concatenate([flow.index, flow.rows + group]),
            np.concatenate([flow.column, group_column]),
            np.concatenate([flow.value, np.ones(len(group))]),
        )
        lower = np.zeros(len(self.column_unit))
        lower[self.cell_columns] = cell_lower
        conserved = np.zeros(flow.rows)
        return LinearProgram(
            cost=np.concatenate([[1.0], np.zeros(len(self.polytope.cells))]),
            lower=lower,
            matrix=matrix.scaled(1 / np.concatenate([units, self.group_unit]), self.column_unit),
            row_lower=np.concatenate([conserved, group_lower]),
            row_upper=np.concatenate([conserved, np.full(len(group_lower), np.inf)]),
        )

    def answers(self, method: Method) -> Iterator[Answer]:
        """What a method finds, the best last."""
        if method is Method.STAGEWISE:
            return stagewise.iterates(self.program, self._blocks())
        return iter([solve(self.program, method)])

    def stagewise_work(self) -> float:
        """Multiplications of one iteration of ``Method.STAGEWISE``, roughly."""
        return stagewise.work(self.program.matrix, self._blocks())

    def _blocks(self) -> IntArray:
        return np.append(self.polytope.first_rows, self.program.matrix.rows)

    def flow(self, answer: Answer) -> FloatHSA:
        """The flow in visits; bounds that the solver met only nearly are met."""
        visits = np.zeros(self.polytope.shape.cells)
        visits[self.polytope.cells] = answer.x[1:] * self.column_unit[1:] * self.unit
        return np.maximum(visits.reshape(self.polytope.shape.hsa), self.target.cell_counts())

    def prices(self, answer: Answer) -> FloatArray:
        """The multipliers of the requirements, in episodes per visit."""
        prices = np.empty(len(self.target))
        prices[self.cell_rows] = (
            answer.bound_multipliers[self.cell_columns] / self.column_unit[self.cell_columns]
        )
        prices[self.group_rows] = (
            answer.row_multipliers[self.polytope.matrix.rows :] / self.group_unit
        )
        return np.maximum(prices, 0.0)
