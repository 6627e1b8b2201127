"""Exports hold what was recorded; what cannot be exported whole leaves nothing behind."""

from __future__ import annotations

import csv
import json
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import covgame as cg
from covgame.cli.main import main
from covgame.data import to_csv
from covgame.data.recording import Recording
from covgame.storage.folder import RunFolder
from tests.exported import ENDING, ending_run, lake_run, steps_of

FORMATS = {"csv": "steps.csv", "minari": "./steps-v0"}
every_format = pytest.mark.parametrize(("to", "out"), FORMATS.items())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one and where Minari keeps its datasets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# ------------------------------------------------------------------------------------------- csv


def read_csv(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_row_per_step_with_labels(here: Path) -> None:
    run = ending_run(here)
    done = cg.export(run, to="csv", out="steps.csv")
    rows, steps = read_csv("steps.csv"), steps_of(run)
    assert len(rows) == len(steps) == done.steps
    states, actions = ENDING["state_names"], ENDING["action_names"]
    assert isinstance(states, list)
    assert isinstance(actions, list)
    for row, step in zip(rows, steps, strict=True):
        assert int(row["episode"]) == step["episode"]
        assert int(row["stage"]) == step["stage"]
        assert int(row["state"]) == step["state"]
        assert row["state_label"] == states[step["state"]]
        assert row["action_label"] == actions[int(row["action"])]
        assert float(row["reward"]) == step["reward"]
        assert int(row["next_state"]) == step["next_state"]
        shown = step["next_state"] >= 0
        assert row["next_state_label"] == (states[step["next_state"]] if shown else "")
        assert row["terminated"] == ("true" if step["terminated"] else "false")
        assert row["truncated"] == ("true" if step["truncated"] else "false")
    assert {step["next_state"] for step in steps if step["terminated"]} == {-1}


FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2", "@SUM(1)", "'=quoted", "''-2", "plain", "it's")


class Formulas:
    """States and actions that a spreadsheet would compute."""

    actions, horizon = ("=1+1", "-1", "go"), 4

    def reset(self, seed: int) -> str:
        self.rng = np.random.default_rng(seed)
        return FORMULAS[0]

    def step(self, action: str) -> tuple[str, float, bool]:
        return FORMULAS[self.rng.integers(len(FORMULAS))], -1.5, False


def test_csv_has_no_formulas(here: Path) -> None:
    """A quote before those that would be some; covgame reads them as they were."""
    run = cg.cover(Formulas, "uniform:9/pair", out=here / "run")
    cg.export(run, to="csv", out="steps.csv")
    rows, steps = read_csv("steps.csv"), steps_of(run)
    names, labels = run.names, ("state_label", "next_state_label", "action_label")
    assert set(names.states or ()) == set(FORMULAS)
    assert not any(row[name].startswith(("=", "+", "-", "@")) for row in rows for name in labels)
    for row, step in zip(rows, steps, strict=True):
        label = names.state(step["state"])
        is_formula = label.lstrip("'").startswith(("=", "+", "-", "@"))
        assert row["state_label"] == (f"'{label}" if is_formula else label)
        assert (row["reward"], row["state"]) == ("-1.5", str(step["state"]))
    columns = {"state": "state_label", "next_state": "next_state_label", "action": "action_label"}
    read = cg.audit("steps.csv", "uniform:9/pair", columns=columns)
    assert sorted(read.names.states or ()) == sorted(FORMULAS)
    assert set(read.names.actions or ()) == set(Formulas.actions)
    assert read.covered
    again = cg.audit("steps.csv", "uniform:9/pair", env=Formulas, columns=columns)
    assert (again.combined.apart.visits.sum(axis=0) > 0).sum() == 3 * len(FORMULAS)


def test_csv_has_no_formulas_among_texts_that_were_kept() -> None:
    """Texts of a space are any text; what has no space is JSON, where -2 is a number."""
    table = pa.table({"observation": ["=1", "-2", "a"], "reward": [-1.0, 0.0, 1.0]})
    assert to_csv._flat(table, {}, is_free_text=True)["observation"].to_pylist() == [
        "'=1", "'-2", "a",
    ]  # fmt: skip
    assert to_csv._flat(table, {}).equals(table)


def test_csv_has_seeds_and_no_labels_where_there_are_none(here: Path) -> None:
    run = lake_run(here)
    cg.export(run, to="csv", out="steps.csv")
    assert [int(row["seed"]) for row in read_csv("steps.csv")] == [
        step["seed"] for step in steps_of(run)
    ]
    cg.cover("riverswim:states=3,horizon=4", "uniform:1/pair", out="river")
    cg.export("river", to="csv", out="river.csv")
    assert "seed" not in read_csv("river.csv")[0]
    assert "state_label" not in read_csv("river.csv")[0]


def test_arrays_and_parts_get_columns_of_their_own() -> None:
    box = pa.array([[1.5, 2.5], [3.5, 4.5], None], pa.list_(pa.float32(), 2))
    parts = pa.StructArray.from_arrays([pa.array([7, 8, 9]), box], ["0", "1"])
    table = pa.table({"state": [0, 1, 0], "observation": parts, "final_observation": box})
    flat = to_csv._flat(table, {})
    assert flat.to_pydict() == {
        "state": [0, 1, 0],
        "observation_0": [7, 8, 9],
        "observation_1_0": [1.5, 3.5, None],
        "observation_1_1": [2.5, 4.5, None],
        "final_observation_0": [1.5, 3.5, None],
        "final_observation_1": [2.5, 4.5, None],
    }


# ------------------------------------------------------------------------------ whole or not at all


@every_format
def test_what_is_there_is_not_written_over(here: Path, to: Any, out: str) -> None:
    run = ending_run(here)
    cg.export(run, to=to, out=out)
    before = {name: (here / name).stat() for name in everything(here)}
    with pytest.raises(cg.BadInput, match="exists already"):
        cg.export(run, to=to, out=out)
    assert {name: (here / name).stat() for name in everything(here)} == before


def damage(folder: Path) -> Path:
    """Make a step of the last shard lead out of the world."""
    path = sorted((folder / "run" / "episodes").iterdir())[-1]
    table = pq.read_table(path)
    states = table["state"].to_pylist()
    states[-1] = 99
    place = table.column_names.index("state")
    pq.write_table(table.set_column(place, "state", pa.array(states, pa.int64())), path)
    return path


@every_format
@pytest.mark.usefixtures("always_saved")
def test_damaged_data_are_named_and_nothing_is_left(here: Path, to: str, out: str) -> None:
    ending_run(here)
    path = damage(here)
    before = everything(here)
    out = f"./new/{Path(out).name}"
    answer = CliRunner().invoke(main, ["export", "run", "--to", to, "--out", out])
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert path.name in answer.stderr
    assert everything(here) == before


@every_format
@pytest.mark.usefixtures("always_saved")
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_is_broken_off_leaves_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, to: Any, out: str, error: Any
) -> None:
    run = ending_run(here)
    before, tables = everything(here), Recording.batches

    def broken(self: Recording) -> Iterator[Any]:
        yield next(tables(self))
        raise error

    monkeypatch.setattr(Recording, "batches", broken)
    expected = cg.BadInput if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as raised:
        cg.export(run, to=to, out=out)
    assert isinstance(error, OSError) == ("No space left" in str(raised.value))
    assert everything(here) == before


