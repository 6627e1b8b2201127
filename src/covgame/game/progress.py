"""How far a game is, and what is left to do, judged by what was learnt so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.errors import Row, SolverFailed
from covgame.flow.min_flow import dual_bound, min_flow
from covgame.game.game import Game
from covgame.targets.reaching import reachable_rows
from covgame.targets.target import Target
from covgame.types import FloatArray

LARGE = 3000
"""Above so many cells the remainder is bounded by backward induction, not solved."""


@dataclass(frozen=True)
class Progress:
    """How far a game is."""

    n_episodes: int
    share_covered: float  # of the visits that are wanted
    rows_open: int
    rows: int
    episodes_left: float | None  # phi* of the remainder on the learnt model
    rows_unseen: int  # open rows that the learnt model does not reach yet
    hardest: list[tuple[Row, float]]  # open rows and their missing visits

    @property
    def share_done(self) -> float:
        """Of the work: episodes so far, over these and those that are left.

        Where that is not known, the share of the visits. Rows that were never reached cost nobody
        knows how much: as long as there are any, whichever is less.
        """
        if self.episodes_left is None:
            return self.share_covered
        played = self.n_episodes + self.episodes_left
        work = self.n_episodes / played if played else self.share_covered
        return min(work, self.share_covered) if self.rows_unseen else work


def progress_of(game: Game, most: int = 3) -> Progress:
    """The state of a game, with an estimate of the episodes that are still needed."""
    target = game.required
    missing = np.maximum(target.counts - game.collected[game.asked], 0.0)
    is_open = missing > 0
    wanted = float(target.counts.sum())
    left, unseen, prices = _remainder(game, target, missing)
    order = np.argsort(-(prices * missing + 1e-9 * missing / np.maximum(target.counts, 1)))
    hardest = [i for i in order[:most].tolist() if is_open[i]]
    return Progress(
        game.counts.n_episodes,
        1.0 - float(missing.sum()) / wanted if wanted else 1.0,
        int(is_open.sum()),
        len(target),
        left,
        unseen,
        list(zip(target.as_rows(hardest), missing[hardest].tolist(), strict=True)),
    )


def _remainder(
    game: Game, target: Target, missing: FloatArray
) -> tuple[float | None, int, FloatArray]:
    """(episodes for what is missing, open rows out of reach, price of every row)."""
    prices = np.where(missing > 0, 1.0, 0.0)
    if game.counts.n_episodes == 0:
        return None, int((missing > 0).sum()), prices
    kernel = game.counts.kernel()
    within = reachable_rows(target, kernel) & (missing > 0)
    unseen = int((missing > 0).sum() - within.sum())
    remainder = target.remainder(within, missing)
    if not len(remainder):
        return (None if unseen else 0.0), unseen, prices
    if target.shape.cells > LARGE:
        weights = game.state.weights[game.asked][within]
        return dual_bound(kernel, remainder, weights), unseen, prices
    try:
        solved = min_flow(kernel, remainder)
    except SolverFailed:
        return None, unseen, prices
    prices[within] = solved.prices
    return solved.min_episodes, unseen, prices
