"""The view of a run: its summary for terminals and notebooks, and all that its page shows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from covgame.errors import CovgameError, Row
from covgame.flow.min_flow import min_flow
from covgame.mdp import dp
from covgame.names import Names
from covgame.planning import episodes, kind_of_rows, number
from covgame.report.charts import Trail, bound_chart, coverage_chart
from covgame.report.commands import command_of
from covgame.report.maps import MOST_NODES, MapData, links_in, state_map
from covgame.report.view import (
    Facts,
    Figure,
    StateMap,
    Table,
    Tone,
    View,
    assumed,
    kind_of,
    listed,
    percent,
    table,
    versions_in_words,
)
from covgame.targets.discovered import TRIES, SeenLabels
from covgame.targets.resolve import reachable_rows
from covgame.types import ANY, IntArray

if TYPE_CHECKING:
    from covgame.runs.coverage import Coverage
    from covgame.runs.pac_run import LearningRun
    from covgame.runs.run import Run

Lacking = Sequence[tuple[Row, float]]
"""Rows of a target and the visits that they lack."""

LARGE = 20_000
"""Above so many cells no linear program is solved for a page."""

MOST = 60
"""Rows of a table."""

MOST_PRICES = 12
MOST_NAMED = 10
MOST_KINDS = 5
"""Kinds of failures in a summary."""

WIDEST_MAP = 16
LONGEST_PATH, LONGEST_PATH_ON_PAGE = 20, 40

ELSEWHERE_ON_PAGE = ("run", "covered", "asked", "minimum", "lower bound", "failed")
"""Facts that a page shows in its sentences and tables."""

BEST_ON_MODEL = (
    "The policy drawn is the best on the learnt model, for the environment's own reward."
)
MAPPED = "each state of the map may stand for many real ones; a visit to any of them counts"
UNKNOWN_MINIMUM = "The minimum is unknown: transition probabilities are not available"

UNIFORM = re.compile(r"uniform:([0-9.e+]+)(?:/(\w+))?")
PROPORTIONAL = re.compile(r"proportional:([0-9.e+]+)")
EACH = {
    "": "every action in every state at every stage",
    "cell": "every action in every state at every stage",
    "pair": "every action in every state, at any stage,",
    "state": "every state, at any stage,",
    "transition": "every transition (a state, an action and the next state)",
}


def summary_of(run: Any) -> View:
    """What terminals and notebooks show of a run."""
    return (_coverage_summary if kind_of(run) == "cover" else _learning_summary)(
        run, Ending.of(run)
    )


def figure_view(run: Any) -> View:
    """The summary with what a picture of the run shows."""
    if kind_of(run) == "cover":
        grouped = len(run.target) and run.target.of_group.all()
        drawn = _group_map(run) if grouped else _coverage_map(run)
        return replace(summary_of(run), state_map=drawn)
    drawn = _policy_map(run) if kind_of(run) == "identify" else None
    return replace(summary_of(run), chart=bound_chart(run), state_map=drawn)


def page_of(run: Any, *, running: bool = False, trail: Trail | None = None) -> View:
    """What the page of a run shows.

    Args:
        run: Played here, or loaded from its folder.
        running: It is being played.
        trail: Points that were recorded while it was played, for a page that is rewritten during
            the run: nothing that takes long is computed then.
    """
    ending = Ending.of(run, running=running)
    if kind_of(run) == "cover":
        page = _coverage_page(run, ending, trail)
    else:
        page = replace(
            _learning_summary(run, ending),
            tables=[*_failures(run), _parts(run)],
            chart=bound_chart(run),
            state_map=None if running else _policy_map(run),
        )
    facts = [(label, value) for label, value in page.facts if label not in ELSEWHERE_ON_PAGE]
    facts.append(("seed", str(run.settings.seed)))
    return replace(page, facts=facts, command=command_of(run), made_with=_made_with(run))


def _made_with(run: Run) -> str:
    """Versions, as the run's folder says them; those of now if it has none."""
    from covgame.runs.run import versions

    found = run.folder.config.get("versions") if run.folder else None
    return versions_in_words(found if isinstance(found, dict) else versions())


