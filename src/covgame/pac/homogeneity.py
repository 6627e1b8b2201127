"""Are stages alike? What counts that pool them rely on, tested on the way (docs/certified.md).

The hypothesis of a pair: its successors are draws from one distribution, at whatever stage. The
wealth of a bet against it is E = prod_h Q(N_h) / prod_j (N_j/n)^{N_j}: the probability of what was
seen under a Dirichlet(1/K) mixture of each stage's own, over the largest likelihood of one
distribution for all of them. With the true one in the denominator it would be a martingale with
mean 1, and the largest is no smaller: E ever reaches 1/a with probability at most a (Ville),
whatever was played. For rewards the same with Beta mixtures, as in Lemma 2. Everything is a
function of counts kept per stage.

An environment that cuts episodes short before the last stage needs no test: how much time is left
is no part of a state, so the stage decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Literal

import numpy as np

from covgame.game.counts import Counts
from covgame.game.successors import SuccessorTable
from covgame.pac.error_bounds import Range
from covgame.types import FloatArray, IntArray

SHARE = 0.1
"""Of delta: the level of the test, and what is left for counts that it has taken apart."""

Stages = Literal["known", "tested", "parted"]
"""Known to be alike (or counted apart from the beginning), supposed and tested, taken apart."""

TRUNCATED = "episodes are cut short before the last stage"
MOVES_DIFFER = "what follows a state and an action depends on the stage"
REWARDS_DIFFER = "what a state and an action pay depends on the stage"


def share_of(delta: float, stages: Stages) -> float:
    """What the confidence sets get of delta.

    If stages are alike, a pooled claim is wrong with probability (1 - SHARE) delta at most and
    one that follows, with stages apart, with SHARE delta; together delta. If they are not, only the
    latter is claimed to be right.
    """
    return {"known": delta, "tested": (1 - SHARE) * delta, "parted": SHARE * delta}[stages]


@dataclass(frozen=True)
class Parting:
    """When stages were taken apart, and why."""

    episodes: int
    why: str


def difference(apart: Counts, symbols: int, delta: float, rewards: Range | None) -> str | None:
    """What is proved to depend on the stage, None if nothing is.

    The level SHARE delta is divided among pairs, and between moves and rewards if both are pooled.
    """
    statements = apart.shape.pairs * (1 if rewards is None else 2)
    enough = log(statements / (SHARE * delta))
    if float(_moves(apart, symbols).max(initial=-inf)) >= enough:
        return MOVES_DIFFER
    if rewards is not None and float(_rewards(apart, rewards).max(initial=-inf)) >= enough:
        return REWARDS_DIFFER
    return None


def _moves(apart: Counts, symbols: int) -> FloatArray:
    """log E of every pair, for its successors."""
    from covgame.kernels import confidence as kernel

    table, pairs = apart.table, apart.shape.pairs
    regret = np.empty(len(table))
    kernel.transition_thresholds(table.rows, table.entries, symbols, 0.0, regret)
    own = np.where(table.total > 0, _likelihoods(table) - regret, 0.0)
    row, successor, count = table.listed(0, len(table))
    width = apart.shape.states + 1
    found, place = np.unique(row % pairs * width + successor + 1, return_inverse=True)
    times = np.bincount(place, count, minlength=len(found))
    pair = found // width
    total = np.bincount(pair, times, minlength=pairs)
    together = np.bincount(pair, times * np.log(times / total[pair]), minlength=pairs)
    wealth: FloatArray = own.reshape(-1, pairs).sum(axis=0) - together
    return wealth


def _likelihoods(table: SuccessorTable) -> FloatArray:
    """sum N log(N/n) of every row."""
    row, _, count = table.listed(0, len(table))
    parts = count * np.log(count / table.total[row])
    likely: FloatArray = np.bincount(row, parts, minlength=len(table)).astype(np.float64)
    return likely


def _rewards(apart: Counts, earned: Range) -> FloatArray:
    """log E of every pair, for what it pays."""
    from covgame.kernels import confidence as kernel

    pairs, visits = apart.shape.pairs, apart.visits.reshape(-1)
    shares = (apart.reward_sums.reshape(-1) - earned.low * visits) / (earned.high - earned.low)
    shares = np.clip(shares, 0.0, visits)
    regret = np.empty(len(visits))
    kernel.mean_thresholds(visits, shares, 0.0, regret)
    own = np.where(visits > 0, _entropies(visits, shares) - regret, 0.0)
    visits, shares = (array.reshape(-1, pairs).sum(axis=0) for array in (visits, shares))
    wealth: FloatArray = own.reshape(-1, pairs).sum(axis=0) - _entropies(visits, shares)
    return wealth


def _entropies(visits: IntArray, shares: FloatArray) -> FloatArray:
    """n (r log r + (1-r) log(1-r)), r the mean."""
    total = np.maximum(visits, 1)
    yes, no = shares / total, np.maximum(visits - shares, 0.0) / total
    yes_part = yes * np.log(np.where(yes > 0, yes, 1.0))
    no_part = no * np.log(np.where(no > 0, no, 1.0))
    found: FloatArray = visits * (yes_part + no_part)
    return found
