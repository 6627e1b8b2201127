"""Confidence sets by mixtures: valid at all times, for the alphabet as it is (docs/certified.md).

For the successors of a row: n KL(p_hat, p) <= log(1/delta) + sum N log p_hat - log Q(N) for all n
at once with probability 1 - delta, Q(N) the probability of what was seen under a Dirichlet mixture
(Ville's inequality). For means in [0,1] the same with a Beta mixture. For the mean of one *fixed*
function of the successor, V*, a threshold that does not know the alphabet suffices.

How many rows there are is a property of the counts: pairs where stages are pooled, cells otherwise.
Functions V*_{h+1} are as many as cells in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, lgamma, log, pi

import numpy as np

from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.types import ANY, BoolArray, FloatArray, FloatHS, FloatHSA, FloatS, IntArray

UNBOUNDED = 2**62


@dataclass(frozen=True)
class Structure:
    """What is known of a world beforehand."""

    can_end: bool = True  # whether an episode may end before the last stage
    most_successors: int | None = None  # of a row, the end among them
    known_start: FloatS | None = None  # the distribution of the first state, if it is known
    allowed: BoolArray | None = None  # (S, A), where some actions are forbidden
    same_rewards: bool = True  # whether every stage pays the same, where stages are pooled

    @property
    def limit(self) -> int:
        return UNBOUNDED if self.most_successors is None else self.most_successors


@dataclass(frozen=True, eq=False)
class ConfidenceSets:
    """All that counts say of a world, each kind of statement with its own share of the risk."""

    counts: Counts
    structure: Structure
    delta: float  # of each kind of statement below

    @property
    def symbols(self) -> int:
        """How many successors there can be."""
        return self.counts.shape.states + (1 if self.structure.can_end else 0)

    @cached_property
    def n_rows(self) -> int:
        """Rows that lead somewhere: pairs, or cells before the last stage; and the start."""
        H, S, A = self.counts.shape.hsa
        rows = S * A if self.counts.pooled else S * A * (H - 1)
        return max(1, rows + (1 if self.structure.known_start is None else 0))

    @property
    def _level(self) -> float:
        return log(self.n_rows / self.delta)

    @property
    def level_of_functions(self) -> float:
        """A row has one r + V*_{h+1} for every stage at which it may be used, pooled or not."""
        H, S, A = self.counts.shape.hsa
        functions = S * A * H + (1 if self.structure.known_start is None else 0)
        return log(functions / self.delta)

    @cached_property
    def allowed(self) -> BoolArray:
        _, S, A = self.counts.shape.hsa
        known = self.structure.allowed
        return np.ones((S, A), dtype=np.bool_) if known is None else known

    # --------------------------------------------------------------- successors of rows

    @cached_property
    def transitions(self) -> FloatArray:
        """n KL(p_hat, p) stays below this, for every row; infinite where nothing was seen."""
        from covgame.kernels import confidence as kernel

        table = self.counts.table
        out = np.empty(len(table))
        kernel.transition_thresholds(table.rows, table.entries, self.symbols, self._level, out)
        return out

    @cached_property
    def fixed_function(self) -> FloatArray:
        """beta_s(n) = log(1/delta') + log(sqrt(pi) Gamma(n+1)/Gamma(n+1/2)) of every row.

        For functions that were there before the data: V* of the stage after each cell.
        """
        return _fixed_function(self.counts.table.total, self.level_of_functions)

    # -------------------------------------------------------------------- first states

    def highest_start(self, values: FloatS, *, fixed: bool) -> float:
        """The largest mean of ``values`` over the first state that the data allow."""
        if self.structure.known_start is not None:
            return float(self.structure.known_start @ values)
        from covgame.kernels import confidence as kernel

        starts, n = self.counts.starts, self.counts.n_episodes
        seen = np.flatnonzero(starts)
        unseen = values[starts == 0]
        beyond = float(unseen.max()) if len(unseen) else -inf
        if n == 0:
            return float(values.max())
        threshold = self._start_threshold(fixed=fixed)
        chances = starts[seen] / n
        return float(kernel.best_of_ball(chances, values[seen], len(seen), threshold / n, beyond))

    def lowest_start(self, values: FloatS) -> float:
        """The smallest mean of ``values`` over the first state that the data allow."""
        return -self.highest_start(-values, fixed=False)

    def first_states(self, *, fixed: bool) -> tuple[FloatS, float]:
        """(chances, radius): the first state is distributed like this, up to a KL of so much."""
        if self.structure.known_start is not None:
            return self.structure.known_start, 0.0
        n = self.counts.n_episodes
        if n == 0:
            return np.zeros(self.counts.shape.states), inf
        return self.counts.starts / n, self._start_threshold(fixed=fixed) / n

    def _start_threshold(self, *, fixed: bool) -> float:
        n = self.counts.n_episodes
        if fixed:
            return float(_fixed_function(np.array([n]), self.level_of_functions)[0])
        alpha = 1.0 / self.counts.shape.states
        value = self._level + lgamma(n + 1.0)
        for count in self.counts.starts[self.counts.starts > 0].tolist():
            value += count * log(count / n) - lgamma(count + alpha) + lgamma(alpha)
        return value

    # ------------------------------------------------------------------------- rewards

    @property
    def rewarded(self) -> tuple[IntArray, FloatArray]:
        """Visits and sums of rewards: (1, S, A) where stages share their rewards, or (H, S, A)."""
        counts = self.counts
        if counts.pooled and self.structure.same_rewards:
            sums: FloatArray = counts.reward_sums.sum(axis=0, keepdims=True)
            return counts.visits.sum(axis=0, keepdims=True), sums
        return counts.visits, counts.reward_sums

    def reward_bounds(self, low: float, high: float) -> tuple[FloatHSA, FloatHSA]:
        """Bounds on the mean reward of every cell, for rewards between ``low`` and ``high``."""
        from covgame.kernels import confidence as kernel

        H, S, A = self.counts.shape.hsa
        visits, sums = self.rewarded
        n: IntArray = visits.ravel()
        shifted = (sums.ravel() - low * n) / (high - low)
        level = log(len(n) / self.delta)
        thresholds, least, most = np.empty((3, len(n)))
        kernel.mean_thresholds(n, shifted, level, thresholds)
        kernel.mean_bounds(n, shifted, thresholds, least, most)
        shape = (-1, S, A)
        spread = [
            np.ascontiguousarray(np.broadcast_to(bound.reshape(shape), (H, S, A)))
            for bound in (least, most)
        ]
        return low + (high - low) * spread[0], low + (high - low) * spread[1]

    # -------------------------------------------------------------------- reachability

    def reachability(self) -> tuple[FloatHS, FloatHS]:
        """(lower, upper) bounds on max_pi p_h^pi(s) for all (h, s), from the same data."""
        H, S, _ = self.counts.shape.hsa
        low, high = np.empty((2, H, S))
        for h in range(H):
            for s in range(S):
                low[h, s] = max(0.0, self.lowest_start(self._chances(h, s, -1.0)))
                high[h, s] = min(1.0, self.highest_start(self._chances(h, s, 1.0), fixed=False))
        return low, high

    def reach_of_rows(self, rows: IntArray) -> FloatArray:
        """Upper bounds on the chance of visiting rows of a target; any stage means their sum."""
        bounds = np.empty(len(rows))
        for i, (stage, state, _) in enumerate(rows.tolist()):
            stages = range(self.counts.shape.horizon) if stage == ANY else [stage]
            chances = (
                self.highest_start(self._chances(h, state, 1.0), fixed=False) for h in stages
            )
            bounds[i] = min(1.0, sum(chances))
        return bounds

    def _chances(self, h: int, s: int, sign: float) -> FloatS:
        """A bound on the chance of reaching (h, s) from every first state."""
        from covgame.kernels import confidence as kernel

        table, structure = self.counts.table, self.structure
        values = np.zeros(self.counts.shape.states + 1)
        values[s] = 1.0
        kernel.reach_from(
            table.rows,
            table.entries,
            self.counts.pooled,
            self.transitions,
            structure.can_end,
            structure.limit,
            self.allowed,
            h,
            sign,
            values,
        )
        return values[:-1]


def rarely_reached(game: Game, *, delta: float, min_reach: float) -> list[tuple[int, float]]:
    """Open rows that no policy reaches with probability ``min_reach``, and the bounds that say so.

    All bounds hold together with probability 1 - delta, however often one looks.
    """
    sets = ConfidenceSets(game.counts, Structure(allowed=game.allowed), delta)
    open_rows = np.flatnonzero(game.collected < game.target.counts)
    bounds = sets.reach_of_rows(game.target.rows[open_rows])
    rare = bounds < min_reach
    return list(zip(open_rows[rare].tolist(), bounds[rare].tolist(), strict=True))


def _fixed_function(visits: IntArray, level: float) -> FloatArray:
    out = np.full(len(visits), inf)
    for i, n in enumerate(visits.tolist()):
        if n > 0:
            out[i] = level + 0.5 * log(pi) + lgamma(n + 1.0) - lgamma(n + 0.5)
    return out