# ----------------------------------------------------------------------------- any run


@dataclass(frozen=True)
class Ending:
    """How a run ended, as far as it did."""

    reason: str | None  # as ``run.stopped``; None while it is played, or if it was killed
    failure: str | None
    running: bool = False  # now, in this process

    @classmethod
    def of(cls, run: Run, *, running: bool = False) -> Ending:
        """From the run itself, or else from the answer in its folder."""
        saved: dict[str, Any] = {}
        if run.stopped is None and run.folder is not None and not running:
            saved = run.folder.load_result()
        reason = run.stopped or saved.get("stopped") or saved.get("stopped_by")
        failure = run.failure or saved.get("failure")
        return cls(reason and str(reason), failure and str(failure), running)

    @property
    def words(self) -> str:
        """Why the run is not done, as a sentence."""
        if self.running:
            return "It is being played now."
        if self.failure:
            return f"It stopped: {self.failure}."
        return {
            "budget": "It stopped when its budget of episodes was spent.",
            "interrupted": "It was interrupted; resume it.",
            "unseen": "It stopped because a state of the target never appeared.",
            None: "Unfinished: still running elsewhere, or interrupted; resume it.",
        }.get(self.reason, "It stopped before it was done.")

    def status(self, run: Run) -> tuple[str, Tone]:
        """A word or two for the top of the page, and its colour."""
        if self.running and not run.done:
            return "running", "running"
        if self.failure:
            return "failed", "bad"
        if run.done and self.reason != "unseen":
            return ("covered" if run.FINISHED == "covered" else "certified"), "good"
        return {
            "budget": "budget spent",
            "interrupted": "interrupted",
            "unseen": "state never seen",
        }.get(self.reason or "", "not finished"), "open"


def _size(run: Run) -> str:
    """``30 stages, 16 states, 4 actions``."""
    horizon, _, actions = run.counts.shape.hsa
    seen = " seen" if run.source.discovers_states else ""
    return f"{horizon:,} stages, {run.n_states:,} states{seen}, {actions:,} actions"


def _steps_played(run: Run) -> int:
    return int(run.counts.visits.sum()) - sum(one.steps for one in run.given)


def _played(run: Run) -> Figure:
    return Figure("episodes", number(run.n_episodes), f"{number(_steps_played(run))} steps")


def _given(run: Run) -> Facts:
    """Where visits came from, if not all were played."""
    if not run.given:
        return []
    parts = [
        f"{number(one.steps)} from {one.name} ({number(one.episodes)} episodes)"
        for one in run.given
    ]
    beyond = sum(one.left_out for one in run.given)
    skipped = f"; skipped {number(beyond)} steps beyond the last stage" if beyond else ""
    return [("visits", f"{', '.join(parts)}, {number(_steps_played(run))} played{skipped}")]


def _failed(run: Run) -> Facts:
    """Each kind of failure with its shortest path, and what became of the episodes."""
    kinds = run.failures.distinct()
    facts = []
    for one, times in kinds[:MOST_KINDS]:
        often = "once" if times == 1 else f"{times:,} times"
        shown = 0 < len(one.path) <= LONGEST_PATH
        way = f"; the way there: {one.way(run.names)}" if shown else ""
        where = one.words(run.names)
        facts.append(("failed", f"{where} ({often}, {one.then}): {one.error}{way}"))
    if len(kinds) > MOST_KINDS:
        facts.append(("", f"and {len(kinds) - MOST_KINDS:,} more kinds, which --json lists"))
    return facts


def _failure_figure(run: Run) -> list[Figure]:
    if not len(run.failures):
        return []
    kinds = len(run.failures.distinct())
    note = "of one kind" if kinds == 1 else f"of {kinds:,} kinds"
    return [Figure("failures", f"{len(run.failures):,}", note)]


