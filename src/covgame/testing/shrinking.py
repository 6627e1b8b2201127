"""Sequences made shorter while they still fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Item = TypeVar("Item")

MOST_TRIES = 2_000


def shortest(items: list[Item], fails: Callable[[list[Item]], Any]) -> list[Item]:
    """Leave out pieces, large ones first, as long as the rest fails; no single item is too much.

    Nothing is left out if ``items`` do not fail themselves.
    """
    if not fails(items):
        return items
    tries, size = 1, max(1, len(items) // 2)
    while tries < MOST_TRIES:
        first, shorter = 0, False
        while first < len(items) and tries < MOST_TRIES:
            without = items[:first] + items[first + size :]
            tries += 1
            if fails(without):
                items, shorter = without, True
            else:
                first += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return items
