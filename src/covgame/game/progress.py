"""How far a game is, and an estimate of the episodes that are still needed.

Two estimates are available:

- *The pace of recent episodes*: the missing visits over the useful visits per episode. It needs no
  model. Every estimate is at least the missing visits over the steps of an episode.
- *phi\\* of the remainder* on the learnt model, or a lower bound on it. It knows which rows are
  expensive. It is valid only if every open row was tried: the learnt model does not know what
  follows an untried action, so it would charge an episode for each of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from covgame.errors import Row, SolverFailed
from covgame.flow.min_flow import dual_bound, min_flow
from covgame.game.game import Game
from covgame.targets.resolve import reachable_rows
from covgame.targets.target import Target
from covgame.types import BoolArray, FloatArray

LARGE = 3000
"""Above so many cells the remainder is bounded by backward induction, not solved."""

MOST_BOUNDED = 200_000
"""Above so many cells only the pace is used: a bound would take seconds."""

MIN_EPISODES = 3
"""With fewer episodes there is no estimate from the pace."""

RECENT = 0.25
"""The pace is that of this share of the episodes, the latest ones."""

SLOWING = 2.0
"""Useful visits per episode fall towards the end of a run. If they fall with the square root of
what is missing, it takes twice the episodes that the present pace suggests."""

GROWING = 0.5
"""A target is still growing if, per visit that was collected, so many more were asked for."""

MOST_POINTS = 400

SHARE_FOR_BOUNDS = 0.03
"""phi* of the remainder may take this share of the time."""


class Pace:
    """What the episodes of a run collected, and when phi* of the remainder is computed next."""

    def __init__(self, game: Game, clock: Callable[[], float] = time.monotonic) -> None:
        self.points = [_point(game)]  # (episodes, useful visits, visits asked for), in order
        self.clock = clock
        self.bound_due = -np.inf
        self.bound: tuple[int, FloatArray | None, float | None] | None = None

    def restart(self, game: Game) -> None:
        """Forget the episodes before: a resumed run does not know what each of them collected."""
        self.points = [_point(game)]

    def add(self, game: Game) -> None:
        """Take a note of where the game stands."""
        point = _point(game)
        if point[0] > self.points[-1][0]:
            self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self.points = self.points[:1] + self.points[2::2]

    def recent(self) -> tuple[float, float] | None:
        """(useful visits, further visits asked for) per episode, lately; None if it is too early.

        Of a run that was just resumed: on average so far.
        """
        last = self.points[-1]
        if last[0] < MIN_EPISODES:
            return None
        before = [point for point in self.points if point[0] <= (1 - RECENT) * last[0]]
        first = before[-1] if before else self.points[0]
        if last[0] - first[0] < MIN_EPISODES:
            first = self.points[0]
        if last[0] - first[0] < MIN_EPISODES:
            first = (0, 0.0, last[2])
        episodes = last[0] - first[0]
        return (last[1] - first[1]) / episodes, (last[2] - first[2]) / episodes


def _point(game: Game) -> tuple[int, float, float]:
    counts = game.required.counts
    useful = float(np.minimum(game.required_visits, counts).sum())
    return game.counts.n_episodes, useful, float(counts.sum())


@dataclass(frozen=True)
class Progress:
    """How far a game is."""

    n_episodes: int
    share_covered: float  # of the visits that are wanted
    rows_open: int
    rows: int
    episodes_left: float | None  # None if there is too little to go by
    rows_unvisited: int  # open rows without any visit
    hardest: list[tuple[Row, float]]  # open rows and their missing visits
    is_growing: bool = False  # the target still grows: what was found so far takes that many

    @property
    def share_done(self) -> float:
        """Share of the work: episodes so far, over these and those that are left.

        Without an estimate, the share of the visits. While some rows have no visit yet, the
        smaller of the two.
        """
        if self.episodes_left is None:
            return self.share_covered
        played = self.n_episodes + self.episodes_left
        work = self.n_episodes / played if played else self.share_covered
        return min(work, self.share_covered) if self.rows_unvisited else work


def progress_of(game: Game, most: int = 3, pace: Pace | None = None) -> Progress:
    """The state of a game, with an estimate of the episodes that are still needed.

    Args:
        game: The game.
        most: How many of the hardest rows to list.
        pace: What its episodes collected. Without it, phi* of the remainder is the only estimate.
    """
    target, collected = game.required, game.required_visits
    missing = np.maximum(target.counts - collected, 0.0)
    is_open = missing > 0
    wanted = float(target.counts.sum())
    left, prices = (0.0, None) if not is_open.any() else _bounded(game, missing, pace)
    left, is_growing = _at_pace(left, float(missing.sum()), pace)
    return Progress(
        game.counts.n_episodes,
        1.0 - float(missing.sum()) / wanted if wanted else 1.0,
        int(is_open.sum()),
        len(target),
        left,
        int((is_open & (collected == 0)).sum()),
        _hardest(target, missing, prices, most),
        is_growing,
    )


def _at_pace(bound: float | None, missing: float, pace: Pace | None) -> tuple[float | None, bool]:
    """(episodes left, whether the target still grows), from the pace and the bound if any."""
    recent = pace.recent() if pace is not None else None
    if recent is None or not missing:
        return bound, False
    useful, further = recent
    if useful <= 0:
        return bound, False
    at_pace = missing / useful
    # With a bound, every row was tried, and the bound accounts for the expensive ones.
    left = SLOWING * at_pace if bound is None else max(at_pace, bound)
    return left, further > GROWING * useful


def _hardest(
    target: Target, missing: FloatArray, prices: FloatArray | None, most: int
) -> list[tuple[Row, float]]:
    """The open rows that take longest, by their prices if these are known."""
    dear = missing if prices is None else prices * missing
    size = dear + 1e-9 * missing / np.maximum(target.counts, 1)
    if most < len(size):
        first = np.sort(np.argpartition(-size, most)[:most])
    else:
        first = np.arange(len(size))
    order = first[np.argsort(-size[first], kind="stable")]
    rows = [row for row in order.tolist() if missing[row] > 0]
    return list(zip(target.as_rows(rows), missing[rows].tolist(), strict=True))


def _bounded(
    game: Game, missing: FloatArray, pace: Pace | None
) -> tuple[float | None, FloatArray | None]:
    """(phi* of what is missing or a bound on it, price of every row), as far as they are known."""
    played = game.counts.n_episodes
    if played == 0 or game.target.shape.cells > MOST_BOUNDED:
        return None, None
    began = 0.0 if pace is None else pace.clock()
    if pace is not None and pace.bound is not None and began < pace.bound_due:
        then, prices, left = pace.bound
        fits = prices is not None and len(prices) == len(missing)
        return None if left is None else max(left - (played - then), 1.0), prices if fits else None
    left, prices = _remainder(game, missing)
    if pace is not None:
        now = pace.clock()
        pace.bound = played, prices, left
        pace.bound_due = now + (now - began) / SHARE_FOR_BOUNDS
    return left, prices


def _remainder(game: Game, missing: FloatArray) -> tuple[float | None, FloatArray | None]:
    """phi* of what is missing on the learnt model; nothing while an open row was not tried."""
    target, kernel = game.required, game.counts.kernel()
    is_open = missing > 0
    if (is_open & ~(reachable_rows(target, kernel) & _tried(game))).any():
        return None, None
    remainder = target.remainder(is_open, missing)
    if target.shape.cells > LARGE:
        return dual_bound(kernel, remainder, game.state.weights[game.asked][is_open]), None
    try:
        solved = min_flow(kernel, remainder)
    except SolverFailed:
        return None, None
    prices = np.zeros(len(target))
    prices[is_open] = solved.prices
    return solved.min_episodes, prices


def _tried(game: Game) -> BoolArray:
    """The rows of the target with a cell whose successors are known, or that has none."""
    target, counts = game.required, game.counts
    H, S, A = target.shape.hsa
    table = counts.pool or counts.table
    known = np.broadcast_to((table.total > 0).reshape(-1, S, A), (H, S, A)).copy()
    known[-1] = True
    if target.stage_free:
        known = np.asarray((known[:-1] if H > 1 else known).any(axis=0))
    places = target.places
    return np.bincount(places.row, known.reshape(-1)[places.cell], minlength=len(target)) > 0