def _failures(run: Run) -> list[Table]:
    kinds, names = run.failures.distinct(), run.names
    if not kinds:
        return []
    rows = []
    for one, times in kinds:
        way = f"{len(one.path):,} steps"
        if len(one.path) <= LONGEST_PATH_ON_PAGE:
            way = one.way(names) or one.words(names)
        rows.append([f"{times:,}", one.words(names), one.error, one.then, way])
    heads = ["times", "where", "what it said", "the episode was", "shortest way there"]
    title = "Failures of the environment"
    return [table("failures", title, heads, rows, most=MOST, wide=True)]


# ------------------------------------------------------------------------------- cover


def _coverage_summary(run: Coverage, ending: Ending, minimum: Minimum | None = None) -> View:
    minimum = _minimum(run) if minimum is None else minimum
    bound = None if minimum is None else _minimum_in_words(run, minimum)
    extent = _extent(run)
    asked = asked_in_words(run.request, len(run.target))
    outcome = f"{episodes(run.n_episodes)} covered {extent}."
    if not run.covered:
        outcome += f" {ending.words}"
    if bound is not None:
        judgement = f"The minimum is {bound}."
    elif run.environment.model is None:
        judgement = f"{UNKNOWN_MINIMUM}."
    else:
        why = " in a world this large" if run.is_large else ""
        judgement = f"The minimum (phi*) was not computed{why}."
    word, tone = ending.status(run)
    return View(
        "cover",
        run.environment.name,
        word,
        tone,
        [f"The task was to {asked} in {run.environment.name} ({_size(run)}).", outcome, judgement],
        _coverage_figures(run, minimum),
        _coverage_facts(run, extent, minimum, bound),
        [*_visits(run), _missing(run)],
    )


def _coverage_page(run: Coverage, ending: Ending, trail: Trail | None) -> View:
    minimum = _minimum(run, solve=trail is None)
    dearest, learnt = ([], False) if trail and minimum is None else _dearest(run)
    rule = None
    if minimum is not None and minimum.lower:
        rule = (minimum.lower, minimum.name)
    return replace(
        _coverage_summary(run, ending, minimum),
        tables=[
            *_prices(run.names, dearest, learnt=learnt),
            _missing(run),
            *_unreachable(run),
            *_aliased(run),
            *_failures(run),
        ],
        chart=coverage_chart(run, trail, rule),
        state_map=_coverage_map(run),
    )


def asked_in_words(request: str, rows: int) -> str:
    """What a target asks for: ``visit every state, at any stage, 50 times``."""
    uniform, proportional = UNIFORM.fullmatch(request), PROPORTIONAL.fullmatch(request)
    if uniform is not None and (uniform[2] or "") in EACH:
        count = float(uniform[1])
        times = "once" if count == 1 else f"{number(count)} times"
        return f"visit {EACH[uniform[2] or '']} {times}"
    if proportional is not None:
        times = number(float(proportional[1]))
        return f"visit everything {times} times as often as the best policy for it does per episode"
    if request.endswith(".json"):
        return f"visit what {request} lists, {rows:,} requirements in all"
    return f"meet {rows:,} requirements on visits"


def _extent(run: Coverage) -> str:
    """How much of the target is covered."""
    if run.transitions is not None:
        total, lacking = len(run.transitions), len(run.uncovered_transitions)
        times = number(getattr(run.growth.request, "count", 0.0))
        kind = "that can happen" if run.environment.model is not None else "seen so far"
        if run.covered:
            return f"all {total:,} transitions {kind}, {times} times each"
        return f"{total - lacking:,} of {total:,} transitions {kind}; each is wanted {times} times"
    rows, wanted = kind_of_rows(run.target), number(run.target.counts.sum())
    if run.covered and run.unreachable and not len(run.target):
        return "nothing: all rows are below --min-reach"
    if run.covered:
        return f"all {len(run.target):,} {rows}, {wanted} visits"
    uncovered = run.uncovered
    missing = sum(missing for _, missing in uncovered)
    visits = "1 visit is missing" if missing == 1 else f"{number(missing)} visits are missing"
    total = len(run.target)
    if isinstance(run.growth.request, SeenLabels):
        rows, total = "rows", len(run.growth.request.rows)
    return f"{max(total - len(uncovered), 0):,} of {total:,} {rows}; {visits}"


