"""Sequences made shorter while they still fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Item = TypeVar("Item")

MOST_TRIES = 2_000
SMALL = 6


def shortest(items: list[Item], fails: Callable[[list[Item]], Any]) -> list[Item]:
    """Leave out pieces, large ones first, as long as the rest fails.

    In the end no piece of up to ``SMALL`` neighbours is too much, unless that took too many tries.
    Nothing is left out if ``items`` do not fail themselves.
    """
    tries, before = 0, None
    if not fails(items):
        return items
    while items != before and tries < MOST_TRIES:
        before = items
        for size in _sizes(len(items)):
            first = 0
            while first + size <= len(items) and tries < MOST_TRIES:
                without = items[:first] + items[first + size :]
                tries += 1
                if fails(without):
                    items = without
                else:
                    first += 1
    return items


def _sizes(many: int) -> list[int]:
    """Halves, quarters and so on, then every small size."""
    halves = [many >> times for times in range(1, 30) if many >> times > SMALL]
    return [*halves, *range(min(SMALL, many), 0, -1)]
