"""The picture of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covgame.planning import number
from covgame.report.figures import set_title, short
from covgame.report.runs import visits_figure

if TYPE_CHECKING:
    from covgame.data.audit import Audit


def audit_figure(audit: Audit) -> Any:
    """Visits of every state against what the target asks of it; states on a grid as a grid."""
    figure = visits_figure(audit.names, *audit.by_state())
    names = ", ".join(one.name for one in audit.datasets)
    said = "all is covered" if audit.covered else f"{len(audit.uncovered):,} rows open"
    set_title(figure, f"{short(names, 60)}: {number(audit.episodes)} episodes, {said}")
    return figure
