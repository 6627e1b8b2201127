"""Data that nobody meant: one sentence for each, never a crash, and nothing of others removed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.data import steps as steps_module
from covgame.data.dataset import Dataset, open_data
from covgame.errors import BadInput
from tests.rundb import arrays_of, set_arrays, set_config
from tests.steps import SMALL, Columns, changed, together, without, write
from tests.test_cli import covgame
from tests.test_other_formats import minari_columns, minari_metadata

GRID = "grid:rows=3,columns=3,horizon=6"


def with_column(name: str, values: Any) -> Columns:
    return {**SMALL, name: values}


# ------------------------------------------------------------------------------- tables

NESTED: dict[str, Callable[[int], Any]] = {
    "struct": lambda value: {"a": value},
    "lists": lambda value: [[value], [1]],
    "words": lambda value: [str(value), "x"],
    "ragged": lambda value: [1] * (value % 3),
}


@pytest.mark.parametrize("kind", NESTED)
def test_episodes_are_called_by_one_number_or_word(tmp_path: Path, kind: str) -> None:
    path = write(
        tmp_path / "steps.parquet", with_column("episode", [*map(NESTED[kind], SMALL["episode"])])
    )
    with pytest.raises(BadInput, match=r"row 0, column episode: .* is no name of an episode"):
        open_data(path)


def test_an_episode_without_a_name(tmp_path: Path) -> None:
    names = [None if row == 3 else f"e{number}" for row, number in enumerate(SMALL["episode"])]
    with pytest.raises(BadInput, match="row 3, column episode: it is empty"):
        open_data(write(tmp_path / "steps.parquet", with_column("episode", names)))


def test_truth_is_no_list(tmp_path: Path) -> None:
    values = [[1] * (row % 2) for row in range(len(SMALL["state"]))]
    with pytest.raises(BadInput, match=r"row 0, column truncated: .* is neither true nor false"):
        open_data(write(tmp_path / "steps.parquet", with_column("truncated", values)))


@pytest.mark.parametrize("kind", ["times", "pairs"])
def test_next_states_of_another_kind(tmp_path: Path, kind: str) -> None:
    states: Any = [[state, state] for state in SMALL["state"]]
    if kind == "times":
        states = pa.array(SMALL["state"], pa.timestamp("s"))
    with pytest.raises(BadInput, match="row 0, column next_state: it is of another kind than"):
        open_data(write(tmp_path / "steps.parquet", with_column("state", states)))


@pytest.mark.parametrize("column", ["action", "next_state", "terminated"])
def test_columns_that_stand_there_twice(tmp_path: Path, column: str) -> None:
    table = pa.table(SMALL)
    pq.write_table(table.append_column(column, table["stage"]), tmp_path / "steps.parquet")
    with pytest.raises(BadInput, match=f"has several columns {column}"):
        open_data(tmp_path / "steps.parquet")


def test_numbers_past_64_bits_are_not_taken_for_no_state(tmp_path: Path) -> None:
    last = len(SMALL["state"]) - 1
    huge = np.array(SMALL["next_state"], dtype=np.uint64)
    huge[last] = 2**64 - 1
    with pytest.raises(BadInput, match=f"row {last}, column next_state: {2**64 - 1} is too large"):
        open_data(write(tmp_path / "steps.parquet", with_column("next_state", huge)))


def test_half_precision_is_read_without_a_warning(tmp_path: Path) -> None:
    halves = np.array(SMALL["state"], dtype=np.float16)
    path = write(tmp_path / "steps.parquet", with_column("state", halves))
    assert together(open_data(path)) == SMALL


@pytest.mark.parametrize("column", ["state", "action"])
def test_a_huge_number_is_too_large_a_world(tmp_path: Path, column: str) -> None:
    columns = without(changed(column, 0, 2**62), "next_state")
    with pytest.raises(BadInput, match="this machine has"):
        cg.audit(write(tmp_path / "steps.parquet", columns), "uniform:1/pair")


def test_a_target_with_a_huge_number_and_a_label(tmp_path: Path) -> None:
    path = write(tmp_path / "steps.parquet", SMALL)
    with pytest.raises(BadInput, match="this machine has"):
        cg.audit(path, cg.cells([(None, 10**12, 0, 1), (None, "far", 0, 1)]))


def test_more_visits_than_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "steps.parquet", SMALL)
    with pytest.raises(BadInput, match="more than can be counted"):
        cg.audit(path, "uniform:1e308/transition")


def test_many_words_for_actions_take_no_time(tmp_path: Path) -> None:
    number = 60_000
    columns = {
        "episode": np.arange(number),
        "state": np.zeros(number, dtype=np.int64),
        "action": [f"a{i}" for i in range(number)],
    }
    data = open_data(write(tmp_path / "steps.parquet", columns))
    assert data.n_actions == number
    assert together(data)["action"] == list(range(number))


def test_text_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_bytes(b"state,action,done,\xff\n0,0,1,1\n")
    with pytest.raises(BadInput, match=r"steps\.csv cannot be read: "):
        open_data(tmp_path / "steps.csv")


def test_names_longer_than_files_have() -> None:
    for name in ("x" * 300, "minari:" + "x" * 300):
        done = covgame("audit", name, "--target", "uniform:1", "--env", GRID)
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no" in done.stderr


def test_a_folder_that_nobody_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(BadInput, match="cannot be read: Permission denied"):
        open_data(tmp_path)


# ------------------------------------------------------------------------------- shards


@pytest.mark.parametrize("column", ["next_state", "reward", "episode", "stage"])
@pytest.mark.parametrize("lacking", [0, 1])
def test_all_shards_say_the_same(tmp_path: Path, column: str, lacking: int) -> None:
    table = pa.table(SMALL)
    for number, part in enumerate((table.slice(0, 7), table.slice(7))):
        kept = part.drop_columns([column]) if number == lacking else part
        pq.write_table(kept, tmp_path / f"{number}.parquet")
    has, had = ("a", "none") if lacking == 0 else ("no", "one")
    with pytest.raises(
        BadInput, match=rf"1\.parquet has {has} column {column}, and the file before has {had}"
    ):
        open_data(tmp_path)


def test_episodes_by_words_and_by_numbers(tmp_path: Path) -> None:
    table = pa.table(SMALL)
    words = pa.array([f"e{number}" for number in SMALL["episode"]])
    pq.write_table(table.set_column(0, "episode", words).slice(0, 7), tmp_path / "0.parquet")
    pq.write_table(table.slice(7), tmp_path / "1.parquet")
    with pytest.raises(BadInput, match=r"1\.parquet, row 0, column episode: it is numbered"):
        open_data(tmp_path)


# ------------------------------------------------------------------------------- arrays


def test_wide_rows_come_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = minari(tmp_path / "good-v0")
    write(tmp_path / "steps.parquet", SMALL)
    monkeypatch.setattr(steps_module, "BYTES", 100)
    assert steps_module.rows_at_once(30) == 3
    assert steps_module.rows_at_once(1000) == 1
    chunks = list(open_data(folder)._reader.chunks())
    assert max(map(len, chunks)) <= 4
    assert together(open_data(tmp_path / "steps.parquet")) == SMALL


# ------------------------------------------------------------------------------- Minari


def minari(folder: Path, about: dict[str, Any] | None = None) -> Path:
    h5py = pytest.importorskip("h5py")
    minari_metadata(folder / "data", "hdf5")
    known = json.loads((folder / "data" / "metadata.json").read_text())
    (folder / "data" / "metadata.json").write_text(json.dumps(known | (about or {})))
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for number in range(4):
            for name, column in minari_columns(number).items():
                file[f"episode_{number}/{name}"] = column
    return folder


@pytest.mark.parametrize(
    "space",
    [
        {"type": "Discrete"},
        {"type": "Discrete", "n": "6", "start": 0},
        {"type": "Box", "shape": [1], "low": [0.0]},
        {"type": "Box", "dtype": "float64", "shape": [1], "low": "a", "high": [1]},
        {"type": "Box", "dtype": "float64", "shape": [10**9], "low": 0.0, "high": 1.0},
        {"type": "Sphere"},
        {},
        [],
        3,
    ],
)
def test_spaces_of_minari_that_are_none(tmp_path: Path, space: Any) -> None:
    with pytest.raises(BadInput, match=r"metadata\.json: observation_space is no space"):
        open_data(minari(tmp_path / "a-v0", {"observation_space": json.dumps(space)}))


def test_metadata_that_are_no_object(tmp_path: Path) -> None:
    folder = minari(tmp_path / "a-v0")
    (folder / "data" / "metadata.json").write_text("[]")
    with pytest.raises(BadInput, match="must be a JSON object"):
        open_data(folder)


@pytest.mark.parametrize("member", ["episode_1", "episode_1/rewards", "episode_1/actions"])
def test_other_things_in_the_places_of_arrays(tmp_path: Path, member: str) -> None:
    h5py = pytest.importorskip("h5py")
    folder = minari(tmp_path / "a-v0")
    with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
        del file[member]
        file[member] = 3
    with pytest.raises(BadInput, match=r"main_data\.hdf5"):
        open_data(folder)


def test_episodes_of_different_widths(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    folder = minari(tmp_path / "a-v0")
    with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
        seen = file["episode_1/observations"][()]
        del file["episode_1/observations"]
        file["episode_1/observations"] = np.stack([seen, seen], axis=1)
    with pytest.raises(BadInput, match="column observations: its entries are not all of one kind"):
        open_data(folder)


def test_an_export_is_read_as_the_run_itself(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    run = cg.cover(GRID, "uniform:2/pair", out=tmp_path / "run")
    cg.export(run, to="minari", out=tmp_path / "grid-v0")
    for env in (None, GRID):
        data, again = (
            cg.audit(tmp_path / name, "uniform:3/pair", env=env) for name in ("run", "grid-v0")
        )
        assert (again.combined.apart.visits == data.combined.apart.visits).all()
        assert again.shape == data.shape
        assert again.missing_episodes == data.missing_episodes
    more = cg.cover(GRID, "uniform:3/pair", start_from=tmp_path / "grid-v0")
    assert more.n_given == run.n_episodes


# ------------------------------------------------------------------------------- --from


def test_the_same_data_by_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cg.cover(GRID, "uniform:1/pair", out="run")
    (tmp_path / "link").symlink_to("run")
    for again in ("./run", "run/", str(tmp_path / "run"), "link"):
        with pytest.raises(BadInput, match="is named twice, and its visits"):
            cg.cover(GRID, "uniform:2/pair", start_from=["run", again])


def test_what_stands_in_the_folder_of_a_run_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "out" / "given" / "photos").mkdir(parents=True)
    (tmp_path / "out" / "given" / "photos" / "one.txt").write_text("mine")
    cg.cover(GRID, "uniform:1/pair", out=tmp_path / "run")
    cg.cover(GRID, "uniform:2/pair", start_from=tmp_path / "run", out=tmp_path / "out")
    assert (tmp_path / "out" / "given" / "photos" / "one.txt").read_text() == "mine"
    cg.certify(tmp_path / "out")


def test_copies_of_a_run_that_never_began_are_replaced(tmp_path: Path) -> None:
    cg.cover(GRID, "uniform:1/pair", out=tmp_path / "run")
    old = tmp_path / "out" / "given" / "00"
    old.mkdir(parents=True)
    for name in ("part-000000.parquet", "part-000009.parquet", ".part-000002.parquet.draft"):
        (old / name).write_bytes(b"half")
    cg.cover(GRID, "uniform:2/pair", start_from=tmp_path / "run", out=tmp_path / "out")
    assert {path.name for path in old.iterdir()} == {"part-000000.parquet", "part-000001.parquet"}
    cg.certify(tmp_path / "out")


def test_data_are_not_written_over_by_their_copies(tmp_path: Path) -> None:
    run = cg.cover(GRID, "uniform:1/pair", out=tmp_path / "run")
    shutil.copytree(tmp_path / "run" / "episodes", tmp_path / "out" / "given" / "00")
    with pytest.raises(BadInput, match="is where copies of the data go; choose another out"):
        cg.cover(
            GRID, "uniform:2/pair", start_from=tmp_path / "out" / "given" / "00",
            out=tmp_path / "out",
        )  # fmt: skip
    assert open_data(tmp_path / "out" / "given" / "00").n_episodes == run.n_episodes


def anything_goes(path: Path) -> str:
    """A model in which all steps of ``SMALL`` can happen, and stages differ."""
    ends = [0.2, 0.1, 0.1, 0.1]
    about = {
        "format": "covgame-mdp/1",
        "horizon": 4,
        "states": 5,
        "actions": 3,
        "initial": [0.2] * 5,
        "transitions": [
            [stage, state, action, there, end if there is None else (1 - end) / 5]
            for stage, end in enumerate(ends)
            for state in range(5)
            for action in range(3)
            for there in (*range(5), None)
        ],
    }
    path.write_text(json.dumps(about))
    return str(path)


@pytest.mark.parametrize("options", [{}, {"stage_dependent": True}])
def test_data_may_show_what_came_after_the_last_stage(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    name = anything_goes(tmp_path / "world.json")
    path = write(tmp_path / "steps.parquet", SMALL)
    assert max(SMALL["stage"]) == 3
    run = cg.cover(name, "uniform:4/pair", start_from=path, out=tmp_path / "out", **options)
    assert run.covered
    cg.certify(tmp_path / "out")


def test_data_that_change_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "steps.parquet", {**without(SMALL, "stage"), "reward": [0.0] * 13})
    world, count = anything_goes(tmp_path / "world.json"), Dataset.counts

    def somebody_writes(self: Dataset, *args: Any, **kwargs: Any) -> Any:
        found = count(self, *args, **kwargs)
        write(path, {name: column[:7] for name, column in without(SMALL, "stage").items()})
        return found

    monkeypatch.setattr(Dataset, "counts", somebody_writes)
    with pytest.raises(BadInput, match=r"steps\.parquet has changed while it was read"):
        cg.cover(world, "uniform:2/pair", start_from=path, out=tmp_path / "out")
    assert not (tmp_path / "out" / "run.db").exists()


# ----------------------------------------------------------------------- damaged runs


@pytest.mark.parametrize("visits", [None, np.zeros(3, dtype=np.int64), np.full((6, 9, 4), np.nan)])
@pytest.mark.parametrize("command", ["export", "certify"])
def test_counts_without_visits(tmp_path: Path, visits: Any, command: str) -> None:
    cg.cover(GRID, "uniform:1/pair", out=tmp_path / "run")
    found = arrays_of(tmp_path / "run")
    kept = {name: array for name, array in found.items() if name != "visits"}
    if visits is not None:
        kept["visits"] = visits
    set_arrays(tmp_path / "run", kept)
    more = ["--to", "csv", "--out", str(tmp_path / "x.csv")] if command == "export" else []
    done = covgame(command, str(tmp_path / "run"), *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the saved state is damaged (it has no visits)" in done.stderr
    assert not (tmp_path / "x.csv").exists()


def test_a_run_without_a_horizon(tmp_path: Path) -> None:
    cg.cover(GRID, "uniform:1/pair", out=tmp_path / "run")
    set_config(tmp_path / "run", horizon=-1)
    with pytest.raises(BadInput, match=r"run\.db is damaged: its horizon is -1"):
        cg.audit(tmp_path / "run", "uniform:1/pair")


# ---------------------------------------------------------------------------- exports


class Odd:
    """Its states have names that files cannot hold."""

    actions, horizon = 2, 3

    def reset(self) -> str:
        return "\ud800"

    def step(self, action: int) -> tuple[str, float, bool]:
        return ("\ud800" if action else "b"), 0.0, False


def test_half_a_character_in_a_name(tmp_path: Path) -> None:
    run = cg.cover(Odd, "uniform:1/pair", out=tmp_path / "run")
    cg.export(run, to="csv", out=tmp_path / "steps.csv")
    assert "\\ud800" in (tmp_path / "steps.csv").read_text()


def test_parts_of_observations_with_odd_names(tmp_path: Path) -> None:
    gym = pytest.importorskip("gymnasium")

    class Parts(gym.Env):  # type: ignore[misc, name-defined]
        action_space = gym.spaces.Discrete(2)
        observation_space = gym.spaces.Dict({"a/b": gym.spaces.Discrete(3)})

        def reset(self, **_: Any) -> Any:
            return {"a/b": 0}, {}

        def step(self, action: int) -> Any:
            return {"a/b": 1 + int(action)}, 0.0, False, False, {}

    env = cg.make(Parts(), horizon=2)
    run = cg.cover(env, "uniform:1/pair", out=tmp_path / "run", keep_observations=True)
    with pytest.raises(BadInput, match=r"'a/b' of the observations .* HDF5, and so Minari"):
        cg.export(run, to="minari", out=tmp_path / "steps-v0")
    cg.export(run, to="csv", out=tmp_path / "steps.csv")
    assert "observation_a/b" in (tmp_path / "steps.csv").read_text().splitlines()[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "steps.csv"]
