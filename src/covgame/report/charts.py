"""What happened over episodes: how coverage grew, how a bound fell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from covgame.report.view import Chart, Rule, Series
from covgame.types import FloatArray, IntArray

if TYPE_CHECKING:
    from covgame.runs.coverage import Coverage
    from covgame.runs.pac_run import LearningRun
    from covgame.storage.reading import Columns
    from covgame.targets.target import Target

POINTS = 240
MOST_CELLS = 50_000_000
"""Points times cells: larger worlds get fewer points."""

NO_EPISODES = "This run was played by its visit counts alone, so it has no single episodes."
NO_FOLDER = "This run has no folder, so its episodes were not recorded."
NONE_YET = "No episode has been played yet."


class Trail:
    """Points of a line that keeps going: when there are too many, every other one is dropped."""

    def __init__(self, most: int = 2 * POINTS) -> None:
        self.most, self.every, self.heard = most, 1, 0
        self.points: list[tuple[float, ...]] = []

    def add(self, *point: float) -> None:
        """One more; only every so many are kept."""
        if self.heard % self.every == 0:
            self.points.append(point)
        if len(self.points) >= self.most:
            self.points, self.every = self.points[::2], 2 * self.every
        self.heard += 1


def coverage_chart(
    run: Coverage, trail: Trail | None = None, minimum: tuple[float, str] | None = None
) -> Chart:
    """The share of the visits asked for over episodes, and of the rows that have all of theirs.

    ``minimum``: a number of episodes to mark, and what it is called.
    """
    points, note = _points(run, trail)
    share, rows, states = ([point[i] for point in points] for i in (1, 2, 3))
    episodes = [point[0] for point in points]
    series = [Series("visits that were asked for", episodes, share)]
    if rows != share:  # as they are where everything is asked for once
        series.append(Series("requirements met in full", episodes, rows))
    if run.source.discovers_states and states and max(states):
        most = max(states)
        series.append(
            Series(f"states found, of {most:,.0f}", episodes, [found / most for found in states])
        )
    rules = [] if minimum is None else [Rule("x", minimum[0], f"minimum ({minimum[1]})")]
    return Chart(
        "Coverage over episodes", note, "episodes", "share",
        series if points else [], rules, percent=True,
    )  # fmt: skip


Point = tuple[float, float, float, float]


def _points(run: Coverage, trail: Trail | None) -> tuple[list[Point], str]:
    """((episodes, share of visits, share of rows, states) ..., what to say of it)."""
    if trail is not None:
        now = point_of(run)
        return [*trail.points, now], ""  # type: ignore[list-item]
    if run.by_counts:
        return [], NO_EPISODES
    if run.folder is None:
        return [], NO_FOLDER
    if not run.n_episodes:
        return [], NONE_YET
    given = " It starts with the visits of the data given." if run.given else ""
    grows = run.source.discovers_states or run.growth.request is not None
    about = " Shares are of what is asked for by now: the target grew on the way." if grows else ""
    return list(_recorded_points(run)), (about + given).strip()


def point_of(run: Coverage) -> Point:
    """Where a run is now."""
    found = np.count_nonzero(run.counts.visits.any(axis=(0, 2)))
    return (float(run.n_episodes), *_shares(run.target, run.collected), float(found))


def _shares(target: Target, collected: FloatArray) -> tuple[float, float]:
    """(of the visits asked for, of the rows that have all of theirs)."""
    if not len(target):
        return 0.0, 0.0
    had = np.minimum(collected, target.counts)
    return (
        round(float(had.sum() / target.counts.sum()), 5),
        round(float((collected >= target.counts).mean()), 5),
    )


def _recorded_points(run: Coverage) -> Iterator[Point]:
    """A few hundred points along the recorded episodes; no more than a file of them in memory."""
    target, shape = run.target, run.counts.shape
    recorded, length = run._recorded(), run.n_episodes
    given = run.given_visits
    visits = given.reshape(-1)
    yield (0.0, *_shares(target, target.collected(given)), _found(given, run))
    points = max(8, min(POINTS, MOST_CELLS // max(1, shape.cells)))
    stops = np.unique(np.linspace(0, length, points + 1).round().astype(np.int64))[1:]
    following = 0
    for steps in recorded.steps(0, length):
        cells = _cells_of(steps, shape.states, shape.actions) % len(visits)
        last = int(steps["episode"][-1]) + 1 if len(cells) else 0
        borders = stops[following : int(np.searchsorted(stops, last, side="right"))]
        begin = 0
        for stop in borders.tolist():
            end = int(np.searchsorted(steps["episode"], stop))
            visits += np.bincount(cells[begin:end], minlength=len(visits))
            begin = end
            so_far = visits.reshape(given.shape)
            yield (float(stop), *_shares(target, target.collected(so_far)), _found(so_far, run))
        visits += np.bincount(cells[begin:], minlength=len(visits))
        following += len(borders)


def _cells_of(steps: Columns, states: int, actions: int) -> IntArray:
    cells: IntArray = (steps["stage"].astype(np.int64) * states + steps["state"]) * actions + steps[
        "action"
    ]
    return cells


def _found(visits: IntArray, run: Coverage) -> float:
    """States in which an action was taken."""
    if not run.source.discovers_states:
        return 0.0
    return float(np.count_nonzero(visits.any(axis=(0, 2))))


def bound_chart(run: LearningRun) -> Chart:
    """What is proved, over episodes, down to what was asked for."""
    episodes = np.cumsum([float(phase.episodes) for phase in run.phases]).tolist()
    known = [
        (n, float(phase.bound))
        for n, phase in zip(episodes, run.phases, strict=True)
        if phase.bound is not None and np.isfinite(phase.bound) and phase.bound > 0 and n > 0
    ]
    kept = known[:: max(1, len(known) // POINTS)]
    kept = kept if not known or kept[-1] == known[-1] else [*kept, known[-1]]
    series = [Series("proved bound", [n for n, _ in kept], [bound for _, bound in kept])]
    note = "" if kept else "Nothing is proved yet."
    rules = [Rule("y", run.settings.epsilon, f"asked for: {run.settings.epsilon:g}")]
    return Chart(
        "The certificate over episodes", note, "episodes", "lost at most",
        series if kept else [], rules, log=True,
    )  # fmt: skip
