"""Views for terminals and notebooks."""

from __future__ import annotations

from covgame.notebook import facts_table, rows_table
from covgame.plain import plain
from covgame.report.view import Facts, Table, View

SHOWN = 10
"""Rows of a table."""


def as_text(view: View, most: int = SHOWN) -> str:
    """The facts and tables of a view, with the first ``most`` rows of each table."""
    lines = facts_lines(view.facts)
    for table in view.tables:
        shown = len(table.rows) if table.name == "visits" else most
        if table.rows and most:
            lines += ["", *_table_lines(table, shown)]
    return "\n".join(lines)


def as_notebook(view: View, most: int = SHOWN) -> str:
    """The same as HTML."""
    parts = [facts_table(view.facts)]
    for table in view.tables:
        if table.heads:
            rows = table.rows[:most]
            left = table.more + len(table.rows) - len(rows)
            if left:
                rows = [*rows, ["and", f"{left:,} more"]]
            parts.append(rows_table(table.title, rows, table.heads))
    return "".join(parts)


def facts_lines(facts: Facts) -> list[str]:
    """A label and its value, line by line."""
    return [f"{label:<12} {plain(value)}" for label, value in facts]


def _table_lines(table: Table, most: int) -> list[str]:
    """A title, and rows in columns that are as wide as their longest entry."""
    rows = ([table.heads] if table.heads else []) + table.rows[:most]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [table.title]
    for row in rows:
        entries = [
            entry.rjust(width) if column < table.numeric else entry.ljust(width)
            for column, (entry, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(entries)}".rstrip())
    left = table.more + len(table.rows) - len(table.rows[:most])
    return [*lines, f"  and {left:,} more"] if left else lines
