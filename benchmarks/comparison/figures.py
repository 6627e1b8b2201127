"""Figures from the tidy file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparison import methods as m
from benchmarks.comparison.experiments import DENSE, LADDER, RIVER, WHOLE
from benchmarks.comparison.results import Result
from benchmarks.comparison.summaries import Covering
from covgame.report.figures import check_can_draw, new_figure, save_figure
from covgame.types import FloatArray

COLOURS = {
    m.OURS: "#b5483a",
    "certified": "#b5483a",
    m.APART: "#e0998d",
    m.PAPER: "#000000",
    "PCE, paper": "#000000",
    "GOSPRL": "#1f6f8b",
    "Learn2Explore (MOCA)": "#3fa796",
    "RF-Express": "#6a4c93",
    "RF-Express, paper": "#6a4c93",
    "RF-UCRL": "#a17fc4",
    "RF-UCRL, authors' code": "#a17fc4",
    "RF-UCRL, H-h, 2 beta": "#c9b3e0",
    "EntGame": "#d08c2e",
    "MaxEnt Frank-Wolfe": "#e9c46a",
    "RF-RL-Explore": "#7f8c5a",
    "UCBVI": "#b0b0b0",
    "uniform random": "#7a7a7a",
    m.FLOW: "#2f4858",
    DENSE: "#2f4858",
    WHOLE: "#1f6f8b",
}

SHOWN = 4.0
"""Of the curves over episodes, so many phi*."""

Drawing = Callable[[Sequence[Result], Path], None]


def draw_ladder(results: Sequence[Result], path: Path) -> None:
    """Episodes over the lower bound against visits wanted, log-log."""
    data = Covering(results)
    figure = new_figure(8.2, 4.8)
    axes = figure.subplots()
    for method in data.methods((m.OURS, m.PAPER, *m.PEERS)):
        points = []
        for target in LADDER:
            ratios, stopped = data.ratios(RIVER, target, method)
            if len(ratios):
                points.append((float(target.partition(":")[2]), float(ratios.mean()), stopped))
        if points:
            _draw_line(axes, points, method)
    axes.axhline(1.0, color="black", linewidth=1.2)
    axes.annotate("phi*: who always covers is not below on average", (1.1, 1.0), xytext=(0, -11),
                  textcoords="offset points", fontsize=8)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="visits wanted of every cell",
             ylabel="episodes / phi*", title=f"{RIVER}; hollow: stopped there")  # fmt: skip
    axes.set_ylim(bottom=0.8)
    ticks = [1, 1.5, 2, 3, 5, 10, 20, 30]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, path)


def _draw_line(axes: Any, points: list[tuple[float, float, bool]], method: str) -> None:
    """A line; hollow markers where runs were stopped, so that the truth lies above."""
    x, y, stopped = (np.array(column) for column in zip(*points, strict=True))
    bold = method in (m.OURS, m.PAPER)
    front = 3 if method == m.OURS else 2
    axes.plot(
        x, y, color=_colour(method), linewidth=2.4 if bold else 1.2, label=method, zorder=front
    )
    for hollow in (False, True):
        chosen = stopped == hollow
        axes.plot(x[chosen], y[chosen], "^" if hollow else "o", color=_colour(method),
                  markerfacecolor="white" if hollow else _colour(method), markersize=5,
                  zorder=front)  # fmt: skip


def draw_progress(results: Sequence[Result], path: Path) -> None:
    """The share of the wanted visits over episodes."""
    curves = defaultdict[str, dict[int, list[tuple[float, float]]]](lambda: defaultdict(list))
    phi, env, target = 1.0, "", ""
    for r in results:
        if r.kind == "progress" and r.measure == "share":
            curves[r.method][r.seed].append((r.at or 0.0, r.value))
        elif r.kind == "progress" and r.measure == "phi":
            phi, env, target = r.value, r.env, r.target
    figure = new_figure(8.2, 4.6)
    axes = figure.subplots()
    grid = np.linspace(0.01, SHOWN, 500) * phi
    for method, by_seed in curves.items():
        missing = [_missing(curve, grid) for curve in by_seed.values()]
        axes.plot(grid / phi, np.mean(missing, axis=0), color=_colour(method), label=method,
                  linewidth=2.4 if method == m.OURS else 1.2,
                  zorder=3 if method == m.OURS else 2)  # fmt: skip
    axes.axvline(1.0, color="black", linewidth=1.2)
    axes.set(yscale="log", xlabel="episodes / phi*", ylabel="share of the visits still missing",
             title=f"{env}, {target}")  # fmt: skip
    axes.set_ylim(2e-4, 1.1)
    axes.set_xlim(0, SHOWN)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, path)


def _missing(curve: list[tuple[float, float]], grid: FloatArray) -> FloatArray:
    """What is missing at given numbers of episodes; nothing once a run has ended covered."""
    at, share = (np.array(column) for column in zip(*sorted(curve), strict=True))
    after = 0.0 if share[-1] >= 1.0 else 1.0 - share[-1]
    left: FloatArray = np.interp(grid, at, 1.0 - share, left=1.0, right=after)
    return np.maximum(left, 1e-5)


def draw_error(results: Sequence[Result], path: Path) -> None:
    """What a reward-free method can promise, over episodes."""
    curves = defaultdict[str, list[tuple[float, float]]](list)
    env = ""
    for r in results:
        if r.kind == "error" and r.measure == "error":
            curves[r.method].append((r.at or 0.0, r.value))
            env = r.env
    figure = new_figure(8.2, 4.2)
    axes = figure.subplots()
    for method, curve in curves.items():
        at, error = zip(*sorted(curve), strict=True)
        wide = 2.4 if method == "certified" else 1.4
        axes.plot(at, error, color=_colour(method), linewidth=wide, label=method)
    axes.set(xscale="log", yscale="log", xlabel="episodes",
             ylabel="promised error, for every reward", title=env)  # fmt: skip
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, path)


def draw_speed(results: Sequence[Result], path: Path) -> None:
    """The time of an exact episode against the size of the world, one panel a kind."""
    curves = defaultdict[tuple[str, str], list[tuple[float, float]]](list)
    for r in results:
        if r.kind == "speed" and r.measure == "microseconds":
            curves[r.env.partition("@")[0], r.method].append((r.at or 1.0, r.value))
    kinds = list(dict.fromkeys(kind for kind, _ in curves))
    figure = new_figure(4.6 * len(kinds), 4.0)
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        for (name, method), curve in curves.items():
            if name == kind:
                axes.plot(*zip(*sorted(curve), strict=True), "o-", label=method,
                          color=_colour(method))  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="cells", title=kind)
    panels[0].set_ylabel("microseconds an episode")
    panels[0].legend(fontsize=8)
    save_figure(figure, path)


def draw_visits(results: Sequence[Result], path: Path) -> None:
    """Where each method spends its visits, on a grid: a panel a method, one scale for all."""
    visits = defaultdict[str, dict[int, float]](dict)
    played: dict[str, float] = {}
    phi = 1.0
    for r in results:
        if r.kind == "visits" and r.measure == "visits":
            visits[r.method][int(r.at or 0)] = r.value
        elif r.kind == "visits" and r.measure == "played":
            played[r.method] = r.value
        elif r.kind == "visits" and r.measure == "phi":
            phi = r.value
    columns = min(6, len(visits))
    rows = -(-len(visits) // columns)
    side = round(max(len(by_state) for by_state in visits.values()) ** 0.5)
    figure = new_figure(1.75 * columns + 0.8, 2.15 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    most = max(value / phi for by_state in visits.values() for value in by_state.values())
    image = None
    for axes, (method, by_state) in zip(panels, visits.items(), strict=False):
        share = np.array([by_state[state] for state in sorted(by_state)]).reshape(side, side) / phi
        image = axes.imshow(np.sqrt(share), cmap="magma", vmin=0, vmax=most**0.5)
        axes.set_title(f"{method}\n{played[method] / phi:.2f} phi*", fontsize=7)
    for axes in panels:
        axes.set_axis_off()
    bar = figure.colorbar(image, ax=panels.tolist(), shrink=0.8, label="visits / phi*")
    ticks = np.linspace(0, most**0.5, 5)
    bar.set_ticks(ticks, labels=[f"{tick**2:.2g}" for tick in ticks])
    save_figure(figure, path)


def _colour(method: str) -> str:
    return COLOURS.get(method, "#999999")


FIGURES: dict[str, tuple[str, Drawing]] = {
    "peers_ladder": ("cover", draw_ladder),
    "peers_progress": ("progress", draw_progress),
    "peers_error": ("error", draw_error),
    "peers_speed": ("speed", draw_speed),
    "peers_visits": ("visits", draw_visits),
}


def draw_all(results: Sequence[Result], folder: Path) -> list[Path]:
    """Every figure that the results have something for."""
    kinds = {result.kind for result in results}
    drawn = []
    for name, (kind, draw) in FIGURES.items():
        if kind in kinds:
            path = folder / f"{name}.svg"
            check_can_draw(path)
            draw(results, path)
            drawn.append(path)
    return drawn
