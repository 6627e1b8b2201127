"""A run, whatever became of it, as the data of its page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from covgame.errors import CovgameError, Row
from covgame.flow.min_flow import min_flow
from covgame.report.commands import command_of
from covgame.report.content import Chart, Figure, Kind, Listing, PageData, StateMap
from covgame.report.curves import Trail, bound_chart, coverage_chart
from covgame.report.layouts import MOST_NODES, links_in
from covgame.report.listings import SHOWN, coverage_listings, learning_listings
from covgame.report.state_maps import Seen, state_map
from covgame.report.story import (
    Ending,
    cover_figures,
    cover_sentences,
    learning_figures,
    learning_sentences,
    status,
)
from covgame.runs.coverage import Coverage
from covgame.runs.pac_run import LearningRun
from covgame.runs.run import Run, versions
from covgame.targets.resolve import reachable_rows
from covgame.types import BoolArray, FloatArray, IntArray, Policy

LARGE = 20_000
"""Above so many cells no linear program is solved for a page."""

DULL = ("run", "covered", "asked", "lower bound", "failed")
"""Facts that stand elsewhere on the page."""

OWN_REWARD = "The policy drawn is the best on the learnt model, for the environment's own reward."

Parts = tuple[Kind, list[str], list[Figure], Chart, StateMap | None, list[Listing]]


def page_of(run: Run, *, running: bool = False, trail: Trail | None = None) -> PageData:
    """The page of a run as it is now.

    Args:
        run: Played here, or loaded from its folder.
        running: It is being played.
        trail: Points that were noted on the way, for a page that is written while the run is
            played: nothing that takes long is computed then.
    """
    ending = Ending.of(run, running=running)
    word, tone = status(run, ending)
    if isinstance(run, Coverage):
        parts = _coverage_parts(run, ending, trail)
    elif isinstance(run, LearningRun):
        parts = _learning_parts(run, ending)
    else:
        raise TypeError(f"{type(run).__name__} has no page")
    kind, sentences, figures, chart, drawn, listings = parts
    return PageData(
        kind, run.environment.name, word, tone, sentences, figures, chart, drawn, listings,
        _facts(run), command_of(run), _made_with(run),
    )  # fmt: skip


def _coverage_parts(run: Coverage, ending: Ending, trail: Trail | None) -> Parts:
    is_update = trail is not None
    bound = _bound(run, solve=not is_update)
    dearest, learnt = ([], False) if is_update and bound is None else _dearest(run)
    lacking, missing = run.uncovered, np.maximum(run.target.counts - run.collected, 0.0)
    seen = _seen(run, run.target.rows, run.target.counts, missing)
    return (
        "cover",
        cover_sentences(run, ending, bound, lacking),
        cover_figures(run, bound, lacking),
        coverage_chart(run, trail, bound),
        state_map(seen),
        coverage_listings(run, dearest, lacking, learnt=learnt),
    )


def _learning_parts(run: LearningRun, ending: Ending) -> Parts:
    policy, note = (None, "") if ending.running else _policy(run)
    nothing = np.zeros(0)
    seen = _seen(run, np.zeros((0, 3), dtype=np.int64), nothing, nothing, policy)
    return (
        run.settings.command,
        learning_sentences(run, ending),
        learning_figures(run, ending),
        bound_chart(run),
        state_map(seen, note),
        learning_listings(run),
    )


def _facts(run: Run) -> list[list[str]]:
    facts = [[label, value] for label, value in run.facts() if label not in DULL]
    return [*facts, ["seed", str(run.settings.seed)]]


def _made_with(run: Run) -> str:
    """Versions, as the run's folder says them; those of now if it has none."""
    found = run.folder.config.get("versions") if run.folder else None
    known = found if isinstance(found, dict) else versions()
    order = sorted(known, key=lambda name: name != "covgame")
    return ", ".join(f"{name} {known[name]}" for name in order)


# -------------------------------------------------------------------------- what it costs


def _bound(run: Coverage, *, solve: bool) -> float | None:
    """phi*, if it is known or quickly computed; or as the run's answer has it."""
    if run.has_bound or (solve and not run.is_large):
        return run.bound_at_hand
    if not solve or run.folder is None:
        return None
    saved: Any = run.folder.load_result().get("min_episodes")
    if isinstance(saved, bool) or not isinstance(saved, int | float):
        return None
    return float(saved) if math.isfinite(saved) and saved >= 0 else None


def _dearest(run: Coverage) -> tuple[list[tuple[Row, float]], bool]:
    """(requirements whose next visit costs most, whether by what was learnt)."""
    if run.environment.model is not None:
        return run.dearest(4 * SHOWN), False
    if run.target.shape.cells > LARGE or not run.counts.n_episodes or run.transitions is not None:
        return [], True
    kernel = run.counts.kernel()
    part = run.target.remainder(reachable_rows(run.target, kernel), run.target.counts)
    try:
        return (min_flow(kernel, part).dearest(4 * SHOWN) if len(part) else []), True
    except CovgameError:  # past double precision, for one
        return [], True


# -------------------------------------------------------------------------- what is drawn


def _policy(run: LearningRun) -> tuple[Policy | None, str]:
    """What to draw as arrows: the policy that was found, or planned on what was learnt."""
    if not run.counts.n_episodes:
        return None, ""
    found: Policy | None = getattr(run, "policy", None)
    if found is not None:
        return found, ""
    return run.model.plan(), OWN_REWARD


def _seen(
    run: Run, rows: IntArray, counts: FloatArray, missing: FloatArray, policy: Policy | None = None
) -> Seen:
    states = _drawn_states(run, rows)
    links = links_in(run.counts.kernel()) if len(states) <= MOST_NODES else frozenset()
    visits, starts = run.counts.visits, run.counts.starts
    return Seen(run.names, visits, states, rows, counts, missing, starts, links, policy)


def _drawn_states(run: Run, rows: IntArray) -> IntArray:
    """All that exist; of those that are discovered, not those in which episodes only end."""
    known = min(run.n_states, run.counts.shape.states)
    if not run.source.discovers_states:
        return np.arange(known, dtype=np.int64)
    there: BoolArray = np.logical_or.reduce(run.counts.visits[:, :known] > 0, axis=(0, 2))
    asked = rows[:, 1]
    there[asked[(asked >= 0) & (asked < known)]] = True
    return np.flatnonzero(there)
