"""How often near-optimal policies can visit each cell, by one-dimensional duals.

f(g) = max{rho_h(s,a) : rho an occupancy, V^rho >= V* - g} is concave in g, and its graph is the
upper hull of the points (loss, chance) of policies: what a policy loses against V*, and how likely
it is at the cell. A bonus b for the cell finds the policy whose point lies furthest in direction
(-1, b), by backward induction. So the hull is followed from both sides until g lies between two
neighbours. Every bonus proves f(g) <= (g + gain)/b, so that the answer is an upper bound after any
number of steps, and exact when the two sides have met.

A policy that goes for (h,s,a) loses the gap V* - Q*(s,a) wherever it gets there; therefore all
actions of a state share the same recursions, with the bonus less their gap at (h,s).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.mdp import dp
from covgame.mdp.transitions import StageKernel, Transitions
from covgame.types import FloatArray, FloatHS, FloatHSA, IntArray

MOST_STEPS = 60
CLOSE = 1e-9
ROUNDING = 1e-14
"""Value gaps below this times H are rounding errors of optimal actions."""

BLOCK_ENTRIES = 4_000_000
"""Numbers that the recursions of one stage may hold; beyond that its cells come in blocks."""


@dataclass(frozen=True, eq=False)
class OptimalValues:
    """What is optimal on a kernel: the start of every question about near-optimal policies."""

    transitions: Transitions
    reward: FloatHSA
    values: FloatHS  # V*_h(s)
    gaps: FloatHSA  # V*_h(s) - Q*_h(s,a) >= 0

    @property
    def best(self) -> float:
        """V* of the first state."""
        return dp.initial_value(self.transitions, self.values)


def optimal_values(transitions: Transitions, reward: FloatHSA) -> OptimalValues:
    """V* and the value gaps of all cells."""
    shape = transitions.shape
    values = dp.backward_induction(transitions, reward).values
    q = np.array(reward, dtype=np.float64)
    for h, kernel in enumerate(transitions.stages[:-1]):
        q[h] += kernel.expect(values[h + 1]).reshape(shape.states, shape.actions)
    gaps = values[:, :, None] - q
    gaps[gaps < ROUNDING * shape.horizon] = 0.0
    gaps[:, ~transitions.allowed_actions] = np.inf
    return OptimalValues(transitions, reward, values, gaps)


def largest_occupancies(optimal: OptimalValues, slack: float) -> FloatHSA:
    """max{rho_h(s,a) : V^rho >= V* - slack} for every cell; 0 where no policy gets."""
    transitions = optimal.transitions
    shape = transitions.shape
    result = np.zeros(shape.hsa)
    reach = dp.reachability(transitions)
    for h in range(shape.horizon):
        reachable = np.repeat(reach[h] > 0, shape.actions)
        cells = np.flatnonzero(reachable & np.isfinite(optimal.gaps[h].ravel()))
        for part in np.array_split(cells, _parts(transitions, len(cells))):
            if len(part):
                most = reach[h, part // shape.actions]
                result[h].ravel()[part] = _Hulls(optimal, h, part, slack).follow(most)
    return result


def _parts(transitions: Transitions, columns: int) -> int:
    entries = max(len(kernel.next_state) for kernel in transitions.stages)
    return max(1, -(-columns * max(entries, transitions.shape.pairs) // BLOCK_ENTRIES))


class _Hulls:
    """The hulls of some cells (flat numbers of pairs) of one stage, followed side by side."""

    def __init__(self, optimal: OptimalValues, h: int, pairs: IntArray, slack: float) -> None:
        self.optimal, self.h, self.slack = optimal, h, slack
        self.states = pairs // optimal.transitions.shape.actions
        self.gaps = optimal.gaps[h].ravel()[pairs]

    def follow(self, reach: FloatArray) -> FloatArray:
        """The hull at the slack: between (0, 0), who stays away, and the surest visitor."""
        loss = np.zeros((2, len(reach)))  # left and right of the slack
        chance = np.zeros((2, len(reach)))
        loss[1], chance[1] = self._surest(reach)
        upper = reach.copy()
        todo = np.flatnonzero(loss[1] > self.slack)
        for _ in range(MOST_STEPS):
            if not len(todo):
                break
            rise = chance[1, todo] - chance[0, todo]
            bonus = (loss[1, todo] - loss[0, todo]) / np.where(rise > 0, rise, 1.0)
            found, gain = self._visitor(bonus, todo)
            upper[todo] = np.minimum(upper[todo], (self.slack + gain) / bonus)
            side = (found[0] > self.slack).astype(np.int64)
            loss[side, todo], chance[side, todo] = found
            lower = self._between(loss[:, todo], chance[:, todo])
            todo = todo[(upper[todo] - lower > CLOSE * upper[todo]) & (rise > 0)]
        return upper

    def _between(self, loss: FloatArray, chance: FloatArray) -> FloatArray:
        """The chance of the mixture of the two sides that loses just the slack."""
        width = np.maximum(loss[1] - loss[0], 1e-300)
        share: FloatArray = np.clip((self.slack - loss[0]) / width, 0.0, 1.0)
        mixed: FloatArray = chance[0] + share * (chance[1] - chance[0])
        return mixed

    def _surest(self, reach: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(loss, chance) of a policy that is there as likely as any, and loses little by it."""
        H = self.optimal.transitions.shape.horizon
        bonus = 1e6 * H / np.maximum(reach, 1e-12)
        found, _ = self._visitor(bonus, np.arange(len(reach)))
        return found

    def _visitor(
        self, bonus: FloatArray, which: IntArray
    ) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
        """((loss, chance), gain) of the best policy when the cell earns a bonus."""
        optimal, columns = self.optimal, np.arange(len(which))
        states = self.states[which]
        goes = bonus > self.gaps[which]
        loss = np.zeros((optimal.transitions.shape.states, len(which)))
        chance = np.zeros_like(loss)
        loss[states, columns] = np.where(goes, self.gaps[which], 0.0)
        chance[states, columns] = goes
        for h in range(self.h - 1, -1, -1):
            kernel = optimal.transitions.stages[h]
            loss, chance = _step_back(kernel, optimal.gaps[h], bonus, loss, chance)
        lost, likely = optimal.transitions.initial @ loss, optimal.transitions.initial @ chance
        return (lost, likely), likely * bonus - lost


def _step_back(
    kernel: StageKernel, gaps: FloatArray, bonus: FloatArray, loss: FloatArray, chance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """One stage earlier: what the best action loses against V*, and its chance of being there.

    Losses are added up on the way; as a difference of large values they would be rounding errors.
    """
    states, actions = gaps.shape
    losses = gaps[:, :, None] + kernel.expect(loss).reshape(states, actions, -1)
    chances = kernel.expect(chance).reshape(states, actions, -1)
    chosen = (bonus * chances - losses).argmax(axis=1)[:, None]
    return (
        np.take_along_axis(losses, chosen, axis=1)[:, 0],
        np.take_along_axis(chances, chosen, axis=1)[:, 0],
    )
