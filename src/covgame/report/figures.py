"""Figures with matplotlib, an extra that is imported when a picture is drawn."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covgame.errors import BadInput, MissingExtra, StorageFailed
from covgame.plain import plain
from covgame.planning import number
from covgame.report.view import Chart, Layout, StateMap, View
from covgame.storage.files import write_whole
from covgame.types import FloatArray

if TYPE_CHECKING:
    from covgame.planning import Plan

FORMATS = (".svg", ".png", ".pdf")
PANELS = 6
VISIBLE = 1e-100
BARS = 12
MOST_NAMES = 30
MOST_NUMBERS = 12
"""Grids up to so many columns have a number in every square."""

ENOUGH, MISSING, WANTED = "#2a76b2", "#d9691a", "#222222"
SHARES = ("#d9691a", "#ecaa76", "#dfe6ec", "#86b5da", "#2a76b2")
ACTIONS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08800", "#56a4d8", "#6b4fa0", "#4d5660")
"""As on the page; distinguishable with colour blindness."""

ARROWS = {"left": "←", "right": "→", "up": "↑", "down": "↓"}


def check_can_draw(path: Path | None = None) -> None:
    """Raise, before any work is done, if this picture cannot be drawn."""
    if path is not None and path.suffix.lower() not in FORMATS:
        raise BadInput(f"{path}: a picture ends in {', '.join(FORMATS)}")
    if path is not None and not path.absolute().parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.absolute().parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("plot", "a picture")


def shown_or_saved(draw: Callable[[Any], Any], what: Any, path: str | Path | None) -> Any:
    """The figure that ``draw`` makes of it; with a ``path`` it is written there instead."""
    place = None if path is None else Path(path)
    check_can_draw(place)
    figure = draw(what)
    if place is None:
        return figure
    return save_figure(figure, place)


def plan_figure(plan: Plan) -> Any:
    """Optimal visits beside the dearest cells; states on a grid are drawn as one."""
    figure = new_figure(10, 4.6)
    left, right = figure.subfigures(1, 2, width_ratios=[3, 2])
    _draw_visits(left, plan)
    _draw_prices(right, plan)
    set_title(figure, f"{plan.environment}: episodes {plan.episodes_in_words()}")
    return figure


def set_title(figure: Any, text: str) -> None:
    """A title, with whatever characters an environment's name has."""
    figure.suptitle(plain(text), fontsize=11, parse_math=False)


def _draw_visits(figure: Any, plan: Plan) -> None:
    from matplotlib.colors import LogNorm

    visits = plan.visits.sum(axis=2)
    positive = visits[visits > VISIBLE]
    if not positive.size:
        figure.subplots().set_axis_off()
        return
    lowest, highest = max(positive.min(), positive.max() * 1e-6), positive.max()
    scale = LogNorm(vmin=lowest, vmax=max(highest, lowest * 1.01))
    image = _draw_grids(figure, plan, visits, scale) or _draw_matrix(figure, plan, visits, scale)
    figure.colorbar(image, ax=figure.axes, label="expected visits (log scale)", shrink=0.85)


def _draw_matrix(figure: Any, plan: Plan, visits: FloatArray, scale: Any) -> Any:
    axes = figure.subplots()
    image = axes.imshow(
        masked(visits.T), norm=scale, cmap="viridis", aspect="auto", interpolation="nearest"
    )
    axes.set(title="Optimal visits", xlabel="stage", ylabel="state")
    whole_ticks(axes.xaxis)
    names, states = plan.model.names, range(visits.shape[1])
    is_named = names.states is not None or names.grid is not None
    name_rows(axes, [names.state(state) for state in states] if is_named else None)
    return image


def name_rows(axes: Any, labels: Sequence[str] | None) -> None:
    """The labels of a picture's rows, if there are any and they are not too many."""
    if labels is None or len(labels) > MOST_NAMES:
        whole_ticks(axes.yaxis)
        return
    axes.set_yticks(range(len(labels)), [short(label) for label in labels], fontsize=8)
    axes.set_ylabel("")
    plainly(axes)


def short(words: str, most: int = 28) -> str:
    """Words that fit beside a picture."""
    return words if len(words) <= most else f"{words[: most - 3]}..."


def plainly(axes: Any) -> None:
    """Labels are words, whatever dollars they hold."""
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)


def _draw_grids(figure: Any, plan: Plan, visits: FloatArray, scale: Any) -> Any:
    """One small grid per stage, for a selection of stages; None if the states are no grid."""
    grid = plan.model.names.grid
    if grid is None:
        return None
    image = None
    for axes, stage in stage_panels(figure, [str(stage) for stage in range(len(visits))]):
        image = axes.imshow(masked(visits[stage].reshape(grid)), norm=scale, cmap="viridis")
    return image


