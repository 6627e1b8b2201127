"""The tables of a run's page: what is expensive, missing, unreachable, what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from covgame.errors import Row
from covgame.mdp import dp
from covgame.planning import number
from covgame.report.content import Listing
from covgame.report.story import Lacking

if TYPE_CHECKING:
    from covgame.failures import Failure
    from covgame.mdp.transitions import Transitions
    from covgame.names import Names
    from covgame.runs.coverage import Coverage
    from covgame.runs.pac_run import LearningRun
    from covgame.runs.run import Run

SHOWN = 12
MOST = 60
LONGEST_WAY = 40

SURE = "Exact: this follows from the environment's table of transitions."
PROVED = (
    "Proved from the data: each of these is reached less often than its bound, all together wrong "
    "with probability {delta:g} at most."
)


UNSEEN = (
    "Nothing was found to be out of reach. What was never seen may still exist: the target is "
    "about what was seen."
)


def coverage_listings(
    run: Coverage, dearest: Lacking, uncovered: Lacking, *, learnt: bool
) -> list[Listing]:
    """What there is to list of a run; ``learnt``: prices are those of what was seen."""
    return [
        *_prices(run.names, dearest, learnt=learnt),
        _missing(run, uncovered),
        *_unreachable(run),
        *_aliased(run),
        *_failures(run),
    ]


def learning_listings(run: LearningRun) -> list[Listing]:
    """The same of a run that proves something."""
    return [*_failures(run), _phases(run)]


def _prices(names: Names, dearest: Sequence[tuple[Row, float]], *, learnt: bool) -> list[Listing]:
    if not dearest:
        return []
    rows = [[_costs(where, price)] for where, price in _together(names, dearest)[:SHOWN]]
    whose = " Judged by what the run has learnt." if learnt else ""
    note = f"What one more required visit costs the best method, at least.{whose}"
    return [Listing("dearest", "What makes it expensive", note, [], rows)]


def _together(names: Names, dearest: Sequence[tuple[Row, float]]) -> list[tuple[str, float]]:
    """The actions of a state that cost the same in one line."""
    lines: dict[tuple[int | None, int | str, str], list[int | None]] = {}
    for (stage, state, action), price in dearest:
        lines.setdefault((stage, state, number(price)), []).append(action)
    prices = {(row[0], row[1], number(price)): price for row, price in dearest}
    return [
        (_described(names, stage, state, actions), prices[stage, state, said])
        for (stage, state, said), actions in lines.items()
    ]


def _described(names: Names, stage: int | None, state: int | str, actions: list[int | None]) -> str:
    called = [names.action(action) for action in actions if action is not None]
    where = names.describe((stage, state, None))
    if not called:
        return where
    some = " or ".join([", ".join(called[:-1]), called[-1]] if len(called) > 1 else called)
    return f"{where} / {some}"


def _costs(where: str, price: float) -> str:
    """``one more visit of (row 3, column 2 / right) costs 81 episodes``."""
    cost = "1 episode" if number(price) == "1" else f"{number(price)} episodes"
    return f"One more visit of ({where}) costs {cost}."


def _missing(run: Coverage, uncovered: Lacking) -> Listing:
    names = run.names
    if run.transitions is not None:
        rows = [[number(n), names.transition(move)] for move, n in run.uncovered_transitions]
        known = {move[:2] for move, _ in run.transitions}
        untried = [row for row, _ in uncovered if row[1:] not in known]
        rows += [["", f"{names.describe(row)}: not tried yet"] for row in untried]
    else:
        rows = [[number(n), names.describe(row)] for row, n in uncovered[:MOST]]
    none = "Nothing: everything has the visits that were asked for."
    if not run.covered:
        none = "Nothing is asked for yet: no state has been seen."
    heads = ["visits", "where"]
    found = _cut("missing", "Still missing", "Most visits first.", heads, rows, none)
    return found if run.transitions is not None else replace(found, more=len(uncovered) - len(rows))


def _unreachable(run: Coverage) -> list[Listing]:
    rows = [[_bound(bound), run.names.describe(row)] for row, bound in run.unreachable]
    model = run.environment.model
    none = UNSEEN if model is None else _nothing_unreachable(model.transitions)
    note = PROVED.format(delta=run.settings.delta) if model is None else SURE
    heads = ["at most", "where"]
    found = [_cut("unreachable", "Out of reach", note, heads, rows, none)]
    cut = [[run.names.describe(row)] for row in run.growth.cut]
    if cut:
        about = "Only actions that fail, and are avoided, lead there."
        found.append(_cut("cut_off", "Cut off", about, ["where"], cut, "", numeric=0))
    return found


def _nothing_unreachable(transitions: Transitions) -> str:
    """What a known model says where nobody has asked for more."""
    reachable = dp.reachable(transitions)
    reached, every = int(reachable.sum()), reachable.size
    if reached == every:
        return "Nothing: every state can be reached at every stage. That is exact."
    return (
        f"Some policy reaches {reached:,} of the {every:,} combinations of stage and state. "
        "The others are not asked for. That is exact: it follows from the table of transitions."
    )


def _bound(bound: float) -> str:
    return "0" if not bound else f"{bound:.2g}"


def _failures(run: Run) -> list[Listing]:
    kinds = run.failures.distinct()
    if not kinds:
        return []
    rows = [
        [f"{times:,}", one.words(run.names), one.error, one.then, _way(run, one)]
        for one, times in kinds
    ]
    heads = ["times", "where", "what it said", "the episode was", "shortest way there"]
    note = "All of them are in failures.jsonl."
    return [_cut("failures", "Failures of the environment", note, heads, rows, "", wide=True)]


def _way(run: Run, failure: Failure) -> str:
    if len(failure.path) > LONGEST_WAY:
        return f"{len(failure.path):,} steps"
    return failure.way(run.names) or failure.words(run.names)


def _aliased(run: Coverage) -> list[Listing]:
    rows = [[run.names.state(state)] for state, _ in run.aliased]
    if not rows:
        return []
    note = "What follows these states depends on how they were reached: split them (--states)."
    return [_cut("aliased", "States that hide something", note, ["state"], rows, "", numeric=0)]


def _phases(run: LearningRun) -> Listing:
    rows = [
        [
            number(phase.episodes),
            "" if phase.bound is None else f"{phase.bound:.4g}",
            f"{phase.wanted:,}",
            phase.name,
        ]
        for phase in run.phases[::-1]
    ]
    heads = ["episodes", "bound", "cells", "part"]
    note = "What was played, the latest first."
    none = "No part is finished yet."
    return _cut("phases", "Parts", note, heads, rows, none, numeric=3, wide=True)


def _cut(
    name: str,
    title: str,
    note: str,
    heads: list[str],
    rows: list[list[str]],
    empty: str,
    *,
    numeric: int = 1,
    wide: bool = False,
) -> Listing:
    """A table of at most so many rows."""
    more = max(0, len(rows) - MOST)
    said = note if rows else ""
    return Listing(name, title, said, heads, rows[:MOST], more, empty, numeric, wide)
