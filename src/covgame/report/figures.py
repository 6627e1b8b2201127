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

from covgame.errors import BadInput, MissingExtra
from covgame.names import Names
from covgame.plain import plain
from covgame.types import FloatArray

if TYPE_CHECKING:
    from covgame.planning import Plan

FORMATS = (".svg", ".png", ".pdf")
PANELS = 6
VISIBLE = 1e-100
BARS = 12
MOST_NAMES = 30


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
    set_title(figure, _title(plan))
    return figure


def set_title(figure: Any, text: str) -> None:
    """A title, with whatever characters an environment's name has."""
    figure.suptitle(plain(text), fontsize=11, parse_math=False)


def _title(plan: Plan) -> str:
    return f"{plan.environment}: episodes {plan.episodes_in_words()}"


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
    name_states(axes, plan.model.names, range(visits.shape[1]))
    return image


def name_states(axes: Any, names: Names, states: Sequence[int]) -> None:
    """The states of a picture's rows by their names, if they have any and are not too many."""
    if len(states) > MOST_NAMES or (names.states is None and names.grid is None):
        whole_ticks(axes.yaxis)
        return
    axes.set_yticks(range(len(states)), [short(names.state(s)) for s in states], fontsize=8)
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
    for axes, stage in stage_panels(figure, len(visits)):
        image = axes.imshow(masked(visits[stage].reshape(grid)), norm=scale, cmap="viridis")
    return image


def stage_panels(figure: Any, horizon: int) -> list[tuple[Any, int]]:
    """A few small pictures, each for a stage, spread over all of them."""
    stages = np.unique(np.linspace(0, horizon - 1, PANELS).round().astype(int)).tolist()
    rows = 1 if len(stages) <= 3 else 2
    panels = figure.subplots(rows, -(-len(stages) // rows), squeeze=False).ravel().tolist()
    for axes in panels:
        axes.set(xticks=[], yticks=[])
    for axes in panels[len(stages) :]:
        axes.set_axis_off()
    for axes, stage in zip(panels, stages, strict=False):
        axes.set_title(f"stage {stage}", fontsize=9)
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
    return np.ma.masked_less_equal(visits, 0.0)


def whole_ticks(axis: Any) -> None:
    """Marks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


@cache
def _picture() -> Any:
    """A figure that notebooks show, whether or not anybody has set up matplotlib for them."""
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
    content = BytesIO()
    with _forgiving():
        figure.savefig(
            content, format=path.suffix[1:].lower(), metadata=_reproducible(path), dpi=110
        )
    try:
        draft = path.with_name(f".{path.name}.draft")  # whoever is killed leaves no half of it
        draft.write_bytes(content.getvalue())
        draft.replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error}") from error


def _reproducible(path: Path) -> dict[str, Any]:
    """No date in the file: the same plan gives the same bytes."""
    if path.suffix.lower() == ".svg":
        return {"Date": None}
    return {"CreationDate": None} if path.suffix.lower() == ".pdf" else {}
