"""An audit as the data of its page, which is drawn like that of a run."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

import numpy as np

from covgame.planning import number
from covgame.report.content import Figure, Listing, PageData
from covgame.report.html import page_html
from covgame.report.layouts import MOST_NODES, links_in
from covgame.report.state_maps import Seen, state_map
from covgame.report.story import percent

if TYPE_CHECKING:
    from covgame.data.audit import Audit

MOST_HOLES = 200
NO_HOLES = "None: everything was visited as often as asked for."


def audit_page(audit: Audit) -> str:
    """The whole page."""
    return page_html(page_data(audit))


def page_data(audit: Audit) -> PageData:
    """What it shows."""
    from covgame.runs.run import versions

    word = "covered" if audit.covered else f"{len(audit.uncovered):,} open"
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    return PageData(
        "audit",
        ", ".join(one.name for one in audit.datasets),
        word,
        "good" if audit.covered else "open",
        audit.summary(),
        _figures(audit),
        None,
        state_map(_seen(audit)),
        [_holes(audit)],
        [[label, value] for label, value in audit.facts()],
        _command(audit),
        made_with,
    )


def _figures(audit: Audit) -> list[Figure]:
    rows, left = len(audit.target), len(audit.uncovered)
    share = (rows - left) / rows if rows else 1.0
    figures = [
        Figure("episodes", number(audit.episodes), f"{number(audit.steps)} steps"),
        Figure("covered", percent(share), f"{rows - left:,} of {rows:,}"),
        Figure("visits missing", number(math.ceil(float(audit.shortfall.missing.sum()))), ""),
    ]
    if audit.solves and audit.told_episodes is not None:
        note = "at best, for what they show how to reach" if audit.untold.rows else "at best"
        more = number(math.ceil(audit.told_episodes - 1e-9))
        figures.append(Figure("episodes to fill the holes", more, note))
    return figures


def _seen(audit: Audit) -> Seen:
    evidence, target = audit.evidence, audit.target
    states = np.arange(audit.shape.states)
    kernel = evidence.kernel
    return Seen(
        audit.names, evidence.apart.visits, states, target.rows, target.counts,
        audit.shortfall.missing, (kernel.initial > 0).astype(np.int64),
        links_in(kernel) if len(states) <= MOST_NODES else frozenset(),
    )  # fmt: skip


def _holes(audit: Audit) -> Listing:
    rows = [[number(hole.missing), hole.where, hole.what] for hole in audit.holes]
    return Listing(
        "holes", "Holes", "Visits that are missing, most first." if rows else "",
        ["visits", "where", "what"], rows[:MOST_HOLES], max(0, len(rows) - MOST_HOLES),
        NO_HOLES, 1, wide=True,
    )  # fmt: skip


def _command(audit: Audit) -> str:
    words = ["covgame", "audit", *(one.name for one in audit.datasets), "--target", audit.request]
    environment = audit.evidence.environment
    if environment is not None and environment.by_name:
        words += ["--env", environment.name]
    return shlex.join([*words, "--horizon", str(audit.shape.horizon)])
