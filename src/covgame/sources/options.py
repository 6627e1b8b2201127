"""``name=value&name=value`` behind a question mark: what an environment is made with."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from covgame.errors import BadInput

PYTHON_WORDS = {"True": True, "False": False, "None": None}


def parse_options(text: str, query: str) -> dict[str, Any]:
    """``is_slippery=false&map_name=8x8``: JSON values where they are such, else text."""
    options: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if not (key and equals):
            raise BadInput(f"{text}: write options as name=value, not {part!r}")
        if key in options:
            raise BadInput(f"{text}: the option {key!r} is given twice")
        options[key] = _value(unquote(value))
    return options


def _value(text: str) -> Any:
    if text in PYTHON_WORDS:
        return PYTHON_WORDS[text]
    try:
        return json.loads(text)
    except ValueError:
        return text
