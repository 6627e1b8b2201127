"""What a run writes: never through a link, nothing left behind, and damage is noticed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import covgame as cg
from covgame.storage import files as disk
from tests.rooms import files

links = pytest.mark.skipif(os.name != "posix", reason="links are rare elsewhere")


def test_a_file_is_the_old_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "file", list[str]()
    disk.write_whole(path, b"old")

    def fault(operation: str, where: Path) -> None:
        seen.append(operation)
        assert path.read_bytes() == (b"new" if "after rename" in seen else b"old")
        assert where.parent in (tmp_path, tmp_path.parent)

    monkeypatch.setattr(disk, "fault", fault)
    disk.write_whole(path, b"new")
    once = ("open", "write", "fsync", "rename", "fsync")
    assert seen == [word for name in once for word in (name, f"after {name}")]
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@links
def test_nothing_is_written_through_a_link(rooms: Path) -> None:
    victim = rooms / "victim"
    victim.write_text("mine")
    run = rooms / "run"
    cg.cover("py:rooms:Rooms", "uniform:4", out=run, max_episodes=10)
    for name in ("run.db-wal", "run.db-shm", "run.db-journal", "report.html"):
        (run / name).symlink_to(victim)
        if name == "report.html":
            cg.load(run).report()
        else:
            with pytest.raises(cg.BadInput, match=f"{name} is no ordinary file"):
                cg.resume(run, max_episodes=12, trust=True)
        assert victim.read_text() == "mine"
        (run / name).unlink()
    assert cg.resume(run, max_episodes=14, trust=True).n_episodes == 14


@links
def test_episodes_of_another_run_are_not_reached_by_a_link(rooms: Path) -> None:
    for name in ("mine", "other"):
        cg.cover("py:rooms:Rooms", "uniform:4", out=rooms / name, max_episodes=10)
    (rooms / "mine" / "episodes").rename(rooms / "mine" / "real")
    (rooms / "mine" / "episodes").symlink_to(rooms / "other" / "episodes")
    before = files(rooms / "other")
    for use in (cg.load, lambda run: cg.resume(run, trust=True), cg.certify):
        with pytest.raises(cg.BadInput, match="is a symbolic link"):
            use(rooms / "mine")
    assert files(rooms / "other") == before
    shard = rooms / "other" / "episodes" / "part-000000.parquet"
    shard.rename(rooms / "elsewhere")
    shard.symlink_to(rooms / "elsewhere")
    with pytest.raises(cg.BadInput, match="is a symbolic link"):
        cg.load(rooms / "other")


def test_drafts_of_a_killed_process_are_removed(rooms: Path) -> None:
    run = rooms / "run"
    cg.cover("py:rooms:Rooms", "uniform:4", out=run, max_episodes=10)
    (run / ".report.html.01ab.draft").write_bytes(b"torn")
    (run / "episodes" / ".part-000000.parquet.77.draft").write_bytes(b"torn")
    cg.load(run)
    assert len(list(run.rglob(".*.draft"))) == 2  # they may belong to a process that is writing
    cg.resume(run, max_episodes=12, trust=True)
    assert not list(run.rglob(".*.draft"))


def test_a_flipped_bit_in_episodes_is_noticed(rooms: Path) -> None:
    """Pages have checksums; what surrounds them is compared with what a run writes."""
    cg.cover("py:rooms:Rooms", "uniform:4", out="first")
    whole, run = rooms / "whole", rooms / "run"
    answer = cg.cover("py:rooms:Rooms", "uniform:6", out=whole, start_from="first")
    noticed = tried = 0
    for shard in [*whole.glob("episodes/*.parquet"), *whole.glob("given/00/*.parquet")]:
        content = shard.read_bytes()
        for place in range(4, len(content), len(content) // 40):
            shutil.copytree(whole, run)
            flipped = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
            (run / shard.relative_to(whole)).write_bytes(flipped)
            tried += 1
            try:
                assert cg.certify(run).episodes == answer.counts.n_episodes
                assert cg.load(run).steps().equals(cg.load(whole).steps())
            except cg.BadInput:
                noticed += 1
            shutil.rmtree(run)
    assert noticed > tried // 2  # a footer also has places that mean nothing
