"""Runs as pages for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from covgame.game.growing import TRIES, SeenLabels
from covgame.game.progress import MIN_EPISODES, progress_of
from covgame.notebook import rows_table
from covgame.pac.tasks import PhaseReport
from covgame.plain import plain
from covgame.planning import episodes, kind_of_rows, number
from covgame.runs.run import Outlook

if TYPE_CHECKING:
    from covgame.game.growth import SecondLook
    from covgame.pac.homogeneity import Parting
    from covgame.runs.coverage import Coverage
    from covgame.runs.learning_run import LearningRun
    from covgame.runs.run import Run

Facts = list[tuple[str, str]]

MAPPED = "each state of the map may stand for many real ones; a visit to any of them counts"
"""What covering means where states are somebody's map of observations."""

SHOWN = 10
WIDEST_MAP = 16
PHASES_SHOWN = 12
KINDS_SHOWN = 5
LONGEST_WAY = 20


def as_lines(facts: Sequence[tuple[str, str]]) -> list[str]:
    """A label and what there is to say, line by line."""
    return [f"{label:<12} {plain(value)}" for label, value in facts]


def assumed_facts(assumptions: Sequence[str]) -> Facts:
    """What a claim rests on, one line each."""
    return [("assumed" if not place else "", one) for place, one in enumerate(assumptions)]


# --------------------------------------------------------------------------------- cover


def coverage_text(run: Coverage, most: int = SHOWN) -> str:
    """A run of ``cover``, with the first rows that are still missing."""
    lines = as_lines(coverage_facts(run)) + _map(run)
    missing = missing_lines(run)
    if missing and most:
        lines += ["", "Still missing" if run.transitions is not None else "Still missing (visits)"]
        lines += [f"  {line}" for line in missing[:most]]
        if len(missing) > most:
            lines.append(f"  and {len(missing) - most:,} more")
    return "\n".join(lines)


def missing_html(run: Coverage, most: int = SHOWN) -> str:
    """The first rows that are still missing, for a notebook."""
    if run.transitions is not None:
        lines = missing_lines(run)
        more = [f"and {len(lines) - most:,} more"] if len(lines) > most else []
        return rows_table("Still missing", [(line,) for line in (*lines[:most], *more)], ("where",))
    uncovered = run.uncovered
    rows = [(number(missing), run.names.describe(row)) for row, missing in uncovered[:most]]
    if len(uncovered) > most:
        rows.append(("", f"and {len(uncovered) - most:,} more"))
    return rows_table("Still missing", rows, ("visits", "where"))


def missing_lines(run: Coverage) -> list[str]:
    """What lacks visits, in words: cells and groups, or transitions."""
    names = run.names
    if run.transitions is None:
        return [f"{number(n):>10}  {names.describe(row)}" for row, n in run.uncovered]
    known = {move[:2] for move, _ in run.transitions}
    lines = [f"{names.transition(move)}: {number(n)} more" for move, n in run.uncovered_transitions]
    untried = [row for row, _ in run.uncovered if row[1:] not in known]
    return lines + [f"{names.describe(row)}: not tried yet" for row in untried]


def coverage_facts(run: Coverage) -> Facts:
    """What there is to say, as (label, value) lines for people."""
    H, _, A = run.target.shape.hsa
    facts = [
        ("environment", f"{run.environment.name}: {H} stages, {run.n_states} states, {A} actions"),
        ("covered", _extent(run)),
        *_about_states(run),
        ("episodes", f"{number(run.n_episodes)} ({_how(run)})"),
    ]
    facts += given_facts(run)
    if run.bound_at_hand:
        facts.append(("lower bound", _comparison(run)))
    elif run.min_episodes_estimate:
        facts.append(("estimate", _estimate(run, run.min_episodes_estimate)))
    never = [str(row[1]) for row, _ in run.uncovered if isinstance(row[1], str)]
    if run.stopped == "unseen":
        facts.append(("not found", f"{', '.join(dict.fromkeys(never))} ({_searched()})"))
    facts += _mapped(run)
    facts += failure_facts(run)
    if run.growth.cut:
        facts.append(("cut off", f"{len(run.growth.cut):,} rows reached by avoided actions only"))
    if run.unreachable:
        proved = " (proved from the data)" if run.growth.rare else ""
        facts.append(("left out", f"{len(run.unreachable):,} rows below --min-reach{proved}"))
    if run.path:
        facts.append(("run", str(run.path)))
    return facts