@dataclass(frozen=True)
class Minimum:
    """The fewest episodes that any method needs on average, or bounds on that."""

    lower: float
    upper: float  # infinite if it is not known
    is_exact: bool

    @property
    def name(self) -> str:
        """What the lower bound is called."""
        return "phi*" if self.is_exact else "lower bound on phi*"


def _minimum(run: Coverage, *, solve: bool = True) -> Minimum | None:
    """phi* or a bound, if it is known or quickly computed; else as the run's answer has it."""
    if run.has_bound or (solve and not run.is_large):
        if run.bound_at_hand is None:
            return None
        upper = run.lower_bound.attained if run.lower_bound else math.inf
        return Minimum(run.bound_at_hand, upper, run.has_exact_bound)
    if not solve or run.folder is None:
        return None
    saved: Any = run.folder.load_result().get("min_episodes")
    if isinstance(saved, bool) or not isinstance(saved, int | float):
        return None
    known = math.isfinite(saved) and saved >= 0
    return Minimum(float(saved), math.inf, run.has_exact_bound) if known else None


def _minimum_in_words(run: Coverage, minimum: Minimum) -> str:
    """``115,080 episodes on average (phi*); this run took 1.023 times as many``."""
    rest = " for what the given data lack" if run.given else ""
    ratio = run.n_episodes / minimum.lower if run.covered and minimum.lower else None
    if minimum.is_exact:
        words = f"{episodes(minimum.lower)} on average{rest} (phi*)"
        if ratio is None:
            return words
        luck = "; a single run may fall below an average" if ratio < 1 else ""
        return f"{words}; this run took {ratio:.3f} times as many{luck}"
    words = f"at least {episodes(minimum.lower)} on average{rest}"
    if math.isfinite(minimum.upper):
        between = f"{number(minimum.lower)} to {number(minimum.upper)} on average"
        words = f"{between}{rest} (bounds on phi*)"
    if ratio is not None:
        words += f"; this run took at most {ratio:.3f} times the minimum"
    if run.is_large and not run.settings.exact_bound:
        words += "; --exact-bound computes phi* itself"
    return words


def _coverage_facts(
    run: Coverage, extent: str, minimum: Minimum | None, bound: str | None
) -> Facts:
    name = run.environment.name
    facts = [("environment", f"{name}: {_size(run)}"), ("covered", extent), *_about_states(run)]
    how = f"preset {run.settings.preset}, seed {run.settings.seed}"
    if run.n_looks:
        planned = number(run.n_episodes - run.n_looks)
        how = f"{planned}, then {number(run.n_looks)} for a second look; {how}"
    facts += [("episodes", f"{number(run.n_episodes)} ({how})"), *_given(run)]
    if bound is not None and minimum is not None and minimum.lower:
        facts.append(("minimum" if minimum.is_exact else "lower bound", bound))
    elif minimum is None and run.min_episodes_estimate:
        facts.append(("estimate", _estimate(run, run.min_episodes_estimate)))
    if run.stopped == "unseen":
        labels = dict.fromkeys(str(row[1]) for row, _ in run.uncovered if isinstance(row[1], str))
        searched = f"every action of every state seen was tried {TRIES} times"
        facts.append(("not found", f"{', '.join(labels)} ({searched})"))
    facts += [*_about_map(run), *_failed(run)]
    if run.growth.cut:
        facts.append(("cut off", f"{len(run.growth.cut):,} rows reached by avoided actions only"))
    if run.unreachable:
        proved = " (proved from the data)" if run.growth.rare else ""
        facts.append(("skipped", f"{len(run.unreachable):,} rows below --min-reach{proved}"))
    return [*facts, ("run", str(run.path))] if run.path else facts


def _estimate(run: Coverage, least: float) -> str:
    rest = ", for what the given data lack" if run.given else ""
    planned = run.n_episodes - run.n_looks
    took = "the planned episodes were" if run.n_looks else "this run took"
    return (
        f"about {number(float(f'{least:.2g}'))} episodes at least on the learnt model{rest}; "
        f"{took} {planned / least:.1f} times as many (an estimate, not a bound)"
    )


