"""Refuse what cannot fit before anything is allocated."""

from __future__ import annotations

import math
import os
from pathlib import Path

from covgame.errors import BadInput, TooLarge
from covgame.types import Shape

FALLBACK_BYTES = 8 * 2**30
BYTES_PER_CELL = 8 * 12
BYTES_PER_TRANSITION = 16 * 4

ALWAYS_UNPACKED = 256 * 2**20
MOST_EXPANSION = 400
"""Zeros reach 1,030 in a zip file, one cycle of steps repeated for ever 350, random play 30."""


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


def check_expansion(path: Path, declared: int) -> None:
    """Raise ``BadInput`` if a compressed file declares far more bytes of arrays than its size.

    A few megabytes of zeros fill the memory of any machine. Recorded steps do not compress like
    that; and what is small when unpacked is never refused.
    """
    size = path.stat().st_size
    if declared > ALWAYS_UNPACKED + MOST_EXPANSION * size:
        raise BadInput(
            f"{path} has {_rough(size)} bytes and says that it unpacks to {_rough(declared)}, more "
            f"than {MOST_EXPANSION} times as many; if these are real data, save them uncompressed"
        )


def _rough(count: int) -> str:
    """A count for people, however long."""
    return f"{count:,}" if count < 10**15 else f"10^{math.log10(count):.0f}"
