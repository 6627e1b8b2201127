"""Tables in Markdown, and pages in which they stand between markers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [list(heads), ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def renewed(text: str, made: Callable[[str], str | None]) -> str:
    """The text with every marked table as ``made`` makes it by its name; None leaves it."""

    def replaced(match: re.Match[str]) -> str:
        new = made(match[2])
        return match[0] if new is None else f"{match[1]}{new}\n{match[3]}"

    return MARKED.sub(replaced, text)


def update_page(page: Path, tables: Mapping[str, str]) -> bool:
    """Write the tables between their markers; returns whether the page has changed."""
    text = page.read_text(encoding="utf-8")
    made = renewed(text, tables.get)
    if made != text:
        page.write_text(made, encoding="utf-8")
    return made != text