def failure_facts(run: Run) -> Facts:
    """What failed, each kind with its shortest way, and what became of the episodes."""
    kinds = run.failures.distinct()
    facts = []
    for one, times in kinds[:KINDS_SHOWN]:
        often = "once" if times == 1 else f"{times:,} times"
        shown = 0 < len(one.path) <= LONGEST_WAY
        way = f"; the way there: {one.way(run.names)}" if shown else ""
        where = one.words(run.names)
        facts.append(("failed", f"{where} ({often}, {one.then}): {one.error}{way}"))
    if len(kinds) > KINDS_SHOWN:
        facts.append(("", f"and {len(kinds) - KINDS_SHOWN:,} more, in failures.jsonl"))
    return facts


def given_facts(run: Run) -> Facts:
    """Where visits came from, if not all were played."""
    if not run.given:
        return []
    total = int(run.counts.visits.sum())
    played = total - sum(one.steps for one in run.given)
    from_data = [
        f"{number(one.steps)} from {one.name} ({number(one.episodes)} episodes)"
        for one in run.given
    ]
    cut = sum(one.left_out for one in run.given)
    beyond = f"; {number(cut)} steps beyond the last stage were left out" if cut else ""
    return [("visits", f"{', '.join(from_data)}, {number(played)} played{beyond}")]


def _extent(run: Coverage) -> str:
    if run.transitions is not None:
        return _transitions(run)
    rows = kind_of_rows(run.target)
    wanted = f"{number(run.target.counts.sum())} visits"
    if run.covered and run.unreachable and not len(run.target):
        return "nothing: all rows are below --min-reach"
    if run.covered:
        return f"all {len(run.target):,} {rows}, {wanted}"
    request = run.growth.request
    if isinstance(request, SeenLabels):
        listed = len(request.rows)
        return f"{listed - len(run.uncovered):,} of the {listed:,} rows asked for"
    done = len(run.target) - len(run.uncovered)
    return f"{done:,} of {len(run.target):,} {rows}; {wanted} are asked for in all"


def _transitions(run: Coverage) -> str:
    asked, lacking = len(run.transitions or []), len(run.uncovered_transitions)
    often = number(getattr(run.growth.request, "count", 0.0))
    kind = "that can happen" if run.environment.model is not None else "seen so far"
    if run.covered:
        return f"all {asked:,} transitions {kind}, {often} times each"
    return f"{asked - lacking:,} of {asked:,} transitions {kind}; each is asked for {often} times"


def _searched() -> str:
    return f"every action of every state seen was tried {TRIES} times"


def _about_states(run: Coverage) -> Facts:
    """How many states were seen, and how many pairs the action mask excludes."""
    facts: Facts = []
    known = run.environment.model is not None
    if run.growth.request is not None and not known:
        facts.append(("states seen", _seen(run)))
    if run.masked_pairs is not None:
        excluded, pairs = run.masked_pairs
        where = "reachable states" if known else "the states seen"
        share = f"excluded {excluded:,} of {pairs:,} state-action pairs"
        facts.append(("action mask", f"{share} of {where} ({excluded / pairs:.0%})"))
    return facts


def _seen(run: Coverage) -> str:
    places = int((run.counts.visits.sum(axis=2) > 0).sum())
    apart = f" ({places:,} counting stages apart)" if len(run.counts.visits) > 1 else ""
    if run.states_possible is None:
        return f"{run.states_seen:,}{apart}; states never visited are not counted"
    kind = "cells of the state map" if run.is_mapped else "values of the observation space"
    seen = f"{run.states_seen:,} of {run.states_possible:,} {kind}{apart}"
    if run.states_seen == run.states_possible:
        return seen
    return f"{seen}; those never visited are not counted"