def _about_states(run: Coverage) -> Facts:
    """How many states were seen, and how many pairs the action mask excludes."""
    facts = []
    known = run.environment.model is not None
    if run.growth.request is not None and not known:
        seen, possible = run.states_seen, run.states_possible
        said = f"{seen:,}"
        if possible is not None:
            kind = "cells of the state map" if run.is_mapped else "values of the observation space"
            said += f" of {possible:,} {kind}"
        if len(run.counts.visits) > 1:
            said += f" ({int((run.counts.visits.sum(axis=2) > 0).sum()):,} stage-state pairs)"
        if run.n_states > seen:
            said += f"; in {run.n_states - seen:,} more, episodes only ended"
        if seen != possible:
            said += "; states never visited are not counted"
        facts.append(("states seen", said))
    if run.masked_pairs is not None:
        excluded, pairs = run.masked_pairs
        where = "reachable states" if known else "the states seen"
        share = f"excluded {excluded:,} of {pairs:,} state-action pairs"
        facts.append(("action mask", f"{share} of {where} ({excluded / pairs:.0%})"))
    return facts


def _about_map(run: Coverage) -> Facts:
    """What is to be said of states that are discovered, or made by a map."""
    facts = []
    look = run.growth.second_look
    if look is not None and look.episodes:
        found = [
            f"{count:,} {what}{'' if count == 1 else 's'}"
            for count, what in ((look.new_states, "new state"), (look.new_rows, "new row"))
            if count
        ]
        looked = f"{episodes(look.episodes)} looked for further states"
        facts.append(("second look", f"{looked} and found {listed(found) or 'nothing new'}"))
    if run.is_mapped:
        facts.append(("map", MAPPED))
    named = [run.names.state(state) for state, _ in run.aliased]
    if named:
        more = f" and {len(named) - MOST_NAMED:,} more" if len(named) > MOST_NAMED else ""
        one = len(named) == 1
        states = "1 state behaves" if one else f"{len(named):,} states behave"
        they, them = ("it was", "it") if one else ("they were", "them")
        said = f"{states} differently depending on how {they} reached"
        shown = f"{', '.join(named[:MOST_NAMED])}{more}"
        facts.append(("aliased", f"{said}: {shown}; split {them} (--states)"))
    return [*facts, ("warning", run.warning)] if run.warning else facts


def _coverage_figures(run: Coverage, minimum: Minimum | None) -> list[Figure]:
    total, lacking = len(run.target), len(run.uncovered)
    done = max(total - lacking, 0)
    share = percent(done / total if total else 0.0)
    figures = [_played(run), Figure("covered", share, f"{done:,} of {total:,}")]
    if minimum is not None:
        note = minimum.name
        if minimum.lower and run.covered:
            note = f"{note}; this run: {run.n_episodes / minimum.lower:.3f} times"
        figures.append(Figure("minimum on average", number(minimum.lower), note))
    possible = run.states_possible
    if run.environment.model is None and (run.source.discovers_states or possible is not None):
        note = "more may exist" if possible is None else f"of {possible:,} possible"
        figures.append(Figure("states seen", f"{run.states_seen:,}", note))
    if run.masked_pairs is not None:
        excluded, pairs = run.masked_pairs
        figures.append(Figure("masked pairs", f"{excluded:,}", f"of {pairs:,}, by the action mask"))
    if run.n_looks:
        figures.append(Figure("second look", number(run.n_looks), "episodes looking for states"))
    if run.given:
        steps = sum(one.steps for one in run.given)
        figures.append(Figure("episodes given", number(run.n_given), f"{number(steps)} steps"))
    return figures + _failure_figure(run)


def _visits(run: Coverage) -> list[Table]:
    """The visits of every state of a known grid that is not too wide."""
    model = run.environment.model
    if model is None or model.names.grid is None or model.names.grid[1] > WIDEST_MAP:
        return []
    visits = run.counts.visits.sum(axis=(0, 2)).reshape(model.names.grid)
    width = len(f"{visits.max():,}")
    rows = [[f"{f'{n:,}' if n else '.':>{width}}" for n in row] for row in visits.tolist()]
    title = "Visits (all stages and actions)"
    return [Table("visits", title, "", [], rows, numeric=visits.shape[1])]


