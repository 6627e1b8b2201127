"""Pictures of runs: what was collected, how a bound fell, what a policy does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from covgame.arrays import sum_by_index
from covgame.names import Names
from covgame.planning import number
from covgame.report.figures import (
    MOST_NAMES,
    masked,
    name_states,
    new_figure,
    open_frame,
    set_title,
    short,
    stage_panels,
    whole_ticks,
)
from covgame.report.layouts import coordinates
from covgame.types import FloatArray, IntArray

if TYPE_CHECKING:
    from covgame.runs.coverage import Coverage
    from covgame.runs.pac_run import LearningRun
    from covgame.runs.run import Run
    from covgame.types import Policy

ENOUGH, MISSING, WANTED = "#2a76b2", "#d9691a", "#222222"
SHARES = ("#d9691a", "#ecaa76", "#dfe6ec", "#86b5da", "#2a76b2")
ACTIONS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08800", "#56a4d8", "#6b4fa0", "#4d5660")
"""As on the page; everybody can tell them apart, whatever colours they see."""
MOST_ACTIONS = len(ACTIONS)
MOST_NUMBERS = 12
"""Grids up to so many columns have a number in every square."""
ARROWS = {"left": "←", "right": "→", "up": "↑", "down": "↓"}


# --------------------------------------------------------------------------------- cover


def coverage_figure(run: Coverage) -> Any:
    """Visits of every state against what the target asks of it; states on a grid as a grid."""
    if len(run.target) and run.target.of_group.all():
        figure = _groups_figure(run)
    else:
        states = _existing(run)
        visits = run.counts.visits.sum(axis=(0, 2))[states].astype(np.float64)
        wanted, missing = (values[states] for values in _asked(run))
        figure = visits_figure(_called(run.names, states), visits, wanted, missing)
    said = "all is covered" if run.covered else f"{len(run.uncovered):,} rows open"
    set_title(figure, f"{run.environment.name}: {number(run.n_episodes)} episodes, {said}")
    return figure


def visits_figure(names: Names, visits: FloatArray, wanted: FloatArray, missing: FloatArray) -> Any:
    """Of every state its visits, those that were asked for, and those that are missing."""
    states = np.arange(len(visits))
    if names.grid is not None and len(states) == names.grid[0] * names.grid[1]:
        return _visits_on_a_grid(names.grid, visits, wanted, missing)
    pairs = None if names.states is None else coordinates([names.state(s) for s in states.tolist()])
    if pairs is not None:
        return _visits_on_a_plane(pairs, visits, wanted, missing)
    if len(states) <= MOST_NAMES:
        return _visits_by_name(names, states, visits, wanted, missing)
    return _visits_by_number(states, visits, wanted, missing)


def _existing(run: Run) -> IntArray:
    """States that can be there at all; of those that were discovered, not those that only end."""
    known = min(run.n_states, run.counts.shape.states)
    if run.source.discovers_states:
        acted_in = run.counts.visits[:, :known].any(axis=(0, 2))
        return np.flatnonzero(acted_in)
    return np.arange(known, dtype=np.int64)


def _called(names: Names, states: IntArray) -> Names:
    """The names of some of the states, numbered anew."""
    if names.states is None:
        return names
    return replace(names, states=[names.state(state) for state in states.tolist()])


def _groups_figure(run: Coverage) -> Any:
    """A target about groups: what was collected of each."""
    target, collected = run.target, run.collected
    groups = Names([str(row[1]) for row in target.as_rows(range(len(target)))])
    missing = np.maximum(target.counts - collected, 0.0)
    return visits_figure(groups, collected.astype(np.float64), target.counts, missing)


def _asked(run: Coverage) -> tuple[FloatArray, FloatArray]:
    """(visits that the rows of each state ask for, how many of them are missing)."""
    target, room = run.target, run.counts.shape.states
    single = ~target.of_group
    states = target.rows[single, 1]
    missing = np.maximum(target.counts - run.collected, 0.0)
    wanted, lacking = (
        sum_by_index(states, part[single], room) for part in (target.counts, missing)
    )
    return wanted, lacking


def _shares() -> Any:
    """From nothing to all."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shares", SHARES)