def _mapped(run: Coverage) -> Facts:
    """What there is to say of states that are discovered, or made by a map."""
    facts: Facts = []
    if run.growth.second_look is not None and run.growth.second_look.episodes:
        facts.append(("second look", _found(run.growth.second_look)))
    if run.is_mapped:
        facts.append(("map", MAPPED))
    named = [run.names.state(state) for state, _ in run.aliased]
    if named:
        more = f" and {len(named) - SHOWN:,} more" if len(named) > SHOWN else ""
        one = len(named) == 1
        states = "1 state behaves" if one else f"{len(named):,} states behave"
        they, them = ("it was", "it") if one else ("they were", "them")
        said = f"{states} differently depending on how {they} reached"
        named = [f"{', '.join(named[:SHOWN])}{more}"]
        facts.append(("aliased", f"{said}: {named[0]}; split {them} (--states)"))
    return [*facts, ("warning", run.warning)] if run.warning else facts


def _found(look: SecondLook) -> str:
    found = [
        f"{n:,} {what if n == 1 else what + 's'}"
        for n, what in ((look.new_states, "new state"), (look.new_rows, "new row"))
        if n
    ]
    looked = f"{episodes(look.episodes)} looked for further states"
    return f"{looked} and found {' and '.join(found) or 'nothing new'}"


def _how(run: Coverage) -> str:
    how = f"preset {run.settings.preset}, seed {run.settings.seed}"
    if not run.n_looks:
        return how
    planned = run.n_episodes - run.n_looks
    return f"{number(planned)}, then {number(run.n_looks)} for a second look; {how}"


def _comparison(run: Coverage) -> str:
    least = number(run.min_episodes or 0.0)
    left = "what the data lack takes " if run.given else ""
    bound = f"{left}{least} on average"
    if run.min_episodes_is != "exact":
        most = run.least.attained if run.least else math.inf
        between = f"{left}{least} to {number(most)} on average (bounds on phi*)"
        said = [between if math.isfinite(most) else f"at least {bound}"]
        if run.covered:
            said.append(f"this run took at most {run.ratio:.3f} times the least possible")
        if run.is_large and not run.settings.exact_bound:
            said.append("--exact-bound computes phi* itself")
        return "; ".join(said)
    if not run.covered or run.ratio is None:
        return f"{bound} (phi*)"
    luck = "; a single run may fall below an average" if run.ratio < 1 else ""
    return f"{bound} (phi*); this run took {run.ratio:.3f} times as many{luck}"


def _estimate(run: Coverage, least: float) -> str:
    about = f"about {number(float(f'{least:.2g}'))} episodes at least, going by what was learnt"
    left = ", for what the data lacked" if run.given else ""
    planned = run.n_episodes - run.n_looks
    took = "the planned episodes were" if run.n_looks else "this run took"
    times = f"{took} {planned / least:.1f} times as many"
    return f"{about}{left}; {times} (an estimate, not a bound)"


def _map(run: Coverage) -> list[str]:
    """The visits of every state, drawn as a grid where the environment is one."""
    model = run.environment.model
    if model is None or model.names.grid is None or model.names.grid[1] > WIDEST_MAP:
        return []
    visits = run.counts.visits.sum(axis=(0, 2)).reshape(model.names.grid)
    words = [[f"{n:,}" if n else "." for n in row] for row in visits.tolist()]
    width = max(len(word) for row in words for word in row)
    drawn = ["  ".join(f"{word:>{width}}" for word in row) for row in words]
    return ["", "Visits (all stages and actions)", *(f"  {line}" for line in drawn)]


def coverage_outlook(run: Coverage) -> Outlook:
    """Episodes, what is left, and the hardest open row, in one line."""
    view = progress_of(run.game, pace=run.pace)
    parts = [episodes(run.n_episodes)]
    if view.rows_unvisited:
        parts.append(f"{view.rows_unvisited:,} of {view.rows:,} {_rows(run)} not reached")
    if not view.rows_open:
        parts.append("all covered so far; looking for further states")
    elif view.episodes_left is None:
        early = run.n_episodes < MIN_EPISODES
        parts.append("too early to estimate" if early else "no estimate possible yet")
    else:
        left = number(float(f"{math.ceil(view.episodes_left):.2g}"))
        growing = " for what was found so far, new states still appear" if view.is_growing else ""
        parts.append(f"about {left} to go{growing}")
    if view.hardest and view.episodes_left is not None:
        (row, missing), *_ = view.hardest
        parts.append(f"hardest: {run.names.describe(row)} ({number(missing)} more)")
    return Outlook(view.share_done, "; ".join(parts))


