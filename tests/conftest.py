"""Settings for all tests."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from covgame.engine.compiled import CompiledGame
from covgame.runs import loop
from covgame.storage import episodes as shard_files
from covgame.storage import recorder
from tests.rooms import ROOMS

settings.register_profile(
    "covgame",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "mutation",  # one failure is enough there: no need for the smallest
    settings.get_profile("covgame"),
    max_examples=30,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("mutation" if os.environ.get("COVGAME_MUTATION") else "covgame")

CompiledGame.waits = True
"""Where the readable game is compared with the compiled one, it must not stand in for it."""

logging.getLogger("covgame").disabled = True
"""What commands print must not depend on whether the cache is warm."""


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with environments of one's own, which is the current one."""
    (tmp_path / "rooms.py").write_text(ROOMS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "rooms", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def always_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, small shards, and everything saved after each block."""
    monkeypatch.setattr(shard_files, "STEPS_PER_SHARD", 60)
    monkeypatch.setattr(recorder, "SECONDS_PER_CHECKPOINT", 0.0)
    monkeypatch.setattr(loop, "FIRST_BLOCK", 4)
    monkeypatch.setattr(loop, "next_size", lambda _size, _seconds: 4)


NEEDS_POSIX = (
    *("test_broken_off.py", "test_failures.py", "test_first_minute.py", "test_forged.py"),
    "test_forks.py",
    *("test_full_disk.py", "test_storage.py", "test_signals.py", "test_surviving.py"),
    *("test_torture.py", "test_trust.py", "test_watch.py"),
)
"""Kill, fork, link or fill a disk, as POSIX knows it (docs/platforms.md)."""
collect_ignore = list(NEEDS_POSIX) if os.name == "nt" else []
