"""What this process is waiting for: whoever shows how a run goes may say so."""

from __future__ import annotations

compilations = 0
"""How many functions are being compiled just now, one within the other."""


def for_compiler() -> bool:
    """Whether somebody waits for the compiler."""
    return compilations > 0