def _rows(run: Coverage) -> str:
    """What the rows of the target are called, in one word."""
    return {"state-action pairs": "pairs"}.get(rows := kind_of_rows(run.target), rows)


# ------------------------------------------------------------------- explore and identify


def learning_text(run: LearningRun) -> str:
    """A run of ``explore`` or ``identify``, with its last phases."""
    lines = as_lines(learning_facts(run))
    shown = run.phases[-PHASES_SHOWN:]
    if shown:
        lines += ["", f"  {'part':<32} {'episodes':>12} {'cells':>7} {'most':>10} {'bound':>8}"]
        skipped = len(run.phases) - len(shown)
        lines += [f"  ({skipped:,} parts before)"] if skipped else []
        lines += [f"  {describe(phase)}" for phase in shown]
    return "\n".join(lines)


def phases_html(run: LearningRun) -> str:
    """The last phases, for a notebook."""
    rows = [
        (
            phase.name,
            number(phase.episodes),
            f"{phase.wanted:,}",
            "" if phase.bound is None else f"{phase.bound:.4g}",
        )
        for phase in run.phases[-PHASES_SHOWN:]
    ]
    return rows_table("Parts, the last ones", rows, ("part", "episodes", "cells", "bound"))


def _floor(run: LearningRun, least: float) -> str:
    said = f"{number(least)} episodes on average for any method that also proves its answer"
    times = run.times_floor
    return said if times is None else f"{said}; this run took {number(times)} times that"


def learning_facts(run: LearningRun) -> Facts:
    """What there is to say, as (label, value) lines for people."""
    H, _, A = run.counts.shape.hsa
    how = "drawn as visit counts" if run.by_counts else "episode by episode"
    facts: Facts = [
        ("environment", f"{run.environment.name}: {H} stages, {run.n_states} states, {A} actions"),
        ("episodes", f"{number(run.n_episodes)} ({how}, seed {run.settings.seed})"),
        *given_facts(run),
        ("asked", f"{run.TITLE}, epsilon {run.settings.epsilon:g}"),
        *run.conclusions(),
        ("guarantee", run.guarantee),
    ]
    if run.floor:
        facts.append(("floor", _floor(run, run.floor)))
    if run.bounded:
        facts += assumed_facts(run.assumptions)
    facts += failure_facts(run)
    if run.parting is not None:
        facts.append(("stages", _parted(run.parting)))
    return [*facts, ("run", str(run.path))] if run.path else facts


def learning_outlook(run: LearningRun) -> Outlook:
    """Episodes, what is being played, and how far its bound is from what was asked for."""
    parts = [f"{number(run.n_episodes)} episodes"]
    if run.task is not None:
        parts.append(run.task.name)
    bounds = [phase.bound for phase in run.phases if phase.bound is not None]
    if bounds:
        parts.append(f"bound {bounds[-1]:.4g}, wanted {run.settings.epsilon:g}")
    return Outlook(_share_learnt(run, bounds), ", ".join(parts))


def _share_learnt(run: LearningRun, bounds: list[float]) -> float | None:
    """Episodes over those that are forecast; or by the bound, which falls with their root."""
    if run.forecast.needs:
        return run.n_episodes / max(run.forecast.episodes, run.n_episodes, 1)
    if not bounds:
        return None
    return min(1.0, run.settings.epsilon / max(bounds[-1], 1e-300)) ** 2


def _parted(parting: Parting) -> str:
    after = f"kept apart since episode {number(parting.episodes)}: {parting.why}"
    return f"{after}; with --stage-dependent from the start it would take fewer episodes"


def describe(phase: PhaseReport) -> str:
    """A phase in one line."""
    bound = "" if phase.bound is None else f"{phase.bound:.4g}"
    most = f"{number(phase.largest)}" if phase.largest else ""
    return f"{phase.name:<32} {number(phase.episodes):>12} {phase.wanted:>7,} {most:>10} {bound:>8}"
