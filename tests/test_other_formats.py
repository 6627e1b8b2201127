"""Minari datasets, in both layouts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import covgame as cg
from covgame.data.dataset import Numbering, open_data
from covgame.errors import BadInput
from covgame.sources.states import DiscoveredStates
from tests.steps import ORDER, SMALL, together

minari = pytest.importorskip("minari")


@pytest.mark.parametrize("name", ["observations", "actions"])
def test_hdf5_that_would_fill_the_memory(name: str, tmp_path: Path) -> None:
    """An array of a billion numbers of which none was ever written."""
    h5py = pytest.importorskip("h5py")
    minari_metadata(tmp_path / "bomb-v0" / "data", "hdf5")
    with h5py.File(tmp_path / "bomb-v0" / "data" / "main_data.hdf5", "w") as file:
        group = file.create_group("episode_0")
        for other, column in minari_columns(0).items():
            if other != name:
                group[other] = column
        group.create_dataset(name, (10**9,), "f8", chunks=(1000,))
    with pytest.raises(BadInput, match=r"main_data\.hdf5 has .* unpacks to 8,000,000,000"):
        open_data(tmp_path / "bomb-v0")


def minari_columns(number: int) -> dict[str, Any]:
    rows = np.flatnonzero(np.array(SMALL["episode"]) == number)
    picked = {name: np.array(SMALL[name])[rows] for name in ORDER}
    seen = np.append(picked["state"], picked["next_state"][-1])
    return {
        "observations": seen,
        "actions": picked["action"],
        "rewards": picked["reward"],
        "terminations": picked["terminated"],
        "truncations": picked["truncated"],
    }


def minari_metadata(folder: Path, data_format: str) -> None:
    folder.mkdir(parents=True)
    space = {"type": "Discrete", "dtype": "int64", "start": 0}
    about = {
        "data_format": data_format,
        "observation_space": json.dumps(space | {"n": 6}),
        "action_space": json.dumps(space | {"n": 3}),
    }
    (folder / "metadata.json").write_text(json.dumps(about))


def test_minari_in_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    folder = tmp_path / "corridor" / "test-v0" / "data"
    minari_metadata(folder, "arrow")
    for number in range(4):
        columns = minari_columns(number)
        for name in ("actions", "rewards", "terminations", "truncations"):
            columns[name] = np.append(columns[name], columns[name][:1] * 0)
        (folder / str(number)).mkdir()
        batch = pa.RecordBatch.from_pydict(columns)
        with pa.ipc.new_file(folder / str(number) / "part-0.arrow", batch.schema) as file:
            file.write_batch(batch)
    for name in ("minari:corridor/test-v0", "corridor/test-v0", str(tmp_path / "corridor/test-v0")):
        data = open_data(name)
        assert together(data) == SMALL
        assert (data.n_states, data.n_actions) == (6, 3)


def test_tuples_in_arrow_are_tuples_again(tmp_path: Path) -> None:
    folder = tmp_path / "cards-v0" / "data"
    minari_metadata(folder, "arrow")
    (folder / "0").mkdir()
    seen = [{"0": 11, "1": {"suit": "a"}}, {"0": 12, "1": {"suit": "b"}}]
    columns = {"observations": seen, "actions": [1, 0], "rewards": [0.0, 0.0]}
    ends = {"terminations": [True, False], "truncations": [False, False]}
    batch = pa.RecordBatch.from_pydict(columns | ends)
    with pa.ipc.new_file(folder / "0" / "part-0.arrow", batch.schema) as file:
        file.write_batch(batch)
    states = DiscoveredStates()
    assert states.index((12, {"suit": "b"})) == 0
    data = open_data(tmp_path / "cards-v0", numbering=Numbering(states))
    assert together(data)["next_state"] == [0]
    assert together(data)["state"] == [1]


def test_minari_in_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    minari_metadata(tmp_path / "test-v0" / "data", "hdf5")
    with h5py.File(tmp_path / "test-v0" / "data" / "main_data.hdf5", "w") as file:
        for number in range(4):
            for name, column in minari_columns(number).items():
                file[f"episode_{number}/{name}"] = column
    assert together(open_data(tmp_path / "test-v0")) == SMALL


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari_metadata(tmp_path / "test-v0" / "data", "hdf5")
    (tmp_path / "test-v0" / "data" / "main_data.hdf5").write_bytes(b"x")
    for name in ("minari.serialization", "h5py"):
        with monkeypatch.context() as context:
            context.setitem(sys.modules, name, None)
            with pytest.raises(BadInput, match=r'pip install "covgame\[minari\]"'):
                open_data(tmp_path / "test-v0")
    with pytest.raises(BadInput, match=r"no Minari dataset x/y-v0 .* minari download x/y-v0"):
        open_data("minari:x/y-v0")


def test_ids_are_read_and_written_below_one_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run = cg.cover("chain:states=3,horizon=4", "uniform:1/pair", out="run")
    for root in (None, str(tmp_path / "elsewhere"), "beside"):
        if root is None:
            monkeypatch.delenv("MINARI_DATASETS_PATH", raising=False)
        else:
            monkeypatch.setenv("MINARI_DATASETS_PATH", root)
        done = cg.export(run, to="minari", out="test/chain-v0")
        expected = tmp_path / "home" / ".minari" / "datasets" if root is None else Path(root)
        assert Path(done.out) == expected / "test" / "chain-v0"
        assert open_data("minari:test/chain-v0").n_episodes == run.n_episodes
        assert len(minari.load_dataset("test/chain-v0")) == run.n_episodes


def test_an_empty_root_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minari itself fails on it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", "")
    run = cg.cover("chain:states=3,horizon=4", "uniform:1/pair", out="run")
    with pytest.raises(BadInput, match="MINARI_DATASETS_PATH is empty"):
        cg.export(run, to="minari", out="test/chain-v0")
    with pytest.raises(BadInput, match="MINARI_DATASETS_PATH is empty"):
        open_data("minari:test/chain-v0")
    with pytest.raises(BadInput, match=r"there is no steps\.csv"):
        open_data("steps.csv")
    cg.export(run, to="minari", out="./chain-v0")
    assert open_data("chain-v0").n_episodes == run.n_episodes
