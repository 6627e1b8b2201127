"""A run, whatever became of it, as the data of its page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from covgame.errors import CovgameError, Row
from covgame.flow.min_flow import min_flow
from covgame.report.commands import command_of
from covgame.report.content import PageData, StateMap
from covgame.report.curves import Trail, bound_chart, coverage_chart
from covgame.report.layouts import MOST_NODES
from covgame.report.listings import SHOWN, listings_of
from covgame.report.state_maps import Seen, state_map
from covgame.report.story import (
    Ending,
    cover_figures,
    cover_sentences,
    learning_figures,
    learning_sentences,
    status,
)
from covgame.targets.reaching import reachable_rows
from covgame.types import IntArray, Policy

if TYPE_CHECKING:
    from covgame.runs.coverage import Coverage
    from covgame.runs.learning_run import LearningRun
    from covgame.runs.run import Run

LARGE = 20_000
"""Above so many cells no linear program is solved for a page."""

DULL = ("run", "covered", "asked", "guarantee", "failed")
"""Facts that stand elsewhere on the page."""

OWN_REWARD = "The policy drawn is the best on the learnt model, for the environment's own reward."


def page_of(run: Run, *, running: bool = False, trail: Trail | None = None) -> PageData:
    """The page of a run as it is now.

    Args:
        run: Played here, or loaded from its folder.
        running: It is being played: then nothing is computed that takes long.
        trail: Points that were noted on the way, where nobody can read them from files.
    """
    ending = Ending.of(run, running=running)
    word, tone = status(run, ending)
    if _is_coverage(run):
        bound = _bound(run, solve=not running)
        sentences, figures = cover_sentences(run, ending, bound), cover_figures(run, bound)
        chart = coverage_chart(run, trail, bound)
        dearest, learnt = ([], False) if running else _dearest(run)
        drawn = state_map(_coverage_seen(run))
    else:
        learner: LearningRun = run  # type: ignore[assignment]
        sentences, figures = learning_sentences(learner, ending), learning_figures(learner)
        chart, dearest, learnt = bound_chart(learner), [], False
        drawn = _learning_map(learner, running=running)
    return PageData(
        learner_or_cover(run), run.environment.name, word, tone, sentences, figures, chart, drawn,
        listings_of(run, dearest, learnt=learnt), _facts(run), command_of(run), _made_with(run),
    )  # fmt: skip


def learner_or_cover(run: Run) -> Any:
    """``cover``, ``explore`` or ``identify``."""
    return run.manifest().get("command", "cover")


def _is_coverage(run: Run) -> TypeGuard[Coverage]:
    return run.FINISHED == "covered"


def _facts(run: Run) -> list[list[str]]:
    facts = [[label, value] for label, value in run.facts() if label not in DULL]
    if not _is_coverage(run):
        facts += [[label, value] for label, value in run.facts() if label == "guarantee"]
    facts.append(["seed", str(run.settings.seed)])
    return facts


def _made_with(run: Run) -> str:
    """Versions, as the run's folder says them; those of now if it has none."""
    from covgame.runs.saving import versions

    found = run.folder.manifest.get("versions") if run.folder else None
    known = found if isinstance(found, dict) else versions()
    order = sorted(known, key=lambda name: name != "covgame")
    return ", ".join(f"{name} {known[name]}" for name in order)


# -------------------------------------------------------------------------- what it costs


def _bound(run: Coverage, *, solve: bool) -> float | None:
    """phi*, if it is known or quickly computed; or as the run's answer has it."""
    if "min_episodes" in vars(run) or (solve and not run.is_large):
        return run.bound_at_hand
    saved = run.folder.load_result().get("min_episodes") if run.folder and solve else None
    usable = isinstance(saved, int | float) and not isinstance(saved, bool)
    return float(saved) if usable and math.isfinite(saved) and saved >= 0 else None  # type: ignore[arg-type]


def _dearest(run: Coverage) -> tuple[list[tuple[Row, float]], bool]:
    """(requirements whose next visit costs most, whether by what was learnt)."""
    if run.environment.model is not None:
        return run.dearest(4 * SHOWN), False
    if run.target.shape.cells > LARGE or not run.counts.n_episodes or run.transitions is not None:
        return [], True
    kernel = run.counts.kernel()
    within = reachable_rows(run.target, kernel)
    part = run.target.remainder(within, run.target.counts)
    try:
        return (min_flow(kernel, part).dearest(4 * SHOWN) if len(part) else []), True
    except CovgameError:  # past double precision, for one
        return [], True


# -------------------------------------------------------------------------- what is drawn


def _coverage_seen(run: Coverage) -> Seen:
    target = run.target
    missing = np.maximum(target.counts - run.game.collected, 0.0)
    return _seen(run, target.rows, target.counts, missing, None)


def _learning_map(run: LearningRun, *, running: bool) -> StateMap | None:
    nothing = np.zeros(0)
    policy, note = (None, "") if running else _policy(run)
    rows = np.zeros((0, 3), dtype=np.int64)
    return state_map(_seen(run, rows, nothing, nothing, policy), note)


def _policy(run: LearningRun) -> tuple[Policy | None, str]:
    """What to draw as arrows: the policy that was found, or planned on what was learnt."""
    if not run.counts.n_episodes:
        return None, ""
    found: Policy | None = getattr(run, "policy", None)
    if found is not None:
        return found, ""
    return run.model.plan(), OWN_REWARD


def _seen(run: Run, rows: IntArray, counts: Any, missing: Any, policy: Policy | None) -> Seen:
    states = _drawn_states(run, rows)
    return Seen(
        run.names, run.counts.visits, states, rows, counts, missing, run.counts.starts,
        _links(run) if len(states) <= MOST_NODES else frozenset(), policy,
    )  # fmt: skip


def _drawn_states(run: Run, rows: IntArray) -> IntArray:
    """All that exist; of those that are discovered, not those in which episodes only end."""
    known = min(run.n_states, run.counts.shape.states)
    if not run.source.discovers_states:
        return np.arange(known, dtype=np.int64)
    there = run.counts.visits[:, :known].any(axis=(0, 2))
    asked = rows[:, 1]
    there[asked[(asked >= 0) & (asked < known)]] = True
    return np.flatnonzero(there)


def _links(run: Run) -> frozenset[tuple[int, int]]:
    """Which states were seen to follow which."""
    kernel, actions = run.counts.kernel(), run.counts.shape.actions
    links: set[tuple[int, int]] = set()
    for stage in dict.fromkeys(kernel.stages) if kernel.stationary else kernel.stages:
        rows = np.repeat(np.arange(len(stage.start) - 1), np.diff(stage.start))
        links.update(zip((rows // actions).tolist(), stage.next_state.tolist(), strict=True))
    return frozenset(link for link in links if link[1] >= 0)
