"""Figures with matplotlib, an extra that is imported when a picture is drawn."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covgame.errors import BadInput, MissingExtra
from covgame.types import FloatArray

if TYPE_CHECKING:
    from covgame.planning import Plan

FORMATS = (".svg", ".png", ".pdf")
PANELS = 6
VISIBLE = 1e-100
BARS = 12


def check_can_draw(path: Path) -> None:
    """Raise, before any work is done, if this picture cannot be drawn."""
    if path.suffix.lower() not in FORMATS:
        raise BadInput(f"{path}: a picture ends in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.absolute().parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("plot", "a picture")


def draw_plan(plan: Plan, path: Path) -> None:
    """Optimal visits beside the dearest cells; states on a grid are drawn as one."""
    check_can_draw(path)
    figure = new_figure(10, 4.6)
    left, right = figure.subfigures(1, 2, width_ratios=[3, 2])
    _draw_visits(left, plan)
    _draw_prices(right, plan)
    figure.suptitle(_title(plan), fontsize=11, parse_math=False)
    save_figure(figure, path)


def _title(plan: Plan) -> str:
    from covgame.planning import number

    name = plan.environment.encode("utf-8", "replace").decode()
    return f"{name}: at least {number(plan.min_episodes)} episodes on average"


def _draw_visits(figure: Any, plan: Plan) -> None:
    from matplotlib.colors import LogNorm

    visits = plan.visits.sum(axis=2)
    positive = visits[visits > VISIBLE]
    if not positive.size:
        figure.subplots().set_axis_off()
        return
    lowest, highest = max(positive.min(), positive.max() * 1e-6), positive.max()
    scale = LogNorm(vmin=lowest, vmax=max(highest, lowest * 1.01))
    image = _draw_grids(figure, plan, visits, scale) or _draw_matrix(figure, visits, scale)
    figure.colorbar(image, ax=figure.axes, label="expected visits (log scale)", shrink=0.85)


def _draw_matrix(figure: Any, visits: FloatArray, scale: Any) -> Any:
    axes = figure.subplots()
    image = axes.imshow(
        _masked(visits.T), norm=scale, cmap="viridis", aspect="auto", interpolation="nearest"
    )
    axes.set(title="Optimal visits", xlabel="stage", ylabel="state")
    _whole_ticks(axes.xaxis)
    _whole_ticks(axes.yaxis)
    return image


def _draw_grids(figure: Any, plan: Plan, visits: FloatArray, scale: Any) -> Any:
    """One small grid per stage, for a selection of stages; None if the states are no grid."""
    grid = plan.model.names.grid
    if grid is None:
        return None
    stages = np.unique(np.linspace(0, len(visits) - 1, PANELS).round().astype(int)).tolist()
    rows = 1 if len(stages) <= 3 else 2
    panels = figure.subplots(rows, -(-len(stages) // rows), squeeze=False).ravel()
    image = None
    for axes, stage in zip(panels, stages, strict=False):
        image = axes.imshow(_masked(visits[stage].reshape(grid)), norm=scale, cmap="viridis")
        axes.set_title(f"stage {stage}", fontsize=9)
    for axes in panels:
        axes.set(xticks=[], yticks=[])
    for axes in panels[len(stages) :]:
        axes.set_axis_off()
    return image


def _draw_prices(figure: Any, plan: Plan) -> None:
    axes = figure.subplots()
    dearest = plan.dearest(BARS)[::-1]
    axes.barh(range(len(dearest)), [price for _, price in dearest], color="#b5483a")
    axes.set_yticks(range(len(dearest)), [_short(row) for row, _ in dearest], fontsize=8)
    axes.set(title="What makes it expensive", xlabel="episodes for one more visit")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _short(row: tuple[int | None, int, int | None]) -> str:
    stage, state, action = row
    parts = [] if stage is None else [f"stage {stage}"]
    parts.append(f"state {state}")
    if action is not None:
        parts.append(f"action {action}")
    return ", ".join(parts)


def _masked(visits: FloatArray) -> Any:
    """Cells that nothing reaches stay white."""
    return np.ma.masked_less_equal(visits, 0.0)


def _whole_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def new_figure(width: float, height: float) -> Any:
    """A figure without any global state or window."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "covgame"
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, path: Path) -> None:
    """Write the figure; the ending of the path says the format."""
    try:
        with warnings.catch_warnings():  # about glyphs that the font lacks
            warnings.simplefilter("ignore")
            figure.savefig(path, metadata=_reproducible(path), dpi=110)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error}") from error


def _reproducible(path: Path) -> dict[str, Any]:
    """No date in the file: the same plan gives the same bytes."""
    if path.suffix.lower() == ".svg":
        return {"Date": None}
    return {"CreationDate": None} if path.suffix.lower() == ".pdf" else {}
