"""Refuse what cannot fit before anything is allocated."""

from __future__ import annotations

import math
import os

from covgame.errors import TooLarge
from covgame.types import Shape

FALLBACK_BYTES = 8 * 2**30
BYTES_PER_CELL = 8 * 12
BYTES_PER_TRANSITION = 16 * 4


def physical_memory() -> int:
    """The machine's memory in bytes (a cautious guess where the system does not tell)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return FALLBACK_BYTES


def require_room(shape: Shape, transitions: int, what: str) -> None:
    """Raise ``TooLarge`` if a world of this size would not fit, with its working arrays.

    A cell takes about a dozen 8-byte numbers (reward, target, flow, ...) and a transition
    four copies of (successor, probability) while a model is built.
    """
    wanted = shape.cells * BYTES_PER_CELL + transitions * BYTES_PER_TRANSITION
    available = physical_memory()
    if wanted > available:
        raise TooLarge(
            f"{what} with {_rough(shape.cells)} cells and {_rough(transitions)} transitions "
            f"needs about {_rough(wanted // 2**30)} GiB and this machine has "
            f"{_rough(available // 2**30)} GiB; use fewer states, actions or stages"
        )


def require_bytes(wanted: int, what: str) -> None:
    """Raise ``TooLarge`` if reading something would take more than there is."""
    available = physical_memory()
    if wanted > available:
        raise TooLarge(
            f"{what} would take about {_rough(wanted // 2**30)} GiB, and this machine has "
            f"{_rough(available // 2**30)} GiB"
        )


def _rough(count: int) -> str:
    """A count for people, however long."""
    return f"{count:,}" if count < 10**15 else f"10^{math.log10(count):.0f}"
