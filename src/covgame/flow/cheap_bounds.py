"""phi* from both sides without a program: some rounds of a game on the kernel.

With prices y >= 0 that spend 1 on the target, <c, y> = 1, and q_g = c_g y_g,

    1/phi*(c)  =  min over q  max over policies  sum_g q_g p^pi(g) / c_g,

the value of a zero-sum game: an adversary spreads q over the rows, a policy collects. Both learn
from round to round, the adversary by exponential weights, the policy at every (h, s) by
regret matching+ on its Q values. A round is a backward and a forward pass, and late rounds
weigh more in the averages. What these averages prove is not taken from any theorem about learning:
prices are checked by backward induction and policies by a forward pass (``min_flow.certify``), as
a solver's proposals are.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import numpy as np

from covgame import signals
from covgame.flow.min_flow import GOOD_GAP, MinFlow, certify, flow_policy, nothing_to_do
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.targets.resolve import check_reachable
from covgame.targets.target import Target
from covgame.types import FloatArray, FloatHSA, IntArray, Policy

ROUNDS = 192
"""The bound is then within 1 to 4% of phi* (docs/cost.md), and more rounds gain little."""

RATE = 0.5
"""Of the adversary, in units of sqrt(log(rows) / variance of the losses so far)."""

LARGEST_LOSS = 3.0
"""A row that is met so many times as often as rows on average is not met any worse."""

ROUNDING = 2.0**-52
"""A sum or a product of nonnegative numbers is too large or too small by less than this."""


def cheap_bounds(
    transitions: Transitions,
    target: Target,
    rounds: int = ROUNDS,
    visits: FloatHSA | IntArray | None = None,
    seconds: float = math.inf,
) -> MinFlow:
    """Certified bounds on phi*, the better the more ``rounds``.

    ``visits``, of episodes that were played, give the policy to begin with. Bounds are looked at
    after 0, 1, 2, 3, 4, 6, 8, 12, 16, ... rounds, and the best on either side is kept: more rounds
    never give worse ones. They end early when the two sides agree, or after so many ``seconds``
    (where somebody waits, and asked for that: the bounds are then another day's other bounds).

    Raises ``UnreachableTarget`` if a required cell cannot be reached by any policy.
    """
    check_reachable(target, transitions)
    if len(target) == 0:
        return nothing_to_do(transitions, target)
    # Numbers past double precision spoil a proposal, which the certificate then shows.
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        return _played(_Play.begun(transitions, target, visits), rounds, time.monotonic() + seconds)


def _played(play: _Play, rounds: int, ends: float) -> MinFlow:
    """The best that the averages prove at any of the looks at them."""
    best = play.first_look()
    for round_ in range(1, last_look(rounds) + 1):
        signals.check()
        play.round(round_)
        late = time.monotonic() > ends
        if last_look(round_) == round_ or late:
            best = best.combined(play.look())
        if best.dual_gap <= GOOD_GAP or late:
            break
    return best


def last_look(rounds: int) -> int:
    """The last of 1, 2, 3, 4, 6, 8, 12, ... that is at most ``rounds``; 0 if there is none."""
    if rounds < 1:
        return 0
    power = 1 << (rounds.bit_length() - 1)
    return power + power // 2 if rounds >= power + power // 2 else power


@dataclass(eq=False)
class _Play:
    """Both players, with what they remember."""

    transitions: Transitions
    target: Target
    policy: FloatHSA  # the player's, changed in place
    first: FloatHSA  # the occupancy of its first policy
    spread: FloatArray  # (G,), q: how the adversary divides 1 among the rows
    value: float  # what the last policy collected for the last q
    regret: FloatHSA = field(init=False)
    losses: FloatArray = field(init=False)  # (G,), of all rounds
    variance: float = 0.0  # of the losses, all rounds together
    flow: FloatHSA = field(init=False)  # occupancies, averaged
    average: FloatArray = field(init=False)  # (G,), q averaged

    def __post_init__(self) -> None:
        self.regret, self.flow = np.zeros_like(self.policy), np.zeros_like(self.policy)
        self.losses, self.average = np.zeros_like(self.spread), np.zeros_like(self.spread)

    @classmethod
    def begun(
        cls, transitions: Transitions, target: Target, visits: FloatHSA | IntArray | None
    ) -> _Play:
        """Before the first round: even weights, and the policy that was played if there was one."""
        policy = np.broadcast_to(_even(transitions), transitions.shape.hsa).copy()
        if visits is not None:
            played = visits.astype(np.float64)
            been = played.sum(axis=2, keepdims=True) > 0
            policy = np.where(been, flow_policy(played).probabilities(), policy)
        first = dp.occupancy(transitions, Policy.stochastic(policy))
        spread = np.full(len(target), 1.0 / len(target))
        value = _mean(spread, target.collected(first) / target.counts)
        return cls(transitions, target, policy, first, spread, value)

    def round(self, number: int) -> None:
        """The policy answers the prices, the adversary the policy; the ``number``-th counts n^3."""
        self._answer_prices()
        occupancy = dp.occupancy(self.transitions, Policy.stochastic(self.policy))
        self._answer_policy(self.target.collected(occupancy) / self.target.counts)
        share = 4.0 * number / (number + 1) ** 2  # n^3 / (1 + 8 + ... + n^3)
        self.flow *= 1 - share
        occupancy *= share
        self.flow += occupancy
        self.average += share * (self.spread - self.average)

    def _answer_prices(self) -> None:
        """One backward pass: the policy's own values, and at every (h, s) regret matching+."""
        shape = self.transitions.shape
        rewards = self.target.cell_rewards(self.spread / self.target.counts)
        unit = 1.0 / self.value if self.value > 0 else 1.0
        values = np.zeros(shape.states)
        for h in reversed(range(shape.horizon)):
            q = rewards[h]
            if h + 1 < shape.horizon:
                kernel = self.transitions.stages[h]
                q = q + kernel.expect(values).reshape(shape.states, shape.actions)
            policy, regret = self.policy[h], self.regret[h]
            values = np.einsum("sa,sa->s", policy, q)
            regret += unit * (q - values[:, None])
            np.maximum(regret, 0.0, out=regret)
            total = regret.sum(axis=1, keepdims=True)
            np.divide(regret, total, out=policy, where=total > 0)

    def _answer_policy(self, gains: FloatArray) -> None:
        """Exponential weights on what rows have gained, the last round counted twice."""
        self.value = _mean(self.spread, gains)
        if not self.value > 0:
            return
        loss = np.minimum(gains / self.value, LARGEST_LOSS)
        self.variance += _mean(self.spread, (loss - _mean(self.spread, loss)) ** 2)
        self.losses += loss
        rate = RATE * math.sqrt(math.log(len(loss)) / self.variance) if self.variance > 0 else 1.0
        exponent = -rate * (self.losses + loss)
        weights = np.exp(exponent - exponent.max())
        self.spread = weights / weights.sum()

    def first_look(self) -> MinFlow:
        """What is proved without any play: even weights, and the stage that is asked most of."""
        best = self._proved(self.first, self.spread)
        stage = self.target.rows[:, 0]
        if stage.max() < 0:  # every row is open to all stages
            return best
        asked = np.bincount(stage[stage >= 0], self.target.counts[stage >= 0])
        busiest = np.where(stage == asked.argmax(), self.target.counts, 0.0)
        return best.combined(self._proved(self.first, busiest))

    def look(self) -> MinFlow:
        """What the averages prove."""
        return self._proved(self.flow, self.average)

    def _proved(self, flow: FloatHSA, spread: FloatArray) -> MinFlow:
        prices = spread / self.target.counts
        found = certify(self.transitions, self.target, flow, prices, self.first)
        return replace(found, lower=_rounded_down(found.lower, self.transitions, len(prices)))


def _mean(spread: FloatArray, values: FloatArray) -> float:
    """The mean of values under q, in one thread: those of BLAS wait for each other."""
    return float((spread * values).sum())


def _even(transitions: Transitions) -> FloatArray:
    """(S, A), the same probability for every action that a state has."""
    allowed = transitions.allowed_actions.astype(np.float64)
    even: FloatArray = allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1.0)
    return even


def _rounded_down(lower: float, transitions: Transitions, rows: int) -> float:
    """A bound that rounding cannot have lifted above the truth.

    All numbers are nonnegative, so that errors do not grow: V* sums at most so many terms as a
    pair has successors at every stage, and <c, y> as many as there are rows.
    """
    successors = int(np.diff(transitions.start).max(initial=1))
    shape = transitions.shape
    terms = shape.horizon * (successors + 3) + shape.states + rows
    return lower * max(0.0, 1.0 - 2 * terms * ROUNDING)