def stage_panels(figure: Any, labels: Sequence[str]) -> list[tuple[Any, int]]:
    """A few small pictures, each for a stage, spread over all of them."""
    stages = np.unique(np.linspace(0, len(labels) - 1, PANELS).round().astype(int)).tolist()
    rows = 1 if len(stages) <= 3 else 2
    panels = figure.subplots(rows, -(-len(stages) // rows), squeeze=False).ravel().tolist()
    for axes in panels:
        axes.set(xticks=[], yticks=[])
    for axes in panels[len(stages) :]:
        axes.set_axis_off()
    for axes, stage in zip(panels, stages, strict=False):
        axes.set_title(f"stage {labels[stage]}", fontsize=9)
    return list(zip(panels, stages, strict=False))


def _draw_prices(figure: Any, plan: Plan) -> None:
    axes = figure.subplots()
    dearest = plan.dearest(BARS)[::-1]
    axes.barh(range(len(dearest)), [price for _, price in dearest], color="#b5483a")
    words = [short(plan.model.names.describe(row), 40) for row, _ in dearest]
    axes.set_yticks(range(len(dearest)), words, fontsize=8)
    plainly(axes)
    axes.set(title="What makes it expensive", xlabel="episodes for one more visit")
    open_frame(axes)


def open_frame(axes: Any) -> None:
    """No lines where nothing is measured."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def masked(visits: FloatArray) -> Any:
    """Cells that nothing reaches stay white."""
    return np.ma.masked_less_equal(np.nan_to_num(visits), 0.0)


def whole_ticks(axis: Any) -> None:
    """Marks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


@cache
def _picture() -> Any:
    """A figure class that notebooks display without any setup of matplotlib."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            content = BytesIO()
            with _forgiving():
                self.savefig(content, format="png", dpi=110)
            return content.getvalue()

    return Picture


def new_figure(width: float, height: float) -> Any:
    """A figure without any global state or window."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    matplotlib.rcParams["svg.hashsalt"] = "covgame"
    figure = _picture()(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def _forgiving() -> Iterator[None]:
    """No warnings about glyphs that the font lacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def save_figure(figure: Any, path: Path) -> None:
    """Write the figure; the ending of the path says the format."""
    kind = path.suffix[1:].lower()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # the same bytes each time
    content = BytesIO()
    with _forgiving():
        figure.savefig(content, format=kind, metadata=undated.get(kind, {}), dpi=110)
    try:
        write_whole(path, content.getvalue())
    except StorageFailed as error:
        raise BadInput(f"the picture cannot be written: {error}") from error


# ------------------------------------------------------------------------ runs and audits


def view_figure(view: View) -> Any:
    """Visits of every state against the target; of a learning run its bound and its policy."""
    if view.kind in ("explore", "identify"):
        figure = _learning_figure(view)
    elif view.state_map is None:
        figure = new_figure(8, 2)
    else:
        figure = _visits_figure(view.state_map)
    title = f"{short(view.title, 60)}: {view.figures[0].value} episodes"
    covered = [one.note for one in view.figures if one.label == "covered"]
    set_title(figure, ", ".join([title, *(f"{note} covered" for note in covered)]))
    return figure


def _visits_figure(drawn: StateMap) -> Any:
    """A grid where the states have places, bars by name if they are few, else a line."""
    visits, wanted, missing = (
        np.array(part, dtype=np.float64)
        for part in (drawn.overall.visits, drawn.overall.wanted, drawn.overall.missing)
    )
    if drawn.layout.kind in ("grid", "plane"):
        return _visits_on_a_grid(drawn.layout, visits, wanted, missing)
    if len(drawn.labels) <= MOST_NAMES:
        return _visits_by_name(drawn, visits, wanted, missing)
    return _visits_by_number(visits, wanted, missing)


def _visits_on_a_grid(
    layout: Layout, visits: FloatArray, wanted: FloatArray, missing: FloatArray
) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    figure = new_figure(10, 4.6)
    left, right = figure.subplots(1, 2)
    share = np.where(wanted > 0, 1.0 - missing / np.maximum(wanted, 1e-300), np.nan)
    shares = LinearSegmentedColormap.from_list("shares", SHARES)
    squares = _on_grid(layout, visits)
    images = (
        left.imshow(masked(squares), cmap="viridis"),
        right.imshow(np.ma.masked_invalid(_on_grid(layout, share)), cmap=shares, vmin=0, vmax=1),
    )
    left.set_title("Visits (all stages and actions)", fontsize=10)
    right.set_title("Share of the visits asked for", fontsize=10)
    for axes, image in zip((left, right), images, strict=True):
        axes.set(xticks=[], yticks=[])
        figure.colorbar(image, ax=axes, shrink=0.8)
    if layout.columns <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(squares):
            if value > 0:
                colour = "black" if images[0].norm(value) > 0.6 else "white"
                text = number(float(value))
                left.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    return figure


def _on_grid(layout: Layout, values: Any) -> FloatArray:
    squares = np.full((layout.rows, layout.columns), np.nan)
    squares[layout.y, layout.x] = values
    return squares


def _visits_by_name(
    drawn: StateMap, visits: FloatArray, wanted: FloatArray, missing: FloatArray
) -> Any:
    """A bar for every state, and a mark where its target is."""
    figure = new_figure(8, 1.6 + 0.24 * max(len(visits), 4))
    axes = figure.subplots()
    places = np.arange(len(visits))
    colours = [MISSING if some else ENOUGH for some in missing]
    axes.barh(places, visits, color=colours)
    axes.plot(wanted, places, "|", color=WANTED, markersize=11, markeredgewidth=2, label="wanted")
    axes.set(ylabel="state", xlabel="visits (orange: something is missing)", xscale=_scale(visits))
    name_rows(axes, drawn.labels if drawn.named else None)
    axes.invert_yaxis()
    figure.legend(loc="outside lower right", frameon=False, fontsize=8)
    open_frame(axes)
    return figure


def _visits_by_number(visits: FloatArray, wanted: FloatArray, missing: FloatArray) -> Any:
    """Many states: a line over their numbers."""
    figure = new_figure(9, 4)
    axes = figure.subplots()
    states = np.arange(len(visits))
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
    """Logarithmic where some states are seen a hundred times as often as others."""
    seen = visits[visits > 0]
    return "symlog" if seen.size and seen.max() > 100 * seen.min() else "linear"


def _learning_figure(view: View) -> Any:
    """How the bound fell, and beside it the policy, where the run has found one."""
    drawn = view.state_map
    if drawn is None or drawn.policy is None:
        figure = new_figure(7, 4)
        _draw_bounds(figure, view.chart)
        return figure
    figure = new_figure(11, 4.6)
    left, right = figure.subfigures(1, 2, width_ratios=[2, 3])
    _draw_bounds(left, view.chart)
    _draw_policy(right, drawn, np.array(drawn.policy, dtype=np.float64))
    return figure


def _draw_bounds(figure: Any, chart: Chart | None) -> None:
    axes = figure.subplots()
    if chart is not None:
        for line in chart.series:
            axes.plot(line.x, line.y, "o-", color=ENOUGH, markersize=3, label="bound")
            axes.set(xscale="log", yscale="log")
            for which in ("major", "minor"):
                axes.tick_params(axis="y", which=which, labelsize=8)
                getattr(axes.yaxis, f"set_{which}_formatter")("{x:g}")
        for rule in chart.rules:
            axes.axhline(rule.at, color=MISSING, linewidth=1, label="epsilon")
    axes.set(xlabel="episodes", ylabel="what is proved to be lost at most")
    axes.legend(frameon=False, fontsize=8)
    open_frame(axes)


def _draw_policy(figure: Any, drawn: StateMap, policy: FloatArray) -> None:
    """The action in every state that was seen; a grid for some stages, or all stages."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    policy[policy < 0] = np.nan
    colours = ListedColormap(ACTIONS)
    layout = drawn.layout
    if layout.kind == "grid":
        for axes, stage in stage_panels(figure, drawn.stages):
            squares = _on_grid(layout, policy[stage])
            axes.imshow(_coloured(squares), cmap=colours, vmin=-0.5, vmax=len(ACTIONS) - 0.5)
            _write_actions(axes, squares, drawn.actions)
    else:
        axes = figure.subplots()
        axes.imshow(
            _coloured(policy.T),
            cmap=colours,
            vmin=-0.5,
            vmax=len(ACTIONS) - 0.5,
            aspect="auto",
            interpolation="nearest",
        )
        axes.set(xlabel="stage", ylabel="state")
        whole_ticks(axes.xaxis)
        name_rows(axes, drawn.labels if drawn.named else None)
    patches = [
        Patch(color=colours(a), label=short(name))
        for a, name in enumerate(drawn.actions[: len(ACTIONS)])
    ]
    legend = figure.legend(
        handles=patches,
        loc="outside lower center",
        ncols=min(len(patches), 5),
        frameon=False,
        fontsize=8,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _coloured(actions: FloatArray) -> Any:
    """The colour of each action, repeated where there are many; unseen states stay white."""
    return np.ma.masked_invalid(np.mod(actions, len(ACTIONS)))


def _write_actions(axes: Any, squares: FloatArray, names: Sequence[str]) -> None:
    """Directions as arrows, where actions are called so."""
    if squares.shape[1] > MOST_NUMBERS:
        return
    for (row, column), action in np.ndenumerate(squares):
        arrow = "" if np.isnan(action) else ARROWS.get(names[int(action)])
        if arrow:
            axes.text(column, row, arrow, ha="center", va="center", color="white", fontsize=10)
