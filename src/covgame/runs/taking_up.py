"""Runs of all commands, taken up again from their folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from covgame.errors import BadInput
from covgame.pac.learnt import LearntModel
from covgame.runs import cover as covering
from covgame.runs import learn as exploring
from covgame.store.folder import RunFolder
from covgame.store.state import counts_from

AnyRun = covering.Run | exploring.Exploration | exploring.Identification


def resume(
    path: str | Path,
    *,
    max_episodes: int | None = None,
    progress: Callable[[Any], None] | None = None,
) -> AnyRun:
    """Go on where a stopped or killed run was; a finished one is returned as it is."""
    if is_covering(path):
        return covering.resume(path, max_episodes=max_episodes, progress=progress)
    return exploring.resume(path, max_episodes=max_episodes, progress=progress)


def is_covering(path: str | Path) -> bool:
    """Whether it is a run of ``cover``; the others are of ``explore`` and ``identify``."""
    command = RunFolder.open(path).manifest.get("command")
    return command not in ("explore", "identify")


def is_finished(path: str | Path) -> bool:
    """Whether a run has come to its end."""
    return RunFolder.open(path).finished


def learnt_model(path: str | Path) -> LearntModel:
    """What a run has learnt of its world, as far as it got."""
    folder = RunFolder.open(path)
    arrays = folder.load_counts()
    if arrays is None:
        raise BadInput(f"{path} has learnt nothing yet: it was stopped before anything was saved")
    return replace(LearntModel.of(counts_from(arrays)), allowed=arrays.get("allowed"))
