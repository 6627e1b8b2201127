"""Datasets of other people's tools: d3rlpy's arrays and Minari's two layouts."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from covgame import memory
from covgame.data import d3rlpy_data
from covgame.data import steps as steps_module
from covgame.data.dataset import Numbering, open_data
from covgame.errors import BadInput
from covgame.sources.states import DiscoveredStates
from tests.steps import ORDER, SMALL, arrays, together
from tests.test_cli import covgame


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("size", [4, 1000])
def test_d3rlpy_arrays(
    tmp_path: Path, save: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_module, "BATCH", size)
    save(tmp_path / "d.npz", **arrays())
    found = together(open_data(tmp_path / "d.npz"))
    for name in ("episode", "stage", "state", "action", "terminated", "truncated"):
        assert found[name] == SMALL[name]
    assert np.allclose(found["reward"], SMALL["reward"])


def test_d3rlpy_observations_by_a_map(tmp_path: Path) -> None:
    content = arrays()
    content["observations"] = np.column_stack([np.array(SMALL["state"]) + 0.2, np.zeros(13)])
    np.savez(tmp_path / "d.npz", **content)
    data = open_data(tmp_path / "d.npz", states="bins:5[0,5]x1[0,1]")
    names = data.names.states
    assert names is not None
    assert [names[s] for s in together(data)["state"]] == [f"({s}, 0)" for s in SMALL["state"]]


def zeros(steps: int) -> dict[str, Any]:
    ends = np.arange(steps) % 20 == 19
    still = np.zeros(steps, dtype=np.int64)
    return {"observations": still[:, None], "actions": still, "terminals": ends}


def test_archives_that_unpack_to_far_more_than_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "zeros.npz", **zeros(600_000))
    assert (tmp_path / "zeros.npz").stat().st_size < 40_000
    assert open_data(tmp_path / "zeros.npz").n_steps == 600_000  # small enough whatever it is
    np.savez(tmp_path / "plain.npz", **zeros(600_000))
    monkeypatch.setattr(memory, "ALWAYS_UNPACKED", 10**6)
    assert open_data(tmp_path / "plain.npz").n_steps == 600_000

    def read(*_: Any) -> None:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr(d3rlpy_data, "_Stream", read)
    with pytest.raises(BadInput, match=r"zeros\.npz has .* unpacks to 10,200,384"):
        open_data(tmp_path / "zeros.npz")


def test_an_archive_that_would_fill_the_memory(tmp_path: Path) -> None:
    """By what it says of itself; it takes no longer to refuse than any other."""
    np.savez_compressed(tmp_path / "bomb.npz", **zeros(1000))
    content = bytearray((tmp_path / "bomb.npz").read_bytes())
    entry = content.index(b"PK\x01\x02")  # of the directory at its end
    struct.pack_into("<I", content, entry + 24, 1_600_000_000)
    (tmp_path / "bomb.npz").write_bytes(content)
    done = covgame("audit", str(tmp_path / "bomb.npz"), "--target", "uniform:1/pair")
    assert (done.returncode, done.stdout) == (2, "")
    assert "more than 400 times as many" in done.stderr


@pytest.mark.parametrize("name", ["observations", "actions_0"])
def test_hdf5_that_would_fill_the_memory(name: str, tmp_path: Path) -> None:
    """An array of a billion numbers of which none was ever written."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        if name == "actions_0":
            file["num_episodes"], file["observations_0"] = 1, np.zeros((4, 1))
        else:
            file["actions"] = file["terminals"] = np.zeros(4)
        file.create_dataset(name, (10**9, 1), "f8", chunks=(1000, 1))
    with pytest.raises(BadInput, match=r"bomb\.h5 has .* unpacks to 8,000,000,000"):
        open_data(tmp_path / "bomb.h5")


def test_d3rlpy_dumps(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "old.h5", "w") as file:
        for name, array in arrays().items():
            if name != "timeouts":
                file[name] = array
        file["episode_terminals"] = arrays()["terminals"] + arrays()["timeouts"]
    with h5py.File(tmp_path / "new.h5", "w") as file:
        file["columns"] = [b"observations", b"actions", b"rewards", b"terminated"]
        file["num_episodes"], file["version"] = 4, "2.1"
        for number in range(4):
            rows = np.array(SMALL["episode"]) == number
            for name in ("observations", "actions", "rewards"):
                file[f"{name}_{number}"] = arrays()[name][rows]
            file[f"terminated_{number}"] = bool(number % 2 == 0)
    for name in ("old.h5", "new.h5"):
        found = together(open_data(tmp_path / name))
        for column in ("episode", "stage", "state", "action", "terminated"):
            assert found[column] == SMALL[column]
        # The newer format says only that an episode did not terminate, not who ended it.
        assert found["truncated"] == (SMALL["truncated"] if name == "old.h5" else [False] * 13)


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
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    (tmp_path / "d.h5").write_bytes(b"x")
    with pytest.raises(BadInput, match=r'pip install "covgame\[minari\]"'):
        open_data(tmp_path / "d.h5")
    with pytest.raises(BadInput, match=r"no Minari dataset x/y-v0 .* minari download x/y-v0"):
        open_data("minari:x/y-v0")