@every_format
@pytest.mark.usefixtures("always_saved")
def test_one_shard_is_in_memory(
    here: Path, monkeypatch: pytest.MonkeyPatch, to: Any, out: str
) -> None:
    run = ending_run(here, target="uniform:60/pair")
    read: list[weakref.ref[Any]] = []
    batches = Recording.batches

    def watched(self: Recording) -> Iterator[Any]:
        for batch in batches(self):
            assert sum(one() is not None for one in read) <= 1  # the caller's own
            read.append(weakref.ref(batch))
            yield batch

    monkeypatch.setattr(Recording, "batches", watched)
    cg.export(run, to=to, out=out)
    assert len(read) > 3


@every_format
def test_shards_do_not_show(here: Path, monkeypatch: pytest.MonkeyPatch, to: Any, out: str) -> None:
    """However the record is cut into files, the export says the same."""
    from covgame.storage import episodes

    ending_run(here / "a")
    monkeypatch.setattr(episodes, "STEPS_PER_SHARD", 30)
    ending_run(here / "b")
    assert len(list(Path("b/run/episodes").iterdir())) > len(list(Path("a/run/episodes").iterdir()))
    names = [out.replace("steps", name) for name in ("a-steps", "b-steps")]
    first = cg.export("a/run", to=to, out=names[0])
    second = cg.export("b/run", to=to, out=names[1])
    assert (first.episodes, first.steps) == (second.episodes, second.steps)
    if to == "csv":
        assert Path(names[0]).read_bytes() == Path(names[1]).read_bytes()


