"""What a run writes: never through a link, nothing left behind, and damage is noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import covgame as cg
from covgame.store import files as disk
from covgame.store.checksums import Checksums, verified
from covgame.store.folder import RunFolder
from covgame.store.lock import WriteLock
from tests.rooms import files, whatever_is_said

links = pytest.mark.skipif(os.name != "posix", reason="links are rare elsewhere")


class Killed(BaseException):
    """In the place of the end of the process."""


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
    for name in (".result.json.draft", "journal", ".lock"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(victim)
        try:
            with whatever_is_said():
                cg.resume(run, max_episodes=12, trust=True)
        except cg.BadInput as error:
            assert name in str(error)  # noqa: PT017 (what is refused has to be said)
        assert victim.read_text() == "mine"
        (run / name).unlink(missing_ok=True)
    with whatever_is_said():
        assert cg.resume(run, max_episodes=14, trust=True).n_episodes == 14


@links
def test_episodes_of_another_run_are_not_reached_by_a_link(rooms: Path) -> None:
    for name in ("mine", "other"):
        cg.cover("py:rooms:Rooms", "uniform:4", out=rooms / name, max_episodes=10)
    (rooms / "mine" / "episodes").rename(rooms / "mine" / "real")
    (rooms / "mine" / "episodes").symlink_to(rooms / "other" / "episodes")
    before = files(rooms / "other")
    for use in (cg.load, cg.resume, cg.certify):
        with pytest.raises(cg.BadInput, match=r"is a (symbolic )?link"):
            use(rooms / "mine")
    assert files(rooms / "other") == before
    shard = rooms / "other" / "episodes" / "part-000000.parquet"
    shard.rename(rooms / "elsewhere")
    shard.symlink_to(rooms / "elsewhere")
    with pytest.raises(cg.BadInput, match=r"is a (symbolic )?link"):
        cg.load(rooms / "other")


def test_drafts_of_a_killed_process_go_away(rooms: Path) -> None:
    run = rooms / "run"
    cg.cover("py:rooms:Rooms", "uniform:4", out=run, max_episodes=10)
    (run / ".counts.npz.01ab.draft").write_bytes(b"torn")
    (run / "episodes" / ".part-000000.parquet.77.draft").write_bytes(b"torn")
    cg.load(run)
    assert len(list(run.rglob(".*.draft"))) == 2  # who reads may not know whose they are
    cg.resume(run, max_episodes=12, trust=True)
    assert not list(run.rglob(".*.draft"))


def test_a_lock_waits_a_moment(tmp_path: Path) -> None:
    lock = WriteLock(tmp_path)
    with pytest.raises(cg.BadInput, match="another process is writing"):
        WriteLock(tmp_path, patience=0.1)
    lock.release()
    WriteLock(tmp_path, patience=0.1).release()


# --------------------------------------------------------------------------------- checksums


def test_a_flipped_bit_anywhere_is_noticed(rooms: Path) -> None:
    """Of every file of a run on an environment; counts are counted again."""
    cg.cover("py:rooms:Rooms", "uniform:4", out="first")
    run = rooms / "run"
    cg.cover("py:rooms:Rooms", "uniform:6", out=run, start_from="first")
    whole = files(run)
    names = {str(Path(name).relative_to(run)) for name in whole} - {".lock"}
    assert names >= {"run.json", "target.json", "states.json", "counts.npz", "result.json"}
    assert {"checksums.json", "episodes/part-000000.parquet"} <= names
    assert any(name.startswith("given/") for name in names)
    for name in names:
        path, content = run / name, whole[str(run / name)]
        for place in {0, len(content) // 3, len(content) // 2, len(content) - 2}:
            flipped = bytes([content[place] ^ 4])
            path.write_bytes(content[:place] + flipped + content[place + 1 :])
            if name == "counts.npz":
                assert "counted again" in str(cg.load(run).notice)
            else:
                for use in (cg.load, cg.resume, cg.certify, lambda run: cg.audit(run, "uniform:4")):
                    with pytest.raises(cg.BadInput, match=r"damaged|valid JSON|text file"):
                        use(run)
        path.write_bytes(content)
    assert cg.load(run).notice is None
    assert cg.certify(run).episodes > 0


def test_a_file_is_what_it_was_or_what_it_becomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before or after any operation, twice in a row: never taken for damaged."""
    (tmp_path / "run.json").write_text('{"format": "covgame-run/2"}')

    def kill_at(number: int) -> None:
        left = [number]

        def fault(_operation: str, _path: Path) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        monkeypatch.setattr(disk, "fault", fault)

    def write(content: bytes) -> bool:
        folder = RunFolder.open(tmp_path)
        folder.checksums = folder.checksums or Checksums(tmp_path)
        try:
            folder.write("states.json", content)
        except Killed:
            return False
        return True

    content = 0
    for first in range(30):
        for second in (0, 8, 11, first):
            for number in (first, second):
                kill_at(number)
                content += 1
                write(str(content).encode())
                monkeypatch.setattr(disk, "fault", None)
                RunFolder.open(tmp_path)
    kill_at(100)
    assert write(b"done")
    (tmp_path / "states.json").write_bytes(b"gone")
    with pytest.raises(cg.BadInput, match=r"states\.json is damaged.*put it back"):
        RunFolder.open(tmp_path)
    (tmp_path / "states.json").unlink()
    with pytest.raises(cg.BadInput, match=r"states\.json is missing.*put it back"):
        RunFolder.open(tmp_path)


def test_runs_without_checksums_open(rooms: Path) -> None:
    """Those of older versions, and those that are played again anyhow."""
    cg.cover("py:rooms:Rooms", "uniform:4", out="old", max_episodes=10)
    (rooms / "old" / "checksums.json").unlink()
    assert cg.resume("old", max_episodes=10**6, trust=True).covered
    cg.cover("grid", "uniform:1/pair", out="simulated")
    assert not (rooms / "simulated" / "checksums.json").exists()


def test_who_reads_while_another_writes(rooms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read in the middle of a checkpoint fits, or is read once more."""
    read = 0

    def look(operation: str, path: Path) -> None:
        nonlocal read
        if "rename" in operation and (rooms / "run" / "run.json").exists():
            monkeypatch.setattr(disk, "fault", None)
            assert json.loads((rooms / "run" / "run.json").read_text())["command"] == "cover"
            RunFolder.open(rooms / "run")
            monkeypatch.setattr(disk, "fault", look)
            read += 1

    monkeypatch.setattr(disk, "fault", look)
    cg.cover("py:rooms:Rooms", "uniform:4", out=rooms / "run")
    assert read > 5


def test_checksums_fit_wherever_ctrl_c_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off between any two operations, and written on by the same process."""
    for place in range(20):
        folder = tmp_path / str(place)
        folder.mkdir()
        kept, left = Checksums(folder), [place]
        kept.write("run.json", b"first")

        def fault(_operation: str, _path: Path, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(disk, "fault", fault)
            with pytest.raises(KeyboardInterrupt):
                kept.write("run.json", b"second")
        kept.write("result.json", b"answer")
        assert verified(folder, frozenset(), frozenset()) is not None
