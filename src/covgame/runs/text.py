"""Runs as pages for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covgame.pac.tasks import PhaseReport
from covgame.planning import number

if TYPE_CHECKING:
    from covgame.game.growth import ByChance
    from covgame.pac.homogeneity import Parting
    from covgame.runs.cover import Coverage
    from covgame.runs.learning_run import LearningRun

Facts = list[tuple[str, str]]

MAPPED = "its states are covered: one may stand for many real ones, and any of these will do"
"""What covering means where states are somebody's map of observations."""

SHOWN = 10
WIDEST_MAP = 16
PHASES_SHOWN = 12


def as_lines(facts: Sequence[tuple[str, str]]) -> list[str]:
    """A label and what there is to say, line by line."""
    return [f"{label:<12} {value}" for label, value in facts]


# --------------------------------------------------------------------------------- cover


def coverage_text(run: Coverage, most: int = SHOWN) -> str:
    """A run of ``cover``, with the first rows that are still missing."""
    lines = as_lines(coverage_facts(run)) + _map(run)
    uncovered = run.uncovered
    if uncovered and most:
        lines += ["", "Still missing (visits)"]
        lines += [f"  {number(n):>10}  {run.names.describe(row)}" for row, n in uncovered[:most]]
        if len(uncovered) > most:
            lines.append(f"  and {len(uncovered) - most:,} more")
    return "\n".join(lines)


def coverage_facts(run: Coverage) -> Facts:
    """What there is to say, as (label, value) lines for people."""
    H, _, A = run.target.shape.hsa
    facts = [
        ("environment", f"{run.environment.name}: {H} stages, {run.n_states} states, {A} actions"),
        ("covered", _extent(run)),
        ("episodes", f"{number(run.n_episodes)} ({_how(run)})"),
    ]
    if run.bound_at_hand:
        facts.append(("lower bound", _comparison(run)))
    if run.growth.request is not None:
        facts.append(("states seen", _seen(run)))
    facts += _mapped(run)
    if run.unreachable:
        proved = " (proved from the data)" if run.growth.rare else ""
        facts.append(("left out", f"{len(run.unreachable):,} rows below --min-reach{proved}"))
    if run.path:
        facts.append(("run", str(run.path)))
    return facts


def _extent(run: Coverage) -> str:
    rows = "cells" if run.target.per_cell.all() else "groups of cells"
    wanted = f"{number(run.target.counts.sum())} visits wanted"
    if run.covered:
        return f"all {len(run.target):,} {rows}, {wanted}"
    done = len(run.target) - len(run.uncovered)
    return f"{done:,} of {len(run.target):,} {rows}, {wanted}"


def _seen(run: Coverage) -> str:
    visits = run.counts.visits.sum(axis=2)
    states, places = int(visits.any(axis=0).sum()), int((visits > 0).sum())
    meaning = "all that was seen is meant; what never was may still exist"
    return f"{states:,}, {places:,} with their stages ({meaning})"


def _mapped(run: Coverage) -> Facts:
    """What there is to say of states that are discovered, or made by a map."""
    facts: Facts = []
    if run.growth.by_chance is not None and run.growth.by_chance.episodes:
        facts.append(("by chance", _found(run.growth.by_chance)))
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


def _found(chance: ByChance) -> str:
    new = [(chance.new_states, "new states"), (chance.new_rows, "more groups to cover")]
    found = ", ".join(f"{n:,} {what}" for n, what in new if n) or "nothing new"
    return f"looked further for {number(chance.episodes)} episodes of random actions: {found}"


def _how(run: Coverage) -> str:
    return f"preset {run.settings.preset}, seed {run.settings.seed}"


def _comparison(run: Coverage) -> str:
    least = number(run.min_episodes or 0.0)
    bound = f"{least} on average for any method that always covers (phi*)"
    return f"{bound}: {run.ratio:.3f} times that" if run.covered else bound


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


def learning_facts(run: LearningRun) -> Facts:
    """What there is to say, as (label, value) lines for people."""
    H, S, A = run.counts.shape.hsa
    how = "by counts" if run.by_counts else "episode by episode"
    facts: Facts = [
        ("environment", f"{run.environment.name}: {H} stages, {S} states, {A} actions"),
        ("episodes", f"{number(run.n_episodes)} ({how}, seed {run.settings.seed})"),
        ("asked", f"{run.TITLE}, epsilon {run.settings.epsilon:g}"),
        *run.conclusions(),
        ("guarantee", run.guarantee),
    ]
    if run.parting is not None:
        facts.append(("stages", _parted(run.parting)))
    return [*facts, ("run", str(run.path))] if run.path else facts


def _parted(parting: Parting) -> str:
    after = f"apart after episode {number(parting.episodes)}: {parting.why}"
    return f"{after}; with --stage-dependent from the beginning it takes fewer episodes"


def describe(phase: PhaseReport) -> str:
    """A phase in one line."""
    bound = "" if phase.bound is None else f"{phase.bound:.4g}"
    most = f"{number(phase.largest)}" if phase.largest else ""
    return f"{phase.name:<32} {number(phase.episodes):>12} {phase.wanted:>7,} {most:>10} {bound:>8}"
