"""The short version of ``dev.py torture``, and tests of its judge."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from torture.invariants import differences, interrupted_problems, problems, read_run
from torture.tables import HEADS, as_markdown, read_results

import covgame as cg

ROOT = Path(__file__).parent.parent
linux = pytest.mark.skipif(sys.platform != "linux", reason="the suite forks processes")


@linux
def test_the_short_suite(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torture", "--short", "--out", str(tmp_path / "results.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = read_results(tmp_path / "results.json")
    assert {"kills", "faults", "signals", "writers", "fuzz", "damage", "hostile"} <= set(results)
    assert all(one["tried"] == one["survived"] > 0 for one in results.values())


def play(folder: Path, seed: int = 0) -> Path:
    cg.cover("riverswim:states=3,horizon=4", "uniform:5", out=folder, seed=seed)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(tmp_path_factory.mktemp("torture") / "run")


def test_equal_runs(whole: Path, tmp_path: Path) -> None:
    assert problems(whole) == []
    assert differences(play(tmp_path / "again"), whole, exact=True, same_bytes=True) == []


def execute(run: Path, statement: str) -> None:
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        connection.execute(statement)


def change_shard(run: Path, name: str | None = None) -> None:
    """Change a column of a shard, or leave its last rows out."""
    shard = run / "episodes" / "part-000000.parquet"
    table = pq.read_table(shard)
    if name is None:
        table = table.slice(0, 9)
    else:
        place, values = table.column_names.index(name), 1 - table[name].to_numpy()
        table = table.set_column(place, table.field(name), [values])
    pq.write_table(table, shard)


def change_answer(run: Path) -> None:
    result = read_run(run).result
    result["episodes"] += 1
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        connection.execute("UPDATE result SET json=?", (json.dumps(result),))


CHANGES: dict[str, Callable[[Path], None]] = {
    "a lost row": change_shard,
    "another action": lambda run: change_shard(run, "action"),
    "another state": lambda run: change_shard(run, "state"),
    "another answer": change_answer,
    "no answer": lambda run: execute(run, "DELETE FROM result"),
    "a lost episode": lambda run: execute(run, "UPDATE sealed SET episodes=episodes-1"),
    "an unsealed episode": lambda run: execute(
        run,
        f"INSERT INTO unsealed SELECT episodes, x'{'f' * 16}{'0' * 80}', NULL, 0 FROM sealed",  # noqa: S608
    ),
    "a draft": lambda run: (run / ".run.db.1234.draft").touch(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_the_judge_notices(change: Callable[[Path], None], whole: Path, tmp_path: Path) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    change(run)
    assert problems(run)


def test_the_judge_notices_damaged_files(whole: Path, tmp_path: Path) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    assert interrupted_problems(run) == []
    for path in (run / "run.db", run / "episodes" / "part-000000.parquet"):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        assert interrupted_problems(run)
        path.write_bytes(content)


def test_the_judge_notices_another_run(whole: Path, tmp_path: Path) -> None:
    found = differences(play(tmp_path / "other", seed=1), whole, exact=True, same_bytes=True)
    assert "the episodes are not those of the unbroken run" in found
    assert "the shards have other bytes" in found


@linux
def test_a_kill_at_an_operation(tmp_path: Path) -> None:
    from torture.faults import with_fault
    from torture.processes import run

    words = ["cover", "riverswim:states=3,horizon=4", "--target", "uniform:5", "--out", "run"]
    task = with_fault([*words, "--quiet"], events=tmp_path / "events")
    assert run(task, tmp_path).code == 0
    operations = (tmp_path / "events").read_text().splitlines()
    assert {"rename", "after rename", "commit", "after commit"} <= set(operations)
    shutil.rmtree(tmp_path / "run")
    before = operations.index("rename")
    assert run(with_fault(words, "kill", before), tmp_path).code == -signal.SIGKILL
    assert not (tmp_path / "run" / "run.db").exists()
    assert run(with_fault(words, "kill", before + 1), tmp_path).was_killed
    assert read_run(tmp_path / "run").episodes == 0


@linux
def test_a_reader_that_changes_a_run_is_noticed(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torture import reading

    shutil.copytree(whole, tmp_path / "run")
    assert reading.reading_problem(tmp_path, whole) is None
    task = ["report", "run"]  # writes to the run, if --out is left out
    monkeypatch.setitem(reading.READERS, "report", task)
    assert reading.reading_problem(tmp_path, whole) == "reading has changed ['report.html']"
    execute(tmp_path / "run", "UPDATE sealed SET episodes=episodes-1")
    os.remove(tmp_path / "run" / "report.html")
    os.remove(tmp_path / "run" / "episodes" / "part-000000.parquet")
    assert interrupted_problems(tmp_path / "run")


def test_the_published_table() -> None:
    results = read_results()
    kills = results["kills"]["strikes"] + results["faults"]["outcomes"]["killed"]
    assert kills >= 1000
    assert results["fuzz"]["tried"] >= 10_000
    assert results["hostile"]["tried"] >= 150
    assert not [failure for one in results.values() for failure in one["failures"]]
    assert as_markdown().count("\n") == len(results) + 1
    assert all(head in as_markdown() for head in HEADS)