def _visits_on_a_grid(
    grid: tuple[int, int], visits: FloatArray, wanted: FloatArray, missing: FloatArray
) -> Any:
    figure = new_figure(10, 4.6)
    left, right = figure.subplots(1, 2)
    share = np.where(wanted > 0, 1.0 - missing / np.maximum(wanted, 1e-300), np.nan)
    images = (
        left.imshow(masked(visits.reshape(grid)), cmap="viridis"),
        right.imshow(np.ma.masked_invalid(share.reshape(grid)), cmap=_shares(), vmin=0, vmax=1),
    )
    left.set_title("Visits (all stages and actions)", fontsize=10)
    right.set_title("Share of the visits asked for", fontsize=10)
    for axes, image in zip((left, right), images, strict=True):
        axes.set(xticks=[], yticks=[])
        figure.colorbar(image, ax=axes, shrink=0.8)
    if grid[1] <= MOST_NUMBERS:
        _write_numbers(left, images[0], visits.reshape(grid))
    return figure


def _visits_on_a_plane(
    pairs: list[tuple[int, int]], visits: FloatArray, wanted: FloatArray, missing: FloatArray
) -> Any:
    """States named by two numbers: the first to the right, the second upwards."""
    x, y = np.array(pairs).T
    column, row = x - x.min(), y.max() - y
    grid = int(row.max()) + 1, int(column.max()) + 1

    def spread(values: FloatArray) -> FloatArray:
        squares = np.zeros(grid)
        squares[row, column] = values
        return squares.ravel()

    return _visits_on_a_grid(grid, *(spread(values) for values in (visits, wanted, missing)))


def _write_numbers(axes: Any, image: Any, values: FloatArray) -> None:
    """Every square says its number, in a colour that can be read."""
    for (row, column), value in np.ndenumerate(values):
        if value:
            colour = "black" if image.norm(value) > 0.6 else "white"
            text = number(float(value))
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)


def _visits_by_name(
    names: Names, states: IntArray, visits: FloatArray, wanted: FloatArray, missing: FloatArray
) -> Any:
    """A bar for every state, and a mark where its target is."""
    figure = new_figure(8, 1.6 + 0.24 * max(len(states), 4))
    axes = figure.subplots()
    places = np.arange(len(states))
    colours = [MISSING if some else ENOUGH for some in missing]
    axes.barh(places, visits, color=colours)
    axes.plot(wanted, places, "|", color=WANTED, markersize=11, markeredgewidth=2, label="wanted")
    axes.set(ylabel="state", xlabel="visits (orange: something is missing)", xscale=_scale(visits))
    name_states(axes, names, states.tolist())
    axes.invert_yaxis()
    figure.legend(loc="outside lower right", frameon=False, fontsize=8)
    open_frame(axes)
    return figure


def _visits_by_number(
    states: IntArray, visits: FloatArray, wanted: FloatArray, missing: FloatArray
) -> Any:
    """Many states: a line over their numbers."""
    figure = new_figure(9, 4)
    axes = figure.subplots()
    axes.fill_between(states, visits, step="mid", color=ENOUGH, alpha=0.8, label="visits")
    axes.step(states, wanted, where="mid", color=WANTED, linewidth=1, label="wanted")
    lacking = missing > 0
    if lacking.any():
        axes.plot(
            states[lacking], visits[lacking], ".", color=MISSING, label="something is missing"
        )
    axes.set(xlabel="state", ylabel="visits", yscale=_scale(visits))
    whole_ticks(axes.xaxis)
    axes.legend(frameon=False, fontsize=8)
    open_frame(axes)
    return figure


def _scale(visits: FloatArray) -> str:
    """By powers of ten where some states are seen a hundred times as often as others."""
    seen = visits[visits > 0]
    return "symlog" if seen.size and seen.max() > 100 * seen.min() else "linear"