# --------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("to", "out", "said"),
    [
        ("parquet", "x", "choose minari, csv"),
        ("csv", "", "out is empty"),
        ("minari", "lake", "not a Minari id"),
        ("minari", "a b-v0", "not a Minari id"),
        ("minari", "a//b-v0", "not a Minari id"),
        ("minari", "./lake", "say ./lake-v0"),
    ],
)
def test_what_cannot_be_written_is_said(here: Path, to: Any, out: str, said: str) -> None:
    run = ending_run(here)
    before = everything(here)
    with pytest.raises(cg.BadInput, match=said):
        cg.export(run, to=to, out=out)
    assert everything(here) == before


def test_runs_without_episodes_are_refused(here: Path) -> None:
    with pytest.raises(cg.BadInput, match="is not a covgame run"):
        cg.export("nowhere", to="csv", out="x.csv")
    cg.cover("chain:states=3,horizon=4", "uniform:2/pair", play="counts", out="counted")
    with pytest.raises(cg.BadInput, match='play="counts"'):
        cg.export("counted", to="csv", out="x.csv")
    cg.cover("chain:states=3,horizon=4", "uniform:2/pair", max_episodes=0, out="none")
    with pytest.raises(cg.BadInput, match="no episodes yet"):
        cg.export("none", to="csv", out="x.csv")
    run = cg.cover("chain:states=3,horizon=4", "uniform:2/pair")
    with pytest.raises(cg.BadInput, match="say out="):
        cg.export(run, to="csv", out="x.csv")
    assert not Path("x.csv").exists()


# ------------------------------------------------------------------------------------- the command


@every_format
def test_the_command_says_what_it_wrote(here: Path, to: str, out: str) -> None:
    run = ending_run(here)
    answer = CliRunner().invoke(main, ["export", "run", "--to", to, "--out", out, "--json"])
    assert answer.exit_code == 0, answer.stderr
    said = json.loads(answer.stdout)
    assert said["episodes"] == run.n_episodes
    assert said["steps"] == len(steps_of(run))
    assert said["run"] == "run"
    assert os.path.normpath(said["out"]) == os.path.normpath(out)
    files = [Path(said["out"])] if to != "minari" else list(Path(said["out"]).rglob("*.*"))
    assert said["bytes"] == sum(path.stat().st_size for path in files if path.is_file())


def test_the_page_for_people(here: Path) -> None:
    ending_run(here)
    answer = CliRunner().invoke(main, ["export", "run", "--to", "csv", "--out", "a<b.csv"])
    assert answer.stdout.splitlines()[0].startswith("exported ")
    done = cg.export("run", to="csv", out="c<d.csv")
    assert "c&lt;d.csv" in done._repr_html_()


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--to", "csv"],
        ["run", "--out", "x"],
        ["run", "--to", "feather", "--out", "x"],
        ["nowhere", "--to", "csv", "--out", "x"],
    ],
)
def test_bad_input_exits_with_2(here: Path, words: list[str]) -> None:
    ending_run(here)
    answer = CliRunner().invoke(main, ["export", *words])
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert not Path("x").exists()


def test_discovered_states_are_counted_as_they_were_found(here: Path) -> None:
    from tests.runs import Corridor

    cg.cover(Corridor(), "uniform:3/pair", out="run")
    recording = Recording.of(RunFolder.open("run"))
    known = RunFolder.open("run").load_states()
    assert known is not None
    assert recording.shape.states == len(known[0]) == 5
    labels = recording.state_labels()
    assert labels is not None
    assert labels[0] == "(room, 0)"


def test_an_audit_of_the_export_says_what_one_of_the_run_does(here: Path) -> None:
    """What is written is what covgame itself reads from these formats."""
    pytest.importorskip("h5py")
    run, said = lake_run(here), []
    cg.export(run, to="csv", out="lake.csv")
    cg.export(run, to="minari", out="test/lake-v0")
    for data in ("run", "lake.csv", "minari:test/lake-v0"):
        found = cg.audit(data, "uniform:9/pair", env="gym:FrozenLake-v1").to_dict()
        said.append((found["episodes"], found["covered"], found["uncovered"]))
    assert said[0][0] == run.n_episodes
    assert said[0][2]
    assert said == [said[0]] * 3
