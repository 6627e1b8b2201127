"""Runs from their folders, of the kind that a test expects."""

from __future__ import annotations

from pathlib import Path

from covgame.runs.cover import Coverage
from covgame.runs.opening import load


def coverage_at(path: Path) -> Coverage:
    """The run of ``cover`` in a folder."""
    run = load(path)
    assert isinstance(run, Coverage)
    return run