def _missing(run: Coverage) -> Table:
    names = run.names
    if run.transitions is not None:
        rows = [[number(n), names.transition(move)] for move, n in run.uncovered_transitions]
        known = {move[:2] for move, _ in run.transitions}
        untried = [row for row, _ in run.uncovered if row[1:] not in known]
        rows += [["", f"{names.describe(row)}: not tried yet"] for row in untried]
        more = 0
    else:
        rows = [[number(n), names.describe(row)] for row, n in run.uncovered[:MOST]]
        more = len(run.uncovered) - len(rows)
    empty = "Nothing: everything has the visits that were asked for."
    if not run.covered:
        empty = "Nothing is asked for yet: no state has been seen."
    heads, note = ["visits", "where"], "Most visits first."
    found = table("missing", "Still missing", heads, rows, most=MOST, note=note, empty=empty)
    return replace(found, more=found.more + more)


def _dearest(run: Coverage) -> tuple[Lacking, bool]:
    """(requirements whose next visit costs most, whether that is judged by the learnt model)."""
    if run.environment.model is not None:
        return run.dearest(4 * MOST_PRICES), False
    if run.target.shape.cells > LARGE or not run.counts.n_episodes or run.transitions is not None:
        return [], True
    kernel = run.counts.kernel()
    part = run.target.remainder(reachable_rows(run.target, kernel), run.target.counts)
    try:
        return (min_flow(kernel, part).dearest(4 * MOST_PRICES) if len(part) else []), True
    except CovgameError:  # past double precision, for one
        return [], True


def _prices(names: Names, dearest: Lacking, *, learnt: bool) -> list[Table]:
    """What one more visit costs; actions of a state that cost the same share a line."""
    if not dearest:
        return []
    lines: dict[tuple[int | None, int | str, str], list[int | None]] = {}
    for (stage, state, action), price in dearest:
        lines.setdefault((stage, state, number(price)), []).append(action)
    rows = []
    for (stage, state, cost), actions in list(lines.items())[:MOST_PRICES]:
        where = names.describe((stage, state, None))
        called = [names.action(action) for action in actions if action is not None]
        rows.append([cost, f"{where} / {listed(called, 'or')}" if called else where])
    note = "Episodes that one more required visit costs the best method, at least."
    if learnt:
        note += " Judged by what the run has learnt."
    heads = ["episodes", "one more visit of"]
    return [table("dearest", "What makes it expensive", heads, rows, most=MOST_PRICES, note=note)]


def _unreachable(run: Coverage) -> list[Table]:
    rows = [
        ["0" if not bound else f"{bound:.2g}", run.names.describe(row)]
        for row, bound in run.unreachable
    ]
    model = run.environment.model
    if model is None:
        note = (
            "Proved from the data: each of these is reached less often than its bound, all "
            f"together wrong with probability {run.settings.delta:g} at most."
        )
        empty = "Nothing was found to be out of reach. The target concerns states that were seen."
    else:
        note = "Exact: this follows from the environment's table of transitions."
        reachable = dp.reachable(model.transitions)
        reached, every = int(reachable.sum()), reachable.size
        empty = "Nothing: every state can be reached at every stage. That is exact."
        if reached < every:
            empty = (
                f"Some policy reaches {reached:,} of the {every:,} combinations of stage and "
                "state. The others are not asked for. That is exact: it follows from the table "
                "of transitions."
            )
    heads, title = ["at most", "where"], "Out of reach"
    found = [table("unreachable", title, heads, rows, most=MOST, note=note, empty=empty)]
    cut = [[run.names.describe(row)] for row in run.growth.cut]
    if cut:
        note = "Only actions that fail, and are avoided, lead there."
        found.append(table("cut_off", "Cut off", ["where"], cut, most=MOST, note=note, numeric=0))
    return found


