"""An audit in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from covgame.planning import kind_of_rows, number

if TYPE_CHECKING:
    from covgame.data.audit import Audit

Facts = list[tuple[str, str]]
FEW = 3


def facts_of(audit: Audit) -> Facts:
    """What there is to say, as (label, value) lines."""
    facts = [
        ("data", _data(audit)),
        ("world", _world(audit)),
        ("covered", _extent(audit)),
        ("model", _model(audit)),
        ("cost", _cost(audit)),
    ]
    spread = _spread(audit)
    if spread:
        facts.append(("spread", spread))
    told = _untold(audit)
    if told:
        facts.append(("not shown", told))
    return facts + _proved(audit)


def summary_of(audit: Audit) -> list[str]:
    """Three sentences for somebody in a hurry."""
    extent = _extent(audit)
    return [
        f"{_data(audit)}. Of what {audit.request} asks for, they cover {extent}.",
        f"{_sentence(_cost(audit))}.",
        f"{_sentence(_untold(audit) or _spread(audit) or 'everything within reach was tried')}.",
    ]


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _data(audit: Audit) -> str:
    names = ", ".join(one.name for one in audit.datasets)
    said = f"{names}: {number(audit.episodes)} episodes, {number(audit.steps)} steps"
    if audit.left_out:
        said += f" ({number(audit.left_out)} beyond the horizon left out)"
    return said


def _world(audit: Audit) -> str:
    H, S, A = audit.shape.hsa
    seen = int(audit.evidence.seen.any(axis=0).sum())
    name = audit.evidence.environment.name if audit.evidence.environment else "as the data show it"
    met = "" if seen == S else f" ({seen:,} met)"
    return f"{H:,} stages, {S:,} states{met}, {A:,} actions; {name}"


def _extent(audit: Audit) -> str:
    rows, left = len(audit.target), len(audit.uncovered)
    what = _kind(audit)
    if audit.covered:
        return f"all {rows:,} {what}"
    visits = number(math.ceil(float(audit.shortfall.missing.sum())))
    return f"{rows - left:,} of {rows:,} {what}; {visits} visits are missing"


def _kind(audit: Audit) -> str:
    """What the rows of the target are."""
    if audit.shortfall.moves is not None:
        return "state-action pairs with all their outcomes"
    kind = kind_of_rows(audit.target)
    return "cells (stage, state, action)" if kind == "cells" else kind


def _model(audit: Audit) -> str:
    words = audit.evidence.stages[2]
    if audit.evidence.environment is not None and audit.known:
        return f"known: the transition table of {audit.evidence.environment.name}"
    return f"learnt from the data, {words}"


def _cost(audit: Audit) -> str:
    if not audit.solves:
        quick = "nothing is missing"
        if not audit.covered:
            least = _up(audit.at_least)
            quick = f"at least {number(least)} more episode{'' if least == 1 else 's'} are needed"
        return f"{quick}; in a world this large, exact numbers take --at-any-price"
    if audit.min_episodes is None or audit.told_episodes is None:
        return f"these data took {_episodes(audit.episodes)}; the rest is past double precision"
    who = "the best collector" if audit.known else "going by what they show, the best collector"
    part = ", for what they show how to reach," if audit.untold.rows else ""
    lacking = "nothing is missing"
    if not audit.covered:
        at_least = "" if audit.has_exact_costs else "at least "
        lacking = (
            f"filling the holes takes {at_least}{number(_up(audit.told_episodes))} more at best"
        )
        if audit.untold.rows:
            lacking += ", without those to which they show no way"
        if not audit.told_episodes:
            lacking = "only that is missing to which they show no way"
    needs = f"{_episodes(audit.min_episodes)} on average{part} (phi*)"
    if not audit.has_exact_costs:
        needs = f"at least {_episodes(audit.min_episodes)} on average{part}"
    return f"{who} needs {needs}; these data have {number(audit.episodes)}, and {lacking}"


def _up(episodes: float) -> int:
    return math.ceil(episodes - 1e-9)


def _episodes(episodes: float) -> str:
    whole = _up(episodes)
    return f"{number(whole)} episode{'' if whole == 1 else 's'}"


def _spread(audit: Audit) -> str:
    if not audit.solves or audit.best_concentrability is None:
        return ""
    found, best = audit.concentrability, audit.best_concentrability
    where = audit.names.describe(audit.thinnest_spot)
    if math.isinf(found):
        never, all_ = audit.unvisited
        return (
            f"{never:,} of the {all_:,} (stage, state, action) that can be reached were never "
            f"visited, such as {where}"
        )
    return (
        f"thinnest at {where}, which some policy visits {number(found)} times as often as these "
        f"data do (their concentrability; no data get below {number(best)})"
    )


def _untold(audit: Audit) -> str:
    rows, pairs = audit.untold.rows, audit.untold.pairs
    parts = []
    if rows:
        shown = _few([audit.names.describe(row) for row in rows])
        parts.append(f"how to reach {shown}")
    if pairs:
        names = audit.names
        shown = _few([f"{names.state(s)} / {names.action(a)}" for s, a in pairs])
        parts.append(f"what follows {shown} (never tried)")
    return f"these data do not show {', nor '.join(parts)}" if parts else ""


def _few(words: list[str]) -> str:
    more = f" and {len(words) - FEW:,} more" if len(words) > FEW else ""
    return ", ".join(words[:FEW]) + more


def _proved(audit: Audit) -> Facts:
    proofs = audit.certificates
    if proofs is None:
        return []
    facts = [("explore", proofs.explore.words)]
    if proofs.identify is not None:
        facts.append(("identify", proofs.identify.words))
    facts.append(("wrong", f"with probability {proofs.delta:g} at most"))
    return facts + [("assumed" if not i else "", one) for i, one in enumerate(proofs.assumptions)]
