"""A floor under certified learning: episodes that every method needs that also proves its answer.

Theorem F (docs/floor.md). If a method's claim about the given world is false in another world of
the class, data must tell the two apart: the expected visits, times what a visit tells (KL), are at
least kl(1 - delta, delta). For alternatives j and multipliers lambda_j >= 0,

    episodes >= kl(1 - delta, delta) sum lambda_j / max_pi rho^pi . (sum lambda_j KL_j),

which one backward induction evaluates. Alternatives and multipliers are found by search and by a
linear program; neither is trusted. Each alternative that counts is built as a world of its own, its
KL and its values are computed anew, and the printed number is the right side above.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import log
from typing import Literal

import numpy as np

from covgame import signals
from covgame.arrays import sum_by_segment
from covgame.errors import BadInput, TooLarge
from covgame.flow.alternatives import (
    WorldClass,
    Worlds,
    deterministic,
    distinct,
    drawn_worlds,
    largest_differences,
    lower_values,
    optimistic_policies,
    raise_values,
)
from covgame.flow.highs import LinearProgram, Method, solve
from covgame.flow.polytope import SparseColumns, flow_polytope
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import END, FloatArray, FloatHSA, IntArray, Policy

FloorTask = Literal["identify", "explore"]

MARGIN = 1e-6
"""Alternatives differ by this share more than epsilon, so that rounding decides nothing."""

VIOLATED = 0.999
"""Alternatives with less than this share of the information that is needed join the program."""

ADDED = 30
INTERIOR = 0.02
"""Share of covering visits that is mixed in, so that no change is free where policies can get."""

MULTIPLIERS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
ROUNDS = 25
QUICK_ROUNDS = 4
FRUITLESS_ROUNDS = 3
"""Rounds without a new alternative after which a search with random draws ends."""

DRAWS = 12
IMPROVEMENTS = 3

MOST_POLICIES = 64
QUICK_POLICIES = 12
WORK = 2_000_000
"""Policies times cells times states of a batch; larger worlds are searched with fewer policies."""

MOST_NUMBERS = 1_000_000
"""Cells times states of the largest worlds that are searched."""

QUICK_NUMBERS = 20_000
"""The same where a floor is computed unasked, beside a result: some seconds."""

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Alternative:
    """A world in which a claim about the given one would be false, as it was verified."""

    transitions: Transitions
    rewards: FloatHSA
    information: FloatHSA  # KL per visit of a cell
    difference: float  # of the value that the claim is about; more than epsilon
    policy: FloatHSA | None = None  # of which it is the value, and for which reward; None: V*
    reward: FloatHSA | None = None


@dataclass(frozen=True, eq=False)
class Floor:
    """No method that also proves its answer needs fewer episodes than ``episodes`` on average."""

    task: FloorTask
    epsilon: float
    delta: float
    stationary: bool  # whether methods may rely on stages being alike
    episodes: float
    alternatives: list[Alternative] = field(repr=False)
    multipliers: FloatArray = field(repr=False)
    attained: float  # of the program: with these alternatives no floor can be larger
    ended: bool  # whether the search found nothing more, or reached its limit of rounds

    @property
    def gap(self) -> float:
        """The relative distance between the floor and the most these alternatives can prove."""
        return 1 - self.episodes / self.attained if self.attained > 0 else 0.0

    def to_dict(self) -> dict[str, float | int | bool | str]:
        """The JSON answer."""
        return {
            "episodes": self.episodes,
            "stages": "pooled" if self.stationary else "apart",
            "alternatives": len(self.alternatives),
            "gap": self.gap,
            "search_ended": self.ended,
        }


def binary_divergence(delta: float) -> float:
    """kl(1 - delta, delta), what data must tell."""
    return (1 - 2 * delta) * log((1 - delta) / delta)


def learning_floor(
    family: WorldClass, task: FloorTask, epsilon: float, delta: float, *, quick: bool = False
) -> Floor:
    """The floor of a task; ``quick`` searches for fewer rounds.

    Raises:
        TooLarge: The world has too many cells to search for alternatives.
    """
    shape = family.transitions.shape
    if not (isinstance(epsilon, int | float) and 0 < epsilon < np.inf):
        raise BadInput(f"--epsilon is a positive number, not {epsilon!r}")
    if not (isinstance(delta, int | float) and 0 < delta < 0.5):
        raise BadInput(f"--delta of a floor lies between 0 and 0.5, not {delta!r}")
    if numbers(family) > MOST_NUMBERS:
        raise TooLarge(
            f"a floor is computed for worlds with up to {MOST_NUMBERS:,} cells times states; this "
            f"one has {numbers(family):,}; try a shorter --horizon"
        )
    search = _Search(family, task, epsilon, QUICK_POLICIES if quick else MOST_POLICIES)
    known: list[Alternative] = []
    program = _Program(family.transitions)
    rounds, fruitless, ended = QUICK_ROUNDS if quick else ROUNDS, 0, False
    for _ in range(rounds):
        signals.check()
        found = search.alternatives(program.visits)
        if not found:
            fruitless += 1
            ended = task == "identify" or fruitless == FRUITLESS_ROUNDS
            if ended:
                break
            continue
        fruitless = 0
        known += found
        program.solve(np.array([one.information for one in known]))
    needed = binary_divergence(delta)
    used = np.flatnonzero(program.multipliers > 0)
    alternatives = [known[j] for j in used]
    information = np.zeros(shape.hsa)
    for j in used:
        information += program.multipliers[j] * known[j].information
    proved = certified(family.transitions, information, float(program.multipliers[used].sum()))
    return Floor(
        task,
        epsilon,
        delta,
        family.stationary,
        needed * proved,
        alternatives,
        program.multipliers[used],
        needed * program.attained,
        ended,
    )


def certified(transitions: Transitions, information: FloatHSA, total: float) -> float:
    """sum lambda / max_pi rho.(sum lambda KL): episodes per unit of kl, by backward induction."""
    most = dp.initial_value(transitions, dp.backward_induction(transitions, information).values)
    return (1 - ROUNDING) * total / most if most > 0 else 0.0


def numbers(family: WorldClass) -> int:
    """Cells times states: what the work of a search grows with."""
    shape = family.transitions.shape
    return shape.cells * (shape.states + 1)


# ---------------------------------------------------------------------------- alternatives


@dataclass(eq=False)
class _Search:
    """Looks for alternatives that visits do not tell apart from the given world."""

    family: WorldClass
    task: FloorTask
    epsilon: float
    most_policies: int
    rounds: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.batch = max(2, min(self.most_policies, WORK // numbers(self.family)))

    @cached_property
    def given(self) -> Worlds:
        return Worlds.copies(self.family, 1)

    @cached_property
    def optimal(self) -> tuple[FloatArray, float]:
        """An optimal policy of the given world, and V*."""
        policy, values, _ = self.given.best(self.given.reward())
        return policy, float(self.given.start_values(values)[0])

    @cached_property
    def cells(self) -> IntArray:
        """The reachable cells, (n, 3)."""
        transitions = self.family.transitions
        exists = dp.reachable(transitions)[:, :, None] & transitions.allowed_actions
        return np.argwhere(exists)

    @cached_property
    def covering(self) -> FloatHSA:
        """Visits per episode, more than 0 wherever some policy gets."""
        transitions = self.family.transitions
        even = dp.occupancy(transitions, _even_policy(transitions))
        visitors = self._visitors(self.cells[:: max(1, len(self.cells) // self.batch)])
        given = self.given.take(np.zeros(len(visitors), dtype=np.int64))
        surest = (given.occupancies(visitors)[..., None] * visitors).mean(axis=0)
        covering: FloatHSA = (even + surest) / 2
        return covering

    def alternatives(self, visits: FloatHSA | None) -> list[Alternative]:
        """Verified alternatives that the visits tell too little of, the least first."""
        episodes = 1.0 if visits is None else max(1.0, float(visits[0].sum()))
        interior = self.covering * (episodes * (20.0 if visits is None else INTERIOR))
        at = interior if visits is None else visits + interior
        batches = self._identify(at) if self.task == "identify" else self._explore(at)
        found: list[tuple[float, Worlds, int, FloatArray | None, FloatArray | None]] = []
        for worlds, policy, reward in batches:
            told = (worlds.information() * (at if visits is None else visits)).sum(axis=(1, 2, 3))
            for i in np.flatnonzero(np.isfinite(told)).tolist():
                pair = (None, None) if policy is None or reward is None else (policy[i], reward[i])
                found.append((float(told[i]), worlds, i, *pair))
        found.sort(key=lambda one: one[0])
        if visits is not None:
            found = [one for one in found if one[0] < VIOLATED]
        self.rounds += 1
        verified = []
        for _, worlds, i, policy, reward in found[:ADDED]:
            one = alternative(worlds, i, self.epsilon, policy, reward)
            if one is not None:
                verified.append(one)
        return verified

    def _identify(self, at: FloatHSA) -> list[tuple[Worlds, None, None]]:
        """V* moved by more than epsilon: up for some policy, or down for all."""
        policy, value = self.optimal
        more = self.epsilon * (1 + MARGIN)
        some = self.cells[self.rounds % max(1, len(self.cells) // self.batch) :]
        some = some[:: max(1, len(self.cells) // self.batch)]
        guesses = optimistic_policies(self.family, at, MULTIPLIERS)
        policies = distinct(np.concatenate([policy, guesses, self._visitors(some)]))
        result: list[tuple[Worlds, None, None]] = []
        for _ in range(2):  # again for the policies that are best in the worlds found
            worlds, is_found = raise_values(
                self.family, at, policies, None, np.full(len(policies), value + more)
            )
            worlds = worlds.take(is_found)
            if not len(worlds):
                break
            result.append((worlds, None, None))
            policies = distinct(worlds.best(worlds.reward())[0])
        result.append((lower_values(self.family, at, value - more), None, None))
        return result

    def _explore(self, at: FloatHSA) -> list[tuple[Worlds, FloatArray, FloatArray]]:
        """The value of some policy and reward moved by more than epsilon."""
        H, S, A = self.family.transitions.shape.hsa
        number = max(1, min(DRAWS, self.batch // 2))
        allowed = self.family.transitions.allowed_actions
        anything = self.rng.random((number, H, S, A)) * allowed
        drawn = drawn_worlds(self.family, at, number, self.rng)
        policy, reward = largest_differences(drawn, deterministic(anything))
        # A value falls if it rises for the reward with the opposite sign.
        policy, reward = np.concatenate([policy, policy]), np.concatenate([reward, -reward])
        sign = np.repeat([1.0, -1.0], number)
        result: list[tuple[Worlds, FloatArray, FloatArray]] = []
        for _ in range(IMPROVEMENTS):
            free = ~self.family.reachable[..., None]
            reward = np.where(free, np.maximum(sign, 0.0)[:, None, None, None], reward)
            given = self.given.take(np.zeros(len(policy), dtype=np.int64))
            values = given.start_values(given.values(policy, reward))
            wanted = values + self.epsilon * (1 + MARGIN)
            worlds, is_found = raise_values(self.family, at, policy, reward, wanted)
            worlds, policy, reward = worlds.take(is_found), policy[is_found], reward[is_found]
            if not len(worlds):
                break
            result.append((worlds, policy, reward))
            policy, reward = largest_differences(worlds, policy)
            sign = np.ones(len(policy))
        return result

    def _visitors(self, cells: IntArray) -> FloatArray:
        """Policies that visit one cell each as surely as possible and are optimal otherwise."""
        reward = np.repeat(self.given.reward(), len(cells), axis=0)
        bonus = 100.0 * self.family.transitions.shape.horizon
        h, s, a = cells.T
        reward[np.arange(len(cells)), h, s, a] += bonus
        return Worlds.copies(self.family, len(cells)).best(reward)[0]


def _even_policy(transitions: Transitions) -> Policy:
    allowed = transitions.allowed_actions.astype(np.float64)
    even = allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1)
    return Policy.stochastic(np.broadcast_to(even, transitions.shape.hsa))


def alternative(
    worlds: Worlds,
    member: int,
    epsilon: float,
    policy: FloatArray | None = None,
    reward: FloatArray | None = None,
) -> Alternative | None:
    """A member of a batch as a world, if it is of the class and its value differs by > epsilon.

    The value is V*, or that of ``policy`` (H, S, A) for ``reward`` (H, S, A).
    """
    family = worlds.family
    transitions = _transitions(worlds, member)
    rewards = np.array(np.broadcast_to(worlds.paid[member], family.transitions.shape.hsa))
    if not (is_member(family, transitions, rewards)):
        return None
    if policy is None or reward is None:
        values = [
            dp.initial_value(one, dp.backward_induction(one, pays).values)
            for one, pays in ((family.transitions, family.rewards), (transitions, rewards))
        ]
    else:
        values = [
            dp.initial_value(one, dp.evaluate(one, Policy.stochastic(policy), reward))
            for one in (family.transitions, transitions)
        ]
    difference = abs(values[1] - values[0])
    told = information(family, transitions, rewards)
    if not (difference > epsilon and np.isfinite(told).all() and told.any()):
        return None
    return Alternative(transitions, rewards, told, difference, policy, reward)


def _transitions(worlds: Worlds, member: int) -> Transitions:
    """The transitions of a member; the last stage, of which nothing is seen, is that of the given.

    Rows that are not for any policy (forbidden actions) stay empty.
    """
    given = worlds.family.transitions
    shape = given.shape
    successors = worlds.family.rows[0]
    further = worlds.further[member][..., None]
    every = np.concatenate([successors, further], axis=3)
    chance = worlds.chance[member] * given.allowed_actions[None, :, :, None]
    row = np.broadcast_to(
        np.arange(every[..., 0].size).reshape(every.shape[:3])[..., None], every.shape
    )
    row, next_state, probability = row.ravel(), every.ravel(), chance.ravel()
    if not worlds.family.stationary:
        last = given.stages[-1]
        pairs = np.repeat(np.arange(shape.pairs), np.diff(last.start))
        row = np.concatenate([row, (shape.horizon - 1) * shape.pairs + pairs])
        next_state = np.concatenate([next_state, last.next_state])
        probability = np.concatenate([probability, last.probability])
    return Transitions.from_entries(
        shape,
        given.initial,
        row,
        np.where(next_state == shape.states, END, next_state),
        probability,
        stationary=worlds.family.stationary,
    )


def is_member(family: WorldClass, transitions: Transitions, rewards: FloatHSA) -> bool:
    """Whether a world belongs to a class."""
    given = family.transitions
    has_frame = (
        transitions.shape == given.shape
        and np.array_equal(transitions.initial, given.initial)
        and (transitions.stationary or not family.stationary)
    )
    has_rewards = bool((rewards >= 0).all() and (rewards <= 1).all())
    if family.same_rewards:
        has_rewards &= bool((rewards == rewards[:1]).all())
    if not family.new_outcomes:
        certain = (family.rewards == 0) | (family.rewards == 1)
        has_rewards &= bool((rewards[certain] == family.rewards[certain]).all())
    if not family.changes_rewards:
        has_rewards = np.array_equal(rewards, family.rewards)
    stages = range(given.shape.horizon - 1)
    return bool(has_frame and has_rewards and all(_fits(family, transitions, h) for h in stages))


def _fits(family: WorldClass, transitions: Transitions, h: int) -> bool:
    """Whether the rows of a stage are distributions over what may follow."""
    kernel = transitions.stages[h]
    is_filled = np.diff(kernel.start) > 0
    sums = sum_by_segment(kernel.probability, kernel.start)
    may_follow = family.can_end or not bool((kernel.next_state == END).any())
    if not family.new_outcomes:
        may_follow = bool(np.isin(_keys(transitions, h), _keys(family.transitions, h)).all())
    return bool(
        np.array_equal(is_filled, family.transitions.allowed_actions.ravel())
        and (np.abs(sums[is_filled] - 1) <= ROUNDING).all()
        and (kernel.probability > 0).all()
        and may_follow
    )


def _keys(transitions: Transitions, h: int) -> IntArray:
    """A number for every (row, successor) of a stage."""
    kernel = transitions.stages[h]
    row = np.repeat(np.arange(transitions.shape.pairs), np.diff(kernel.start))
    keys: IntArray = row * (transitions.shape.states + 1) + kernel.next_state + 1
    return keys


def information(family: WorldClass, transitions: Transitions, rewards: FloatHSA) -> FloatHSA:
    """KL from the given world per visit of each cell; 0 where no policy gets.

    Where stages are pooled, a visit at the last stage counts like the others: its successor may be
    seen as well.
    """
    given = family.transitions
    shape = given.shape
    result = np.zeros(shape.hsa)
    for h in range(shape.horizon if family.stationary else shape.horizon - 1):
        kernel = given.stages[h]
        old, new = _keys(given, h), _keys(transitions, h)
        order = np.argsort(new)
        place = np.minimum(np.searchsorted(new[order], old), len(new) - 1)
        there = new[order][place] == old
        chance = np.where(there, transitions.stages[h].probability[order][place], 0.0)
        with np.errstate(divide="ignore"):
            terms = kernel.probability * np.log(kernel.probability / chance)
        row = np.repeat(np.arange(shape.pairs), np.diff(kernel.start))
        result[h] = np.bincount(row, terms, minlength=shape.pairs).reshape(shape.states, -1)
    if family.changes_rewards:
        for p, q in ((family.rewards, rewards), (1 - family.rewards, 1 - rewards)):
            with np.errstate(divide="ignore", invalid="ignore"):
                result += np.where(p > 0, p * np.log(p / q), 0.0)
    return np.where(dp.reachable(given)[..., None], np.maximum(result, 0.0), 0.0)


# --------------------------------------------------------------------------------- program


class _Program:
    """min episodes subject to: the visits tell at least 1 of every alternative.

    Visits are a flow. The multipliers of the alternatives are what the certificate rests on.
    """

    def __init__(self, transitions: Transitions) -> None:
        self.polytope = flow_polytope(transitions)
        self.multipliers = np.zeros(0)
        self.attained = 0.0
        self.visits: FloatHSA | None = None

    def solve(self, told: FloatArray) -> None:
        """For information (n, H, S, A) of n alternatives."""
        cells, flow = self.polytope.cells, self.polytope.matrix
        per_visit = told.reshape(len(told), -1)[:, cells]
        row, column = np.nonzero(per_visit)
        matrix = SparseColumns.from_entries(
            flow.rows + len(told),
            1 + len(cells),
            np.concatenate([flow.index, flow.rows + row]),
            np.concatenate([flow.column, 1 + column]),
            np.concatenate([flow.value, per_visit[row, column]]),
        )
        conserved = np.zeros(flow.rows)
        answer = solve(
            LinearProgram(
                cost=np.concatenate([[1.0], np.zeros(len(cells))]),
                lower=np.zeros(1 + len(cells)),
                matrix=matrix,
                row_lower=np.concatenate([conserved, np.ones(len(told))]),
                row_upper=np.concatenate([conserved, np.full(len(told), np.inf)]),
            ),
            Method.VERTEX,
        )
        self.attained = answer.value
        self.multipliers = np.maximum(answer.row_multipliers[flow.rows :], 0.0)
        visits = np.zeros(self.polytope.shape.cells)
        visits[cells] = np.maximum(answer.x[1:], 0.0)
        self.visits = visits.reshape(self.polytope.shape.hsa)