def _aliased(run: Coverage) -> list[Table]:
    rows = [[run.names.state(state)] for state, _ in run.aliased]
    if not rows:
        return []
    note = "What follows these states depends on how they were reached: split them (--states)."
    title = "Aliased states"
    return [table("aliased", title, ["state"], rows, most=MOST, note=note, numeric=0)]


def _coverage_map(run: Coverage) -> StateMap | None:
    target = run.target
    missing = np.maximum(target.counts - run.collected, 0.0)
    return state_map(_map_data(run, target.rows, target.counts, missing))


def _group_map(run: Coverage) -> StateMap | None:
    """A target about groups: what was collected of each, as if groups were states."""
    target, collected = run.target, run.collected
    groups = np.arange(len(target))
    names = Names([str(row[1]) for row in target.as_rows(groups)])
    rows = np.column_stack([np.full_like(groups, ANY), groups, np.full_like(groups, ANY)])
    visits = collected.astype(np.int64)[None, :, None]
    missing = np.maximum(target.counts - collected, 0.0)
    nothing = np.zeros_like(groups)
    return state_map(MapData(names, visits, groups, rows, target.counts, missing, nothing))


def _map_data(run: Run, rows: IntArray, counts: Any, missing: Any, policy: Any = None) -> MapData:
    """All states that exist; of discovered ones, not those in which episodes only end."""
    visits = run.counts.visits
    known = min(run.n_states, run.counts.shape.states)
    states = np.arange(known, dtype=np.int64)
    if run.source.discovers_states:
        there = np.array(visits[:, :known].any(axis=(0, 2)))
        asked = rows[:, 1]
        there[asked[(asked >= 0) & (asked < known)]] = True
        states = np.flatnonzero(there)
    links = links_in(run.counts.kernel()) if len(states) <= MOST_NODES else frozenset()
    starts = run.counts.starts
    return MapData(run.names, visits, states, rows, counts, missing, starts, links, policy)


# ----------------------------------------------------------------- explore and identify


def _learning_summary(run: Any, ending: Ending) -> View:
    epsilon, delta = run.settings.epsilon, run.settings.delta
    name, played = run.environment.name, episodes(run.n_episodes)
    asked = f"The task was to learn {run.TITLE} (epsilon {epsilon:g}) in {name} ({_size(run)})."
    conclusions = _conclusions(run)
    if ending.running:
        bound = _last_bound(run)
        proved = "Nothing is proved yet."
        if bound is not None:
            proved = f"What is proved so far: at most {number(bound)} is lost."
        sentences = [asked, f"{played} were played so far.", proved]
    else:
        found = f"After {played}, {conclusions.sentence}."
        if not run.done:
            found += f" {ending.words}"
        rests = "So there is no guarantee yet."
        if run.bounded and run.guarantee.startswith("certified"):
            rests = (
                f"That is wrong with probability {delta:g} at most, whatever the environment is."
            )
        elif run.bounded:
            rests = f"Its guarantee: {run.guarantee}."
        sentences = [asked, found, rests]
    how = "drawn as visit counts" if run.by_counts else "episode by episode"
    facts = [
        ("environment", f"{name}: {_size(run)}"),
        ("episodes", f"{number(run.n_episodes)} ({how}, seed {run.settings.seed})"),
        *_given(run),
        ("asked", f"{run.TITLE}, epsilon {epsilon:g}"),
        *conclusions.facts,
        ("guarantee", run.guarantee),
    ]
    floor, times = (None, None) if ending.running else (run.floor, run.times_floor)
    if floor:
        least = f"{number(floor)} episodes on average for any method that also proves its answer"
        took = "" if times is None else f"; this run took {number(times)} times that"
        facts.append(("floor", least + took))
    if run.bounded:
        facts += assumed(run.assumptions)
    facts += _failed(run)
    if run.parting is not None:
        after = f"kept apart since episode {number(run.parting.episodes)}: {run.parting.why}"
        advice = "with --stage-dependent from the start it would take fewer episodes"
        facts.append(("stages", f"{after}; {advice}"))
    if run.path:
        facts.append(("run", str(run.path)))
    word, tone = ending.status(run)
    figures = _learning_figures(run, ending)
    return View(kind_of(run), name, word, tone, sentences, figures, facts, [_parts(run)])


