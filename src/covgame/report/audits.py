"""The view of an audit."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from covgame.planning import episodes, kind_of_rows, number
from covgame.report.maps import MOST_NODES, MapData, links_in, state_map
from covgame.report.view import (
    Facts,
    Figure,
    StateMap,
    Table,
    View,
    assumed,
    percent,
    sentence,
    table,
    versions_in_words,
)

if TYPE_CHECKING:
    from covgame.data.audit import Audit

MOST_GAPS = 200
FEW = 3


def audit_view(audit: Audit, most: int = MOST_GAPS) -> View:
    """What terminals and notebooks show, with ``most`` gaps."""
    datasets = ", ".join(one.name for one in audit.datasets)
    data = f"{datasets}: {number(audit.episodes)} episodes, {number(audit.steps)} steps"
    if audit.left_out:
        data += f" (skipped {number(audit.left_out)} steps beyond the horizon)"
    extent, cost, spread, unknown = _extent(audit), _cost(audit), _spread(audit), _unknown(audit)
    facts = [
        ("data", data),
        ("world", _world(audit)),
        ("covered", extent),
        ("model", _model(audit)),
        ("cost", cost),
        *([("spread", spread)] if spread else []),
        *([("not shown", unknown)] if unknown else []),
        *_certificates(audit),
    ]
    return View(
        "audit",
        datasets,
        "covered" if audit.covered else f"{len(audit.uncovered):,} open",
        "good" if audit.covered else "open",
        [
            f"{data}. Of what {audit.request} asks for, they cover {extent}.",
            sentence(cost),
            sentence(unknown or spread or "everything within reach was tried"),
        ],
        _figures(audit),
        facts,
        [_gaps(audit, most)],
    )


def audit_page(audit: Audit) -> View:
    """The same with the map of states and the command."""
    from covgame.runs.run import versions

    words = ["covgame", "audit", *(one.name for one in audit.datasets), "--target", audit.request]
    environment = audit.combined.environment
    if environment is not None and environment.by_name:
        words += ["--env", environment.name]
    return replace(
        audit_view(audit),
        state_map=_map(audit),
        command=shlex.join([*words, "--horizon", str(audit.shape.horizon)]),
        made_with=versions_in_words(versions()),
    )


def _figures(audit: Audit) -> list[Figure]:
    rows, left = len(audit.target), len(audit.uncovered)
    share = (rows - left) / rows if rows else 1.0
    figures = [
        Figure("episodes", number(audit.episodes), f"{number(audit.steps)} steps"),
        Figure("covered", percent(share), f"{rows - left:,} of {rows:,}"),
        Figure("visits missing", number(_missing_visits(audit))),
    ]
    if audit.solves and audit.told_episodes is not None:
        note = "for those that the data show how to reach" if audit.untold.rows else "at best"
        figures.append(Figure("episodes to fill the gaps", number(_up(audit.told_episodes)), note))
    return figures


def _gaps(audit: Audit, most: int) -> Table:
    rows = [[number(gap.missing), gap.where, gap.what] for gap in audit.gaps]
    heads, note = ["visits", "where", "what"], "Visits that are missing, most first."
    empty = "None: everything was visited as often as asked for."
    return table("gaps", "Gaps", heads, rows, most=most, note=note, empty=empty, wide=True)


def _map(audit: Audit) -> StateMap | None:
    combined, target = audit.combined, audit.target
    states, kernel = np.arange(audit.shape.states), combined.kernel
    return state_map(
        MapData(
            audit.names,
            combined.apart.visits,
            states,
            target.rows,
            target.counts,
            audit.shortfall.missing,
            (kernel.initial > 0).astype(np.int64),
            links_in(kernel) if len(states) <= MOST_NODES else frozenset(),
        )
    )


# ------------------------------------------------------------------------------- in words


def _world(audit: Audit) -> str:
    horizon, states, actions = audit.shape.hsa
    seen = int(audit.combined.seen.any(axis=0).sum())
    environment = audit.combined.environment
    name = environment.name if environment else "as the data show it"
    met = "" if seen == states else f" ({seen:,} seen)"
    return f"{name}: {horizon:,} stages, {states:,} states{met}, {actions:,} actions"


def _missing_visits(audit: Audit) -> int:
    return math.ceil(float(audit.shortfall.missing.sum()))


def _extent(audit: Audit) -> str:
    rows, left = len(audit.target), len(audit.uncovered)
    kind = kind_of_rows(audit.target)
    if audit.shortfall.moves is not None:
        kind = "state-action pairs with all their outcomes"
    if audit.covered:
        return f"all {rows:,} {kind}"
    missing = _missing_visits(audit)
    visits = "1 visit is missing" if missing == 1 else f"{number(missing)} visits are missing"
    return f"{rows - left:,} of {rows:,} {kind}; {visits}"


def _model(audit: Audit) -> str:
    if audit.combined.environment is not None and audit.known:
        return f"known: the transition table of {audit.combined.environment.name}"
    return f"learnt from the data, {audit.combined.stages[2]}"


def _cost(audit: Audit) -> str:
    """What covering the target takes, and what filling the gaps takes."""
    if not audit.solves:
        quick = "nothing is missing"
        if not audit.covered:
            least = _up(audit.at_least)
            quick = f"at least {number(least)} more episode{'' if least == 1 else 's'} are needed"
        return f"{quick}; in a world this large, exact numbers take --at-any-price"
    if audit.min_episodes is None or audit.told_episodes is None:
        return f"these data took {episodes(audit.episodes)}; the rest is past double precision"
    learnt = "" if audit.known else "on the learnt model, "
    part = ", for what the data show how to reach," if audit.untold.rows else ""
    at_least = "" if audit.has_exact_costs else "at least "
    phi = " (phi*)" if audit.has_exact_costs else ""
    needs = f"{at_least}{episodes(_up(audit.min_episodes))} on average{part}{phi}"
    gaps = "nothing is missing"
    if not audit.covered:
        gaps = f"filling the gaps takes at least {episodes(_up(audit.told_episodes))} on average"
        if audit.untold.rows:
            gaps += ", without those to which the data show no way"
        if not audit.told_episodes:
            gaps = "only visits to which the data show no way are missing"
    return f"{learnt}the minimum is {needs}; these data have {number(audit.episodes)}; {gaps}"


def _up(count: float) -> int:
    return math.ceil(count - 1e-9)


def _spread(audit: Audit) -> str:
    """Where the data are thinnest."""
    if not audit.solves or audit.best_concentrability is None:
        return ""
    found, best = audit.concentrability, audit.best_concentrability
    where = audit.names.describe(audit.thinnest_spot)
    if math.isinf(found):
        never, every = audit.unvisited
        return (
            f"{never:,} of the {every:,} (stage, state, action) that can be reached were never "
            f"visited, such as {where}"
        )
    return (
        f"thinnest at {where}, which some policy visits {number(found)} times as often as these "
        f"data do (their concentrability; no data get below {number(best)})"
    )


def _unknown(audit: Audit) -> str:
    """What the data cannot tell about."""
    names, parts = audit.names, []
    rows = [names.describe(row) for row in audit.untold.rows]
    pairs = [f"{names.state(s)} / {names.action(a)}" for s, a in audit.untold.pairs]
    if rows:
        parts.append(f"how to reach {_few(rows)}")
    if pairs:
        parts.append(f"what follows {_few(pairs)} (never tried)")
    return f"these data do not show {', nor '.join(parts)}" if parts else ""


def _few(words: list[str]) -> str:
    more = f" and {len(words) - FEW:,} more" if len(words) > FEW else ""
    return ", ".join(words[:FEW]) + more


def _certificates(audit: Audit) -> Facts:
    found = audit.certificates
    if found is None:
        return []
    facts = [("explore", found.explore.words)]
    if found.identify is not None:
        facts.append(("identify", found.identify.words))
    facts.append(("wrong", f"with probability {found.delta:g} at most"))
    return [*facts, *assumed(found.assumptions)]