# ------------------------------------------------------------------- explore and identify


def learning_figure(run: LearningRun) -> Any:
    """How the bound fell, and beside it the policy, where the run has found one."""
    policy: Policy | None = getattr(run, "policy", None)
    if policy is None:
        figure = new_figure(7, 4)
        _draw_bounds(figure, run)
    else:
        figure = new_figure(11, 4.6)
        left, right = figure.subfigures(1, 2, width_ratios=[2, 3])
        _draw_bounds(left, run)
        _draw_policy(right, run, policy)
    set_title(figure, f"{run.environment.name}: {number(run.n_episodes)} episodes")
    return figure


def _draw_bounds(figure: Any, run: LearningRun) -> None:
    axes = figure.subplots()
    episodes = np.cumsum([float(phase.episodes) for phase in run.phases])
    known = [
        (n, phase.bound)
        for n, phase in zip(episodes, run.phases, strict=True)
        if phase.bound is not None and np.isfinite(phase.bound)
    ]
    if known:
        axes.plot(*zip(*known, strict=True), "o-", color=ENOUGH, markersize=3, label="bound")
        axes.set(xscale="log", yscale="log")
        for which in ("major", "minor"):
            axes.tick_params(axis="y", which=which, labelsize=8)
            getattr(axes.yaxis, f"set_{which}_formatter")("{x:g}")
    axes.axhline(run.settings.epsilon, color=MISSING, linewidth=1, label="epsilon")
    axes.set(xlabel="episodes", ylabel="what is proved to be lost at most")
    axes.legend(frameon=False, fontsize=8)
    open_frame(axes)


def _draw_policy(figure: Any, run: LearningRun, policy: Policy) -> None:
    """The likeliest action of every state that was seen; a grid for some stages, or all stages."""
    from matplotlib.colors import ListedColormap

    actions = policy.probabilities().argmax(axis=2).astype(np.float64)
    visits = run.counts.visits[:, : actions.shape[1]]
    actions[visits.sum(axis=2) == 0] = np.nan
    colours = ListedColormap(ACTIONS)
    grid, names = run.names.grid, run.names
    if grid is not None:
        for axes, stage in stage_panels(figure, len(actions)):
            square = actions[stage].reshape(grid)
            axes.imshow(_coloured(square), cmap=colours, vmin=-0.5, vmax=MOST_ACTIONS - 0.5)
            _write_actions(axes, square, run)
    else:
        axes = figure.subplots()
        axes.imshow(
            _coloured(actions.T), cmap=colours, vmin=-0.5, vmax=MOST_ACTIONS - 0.5,
            aspect="auto", interpolation="nearest",
        )  # fmt: skip
        axes.set(xlabel="stage", ylabel="state")
        whole_ticks(axes.xaxis)
        name_states(axes, names, range(actions.shape[1]))
    _explain_actions(figure, run, colours)


def _coloured(actions: FloatArray) -> Any:
    """Which colour every action has; states that were never seen stay white."""
    return np.ma.masked_invalid(np.mod(actions, MOST_ACTIONS))


def _write_actions(axes: Any, square: FloatArray, run: LearningRun) -> None:
    """Directions as arrows, where actions are called so."""
    if square.shape[1] > MOST_NUMBERS:
        return
    for (row, column), action in np.ndenumerate(square):
        arrow = "" if np.isnan(action) else ARROWS.get(run.names.action(int(action)))
        if arrow:
            axes.text(column, row, arrow, ha="center", va="center", color="white", fontsize=10)


def _explain_actions(figure: Any, run: LearningRun, colours: Any) -> None:
    """Which colour is which action; colours repeat where there are many."""
    from matplotlib.patches import Patch

    actions = range(min(run.counts.shape.actions, MOST_ACTIONS))
    patches = [
        Patch(color=colours(a % MOST_ACTIONS), label=short(run.names.action(a))) for a in actions
    ]
    columns = min(len(patches), 5)
    legend = figure.legend(
        handles=patches, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