@dataclass(frozen=True)
class Conclusions:
    """What a learning run has proved, as facts and as half a sentence."""

    facts: Facts
    sentence: str


def _conclusions(run: Any) -> Conclusions:
    found = run.findings()
    if kind_of(run) == "explore":
        error = found["certified_error"]
        if error is None:
            return Conclusions([("error", "not bounded yet")], "nothing is proved yet")
        words = f"at most {number(error)} for any reward in [0, 1]"
        bound = _last_bound(run)
        how = ""
        if (
            run.settings.preset == "paper"
            and bound is not None
            and error < run.counts.shape.horizon
        ):
            how = f" (half of the last bound, {number(bound)}, and half of epsilon)"
        return Conclusions([("error", words + how)], f"a policy planned on it loses {words}")
    if found["certified_gap"] is None:
        return Conclusions([("gap", "not bounded yet")], "nothing is proved yet")
    gap, low, high = (
        number(found[name]) for name in ("certified_gap", "value_lower", "value_upper")
    )
    kind = "stochastic" if run.policy.is_stochastic else "deterministic"
    where = f"; covgame policy {run.path} prints it" if run.path else ", in run.policy"
    facts = [
        ("policy", f"{kind}{where}"),
        ("value", f"at least {low}; no policy has more than {high}"),
        ("gap", f"at most {gap}"),
    ]
    return Conclusions(
        facts,
        f"the policy found earns at least {low} an episode, and no policy more than {high}: it "
        f"loses at most {gap}",
    )


def _last_bound(run: LearningRun) -> float | None:
    """What was proved when the last part was finished."""
    bounds = [phase.bound for phase in run.phases if phase.bound is not None]
    return bounds[-1] if bounds and math.isfinite(bounds[-1]) else None


def _learning_figures(run: LearningRun, ending: Ending) -> list[Figure]:
    found: dict[str, Any] = {} if ending.running else run.findings()
    found = found or {"certified_gap": _last_bound(run)}
    bound = found.get("certified_error", found.get("certified_gap"))
    label = "certified error" if kind_of(run) == "explore" else "certified gap"
    asked = f"asked for: {run.settings.epsilon:g}"
    figures = [_played(run), Figure(label, "none yet" if bound is None else number(bound), asked)]
    if found.get("value_lower") is not None:
        figures.append(Figure("earns at least", number(found["value_lower"]), "per episode"))
        figures.append(Figure("best at most", number(found["value_upper"]), "any policy"))
    if not ending.running and run.floor:
        times = run.times_floor
        note = "any method with a proof" if times is None else f"this run: {number(times)} times"
        figures.append(Figure("floor", number(run.floor), note))
    figures.append(Figure("may be wrong", f"{run.settings.delta:g}", "probability (delta)"))
    return figures + _failure_figure(run)


def _parts(run: LearningRun) -> Table:
    rows = [
        [
            number(phase.episodes),
            "" if phase.bound is None else f"{phase.bound:.4g}",
            f"{phase.wanted:,}",
            number(phase.largest) if phase.largest else "",
            phase.name,
        ]
        for phase in run.phases[::-1]
    ]
    heads = ["episodes", "bound", "cells", "most visits", "part"]
    note, empty = "What was played, the latest first.", "No part is finished yet."
    return table(
        "parts", "Parts", heads, rows, most=MOST, note=note, empty=empty, numeric=4, wide=True
    )


def _policy_map(run: Any) -> StateMap | None:
    """Visits, with the policy that was found, or the best one on what was learnt."""
    policy, note = None, ""
    if run.counts.n_episodes:
        policy = getattr(run, "policy", None)
        if policy is None:
            policy = run.model.plan()
            note = BEST_ON_MODEL
    nothing = np.zeros(0)
    data = _map_data(run, np.zeros((0, 3), dtype=np.int64), nothing, nothing, policy)
    return state_map(data, note)
