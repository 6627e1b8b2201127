"""Small tables for notebooks: plain words, escaped."""

from __future__ import annotations

from collections.abc import Sequence

from covgame.plain import as_html

LEFT = " style='text-align:left'"


def facts_table(facts: Sequence[tuple[str, str]]) -> str:
    """A label and what there is to say, line by line."""
    rows = "".join(
        f"<tr><th{LEFT}>{as_html(label)}</th><td{LEFT}>{as_html(value)}</td></tr>"
        for label, value in facts
    )
    return f"<table>{rows}</table>"


def rows_table(caption: str, rows: Sequence[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """Rows under a caption; nothing at all if there are none."""
    if not rows:
        return ""
    head = "".join(f"<th{LEFT}>{as_html(word)}</th>" for word in heads)
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    first = f"<tr>{head}</tr>" if heads else ""
    return f"<table><caption>{as_html(caption)}</caption>{first}{lines}</table>"


def _cell(text: str) -> str:
    return f"<td{LEFT}>{as_html(text)}</td>"
