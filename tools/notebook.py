"""docs/tutorial.ipynb, made from docs/tutorial.md so that the two cannot differ.

python -m tools.notebook        write it (``dev.py docs`` does so as well)
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
PAGE, NOTEBOOK = DOCS / "tutorial.md", DOCS / "tutorial.ipynb"
CODE = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def write() -> None:
    """Renew the notebook."""
    NOTEBOOK.write_text(made_from(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def made_from(page: str) -> str:
    """A page as a notebook: its Python blocks are cells of code, all between is Markdown."""
    cells = []
    for place, part in enumerate(CODE.split(page)):
        if part.strip():
            cells.append(cell(part.strip("\n"), f"cell-{place}", is_code=place % 2 == 1))
    content = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def cell(text: str, name: str, *, is_code: bool) -> dict[str, Any]:
    """One cell, without outputs: whoever opens the notebook runs it."""
    made: dict[str, Any] = {
        "cell_type": "code" if is_code else "markdown",
        "id": name,
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return made | {"execution_count": None, "outputs": []} if is_code else made


if __name__ == "__main__":
    write()
