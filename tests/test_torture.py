"""The short version of ``dev.py torture``, and that its judges are not blind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from torture.invariants import differences, problems
from torture.soak import Sample, judged
from torture.tables import HEADS, as_markdown, read_results

import covgame as cg

ROOT = Path(__file__).parent.parent
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are struck by Linux's means")


@linux
def test_what_is_attacked_survives(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torture", "--short", "--out", str(tmp_path / "results.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tried = read_results(tmp_path / "results.json")
    assert {"kills", "faults", "signals", "writers", "fuzz", "damage", "hostile"} <= set(tried)
    assert all(one["tried"] == one["survived"] > 0 for one in tried.values())


def played(folder: Path, seed: int = 0) -> Path:
    cg.cover("riverswim:states=3,horizon=4", "uniform:5", out=folder, seed=seed)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("torture") / "run")


def test_nothing_is_wrong_with_a_run_that_nobody_touched(whole: Path, tmp_path: Path) -> None:
    assert problems(whole) == []
    assert differences(played(tmp_path / "again"), whole) == []


def without_a_row(run: Path) -> None:
    shard = run / "episodes" / "part-000000.parquet"
    pq.write_table(pq.read_table(shard).slice(0, 9), shard)


def with_another_action(run: Path) -> None:
    shard = run / "episodes" / "part-000000.parquet"
    table = pq.read_table(shard)
    place, field = table.column_names.index("action"), table.field("action")
    pq.write_table(table.set_column(place, field, [1 - table["action"].to_numpy()]), shard)


def without_a_visit(run: Path) -> None:
    with np.load(run / "counts.npz") as saved:
        arrays = dict(saved)
    arrays["visits"][0, 0, 0] -= 1
    np.savez(run / "counts.npz", allow_pickle=False, **arrays)


def with_another_number(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, "episodes": result["episodes"] + 1}))


def with_half_a_file(run: Path) -> None:
    path = run / "run.json"
    path.write_bytes(path.read_bytes()[:50])


def with_a_journal(run: Path) -> None:
    (run / "journal").write_bytes(b"something")


@pytest.mark.parametrize(
    "spoil",
    [without_a_row, with_another_action, without_a_visit, with_another_number, with_a_journal],
)
def test_the_judges_see_it(spoil: Callable[[Path], None], whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    spoil(tmp_path / "run")
    assert problems(tmp_path / "run")


def test_the_judges_see_torn_files(whole: Path, tmp_path: Path) -> None:
    from torture.invariants import torn_files

    shutil.copytree(whole, tmp_path / "run")
    with_half_a_file(tmp_path / "run")
    assert "run.json" in torn_files(tmp_path / "run")[0]


def test_the_judges_see_another_run(whole: Path, tmp_path: Path) -> None:
    found = differences(played(tmp_path / "other", seed=1), whole)
    assert "the rows are others than those of the unbroken run" in found


@linux
@pytest.mark.parametrize(("fault", "left"), [("before", b""), ("half", b"ab"), ("after", b"abcd")])
def test_a_call_of_the_system_can_be_struck(fault: str, left: bytes, tmp_path: Path) -> None:
    """Opening the file is call 0, writing to it call 1."""
    script = (
        "import pathlib, sys; from torture.breaking import Breaker; "
        "place = pathlib.Path(sys.argv[1]); Breaker(place, sys.argv[2], 1).install(); "
        "(place / 'file').write_bytes(b'abcd')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), fault], cwd=ROOT, check=False
    )
    assert done.returncode == -9
    assert (tmp_path / "file").read_bytes() == left


def test_the_published_table_is_of_a_run_worth_its_name() -> None:
    results = read_results()
    kills = results["kills"]["struck"] + results["faults"]["outcomes"]["killed"]
    assert kills >= 1000
    assert results["fuzz"]["tried"] >= 10_000
    assert not [failure for one in results.values() for failure in one["failures"]]
    assert as_markdown().count("\n") == len(results) + 1
    assert all(head in as_markdown() for head in HEADS)


def watched(megabytes_per_episode: float) -> list[Sample]:
    """An hour in which memory also goes up and down with the open shard, as it may."""
    samples = []
    for number in range(480):
        episodes = 1_500_000 + 12_000 * number
        open_shard = 24.0 * (episodes % 83_333) / 83_333
        memory = 280.0 + open_shard + megabytes_per_episode * episodes
        samples.append(Sample(6.0 * number, episodes, memory, 18, 6.0 * number))
    return samples


@linux
@pytest.mark.parametrize(("grown", "wrong"), [(0.0, None), (3.5 / 2**20, "memory grows")])
def test_a_soak_tells_a_leak_from_a_shard_that_fills(grown: float, wrong: str | None) -> None:
    """A few bytes an episode are noticed within an hour; what comes and goes is no leak."""
    assert judged(watched(grown))[1] == wrong
